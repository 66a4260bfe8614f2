r"""A space of machines: one structure, some of whose numbers are free within ranges.

Every number that varies is a product of free numbers, so that its logarithm is linear in theirs, which a search moves:

.. math:: f = c \prod_i x_i^{e_i}, \qquad \ln f = \ln c + \sum_i e_i \ln x_i

The energy of an access to a memory follows from its size, by the law that its file states or else by the network's, and
so does all area.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor, log, log2, prod
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fadiff.hardware.area_model import area, machine_area
from fadiff.hardware.arrays import MachineArrays, pack_machine
from fadiff.hardware.energy_model import LinearEnergy, moved_bits, network_pj, row_bits, word_pj
from fadiff.hardware.machine import RATES, Machine, Memory
from fadiff.hardware.sram_network import WIDTH_BITS

if TYPE_CHECKING:
    from fadiff.hardware.machine import Node

Field = Literal["size", "bytes", "words_per_cycle", "read_words_per_cycle", "write_words_per_cycle"]
BINARY_DIGITS = 5
"""Digits of a number that is free to be any: 16 to 31 times a power of two, so that steps are 3% to 6%."""
HAIR = 1e-9
"""What rounding of floating point may take from a whole number."""

Values = tuple[float, ...]
"""One value for each free number."""


@dataclass(frozen=True)
class FreeNumber:
    """A number between `low` and `high`, and which of these can be built."""

    name: str
    """As its file calls it: `scratchpad.bytes`, `cols.size`."""
    unit: str
    """lanes, bytes, words/cycle or bytes/s; empty where the file does not tell."""
    low: float
    high: float
    whole: bool
    """Whether only whole numbers can be built: bytes and lanes."""
    powers_of: int | None = None
    """Only powers of this."""
    step: float | None = None
    """Only so many steps above `low`."""

    def rounded(self, value: float) -> float:
        """The buildable value that is nearest (as a ratio).

        >>> FreeNumber("cols.size", "lanes", 8, 128, whole=True, powers_of=2).rounded(23)
        32.0
        >>> FreeNumber("sram.bytes", "bytes", 1024, 1048576, whole=True).rounded(100_000)
        98304.0
        """
        value = min(max(value, self.low), self.high)
        below, above = self._around(value)
        return min((below, above), key=lambda near: (abs(log(near / value)), near))

    def next(self, value: float, way: Literal[1, -1]) -> float | None:
        """The next larger (or smaller) buildable value; None beyond the range."""
        nudged = value * (1 + way * 1e-6)
        if not self.low <= nudged <= self.high:
            return None
        below, above = self._around(nudged)
        found = above if way > 0 else below
        return found if (found - value) * way > 0 else None

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest buildable value."""
        return self.rounded(self.low), self.rounded(self.high)

    @property
    def count(self) -> int | None:
        """How many values can be built; None where any number within the range can."""
        if self.powers_of is not None:
            return round(log(self.ends[1] / self.ends[0]) / log(self.powers_of)) + 1
        return None if self.step is None else floor((self.high - self.low) / self.step + HAIR) + 1

    def _around(self, value: float) -> tuple[float, float]:
        """The buildable values on both sides of one within the range; the same twice where there is only one."""
        if self.powers_of is not None:
            power = log(value) / log(self.powers_of)
            first = ceil(log(self.low) / log(self.powers_of) - HAIR)
            last = floor(log(self.high) / log(self.powers_of) + HAIR)
            below, above = (min(max(n, first), last) for n in (floor(power + HAIR), ceil(power - HAIR)))
            return float(self.powers_of**below), float(self.powers_of**above)
        if self.step is not None:
            steps, most = (value - self.low) / self.step, floor((self.high - self.low) / self.step + HAIR)
            below, above = (min(n, most) for n in (floor(steps + HAIR), ceil(steps - HAIR)))
            return self.low + below * self.step, self.low + above * self.step
        unit = 2.0 ** (floor(log2(value) + HAIR) - (BINARY_DIGITS - 1))
        unit = max(unit, 1.0) if self.whole else unit
        below, above = floor(value / unit + HAIR) * unit, ceil(value / unit - HAIR) * unit
        return max(below, self.low), min(above, self.high)


@dataclass(frozen=True)
class Product:
    """c * product of free numbers to whole powers."""

    coefficient: float
    powers: tuple[tuple[int, int], ...] = ()
    """Places of free numbers in the space, and their exponents, none of them 0."""

    def of(self, values: Sequence[float]) -> float:
        """Its value."""
        return self.coefficient * prod(values[i] ** e for i, e in self.powers)

    def log(self, logs: Any) -> Any:  # noqa: ANN401  (numbers, or arrays of any namespace)
        """The logarithm of its value, from those of the free numbers."""
        return sum((e * logs[i] for i, e in self.powers), log(self.coefficient))

    def times(self, other: Product, exponent: int) -> Product:
        """The product with a power of another one."""
        powers = dict(self.powers)
        for i, e in other.powers:
            powers[i] = powers.get(i, 0) + exponent * e
        kept = tuple(sorted((i, e) for i, e in powers.items() if e))
        return Product(self.coefficient * other.coefficient**exponent, kept)


@dataclass(frozen=True)
class Varied:
    """A number of a node that is not the same in all machines of a space."""

    node: int
    field: Field
    product: Product


@dataclass(frozen=True)
class Follows:
    """An energy of a memory that follows from its size."""

    node: int
    field: Literal["read_pj", "write_pj"]
    law: LinearEnergy | None = None
    """None: the network's."""
    row_bits: Product | None = None
    """Width of its rows, where the file states it; else what it moves in a cycle."""


@dataclass(frozen=True)
class Space:
    """Machines of one structure; `machine` is one of them, and has all that does not vary."""

    name: str
    numbers: tuple[FreeNumber, ...]
    machine: Machine
    varied: tuple[Varied, ...]
    follows: tuple[Follows, ...]

    def rounded(self, values: Sequence[float]) -> Values:
        """The nearest values that can be built, each on its own."""
        return tuple(number.rounded(value) for number, value in zip(self.numbers, values, strict=True))

    def at(self, values: Sequence[float], name: str | None = None) -> Machine:
        """The machine of these values; bytes and lanes that follow from them are rounded down."""
        nodes = list(self.machine.nodes)
        for varied in self.varied:
            value = varied.product.of(values)
            if varied.field in ("size", "bytes"):
                value = max(1, floor(value * (1 + HAIR)))
            nodes[varied.node] = replace(nodes[varied.node], **{varied.field: value})
        for energy in self.follows:
            nodes[energy.node] = _with_energy(nodes[energy.node], energy, values)
        return replace(self.machine, name=self.name if name is None else name, nodes=tuple(nodes))

    def arrays(self, logs: Any, xp: ModuleType = np) -> MachineArrays:  # noqa: ANN401  (arrays of xp)
        """The numbers of the machines at some logarithms of the free numbers, ``[numbers, ...]``; nothing is rounded.

        Leaves that belong to nodes are tuples, one array a node, so that each has only the axes that it needs.
        """
        fixed, structure = pack_machine(self.machine), self.machine.structure
        of_memory = {node: i for i, node in enumerate(structure.memories)}
        of_axis = {node: i for i, node in enumerate(structure.axes)}
        leaves: dict[str, list[Any]] = {
            name: [xp.asarray(value) for value in getattr(fixed, name)]
            for name in ("lanes", "bytes", "usable_bytes", "word_bits", *RATES, "read_pj", "write_pj")
        }
        for varied in self.varied:
            value = xp.exp(varied.product.log(logs))
            if varied.field == "size":
                leaves["lanes"][of_axis[varied.node]] = value
                continue
            at, node = of_memory[varied.node], self.machine.nodes[varied.node]
            leaves[varied.field][at] = value
            if varied.field == "bytes":
                halved = isinstance(node, Memory) and node.double_buffered
                leaves["usable_bytes"][at] = value / 2 if halved else value
        for energy in self.follows:
            at = of_memory[energy.node]
            if energy.law is not None:
                leaves[energy.field][at] = energy.law.pj(leaves["bytes"][at])
                continue
            if energy.row_bits is None:
                width = moved_bits(leaves["word_bits"][at], [leaves[rate][at] for rate in RATES], xp)
            else:
                width = xp.clip(xp.exp(energy.row_bits.log(logs)), *WIDTH_BITS)
            leaves[energy.field][at] = word_pj(leaves["bytes"][at], leaves["word_bits"][at], width, xp)
        return fixed._replace(**{name: tuple(values) for name, values in leaves.items()})

    def area_mm2(self, logs: Any, xp: ModuleType = np) -> Any:  # noqa: ANN401  (arrays of xp)
        """Area of the machines at some logarithms of the free numbers, ``[numbers, ...]``."""
        return area(self.machine.structure, self.arrays(logs, xp), xp).total

    @cached_property
    def smallest(self) -> Values:
        """The values of the least area: each number at one of its ends, turned until no turn helps."""
        return self._extreme(-1)

    @cached_property
    def largest(self) -> Values:
        """The values of the largest area."""
        return self._extreme(1)

    def _extreme(self, way: Literal[1, -1]) -> Values:
        values = tuple(number.ends[0 if way < 0 else 1] for number in self.numbers)
        best = machine_area(self.at(values)).total
        turned = True
        while turned:
            turned = False
            for i, number in enumerate(self.numbers):
                for end in number.ends:
                    other = (*values[:i], end, *values[i + 1 :])
                    found = machine_area(self.at(other)).total
                    if (found - best) * way > 0:
                        values, best, turned = other, found, True
        return values


def _with_energy(node: Node, energy: Follows, values: Sequence[float]) -> Node:
    """A memory with an energy of its size."""
    if not isinstance(node, Memory) or node.bytes is None:
        return node
    if energy.law is not None:
        return replace(node, **{energy.field: energy.law.pj(node.bytes)})
    rates = (node.words_per_cycle, node.read_words_per_cycle, node.write_words_per_cycle)
    stated = energy.row_bits
    width = row_bits(node.word_bits, *rates) if stated is None else float(floor(stated.of(values) * (1 + HAIR)))
    return replace(node, **{energy.field: network_pj(node.bytes, node.word_bits, width)})
