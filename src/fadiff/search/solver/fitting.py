"""Which tiles fit in a memory."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.schedule.nest import IRRELEVANT_DIMS, RELEVANT_DIMS, C, G, K, N, P, Q, R, S
from fadiff.search.solver.compiled import compiled, compiled_leaf
from fadiff.search.solver.counts import HOME, INNERMOST, NOWHERE, SUMS, TOP, Facts, lanes_between
from fadiff.search.solver.prices import UNKNOWN, I, O, Prices, W, splits

if TYPE_CHECKING:
    from jaxtyping import Float

_RELEVANT_TO_W = RELEVANT_DIMS["W"]
_RELEVANT_TO_O = RELEVANT_DIMS["O"]
_REDUCED = IRRELEVANT_DIMS["O"]


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
