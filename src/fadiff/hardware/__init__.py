"""Machines: a list of memories and axes, from the outermost memory to the multipliers."""

from fadiff.hardware.arrays import MachineArrays, pack_machine
from fadiff.hardware.drawing import NodeLine, draw_machine, fusion_sentence, machine_lines
from fadiff.hardware.energy_model import row_bits, sram_pj_per_byte, word_pj
from fadiff.hardware.file import MachineFile, builtin_machines, describe_machine, load_machine, read_machine
from fadiff.hardware.gemmini import GemminiModel
from fadiff.hardware.machine import Axis, Bits, Machine, MachineError, Memory, Node, Structure
from fadiff.hardware.machine_json import MachineModel, machine_to_json

__all__ = [
    "Axis",
    "Bits",
    "GemminiModel",
    "Machine",
    "MachineArrays",
    "MachineError",
    "MachineFile",
    "MachineModel",
    "Memory",
    "Node",
    "NodeLine",
    "Structure",
    "builtin_machines",
    "describe_machine",
    "draw_machine",
    "fusion_sentence",
    "load_machine",
    "machine_lines",
    "machine_to_json",
    "pack_machine",
    "read_machine",
    "row_bits",
    "sram_pj_per_byte",
    "word_pj",
]
