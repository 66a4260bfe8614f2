"""A walk through the extents of a layer: the steps of a program, and the cheapest way that they find, back again."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.solver.chain import FLOW, KEPT, LEAST, LOOP, PAY, PICK, PLACE, SLIDE, SPREAD, STAY, Program
from fadiff.search.solver.closing import (
    ORDER,
    Prices,
    Rates,
    at_macs,
    least_of,
    passes,
    prices_of,
    rates_of,
    size_of,
    too_large,
    widths,
)
from fadiff.search.solver.compiled import compiled, compiled_leaf, compiled_part
from fadiff.search.solver.counts import KEEPER, Facts, idle, lanes_between, widest
from fadiff.search.solver.grid import Rows
from fadiff.search.solver.loops import Trips
from fadiff.search.solver.steps import loops, spreads, stays

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


class Tiles(NamedTuple):
    """From which extents to which tiles may be in one shared iteration, and further in at most."""

    low: Float[np.ndarray, " 8"]
    high: Float[np.ndarray, " 8"]
    most: Float[np.ndarray, " 8"]


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


class _Steps(NamedTuple):
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


class _Notes(NamedTuple):
    """Lattices, and prices that lie along some of their dims, one after the other."""

    numbers: Float[np.ndarray, " numbers"]
    start: Int[np.ndarray, " lattices_and_prices"]
    """Where each begins; -1 of those to which no way leads."""
    shape: Int[np.ndarray, "lattices_and_prices 8"]
    row: Int[np.ndarray, "lattices_and_prices 8"]
    """By dim: the row of extents."""
    end: Int[np.ndarray, " 1"]
    counters: Int[np.ndarray, "3 9"]
    """For whoever counts through a lattice."""


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
    rows, first = _rows(at, prices, grid, tiles, nodes)
    rates = rates_of(at, prices)
    least = least_of(at, prices, rates)
    many = lattices + len(steps.prices)
    notes = _Notes(
        numbers,
        np.full(many, -1),
        np.ones((many, 8), dtype=np.int64),
        np.full((many, 8), 2 * nodes),
        np.ones(1, dtype=np.int64),
        np.zeros((3, 9), dtype=np.int64),
    )
    most = rows.low.shape[2]
    picked = np.zeros((nodes, 8, most), dtype=np.int64)
    reach = _Steps(
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
            _least(notes, to, steps.listed, a, b)
        elif kind == PICK:
            _pick(notes, rows, picked, fits, a, nodes, steps.listed, b, c)
        elif notes.start[of] >= 0:
            _same(notes, of, to)
            if kind <= SPREAD:
                if reach.known[kind, b, a] == UNKNOWN:
                    _find_steps(at, prices, rows, asked, reach, kind, a, int(notes.row[of, a]), b)
                notes.row[to, a], notes.shape[to, a] = b, rows.number[b, a]
                if reach.known[kind, b, a] == NOWHERE:
                    notes.start[to] = -1
                elif reach.known[kind, b, a] == SOME:
                    dearer = reach.dearer[reach.costs[kind, b, a]]
                    _move(notes, of, to, a, reach.allowed[kind, b, a], reach.ahead[kind, b, a], dearer)
            elif kind == PAY:
                for i in range(a, b):
                    price = lattices + steps.listed[i]
                    if notes.start[price] < 0:
                        _price(at, prices, rates, steps, rows, notes, price)
                    _add(notes, of if i == a else to, to, price)
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
    return _back(at, prices, steps, rows, reach, notes, picked, first, enough)


# Notes.


@compiled_leaf
def _same(notes: _Notes, of: int, to: int) -> None:
    """One lattice is another."""
    notes.start[to] = notes.start[of]
    for d in range(8):
        notes.shape[to, d], notes.row[to, d] = notes.shape[of, d], notes.row[of, d]


@compiled_leaf
def _room(notes: _Notes, to: int) -> int:
    """Room for a lattice of its shape, as far as there is any: how many numbers."""
    size = size_of(notes.shape[to])
    notes.start[to] = notes.end[0]
    notes.end[0] += size
    return size if notes.end[0] <= len(notes.numbers) else 0


@compiled_leaf
def _flat(index: Int[np.ndarray, " 8"], shape: Int[np.ndarray, " 8"]) -> int:
    """Where a cell is in a lattice."""
    found = 0
    for d in ORDER:
        found = found * shape[d] + index[d]
    return found


@compiled_leaf
def _next(index: Int[np.ndarray, " 8"], shape: Int[np.ndarray, " 8"]) -> None:
    """The cell after one."""
    for i in range(8):
        d = ORDER[7 - i]
        index[d] += 1
        if index[d] < shape[d]:
            return
        index[d] = 0


# Extents.


@compiled_part
def _rows(at: Facts, prices: Prices, grid: Rows, tiles: Tiles, nodes: int) -> tuple[Rows, Int[np.ndarray, "nodes 8"]]:
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
def _find_steps(
    at: Facts, prices: Prices, rows: Rows, asked: Trips, found: _Steps, step: int, d: int, before: int, node: int
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


# Steps.


@compiled_leaf
def _move(
    notes: _Notes,
    of: int,
    to: int,
    d: int,
    allowed: Bool[np.ndarray, "wanted had"],
    ahead: Int[np.ndarray, " wanted"],
    dearer: Float[np.ndarray, "wanted had"],
) -> None:
    """The cheapest of the cells that may come before each cell of a dim, with what the step costs."""
    wanted, had = notes.shape[to, d], notes.shape[of, d]
    lines, each, inside = 1, 1, False
    for other in ORDER:
        if other == d:
            inside = True
        elif inside:
            each *= notes.shape[of, other]
        else:
            lines *= notes.shape[of, other]
    if _room(notes, to) == 0:
        return
    numbers, old, new, longest = notes.numbers, notes.start[of], notes.start[to], 0
    for i in range(wanted):
        longest = max(longest, ahead[i])
    # Where the first cells are all allowed, the cheapest so far is taken: it is noted where the next lattice begins.
    least, one = notes.end[0], np.uint64(each)
    if least + longest * each > len(numbers):
        notes.end[0] = len(numbers) + 1
        return
    for line in range(lines):
        before = old + line * had * each
        for j in range(longest):
            last, here = np.uint64(least + (j - 1 if j > 0 else j) * each), np.uint64(before + j * each)
            start = np.uint64(least + j * each)
            for k in range(one):
                value = numbers[here + k]
                numbers[start + k] = numbers[last + k] if j > 0 and numbers[last + k] < value else value
        for i in range(wanted):
            start = np.uint64(new + (line * wanted + i) * each)
            if ahead[i] > 0:
                last = np.uint64(least + (ahead[i] - 1) * each)
                for k in range(one):
                    numbers[start + k] = numbers[last + k]
            else:
                for k in range(one):
                    numbers[start + k] = inf
            for j in range(ahead[i], had):
                if allowed[i, j]:
                    here, more = np.uint64(before + j * each), dearer[i, j]
                    for k in range(one):
                        value = numbers[here + k] + more
                        numbers[start + k] = value if value < numbers[start + k] else numbers[start + k]


@compiled_part
def _price(at: Facts, prices: Prices, rates: Rates, steps: Program, rows: Rows, notes: _Notes, to: int) -> None:
    """What a flow costs where it closes."""
    price = steps.prices[to - len(steps.after)]
    trips = np.ones(8) if price[KEPT] == 1 else prices.trips
    shape, found = prices_of(at, rates, price[FLOW], price[PLACE], trips, rows, price[:8])
    for d in range(8):
        notes.shape[to, d] = shape[d]
    for cell in range(_room(notes, to)):
        notes.numbers[notes.start[to] + cell] = found[cell]


@compiled_leaf
def _add(notes: _Notes, of: int, to: int, along: int) -> None:
    """A lattice and a price that lies along some of its dims only."""
    # Dims side by side that the price lies along, or not, are one.
    sizes, strides, index = notes.counters[0], notes.counters[1], notes.counters[2]
    count, stride = 0, 1
    sizes[0], strides[0] = 1, 0
    for i in range(8):
        d = ORDER[7 - i]
        if notes.shape[of, d] > 1:
            step = stride if notes.shape[along, d] > 1 else 0
            stride *= notes.shape[along, d]
            if count > 0 and (strides[count - 1] == 0) == (step == 0):
                sizes[count - 1] *= notes.shape[of, d]
            else:
                sizes[count], strides[count], index[count] = notes.shape[of, d], step, 0
                count += 1
    size = _room(notes, to) if of != to else size_of(notes.shape[to])
    if notes.end[0] > len(notes.numbers):
        return
    numbers, old, new, more = notes.numbers, notes.start[of], notes.start[to], notes.start[along]
    each, done = np.uint64(sizes[0]), 0
    while done < size:
        start, here, extra = np.uint64(new + done), np.uint64(old + done), np.uint64(more)
        if strides[0] == 0:
            price = numbers[more]
            for k in range(each):
                numbers[start + k] = numbers[here + k] + price
        else:
            for k in range(each):
                numbers[start + k] = numbers[here + k] + numbers[extra + k]
        done += sizes[0]
        for i in range(1, count):
            index[i] += 1
            more += strides[i]
            if index[i] < sizes[i]:
                break
            more -= strides[i] * sizes[i]
            index[i] = 0


FULL, FITS, REACHED = range(1, 4)
"""Of a tile and a memory, once it is asked for: it does not fit; it does; and a way leads there that may be cheap
enough."""


@compiled_part
def _open(
    at: Facts,
    prices: Prices,
    rows: Rows,
    notes: _Notes,
    of: int,
    to: int,
    memory: int,
    fits: Int[np.ndarray, " cells"],
    below: float,
) -> None:
    """Only cells that fit in a memory and cost less than some number."""
    some, numbers, old, width = False, notes.numbers, notes.start[of], widths(at, prices, memory)
    low, high = np.ones(8), np.ones(8)
    for cell in range(_room(notes, to)):
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


@compiled_leaf
def _least(notes: _Notes, to: int, listed: Int[np.ndarray, " listed"], first: int, last: int) -> None:
    """Cell by cell the cheapest of some lattices."""
    there = 0
    for i in range(first, last):
        if notes.start[listed[i]] >= 0:
            there += 1
            if there == 1:
                _same(notes, listed[i], to)
    if there < 2:
        return
    numbers, old = notes.numbers, np.uint64(notes.start[to])
    size = np.uint64(_room(notes, to))
    new = np.uint64(notes.start[to])
    for cell in range(size):
        numbers[new + cell] = numbers[old + cell]
    for i in range(first, last):
        if notes.start[listed[i]] >= 0:
            other = np.uint64(notes.start[listed[i]])
            for cell in range(size):
                value = numbers[other + cell]
                numbers[new + cell] = value if value < numbers[new + cell] else numbers[new + cell]


@compiled_part
def _pick(
    notes: _Notes,
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
        _next(index, rows.number[node])
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
        _next(index, rows.number[row])
    for pair in range(first, last, 2):
        of, to = pairs[pair], pairs[pair + 1]
        if notes.start[of] >= 0:
            for d in range(8):
                notes.shape[to, d], notes.row[to, d] = rows.number[row, d], row
            if size == len(fits):
                notes.start[to] = notes.start[of]
            else:
                for cell in range(_room(notes, to)):
                    notes.numbers[notes.start[to] + cell] = notes.numbers[notes.start[of] + before[cell]]


# Back again.


@compiled_part
def _back(
    at: Facts,
    prices: Prices,
    steps: Program,
    rows: Rows,
    reach: _Steps,
    notes: _Notes,
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
                    value = notes.numbers[notes.start[other] + _flat(index, notes.shape[other])]
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
                    value = notes.numbers[notes.start[of] + _flat(index, notes.shape[of])]
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
