r"""What a layer's flows cost at least, given the extents at which their reuse ends, and which tiles fit.

With *notA* the product of the factors of a dim that are not in a set A of nodes,

.. math:: count(d; A) \ge \lceil size(d) / notA(d) \rceil

(every combination of the others holds at most notA indices), and equal where the nodes outside A are the innermost. So
every flow of the model has a bound that depends on one vector of extents alone. Extents stand in
:class:`~fadiff.search.solver.grid.Cells`. Everything rounds so that the result is never above what it bounds.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from fadiff.schedule.nest import IRRELEVANT_DIMS, PLAIN_DIMS, RELEVANT_DIMS, C, G, K, N, P, Q, R, S
from fadiff.search.solver.compiled import compiled, compiled_leaf, compiled_part
from fadiff.search.solver.counts import (
    HOME,
    INNERMOST,
    IRRELEVANT,
    KEEPER,
    NOWHERE,
    ONCE,
    PARENT,
    SPILLED,
    SUMS,
    TENSOR,
    TENSORS,
    TOP,
    Facts,
    count,
    lanes_between,
    lines,
    side,
)
from fadiff.search.solver.grid import Rows

if TYPE_CHECKING:
    from jaxtyping import Int

Flow = int
"""A tensor on its way to one of its keepers, by its number in the facts of a layer."""
W, I, O = range(3)  # noqa: E741  (the tensors' names)
_RELEVANT_TO_W = RELEVANT_DIMS["W"]
_RELEVANT_TO_O = RELEVANT_DIMS["O"]
_REDUCED = IRRELEVANT_DIMS["O"]
_PLAIN = np.array([[d in PLAIN_DIMS[tensor] for d in range(8)] for tensor in TENSORS])
CLOSING_DIMS = (IRRELEVANT_DIMS["W"], tuple(sorted((*IRRELEVANT_DIMS["I"], P, Q, R, S))), IRRELEVANT_DIMS["O"])
"""By tensor: dims whose extents decide what a flow costs that closes at them."""
_CLOSES = np.array([[d in dims for d in range(8)] for dims in CLOSING_DIMS])
UNKNOWN = -1
"""Of what is true, 1, or not, 0: that is left open."""


class Role(NamedTuple):
    """What fusion changes in a layer, as :class:`~fadiff.schedule.arrays.Fusion` has it."""

    fused_input: float = 0.0
    """Share of its input channels that arrive over fused edges."""
    fused_weight: float = 0.0
    drained: float = 1.0
    copied: float = 0.0


ALONE = Role()


class Prices(NamedTuple):
    """What everything costs, and how much room there is."""

    fixed: float
    """Paid whatever the mapping."""
    idle: float
    """Of the steps, at their fewest: more of them cost as much more."""
    read: Float[np.ndarray, " nodes"]
    """Of a bit read at a memory (0 at axes)."""
    write: Float[np.ndarray, " nodes"]
    room: Float[np.ndarray, " nodes"]
    """Bytes for the layer's tiles in a memory."""
    role: Role
    trips: Float[np.ndarray, " 8"]
    """Shared trips over each dim at least: as often comes again what does not outlast them."""
    tile: Float[np.ndarray, " 8"]
    """The least extent of each dim in one shared iteration."""
    keeps: int
    """Whether weights stay in their home over shared iterations."""
    finished: Int[np.ndarray, " nodes"]
    """By memory: whether all sums that arrive there are finished."""


Rates = Float[np.ndarray, "flows 5"]
"""By flow: what it costs whatever the tiles, each time that it passes its keeper, *here*, and its parent, *outside*;
how much more than outside it passes here at most; and whether it may only pass its parent once, finished."""
FIXED, OF_HERE, OF_OUTSIDE, MOST, WHOLE = range(5)


@compiled_leaf
def cost(rates: Rates, flow: int, here: float, outside: float) -> float:
    """What a flow costs that passes so often. Where what passes here is a gain, lanes make no more of what arrives."""
    if rates[flow, WHOLE] == 1 and outside > 1:
        return inf
    if rates[flow, OF_HERE] < 0:
        outside = max(outside, here / rates[flow, MOST])
        here = outside * rates[flow, MOST]
    return rates[flow, FIXED] + rates[flow, OF_HERE] * here + rates[flow, OF_OUTSIDE] * outside


# How often.

ORDER = (R, S, G, N, P, Q, C, K)
"""Lattices have an axis for every dim, those of most cells last."""


@compiled_leaf
def size_of(shape: Int[np.ndarray, " 8"]) -> int:
    """Cells of a lattice."""
    found = 1
    for d in range(8):
        found *= shape[d]
    return found


@compiled_part
def passes(
    at: Facts, flow: int, place: int, trips: Float[np.ndarray, " 8"], rows: Rows, row: Int[np.ndarray, " 8"]
) -> tuple[Int[np.ndarray, " 8"], Float[np.ndarray, "cells 2"]]:
    """How often a tensor whose reuse ends at extents of the cells, by dim those of a row, among the loops of node
    `place`, passes a keeper: at all its instances, and at its parent. Cells of the dims that matter, in order; all
    others are one."""
    tensor, keeper, parent = at.flow[flow, TENSOR], at.flow[flow, KEEPER], at.flow[flow, PARENT]
    shape, most = np.ones(8, dtype=np.int64), 1
    for d in range(8):
        if _CLOSES[tensor, d]:
            shape[d] = rows.number[row[d], d]
            most = max(most, shape[d])
    often, image, sides = np.ones((8, most, 2)), np.ones((2, most, most, 2)), np.empty((2, most, 7))
    for d in range(8):
        for cell in range(shape[d] if IRRELEVANT[tensor, d] else 0):
            low, high = rows.low[row[d], d, cell], rows.high[row[d], d, cell]
            often[d, cell, 0] = max(count(at, d, low, high, place, keeper, keeper), trips[d])
            often[d, cell, 1] = max(count(at, d, low, high, place, keeper, parent), trips[d])
    for i in range(2 if tensor == I else 0):
        for kernel in range(2):
            d = (P if i == 0 else Q) + 2 * kernel
            for cell in range(shape[d]):
                ends = rows.low[row[d], d, cell], rows.high[row[d], d, cell]
                known = side(at, i, kernel, flow, place, ends)
                for j in range(7):
                    sides[kernel, cell, j] = known[j]
        for m in range(shape[P if i == 0 else Q]):
            for n in range(shape[R if i == 0 else S]):
                image[i, m, n, 0], image[i, m, n, 1] = lines(at, i, flow, sides[0, m], sides[1, n])
    found = np.empty((size_of(shape), 2))
    for j in range(2):
        cell = 0
        for r in range(shape[R]):
            for s in range(shape[S]):
                for n in range(shape[N]):
                    outside = often[R, r, j] * often[S, s, j] * often[N, n, j]
                    for p in range(shape[P]):
                        rows_there = outside * (often[P, p, j] * image[0, p, r, j])
                        for q in range(shape[Q]):
                            there = rows_there * (often[Q, q, j] * image[1, q, s, j])
                            for c in range(shape[C]):
                                for k in range(shape[K]):
                                    found[cell, j] = there * often[C, c, j] * often[K, k, j]
                                    cell += 1
    return shape, found


@compiled_leaf
def returns(
    at: Facts, tensor: int, place: int, trips: Float[np.ndarray, " 8"], low: Rows, row: Int[np.ndarray, " 8"], cell: int
) -> bool:
    """Whether loops, whatever the lanes, are certain to repeat what closes at some extents: those of a cell of the dims
    that matter, in order."""
    rest = cell
    for i in range(8):
        d = ORDER[7 - i]
        number = low.number[row[d], d] if _CLOSES[tensor, d] else 1
        high = low.high[row[d], d, rest % number]
        rest //= number
        if IRRELEVANT[tensor, d]:
            above = high * (1.0 if place == TOP else lanes_between(at.high_between, TOP, place, d))
            if above < at.size[d] or trips[d] > 1:
                return True
    return False


@compiled_part
def prices_of(
    at: Facts,
    rates: Rates,
    flow: int,
    place: int,
    trips: Float[np.ndarray, " 8"],
    rows: Rows,
    row: Int[np.ndarray, " 8"],
) -> tuple[Int[np.ndarray, " 8"], Float[np.ndarray, " cells"]]:
    """The least price of a flow in each of the cells that :func:`passes` tells of."""
    shape, often = passes(at, flow, place, trips, rows, row)
    found = np.empty(len(often))
    tensor = at.flow[flow, TENSOR]
    fixed, of_here, of_outside = rates[flow, FIXED], rates[flow, OF_HERE], rates[flow, OF_OUTSIDE]
    barred = at.tensor[tensor, ONCE] == 1 and at.flow[flow, KEEPER] == at.tensor[tensor, HOME]
    if of_here >= 0 and rates[flow, WHOLE] == 0 and not barred:
        for cell in range(len(often)):
            found[cell] = fixed + of_here * often[cell, 0] + of_outside * often[cell, 1]
        return shape, found
    for cell in range(len(often)):
        found[cell] = cost(rates, flow, often[cell, 0], often[cell, 1])
        if barred and returns(at, tensor, place, trips, rows, row, cell):
            found[cell] = inf
    return shape, found


# What a flow costs where it ends.


@compiled_part
def rates_of(at: Facts, prices: Prices) -> Rates:
    """What all flows of a layer cost."""
    rates, role = np.zeros((len(at.flow), 5)), prices.role
    for flow in range(len(at.flow)):
        tensor, keeper, parent = at.flow[flow, TENSOR], at.flow[flow, KEEPER], at.flow[flow, PARENT]
        if tensor == O:
            rates[flow, FIXED], rates[flow, OF_HERE], rates[flow, OF_OUTSIDE] = _sums(at, prices, flow)
            rates[flow, MOST] = _most_parts(at, flow)
            if prices.finished[parent] == 1 or (keeper == at.hands_over and role.copied != 0):
                rates[flow, WHOLE] = 1
        else:
            fused = role.fused_weight if tensor == W else role.fused_input
            here = at.bits[tensor] * prices.write[keeper] * (1 - fused if keeper <= at.fuses else 1.0)
            values = _values(at, tensor)
            rates[flow, OF_HERE] = values * here
            rates[flow, OF_OUTSIDE] = values * _read_price(at, prices, tensor, parent, keeper)
    return rates


@compiled_leaf
def _values(at: Facts, tensor: int) -> float:
    """Values of a tensor, of I those of a row and a column."""
    found = 1.0
    for d in range(8):
        if _PLAIN[tensor, d]:
            found *= at.size[d]
    return found


@compiled_leaf
def _read_price(at: Facts, prices: Prices, tensor: int, parent: int, child: int) -> float:
    """Price of a value of W or I read at a keeper; the fused ones at the memory that fuses."""
    fused = prices.role.fused_weight if tensor == W else prices.role.fused_input
    price = at.bits[tensor] * prices.read[parent]
    if parent > at.fuses:
        return price
    if parent < at.fuses and child <= at.fuses:
        return (1 - fused) * price
    return (1 - fused) * price + fused * at.bits[O] * prices.read[at.fuses]


@compiled_leaf
def _reduced_lanes(lanes: Float[np.ndarray, "outer inner 8"], outer: int, inner: int) -> float:
    """Lanes between two nodes whose sums are one."""
    found = 1.0
    for d in _REDUCED:
        found *= lanes_between(lanes, outer, inner, d)
    return found


@compiled_leaf
def _finished(at: Facts, memory: int, finished: float, split: float) -> float:
    """The first of two numbers where no lanes above a memory split sums, else the second; the less where that is
    open."""
    if _reduced_lanes(at.high_between, TOP, memory) == 1:
        return finished
    return split if splits(at, memory) else min(finished, split)


@compiled_leaf
def splits(at: Facts, memory: int) -> bool:
    """Whether lanes above a memory are certain to split sums."""
    return _reduced_lanes(at.low_between, TOP, memory) > 1


@compiled_leaf
def _sums(at: Facts, prices: Prices, flow: int) -> tuple[float, float, float]:
    """The price of O between a keeper and its parent: finished outputs, unfinished sums, and sums fetched back.

    Where lanes above a memory split sums, what arrives there and does not leave it is fetched back, and what comes
    back to it from further out: what arrives is charged to the flow that brings it, and what leaves for good is
    credited to the memory's own.
    """
    parent, keeper = at.flow[flow, PARENT], at.flow[flow, KEEPER]
    fixed, of_here, of_outside = _prices_of_sums(at, prices, flow)
    if splits(at, parent):
        charged = _charged(at, prices, flow - 1)
        fixed, of_outside = fixed + at.outputs * charged, of_outside + charged
    if keeper != at.tensor[O, INNERMOST] and splits(at, keeper):
        credited = _charged(at, prices, flow)
        fixed, of_here = fixed - at.outputs * credited, of_here - credited
        of_outside += _finished(at, parent, credited, 0.0)
    # Each value passes once whatever the mapping: only what passes again is charged by how often.
    return fixed - at.outputs * (of_here + of_outside), at.outputs * of_here, at.outputs * of_outside


@compiled_leaf
def _prices_of_sums(at: Facts, prices: Prices, flow: int) -> tuple[float, float, float]:
    """What O costs between a keeper and its parent if each value passes both once; and of each output, passing the
    keeper, and the parent, once more. What is fetched back from a parent above which lanes split sums is left out.
    """
    keeper, parent, role = at.flow[flow, KEEPER], at.flow[flow, PARENT], prices.role
    arrives, leaves, fixed = 1.0, 1.0, 0.0
    if parent < at.fuses:
        arrives = leaves = role.drained
        if keeper > at.fuses:
            leaves = role.drained + role.copied
            fixed = at.stored * role.copied * at.bits[O] * prices.write[at.fuses]
    sums = _width_at(at, parent)
    done = _finished(at, parent, at.stored * at.bits[O] * arrives, at.outputs * sums)
    back = _finished(at, parent, _price_of_return(at, prices, flow), 0.0)
    read, write = float(prices.read[keeper]), float(prices.write[parent])
    fixed, of_outside = fixed + write * done, write * sums + back
    # Departures from the keeper; those of the innermost are counted with its updates.
    if keeper == at.tensor[O, INNERMOST]:
        return fixed + read * float(at.bits[SUMS]) * at.outputs * (leaves - 1), 0.0, of_outside
    done = _finished(at, keeper, at.stored * at.bits[O] * leaves, at.outputs * at.bits[SUMS] * leaves)
    rest = _finished(at, keeper, 1.0, leaves)
    return fixed + read * done, read * float(at.bits[SUMS]) * rest, of_outside


@compiled_leaf
def _width_at(at: Facts, memory: int) -> float:
    """Bits of a sum in a memory: of one that is spilled in the first."""
    return at.bits[SPILLED] if memory == 0 else at.bits[SUMS]


@compiled_leaf
def _price_of_return(at: Facts, prices: Prices, flow: int) -> float:
    """The price of a sum that a keeper fetches back from its parent, and reads once more if it is the innermost."""
    keeper, parent = at.flow[flow, KEEPER], at.flow[flow, PARENT]
    again = prices.write[keeper] + (prices.read[keeper] if keeper == at.tensor[O, INNERMOST] else 0.0)
    return prices.read[parent] * _width_at(at, parent) + again * at.bits[SUMS]


@compiled_leaf
def _charged(at: Facts, prices: Prices, flow: int) -> float:
    """Of the price of a sum fetched back from a keeper above which lanes split sums, so much that what leaves it
    for one sum that arrives at its parent costs no less than nothing after the credit."""
    most = _most_parts(at, flow)
    _, of_here, of_outside = _prices_of_sums(at, prices, flow)
    again = _finished(at, at.flow[flow, PARENT], 1.0, 0.0)
    price = _price_of_return(at, prices, flow + 1)
    return price if most <= again else min(price, (most * of_here + of_outside) / (most - again))


@compiled_leaf
def _most_parts(at: Facts, flow: int) -> float:
    """So many sums at most leave a keeper for one that arrives at its parent."""
    return _reduced_lanes(at.high_between, at.flow[flow, PARENT], at.flow[flow, KEEPER])


@compiled_part
def at_macs(at: Facts, prices: Prices) -> float:
    """What the MACs read and add, whatever the loops: each value once per step, lanes below a keeper together."""
    total, nodes = prices.fixed, at.high.shape[0]
    for tensor in range(3):
        keeper, values, groups = at.tensor[tensor, INNERMOST], _values(at, tensor), np.ones(8)
        for d in range(8):
            groups[d] = np.ceil(at.size[d] / min(at.size[d], lanes_between(at.high_between, keeper, nodes, d)))
            if IRRELEVANT[tensor, d]:
                values *= groups[d]
        for image in range(2 if tensor == I else 0):
            # Lanes over both read at least what is different, as at other keepers.
            out, kernel = (P, R) if image == 0 else (Q, S)
            rows, taps, n, m = at.size[out], at.size[kernel], groups[out], groups[kernel]
            alone = (
                lanes_between(at.high_between, keeper, nodes, out) == 1
                or lanes_between(at.high_between, keeper, nodes, kernel) == 1
            )
            values *= rows * taps if alone else rows * m + taps * n - n * m
        if tensor == O:
            total += values * at.bits[SUMS] * (prices.read[keeper] + prices.write[keeper])
        else:
            total += values * _read_price(at, prices, tensor, keeper, nodes)
    return total


@compiled_part
def least_of(at: Facts, prices: Prices, rates: Rates) -> Float[np.ndarray, " flows"]:
    """What each flow costs at any extents at least.

    Large tiles are not always best: a box holds rows that a stride would skip. Over shared iterations a tensor is
    kept in its home or not at all, and W only where all of it fits there.
    """
    found, may_keep = np.empty(len(at.flow)), may_stay(at, prices)
    anything = Rows(np.ones((1, 8, 1)), np.ones((1, 8, 1)), np.ones((1, 8), dtype=np.int64))
    row, once = np.zeros(8, dtype=np.int64), np.ones(8)
    for d in range(8):
        anything.high[0, d, 0] = at.size[d]
    for flow in range(len(found)):
        tensor = at.flow[flow, TENSOR]
        kept = at.flow[flow, KEEPER] == at.tensor[tensor, HOME] and (tensor != W or may_keep)
        found[flow] = prices_of(at, rates, flow, TOP, once if kept else prices.trips, anything, row)[1][0]
    return found


@compiled
def may_stay(at: Facts, prices: Prices) -> bool:
    """Whether weights can stay in their home over shared iterations: all of one fit there at once."""
    home = at.tensor[W, HOME]
    if prices.keeps == 0 or home == NOWHERE:
        return False
    held = at.bits[W] / 8
    for d in _RELEVANT_TO_W:
        held *= np.ceil(prices.tile[d] / lanes_between(at.high_between, TOP, home, d))
    share = 1 - prices.role.fused_weight if home <= at.fuses else 1.0
    return share * held <= prices.room[home] * (1 + 1e-12) + 1e-9


@compiled
def floor(at: Facts, prices: Prices) -> float:
    """What a layer costs at any extents at least."""
    if prices.keeps == 1 and not may_stay(at, prices):
        return inf
    found = at_macs(at, prices)
    for least in least_of(at, prices, rates_of(at, prices)):
        found += least
    return found


@compiled
def total(at: Facts, prices: Prices, often: Float[np.ndarray, "flows 2"]) -> float:
    """What a layer costs where each of its flows passes its keeper and its parent so often."""
    found, rates = at_macs(at, prices), rates_of(at, prices)
    for flow in range(len(often)):
        found += cost(rates, flow, often[flow, 0], often[flow, 1])
    return found


# Where tiles fit.


class Widths(NamedTuple):
    """What decides whether tiles fit in a memory."""

    weight: float
    """Bytes of a value of each tensor; of O at its least."""
    input: float
    output: float
    wide: float
    """Bytes of a value of O where sums arrive unfinished."""
    unfinished: int
    """Whether they do."""
    most: float
    """Values of O that the next keeper further in can hold: of larger tiles, sums arrive unfinished if they go on."""
    room: float


@compiled
def widths(at: Facts, prices: Prices, memory: int) -> Widths:
    """What decides whether tiles fit in a memory at some prices."""
    role, outside = prices.role, memory <= at.fuses
    weight = (1 - role.fused_weight if outside else 1.0) * at.bits[W] / 8 if at.keeps[W, memory] else 0.0
    data = (1 - role.fused_input if outside else 1.0) * at.bits[I] / 8 if at.keeps[I, memory] else 0.0
    share = (1 - role.copied if memory == at.fuses else 1.0) / 8 if at.keeps[O, memory] else 0.0
    unfinished, most = 0, inf
    if at.keeps[O, memory] and memory != at.tensor[O, INNERMOST]:
        unfinished = 1 if prices.finished[memory] == 0 else UNKNOWN
        child = memory + 1
        while not at.keeps[O, child]:
            child += 1
        most = prices.room[child] * 8 / _least_width(at, child)
        for d in _RELEVANT_TO_O:
            most *= lanes_between(at.high_between, memory, child, d)
    width = share * _least_width(at, memory)
    room = prices.room[memory] * (1 + 1e-12) + 1e-9
    return Widths(weight, data, width, share * at.bits[SUMS], unfinished, most + 0.5, room)


@compiled_leaf
def _least_width(at: Facts, memory: int) -> float:
    """Bits that a value of O takes in a memory at least: where all that arrive are finished, if they may be."""
    if memory == at.tensor[O, INNERMOST] or splits(at, memory):
        return at.bits[SUMS]
    return min(at.bits[SUMS], at.bits[O] * at.stored / at.outputs)


@compiled_leaf
def held(at: Facts, width: Widths, low: Float[np.ndarray, " 8"], wide: float) -> float:
    """Bytes of tiles with some extents, a value of O of some width."""
    rows = (low[P] - 1) * at.image[0, 0] + (low[R] - 1) * at.image[0, 1] + 1
    cols = (low[Q] - 1) * at.image[1, 0] + (low[S] - 1) * at.image[1, 1] + 1
    weights = width.weight * low[G] * low[K] * low[C] * low[R] * low[S]
    return weights + width.input * low[G] * low[N] * low[C] * rows * cols + wide * _tile(low)


@compiled_leaf
def _tile(low: Float[np.ndarray, " 8"]) -> float:
    return low[G] * low[N] * low[K] * low[P] * low[Q]


@compiled
def too_large(at: Facts, width: Widths, low: Float[np.ndarray, " 8"], high: Float[np.ndarray, " 8"]) -> bool:
    """Whether tiles of the lower ends of one cell do not fit in a memory.

    Sums are certain to arrive there before they are finished where C, R or S goes on further out, and the next keeper
    further in does not hold the whole tile meanwhile.
    """
    unfinished = width.unfinished == 1
    if width.unfinished == UNKNOWN and _tile(low) > width.most:
        for d in _REDUCED:
            unfinished = unfinished or high[d] < at.size[d]
    return held(at, width, low, width.wide if unfinished else width.output) > width.room
