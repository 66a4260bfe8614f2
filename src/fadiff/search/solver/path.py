"""The cheapest way through the extents of a layer: what it costs, its extents, and how often its flows pass."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan
from threading import local
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.solver.chain import Program
from fadiff.search.solver.closing import ORDER, total
from fadiff.search.solver.counts import PARENT, TENSOR
from fadiff.search.solver.fitting import too_large, widths
from fadiff.search.solver.grid import Cells
from fadiff.search.solver.prices import O
from fadiff.search.solver.reach import Tiles
from fadiff.search.solver.walk import walk
from fadiff.search.solver.way_back import Found, early_end, idle_steps

if TYPE_CHECKING:
    from jaxtyping import Float

    from fadiff.search.solver.counts import Facts
    from fadiff.search.solver.grid import Grid
    from fadiff.search.solver.loops import Trips
    from fadiff.search.solver.prices import Prices

NUMBERS = 1 << 18
"""Numbers that a walk may note at first."""
_notes = local()
"""By thread: where walks note their numbers."""


@dataclass(frozen=True)
class Path:
    """The cheapest way to the full size at some prices."""

    at: Facts
    prices: Prices
    grid: Grid
    found: Found

    @property
    def cost(self) -> float:
        """What it costs; infinite where there is none."""
        return self.found.cost

    @cached_property
    def values(self) -> Float[np.ndarray, "*cells"]:
        """What the cheapest ways to all tiles cost."""
        shape = self.found.shape[list(ORDER)].tolist()
        return self.found.values.reshape(shape).transpose(np.argsort(ORDER))

    @cached_property
    def tiles(self) -> tuple[Cells, ...]:
        """By dim: the cells of the tiles."""
        ends = zip(self.found.first.tolist(), self.found.shape.tolist(), strict=True)
        return tuple(
            Cells(cells.low[first : first + count], cells.high[first : first + count])
            for cells, (first, count) in zip(self.grid.cells[0], ends, strict=True)
        )

    @cached_property
    def extents(self) -> dict[tuple[int, int], int]:
        """By node and dim: the cell of the grid that it leads through."""
        return {(node, d): cell for node, row in enumerate(self.found.cell.tolist()) for d, cell in enumerate(row)}

    @property
    def least(self) -> list[list[int]]:
        """By node and dim: the least extent above it."""
        return self.found.low[:-1].astype(int).tolist()

    def total(self, prices: Prices) -> float:
        """What its flows and its lanes cost at other prices."""
        return total(self.at, prices, self.found.often) + prices.idle * self._idle

    @cached_property
    def _idle(self) -> float:
        return idle_steps(self.at, self.found)

    def early_end(self, d: int) -> int | None:
        """An extent at which a dim is certain to end, and above it others that are certain to be larger, but for the
        first memory's; None where there is none."""
        return int(early_end(self.at, self.found, d)) or None

    def squeezed(self) -> int | None:
        """A memory where sums arrive unfinished but the tile only fits in the width of finished ones; None if none."""
        for flow in np.flatnonzero(self.at.flow[:, TENSOR] == O).tolist():
            memory = int(self.at.flow[flow, PARENT])
            if memory > 0 and self.found.often[flow, 1] > 1 and self.prices.finished[memory] < 0:
                finished = self.prices.finished.copy()
                finished[memory] = 0
                width = widths(self.at, self.prices._replace(finished=finished), memory)
                if too_large(self.at, width, self.found.low[memory], self.found.high[memory]):
                    return memory
        return None


def cheapest_path(
    at: Facts, prices: Prices, steps: Program, grid: Grid, tiles: Tiles, asked: Trips, enough: float = inf
) -> Path:
    """The cheapest way at some prices, as far as it costs less than enough."""
    notes = getattr(_notes, "numbers", np.empty(NUMBERS))
    while isnan((found := walk(at, prices, steps, grid.rows, tiles, asked, enough, notes)).cost):
        notes = np.empty(2 * len(notes))
    _notes.numbers = notes
    return Path(at, prices, grid, found)
