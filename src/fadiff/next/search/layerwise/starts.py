"""Where descents start, and what their variables are measured in.

DOSA starts from mappings that an integer-programming mapper (CoSA) makes for random machines. That mapper needs a
commercial solver, and here the machine is given. So the first start is the greedy schedule, and all others are random
legal mappings that fill the axes as far as sizes allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.next.search.exact.menus import full_array, scattered
from fadiff.next.search.layerwise.mapspace import MapSpace
from fadiff.next.search.layerwise.points import choose_orders, repair, round_point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float, Int

    from fadiff.next.schedule import Schedule
    from fadiff.next.search.layerwise.mapspace import Point

MOST_DRAWS = 16
"""Draws after which a round is filled up with the best of the starts that would be rejected."""


class Starts(NamedTuple):
    """Rounded points with what DOSA's model says of them."""

    point: Point
    orders: Int[np.ndarray, "starts layers"]
    cost: Float[np.ndarray, " starts"]
    """Cost of the network."""


def rounds(
    space: MapSpace, random: np.random.Generator, greedy: Schedule, count: int, reject_over: float
) -> Iterator[Starts]:
    """Rounds of `count` starts, without end: the greedy schedule first, then random ones.

    A start is rejected when it costs over `reject_over` times the best start so far.
    """
    found = _legal(space, _from_schedule(space, greedy))
    best = found.cost.min()
    while True:
        for _ in range(MOST_DRAWS):
            if (found.cost <= reject_over * best).sum() >= count:
                break
            more = _legal(space, draw(space, random, count))
            found, best = _join(found, more), min(best, more.cost.min())
        rank = np.argsort(np.where(found.cost <= reject_over * best, 0, found.cost), kind="stable")
        yield _pick(found, rank[:count])
        found = _pick(found, rank[:0])


def normalizers(space: MapSpace) -> Float[np.ndarray, "nodes 8 1 1"]:
    """The largest value that every factor has in random mappings of any layer.

    As in DOSA, where machines differ, these are mappings for memories of any size.
    """
    nodes = len(space.frame.structure.keeps)
    is_axis = np.isin(np.arange(nodes), space.frame.structure.axes)[:, None]
    largest = np.ones((nodes, 8))
    for _, name in space.mapped:
        condition = space.task.alone(name)
        lanes = full_array(space.task, condition).factors
        left = np.ceil(np.array(condition.tile) / lanes.prod(axis=0))
        largest = np.maximum(largest, np.where(is_axis, lanes, left))
    return largest[:, :, None, None]


def draw(space: MapSpace, random: np.random.Generator, count: int) -> Point:
    """Random mappings, which may not fit.

    The axes are filled as far as sizes allow. Each prime factor that is left goes to a useful memory.
    """
    point = np.ones((*np.asarray(space.exact.free).shape[:2], count, space.divisors.shape[1]))
    for k, name in space.mapped:
        condition = space.task.alone(name)
        for start in range(count):
            point[:, :, start, k] = scattered(space.task, condition, random).factors
    return _inside(space, point)


def _from_schedule(space: MapSpace, schedule: Schedule) -> Point:
    """The mappings of a schedule as a point of one start."""
    point = np.ones((*np.asarray(space.exact.free).shape[:2], 1, space.divisors.shape[1]))
    for k, name in space.mapped:
        point[:, :, 0, k] = schedule.mappings[name].factors
    return _inside(space, point)


def _inside(space: MapSpace, point: Float[np.ndarray, "nodes 8 starts layers"]) -> Point:
    """Loops of nodes that may have none moved to the next memory further in that may, and all rounded."""
    free = np.asarray(space.exact.free).any(axis=(2, 3))
    memories = space.frame.structure.memories
    for node in memories[1:]:
        for d in np.flatnonzero(~free[node]):
            inner = next((n for n in memories if n > node and free[n, d]), None)
            if inner is not None:
                point[inner, d] *= point[node, d]
            point[node, d] = 1
    return round_point(space, point)


def _legal(space: MapSpace, point: Point) -> Starts:
    """Points, repaired, with their orders and costs."""
    stationary = np.zeros(point.shape[2:], dtype=np.int64)
    legal = repair(space, point, stationary)
    return Starts(legal, *choose_orders(space, space.internal, legal, stationary))


def _join(first: Starts, second: Starts) -> Starts:
    return Starts(
        np.concatenate([first.point, second.point], axis=2),
        np.concatenate([first.orders, second.orders]),
        np.concatenate([first.cost, second.cost]),
    )


def _pick(starts: Starts, which: Int[np.ndarray, " some"]) -> Starts:
    return Starts(starts.point[:, :, which], starts.orders[which], starts.cost[which])
