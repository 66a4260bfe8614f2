"""Discrete choices made continuous: logits by proximity, Gumbel-softmax, straight-through, and sigma."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import jax.numpy as jnp

from fadiff.search.gradient.candidates import SHARED_DIMS, SLOTS, T3

if TYPE_CHECKING:
    from jax import Array

    from fadiff.search.gradient.options import DescentOptions
    from fadiff.search.gradient.problem import ProblemArrays, Table


class Params(NamedTuple):
    """What is trained. Restarts stand on the last axis, where the machine's vectors run along them."""

    log_factors: Array
    """``[parts, restarts]`` the continuous T of every part of every row of all tables, as its logarithm."""
    sigma_logits: Array
    """``[edges, restarts]``"""


class Relaxed(NamedTuple):
    """A relaxed schedule of every restart."""

    factors: Array
    """``[6, 8, restarts, layers]`` factors of the six slots."""
    log_rest: Array
    """``[8, restarts, layers]`` log of the private L3 factor as the other slots leave it, before it is cut off at 1;
    in whole factorizations always the factor's own."""
    sigma: Array
    """``[restarts, edges]``"""

    @property
    def trips(self) -> Array:
        """``[5, restarts, layers]`` shared trip counts G, N, P, Q, and X = 1."""
        shared = self.factors[-1]
        return jnp.stack([*(shared[d] for d in SHARED_DIMS), jnp.ones_like(shared[0])])


def proximity_logits(point: Array, points: Array, alpha: Array | float) -> Array:
    """Logits ``[rows, width, restarts]`` of candidates d_j by proximity to the continuous T.

    .. math:: l_j = -\\alpha \\sum_m (\\log T_m - \\log d_{j,m})^2

    `point` ``[rows, parts, restarts]`` is T and `points` ``[rows, width, parts]`` are the candidates. The paper
    measures (T - d_j)^2, where 256 and 512 are as far apart as 1 and 257 (option `distance`), and each slot m on its
    own (option `choice`); a whole factorization is near if all its factors are.
    """
    parts = range(points.shape[-1])
    return -alpha * sum(((point[:, None, m, :] - points[:, :, m, None]) ** 2 for m in parts), jnp.float32(0))


def gumbel_softmax(logits: Array, noise: Array | float, tau: Array | float) -> tuple[Array, Array]:
    """Probabilities ``[rows, width, restarts]`` and the chosen candidate ``[rows, restarts]``.

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


@jax.custom_vjp
def expect(
    point: Array, points: Array, bar: Array, noise: Array | float, alpha: Array | float, tau: Array | float
) -> tuple[Array, Array]:
    """The expected candidate ``[rows, parts, restarts]``, and the number of the chosen one ``[rows, restarts]``.

    .. math:: \\hat d = \\sum_j p_j d_j, \\qquad
        \\frac{\\partial \\hat d_m}{\\partial T_n} = \\frac{2 \\alpha}{\\tau} Cov_p(d_m, d_n)

    The gradient is written out because all it needs are second moments, which the forward pass has at hand.
    """
    mean, chosen, _ = _moments(point, points, bar, noise, alpha, tau)
    return mean, chosen


def _moments(
    point: Array, points: Array, bar: Array, noise: Array | float, alpha: Array | float, tau: Array | float
) -> tuple[Array, Array, Array]:
    """Mean and chosen candidate, and the covariance ``[rows, parts, parts, restarts]``."""
    rows, width, parts = points.shape
    probabilities, chosen = gumbel_softmax(proximity_logits(point, points, alpha) + bar, noise, tau)
    squares = (points[..., :, None] * points[..., None, :]).reshape(rows, width, parts * parts)
    moments = jnp.einsum("wck,wcr->wkr", jnp.concatenate([points, squares], axis=-1), probabilities)
    mean, second = moments[:, :parts], moments[:, parts:].reshape(rows, parts, parts, -1)
    return mean, chosen, second - mean[:, :, None] * mean[:, None, :]


def _expect_forward(
    point: Array, points: Array, bar: Array, noise: Array | float, alpha: Array | float, tau: Array | float
) -> tuple[tuple[Array, Array], Array]:
    mean, chosen, covariance = _moments(point, points, bar, noise, alpha, tau)
    return (mean, chosen), covariance * (2 * alpha / tau)


def _expect_backward(slope: Array, gradient: tuple[Array, Array]) -> tuple[Array, None, None, None, None, None]:
    return jnp.einsum("wmnr,wmr->wnr", slope, gradient[0]), None, None, None, None, None


expect.defvjp(_expect_forward, _expect_backward)


def choose(table: Table, log_factors: Array, noise: Array | float, tau: Array, options: DescentOptions) -> Array:
    """Factors ``[rows, parts, restarts]``: forward the chosen integers, backward the expectation.

    In log space the expectation is geometric. Without `straight_through` it is the forward value too.
    """
    log = options.distance == "log"
    points = jnp.log(table.factors) if log else table.factors
    point = log_factors if log else jnp.exp(log_factors)
    mean, chosen = cast("tuple[Array, Array]", expect(point, points, table.bar, noise, options.alpha, tau))
    if not options.straight_through:
        return jnp.exp(mean) if log else mean
    hard = jnp.swapaxes(jnp.take_along_axis(table.factors, chosen[:, :, None], axis=1), 1, 2)
    away = mean - jax.lax.stop_gradient(mean)
    return hard * jnp.exp(away) if log else hard + away


@jax.custom_vjp
def place(parts: Array, where: Array, unplace: Array) -> Array:
    """Parts ``[parts, restarts]`` put in their places ``[6 * 8 * layers, restarts]``; empty places hold 1.

    Every part has at most one place, so the gradient is a gather as well; a scatter would be far slower.
    """
    del unplace
    return jnp.concatenate([parts, jnp.ones_like(parts[:1])])[where]


def _place_forward(parts: Array, where: Array, unplace: Array) -> tuple[Array, Array]:
    return cast("Array", place(parts, where, unplace)), unplace


def _place_backward(unplace: Array, gradient: Array) -> tuple[Array, None, None]:
    return jnp.concatenate([gradient, jnp.zeros_like(gradient[:1])])[unplace], None, None


place.defvjp(_place_forward, _place_backward)


def relax(problem: ProblemArrays, options: DescentOptions, params: Params, noise: Array | None, tau: Array) -> Relaxed:
    """The schedule that the parameters stand for; `noise` is a flat array of :func:`noise_size` numbers, or None."""
    restarts = params.log_factors.shape[-1]
    chosen: list[Array] = [jnp.zeros((0, restarts))]
    part = candidate = 0
    for table in problem.tables:
        rows, width, parts = table.factors.shape
        here = params.log_factors[part : part + rows * parts].reshape(rows, parts, restarts)
        size = rows * width * restarts
        drawn = 0.0 if noise is None else noise[candidate : candidate + size].reshape(rows, width, restarts)
        chosen.append(choose(table, here, drawn, tau, options).reshape(-1, restarts))
        part, candidate = part + rows * parts, candidate + size
    return assemble(problem, options, jnp.concatenate(chosen), sigma(problem, params))


def noise_size(problem: ProblemArrays, restarts: int) -> int:
    """How many candidates there are in all restarts together."""
    return restarts * sum(prod(table.factors.shape[:2]) for table in problem.tables)


def sigma(problem: ProblemArrays, params: Params) -> Array:
    """Fusion variables ``[restarts, edges]`` in [0, 1], 0 where an edge cannot be fused."""
    return jax.nn.sigmoid(params.sigma_logits).T * problem.ends.fusible


def assemble(problem: ProblemArrays, options: DescentOptions, parts: Array, sigma: Array) -> Relaxed:
    """The factors of all parts ``[parts, restarts]`` as one array by slot, dim and layer.

    Where slots choose on their own, L3 takes what they leave, t3 = size / (product of the others), but at least 1.
    """
    layers, restarts = problem.layers.size.shape[-1], sigma.shape[0]
    placed = cast("Array", place(parts, problem.place, problem.unplace))
    factors = jnp.swapaxes(placed.reshape(SLOTS, 8, layers, restarts), 2, 3)
    if options.choice == "factorizations":
        return Relaxed(factors, jnp.log(factors[T3]), sigma)
    log_rest = jnp.log(problem.layers.size)[:, None, :] - jnp.sum(jnp.log(factors), axis=0)
    t3 = jnp.exp(jnp.maximum(log_rest, 0))
    return Relaxed(jnp.concatenate([factors[:T3], t3[None], factors[T3 + 1 :]]), log_rest, sigma)
