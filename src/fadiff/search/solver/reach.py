"""Which cells of a walk's extents may come before which: found once for each node and dim."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.solver.chain import LOOP, SPREAD, STAY
from fadiff.search.solver.compiled import compiled_leaf, compiled_part
from fadiff.search.solver.counts import Facts, idle, widest
from fadiff.search.solver.fitting import too_large, widths
from fadiff.search.solver.grid import Rows
from fadiff.search.solver.loops import Trips
from fadiff.search.solver.prices import Prices
from fadiff.search.solver.steps import loops, spreads, stays

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


class Tiles(NamedTuple):
    """From which extents to which tiles may be in one shared iteration, and further in at most."""

    low: Float[np.ndarray, " 8"]
    high: Float[np.ndarray, " 8"]
    most: Float[np.ndarray, " 8"]


class Reach(NamedTuple):
    """By kind, node and dim: which cells may come before which."""

    known: Int[np.ndarray, "kinds nodes 8"]
    """UNKNOWN before it is asked for; then NOWHERE, SAME or SOME."""
    allowed: Bool[np.ndarray, "kinds nodes 8 wanted had"]
    ahead: Int[np.ndarray, "kinds nodes 8 wanted"]
    """So many of the first cells may all come before one, at the same price."""
    dearer: Float[np.ndarray, "9 wanted had"]
    """What lanes cost that idle, of each dim at its widest axis; and nothing, of all other steps."""
    costs: Int[np.ndarray, "kinds nodes 8"]
    """Which of these a step costs."""


UNKNOWN, NOWHERE, SAME, SOME = range(4)


@compiled_part
def rows_of(at: Facts, prices: Prices, grid: Rows, tiles: Tiles, nodes: int) -> tuple[Rows, Int[np.ndarray, "nodes 8"]]:
    """By node: the cells of the grid that meet the tile, or can fit, further in no larger ones than further out; and
    which the first of them is. Then rows for what is picked, the MACs and the full size."""
    shape = (2 * nodes + 2, 8, grid.low.shape[2])
    rows = Rows(np.ones(shape), np.ones(shape), np.ones(shape[:2], dtype=np.int64))
    first, last, low = np.zeros((nodes, 8), dtype=np.int64), grid.number - 1, np.empty(8)
    for d in range(8):
        rows.low[2 * nodes + 1, d, 0] = rows.high[2 * nodes + 1, d, 0] = at.size[d]
        end, least = tiles.high[d], 1.0
        for node in range(nodes):
            while last[node, d] > 0 and grid.low[node, d, last[node, d]] > end:
                last[node, d] -= 1
            end = min(tiles.most[d], grid.high[node, d, last[node, d]])
        for i in range(nodes):
            node = nodes - 1 - i
            least = max(least, tiles.low[d]) if node == 0 else least
            while first[node, d] < last[node, d] and grid.high[node, d, first[node, d]] < least:
                first[node, d] += 1
            least = max(least, grid.low[node, d, first[node, d]])
    for node in range(nodes):
        for d in range(8):
            rows.number[node, d] = last[node, d] + 1 - first[node, d]
            for cell in range(rows.number[node, d]):
                rows.low[node, d, cell] = grid.low[node, d, first[node, d] + cell]
                rows.high[node, d, cell] = grid.high[node, d, first[node, d] + cell]
        if node > 0 and (at.keeps[0, node] or at.keeps[1, node] or at.keeps[2, node]):
            # As far as one dim alone decides.
            width = widths(at, prices, node)
            for d in range(8):
                low[d] = rows.low[node, d, 0]
            for d in range(8):
                found = 0
                for cell in range(rows.number[node, d]):
                    low[d] = rows.low[node, d, cell]
                    if not too_large(at, width, low, at.size):
                        found += 1
                low[d] = rows.low[node, d, 0]
                rows.number[node, d] = max(1, found)
    return rows, first


@compiled_leaf
def find_steps(
    at: Facts, prices: Prices, rows: Rows, asked: Trips, found: Reach, step: int, d: int, before: int, node: int
) -> None:
    """Which cells of a dim may come before which of a node's, and what it costs."""
    kind, wanted, had = step, rows.number[node, d], rows.number[before, d]
    least, most = at.low[node, d], at.high[node, d]
    found.known[step, node, d] = NOWHERE
    if kind == SPREAD and most == 1:
        kind = STAY
    elif kind == STAY and (asked.least[node, d] > 1 or asked.most[node, d] < 1):
        return
    elif kind == LOOP and (asked.least[node, d] > 1 or asked.most[node, d] < at.size[d]):
        kind, least, most = SPREAD, asked.least[node, d], asked.most[node, d]
    idles = at.high[node, d] > 1 and prices.idle > 0 and node == widest(at, d)
    found.costs[step, node, d] = d if idles else 8
    same, some = kind == STAY and wanted == had, False
    for i in range(wanted):
        outer = rows.low[node, d, i], rows.high[node, d, i]
        ahead = 0
        for j in range(had):
            inner = rows.low[before, d, j], rows.high[before, d, j]
            if kind == STAY:
                allowed = stays(inner, outer)
                same = same and (i != j or inner == outer)
            elif kind == LOOP:
                allowed = loops(inner, outer, at.ends[d])
            else:
                allowed = spreads(inner, outer, at.ends[d], least, most)
            found.allowed[step, node, d, i, j] = allowed
            some = some or allowed
            if idles and allowed:
                found.dearer[d, i, j] = prices.idle * idle(at, d, inner, outer)
            elif allowed and ahead == j:
                ahead += 1
        found.ahead[step, node, d, i] = ahead
    if some:
        found.known[step, node, d] = SAME if same else SOME
