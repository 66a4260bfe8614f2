"""The cheapest way of a walk, from its end back to the MACs."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.solver.chain import FLOW, KEPT, LEAST, PAY, PICK, PLACE, SPREAD, Program
from fadiff.search.solver.closing import ORDER, passes, size_of
from fadiff.search.solver.compiled import compiled, compiled_part
from fadiff.search.solver.counts import Facts, idle, widest
from fadiff.search.solver.grid import Rows
from fadiff.search.solver.lattices import Notes, place_in
from fadiff.search.solver.prices import Prices
from fadiff.search.solver.reach import SOME, Reach
from fadiff.search.solver.steps import loops, spreads

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Found(NamedTuple):
    """The cheapest way to the full size."""

    cost: float
    """Infinite where none costs less than enough; then nothing else is told. No number where notes ran out of room."""
    shape: Int[np.ndarray, " 8"]
    """Cells of the tile, by dim."""
    values: Float[np.ndarray, " cells"]
    """What the cheapest way to each of them costs; dims are in ORDER."""
    first: Int[np.ndarray, " 8"]
    """The first of the grid's cells that tiles are in, by dim."""
    cell: Int[np.ndarray, "nodes 8"]
    """The grid's cells that the cheapest way leads through."""
    low: Float[np.ndarray, "nodes_and_macs 8"]
    high: Float[np.ndarray, "nodes_and_macs 8"]
    often: Float[np.ndarray, "flows 2"]
    """How often each flow passes its keeper, and its parent, on it."""


@compiled_part
def back(
    at: Facts,
    prices: Prices,
    steps: Program,
    rows: Rows,
    reach: Reach,
    notes: Notes,
    picked: Int[np.ndarray, "nodes 8 cells"],
    first: Int[np.ndarray, "nodes 8"],
    enough: float,
) -> Found:
    """The cheapest way, from its end back to the MACs."""
    nodes, lattice = steps.nodes, steps.last
    cells, often = np.zeros((nodes, 8), dtype=np.int64), np.ones((len(at.flow), 2))
    low, high = np.ones((nodes + 1, 8)), np.ones((nodes + 1, 8))
    shape, index, cost = np.ones(8, dtype=np.int64), np.zeros(8, dtype=np.int64), inf
    for d in range(8):
        shape[d] = notes.shape[lattice, d]
    values = np.full(size_of(shape), inf)
    if notes.end[0] > len(notes.numbers):
        return Found(nan, shape, values, first[0], cells, low, high, often)
    best = 0
    for cell in range(len(values) if notes.start[lattice] >= 0 else 0):
        values[cell] = notes.numbers[notes.start[lattice] + cell]
        if values[cell] < cost:
            cost, best = values[cell], cell
    if not cost < enough:
        return Found(cost, shape, values, first[0], cells, low, high, often)
    for i in range(8):
        d = ORDER[7 - i]
        index[d] = best % shape[d]
        best //= shape[d]
    made = _made_by(steps)
    one = Rows(np.ones((1, 8, 1)), np.ones((1, 8, 1)), np.ones((1, 8), dtype=np.int64))
    alone = np.zeros(8, dtype=np.int64)
    while lattice > 0:
        node, number = steps.after[lattice], made[lattice]
        kind, of = steps.steps[number, 0], steps.steps[number, 2]
        a, b = steps.steps[number, 3], steps.steps[number, 4]
        for d in range(8 if node >= 0 else 0):
            row = notes.row[lattice, d]
            low[node, d], high[node, d] = rows.low[row, d, index[d]], rows.high[row, d, index[d]]
            cells[node, d] = picked[node, d, index[d]] if row == nodes + node else index[d]
            cells[node, d] += first[node, d]
        if kind == LEAST:
            cheapest = inf
            for i in range(a, b):
                other = steps.listed[i]
                if notes.start[other] >= 0:
                    value = notes.numbers[notes.start[other] + place_in(index, notes.shape[other])]
                    if value < cheapest:
                        cheapest, of = value, other
        elif kind == PICK:
            for pair in range(b, steps.steps[number, 5], 2):
                if steps.listed[pair + 1] == lattice:
                    of = steps.listed[pair]
            for d in range(8):
                index[d] = picked[a, d, index[d]]
        elif kind <= SPREAD:
            wanted, cheapest, found = index[a], inf, index[a]
            for j in range(notes.shape[of, a] if reach.known[kind, b, a] == SOME else 0):
                if reach.allowed[kind, b, a, wanted, j]:
                    index[a] = j
                    value = notes.numbers[notes.start[of] + place_in(index, notes.shape[of])]
                    value += reach.dearer[reach.costs[kind, b, a], wanted, j]
                    if value < cheapest:
                        cheapest, found = value, j
            index[a] = found
        elif kind == PAY:
            for i in range(a, b):
                price = steps.prices[steps.listed[i]]
                for d in range(8):
                    j = min(index[d], rows.number[price[d], d] - 1)
                    one.low[0, d, 0], one.high[0, d, 0] = rows.low[price[d], d, j], rows.high[price[d], d, j]
                trips = np.ones(8) if price[KEPT] == 1 else prices.trips
                passed = passes(at, price[FLOW], price[PLACE], trips, one, alone)[1]
                often[price[FLOW], 0], often[price[FLOW], 1] = passed[0, 0], passed[0, 1]
        lattice = of
    return Found(cost, shape, values, first[0], cells, low, high, often)


@compiled_part
def _made_by(steps: Program) -> Int[np.ndarray, " lattices"]:
    """The step that makes each lattice."""
    found = np.zeros(len(steps.after), dtype=np.int64)
    for number in range(len(steps.steps)):
        if steps.steps[number, 0] == PICK:
            for pair in range(steps.steps[number, 4], steps.steps[number, 5], 2):
                found[steps.listed[pair + 1]] = number
        else:
            found[steps.steps[number, 1]] = number
    return found


@compiled
def early_end(at: Facts, found: Found, d: int) -> float:
    """An extent at which a dim is certain to end, and above it others that are certain to be larger, but for the
    first memory's; 0 where there is none."""
    ended, nodes = inf, at.keeps.shape[1]
    for i in range(1, nodes):
        node = nodes - i
        inner, outer = (found.low[node + 1, d], found.high[node + 1, d]), (found.low[node, d], found.high[node, d])
        if outer[0] > ended:
            return ended
        if at.keeps[0, node] or at.keeps[1, node] or at.keeps[2, node]:
            grown = loops(inner, outer, inf)
        else:
            grown = spreads(inner, outer, inf, at.low[node, d], at.high[node, d])
        if not grown:
            ended = outer[1]
    return 0.0


@compiled
def idle_steps(at: Facts, found: Found) -> float:
    """How many more steps there are on the cheapest way than the fewest, as a share of these."""
    total = 0.0
    for d in range(8):
        node = widest(at, d)
        if at.high[node, d] > 1:
            inner, outer = (found.low[node + 1, d], found.high[node + 1, d]), (found.low[node, d], found.high[node, d])
            total += idle(at, d, inner, outer)
    return total
