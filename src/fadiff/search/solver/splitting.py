"""A part of a layer's mappings in smaller ones: around its cheapest tile, between two chains, or by what one chain does
that no mapping can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.solver.grid import Cells
from fadiff.search.solver.loops import ALONE_CUTS
from fadiff.search.solver.parts import Part

if TYPE_CHECKING:
    from fadiff.search.solver.grid import Grid
    from fadiff.search.solver.parts import Seen
    from fadiff.search.solver.path import Path

Better = Sequence[tuple[Part, float]]
"""Parts that take the place of one, with what each costs at least."""


def split_tile(part: Part, path: Path, wider: float, enough: float) -> Better:
    """A part without the cheapest tile, that tile's own part, and what each costs; none where the tile is known well.

    Tiles are the extents at which ways end, so what the cheapest way to each cell costs is known, as far as ways were
    followed. Where a cell is all there is, it is cut in two.
    """
    ratios = [cell.high[0] / cell.low[0] for cell in part.tile]
    least, found = np.minimum(path.values, enough), list[tuple[Part, float]]()
    at, tile = np.unravel_index(int(least.argmin()), least.shape), list(part.tile)
    for d in sorted(range(8), key=lambda d: -ratios[d]):
        cells, here = path.tiles[d], int(at[d])
        if ratios[d] <= wider or len(cells) == 1:
            continue
        low, high = tile[d].low[0], tile[d].high[0]

        def within(first: int, last: int, low: int = low, high: int = high, cells: Cells = cells) -> Cells:
            return Cells((max(low, cells.low[first]),), (min(high, cells.high[last]),))

        for first, last in ((0, here - 1), (here + 1, len(cells) - 1)):
            if first <= last:
                tile[d] = within(first, last)
                value = float(least.take(range(first, last + 1), axis=d).min())
                found.append((replace(part, tile=tuple(tile), cuts=()), value))
        tile[d] = within(here, here)
        least = least.take([here], axis=d)
    if found:
        return [*found, (replace(part, tile=tuple(tile), cuts=()), float(least.min()))]
    d = int(np.argmax(ratios))
    if ratios[d] <= wider:
        return []
    halves = part.tile[d].split([0])
    return [
        (replace(part, tile=(*tile[:d], Cells((low,), (high,)), *tile[d + 1 :]), cuts=()), 0.0)
        for low, high in zip(halves.low, halves.high, strict=True)
    ]


def part_between(grid: Grid, cuts: Sequence[Seen]) -> tuple[Grid, Grid] | None:
    """The grid in two, between the last chain and the latest that differs from it, where they differ most."""
    last = cuts[-1].extents
    for other in (cut.extents for cut in reversed(cuts[:-1])):
        apart = {at: abs(last[at] - cell) for at, cell in other.items() if at[0] > 0 and last.get(at, cell) != cell}
        if apart:
            at = max(apart, key=lambda one: (apart[one], -one[0]))
            cells = grid.cells[at[0]][at[1]]
            lower, upper = cells.parted((last[at] + other[at]) // 2)
            return grid.replaced({at: lower}), grid.replaced({at: upper})
    return None


def split_sums(part: Part, path: Path) -> list[Part]:
    """A part in two, where all sums are finished that arrive at a memory, and where some are not, if on the cheapest
    way some are not but its tile only fits in the width of finished ones."""
    memory = path.squeezed()
    if memory is None:
        return []
    told = [(*part.finished, (memory, finished)) for finished in (True, False)]
    return [replace(part, finished=finished, cuts=()) for finished in told]


def split_ends(part: Part, path: Path) -> list[Part]:
    """A part of a layer on its own in two, where loops that it shares with nobody cut a dim to some extent at most and
    where they cut it to more, if the cheapest way ends the dim there although it has larger tiles, too."""
    for d in ALONE_CUTS:
        if (end := path.early_end(d)) is not None:
            low, high = part.ends[d].low[0], part.ends[d].high[0]
            halves = Cells((low,), (end,)), Cells((end + 1,), (high,))
            return [replace(part, ends=(*part.ends[:d], half, *part.ends[d + 1 :]), cuts=()) for half in halves]
    return []
