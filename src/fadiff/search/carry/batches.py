"""A schedule over and over, for a multiple of the batch: a shared loop of m trips outside of everything.

In each of them every layer moves and computes at most what it did before, so energy and latency are at most m times as
much. A group that shares the batch already has more trips of it, where they are or outside; where they do not divide
it, its cut tiles end elsewhere, and the numbers of trips near to that are tried. Layers of a group of which some have
the batch in N and others in G loop longer on their own. Each way is priced: the first that keeps to m times is taken.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, log, prod
from typing import TYPE_CHECKING, NamedTuple

from fadiff.cost import evaluate
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.schedule.rules import violations
from fadiff.workload import DIMS, Dims
from fadiff.workload.layer import RELEVANT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Mapping as MappingOf

    from fadiff.hardware import Machine
    from fadiff.workload import Layer, Workload

MOST_TRIPS = 12
"""Other numbers of trips over a batch that are tried of a group."""
ROUNDING = 1e-12
"""What sums may differ by, relatively."""
TINY = 1e-300
"""Instead of nothing, where a group of sums takes no energy or no time."""


class _Way(NamedTuple):
    """A group of a larger batch, and the mappings of its layers."""

    group: Group
    mappings: dict[str, Mapping]


def repeated(start: Schedule, workload: Workload, machine: Machine) -> Schedule | None:
    """The schedule as often in a row as the network's batch is its own (also once), or None.

    All layers must be there, and differ from their own in the same multiple of N, or of G, alone, or not at all; and
    the machine must have the same nodes. Of each group the first way to share the new batch is taken that is legal and
    costs at most the multiple; else the one that comes nearest to it.
    """
    nodes = [[(type(node), node.name) for node in one.nodes] for one in (start.machine, machine)]
    names = [{layer.name for layer in one.layers} for one in (start, workload)]
    if start.is_excerpt or nodes[0] != nodes[1] or names[0] != names[1]:
        return None
    grown: dict[str, str] = {}
    times = {1}
    for layer in workload.layers:
        old = start.workload[layer.name]
        changed = [dim for dim, a, b in zip(DIMS, old.dims, layer.dims, strict=True) if a != b]
        ratio, rest = divmod(prod(layer.dims), prod(old.dims))
        if replace(old, dims=layer.dims) != layer or changed not in ([], ["N"], ["G"]) or rest:
            return None
        times.add(ratio)
        grown[layer.name] = changed[0] if changed else ""
    if len(times) > 2:
        return None
    ways = [list(_ways(start, group, workload, grown, max(times))) for group in start.groups]
    return _chosen(replace(start, machine=machine), workload, ways, max(times))


def _chosen(start: Schedule, workload: Workload, ways: Sequence[Sequence[_Way]], times: int) -> Schedule | None:
    """A legal schedule, each group in the first way that costs at most so many times what it did, else in the way that
    comes nearest; None where one has no way that is legal."""
    before, at, open_ = evaluate(start), [0] * len(ways), set(range(len(ways)))
    best = [(inf, 0)] * len(ways)
    while open_:
        groups = tuple(mine[i].group for mine, i in zip(ways, at, strict=True))
        mappings = {name: one for mine, i in zip(ways, at, strict=True) for name, one in mine[i].mappings.items()}
        schedule = Schedule(workload, start.machine, groups, mappings)
        broken, after = {name for one in violations(schedule) for name in one.layers}, evaluate(schedule)
        for g in sorted(open_):
            mine = [workload.number[name] for name in groups[g].layers]
            was = [start.workload.number[name] for name in groups[g].layers]
            ratios = [
                float((new.repeat * part)[mine].sum() / max((old.repeat * whole)[was].sum(), TINY)) / times
                for new, part, old, whole in (
                    (after, after.layer_energy_pj, before, before.layer_energy_pj),
                    (after, after.layer_cycles, before, before.layer_cycles),
                )
            ]
            best[g] = min(best[g], (inf if broken.intersection(groups[g].layers) else max(ratios), at[g]))
            at[g] += 1
            if best[g][0] <= 1 + ROUNDING or at[g] == len(ways[g]):
                open_.remove(g)
                at[g] = best[g][1]
    found = [mine[i] for mine, i in zip(ways, at, strict=True)]
    mappings = {name: one for way in found for name, one in way.mappings.items()}
    schedule = Schedule(workload, start.machine, tuple(way.group for way in found), mappings)
    return None if violations(schedule) else schedule


def _ways(start: Schedule, group: Group, workload: Workload, grown: MappingOf[str, str], times: int) -> Iterator[_Way]:
    """Ways of a group to do so many times the batch: it shares more trips of it, over tiles as they were first, outside
    of all other loops or where it did; or, with tiles as they were, its layers loop longer on their own."""
    old = {name: start.mappings[name] for name in group.layers if name in start.mappings}
    loops = {grown[name] for name in group.layers}
    loop = next(iter(loops))
    if len(loops) == 1 and loop and old:
        size = workload[next(iter(old))].dims._asdict()[loop]
        before = group.trips._asdict()[loop]
        tile = -(-size // times // before)
        first = -(-size // tile)
        counts = sorted(
            {-(-size // t) for t in range(1, size // times + 1)} - {first}, key=lambda n: abs(log(n / first))
        )
        for count in (first, *counts[:MOST_TRIPS]):
            for now in dict.fromkeys((_times(group, loop, count), _outermost(group, loop, count))):
                again = {name: _regrown(one, workload[name], loop, before, count) for name, one in old.items()}
                yield _Way(now, again)
                if max(group.trips) == 1 and len(group.layers) > 1 and count == first:
                    streamed = {name: _streamed(one, start.machine) for name, one in again.items()}
                    yield from (_Way(now, again | {name: streamed[name]}) for name in again)
                    yield _Way(now, streamed)
    yield _Way(group, {n: _regrown(one, workload[n], grown[n], 1, 1) if grown[n] else one for n, one in old.items()})


def _times(group: Group, loop: str, count: int) -> Group:
    """A group with other trips of a loop; outside of all others but G, if it is not shared yet.

    Iterations of G are independent: what is inside runs as often as before.
    """
    trips = group.trips._asdict()
    outside = [other for other in group.nesting[: group.nesting.index(loop)] if trips[other] > 1 and other != "G"]
    if outside and trips[loop] == 1:
        return _outermost(group, loop, count)
    return Group(group.layers, Trips(**{**trips, loop: count}), group.loops)


def _outermost(group: Group, loop: str, count: int) -> Group:
    """The same with that loop outside of all others."""
    trips = Trips(**{**group.trips._asdict(), loop: count})
    return Group(group.layers, trips, loop + group.nesting.replace(loop, ""))


def _regrown(mapping: Mapping, layer: Layer, loop: str, before: int, after: int) -> Mapping:
    """A mapping of a layer whose dim has grown, under other shared trips of it: its own factors are settled for the
    tile that is left."""
    dim, factors = DIMS.index(loop), [list(mine) for mine in mapping.factors]
    tile = -(-layer.dims[dim] // after)
    factors[0][dim] //= before
    below = 1
    for mine in reversed(factors[1:]):
        mine[dim] = min(mine[dim], -(-tile // below))
        below *= mine[dim]
    # A loop that was not there goes outside of all others.
    orders = list(mapping.orders)
    if factors[0][dim] == 1:
        orders[0] = loop + orders[0].replace(loop, "")
    factors[0][dim] = -(-tile // below) * after
    return replace(mapping, factors=tuple(Dims(*mine) for mine in factors), orders=tuple(orders))


def _streamed(mapping: Mapping, machine: Machine) -> Mapping:
    """A mapping that does not keep its weights over shared iterations, if it would: its outermost loop over one of
    their dims goes to the first memory, inside of all others.

    What a layer that shares nothing fetches once, and then leaves to others, it so fetches in each iteration.
    """
    first, orders = mapping.factors[0]._asdict(), list(mapping.orders)
    inside = [
        (dim, node)
        for dim in "KCRS"
        for node in machine.structure.memories[1:]
        if mapping.factors[node]._asdict()[dim] > 1
    ]
    if not inside or any(first[dim] > 1 for dim in RELEVANT["W"]):
        return mapping
    (dim, node), factors = inside[0], list(mapping.factors)
    factors[0] = factors[0]._replace(**{dim: factors[node]._asdict()[dim]})
    factors[node] = factors[node]._replace(**{dim: 1})
    orders[0] = orders[0].replace(dim, "") + dim
    return Mapping(tuple(factors), tuple(orders))
