"""Exact coordinate moves on many mappings at once: steepest descent over prime factors and loop orders.

A *row* is one layer under one condition (its group's shared trips, which of its tensors are fused, a budget of L2)
with one starting mapping. All moves of all rows are priced in one call of the cost model, the best legal one of each
row is taken, and this repeats under one compiled loop until no row improves.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.cost.arrays import Fusion, HardwareArrays, LayerArrays, MappingArrays
from fadiff.cost.capacity import kept_and_passing
from fadiff.cost.model import layer_costs
from fadiff.search.space import ORDER1, ORDER2, SLIDING_ORDERS3
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray


class Rows(NamedTuple):
    """Layers under conditions; the last axis of every array runs over rows."""

    layers: LayerArrays
    fusion: Fusion
    l2_budget: Array
    """Bytes of L2 that the row's tiles may take while it runs."""
    kept_budget: Array
    """Bytes of L2 that the row's tiles may take while other layers of its group run."""
    l1_budget: Array
    must_complete: Array
    """Whether partial sums may not spill (fused producers; softmax under X)."""
    energy_weight: Array
    cycles_weight: Array
    """price = energy_weight * energy + cycles_weight * cycles, times the layer's repeat."""
    l2_weight: Array
    """Price of a byte of L2: breaks ties in favour of small tiles."""


class Moves(NamedTuple):
    """Moves of each row, ``[moves, rows]``: shift `factor` of `dim` from one slot to another (factor 1: nothing).

    Slots: 0 spatial, 1..3 t0..t2, 4 the private part of t3.
    """

    dim: Array
    source: Array
    target: Array
    factor: Array


class Priced(NamedTuple):
    """Mappings with what the model says of them."""

    price: Array
    order: Array
    energy_pj: Array
    cycles: Array
    kept: Array
    passing: Array
    l1_bytes: Array


def rank_table() -> NDArray[np.float32]:
    """``[3, 8, orders]`` ranks of every dim's loop at L1, L2, L3."""
    fixed = [[[order.index(d)] * len(SLIDING_ORDERS3) for d in DIMS] for order in (ORDER1, ORDER2)]
    return np.array([*fixed, [[order.index(d) for order in SLIDING_ORDERS3] for d in DIMS]], dtype=np.float32)


def price(rows: Rows, factors: Array, hardware: HardwareArrays, axes: Array) -> Priced:
    """Price `factors` ``[5, 8, ..., rows]`` in the best of :data:`SLIDING_ORDERS3`; infinite where nothing fits.

    `axes` ``[2, 8]`` marks the dims that unroll over array rows and columns.
    """
    x_of_k, x_of_c = rows.fusion.x_trips[0], rows.fusion.x_trips[1]
    trips = rows.fusion.trips
    one = jnp.ones_like(x_of_k)
    shared = jnp.stack([trips[0], trips[1], x_of_k, x_of_c, trips[2], trips[3], one, one])
    lift = factors.ndim - 3
    t3 = factors[4] * shared.reshape(shared.shape[0], *([1] * lift), shared.shape[1])
    ranks = jnp.asarray(rank_table()).reshape(3, 8, len(SLIDING_ORDERS3), *([1] * (lift + 1)))
    temporal = jnp.stack([factors[1], factors[2], factors[3], t3])[:, :, None]
    mapping = MappingArrays(spatial=factors[0][:, None], temporal=temporal, rank=ranks)
    costs = layer_costs(rows.layers, mapping, rows.fusion, hardware)
    tiles = costs.tiles
    kept, passing = kept_and_passing(rows.layers, rows.fusion, tiles)
    held = kept + passing
    columns = factors[0, 2] * factors[0, 0]
    l1_bytes = 4 * tiles.output1 * hardware.cols / columns
    unrolled = jnp.log2(factors[0])
    over = (
        jnp.einsum("ad,d...->a...", axes, unrolled)
        > jnp.log2(jnp.stack([hardware.rows, hardware.cols]).reshape(2, *([1] * (lift + 1)))) + 1e-4
    )
    fits = (
        (held <= rows.l2_budget)
        & (kept <= rows.kept_budget)
        & (l1_bytes <= rows.l1_budget)
        & ~(over[0] | over[1])
        # Sums that spill do so at least once each; half of that is safe from rounding in 32 bits.
        & ~((rows.must_complete > 0) & (tiles.spills > 0.5 * rows.layers.output_words))
    )
    weighed = rows.energy_weight * costs.energy.total + rows.cycles_weight * costs.cycles.total
    priced = jnp.where(fits, weighed * rows.layers.repeat + rows.l2_weight * held, jnp.inf)
    order = jnp.argmin(priced, axis=0)

    def pick(values: Array) -> Array:
        return jnp.take_along_axis(jnp.broadcast_to(values, priced.shape), order[None], axis=0)[0]

    return Priced(
        pick(priced), order, pick(costs.energy.total), pick(costs.cycles.total),
        pick(kept), pick(passing), pick(l1_bytes),
    )  # fmt: skip


def _shift(factors: Array, moves: Moves) -> Array:
    """`factors` ``[5, 8, ..., rows]`` after each move, ``[5, 8, moves, rows]``; impossible shifts change nothing."""
    dims = jnp.arange(8)[:, None, None]
    slots = jnp.arange(5)[:, None, None, None]
    on_dim = moves.dim[None] == dims
    source, target = on_dim[None] & (slots == moves.source), on_dim[None] & (slots == moves.target)
    held = jnp.sum(jnp.where(source, factors, 0), axis=(0, 1))
    factor = jnp.where(jnp.mod(held, moves.factor) == 0, moves.factor, 1)
    return jnp.round(factors * jnp.where(target, factor, 1) / jnp.where(source, factor, 1))


def _neighbours(factors: Array, moves: Moves, *, pairs: bool) -> Array:
    """``[5, 8, neighbours, rows]``: `factors` after every move, or after every two moves in a row."""
    if not pairs:
        return _shift(factors[:, :, None], moves)
    first, second = np.triu_indices(moves.dim.shape[0])
    once = _shift(factors[:, :, None], Moves(*(part[first] for part in moves)))
    return _shift(once, Moves(*(part[second] for part in moves)))


class _Climb(NamedTuple):
    factors: Array
    priced: Priced
    moving: Array
    """``[rows]`` whether the last round moved the row."""
    rounds: Array


@partial(jax.jit, static_argnames=("pairs",))
def climb(
    rows: Rows, start: Array, moves: Moves, hardware: HardwareArrays, axes: Array, max_rounds: Array, *, pairs: bool
) -> tuple[Array, Priced, Array]:
    """Take the best move of every row (the best two with `pairs`) until none improves, or the rounds are over.

    One of the moves must change nothing, so that the first round prices the start itself. Returns the mappings
    ``[5, 8, rows]``, what the model says of them, and which rows could go on.
    """

    def unfinished(state: _Climb) -> Array:
        return state.moving.any() & (state.rounds < max_rounds)

    def advance(state: _Climb) -> _Climb:
        tried = _neighbours(state.factors, moves, pairs=pairs)
        priced = price(rows, tried, hardware, axes)
        chosen = jnp.argmin(priced.price, axis=0)
        best = Priced(*(jnp.take_along_axis(values, chosen[None], axis=0)[0] for values in priced))
        improves = best.price < state.priced.price * (1 - 1e-6)
        taken = jnp.take_along_axis(tried, chosen[None, None, None, :], axis=2)[:, :, 0]
        return _Climb(
            factors=jnp.where(improves, taken, state.factors),
            priced=Priced(*(jnp.where(improves, new, old) for new, old in zip(best, state.priced, strict=True))),
            moving=improves,
            rounds=state.rounds + 1,
        )

    nothing = jnp.full(start.shape[-1], jnp.inf, dtype=start.dtype)
    unpriced = Priced(nothing, jnp.zeros(start.shape[-1], dtype=jnp.int32), *([nothing] * 5))
    begin = _Climb(start, unpriced, jnp.ones(start.shape[-1], dtype=bool), jnp.array(0))
    final = jax.lax.while_loop(unfinished, advance, begin)
    return final.factors, final.priced, final.moving
