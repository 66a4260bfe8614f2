"""What a schedule must not do, as numbers that are zero exactly where it does not.

The paper penalizes raw words and factors, squared. Here every quantity is a logarithm of a ratio, so that one lambda
serves all layers, levels and networks, and what depends on a group is weighted by sigma. Every function returns one
number per restart, ``[restarts]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from fadiff.cost.capacity import buffer_words
from fadiff.search.gradient.candidates import SPATIAL

if TYPE_CHECKING:
    from jax import Array

    from fadiff.cost.arrays import Fusion, LayerArrays
    from fadiff.cost.traffic import Tiles
    from fadiff.search.gradient.options import DescentOptions
    from fadiff.search.gradient.problem import ProblemArrays
    from fadiff.search.gradient.relaxation import Params, Relaxed


class Penalties(NamedTuple):
    """One number per restart, before weights."""

    valid: Array
    spatial: Array
    mem: Array
    align: Array
    whole: Array
    complete: Array


def hinge(excess: Array, options: DescentOptions) -> Array:
    """max(0, excess), or its square; without a pull where the excess is just 0, which `maximum` would have."""
    over = jnp.where(excess > 0, excess, 0)
    return over if options.hinge == "linear" else over**2


def valid_penalty(relaxed: Relaxed, params: Params, options: DescentOptions) -> Array:
    """Factors below 1.

    .. math:: P_{valid} = \\sum_{d,m} (\\max(0, 1 - T_{d,m}))^2

    In log space 1 - T becomes -log T. It speaks of the continuous T, and of the L3 factor that is left where slots
    choose on their own; the integers of whole factorizations cannot break it.
    """
    below = -params.log_factors
    if options.distance == "linear":
        below = 1 - jnp.exp(params.log_factors)
    wandering = jnp.sum(jnp.maximum(below, 0) ** 2, axis=0)
    return wandering + jnp.sum(hinge(-relaxed.log_rest - 1e-5, options), axis=(0, 2))


def spatial_penalty(relaxed: Relaxed, problem: ProblemArrays, options: DescentOptions) -> Array:
    """More PEs than there are.

    .. math:: P_{spatial} = (\\max(0, \\prod_d T_{s,d} - N_{PE}))^2

    Rows and columns of the array are counted each on their own, s(C)s(R)s(S) <= rows and s(K)s(G) <= cols.
    """
    g, _, k, c, _, _, r, s = jnp.log(relaxed.factors[SPATIAL])
    rows = c + r + s - jnp.log(problem.hardware.rows)
    cols = k + g - jnp.log(problem.hardware.cols)
    # log(2) + log(16) may exceed log(32) by a rounding error, which is no violation.
    return jnp.sum(hinge(rows - 1e-5, options) + hinge(cols - 1e-5, options), axis=-1)


class EdgeTrips(NamedTuple):
    """Log shared trips of G, N, P, Q at both ends of every edge, ``[4, restarts, edges]``."""

    source: Array
    target: Array


def edge_trips(relaxed: Relaxed, problem: ProblemArrays) -> EdgeTrips:
    """The shared trips that an edge's producer and consumer have."""
    trips = jnp.log(relaxed.trips[:4])
    return EdgeTrips(trips[..., problem.ends.source], trips[..., problem.ends.target])


def align_penalty(sigma: Array, trips: EdgeTrips) -> Array:
    """Shared trip counts that differ across a fused edge.

    .. math::
        P_{align} = \\sum_{(u, v)} \\sigma_{uv} \\sum_{d \\in \\{G,N,P,Q\\}} (\\log trips_u(d) - \\log trips_v(d))^2

    The paper compares tile shapes, || o_u - i_v ||^2, which strides, halos and pooling make unequal in legal
    groups; trip counts are what a group's layers have in common.
    """
    return jnp.sum(sigma * jnp.sum((trips.source - trips.target) ** 2, axis=0), axis=-1)


def whole_penalty(sigma: Array, trips: EdgeTrips, problem: ProblemArrays) -> Array:
    """Dims shared across a fused edge that must not be: rule *whole*, and unequal N or G (rule *aligned*).

    .. math:: P_{whole} = \\sum_{(u, v)} \\sigma_{uv} \\sum_{d\\ whole} (\\log trips_u(d))^2 + (\\log trips_v(d))^2

    The paper has no such rule. Flatten, global_pool and layer_norm need no penalty: their layers have no candidates
    that share what must be whole.
    """
    both = (trips.source**2 + trips.target**2) * problem.ends.whole
    return jnp.sum(sigma * jnp.sum(both, axis=0), axis=-1)


def incompleteness(layers: LayerArrays, fusion: Fusion, spills: Array) -> Array:
    """Partial sums that a fused producer spills, ``[..., layers]``: rule *complete*.

    .. math:: P_{complete} = \\sum_u copied_u\\; \\log(1 + spills_u / |O_u|)

    The paper's model has no spills.
    """
    # Counts in 32 bits: a drain of |O| may come out a few words off.
    share = spills / jnp.maximum(layers.output_words, 1)
    return fusion.copied * jnp.log1p(jnp.maximum(share - 1e-5, 0))


def mem_penalty(l2_bytes: Array, l1_bytes: Array, problem: ProblemArrays, options: DescentOptions) -> Array:
    """More bytes than a level has, at any step of any group.

    .. math:: P_{mem}(G, i) = (\\max(0, SizeReq(G, i) - C_i))^2

    The paper's SizeReq sums all tiles of a group; here it is the peak of each step (:func:`soft_l2_bytes`), and the
    penalty is on log(need / capacity).
    """
    over2 = jnp.log(jnp.maximum(l2_bytes, 1) / problem.hardware.l2_bytes)
    over1 = jnp.log(jnp.maximum(l1_bytes, 1) / problem.hardware.l1_bytes)
    return jnp.sum(hinge(over2 - 1e-5, options) + hinge(over1 - 1e-5, options), axis=-1)


def l1_bytes(relaxed: Relaxed, tiles: Tiles, problem: ProblemArrays) -> Array:
    """need1(O) of every layer ``[restarts, layers]``: 4*tile1(O)*cols/s_cols; one bank per column."""
    spatial = relaxed.factors[SPATIAL]
    return 4 * tiles.output1 * problem.hardware.cols / (spatial[2] * spatial[0])


def soft_l2_bytes(kept: Array, passing: Array, relaxed: Relaxed, fusion: Fusion, problem: ProblemArrays) -> Array:
    """L2 while each layer runs, ``[restarts, layers]``: kept tiles of its soft group, its own, and live buffers.

    Layers stand in topological order, in which a group is an interval. With c_i the degree to which the cut between
    layers i and i+1 is crossed by fused edges, what the group of layer i keeps is a sum over its neighbours on
    both sides, each weighted by the product of the degrees between:

    .. math:: c_i = 1 - \\prod_{u \\le i < v} (1 - \\sigma_{uv}), \\qquad
        L2_i = passing_i + live_i + \\sum_j kept_j \\prod_{cuts\\ between} c

    With every sigma 0 or 1 and groups contiguous it is the exact need. A layer that only stands between the
    layers of a group without being part of it counts as one; the exact rules are less strict there.
    """
    buffer, retained = _buffers(problem, relaxed, fusion)
    always = jnp.where(retained, buffer, 0) * fusion.copied
    live = _live(jnp.where(retained, 0, buffer), relaxed.sigma, problem)
    return passing + live + _soft_group_sum(kept + always, _crossed(relaxed.sigma, problem))


def _buffers(problem: ProblemArrays, relaxed: Relaxed, fusion: Fusion) -> tuple[Array, Array]:
    """Words of each layer's buffer if its output is fused, and whether it keeps a halo, ``[restarts, layers]``.

    Forward the exact size. Backward that of one tile and its halo: the exact one is flat where a dim is not shared
    yet, and would never pull a layer towards tiles that fit.
    """
    fused = fusion._replace(copied=jnp.ones_like(fusion.copied))
    words, retained = buffer_words(problem.layers, fused, problem.halo[:, None, :])
    trips, stored = relaxed.trips, problem.layers.stored
    rows = stored[0] / trips[2] + jnp.minimum(problem.halo[0], stored[0])
    cols = stored[1] / trips[3] + jnp.minimum(problem.halo[1], stored[1])
    smooth = jnp.log(rows) + jnp.log(cols) - jnp.log(trips[0]) - jnp.log(trips[1])
    return jax.lax.stop_gradient(words) * jnp.exp(smooth - jax.lax.stop_gradient(smooth)), retained


def _live(buffer: Array, sigma: Array, problem: ProblemArrays) -> Array:
    """Words of all buffers that are live while each layer runs, ``[restarts, layers]``.

    A buffer is live from its producer's step to its last fused consumer's. Its degree is the largest sigma among
    the edges still to be read, so it drops at each consumer but the last by what the later ones are less fused;
    one running sum over the layers adds up all rises and drops.
    """
    blank = jnp.zeros_like(sigma[:, :1])
    padded = jnp.concatenate([sigma, blank], axis=-1)
    degree, drops = blank, [blank]
    for numbers in problem.ends.later[::-1]:
        before = jnp.maximum(degree, padded[:, numbers])
        drops.insert(0, (before - degree) * buffer)
        degree = before
    ends = jnp.sum(jnp.concatenate(drops, axis=-1)[:, problem.ends.drop], axis=1)
    ended_before = jnp.pad(ends, [(0, 0), (1, 0)])[:, :-1]
    return jnp.maximum(jnp.cumsum(degree * buffer - ended_before, axis=-1), 0)


def _crossed(sigma: Array, problem: ProblemArrays) -> Array:
    """c_i, ``[restarts, layers]``: to what degree fused edges cross the cut after each layer."""
    uncut = -jnp.log1p(-jnp.minimum(sigma, 1 - 1e-6))
    padded = jnp.concatenate([uncut, jnp.zeros_like(uncut[:, :1])], axis=-1)
    opened = jnp.sum(padded[:, problem.edges.leaving], axis=1)
    closed = jnp.sum(padded[:, problem.edges.arriving], axis=1)
    return 1 - jnp.exp(-jnp.maximum(jnp.cumsum(opened - closed, axis=-1), 0))


def _soft_group_sum(values: Array, crossed: Array) -> Array:
    """sum_j values_j * (product of the cuts between i and j), ``[restarts, layers]``, in log2(layers) sweeps.

    From the left F_i = values_i + c_{i-1} F_{i-1}, from the right likewise; both at once by doubling.
    """
    before = jnp.pad(crossed, [(0, 0), (1, 0)])[:, :-1]
    total = jnp.stack([values, values[:, ::-1]])
    reach = jnp.stack([before, crossed[:, ::-1] * (jnp.arange(crossed.shape[-1]) > 0)])
    step = 1
    while step < values.shape[-1]:
        total = total + reach * _shifted(total, step)
        reach = reach * _shifted(reach, step)
        step *= 2
    return total[0] + total[1][:, ::-1] - values


def _shifted(values: Array, step: int) -> Array:
    return jnp.pad(values, [(0, 0), (0, 0), (step, 0)])[..., :-step]
