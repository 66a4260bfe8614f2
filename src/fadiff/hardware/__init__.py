"""Accelerators: the value, the built-in configurations, and the energy of an access to on-chip memory."""

from fadiff.hardware.machine import Hardware, HardwareError, Picojoules, WordsPerCycle

__all__ = ["Hardware", "HardwareError", "Picojoules", "WordsPerCycle"]
