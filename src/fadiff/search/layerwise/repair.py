"""From a rounded point to a legal one. DOSA has no such step: its hardware grows with its mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from fadiff.search.layerwise.mapspace import MapSpace, costs_of, loads, measure, ranks3, with_quotients

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]
    FloatArray = NDArray[np.float64]


def repair(space: MapSpace, point: IntArray, orders: IntArray) -> IntArray:
    """Shrink tiles of ``[3, 8, starts, layers]`` until every layer fits the array, L1 and L2.

    A layer that does not fit gives up one prime factor after another to L3. Of all factors that take part in
    something overfull, each divided by its smallest prime, the one is taken that leaves the layer the lowest cost.
    """
    ranks = ranks3(orders)[:, None]
    moves = np.eye(24, dtype=bool).reshape(3, 8, 24, 1, 1)
    while True:
        now, _ = _priced(space, point[:, :, None], ranks)
        if not (over := now > 1).any():
            return point
        tried = np.where(moves, (point // _smallest_primes(space, point))[:, :, None], point[:, :, None])
        then, price = _priced(space, tried, ranks)
        helps = (over & (then < now)).any(axis=0)
        best = np.where(helps, price, np.inf).argmin(axis=0)
        shrunk = np.take_along_axis(tried, best[None, None, None], axis=2)[:, :, 0]
        point = np.where(over.any(axis=(0, 1)), shrunk, point)


def _priced(space: MapSpace, point: IntArray, ranks: Array) -> tuple[FloatArray, FloatArray]:
    """What layers on their own need, ``[4, ..., layers]``, and their cost ``[..., layers]``."""
    factors = with_quotients(space.exact, cast("Array", point))
    costs = costs_of(space.exact, factors, ranks)
    price = measure(space.exact, costs.energy.total, costs.cycles.total)
    return np.asarray(loads(space.exact, factors, costs)), np.asarray(price)


def _smallest_primes(space: MapSpace, point: IntArray) -> IntArray:
    """The smallest prime in every factor (1 in 1): the least divisor of its size, above 1, that divides it."""
    options = space.divisors[:, None]
    divides = (options > 1) & (point[..., None] % np.maximum(options, 1) == 0)
    least = np.where(divides, options, np.iinfo(np.int64).max).min(axis=-1)
    return np.where(point > 1, least, 1)
