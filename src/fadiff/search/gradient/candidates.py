"""The valid integers: every way to factor a dim of a layer over the slots it may use.

Six slots: spatial, t0, t1, t2, the private part of t3, and *shared*, the part of t3 that the layer's fusion group
shares. A candidate is a whole factorization, so that products are right by construction. In the paper's plain form
(:func:`divisor_choices`) each slot picks a divisor on its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.space import divisors, prime_factors, useful_slots
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fadiff.hardware import Hardware
    from fadiff.search.gradient.options import DescentOptions
    from fadiff.workload import Layer, Workload

    IntArray = NDArray[np.int64]

SPATIAL, T0, T1, T2, T3, SHARED = range(6)
SLOTS = 6
SHARED_DIMS = (0, 1, 4, 5)
"""G, N, P, Q: the dims a group may share, in the order of its trip counts."""
_PARTIAL_CAP = 1024
"""Factorizations kept while primes are still being added; only sizes with very many divisors reach it."""


@dataclass(frozen=True)
class Choice:
    """One decision of the search: which candidate a dim of a layer takes."""

    layer: int
    dim: int
    slots: tuple[int, ...]
    """The slots that `factors` speaks of; all other slots of the dim have factor 1."""
    factors: IntArray
    """``[candidates, slots]``"""


@dataclass(frozen=True)
class _Room:
    """How large factors may be: what unrolls at most and at least, and what may be shared."""

    spatial_most: int
    spatial_slack: int
    shareable: int
    """Shared trip counts divide this."""


def factorization_choices(workload: Workload, hardware: Hardware, options: DescentOptions) -> Iterator[Choice]:
    """A choice among whole factorizations for every dim of every layer, sizes of 1 aside.

    An add layer has no mapping: all it chooses are its shared trip counts.
    """
    for i, name in enumerate(workload.topological):
        layer = workload[name]
        for d, size in enumerate(layer.dims):
            slots, room = _slots(workload, layer, d, hardware, options)
            if size > 1 and len(slots) > 1:
                yield Choice(i, d, slots, _factorizations(size, slots, room, options.max_candidates))


def divisor_choices(workload: Workload, hardware: Hardware, options: DescentOptions) -> Iterator[Choice]:
    """The paper's form: a choice among divisors for every slot on its own; T3 takes what the others leave."""
    for i, name in enumerate(workload.topological):
        layer = workload[name]
        for d, size in enumerate(layer.dims):
            slots, room = _slots(workload, layer, d, hardware, options)
            for slot in slots if size > 1 else ():
                fitting = [n for n in divisors(size) if slot != SPATIAL or n <= room.spatial_most]
                fitting = [n for n in fitting if slot != SHARED or room.shareable % n == 0]
                if slot != T3 and len(fitting) > 1:
                    yield Choice(i, d, (slot,), np.array(fitting)[:, None])


def _slots(
    workload: Workload, layer: Layer, d: int, hardware: Hardware, options: DescentOptions
) -> tuple[tuple[int, ...], _Room]:
    """The slots a dim can profit from, and the room in them."""
    shareable = _shareable(workload, layer, d) if options.fuse else 1
    shared = (SHARED,) if shareable > 1 else ()
    if not layer.is_mac:
        return (T3, *shared), _Room(1, 1, shareable)
    axis, most = (
        (hardware.spatial_rows, hardware.rows)
        if DIMS[d] in hardware.spatial_rows
        else (hardware.spatial_cols, hardware.cols)
    )
    alone = all(layer.dims[DIMS.index(other)] == 1 for other in axis if other != DIMS[d])
    slots = useful_slots(DIMS[d], hardware)
    return (*slots, *shared), _Room(most, options.spatial_slack if alone else most, shareable)


def _shareable(workload: Workload, layer: Layer, d: int) -> int:
    """What shared trip counts of a dim divide: 1 where the rules *aligned* and *whole* leave no choice.

    A fused producer is cut in its stored rows and columns too. Flatten and global_pool need whole rows and columns,
    flatten and layer_norm all channels.
    """
    epilogue, size = set(layer.epilogue), layer.dims[d]
    if d not in SHARED_DIMS or not (workload.consumers[layer.name] or workload.producers[layer.name]):
        return 1
    if DIMS[d] == "G":
        return size if layer.is_mac and epilogue.isdisjoint({"flatten", "layer_norm"}) else 1
    if DIMS[d] == "N":
        return size
    if not epilogue.isdisjoint({"flatten", "global_pool"}):
        return 1
    return gcd(size, layer.stored["PQ".index(DIMS[d])]) if workload.consumers[layer.name] else size


@lru_cache(maxsize=4096)
def _factorizations(size: int, slots: tuple[int, ...], room: _Room, cap: int) -> IntArray:
    """``[candidates, slots]``: every factorization of `size` over `slots` that has room, thinned out to `cap`."""
    count = len(slots)
    found = np.ones((1, count), dtype=np.int64)
    for prime, power in prime_factors(size):
        exponents = _compositions(power, count)
        found = (found[:, None, :] * prime ** exponents[None, :, :]).reshape(-1, count)
        found = found[_fits(found, slots, room)]
        found = _thin(found, slots, max(cap, _PARTIAL_CAP))
    if SPATIAL in slots:
        unrolled = found[:, slots.index(SPATIAL)]
        found = found[unrolled * room.spatial_slack >= unrolled.max()]
    return _thin(found, slots, cap)


def _fits(found: IntArray, slots: tuple[int, ...], room: _Room) -> NDArray[np.bool_]:
    fits = np.ones(len(found), dtype=bool)
    if SPATIAL in slots:
        fits &= found[:, slots.index(SPATIAL)] <= room.spatial_most
    if SHARED in slots:
        fits &= room.shareable % found[:, slots.index(SHARED)] == 0
    return fits


def _thin(found: IntArray, slots: tuple[int, ...], cap: int) -> IntArray:
    """At most `cap` of the candidates: the extremes, then each time the one farthest (in log space) from those kept.

    Spatial factors count double: how many PEs work matters more than where a tile ends.
    """
    if len(found) <= cap:
        return found
    points = np.log(found) * np.array([2.0 if slot == SPATIAL else 1.0 for slot in slots])
    kept = list(dict.fromkeys(int(points[:, j].argmax()) for j in range(len(slots))))
    distance = np.min([((points - points[i]) ** 2).sum(axis=1) for i in kept], axis=0)
    while len(kept) < cap:
        kept.append(int(distance.argmax()))
        distance = np.minimum(distance, ((points - points[kept[-1]]) ** 2).sum(axis=1))
    return found[sorted(kept)]


@lru_cache(maxsize=4096)
def _compositions(total: int, parts: int) -> IntArray:
    """``[ways, parts]``: every way to write `total` as an ordered sum of `parts` numbers from 0."""
    if parts == 1:
        return np.array([[total]])
    blocks = [np.insert(_compositions(total - first, parts - 1), 0, first, axis=1) for first in range(total + 1)]
    return np.concatenate(blocks)
