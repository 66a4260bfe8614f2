"""What everything costs a layer, and each of its flows, given how often it passes."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from fadiff.schedule.nest import IRRELEVANT_DIMS, PLAIN_DIMS, P, Q, R, S
from fadiff.search.solver.compiled import compiled_leaf, compiled_part
from fadiff.search.solver.counts import (
    INNERMOST,
    IRRELEVANT,
    KEEPER,
    PARENT,
    SPILLED,
    SUMS,
    TENSOR,
    TENSORS,
    TOP,
    Facts,
    lanes_between,
)

if TYPE_CHECKING:
    from jaxtyping import Int

W, I, O = range(3)  # noqa: E741  (the tensors' names)
_REDUCED = IRRELEVANT_DIMS["O"]
_PLAIN = np.array([[d in PLAIN_DIMS[tensor] for d in range(8)] for tensor in TENSORS])
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
