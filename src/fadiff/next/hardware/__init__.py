"""Machines: a list of memories and axes, from the outermost memory to the multipliers."""

from fadiff.next.hardware.machine import Axis, Bits, Machine, MachineError, Memory, Node, Structure

__all__ = ["Axis", "Bits", "Machine", "MachineError", "Memory", "Node", "Structure"]
