"""Which layers could be fused, and with which shared trip counts: plans for groups, before any mapping.

A *plan* is a run of layers that are neighbours in topological order, with shared trip counts under which their
buffers fit in L2. Everything a plan promises holds whatever mappings its layers get later, except that their tiles
must fit beside the buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from fadiff.schedule import Group, Trips, halos
from fadiff.search.space import divisors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fadiff.hardware import Hardware
    from fadiff.workload import Edge, Layer, Workload

LONGEST_GROUP = 32
MOST_RUNS = 8192
"""Layers in a group at most, and runs of layers looked at: in networks of hundreds of layers groups stay shorter."""
BUFFER_SHARES = (1.0, 0.75, 0.5, 0.25, 0.125)
"""Plans are kept for buffers that leave different shares of L2 to tiles and pinned weights."""
PLANS_PER_SHARE = 3
SHORT_RUN = 4
PLANS_PER_SHARE_OF_SHORT_RUN = 12
"""Plans tried of a run for each share; of runs of a few layers there are fewer, and small machines fit no others."""


@dataclass(frozen=True)
class Plan:
    """A group without mappings, and the bytes of L2 its live buffers take while each of its layers runs."""

    group: Group
    live_bytes: tuple[int, ...]


def plans(workload: Workload, hardware: Hardware) -> Iterator[Plan]:
    """Every plan of two layers or more, shortest first for each first layer.

    Runs of the same shapes, joined in the same way, have the same plans: they are made once.
    """
    names = workload.topological
    longest = max(4, min(LONGEST_GROUP, MOST_RUNS // len(names)))
    made: dict[tuple[object, ...], tuple[bool, list[Plan]]] = {}
    for start in range(len(names)):
        for stop in range(start + 2, min(len(names), start + longest) + 1):
            members = names[start:stop]
            key = _pattern(workload, members)
            if key not in made:
                run = Run(workload, members)
                made[key] = (run.may_grow(hardware), list(run.plans(hardware)))
            may_grow, found = made[key]
            # A pair whose buffer does not fit whole may still fit in parts, under the channel loop.
            yield from (replace(plan, group=replace(plan.group, layers=members)) for plan in found)
            if not may_grow:
                break


def _pattern(workload: Workload, names: tuple[str, ...]) -> tuple[object, ...]:
    """All that the plans of a run depend on: shapes, epilogues, and the edges between its layers."""
    place = {name: i for i, name in enumerate(names)}
    layers = [workload[name] for name in names]
    shapes = tuple((x.kind, x.dims, x.stride, x.dilation, x.stored, x.epilogue, x.repeat) for x in layers)
    edges = tuple(
        (place.get(e.source), i, e.port, e.fusible) for i, name in enumerate(names) for e in workload.producers[name]
    )
    return shapes, edges


class Run:
    """Layers that are neighbours in topological order, and the trip counts they could share as a group."""

    def __init__(self, workload: Workload, names: tuple[str, ...]) -> None:
        self.workload = workload
        self.names = names
        self.segment = [workload[name] for name in names]
        self.fused = _inner_edges(workload, self.segment)
        self.trips = _shared_trips(workload, self.segment, self.fused)
        """``[5, candidates]`` G, N, P, Q, X"""
        self.live = _live_bytes(workload, self.segment, self.fused, self.trips)
        """``[candidates, layers]`` bytes of live buffers while each layer runs"""

    @property
    def smallest_bytes(self) -> int:
        """L2 that the buffers take at least, whatever the trip counts."""
        return int(self.live.max(axis=1).min())

    @property
    def barred(self) -> list[Edge]:
        """Edges between its layers that cannot be fused."""
        return [edge for edge in self.fused if not edge.fusible]

    @property
    def may_be_group(self) -> bool:
        """Whether the rules *fusible*, *one sink* and *repeat* allow the group."""
        feeding = {edge.source for edge in self.fused}
        fed = all(layer.name in feeding for layer in self.segment[:-1])
        return fed and not self.barred and len({layer.repeat for layer in self.segment}) == 1

    def may_grow(self, hardware: Hardware) -> bool:
        """Whether a longer run could be a group.

        It holds the same edges and buffers and more, and allows no other trip counts: what bars this one, or does not
        fit in it, stays.
        """
        return not self.barred and self.smallest_bytes <= hardware.usable_l2_bytes

    @property
    def must_be_whole(self) -> bool:
        """Whether a weight port, a transpose, a flatten or a global pool forbids to tile rows and columns."""
        return _whole(self.workload, self.fused) or not {"flatten", "global_pool"}.isdisjoint(
            operator for layer in self.segment for operator in layer.epilogue
        )

    def plans(self, hardware: Hardware) -> Iterator[Plan]:
        """Plans worth trying; none if the run may not be a group."""
        if self.may_be_group:
            peak = self.live.max(axis=1)
            most = PLANS_PER_SHARE if len(self.names) > SHORT_RUN else PLANS_PER_SHARE_OF_SHORT_RUN
            for i in _spread(peak, self.trips, hardware.usable_l2_bytes, most):
                yield self._plan(i)
            yield from _channel_plans(self.workload, self.segment, hardware)

    def nearest_plan(self, hardware: Hardware, wanted: Sequence[float]) -> Plan | None:
        """The plan whose trips are nearest to `wanted` (logs of G, N, P, Q); None if none fits."""
        if not self.may_be_group:
            return None
        distance = np.square(np.log(self.trips[:4]) - np.asarray(wanted)[:, None]).sum(axis=0)
        distance[self.live.max(axis=1) > hardware.usable_l2_bytes] = np.inf
        i = int(distance.argmin())
        return self._plan(i) if np.isfinite(distance[i]) else None

    def _plan(self, i: int) -> Plan:
        trips = Trips(*(int(t) for t in self.trips[:, i]))
        return Plan(Group(self.names, trips), tuple(int(b) for b in self.live[i]))


def _inner_edges(workload: Workload, segment: list[Layer]) -> list[Edge]:
    inside = {layer.name for layer in segment}
    return [edge for layer in segment for edge in workload.producers[layer.name] if edge.source in inside]


def _shared_trips(workload: Workload, segment: list[Layer], fused: list[Edge]) -> NDArray[np.int64]:
    """``[5, plans]`` trip counts of G, N, P, Q, X that the rules *aligned* and *whole* allow (X stays 1)."""
    epilogues = {operator for layer in segment for operator in layer.epilogue}
    feeding = {edge.source for edge in fused}
    n = p = q = g = [1]
    if not _whole(workload, fused):
        if all(workload[e.source].dims.N == workload[e.target].dims.N for e in fused):
            n = divisors(reduce(gcd, (layer.dims.N for layer in segment)))
        if epilogues.isdisjoint({"flatten", "global_pool"}):
            stored = [layer.stored for layer in segment if layer.name in feeding]
            p = divisors(reduce(gcd, [layer.dims.P for layer in segment] + [rows for rows, _ in stored]))
            q = divisors(reduce(gcd, [layer.dims.Q for layer in segment] + [cols for _, cols in stored]))
    same_g = {layer.dims.G for layer in segment if layer.is_mac} | {1 for layer in segment if not layer.is_mac}
    concatenated = any(sum(o.port == "input" for o in workload[edge.target].inputs) > 1 for edge in fused)
    if len(same_g) == 1 and not concatenated and epilogues.isdisjoint({"flatten", "layer_norm"}):
        g = sorted({1, same_g.pop()})
    return np.array(list(product(g, n, p, q, [1]))).T


def _whole(workload: Workload, fused: list[Edge]) -> bool:
    """Whether an edge hands over a tensor that must be complete before it is used."""
    return any(e.port == "weight" or (e.port == "input" and "transpose" in workload[e.source].epilogue) for e in fused)


def _live_bytes(
    workload: Workload, segment: list[Layer], fused: list[Edge], trips: NDArray[np.int64]
) -> NDArray[np.int64]:
    """``[plans, layers]`` bytes of the buffers that are live while each layer runs."""
    place = {layer.name: i for i, layer in enumerate(segment)}
    last_use: dict[str, int] = {}
    for edge in fused:
        last_use[edge.source] = max(last_use.get(edge.source, 0), place[edge.target])
    halo = halos(workload, fused)
    live = np.zeros((trips.shape[1], len(segment)), dtype=np.int64)
    trips_g, trips_n, trips_p, trips_q, trips_x = trips
    for name, last in last_use.items():
        layer = workload[name]
        (rows, cols), (halo_rows, halo_cols) = layer.stored, halo[name]
        p, q = rows // trips_p, cols // trips_q
        h = np.where(trips_p > 1, np.minimum(rows, np.maximum(p, p + halo_rows)), rows)
        w = np.where(trips_q > 1, np.minimum(cols, np.maximum(q, q + halo_cols)), cols)
        line = np.where((trips_p > 1) & (trips_q > 1), min(rows, max(0, halo_rows)) * (cols - w), 0)
        size = layer.dims.N // trips_n * (layer.channels // (trips_g * trips_x)) * (h * w + line)
        always = ((h > p) & (trips_p > 1)) | ((w > q) & (trips_q > 1))
        steps = np.arange(len(segment))
        during = (place[name] <= steps) & (steps <= last)
        live += np.where(always[:, None] | during[None, :], size[:, None], 0)
    return live


def _spread(peak: NDArray[np.int64], trips: NDArray[np.int64], capacity: int, most: int) -> list[int]:
    """Some plans of a run: for each share of L2 that its buffers may take, those with the fewest iterations.

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


def _channel_plans(workload: Workload, segment: list[Layer], hardware: Hardware) -> Iterator[Plan]:
    """Plans of a pair that shares the channel loop X, in the nestings that differ: X innermost and X outermost."""
    if len(segment) != 2 or not all(layer.is_mac for layer in segment):
        return
    u, v = segment
    fused = _inner_edges(workload, segment)
    epilogues = {*u.epilogue, *v.epilogue}
    if (
        [edge.port for edge in fused] != ["input"]
        or (u.dims.G, u.dims.K, 1, 1) != (v.dims.G, v.dims.C, v.dims.R, v.dims.S)
        or not epilogues.isdisjoint({"flatten", "layer_norm"})
        or ("softmax" in epilogues and not hardware.online_softmax)
    ):
        return
    base = _shared_trips(workload, segment, fused)
    parts = np.array(divisors(u.dims.K)[1:])
    trips = np.repeat(base, parts.size, axis=1)
    trips[4] = np.tile(parts, base.shape[1])
    live = _live_bytes(workload, segment, fused, trips)
    layers = tuple(layer.name for layer in segment)
    for i in _spread(live.max(axis=1), trips, hardware.usable_l2_bytes, PLANS_PER_SHARE_OF_SHORT_RUN):
        for loops in ("GNPQX", "GXNPQ"):
            yield Plan(Group(layers, Trips(*(int(t) for t in trips[:, i])), loops), tuple(int(b) for b in live[i]))
