"""Machines: a list of memories and axes, from the outermost memory to the multipliers."""

from fadiff.hardware.area_model import Area, area_by_node_mm2, leakage_mw, machine_area, sram_mm2
from fadiff.hardware.arrays import MachineArrays, pack_machine
from fadiff.hardware.energy_model import row_bits, sram_pj_per_byte, word_pj
from fadiff.hardware.file import MachineFile, builtin_machines, load_machine, read_hardware, read_machine
from fadiff.hardware.gemmini import GemminiModel
from fadiff.hardware.machine import Axis, Bits, Machine, MachineError, Memory, Node, Structure, Vector
from fadiff.hardware.machine_json import MachineModel, machine_to_json
from fadiff.hardware.space import FreeNumber, Space
from fadiff.hardware.space_file import read_space

__all__ = [
    "Area",
    "Axis",
    "Bits",
    "FreeNumber",
    "GemminiModel",
    "Machine",
    "MachineArrays",
    "MachineError",
    "MachineFile",
    "MachineModel",
    "Memory",
    "Node",
    "Space",
    "Structure",
    "Vector",
    "area_by_node_mm2",
    "builtin_machines",
    "leakage_mw",
    "load_machine",
    "machine_area",
    "machine_to_json",
    "pack_machine",
    "read_hardware",
    "read_machine",
    "read_space",
    "row_bits",
    "sram_mm2",
    "sram_pj_per_byte",
    "word_pj",
]
