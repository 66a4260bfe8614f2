r"""What a layer's flows cost at least, given the extents at which their reuse ends, and which tiles fit.

With *notA* the product of the factors of a dim that are not in a set A of nodes,

.. math:: count(d; A) \ge \lceil size(d) / notA(d) \rceil

(every combination of the others holds at most notA indices), and equal where the nodes outside A are the innermost. So
every flow of the model has a bound that depends on one vector of extents alone. Extents stand in
:class:`~fadiff.search.solver.grid.Cells`. Everything rounds so that the result is never above what it bounds.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from fadiff.schedule.nest import IRRELEVANT_DIMS, C, G, K, N, P, Q, R, S
from fadiff.search.solver.compiled import compiled, compiled_leaf, compiled_part
from fadiff.search.solver.counts import (
    HOME,
    IRRELEVANT,
    KEEPER,
    ONCE,
    PARENT,
    TENSOR,
    TOP,
    Facts,
    count,
    lanes_between,
    lines,
    side,
)
from fadiff.search.solver.fitting import may_stay
from fadiff.search.solver.grid import Rows
from fadiff.search.solver.prices import FIXED, OF_HERE, OF_OUTSIDE, WHOLE, I, Prices, Rates, W, at_macs, cost, rates_of

if TYPE_CHECKING:
    from jaxtyping import Float, Int

Flow = int
"""A tensor on its way to one of its keepers, by its number in the facts of a layer."""
CLOSING_DIMS = (IRRELEVANT_DIMS["W"], tuple(sorted((*IRRELEVANT_DIMS["I"], P, Q, R, S))), IRRELEVANT_DIMS["O"])
"""By tensor: dims whose extents decide what a flow costs that closes at them."""
_CLOSES = np.array([[d in dims for d in range(8)] for dims in CLOSING_DIMS])
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
