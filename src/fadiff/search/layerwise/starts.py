"""Where descents start, and what their variables are measured in.

DOSA starts from mappings that an integer-programming mapper (CoSA) makes for random machines. That mapper needs a
commercial solver, and here the machine is given. So the first start is the greedy schedule, and all others are random
legal mappings that fill the array as far as sizes allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.layerwise.mapspace import SPATIAL, T0, T1, MapSpace
from fadiff.search.layerwise.repair import repair
from fadiff.search.layerwise.rounding import choose_orders
from fadiff.search.space import prime_factors
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fadiff.schedule import Schedule

    IntArray = NDArray[np.int64]
    FloatArray = NDArray[np.float64]

SAMPLE = 256
"""Mappings of every layer that the normalizers are taken from."""
MOST_DRAWS = 16
"""Draws after which a round is filled up with the best of the starts that would be rejected."""


class Starts(NamedTuple):
    """Rounded points with what DOSA's model says of them."""

    point: IntArray
    """``[3, 8, starts, layers]``"""
    orders: IntArray
    """``[starts, layers]`` L3 orders."""
    cost: FloatArray
    """``[starts]`` cost of the network."""


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


def normalizers(space: MapSpace, random: np.random.Generator) -> FloatArray:
    """``[3, 8, 1, 1]`` the largest value of every factor in a sample of mappings of all layers.

    As in DOSA, where machines differ, the sample is of mappings for memories of any size.
    """
    return draw(space, random, SAMPLE).max(axis=(2, 3), keepdims=True).astype(np.float64)


def draw(space: MapSpace, random: np.random.Generator, count: int) -> IntArray:
    """Random mappings ``[3, 8, count, layers]``, which may not fit L1 and L2.

    The array is filled as far as sizes allow. Each prime factor that is left goes to L3, to t1, or (of N, P, Q) to t0,
    each as likely as the others.
    """
    spatial = _full_array(space)
    is_mac = np.asarray(space.exact.layers.is_mac)
    left = np.where(is_mac, space.divisors[..., 0] // spatial, 1)
    primes = [[[p for p, power in prime_factors(int(n)) for _ in range(power)] for n in row] for row in left]
    most = max(1, *(len(each) for row in primes for each in row))
    table = np.array([[each + [1] * (most - len(each)) for each in row] for row in primes])[:, None]
    has_t0 = np.array([dim in "NPQ" for dim in DIMS])[:, None, None, None]
    slot = random.integers(0, 2 + has_t0, size=(8, count, *table.shape[2:]))
    t1, t0 = (np.where(slot == number, table, 1).prod(axis=-1) for number in (1, 2))
    return np.stack([np.broadcast_to(spatial[:, None], t1.shape), t0, t1])


def _full_array(space: MapSpace) -> IntArray:
    """Spatial factors ``[8, layers]``: for each dim of an axis in turn, the largest divisor that there is room for."""
    sizes, hardware = space.divisors, space.hardware
    spatial = np.ones(sizes.shape[:2], dtype=np.int64)
    for dims, there in ((hardware.spatial_rows, hardware.rows), (hardware.spatial_cols, hardware.cols)):
        room = np.full(sizes.shape[1], there)
        for d in map(DIMS.index, dims):
            fits = np.where(sizes[d] <= room[:, None], sizes[d], 0).max(axis=-1)
            spatial[d] = np.where(space.exact.layers.is_mac, fits, 1)
            room //= spatial[d]
    return spatial


def _from_schedule(space: MapSpace, schedule: Schedule) -> IntArray:
    """``[3, 8, 1, layers]`` the mappings of a schedule, their loops at L2 moved to L1."""
    point = np.ones((3, 8, 1, space.divisors.shape[1]), dtype=np.int64)
    for k, name in space.kinds:
        mapping = schedule.mappings[name]
        point[SPATIAL, :, 0, k], point[T0, :, 0, k] = mapping.spatial, mapping.l0
        point[T1, :, 0, k] = np.multiply(mapping.l1, mapping.l2)
    return point


def _legal(space: MapSpace, point: IntArray) -> Starts:
    """Points, repaired, with their orders and costs."""
    stationary = np.zeros(point.shape[2:], dtype=np.int64)
    legal = repair(space, point, stationary)
    return Starts(legal, *choose_orders(space.internal, legal, stationary))


def _join(first: Starts, second: Starts) -> Starts:
    return Starts(
        np.concatenate([first.point, second.point], axis=2),
        np.concatenate([first.orders, second.orders]),
        np.concatenate([first.cost, second.cost]),
    )


def _pick(starts: Starts, which: IntArray) -> Starts:
    return Starts(starts.point[:, :, which], starts.orders[which], starts.cost[which])
