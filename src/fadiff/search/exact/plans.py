"""Which layers could be fused, and with which shared trip counts: plans for groups, before any mapping.

A *plan* is a set of layers (:mod:`fadiff.search.exact.sets`) with shared trip counts under which their buffers fit in
the memory that fuses. Everything a plan promises holds whatever mappings its layers get later, except that their tiles
must fit beside the buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from fadiff.schedule import Group, Trips
from fadiff.schedule.arrays import buffer_values, waiting_trips
from fadiff.schedule.barriers import barriers
from fadiff.schedule.ir import SHARED_LOOPS
from fadiff.schedule.tiling import Tiling, group_tiling, inner_edges
from fadiff.search.exact.sets import Growing
from fadiff.search.space import divisors

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from fadiff.search.exact.conditions import Condition, Task
    from fadiff.workload import Edge, Workload

Found = TypeVar("Found")
Buffer = tuple["Float[np.ndarray, ' candidates']", "Bool[np.ndarray, ' candidates']"]
"""Bytes of a buffer under each candidate of trip counts, and whether they outlast a shared iteration."""

BUFFER_SHARES = (1.0, 0.75, 0.5, 0.25, 0.125)
"""Plans are kept for buffers that leave different shares of the memory to tiles and pinned weights."""
PLANS_PER_SHARE = 3
SMALL_GROUP = 4
PLANS_PER_SHARE_OF_SMALL_GROUP = 12
"""Plans tried of a set for each share; of a few layers there are fewer, and small machines fit no others."""
MOST_PLANS = 96
"""Plans of a set at most where all are tried, those of the fewest iterations."""
WIDEST_GAP = 2.0
WIDEST_GAP_OF_ALL = 1.2
WIDEST_GAP_OF_PAIR = 1.01
"""Trip counts tried of one loop: its divisors, and where one is more than so many times the next, others between; of a
pair all up to a hundred."""


@dataclass(frozen=True)
class Plan:
    """A group without mappings: the condition of each layer, and the bytes of live buffers while it runs."""

    group: Group
    conditions: tuple[Condition, ...]
    live_bytes: tuple[float, ...]

    def __hash__(self) -> int:
        """Of the group alone, from which the rest follows: plans are many."""
        return hash(self.group)


def conditions_of(plans: Iterable[Plan]) -> list[Condition]:
    """All different conditions of some plans."""
    return list(dict.fromkeys(condition for plan in plans for condition in plan.conditions))


def alone(task: Task, name: str) -> Plan:
    """The plan of a layer on its own."""
    return Plan(Group((name,)), (task.alone(name),), (0.0,))


def plans(task: Task, sets: dict[tuple[str, ...], Members] | None = None) -> Iterator[Plan]:
    """Plans of every set of two layers or more that may be a group, those of small sets first.

    Sets of the same shapes, joined in the same way, have the same plans: they are made once. Buffers of a set are also
    those of every larger one with the same sink: where they do not fit, it does not grow. In `sets` is what is known of
    them from machines alike, and what is found out is added.
    """
    if task.machine.structure.hands_over is None:
        return
    known = {} if sets is None else sets
    made: dict[tuple[object, ...], tuple[bool, list[Sharing]]] = {}
    growing, smaller = Growing(task.workload, task.restrictions.may_become), dict[tuple[str, ...], Members]()
    for names in growing:
        grown_from = smaller.pop(names, None)
        members = known[names].on(task) if names in known else Members(task, names, smaller=grown_from)
        known[names], may_grow = members, True
        if len(names) > 1:
            if members.pattern not in made:
                made[members.pattern] = (members.may_grow, list(members.chosen()))
            may_grow, found = made[members.pattern]
            yield from map(members.plan, found)
        if may_grow:
            smaller |= dict.fromkeys(growing.grow(names), members)


class Sharing(NamedTuple):
    """Trip counts that a set of layers may share, and what follows from them, by the layers' places in the set."""

    trips: Trips
    loops: str
    tiles: tuple[dict[str, int], ...]
    live_bytes: tuple[float, ...]


class Members:
    """Layers in topological order, the sink last, and the trip counts they could share as a group."""

    def __init__(
        self, task: Task, names: tuple[str, ...], widest_gap: float = WIDEST_GAP, smaller: Members | None = None
    ) -> None:
        """What is known of a `smaller` set that this one was grown from need not be found again."""
        self._smaller = smaller
        self.task = task
        self.names: tuple[str, ...] = names
        self.widest_gap = WIDEST_GAP_OF_PAIR if len(self.names) == 2 else widest_gap
        self.workload: Workload = task.workload
        self._buffers: dict[str, Buffer] = {}
        self.fused: list[Edge] = inner_edges(task.workload, names)
        self.fusible = all(edge.fusible for edge in self.fused)
        given = task.restrictions.given.get(names[-1])
        self.asked: Trips | None = None if given is None else given.trips
        """The trips that are asked for; None where any will do."""
        self.nesting: str | None = None if given is None else given.loops
        """The nesting of shared loops, likewise."""
        self._sharings: dict[tuple[str, int], Sharing] = {}
        self._plans: dict[tuple[Trips, str], Plan] = {}

    def on(self, task: Task) -> Members:
        """The same layers on a machine that is alike: all is known but which buffers fit."""
        if task is self.task:
            return self
        other = copy(self)
        other.task = task
        return other

    @cached_property
    def pattern(self) -> tuple[object, ...]:
        """All that the plans of a set depend on: shapes, epilogues, padding, edges between its layers and to others."""
        place = {name: i for i, name in enumerate(self.names)}
        layers = [self.workload[name] for name in self.names]
        shapes = tuple((x.kind, x.dims, x.stride, x.dilation, x.stored, x.epilogue, x.repeat, x.pad) for x in layers)
        edges = tuple(
            (place.get(e.source), i, e.port, e.fusible)
            for i, name in enumerate(self.names)
            for e in self.workload.producers[name]
        )
        return shapes, edges, self.task.restrictions.of_group(self.names)

    @cached_property
    def barred(self) -> frozenset[str]:
        """Loops that the layers may not share, whatever the trip counts."""
        found = barriers(self.workload, self.names, self.fused, online_softmax=self.task.machine.online_softmax)
        return frozenset(loop for barrier in found for loop in barrier.loops)

    @cached_property
    def tiling(self) -> Tiling:
        """The candidates of trip counts without X that the rules *aligned* and *whole* allow."""
        if self._smaller is not None and len(self._smaller.names) > 2 and self._smaller.widest_gap == self.widest_gap:
            return self._grown(self._smaller)
        sizes = self.workload[self.names[-1]].dims._asdict()
        gap = self.widest_gap
        counts = [[1] if loop in self.barred else _some_trip_counts(sizes[loop], loop, gap) for loop in "GNPQ"]
        if self.asked is not None:
            counts = [[trips] for trips in self.asked[:4]]
        return self._aligned(np.array(list(product(*counts, [1]))).T)

    def _grown(self, smaller: Members) -> Tiling:
        """The candidates of a smaller set with the same sink that are left."""
        free = [loop not in self.barred for loop in SHARED_LOOPS]
        left = (smaller.tiling.trips == 1)[np.logical_not(free)].all(axis=0)
        known = smaller.tiling.only(left)
        tiling = group_tiling(self.workload, self.names, self.fused, known.trips, known)
        chosen = self._allowed(tiling)
        kept = np.flatnonzero(left)[chosen]
        self._buffers = {name: (size[kept], outlasts[kept]) for name, (size, outlasts) in smaller.buffers.items()}
        self._smaller = None
        return tiling.only(chosen)

    @cached_property
    def channel_tiling(self) -> Tiling:
        """The same with X; none where a rule forbids it."""
        channels = self.workload[self.names[-1]].dims.C if self._shares_channels else 1
        wanted = _some_trip_counts(channels, "X", WIDEST_GAP)[1:]
        parts = np.array(wanted if self.asked is None else [self.asked.X], dtype=int)
        trips = np.repeat(self.tiling.trips, parts.size, axis=1)
        trips[4] = np.tile(parts, self.tiling.trips.shape[1])
        return self._aligned(trips)

    @property
    def _shares_channels(self) -> bool:
        """Whether the layers may share X: only a pair may."""
        return len(self.names) == 2 and "X" not in self.barred

    def _aligned(self, trips: Int[np.ndarray, "5 candidates"]) -> Tiling:
        """The tiling of those candidates that are aligned."""
        tiling = group_tiling(self.workload, self.names, self.fused, trips)
        return tiling.only(self._allowed(tiling))

    def _allowed(self, tiling: Tiling) -> Bool[np.ndarray, " candidates"]:
        return tiling.aligned & self._divides(tiling) if self.task.exact_factors else tiling.aligned

    def _divides(self, tiling: Tiling) -> Bool[np.ndarray, " candidates"]:
        """Whether every tile divides its dim."""
        cuts = [(self.workload[name].dims._asdict(), tile) for name, tile in tiling.tile.items()]
        return np.all([size[d] % tile == 0 for size, mine in cuts for d, tile in mine.items()], axis=0)

    @cached_property
    def live(self) -> Float[np.ndarray, "candidates layers"]:
        """Bytes of live buffers while each layer runs, without X."""
        return self._live(self.buffers, self.tiling.trips.shape[1])

    @cached_property
    def buffers(self) -> dict[str, Buffer]:
        """The buffer of every fused producer, without X."""
        tiling = self.tiling
        return self._buffers | {
            name: self._buffer(name, tiling, "GNPQX")
            for name in dict.fromkeys(edge.source for edge in self.fused)
            if name not in self._buffers
        }

    def live_bytes(self, tiling: Tiling, nesting: str) -> Float[np.ndarray, "candidates layers"]:
        """Bytes of the buffers that are live while each layer runs, under each candidate."""
        sources = dict.fromkeys(edge.source for edge in self.fused)
        return self._live({name: self._buffer(name, tiling, nesting) for name in sources}, tiling.trips.shape[1])

    def _buffer(self, name: str, tiling: Tiling, nesting: str) -> Buffer:
        layer, trips = self.workload[name], dict(zip(SHARED_LOOPS, tiling.trips, strict=True))
        sizes = layer.dims._asdict() | tiling.tile[name]
        values, outlasts = buffer_values(
            np.array(layer.stored, dtype=np.float64)[:, None],
            np.stack(tiling.stored_tile[name]).astype(np.float64),
            np.array([ahead.halo for ahead in tiling.ahead[name]], dtype=np.float64)[:, None],
            np.stack([trips["P"], trips["Q"]]),
            waiting_trips(nesting, trips, first=name == self.names[0]),
            np.asarray(sizes["G"] * sizes["N"] * sizes["K"]),
        )
        return np.asarray(values) * self.task.machine.bits.O / 8, np.asarray(outlasts)

    def _live(self, buffers: dict[str, Buffer], candidates: int) -> Float[np.ndarray, "candidates layers"]:
        """While a layer runs, buffers from their producer to their last consumer, and those that outlast iterations."""
        place = {name: i for i, name in enumerate(self.names)}
        # Edges come in the order of their targets.
        last_use = {edge.source: place[edge.target] for edge in self.fused}
        steps = np.arange(len(self.names))
        during = np.array([(place[name] <= steps) & (steps <= last_use[name]) for name in buffers], dtype=np.float64)
        size, always = np.zeros((2, len(buffers), candidates))
        for i, (bytes_, outlasts) in enumerate(buffers.values()):
            size[i], always[i] = bytes_, np.where(outlasts, bytes_, 0.0)
        return always.sum(axis=0)[:, None] + (size - always).T @ during.reshape(-1, len(self.names))

    @property
    def may_be_group(self) -> bool:
        """Whether the rules *fusible*, *one sink* and *repeat* allow the group, and *complete* can be kept."""
        feeding = {edge.source for edge in self.fused}
        joined = self.fusible and feeding.issuperset(self.names[:-1])
        repeats = {self.workload[name].repeat for name in self.names}
        asked = self.task.restrictions.may_be(self.names)
        return asked and joined and len(repeats) == 1 and self.task.machine.structure.hands_over is not None

    @property
    def capacity(self) -> float:
        """Bytes of the memory that fuses."""
        assert self.task.fusing is not None
        return self.task.all_room.running[self.task.fusing]

    @property
    def may_grow(self) -> bool:
        """Whether a larger set could be a group: it has the same edges and buffers and more.

        A pair whose buffer does not fit whole may still fit in parts, under the channel loop.
        """
        return self.fusible and float(self.live.max(axis=1).min(initial=np.inf)) <= self.capacity

    def chosen(self) -> Iterator[Sharing]:
        """Some trip counts worth trying, for different shares of the memory; none if the layers may not be a group."""
        most = PLANS_PER_SHARE if len(self.names) > SMALL_GROUP else PLANS_PER_SHARE_OF_SMALL_GROUP
        for tiling, live, loops in self._nested():
            for i in _spread(live.max(axis=1), tiling.trips, self.capacity, most):
                yield self._sharing(tiling, live, i, loops)

    def every(self) -> Iterator[Sharing]:
        """All trip counts under which buffers fit, as far as they are not too many."""
        for tiling, live, loops in self._nested():
            peak, iterations = live.max(axis=1), tiling.trips[1:].prod(axis=0)
            ranked = np.lexsort((peak, iterations))
            for i in ranked[peak[ranked] <= self.capacity][:MOST_PLANS]:
                yield self._sharing(tiling, live, int(i), loops)

    def _nested(self) -> Iterator[tuple[Tiling, Float[np.ndarray, "candidates layers"], str]]:
        """Candidates of trip counts and their live bytes in each nesting that makes a difference: X innermost or
        outermost."""
        if not self.may_be_group:
            return
        if self.asked is None or self.asked.X == 1:
            nesting = self.nesting or "GNPQ"
            live = self.live if self.nesting is None else self._live_nested(self.tiling, nesting)
            yield self.tiling, live, nesting
        if self._shares_channels and (self.asked is None or self.asked.X > 1):
            for loops in ("GNPQX", "GXNPQ") if self.nesting is None else (self.nesting,):
                yield self.channel_tiling, self._live_nested(self.channel_tiling, loops), loops

    def _live_nested(self, tiling: Tiling, loops: str) -> Float[np.ndarray, "candidates layers"]:
        return self.live_bytes(tiling, Group(self.names, loops=loops).nesting)

    def nearest_plan(self, wanted: Sequence[float]) -> Plan | None:
        """The plan whose trips are nearest to `wanted` (logs of G, N, P, Q); None if none fits."""
        if not self.may_be_group:
            return None
        distance = np.square(np.log(self.tiling.trips[:4]) - np.asarray(wanted)[:, None]).sum(axis=0)
        distance[self.live.max(axis=1) > self.capacity] = np.inf
        if not np.isfinite(distance).any():
            return None
        plan = self.plan(self._sharing(self.tiling, self.live, int(distance.argmin()), "GNPQ"))
        return plan if self.task.restrictions.allows(plan.group) else None

    def plan(self, sharing: Sharing) -> Plan:
        """The plan of some trip counts."""
        key = sharing.trips, sharing.loops
        if key not in self._plans:
            group = Group(self.names, sharing.trips, sharing.loops)
            self._plans[key] = Plan(group, self.task.tiled(group, self._uncut, sharing.tiles), sharing.live_bytes)
        return self._plans[key]

    @cached_property
    def _uncut(self) -> tuple[Condition, ...]:
        """The conditions of the layers as a group that shares no loops."""
        nothing: dict[str, int] = {}
        return self.task.conditions(Group(self.names), (nothing,) * len(self.names))

    def _sharing(self, tiling: Tiling, live: Float[np.ndarray, "candidates layers"], i: int, loops: str) -> Sharing:
        if (loops, i) not in self._sharings:
            tiles = tuple({dim: int(tile[i]) for dim, tile in tiling.tile[name].items()} for name in self.names)
            trips, live_bytes = (int(t) for t in tiling.trips[:, i]), tuple(float(b) for b in live[i])
            self._sharings[loops, i] = Sharing(Trips(*trips), loops, tiles, live_bytes)
        return self._sharings[loops, i]


def plan_for(task: Task, group: Group) -> Plan | None:
    """The plan of just this group; None where a rule forbids it, or its buffers do not fit."""
    if len(group.layers) == 1:
        return alone(task, group.layers[0])
    if task.fusing is None:
        return None
    run = Members(task, group.layers)
    shared = {loop for loop, trips in group.trips._asdict().items() if trips > 1}
    tiling = group_tiling(task.workload, group.layers, run.fused, np.array(group.trips)[:, None])
    if not run.may_be_group or shared & run.barred or not tiling.aligned[0]:
        return None
    live = run.live_bytes(tiling, group.nesting)[0]
    if live.max() > run.capacity:
        return None
    tiles = [{dim: int(tile[0]) for dim, tile in tiling.tile[name].items()} for name in group.layers]
    return Plan(group, task.conditions(group, tiles), tuple(live.tolist()))


def bonds(workload: Workload, strength: Float[np.ndarray, "*batch edges"]) -> Float[np.ndarray, "*batch cut_points"]:
    """For each place between neighbours in topological order, the strongest edge that crosses it."""
    bond = np.zeros((*strength.shape[:-1], len(workload.layers) - 1), dtype=strength.dtype)
    for i, edge in enumerate(workload.edges):
        crossed = slice(workload.depth[edge.source], workload.depth[edge.target])
        bond[..., crossed] = np.maximum(bond[..., crossed], strength[..., i, None])
    return bond


def split(
    bond: Float[np.ndarray, " cut_points"], least: float, planned: Callable[[int, int], Found | None]
) -> Iterator[Found]:
    """What is planned of the runs of two layers or more that bonds of at least `least` hold together.

    `planned` is told where a run starts and stops. One of which it can make nothing is split at its weakest place,
    again and again.
    """
    runs = list(pairwise([0, *(np.flatnonzero(bond < least) + 1).tolist(), bond.size + 1]))
    while runs:
        start, stop = runs.pop()
        if stop - start < 2:
            continue
        found = planned(start, stop)
        if found is not None:
            yield found
        else:
            weakest = start + 1 + int(bond[start : stop - 1].argmin())
            runs += [(start, weakest), (weakest, stop)]


def _some_trip_counts(size: int, loop: str, widest_gap: float) -> list[int]:
    """Trip counts of a loop to try: divisors, and others where these leave gaps; of G only one and all."""
    if loop == "G":
        return sorted({1, size})
    found = divisors(size)
    for low, high in pairwise(divisors(size)):
        steps = int(np.log(high / low) / np.log(widest_gap))
        wanted = {round(low * (high / low) ** (i / (steps + 1))) for i in range(1, steps + 1)}
        found += [-(-size // -(-size // trips)) for trips in wanted]
    return sorted(set(found))


def _spread(
    peak: Float[np.ndarray, " candidates"], trips: Int[np.ndarray, "5 candidates"], capacity: float, most: int
) -> list[int]:
    """Some candidates of a set: for each share of the memory that buffers may take, those with the fewest iterations.

    Fewer iterations mean fewer reloads; smaller buffers leave room to pin weights. Groups of G are independent, so
    their iterations reload nothing and do not count.
    """
    iterations = trips[1:].prod(axis=0)
    chosen: set[int] = set()
    for groups, share in product(sorted({int(g) for g in trips[0]}), BUFFER_SHARES):
        fitting = np.flatnonzero((peak <= share * capacity) & (trips[0] == groups))
        if fitting.size:
            ranked = fitting[np.lexsort((peak[fitting], iterations[fitting]))]
            chosen.update(int(i) for i in ranked[:most])
    return sorted(chosen)
