"""What a schedule must not do, as numbers that are zero exactly where it does not.

The paper penalizes raw words and factors, squared. Here every quantity is a logarithm of a ratio, so that one lambda
serves all layers, memories and networks, and what depends on a group is weighted by sigma. :data:`PENALTIES`, at the
end, names them all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.lax import associative_scan, stop_gradient  # pyright: ignore[reportUnknownVariableType]

from fadiff.schedule.arrays import buffer_values
from fadiff.schedule.capacity import tiles
from fadiff.schedule.nest import SHARED, G, K, N, Nest, P, Q
from fadiff.search.gradient.candidates import SHARED_DIMS
from fadiff.search.gradient.smooth_nest import SmoothNest, along

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Bool, Float

    from fadiff.search.gradient.problem import ProblemArrays
    from fadiff.search.gradient.relaxation import Relaxed

    PerLayer = Float[Array, "restarts layers"]

ROUNDING = 1e-5
"""Logarithms in 32 bits: log(2) + log(16) may exceed log(32) by less than this, which is no violation."""


class Scene(NamedTuple):
    """All that a penalty looks at."""

    problem: ProblemArrays
    nest: SmoothNest
    relaxed: Relaxed
    squared: bool
    """Whether the excess of an inequality counts squared."""

    @property
    def trips(self) -> Float[Array, "4 restarts layers"]:
        """Log shared trips of G, N, P, Q."""
        return jnp.stack([self.nest.log_product([(SHARED, d)]) for d in SHARED_DIMS])

    @property
    def edge_trips(self) -> tuple[Float[Array, "4 restarts edges"], Float[Array, "4 restarts edges"]]:
        """Log shared trips at both ends of every edge."""
        return self.trips @ self.problem.ends.source, self.trips @ self.problem.ends.target

    def hinge(self, excess: Array) -> Array:
        """max(0, excess), or its square; without a pull where the excess is just 0, which `maximum` would have."""
        over = jnp.where(excess > ROUNDING, excess, 0)
        return over**2 if self.squared else over


def valid(scene: Scene) -> Float[Array, " restarts"]:
    """Factors below 1, and more of them than there is to cover.

    .. math:: P_{valid} = \\sum_{d,m} (\\max(0, 1 - T_{d,m}))^2

    In log space 1 - T becomes -log T. It speaks of the continuous T, and of factors that slots choose on their own; the
    integers of whole tuples cannot break it.
    """
    return scene.relaxed.wandering + jnp.sum(scene.hinge(scene.relaxed.excess), axis=(0, 2))


def spatial(scene: Scene) -> Float[Array, " restarts"]:
    """More lanes than an axis has, axis by axis.

    .. math:: P_{spatial} = (\\max(0, \\prod_d T_{s,d} - N_{PE}))^2
    """
    used = [scene.nest.log_product([(axis, d) for d in range(8)]) for axis in scene.nest.structure.axes]
    over = [mine - jnp.log(lanes) for mine, lanes in zip(used, scene.problem.machine.lanes, strict=True)]
    return sum((jnp.sum(scene.hinge(excess), axis=-1) for excess in over), jnp.zeros_like(scene.relaxed.wandering))


def mem(scene: Scene) -> Float[Array, " restarts"]:
    """More bytes than a memory has, at any step of any group.

    .. math:: P_{mem}(G, i) = (\\max(0, SizeReq(G, i) - C_i))^2

    The paper's SizeReq sums all tiles of a group; here it is the peak of each step (:func:`soft_needs`), and the
    penalty is on log(need / capacity).
    """
    usable = scene.problem.machine.usable_bytes[1:]
    over = [jnp.log(jnp.maximum(need, 1)) - jnp.log(room) for need, room in zip(soft_needs(scene), usable, strict=True)]
    return sum((jnp.sum(scene.hinge(excess), axis=-1) for excess in over), jnp.float32(0))


def align(scene: Scene) -> Float[Array, " restarts"]:
    """Tiles that do not fit together across a fused edge.

    .. math:: P_{align} = \\sum_{(u, v)} \\sigma_{uv} \\sum_d (\\log tile_u(d) - \\log wanted_{uv}(d))^2

    The paper compares shapes, || o_u - i_v ||^2. A consumer's tile of v rows wants stride * v rows of what its producer
    stores, and P/P' times as many computed ones; where neither shares the dim, nothing is wanted.
    """
    ends, (ours, theirs), shareable = scene.problem.ends, scene.edge_trips, np.array(SHARED_DIMS)
    size, tile = scene.problem.layers.size[shareable][:, None], scene.nest.fusion.tile[shareable]
    computed, stored = size @ ends.source, jnp.concat([size[:2], scene.problem.stored[:, None]]) @ ends.source
    wanted = jnp.ceil(jnp.minimum(stored, ends.stride * (tile @ ends.target)) * computed / stored)
    slope = theirs - ours
    apart = jnp.log(tile @ ends.source / wanted) + slope - stop_gradient(slope)
    shared = (ours + theirs > ROUNDING) & (ends.whole == 0)
    return jnp.sum(scene.relaxed.sigma * jnp.where(shared, apart**2, 0), axis=(0, 2))


def whole(scene: Scene) -> Float[Array, " restarts"]:
    """Dims shared across a fused edge that must not be: rule *whole*, and unequal N or G (rule *aligned*).

    .. math:: P_{whole} = \\sum_{(u, v)} \\sigma_{uv} \\sum_{d\\ whole} (\\log trips_u(d))^2 + (\\log trips_v(d))^2

    The paper has no such rule. What the operators of a layer need whole needs no penalty: there are no candidates that
    share it.
    """
    ours, theirs = scene.edge_trips
    return jnp.sum(scene.relaxed.sigma * scene.problem.ends.whole * (ours**2 + theirs**2), axis=(0, 2))


def complete(scene: Scene) -> Float[Array, " restarts"]:
    """Sums that a fused producer hands over unfinished: rule *complete*. The paper's model has no such sums."""
    return jnp.sum(incompleteness(scene.nest), axis=-1)


def incompleteness(nest: Nest) -> Float[Array, "*batch layers"]:
    """To what degree each layer hands over unfinished sums: copied * log(arrivals at the memory that fuses / |O|)."""
    keeper = nest.structure.hands_over
    if nest.alone or keeper is None:
        return jnp.zeros_like(nest.fusion.copied)
    # Counts in 32 bits may come out a few values off.
    share = nest.past("O", keeper, ()) / nest.layers.output - 1
    return nest.fusion.copied * jnp.log1p(jnp.where(share > ROUNDING, share, 0))


def soft_needs(scene: Scene) -> list[PerLayer]:
    """Bytes in every memory below the first while each layer runs: kept tiles of its soft group, its own, and buffers.

    Layers stand in topological order, in which a group is an interval. With c_i the degree to which the cut between
    layers i and i+1 is crossed by fused edges, what the group of layer i keeps is a sum over its neighbours on
    both sides, each weighted by the product of the degrees between:

    .. math:: c_i = 1 - \\prod_{u \\le i < v} (1 - \\sigma_{uv}), \\qquad
        need_i = running_i - kept_i + live_i + \\sum_j kept_j \\prod_{cuts\\ between} c

    With every sigma 0 or 1 and groups contiguous it is the exact need. A layer that only stands between the
    layers of a group without being part of it counts as one; the exact rules are less strict there.
    """
    nest, sigma, ends = scene.nest, scene.relaxed.sigma, scene.problem.ends
    held, nothing = tiles(nest, scene.problem.machine), jnp.zeros((sigma.shape[0], nest.layers.output.shape[-1]))
    uncut = -jnp.log1p(-jnp.minimum(sigma, 1 - 1e-6))
    crossed = 1 - jnp.exp(-uncut @ jnp.cumsum(ends.source - ends.target, axis=0).T)
    needs: list[PerLayer] = []
    for memory in nest.structure.memories[1:]:
        need = sum((part for (m, _), part in held.running.items() if m == memory), nothing)
        stays = [part for (m, _), part in held.kept.items() if m == memory]
        if not nest.alone and memory == nest.structure.fuses:
            buffer, retained = _buffers(scene)
            stays.append(jnp.where(retained, buffer, 0) * nest.fusion.copied)
            need = need + stays[-1] + _live(scene, jnp.where(retained, 0, buffer))
        if not nest.alone and stays:
            need = need + _of_others(sum(stays, nothing), crossed)
        needs.append(need)
    return needs


def _buffers(scene: Scene) -> tuple[PerLayer, Bool[Array, "restarts layers"]]:
    """Bytes of each layer's buffer if its output is fused, and whether it keeps a halo.

    Forward the exact size. Backward that of one tile and its halo: the exact one is flat where a dim is not shared
    yet, and would never pull a layer towards tiles that fit.
    """
    problem, fusion = scene.problem, scene.nest.fusion
    stored, halo, image = problem.stored[:, None], problem.halo[:, None], np.array([P, Q])
    tile = jnp.ceil(fusion.tile[image] * stored / problem.layers.size[image][:, None])
    channels = fusion.tile[G] * fusion.tile[N] * fusion.tile[K]
    values, retained = buffer_values(stored, tile, halo, fusion.shared[image], jnp.ones(()), channels)
    trips = scene.trips
    sides = jnp.log(stored * jnp.exp(-trips[2:]) + jnp.minimum(halo, stored))
    bytes_here = stop_gradient(values) * (problem.machine.bits_o / 8)
    return along(bytes_here, jnp.sum(sides, axis=0) - trips[0] - trips[1]), retained


def _live(scene: Scene, buffer: PerLayer) -> PerLayer:
    """Bytes of all buffers that are live while each layer runs.

    A buffer is live from its producer's step to its last fused consumer's. Its degree is the largest sigma among
    the edges still to be read, so it drops at each consumer but the last by what the later ones are less fused.
    """
    sigma, leaving = scene.relaxed.sigma, scene.problem.edges.leaving
    padded = jnp.concatenate([sigma, jnp.zeros_like(sigma[:, :1])], axis=-1)
    live, degree = jnp.zeros_like(buffer), jnp.zeros_like(buffer)
    for edge, until in zip(leaving, scene.problem.ends.until, strict=True):
        more = jnp.maximum(degree, padded[:, edge])
        live, degree = live + ((more - degree) * buffer) @ until, more
    return live


def _of_others(values: PerLayer, crossed: PerLayer) -> PerLayer:
    """sum over j != i of values_j * (product of the cuts between i and j).

    From the left F_i = values_i + c_{i-1} F_{i-1}, from the right likewise.
    """

    def then(near: tuple[Array, Array], far: tuple[Array, Array]) -> tuple[Array, Array]:
        return near[0] * far[0], near[1] * far[0] + far[1]

    sweep = partial(associative_scan, then, axis=1)
    (_, left), (_, right) = sweep((jnp.roll(crossed, 1, axis=1), values)), sweep((crossed, values), reverse=True)
    return left + right - 2 * values


class Penalty(NamedTuple):
    """A rule that the descent may break, at a price."""

    name: str
    excess: Callable[[Scene], Float[Array, " restarts"]]
    weight: float
    """Unless the settings say otherwise."""


PENALTIES = (
    Penalty("valid", valid, 1.0),
    Penalty("spatial", spatial, 1.0),
    Penalty("mem", mem, 3.0),
    # Off, unlike in the paper: the decoder finds common trip counts itself, and the pull keeps sigma from rising.
    Penalty("align", align, 0.0),
    Penalty("whole", whole, 1.0),
    Penalty("complete", complete, 1.0),
)
