"""The numbers of a machine as arrays: what the cost model reads, and what a hardware search takes gradients of."""

from math import inf
from typing import Any, NamedTuple

import numpy as np

from fadiff.hardware.machine import RATES, Machine


class MachineArrays(NamedTuple):
    """All numbers of a machine, float64: a pytree, so that gradients can reach every one of them.

    Shapes: `[axes]` and `[memories]`, outermost first. What a machine does not limit is infinite. Leaves are NumPy
    arrays from :func:`pack_machine`, or whatever array a program replaces them by.
    """

    lanes: Any
    """`[axes]` lanes of each axis."""
    bytes: Any
    """`[memories]` bytes of one instance; infinite for the first memory."""
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
    vector_lanes: Any
    """Operations that the vector unit does in a cycle; infinite where there is none to wait for."""
    vector_pj: Any
    """Energy of such an operation."""
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

    def of_memories(what: str) -> np.ndarray:
        values = [getattr(memory, what) for memory in machine.memories]
        return np.array([inf if value is None else value for value in values], dtype=np.float64)

    return MachineArrays(
        lanes=np.array([axis.size for axis in machine.axes], dtype=np.float64),
        **{what: of_memories(what) for what in ("bytes", "usable_bytes", "word_bits", *RATES, "read_pj", "write_pj")},
        mac_pj=np.float64(machine.mac_pj),
        vector_lanes=np.float64(inf if machine.vector is None else machine.vector.lanes),
        vector_pj=np.float64(0 if machine.vector is None else machine.vector.pj),
        **{f"bits_{tensor.lower()}": np.float64(bits) for tensor, bits in vars(machine.bits).items()},
        serial=np.float64(machine.overlap == "none"),
    )
