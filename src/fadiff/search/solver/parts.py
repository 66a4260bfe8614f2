"""A layer's mappings in parts: what branch and bound knows of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from fadiff.search.solver.compiled import compiled
from fadiff.search.solver.counts import Lanes
from fadiff.search.solver.decode import Extents
from fadiff.search.solver.grid import Cells, Grid
from fadiff.search.solver.prices import UNKNOWN
from fadiff.search.solver.region import Line

if TYPE_CHECKING:
    from jaxtyping import Int

Term = tuple[int, str]
"""A term of the time: a memory (its node) and which of its accesses; computing, and the vector unit, are of none."""
COMPUTING: Term = (-1, "steps")
VECTORS: Term = (-1, "vector")
Shares = dict[Term, float]
NOTHING = (Line((1.0, 0.0), 0.0), Line((0.0, 1.0), 0.0))
"""All that is known of energy and time at first."""
Tile = tuple[Cells, ...]
"""By dim, one cell."""
Wanted = tuple[int, Tile]
"""A place, by its number, and the tiles of interest."""
Rows = Float[np.ndarray, "rows 17"]
"""Places and tiles as numbers: the place, the lower ends of the tile by dim, and the upper ends."""


class Seen(NamedTuple):
    """A chain that was the cheapest at some shares."""

    energy_pj: float
    terms: Shares
    """Cycles of each term."""
    extents: dict[tuple[int, int], int]
    """By node and dim: the cell."""


class Candidate(NamedTuple):
    """A chain that may be a mapping of about its cost."""

    certain: bool
    """Whether its lanes are known, not only a range of them."""
    cost: float
    extents: Extents

    @property
    def promise(self) -> tuple[bool, float]:
        """By which the best come first."""
        return not self.certain, self.cost


@dataclass(frozen=True)
class Part:
    """A part of a layer's mappings: in one place, lanes and tiles within boxes, extents within a grid."""

    place: int
    """Its number among those of the layer."""
    tile: Tile
    """The extents in one shared iteration."""
    lanes: Lanes
    grid: Grid
    shares: Shares
    ends: Tile
    """The extents at which loops that a layer on its own shares with nobody may cut its tiles."""
    finished: tuple[tuple[int, bool], ...] = ()
    """Memories, by node, of which it is told apart whether all sums that arrive there are finished."""
    cuts: tuple[Seen, ...] = ()
    """The cheapest chains so far."""
    lines: tuple[Line, ...] = NOTHING
    """What is proven of it, or of a part that it was in."""
    floored: bool = False
    """Whether what it costs before anything is known of its tiles is in its bound."""
    settled: bool = False
    """Whether it cannot be improved at the prices it was last looked at."""

    @cached_property
    def row(self) -> list[int]:
        """Its place and its tile as numbers."""
        return row_of((self.place, self.tile))

    def finished_at(self, nodes: int) -> Int[np.ndarray, " nodes"]:
        """By node: whether all sums that arrive there are finished."""
        found = np.full(nodes, UNKNOWN)
        for memory, finished in self.finished:
            found[memory] = finished
        return found


def row_of(wanted: Wanted) -> list[int]:
    """A place and a tile as numbers."""
    place, tile = wanted
    return [place, *(cell.low[0] for cell in tile), *(cell.high[0] for cell in tile)]


class Known:
    """All mappings of a layer in parts, and what is known of each at some prices."""

    def __init__(self, parts: Sequence[Part], values: Sequence[float]) -> None:
        self.parts = list(parts)
        self._table = np.empty((len(parts), 18))
        self._fill(0, parts, values)

    def _fill(self, start: int, parts: Sequence[Part], values: Sequence[float]) -> None:
        """Rows of the table: place and tile, and the bound."""
        for i, (part, value) in enumerate(zip(parts, values, strict=True), start):
            self._table[i, :17] = part.row
            self._table[i, 17] = value

    @property
    def value(self) -> Float[np.ndarray, " parts"]:
        """What each part costs at least."""
        return self._table[: len(self.parts), 17]

    def meets(self, wanted: Wanted) -> list[int]:
        """The numbers of the parts that have tiles of interest."""
        row = np.array(row_of(wanted), dtype=np.float64)
        return [i for i in range(len(self.parts)) if _meets(self._table, i, row)]

    def lowest(self, wanted: Wanted) -> int | None:
        """The number of the part of least bound that has tiles of interest; None where there is none."""
        found = _lowest(self._table, len(self.parts), np.array(row_of(wanted), dtype=np.float64))
        return None if found < 0 else found

    def least(self, wanted: Rows) -> Float[np.ndarray, " wanted"]:
        """The least bounds of parts that have tiles of interest; inf where there are none."""
        return _least(self._table, len(self.parts), wanted)

    def narrow(self, number: int, wanted: Tile) -> None:
        """Where one tile alone is of interest, and a part has others, too, put it on its own and them beside it: what
        is around it would hide how little room its buffers leave."""
        part = self.parts[number]
        if any(low < high for at in wanted for low, high in zip(at.low, at.high, strict=True)):
            return
        tile, others = list(part.tile), list[Part]()
        for d, (mine, at) in enumerate(zip(part.tile, wanted, strict=True)):
            tile[d] = at
            for low, high in ((mine.low[0], at.low[0] - 1), (at.high[0] + 1, mine.high[0])):
                if low <= high:
                    rest = (*tile[:d], Cells((low,), (high,)), *part.tile[d + 1 :])
                    others.append(replace(part, tile=rest, cuts=()))
        if others:
            parts = [replace(part, tile=tuple(tile), cuts=(), floored=False, settled=False), *others]
            self.replace(number, parts, [self.value[number].item()] * len(parts))

    def replace(self, number: int, parts: Sequence[Part], values: Sequence[float]) -> None:
        """Put parts in the place of one."""
        more = len(parts) - 1
        while len(self.parts) + more > len(self._table):
            self._table = np.concatenate([self._table, np.empty_like(self._table)])
        self._fill(number, parts[:1], values[:1])
        self._fill(len(self.parts), parts[1:], values[1:])
        self.parts[number] = parts[0]
        self.parts += parts[1:]


@compiled
def _meets(table: Float[np.ndarray, "parts 18"], part: int, wanted: Float[np.ndarray, " 17"]) -> bool:
    """Whether a part has tiles of interest."""
    met = table[part, 0] == wanted[0]
    for d in range(8):
        met = met and table[part, 1 + d] <= wanted[9 + d] and wanted[1 + d] <= table[part, 9 + d]
    return met


@compiled
def _lowest(table: Float[np.ndarray, "parts 18"], parts: int, wanted: Float[np.ndarray, " 17"]) -> int:
    """The part of least bound that has tiles of interest; -1 where none costs less than infinitely much."""
    found, least = -1, inf
    for part in range(parts):
        if table[part, 17] < least and _meets(table, part, wanted):
            found, least = part, table[part, 17]
    return found


@compiled
def _least(table: Float[np.ndarray, "parts 18"], parts: int, wanted: Rows) -> Float[np.ndarray, " wanted"]:
    """The least bounds of parts that have tiles of interest."""
    found = np.empty(len(wanted))
    for row in range(len(wanted)):
        part = _lowest(table, parts, wanted[row])
        found[row] = table[part, 17] if part >= 0 else inf
    return found
