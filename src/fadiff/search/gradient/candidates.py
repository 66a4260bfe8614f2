"""The valid integers: what a dim of a layer may choose among.

A dim's *slots* are the nodes at which a factor may pay, and SHARED, the trips that its fusion group shares. A candidate
is a whole tuple of factors, one per slot, settled: it covers the dim, with ends cut where it must be, and no factor is
idle. In the paper's plain form each slot picks a number on its own.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fadiff.hardware import Axis
from fadiff.schedule.barriers import barriers
from fadiff.schedule.nest import SHARED
from fadiff.search.space import map_space, prime_factors, settle, trip_counts
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jax import Array
    from jaxtyping import Int

    from fadiff.hardware import Machine
    from fadiff.search.gradient.settings import DescentSettings
    from fadiff.workload import Layer, Workload

    Tuples = Int[np.ndarray, "candidates slots"]

SHARED_DIMS = tuple(DIMS.index(dim) for dim in "GNPQ")
"""The dims that groups of the descent share, in the order of their trip counts; there is no channel loop."""
MOST_DRAWN = 2048
"""Tuples drawn before they are thinned out: exact ones, and as many with cut ends."""
APART = 0.45
"""A tuple with cut ends stands at least so far (in log factors) from all others, or it brings nothing new."""
CUT_WORTH = 0.5
"""Of tuples that are equally far from all others those with cut ends count so much."""


class Choice(NamedTuple):
    """One decision of the search: which candidate a dim of a layer takes."""

    layer: int
    """Its place in topological order."""
    dim: int
    slots: tuple[int, ...]
    """Nodes, outermost first, then `SHARED`; at all others the dim has factor 1."""
    factors: Tuples


class _Slot(NamedTuple):
    number: int
    """A node, or `SHARED`."""
    most: int
    """The largest factor."""
    is_axis: bool = False
    is_alone: bool = False
    """An axis that no other dim of the layer takes: few lanes in use are a waste."""


def choices(workload: Workload, machine: Machine, settings: DescentSettings) -> Iterator[Choice]:
    """Every decision: sizes of 1 have none, and an add layer, without a mapping, chooses only what it shares."""
    fuse = settings.fuse and machine.structure.hands_over is not None
    for i, name in enumerate(workload.topological):
        for d, size in enumerate(workload[name].dims):
            slots = _slots(workload, machine, workload[name], d, fuse=fuse) if size > 1 else ()
            if settings.choice == "integers":
                for slot in slots[1:]:
                    yield Choice(i, d, (slot.number,), np.array([[n] for n in trip_counts(size) if n <= slot.most]))
            elif len(slots) > 1:
                factors = _tuples(size, slots, settings.spatial_slack, settings.max_candidates)
                yield Choice(i, d, tuple(slot.number for slot in slots), factors)


def _slots(workload: Workload, machine: Machine, layer: Layer, d: int, *, fuse: bool) -> tuple[_Slot, ...]:
    """The first memory, other nodes of a MAC layer that may pay, and SHARED where the layer may share the dim."""
    dim, size = DIMS[d], layer.dims[d]
    slots: list[_Slot] = []
    for number in map_space(machine).nodes[dim] if layer.is_mac else (0,):
        node, slot = machine.nodes[number], _Slot(number, size)
        if isinstance(node, Axis):
            alone = all(layer.dims[DIMS.index(other)] == 1 for other in node.dims if other != dim)
            slot = _Slot(number, min(size, node.size), is_axis=True, is_alone=alone)
        slots.append(slot)
    barred = {loop for bar in barriers(workload, (layer.name,), (), online_softmax=False) for loop in bar.loops}
    neighbours = workload.consumers[layer.name] or workload.producers[layer.name]
    if fuse and neighbours and d in SHARED_DIMS and dim not in barred:
        slots.append(_Slot(SHARED, size))
    return tuple(slots)


@cache
def _tuples(size: int, slots: tuple[_Slot, ...], slack: int, cap: int) -> Tuples:
    """Exact factorizations and tuples with cut ends, thinned out to `cap`; always the same ones.

    Of axes that a dim has for itself it uses no fewer lanes than the most possible over `slack`.
    """
    most = [slot.most for slot in slots]
    random = np.random.default_rng([size, *most])
    corners = np.diag(most) + 1 - np.eye(len(slots), dtype=np.int64)
    found = np.concatenate([corners, _exact(size, slots, random), _cut(size, slots, random)])
    found = np.unique(_settled(size, slots, found), axis=0)
    lanes = np.where([slot.is_alone for slot in slots], found, 1).prod(axis=1)
    return _thin(size, slots, found[lanes * slack >= lanes.max()], cap)


def _exact(size: int, slots: tuple[_Slot, ...], random: np.random.Generator) -> Tuples:
    """Factorizations: every prime goes to a random slot. Each tuple has weights of its own, drawn so that of a power of
    a prime all factorizations are equally likely."""
    weights = random.dirichlet(np.ones(len(slots)), MOST_DRAWN).cumsum(axis=1)
    found = np.ones((MOST_DRAWN, len(slots)), dtype=np.int64)
    for prime, power in prime_factors(size):
        for _ in range(power):
            slot = (random.random((MOST_DRAWN, 1)) > weights[:, :-1]).sum(axis=1)
            found[np.arange(MOST_DRAWN), slot] *= prime
    return found[(found <= [slot.most for slot in slots]).all(axis=1)]


def _cut(size: int, slots: tuple[_Slot, ...], random: np.random.Generator) -> Tuples:
    """Random tuples with cut ends: trips shared (or not), lanes (in half of them all), then memories in any order.

    Each takes a part of what is left, t = ceil(left / tile) trips for some tile, and leaves ceil(left / t).
    """
    rank = [0 if slot.number == SHARED else 1 if slot.is_axis else 2 if slot.number else 3 for slot in slots]
    turns = np.argsort(random.random((MOST_DRAWN, len(slots))) + rank, axis=1)[:, :-1]
    found, left = np.ones((MOST_DRAWN, len(slots)), dtype=np.int64), np.full(MOST_DRAWN, size)
    most, is_axis = np.array([slot.most for slot in slots]), np.array([slot.is_axis for slot in slots])
    for slot in turns.T:
        share = np.where(is_axis[slot] & (random.random(MOST_DRAWN) < 0.5), 1, random.random(MOST_DRAWN))
        share[(np.array(rank)[slot] == 0) & (random.random(MOST_DRAWN) < 0.5)] = 0
        trips = np.minimum(np.rint(left**share), most[slot]).astype(np.int64)
        trips = -(-left // -(-left // trips))
        found[np.arange(MOST_DRAWN), slot] = trips
        left = -(-left // trips)
    return found


def _settled(size: int, slots: tuple[_Slot, ...], found: Tuples) -> Tuples:
    """Tuples made legal: the first memory takes what the others leave of the tile."""
    private, shared = np.split(found.T, [len(slots) - (slots[-1].number == SHARED)])
    tile = -(-size // shared.prod(axis=0))
    settled = np.asarray(settle(cast("Array", private * 1.0), cast("Array", tile * 1.0))).astype(np.int64)
    return np.concatenate([settled, -(-size // tile[None]) + 0 * shared]).T


def _thin(size: int, slots: tuple[_Slot, ...], found: Tuples, cap: int) -> Tuples:
    """At most `cap` of the candidates: the extremes, then each time the one farthest (in log space) from those kept.

    Lanes count double: how many are in use matters more than where a tile ends.
    """
    points = np.log(found) * np.array([2.0 if slot.is_axis else 1.0 for slot in slots])
    is_exact = found.prod(axis=1) == size
    kept = list(dict.fromkeys(points.argmax(axis=0).tolist()))[:cap]
    distance = np.min([((points - points[i]) ** 2).sum(axis=1) for i in kept], axis=0)
    while len(kept) < cap:
        worth = np.where(is_exact, distance, np.where(distance < APART**2, 0, CUT_WORTH * distance))
        best = int(worth.argmax())
        if worth[best] == 0:
            break
        kept.append(best)
        distance = np.minimum(distance, ((points - points[best]) ** 2).sum(axis=1))
    return found[sorted(kept)]
