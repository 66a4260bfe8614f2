"""The numbers of a machine as arrays: what the cost model reads, and what a hardware search takes gradients of."""

from math import inf
from typing import Any, NamedTuple

import numpy as np

from fadiff.hardware.machine import Machine


class MachineArrays(NamedTuple):
    """All numbers of a machine, float64: a pytree, so that gradients can reach every one of them.

    Shapes: `[axes]` and `[memories]`, outermost first. What a machine does not limit is infinite. Leaves are NumPy
    arrays from :func:`pack_machine`, or whatever array a program replaces them by.
    """

    lanes: Any
    """`[axes]` lanes of each axis."""
    usable_bytes: Any
    """`[memories]` bytes that one instance may be filled with; infinite for the first memory."""
    word_bits: Any
    """`[memories]` bits of a word."""
    words_per_cycle: Any
    """`[memories]` words read and written together in a cycle, by one instance."""
    read_words_per_cycle: Any
    """`[memories]` words read in a cycle, by one instance."""
    write_words_per_cycle: Any
    """`[memories]` words written in a cycle, by one instance."""
    read_pj: Any
    """`[memories]` energy of reading a word."""
    write_pj: Any
    """`[memories]` energy of writing a word."""
    mac_pj: Any
    """Energy of a multiplication with its addition."""
    bits_w: Any
    """Bits of a weight."""
    bits_i: Any
    """Bits of an input value."""
    bits_o: Any
    """Bits of a finished output value."""
    bits_sums: Any
    """Bits of a sum on chip."""
    bits_spilled: Any
    """Bits of an unfinished sum in the first memory."""
    serial: Any
    """1 where transfers of the first memory do not hide behind work (`overlap` none), else 0."""


def pack_machine(machine: Machine) -> MachineArrays:
    """The numbers of a machine as NumPy float64 arrays."""
    memories = machine.memories

    def of_memories(values: list[float | None]) -> np.ndarray:
        return np.array([inf if value is None else value for value in values], dtype=np.float64)

    return MachineArrays(
        lanes=np.array([axis.size for axis in machine.axes], dtype=np.float64),
        usable_bytes=of_memories([memory.usable_bytes for memory in memories]),
        word_bits=of_memories([memory.word_bits for memory in memories]),
        words_per_cycle=of_memories([memory.words_per_cycle for memory in memories]),
        read_words_per_cycle=of_memories([memory.read_words_per_cycle for memory in memories]),
        write_words_per_cycle=of_memories([memory.write_words_per_cycle for memory in memories]),
        read_pj=of_memories([memory.read_pj for memory in memories]),
        write_pj=of_memories([memory.write_pj for memory in memories]),
        mac_pj=np.float64(machine.mac_pj),
        bits_w=np.float64(machine.bits.W),
        bits_i=np.float64(machine.bits.I),
        bits_o=np.float64(machine.bits.O),
        bits_sums=np.float64(machine.bits.sums),
        bits_spilled=np.float64(machine.bits.spilled),
        serial=np.float64(machine.overlap == "none"),
    )
