"""Accelerators: the value, the built-in configurations, and the energy of an access to on-chip memory."""

from fadiff.hardware.energy_model import l1_pj, l2_pj, sram_pj_per_byte
from fadiff.hardware.file import HardwareModel, builtin_hardware, hardware_to_json, load_hardware
from fadiff.hardware.machine import Hardware, HardwareError, Picojoules, WordsPerCycle

__all__ = [
    "Hardware",
    "HardwareError",
    "HardwareModel",
    "Picojoules",
    "WordsPerCycle",
    "builtin_hardware",
    "hardware_to_json",
    "l1_pj",
    "l2_pj",
    "load_hardware",
    "sram_pj_per_byte",
]
