"""A walk through the extents of a layer: the steps of a program, one after the other."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.solver.chain import FLOW, KEPT, LEAST, PAY, PICK, PLACE, SLIDE, SPREAD, Program
from fadiff.search.solver.closing import ORDER, least_of, prices_of, size_of
from fadiff.search.solver.compiled import compiled, compiled_part
from fadiff.search.solver.counts import KEEPER, Facts, lanes_between
from fadiff.search.solver.fitting import too_large, widths
from fadiff.search.solver.grid import Rows
from fadiff.search.solver.lattices import Notes, add, cheapest_of, move, room_for, take, to_next
from fadiff.search.solver.loops import Trips
from fadiff.search.solver.prices import Prices, Rates, at_macs, rates_of
from fadiff.search.solver.reach import NOWHERE, SOME, UNKNOWN, Reach, Tiles, find_steps, rows_of
from fadiff.search.solver.way_back import Found, back

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@compiled
def walk(
    at: Facts,
    prices: Prices,
    steps: Program,
    grid: Rows,
    tiles: Tiles,
    asked: Trips,
    enough: float,
    numbers: Float[np.ndarray, " numbers"],
) -> Found:
    """The cheapest chain of a layer at some prices, as far as it costs less than enough; numbers are noted there."""
    nodes, lattices = steps.nodes, len(steps.after)
    rows, first = rows_of(at, prices, grid, tiles, nodes)
    rates = rates_of(at, prices)
    least = least_of(at, prices, rates)
    many = lattices + len(steps.prices)
    notes = Notes(
        numbers,
        np.full(many, -1),
        np.ones((many, 8), dtype=np.int64),
        np.full((many, 8), 2 * nodes),
        np.ones(1, dtype=np.int64),
        np.zeros((3, 9), dtype=np.int64),
    )
    most = rows.low.shape[2]
    picked = np.zeros((nodes, 8, most), dtype=np.int64)
    reach = Reach(
        np.zeros((3, nodes, 8), dtype=np.int64),
        np.zeros((3, nodes, 8, most, most), dtype=np.bool_),
        np.zeros((3, nodes, 8, most), dtype=np.int64),
        np.zeros((9, most, most)),
        np.full((3, nodes, 8), 8),
    )
    fits, checked = np.zeros(0, dtype=np.int8), nodes
    notes.start[0], numbers[0] = 0, at_macs(at, prices)
    for number in range(len(steps.steps)):
        kind, to, of = steps.steps[number, 0], steps.steps[number, 1], steps.steps[number, 2]
        a, b = steps.steps[number, 3], steps.steps[number, 4]
        c, d = steps.steps[number, 5], steps.steps[number, 6]
        if kind == LEAST:
            cheapest_of(notes, to, steps.listed, a, b)
        elif kind == PICK:
            _pick(notes, rows, picked, fits, a, nodes, steps.listed, b, c)
        elif notes.start[of] >= 0:
            take(notes, of, to)
            if kind <= SPREAD:
                # All ways come to a node with the same extents of a dim, so its steps are found once.
                if reach.known[kind, b, a] == UNKNOWN:
                    find_steps(at, prices, rows, asked, reach, kind, a, int(notes.row[of, a]), b)
                notes.row[to, a], notes.shape[to, a] = b, rows.number[b, a]
                if reach.known[kind, b, a] == NOWHERE:
                    notes.start[to] = -1
                elif reach.known[kind, b, a] == SOME:
                    dearer = reach.dearer[reach.costs[kind, b, a]]
                    move(notes, of, to, a, reach.allowed[kind, b, a], reach.ahead[kind, b, a], dearer)
            elif kind == PAY:
                for i in range(a, b):
                    price = lattices + steps.listed[i]
                    if notes.start[price] < 0:
                        _price(at, prices, rates, steps, rows, notes, price)
                    add(notes, of if i == a else to, to, price)
            elif kind == SLIDE:
                for i in range(c, d):
                    if lanes_between(at.low_between, b, at.flow[steps.listed[i], KEEPER], a) > 1:
                        notes.start[to] = -1
            else:
                if checked != a:
                    fits, checked = np.zeros(size_of(notes.shape[of]), dtype=np.int8), a
                left = 0.0
                for i in range(b, c):
                    left += float(least[steps.listed[i]])
                _open(at, prices, rows, notes, of, to, a, fits, enough - left)
        if notes.end[0] > len(numbers):
            break
    return back(at, prices, steps, rows, reach, notes, picked, first, enough)


@compiled_part
def _price(at: Facts, prices: Prices, rates: Rates, steps: Program, rows: Rows, notes: Notes, to: int) -> None:
    """What a flow costs where it closes."""
    price = steps.prices[to - len(steps.after)]
    trips = np.ones(8) if price[KEPT] == 1 else prices.trips
    shape, found = prices_of(at, rates, price[FLOW], price[PLACE], trips, rows, price[:8])
    for d in range(8):
        notes.shape[to, d] = shape[d]
    for cell in range(room_for(notes, to)):
        notes.numbers[notes.start[to] + cell] = found[cell]


FULL, FITS, REACHED = range(1, 4)
"""Of a tile and a memory, once it is asked for: it does not fit; it does; and a way leads there that may be cheap
enough."""


@compiled_part
def _open(
    at: Facts,
    prices: Prices,
    rows: Rows,
    notes: Notes,
    of: int,
    to: int,
    memory: int,
    fits: Int[np.ndarray, " cells"],
    below: float,
) -> None:
    """Only cells that fit in a memory and cost less than some number."""
    some, numbers, old, width = False, notes.numbers, notes.start[of], widths(at, prices, memory)
    low, high = np.ones(8), np.ones(8)
    for cell in range(room_for(notes, to)):
        value = numbers[old + cell]
        if value < below:
            if fits[cell] == 0:
                rest = cell
                for i in range(8):
                    d = ORDER[7 - i]
                    j = rest % notes.shape[to, d]
                    rest //= notes.shape[to, d]
                    low[d], high[d] = rows.low[memory, d, j], rows.high[memory, d, j]
                fits[cell] = FULL if too_large(at, width, low, high) else FITS
            if fits[cell] == FULL:
                value = inf
            else:
                fits[cell], some = REACHED, True
        else:
            value = inf
        numbers[notes.start[to] + cell] = value
    if not some:
        notes.start[to] = -1


@compiled_part
def _pick(
    notes: Notes,
    rows: Rows,
    picked: Int[np.ndarray, "nodes 8 cells"],
    fits: Int[np.ndarray, " cells"],
    node: int,
    nodes: int,
    pairs: Int[np.ndarray, " listed"],
    first: int,
    last: int,
) -> None:
    """Without the cells of each dim to which no way leads."""
    reached, index, row = np.zeros((8, rows.low.shape[2]), dtype=np.bool_), np.zeros(8, dtype=np.int64), nodes + node
    for cell in range(len(fits)):
        if fits[cell] == REACHED:
            for d in range(8):
                reached[d, index[d]] = True
        to_next(index, rows.number[node])
    for d in range(8):
        found = 0
        for cell in range(rows.number[node, d]):
            if reached[d, cell]:
                rows.low[row, d, found], rows.high[row, d, found] = rows.low[node, d, cell], rows.high[node, d, cell]
                picked[node, d, found] = cell
                found += 1
        rows.number[row, d] = found
    size = size_of(rows.number[row])
    before, index = np.empty(size, dtype=np.int64), np.zeros(8, dtype=np.int64)
    for cell in range(size):
        found = 0
        for d in ORDER:
            found = found * rows.number[node, d] + picked[node, d, index[d]]
        before[cell] = found
        to_next(index, rows.number[row])
    for pair in range(first, last, 2):
        of, to = pairs[pair], pairs[pair + 1]
        if notes.start[of] >= 0:
            for d in range(8):
                notes.shape[to, d], notes.row[to, d] = rows.number[row, d], row
            if size == len(fits):
                notes.start[to] = notes.start[of]
            else:
                for cell in range(room_for(notes, to)):
                    notes.numbers[notes.start[to] + cell] = notes.numbers[notes.start[of] + before[cell]]
