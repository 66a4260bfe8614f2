"""From a continuous point to whole numbers, loop orders and tiles that fit.

Rounding and the choice of orders are DOSA's. Repair is not: its hardware grows with its mappings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from fadiff.next.search.layerwise.mapspace import (
    ORDERS,
    MapSpace,
    Model,
    costs_of,
    loads,
    measure,
    nest_of,
    with_quotients,
)

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.next.search.layerwise.mapspace import Point

    Orders = Int[np.ndarray, "starts layers"]


def round_point(space: MapSpace, point: Float[np.ndarray, "nodes 8 starts layers"]) -> Point:
    """Every factor to a divisor of what is left of its dim, from the inside out; the first memory takes the rest.

    Axes come first, then memories. Each factor goes to the nearest whole number of at least 1, then to the nearest
    divisor of what those before it left; of two equally near ones to the larger.
    """
    structure, choices = space.frame.structure, space.divisors[:, None]
    left = np.broadcast_to(choices[..., 0], point.shape[1:])
    rounded = np.ones(point.shape, dtype=np.int64)
    for node in (*structure.axes[::-1], *structure.memories[:0:-1]):
        wish = np.floor(np.maximum(point[node], 1) + 0.5)[..., None]
        divides = (choices > 0) & (left[..., None] % np.maximum(choices, 1) == 0)
        # The largest divisors stand first, and argmin takes the first of equals.
        nearest = np.where(divides, np.abs(choices - wish), np.inf).argmin(axis=-1)
        rounded[node] = np.take_along_axis(np.broadcast_to(choices, divides.shape), nearest[..., None], -1)[..., 0]
        left = left // rounded[node]
    return rounded


def choose_orders(
    space: MapSpace, model: Model, point: Point, orders: Orders
) -> tuple[Orders, Float[np.ndarray, " starts"]]:
    """Orders of the first memory's loops, and what the network costs with them.

    Layer by layer, beginning with `orders`, the one with the lowest predicted cost of the whole network is kept.
    """
    factors = with_quotients(model, cast("Array", point))[:, :, None]
    every = np.arange(len(ORDERS))[:, None, None]
    costs = costs_of(nest_of(space.frame, model, factors, cast("Array", every)), model)
    repeat = np.asarray(model.layers.repeat)
    # ``[energy and cycles, orders, starts, layers]``
    parts = np.stack(np.broadcast_arrays(costs.energy_pj, costs.cycles)) * repeat
    chosen = orders.copy()
    sums = np.take_along_axis(parts, chosen[None, None], axis=1)[:, 0].sum(axis=-1)
    starts = np.arange(len(chosen))
    for layer in range(chosen.shape[1]):
        tried = sums[:, None] - parts[:, chosen[:, layer], starts, layer][:, None] + parts[..., layer]
        chosen[:, layer] = np.asarray(measure(model, *cast("Array", tried))).argmin(axis=0)
        sums = tried[:, chosen[:, layer], starts]
    return chosen, np.asarray(measure(model, *cast("Array", sums)))


def repair(space: MapSpace, point: Point, orders: Orders) -> Point:
    """Shrink tiles until every layer fits every axis and every memory.

    A layer that does not fit gives up one prime factor after another to the first memory. Of all factors that take part
    in something overfull, each divided by its smallest prime, the one is taken that leaves the layer the lowest cost.
    """
    free = np.argwhere(np.asarray(space.exact.free).any(axis=(2, 3)))
    moves = np.zeros((*point.shape[:2], len(free), 1, 1), dtype=bool)
    moves[free[:, 0], free[:, 1], np.arange(len(free))] = True
    while True:
        now, _ = _priced(space, point[:, :, None], orders)
        if not (over := now > 1).any():
            return point
        tried = np.where(moves, (point // _smallest_primes(space, point))[:, :, None], point[:, :, None])
        then, price = _priced(space, tried, orders)
        helps = (over & (then < now)).any(axis=0)
        best = np.where(helps, price, np.inf).argmin(axis=0)
        shrunk = np.take_along_axis(tried, best[None, None, None], axis=2)[:, :, 0]
        point = np.where(over.any(axis=(0, 1)), shrunk, point)


def _priced(
    space: MapSpace, point: Int[np.ndarray, "nodes 8 moves starts layers"], orders: Orders
) -> tuple[Float[np.ndarray, "places moves starts layers"], Float[np.ndarray, "moves starts layers"]]:
    """What layers on their own need, and their cost."""
    factors = with_quotients(space.exact, cast("Array", point))
    nest = nest_of(space.frame, space.exact, factors, cast("Array", orders[None]))
    costs = costs_of(nest, space.exact)
    return np.asarray(loads(nest, space.exact)), np.asarray(measure(space.exact, costs.energy_pj, costs.cycles))


def _smallest_primes(space: MapSpace, point: Point) -> Point:
    """The smallest prime in every factor (1 in 1): the least divisor of its size, above 1, that divides it."""
    choices = space.divisors[:, None]
    divides = (choices > 1) & (point[..., None] % np.maximum(choices, 1) == 0)
    least = np.where(divides, choices, np.iinfo(np.int64).max).min(axis=-1)
    return np.where(point > 1, least, 1)
