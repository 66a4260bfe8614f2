"""From a continuous point to whole numbers, loop orders and tiles that fit; and the points that descents start from.

Rounding and the choice of orders are DOSA's. Repair is not: its hardware grows with its mappings.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.cost.model import layer_costs
from fadiff.search.exact.starts import full_array, scattered
from fadiff.search.layerwise.mapspace import ORDERS, MapSpace, Model, every_factor, loads, measure, nest_of
from fadiff.search.space import prime_factors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float, Int

    from fadiff.schedule import Schedule
    from fadiff.schedule.nest import Nest
    from fadiff.search.layerwise.mapspace import Orders, Point


def round_point(space: MapSpace, point: Float[np.ndarray, "free starts layers"]) -> Point:
    """Every factor to a divisor of what is left of its dim, from the inside out; the first memory takes the rest.

    Each factor goes to the nearest whole number of at least 1, then to the nearest divisor of what those before it
    left; of two equally near ones to the larger.
    """
    left = np.broadcast_to(space.divisors[:, None, :, 0], (8, *point.shape[1:])).copy()
    rounded = np.ones(point.shape, dtype=np.int64)
    for i, (_, d) in enumerate(space.exact.free):
        choices = space.divisors[d]
        wish = np.floor(np.maximum(point[i], 1) + 0.5)[..., None]
        divides = (choices > 0) & (left[d][..., None] % np.maximum(choices, 1) == 0)
        # The largest divisors stand first, and argmin takes the first of equals.
        nearest = np.where(divides, np.abs(choices - wish), np.inf).argmin(axis=-1)
        rounded[i] = choices[np.arange(len(choices)), nearest]
        left[d] //= rounded[i]
    return rounded


def choose_orders(
    space: MapSpace, model: Model, point: Point, orders: Orders
) -> tuple[Orders, Float[np.ndarray, " starts"]]:
    """Orders of the first memory's loops, and what the network costs with them.

    Layer by layer, beginning with `orders`, the one with the lowest predicted cost of the whole network is kept.
    """
    nest = _nest(model, point[:, None], np.arange(len(ORDERS))[:, None, None])
    costs = layer_costs(nest, model.machine)
    # ``[energy and cycles, orders, starts, layers]``
    parts = np.stack(np.broadcast_arrays(costs.energy_pj, costs.cycles)) * np.asarray(model.layers.repeat)
    chosen, starts = orders.copy(), np.arange(len(orders))
    sums = np.take_along_axis(parts, chosen[None, None], axis=1)[:, 0].sum(axis=-1)
    for layer in range(chosen.shape[1]):
        tried = sums[:, None] - parts[:, chosen[:, layer], starts, layer][:, None] + parts[..., layer]
        chosen[:, layer] = np.asarray(measure(model, *tried)).argmin(axis=0)
        sums = tried[:, chosen[:, layer], starts]
    return chosen, np.asarray(measure(model, *sums))


def repair(space: MapSpace, point: Point, orders: Orders) -> Point:
    """Shrink tiles until every layer fits every axis and every memory.

    A layer that does not fit gives up one prime factor after another to the first memory. Of all factors that take part
    in something overfull, each divided by its smallest prime, the one is taken that leaves the layer the lowest cost.
    """
    model, moves = space.exact, np.eye(len(point), dtype=bool)[..., None, None]
    while True:
        now = np.asarray(loads(_nest(model, point[:, None], orders), model.machine))
        if not (over := now > 1).any():
            return point
        tried = np.where(moves, (point // _smallest_prime(point))[:, None], point[:, None])
        nest = _nest(model, tried, orders)
        costs = layer_costs(nest, model.machine)
        price = measure(model, costs.energy_pj, costs.cycles)
        helps = (over & (np.asarray(loads(nest, model.machine)) < now)).any(axis=0)
        best = np.where(helps, price, np.inf).argmin(axis=0)
        shrunk = np.take_along_axis(tried, best[None, None], axis=1)[:, 0]
        point = np.where(over.any(axis=(0, 1)), shrunk, point)


@partial(np.vectorize, otypes=[np.int64])
@cache
def _smallest_prime(number: int) -> int:
    """The smallest prime in a number; 1 in 1."""
    return min(prime_factors(number), default=(1, 0))[0]


def _nest(model: Model, point: Int[np.ndarray, "free *batch layers"], orders: Orders) -> Nest:
    return nest_of(model, every_factor(model, point.astype(np.float64)), orders)


MOST_DRAWS = 16
"""Draws after which a round is filled up with the best of the starts that would be rejected."""


class Start(NamedTuple):
    """A rounded point with what DOSA's model says of it."""

    point: Int[np.ndarray, "free layers"]
    orders: Int[np.ndarray, " layers"]
    cost: float
    """Cost of the network."""


def rounds(
    space: MapSpace, random: np.random.Generator, greedy: Schedule, count: int, reject_over: float
) -> Iterator[list[Start]]:
    """Rounds of `count` starts, without end: the greedy schedule first, then random ones.

    A start is rejected when it costs over `reject_over` times the best start so far.
    """
    names = [space.task.layer(condition).name for condition in space.mapped.values()]
    found = _legal(space, _to_point(space, np.array([[greedy.mappings[name].factors for name in names]])))
    most = reject_over * found[0].cost
    while True:
        for _ in range(MOST_DRAWS):
            if sum(start.cost <= most for start in found) >= count:
                break
            found += _legal(space, draw(space, random, count))
            most = min(most, *(reject_over * start.cost for start in found))
        yield sorted(found, key=lambda start: max(start.cost, most))[:count]
        found = []


def normalizers(space: MapSpace) -> Float[np.ndarray, "free 1 1"]:
    """The largest value that every factor has in random mappings of any layer.

    As in DOSA, where machines differ, these are mappings for memories of any size.
    """
    lanes = np.array([full_array(space.task, condition).factors for condition in space.mapped.values()])
    left = np.ceil(np.array([condition.tile for condition in space.mapped.values()]) / lanes.prod(axis=1))
    axes = space.exact.structure.axes
    most = [(lanes[:, node, d] if node in axes else left[:, d]).max() for node, d in space.exact.free]
    return np.array(most)[:, None, None]


def draw(space: MapSpace, random: np.random.Generator, count: int) -> Point:
    """Random mappings, which may not fit.

    The axes are filled as far as sizes allow. Each prime factor that is left goes to a useful memory.
    """
    conditions = space.mapped.values()
    drawn = [[scattered(space.task, condition, random).factors for condition in conditions] for _ in range(count)]
    return _to_point(space, np.array(drawn))


def _to_point(space: MapSpace, mappings: Float[np.ndarray, "starts mapped nodes 8"]) -> Point:
    """Mappings of every kind of MAC layers as a point.

    Loops that are not free go to the next memory further in where they are, and all are rounded.
    """
    free, memories = space.exact.free, space.exact.structure.memories
    point = np.ones((len(free), len(mappings), space.divisors.shape[1]))
    for i, (node, d) in enumerate(free):
        outer = max((n for n in memories if n < node and (n, d) in free), default=0)
        taken = [n for n in memories if outer < n < node] if node in memories else []
        point[i][:, list(space.mapped)] = mappings[:, :, [node, *taken], d].prod(axis=-1)
    return round_point(space, point)


def _legal(space: MapSpace, point: Point) -> list[Start]:
    """The starts of a point, repaired, with their orders and costs."""
    stationary = np.zeros(point.shape[1:], dtype=np.int64)
    legal = repair(space, point, stationary)
    orders, cost = choose_orders(space, space.internal, legal, stationary)
    return [Start(legal[:, i], orders[i], float(cost[i])) for i in range(len(cost))]
