"""Discrete choices made continuous: logits by proximity, Gumbel-softmax, straight-through, and sigma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import linear_call  # pyright: ignore[reportUnknownVariableType]
from jax.lax import stop_gradient

from fadiff.schedule.namespace import namespace
from fadiff.schedule.nest import SHARED
from fadiff.search.gradient.candidates import SHARED_DIMS
from fadiff.search.gradient.smooth_nest import sloped
from fadiff.search.space import settle
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.search.gradient.problem import ProblemArrays, Table
    from fadiff.search.gradient.settings import DescentSettings
    from fadiff.search.gradient.smooth_nest import Logs

    Point = Float[Array, "rows parts restarts"]
    Points = Float[Array, "rows width parts"]
    OfCandidates = Float[Array, "rows width restarts"]
    Noise = OfCandidates | float
    Scalar = Float[Array, ""] | float
    PerDim = Float[Array, "*slots 8 restarts layers"]


class Params(NamedTuple):
    """What is trained. Restarts stand on the last axis, where the machine's vectors run along them."""

    log_factors: Float[Array, "parts restarts"]
    """The continuous T of every part of every row of all tables, as its logarithm."""
    sigma_logits: Float[Array, "edges restarts"]


class Relaxed(NamedTuple):
    """What gradients flow through: the relaxed schedule of every restart."""

    logs: Logs
    """Log factors of all nodes (the first memory's private ones), and of shared trips."""
    excess: Float[Array, "8 restarts layers"]
    """Log of what the factors cover over what there is to cover; in whole tuples 0."""
    wandering: Float[Array, " restarts"]
    """Squares of how far the continuous T are below 1."""
    sigma: Float[Array, "restarts edges"]


class Integers(NamedTuple):
    """The forward values of all factors; no gradients."""

    factors: Float[Array, "nodes 8 restarts layers"]
    shared: Float[Array, "8 restarts layers"]
    tile: Float[Array, "8 restarts layers"]
    """ceil(size/shared)"""


def proximity_logits(point: Point, points: Points, alpha: Scalar) -> OfCandidates:
    """Logits of candidates d_j by proximity to the continuous T.

    .. math:: l_j = -\\alpha \\sum_m (\\log T_m - \\log d_{j,m})^2

    The paper measures (T - d_j)^2, where 256 and 512 are as far apart as 1 and 257 (setting `distance`), and each slot
    m on its own (setting `choice`); a whole tuple is near if all its factors are.
    """
    parts = range(points.shape[-1])
    return -alpha * sum(((point[:, None, m, :] - points[:, :, m, None]) ** 2 for m in parts), jnp.float32(0))


def gumbel_softmax(logits: OfCandidates, noise: Noise, tau: Scalar) -> tuple[OfCandidates, Int[Array, "rows restarts"]]:
    """Probabilities of the candidates, and the number of the chosen one.

    .. math:: p_j = \\frac{\\exp((l_j + g_j)/\\tau)}{\\sum_k \\exp((l_k + g_k)/\\tau)}, \\qquad g_j \\sim Gumbel(0, 1)

    `noise` holds the g_j, scaled down as the search settles. As tau goes to 0, p becomes one-hot at the chosen
    candidate, the argmax of l + g.
    """
    noisy = logits + noise
    top = jnp.max(noisy, axis=1, keepdims=True)
    # A plain maximum over numbers vectorizes where an argmax does not.
    number = jnp.arange(logits.shape[1], dtype=jnp.int32)[None, :, None]
    chosen = jnp.max(jnp.where(noisy == top, number, -1), axis=1)
    weights = jnp.exp((noisy - top) / tau)
    return weights / jnp.sum(weights, axis=1, keepdims=True), chosen


def expect(
    point: Point, points: Points, bar: Float[Array, "rows width 1"], noise: Noise, alpha: Scalar, tau: Scalar
) -> tuple[Point, Int[Array, "rows restarts"]]:
    """The expected candidate, and the number of the chosen one.

    .. math:: \\hat d = \\sum_j p_j d_j, \\qquad
        \\frac{\\partial \\hat d_m}{\\partial T_n} = \\frac{2 \\alpha}{\\tau} Cov_p(d_m, d_n)

    The gradient is written out because all it needs are second moments, which the forward pass has at hand.
    """
    rows, width, parts = points.shape
    probabilities, chosen = gumbel_softmax(proximity_logits(stop_gradient(point), points, alpha) + bar, noise, tau)
    squares = (points[..., :, None] * points[..., None, :]).reshape(rows, width, parts * parts)
    moments = jnp.einsum("wck,wcr->wkr", jnp.concatenate([points, squares], axis=-1), probabilities)
    mean, second = moments[:, :parts], moments[:, parts:].reshape(rows, parts, parts, -1)
    covariance = second - mean[:, :, None] * mean[:, None, :]
    return sloped(mean, jnp.einsum("wmnr,wnr->wmr", covariance * (2 * alpha / tau), point)), chosen


def choose(table: Table, log_factors: Point, noise: Noise, tau: Scalar, settings: DescentSettings) -> Point:
    """Log factors: forward of the chosen integers, backward of the expectation.

    In log space the expectation is geometric. Without `straight_through` it is the forward value too.
    """
    in_logs = settings.distance == "log"
    points, point = (table.logs, log_factors) if in_logs else (jnp.exp(table.logs), jnp.exp(log_factors))
    value, chosen = expect(point, points, table.bar, noise, settings.alpha, tau)
    if settings.straight_through:
        hard = jnp.swapaxes(jnp.take_along_axis(points, chosen[:, :, None], axis=1), 1, 2)
        value = hard + value - stop_gradient(value)
    return value if in_logs else jnp.log(value)


def place(parts: Float[Array, "parts restarts"], where: Int[Array, " places"], unplace: Int[Array, " parts"]) -> Array:
    """Parts put in their places.

    Every part has at most one place, so the gradient is a gather as well; a scatter would be far slower.
    """

    def back(_: Array, slopes: Array) -> Array:
        return pick(unplace, slopes)

    return linear_call(pick, back, where, parts)


def pick(where: Int[Any, " picked"], values: Float[Any, "values restarts"]) -> Float[Any, "picked restarts"]:
    """Some of the values, in NumPy or JAX; 0 for one past the last."""
    xp = namespace(values)
    return xp.concat([values, xp.zeros_like(values[:1])])[where]


def relax(
    problem: ProblemArrays, settings: DescentSettings, params: Params, noise: Array, tau: Scalar
) -> tuple[Relaxed, Integers]:
    """The schedule that the parameters stand for; `noise` holds a number for every candidate in every restart."""
    layers, restarts = problem.layers.size.shape[-1], params.log_factors.shape[-1]
    points = jnp.split(params.log_factors, np.cumsum([table.logs[:, 0].size for table in problem.tables])[:-1])
    draws = jnp.split(noise, np.cumsum([restarts * table.bar.size for table in problem.tables])[:-1])
    chosen: list[Array] = []
    for table, point, draw in zip(problem.tables, points, draws, strict=True):
        rows, width, parts = table.logs.shape
        logs = choose(table, point.reshape(rows, parts, restarts), draw.reshape(rows, width, restarts), tau, settings)
        chosen.append(logs.reshape(-1, restarts))
    placed = place(jnp.concatenate(chosen), problem.place, problem.unplace).reshape(-1, 8, layers, restarts)
    below = -params.log_factors if settings.distance == "log" else 1 - jnp.exp(params.log_factors)
    wandering = jnp.sum(jnp.maximum(below, 0) ** 2, axis=0)
    sigma = jax.nn.sigmoid(params.sigma_logits).T * problem.ends.fusible
    logs, excess, integers = settled(problem, settings, jnp.swapaxes(placed, 2, 3))
    each = [jnp.unstack(of_slot) for of_slot in jnp.unstack(logs)]
    shared = [(SHARED, d) for d in SHARED_DIMS if problem.shares and DIMS[d] in problem.structure.dims[0]]
    own = [(node, DIMS.index(dim)) for node, dims in enumerate(problem.structure.dims) for dim in dims]
    return Relaxed({(slot, d): each[slot][d] for slot, d in own + shared}, excess, wandering, sigma), integers


def settled(problem: ProblemArrays, settings: DescentSettings, logs: PerDim) -> tuple[PerDim, PerDim, Integers]:
    """Log factors made legal, by how much they were not, and their integers.

    Whole tuples are legal. Where slots choose on their own, the first memory takes what they leave, size / (product of
    the others), and :func:`~fadiff.search.space.settle` cuts off what is too much.
    """
    size = problem.layers.size[:, None, :]
    values = jnp.exp(stop_gradient(logs))
    values = jnp.round(values) if settings.straight_through else values
    tile = jnp.ceil(size / values[SHARED])
    integers = Integers(settle(values[:SHARED], tile), jnp.ceil(size / tile), tile)
    if settings.choice == "integers":
        logs = jnp.concatenate([jnp.log(size)[None] - jnp.sum(logs[1:], axis=0, keepdims=True), logs[1:]])
    legal = jnp.log(jnp.concatenate([integers.factors, integers.shared[None]]))
    return logs + stop_gradient(legal - logs), jnp.sum(logs[1:SHARED] - legal[1:SHARED], axis=0), integers
