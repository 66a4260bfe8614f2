"""Extents in cells: the extents of every dim above every node are cut into intervals, and tiles are boxes of them.

A bound that looks at a whole interval at once takes from each what is best: traffic at its upper end, bytes at its
lower end. Where that is too kind, intervals are split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.space import divisors

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True)
class Cells:
    """Intervals of whole numbers in increasing order, by their lower and upper ends."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.low)

    @cached_property
    def _hash(self) -> int:
        return hash((self.low, self.high))

    def __hash__(self) -> int:
        """Known after the first time: cells are in the keys of most of what is remembered."""
        return self._hash

    @cached_property
    def lows(self) -> Float[np.ndarray, " cells"]:
        """Lower ends."""
        return np.array(self.low, dtype=np.float64)

    @cached_property
    def highs(self) -> Float[np.ndarray, " cells"]:
        """Upper ends."""
        return np.array(self.high, dtype=np.float64)

    def one(self, cell: int) -> Cells:
        """One of them on its own."""
        return self if len(self) == 1 else Cells((self.low[cell],), (self.high[cell],))

    def first(self, count: int) -> Cells:
        """Only the first so many."""
        return self if count >= len(self) else Cells(self.low[:count], self.high[:count])

    def only(self, cells: Sequence[int]) -> Cells:
        """Some of them."""
        if len(cells) == len(self):
            return self
        return Cells(*zip(*((self.low[cell], self.high[cell]) for cell in cells), strict=True))

    def meets(self, other: Cells) -> bool:
        """Whether a number is in both."""
        return bool(((self.lows[:, None] <= other.highs) & (other.lows <= self.highs[:, None])).any())

    def wide(self, cell: int) -> bool:
        """Whether a cell holds more than one number."""
        return self.low[cell] < self.high[cell]

    def split(self, cells: Iterable[int]) -> Cells:
        """The same with some cells cut in two, near their geometric mean."""
        low, high = list(self.low), list(self.high)
        for cell in sorted(set(cells), reverse=True):
            if self.wide(cell):
                middle = min(isqrt(low[cell] * high[cell]), high[cell] - 1)
                low.insert(cell + 1, middle + 1)
                high.insert(cell, middle)
        return Cells(tuple(low), tuple(high))

    def within(self, least: float, most: float) -> Cells:
        """The numbers between two ends; the nearest cell where none is."""
        ends = [(max(low, least), min(high, most)) for low, high in zip(self.low, self.high, strict=True)]
        kept = [(int(low), int(high)) for low, high in ends if low <= high]
        return Cells(*zip(*kept, strict=True)) if kept else self.one(0 if most < self.low[0] else -1)

    def parted(self, after: int) -> tuple[Cells, Cells]:
        """The cells up to one, and the others."""
        return self.first(after + 1), Cells(self.low[after + 1 :], self.high[after + 1 :])


ONE = Cells((1,), (1,))


WIDER = 4
"""First intervals are so many times as wide as those before: a walk through few cells takes little time."""


def widening(size: int) -> Cells:
    """Intervals that widen: 1 to 3, 4 to 15, 16 to 63, ..., and the size on its own.

    >>> widening(12)
    Cells(low=(1, 4, 12), high=(3, 11, 12))
    """
    low = [WIDER**i for i in range(size.bit_length()) if WIDER**i < size] + [size]
    return Cells(tuple(low), (*(next_ - 1 for next_ in low[1:]), size))


class Rows(NamedTuple):
    """Cells of extents in rows: by row and dim, their ends and how many there are."""

    low: Float[np.ndarray, "rows 8 cells"]
    high: Float[np.ndarray, "rows 8 cells"]
    number: Int[np.ndarray, "rows 8"]


@dataclass(frozen=True)
class Grid:
    """By node and dim: the cells of the extents above the node."""

    cells: tuple[tuple[Cells, ...], ...]

    @property
    def rows(self) -> Rows:
        """The same as arrays: many grids are kept, so that their arrays are not."""
        number = np.array([[len(cells) for cells in row] for row in self.cells])
        low, high = np.ones((2, len(self.cells), 8, number.max()))
        for node, row in enumerate(self.cells):
            for d, cells in enumerate(row):
                low[node, d, : len(cells)], high[node, d, : len(cells)] = cells.lows, cells.highs
        return Rows(low, high, number)

    @property
    def most(self) -> int:
        """Cells of a dim at a node, at most."""
        return max(len(cells) for row in self.cells for cells in row)

    def halves(self) -> list[Grid]:
        """The grid in two, where a dim has most cells."""
        node, d = max(product(range(len(self.cells)), range(8)), key=lambda at: len(self.cells[at[0]][at[1]]))
        cells = self.cells[node][d]
        return [self.replaced({(node, d): half}) for half in cells.parted(len(cells) // 2 - 1)]

    def split(self, chosen: Mapping[tuple[int, int], int]) -> Grid:
        """The grid with one cell of some nodes and dims cut in two."""
        return self.replaced({(n, d): self.cells[n][d].split([cell]) for (n, d), cell in chosen.items()})

    def replaced(self, cells: Mapping[tuple[int, int], Cells]) -> Grid:
        """The grid with other cells at some nodes and dims."""
        rows = [[cells.get((n, d), here) for d, here in enumerate(row)] for n, row in enumerate(self.cells)]
        return Grid(tuple(map(tuple, rows)))


def divisors_of(size: int) -> Cells:
    """Every divisor on its own.

    >>> divisors_of(12)
    Cells(low=(1, 2, 3, 4, 6, 12), high=(1, 2, 3, 4, 6, 12))
    """
    found = tuple(divisors(size))
    return Cells(found, found)


def first_grid(size: Sequence[int], nodes: int, *, exact: bool) -> Grid:
    """The same cells at all nodes: intervals that widen, or where factors must divide, the divisors."""
    return Grid((tuple(divisors_of(extent) if exact else widening(extent) for extent in size),) * nodes)
