r"""Area of a machine on chip, in mm2 of 40 nm, as a smooth function of its numbers; and what its SRAMs leak.

**SRAM.** A network (:mod:`fadiff.hardware.sram_network`), trained on the same table as the energy of an access, maps
the capacity of one instance and the width of its rows to its area. It increases with both. Above the table's 8 MB area
is proportional to the capacity: cells are most of it. Below 1 KB it follows the square root, since there decoders and
amplifiers are, and these grow with the side of an array:

.. math::
    a(c) = a(1\,KB)\,(c / 1\,KB)^{1/2}, \qquad a(c) = a(8\,MB)\, c / 8\,MB

**Flip-flops.** A memory so small that flip-flops take less area is made of them: c bytes take 8 c * 5 um2.

**Multipliers.** Each has a multiplier of W x I bits and an adder of the sums' bits:

.. math:: um^2 = 3.5\, bits_W\, bits_I + 3.4\, bits_{sums}

A lane of the vector unit counts as one of them. The first memory is not on the chip. Wires between nodes, control and
registers of pipelines are left out.
"""

from __future__ import annotations

from functools import reduce
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fadiff.hardware.arrays import MachineArrays, pack_machine
from fadiff.hardware.energy_model import moved_bits
from fadiff.hardware.machine import RATES
from fadiff.hardware.sram_network import Number, sram

if TYPE_CHECKING:
    from fadiff.hardware.machine import Machine, Structure

BELOW, ABOVE = 0.5, 1.0
"""Powers of the capacity that area follows below and above the table."""
LEAKAGE_EXPONENT = 1.0
"""The same of leakage, on both sides."""
FLIP_FLOP_UM2 = 5.0
"""Area of a bit in a flip-flop: 4.52 um2 (DFF_X1 of NanGate's open 45 nm library) * (40/45)^2 at a density of 0.7."""
MULTIPLIER_UM2, ADDER_UM2 = 3.5, 3.4
"""Area of a multiplier over the product of its operands' bits, and of an adder over its bits: (40/45)^2 of the 282 um2
of an 8-bit multiplier and the 137 um2 of a 32-bit adder at 45 nm (Horowitz, ISSCC 2014)."""
MM2_PER_UM2 = 1e-6


class Area(NamedTuple):
    """Area in mm2 by part, all instances together; arrays where the numbers of a machine are."""

    memories: tuple[Any, ...]
    """Of each memory, outermost first; 0 for the first, which is not on the chip."""
    macs: Any
    vector: Any

    @property
    def total(self) -> Any:  # noqa: ANN401  (a number, or an array of any namespace)
        """The whole chip."""
        return reduce(lambda a, b: a + b, self.memories) + self.macs + self.vector


def sram_mm2(capacity_bytes: Number, width_bits: Number | float, xp: ModuleType = np) -> Number:
    """Area in mm2 of an SRAM of this capacity and row width.

    >>> print(f"{sram_mm2(524288.0, 128.0):.2f} mm2")
    1.34 mm2
    """
    return sram("area", capacity_bytes, width_bits, xp, below=BELOW, above=ABOVE)


def memory_mm2(capacity_bytes: Number, width_bits: Number | float, xp: ModuleType = np) -> Number:
    """Area in mm2 of one instance of a memory: an SRAM, or flip-flops where these are smaller.

    >>> print(f"{1e6 * memory_mm2(1.0, 8.0):.0f} um2 for a register of a byte")
    40 um2 for a register of a byte
    """
    return xp.minimum(sram_mm2(capacity_bytes, width_bits, xp), _flip_flops_mm2(capacity_bytes))


def sram_leakage_mw(capacity_bytes: Number, width_bits: Number | float, xp: ModuleType = np) -> Number:
    """Standing power in mW of an SRAM of high-performance transistors: subthreshold and gate leakage.

    >>> print(f"{sram_leakage_mw(524288.0, 128.0):.0f} mW")
    328 mW
    """
    return sram("leakage", capacity_bytes, width_bits, xp, below=LEAKAGE_EXPONENT, above=LEAKAGE_EXPONENT)


def area(structure: Structure, numbers: MachineArrays, xp: ModuleType = np) -> Area:
    """The area of machines of one structure; the shape of each part is that of one number."""
    memories = [
        _instances(structure, numbers, node) * memory_mm2(numbers.bytes[i], _width_bits(numbers, i, xp), xp)
        for i, node in enumerate(structure.memories)
        if i > 0
    ]
    mac_um2 = MULTIPLIER_UM2 * numbers.bits_w * numbers.bits_i + ADDER_UM2 * numbers.bits_sums
    vector_lanes = xp.where(xp.isinf(xp.asarray(numbers.vector_lanes)), 0.0, numbers.vector_lanes)
    macs = _instances(structure, numbers, len(structure.keeps)) * mac_um2 * MM2_PER_UM2
    return Area((0.0, *memories), macs, vector_lanes * mac_um2 * MM2_PER_UM2)


def machine_area(machine: Machine) -> Area:
    """The area of a machine.

    >>> from fadiff.hardware import load_machine
    >>> print(f"{machine_area(load_machine('gemmini-large')).total:.2f} mm2")
    1.91 mm2
    """
    found = area(machine.structure, pack_machine(machine))
    return Area(tuple(map(float, found.memories)), float(found.macs), float(found.vector))


def area_by_node_mm2(machine: Machine) -> dict[str, float]:
    """Area by node that is on the chip: each memory below the first, `mac`, and `vector` if there is one."""
    found = machine_area(machine)
    memories = {memory.name: mm2 for memory, mm2 in zip(machine.memories, found.memories, strict=True)}
    del memories[machine.memories[0].name]
    return {**memories, "mac": found.macs, **({} if machine.vector is None else {"vector": found.vector})}


def leakage_mw(machine: Machine) -> float:
    """What the SRAMs of a machine leak; what is made of flip-flops, and the multipliers, is not known."""
    numbers, total = pack_machine(machine), 0.0
    for i, node in enumerate(machine.structure.memories):
        if i > 0:
            size_bytes, width_bits = float(numbers.bytes[i]), float(_width_bits(numbers, i, np))
            if float(sram_mm2(size_bytes, width_bits)) < _flip_flops_mm2(size_bytes):
                total += machine.instances(node) * float(sram_leakage_mw(size_bytes, width_bits))
    return total


def _flip_flops_mm2(capacity_bytes: Number) -> Number:
    return capacity_bytes * (8 * FLIP_FLOP_UM2 * MM2_PER_UM2)


def _width_bits(numbers: MachineArrays, memory: int, xp: ModuleType) -> Any:  # noqa: ANN401  (an array of xp)
    return moved_bits(numbers.word_bits[memory], [getattr(numbers, rate)[memory] for rate in RATES], xp)


def _instances(structure: Structure, numbers: MachineArrays, node: int) -> Any:  # noqa: ANN401  (a number or an array)
    """How often a node is there: the product of the axes above it."""
    above = [lanes for axis, lanes in zip(structure.axes, numbers.lanes, strict=True) if axis < node]
    return reduce(lambda a, b: a * b, above, 1.0)
