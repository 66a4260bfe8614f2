"""Mappings made to fit: factors move outwards, a prime at a time, in one compiled loop over a whole population."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.cost.arrays import HardwareArrays, LayerArrays, MappingArrays
from fadiff.cost.capacity import Needs, needs
from fadiff.cost.model import NetworkCost, layer_costs, network_cost
from fadiff.cost.traffic import Tiles
from fadiff.search.climb import rank_table
from fadiff.search.grouping import Seats
from fadiff.search.space import SLIDING_ORDERS3, SPATIAL, T0, T1, T2, T3
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray


class Fitted(NamedTuple):
    """Mappings that fit, and the price of each individual."""

    private: Array
    """``[5, 8, individuals, layers]`` spatial, t0, t1, t2, private t3."""
    order: Array
    """``[individuals, layers]`` index into :data:`fadiff.search.space.SLIDING_ORDERS3`."""
    fits: Array
    """``[individuals, layers]`` whether the layer's group fits."""
    energy_pj: Array
    """``[individuals]``"""
    cycles: Array
    """``[individuals]``"""


@jax.jit
def fit(
    private: Array,
    order: Array,
    seats: Seats,
    layers: LayerArrays,
    hardware: HardwareArrays,
    axes: Array,
    fullest: Array,
    primes: Array,
) -> Fitted:
    """Move factors outwards until every group fits or gets no smaller, and price what came out.

    `private` ``[5, 8, individuals, layers]`` and `order` are integers; `axes` ``[2, 8]`` marks the dims that unroll
    over array rows and columns; `fullest` ``[8, layers]`` is what fills the array as far as a layer can; `primes`
    ``[n, 8, layers]`` lists the primes of each dim, increasing, padded with 1.
    """

    def unfinished(state: _State) -> Array:
        return (state.rounds == 0) | (state.moved & state.excess.broken.any())

    def advance(state: _State) -> _State:
        private = _shrunk(state.private, state.excess, seats, primes)
        order = jnp.where(state.excess.spills, jnp.asarray(_REDUCING_INSIDE)[state.order], state.order)
        moved = (private != state.private).any() | (order != state.order).any()
        mapping = _mapping(private, order, seats)
        costs = layer_costs(layers, mapping, seats.fusion, hardware)
        need = needs(layers, mapping, seats.fusion, costs.tiles, seats.placement, hardware)
        excess = _excess(private, costs.tiles, need, seats, layers, hardware, axes)
        cost = network_cost(layers, costs)
        return _State(private, order, excess, cost, moved | (state.rounds == 0), state.rounds + 1)

    # The first round moves nothing, it only finds out what does not fit.
    no, none = jnp.zeros(order.shape, dtype=bool), jnp.zeros(order.shape[0], dtype=jnp.float32)
    excess = _Excess(jnp.zeros(private.shape[1:], dtype=bool), no, no, no, no, no)
    begin = _State(
        _completed(private, seats, fullest), order, excess, NetworkCost(none, none), jnp.array(False), jnp.array(0)
    )
    final = jax.lax.while_loop(unfinished, advance, begin)
    return Fitted(final.private, final.order, ~final.excess.broken, *final.cost)


class _State(NamedTuple):
    private: Array
    order: Array
    excess: _Excess
    """Kept from one round to the next, so that it is computed once and not in each of its uses."""
    cost: NetworkCost
    moved: Array
    """Whether the last round changed anything."""
    rounds: Array


class _Excess(NamedTuple):
    """What does not fit. Shapes ``[individuals, layers]`` unless said."""

    unrolled: Array
    """``[8, individuals, layers]`` the dim unrolls over rows or columns that are not there."""
    l1: Array
    """The layer's sums are to shrink."""
    l2: Array
    """The layer's tiles are to shrink: of its overfull group it takes most."""
    weight_is_larger: Array
    """Of its two tiles that come from L3, the weight's takes more."""
    spills: Array
    """Sums spill that may not."""
    broken: Array
    """Something of all this holds in the layer's group."""


_OUTPUT = np.array([dim in "GNKPQ" for dim in DIMS])
_WEIGHT = np.array([dim in "GKCRS" for dim in DIMS])
_INPUT = np.array([dim in "GNCPQRS" for dim in DIMS])


def _reducing_inside() -> NDArray[np.int32]:
    """For each order of the L3 loops, the same with C, R, S innermost, so that sums end before the next begin."""
    inside = [order.replace("CRS", "") + "CRS" for order in SLIDING_ORDERS3]
    return np.array([SLIDING_ORDERS3.index(order) for order in inside], dtype=np.int32)


_REDUCING_INSIDE = _reducing_inside()


def _mapping(private: Array, order: Array, seats: Seats) -> MappingArrays:
    """Private factors and orders as the model's arrays."""
    trips, x_trips = seats.fusion.trips, seats.fusion.x_trips
    one = jnp.ones_like(trips[0])
    shared = jnp.stack([trips[0], trips[1], x_trips[0], x_trips[1], trips[2], trips[3], one, one])
    wide = private.astype(jnp.float32)
    temporal = jnp.concatenate([wide[T0:T3], (wide[T3] * shared)[None]])
    return MappingArrays(spatial=wide[SPATIAL], temporal=temporal, rank=jnp.asarray(rank_table())[:, :, order])


def _completed(private: Array, seats: Seats, fullest: Array) -> Array:
    """Sums that may not spill, ended on chip: reductions go to L1 where L2 loops over outputs would cut them.

    In the consumer of a channel loop, whose sums are cut by X, all outputs are unrolled or go to L1.
    """
    output = _OUTPUT[:, None, None]
    must, is_consumer = seats.must_complete > 0, seats.x_consumer > 0
    cut = (jnp.where(output, private[T2], 1) > 1).any(axis=0)
    reduced = ~output & must & ~is_consumer & cut
    inside = jnp.where(reduced, private[T1] * private[T3], private[T1])
    private = jnp.stack([*private[:T1], inside, private[T2], jnp.where(reduced, 1, private[T3])])
    whole = private.prod(axis=0)
    unrolled = jnp.gcd(whole, fullest[:, None])
    rest, one = whole // unrolled, jnp.ones_like(whole)
    in_registers = np.array([dim in "NPQ" for dim in DIMS])[:, None, None]
    t0, t1 = jnp.where(in_registers, rest, 1), jnp.where(in_registers, 1, rest)
    return jnp.where(output & must & is_consumer, jnp.stack([unrolled, t0, t1, one, one]), private)


def _excess(
    private: Array,
    tiles: Tiles,
    need: Needs,
    seats: Seats,
    layers: LayerArrays,
    hardware: HardwareArrays,
    axes: Array,
) -> _Excess:
    """What of each layer does not fit."""
    spatial = private[SPATIAL].astype(jnp.float32)
    used = [jnp.where(axis[:, None, None] > 0, spatial, 1).prod(axis=0) for axis in (axes[0], axes[1])]
    over = jnp.stack([used[0] > hardware.rows, used[1] > hardware.cols])
    # Sums that spill do so at least once each; half of that is safe from rounding in 32 bits.
    spills = (seats.must_complete > 0) & (tiles.spills > 0.5 * layers.output_words)
    over1, l1 = _l1_excess(private, need, seats, hardware)
    over2 = need.l2_bytes + seats.slack_bytes > hardware.l2_bytes
    same = seats.placement.group[..., :, None] == seats.placement.group[..., None, :]
    over2_anywhere = (same & over2[..., None, :]).any(axis=-1)
    # What a layer keeps is in the way of all; what it holds in passing only while it runs itself.
    taken = jnp.where(over2_anywhere, need.kept, 0) + jnp.where(over2, need.passing, 0)
    taken = jnp.where((private[SPATIAL:T3] > 1).any(axis=(0, 1)), taken, 0)
    most = jnp.where(same, taken[..., None, :], 0).max(axis=-1)
    wrong = over.any(axis=0) | over1 | over2 | spills
    weight = tiles.weight2 * (1 - seats.fusion.fused_weight)
    window = tiles.input2 * (layers.input_channels - seats.fusion.fused_channels) / layers.input_channels
    return _Excess(
        unrolled=((axes[:, :, None, None] > 0) & over[:, None]).any(axis=0),
        l1=l1,
        l2=(taken > 0) & (taken == most),
        weight_is_larger=weight >= window,
        spills=spills,
        broken=(same & wrong[..., None, :]).any(axis=-1),
    )


def _l1_excess(private: Array, need: Needs, seats: Seats, hardware: HardwareArrays) -> tuple[Array, Array]:
    """Layers whose step needs too much of L1, and layers whose sums are to shrink.

    While the producer of a channel loop runs, its consumer's sums may wait in L1: they shrink when its own cannot.
    """
    over = need.l1_bytes > hardware.l1_bytes
    movable = (jnp.where(_OUTPUT[:, None, None], private[T0] * private[T1], 1) > 1).any(axis=0)
    movable = movable & ~((seats.must_complete > 0) & (seats.x_consumer > 0))
    waits = seats.placement.x_consumer[..., :, None] == jnp.arange(over.shape[-1])
    passed_on = (waits & (over & ~movable)[..., :, None]).any(axis=-2)
    return over, (over | passed_on) & movable


def _shrunk(private: Array, excess: _Excess, seats: Seats, primes: Array) -> Array:
    """One prime of each layer that does not fit, moved outwards: from the array to L1, from L1 to L2, or from L2 to L3.

    The array comes first, L2 last. Of the dims that are in the way, the one that takes most gives up its least prime.
    """
    output = jnp.asarray(_OUTPUT)[:, None, None]
    # Loops over outputs at L2 stand inside those at L3: they would cut the sums of a reduction at L3.
    freed = output & excess.spills
    t2, t3 = jnp.where(freed, 1, private[T2]), jnp.where(freed, private[T2] * private[T3], private[T3])
    private = jnp.stack([*private[:T2], t2, t3])

    looped = private[T0] * private[T1]
    held = _tile_weights(private[SPATIAL], looped * t2, excess)
    held = jnp.where(output & (seats.must_complete > 0) & (seats.x_consumer > 0), 0, held)
    array = jnp.where(excess.unrolled, private[SPATIAL], 0).astype(jnp.float32)
    unrolls, sums = excess.unrolled.any(axis=0), excess.l1
    weight = jnp.where(unrolls, array, jnp.where(sums, jnp.where(output, looped, 0), jnp.where(excess.l2, held, 0)))
    target = jnp.where(unrolls, T1, jnp.where(sums, T2, T3))

    dim = weight.argmax(axis=0)[None, None]
    factors = jnp.take_along_axis(private, dim, axis=1)[:, 0]
    source, found = jnp.full_like(factors[0], -1), jnp.ones_like(factors[0])
    # The last that has a factor stays: tiles shrink from L2's own loops inwards.
    for slot, may in ((SPATIAL, ~sums | unrolls), (T0, ~unrolls), (T1, ~unrolls), (T2, ~unrolls & ~sums)):
        taken = may & (factors[slot] > 1) & (weight.max(axis=0) > 0)
        source, found = jnp.where(taken, slot, source), jnp.where(taken, factors[slot], found)
    mine = jnp.take_along_axis(jnp.broadcast_to(primes[:, :, None], (len(primes), *weight.shape)), dim, axis=1)[:, 0]
    least = jnp.where((mine > 1) & (found % mine == 0), mine, jnp.iinfo(jnp.int32).max).min(axis=0)
    prime = jnp.where(found > 1, least, 1)
    here = jnp.arange(len(DIMS))[:, None, None] == dim[0]
    slots = jnp.arange(len(private))[:, None, None, None]
    grown = jnp.take_along_axis(factors, target[None], axis=0)[0] * prime
    private = jnp.where(here & (slots == source), found // prime, private)
    return jnp.where(here & (slots == target) & (prime > 1), grown, private)


def _tile_weights(spatial: Array, looped: Array, excess: _Excess) -> Array:
    """How soon each dim gives way: loops of the larger tile first, then what it unrolls, then the other tile."""
    relevant = jnp.where(excess.weight_is_larger, _WEIGHT[:, None, None], _INPUT[:, None, None])
    weight = jnp.where(looped > 1, looped * 1e6, spatial)
    return jnp.where(weight > 1, weight * jnp.where(relevant, 1e12, 1.0), 0)
