"""Where descents start, and what their variables are measured in.

DOSA starts from mappings that an integer-programming mapper (CoSA) makes for random machines. That mapper needs a
commercial solver, and here the machine is given. So the first start is the greedy schedule, and all others are random
legal mappings that fill the axes as far as sizes allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.exact.menus import full_array, scattered
from fadiff.search.layerwise.mapspace import MapSpace
from fadiff.search.layerwise.points import choose_orders, repair, round_point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float, Int

    from fadiff.schedule import Schedule
    from fadiff.search.layerwise.mapspace import Point

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
