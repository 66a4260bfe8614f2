"""What of a schedule carries over to another batch, size, network or machine: where a search may start.

Layers are matched by name, else by shape, else by role; nodes of a machine by name, else by what they keep or take.
Factors are settled to the new sizes, orders stay, and fused groups keep their layers and trips as far as rules allow.

For a multiple of the batch there is one more schedule, the old one over and over: a shared loop of m trips outside of
everything. In each of them every layer moves and computes at most what it did before, so energy and latency are at most
m times as much. A group that shares the batch already has more trips of it, where they are or outside; where they do
not divide it, its cut tiles end elsewhere, and the numbers of trips near to that are tried. Layers of a group of which
some have the batch in N and others in G loop longer on their own. Each way is priced: the first that keeps to m times
is taken.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, log, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.cost import evaluate
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.schedule.constraints import Constraints
from fadiff.schedule.ir import DEFAULT_ORDER
from fadiff.schedule.rules import violations
from fadiff.search.exact.assemble import fits, to_mapping
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.menus import Row, start_of, started, subset
from fadiff.search.exact.plans import Members, Plan, alone, plan_for
from fadiff.search.exact.starts import Start, full_array, outermost
from fadiff.workload import DIMS, Dims
from fadiff.workload.layer import RELEVANT
from fadiff.workload.names import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Mapping as MappingOf

    from fadiff.hardware import Machine
    from fadiff.search.exact.menus import Menu
    from fadiff.workload import Layer, Workload

MOST_HALVINGS = 64
"""Steps in which tiles that do not fit are made smaller."""


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


class Carried(NamedTuple):
    """Legal schedules to start from, the most faithful first, and what of the start they are."""

    schedules: tuple[Schedule, ...]
    layers: int
    """Layers that start from one of the start's."""
    notes: tuple[str, ...]
    """What is as it was, and what is not."""

    def told(self, source: str) -> str:
        """One sentence; `source` is what it calls the start."""
        total = len(self.schedules[0].workload.layers)
        notes = f": {'; '.join(self.notes)}" if self.notes else ""
        return f"{self.layers} of {total} layers start from {source}{notes}."


def carry(start: Schedule, fallback: Schedule, constraints: Constraints = Constraints()) -> Carried:
    """What of a schedule carries over to another network or machine, and to what is asked now; a `fallback` for them
    has the rest."""
    workload, matches = fallback.workload, matched(start, fallback.workload)
    again = repeated(start, workload, fallback.machine)
    broken = [] if again is None else constraints.broken(again)
    if again is not None and not broken:
        times = max(prod(layer.dims) // prod(start.workload[layer.name].dims) for layer in workload.layers)
        notes = (f"all of it, {times} times in a row",) if times > 1 else ("all of it",)
        others = (adapted(start, fallback, matches, constraints),) if times > 1 else ()
        return Carried((again, *others), len(matches), notes)
    found = adapted(start, fallback, matches, constraints)
    new = [name for name in workload.topological if name not in matches]
    other = [name for name, old in matches.items() if workload[name].dims != old.dims]
    groups = [sum(len(group.layers) > 1 for group in one.groups) for one in (found, start)]
    renamed = [f"{name} from {old.name}" for name, old in matches.items() if name != old.name]
    notes = [f"it does not keep what is asked now ({broken[0]})"] if broken else []
    notes += [f"{listed(new)} {'is' if len(new) == 1 else 'are'} new"] if new else []
    notes += [listed(renamed)] if renamed else []
    notes += [f"{listed(other)} {'has' if len(other) == 1 else 'have'} another shape"] if other else []
    notes += [f"{groups[0]} of {groups[1]} fused groups are kept"] if groups[1] else []
    return Carried((found,), len(matches), tuple(notes))


def matched(start: Schedule, workload: Workload) -> dict[str, Layer]:
    """The layer of a schedule that each layer of a network resembles, as far as there is one.

    One of the same name and kind; else one of the same shape; else, of those with the same kernel and stride and the
    same kinds of operands, the one with the nearest sizes.
    """
    found: dict[str, Layer] = {}
    by_name = {layer.name: layer for layer in start.layers}
    for layer in workload.layers:
        old = by_name.get(layer.name)
        if old is None or old.kind != layer.kind:
            alike = [one for one in start.layers if _role(one) == _role(layer)]
            old = min(alike, key=lambda one: _apart(one.dims, layer.dims), default=None)
        if old is not None:
            found[layer.name] = old
    return found


def _role(layer: Layer) -> tuple[object, ...]:
    ports = tuple(sorted({operand.port for operand in layer.inputs}))
    return layer.kind, layer.dims.R, layer.dims.S, layer.dims.G > 1, layer.stride, layer.dilation, ports


def _apart(one: Dims, other: Dims) -> float:
    return sum(abs(log(a / b)) for a, b in zip(one, other, strict=True))


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


def adapted(
    start: Schedule, fallback: Schedule, matches: MappingOf[str, Layer], constraints: Constraints = Constraints()
) -> Schedule:
    """A legal schedule with the mappings and groups of another as far as they fit, and as constraints allow; what does
    not is the fallback's."""
    workload, machine = fallback.workload, fallback.machine
    task = Task(workload, machine, dtype=np.float64, constraints=constraints)
    starts = {
        name: _start(task, name, start.mappings[old.name], start.machine) for name, old in matches.items() if old.is_mac
    }
    plans = _groups(task, start, matches)
    inside = {name for plan in plans for name in plan.group.layers}
    plans += [alone(task, name) for name in workload.topological if name not in inside]
    while True:
        groups: list[Group] = []
        mappings, filled = dict(fallback.mappings), _filled(task, plans, starts)
        for plan, chosen in zip(plans, filled, strict=True):
            if chosen is None:
                groups += [Group((name,)) for name in plan.group.layers]
                continue
            groups.append(plan.group)
            for i, (name, condition) in enumerate(zip(plan.group.layers, plan.conditions, strict=True)):
                if name in starts:
                    mappings[name] = to_mapping(task, condition, chosen, i)
        found = Schedule(workload, machine, _ordered(workload, groups), mappings)
        if not (broken := {name for one in violations(found) for name in one.layers}):
            return found
        # A group that breaks a rule is given up first, then the mappings of its layers.
        given_up = [plan for plan in plans if broken & {*plan.group.layers}]
        for plan in given_up:
            if len(plan.group.layers) == 1:
                starts.pop(plan.group.layers[0], None)
        plans = [plan for plan in plans if plan not in given_up]
        plans += [alone(task, name) for plan in given_up for name in plan.group.layers]


def _start(task: Task, name: str, mapping: Mapping, old: Machine) -> Start:
    """A mapping as a start on another machine, near to what is asked.

    It has the factors and orders of nodes that both machines have; where lanes are others, the array is as full as it
    gets.
    """
    new, nodes = task.machine, _nodes(old, task.machine)
    known = [old.structure.memories.index(nodes[i]) if nodes[i] is not None else None for i in new.structure.memories]
    orders = tuple(DEFAULT_ORDER if at is None else mapping.orders[at] for at in known)
    factors = tuple(Dims() if node is None else mapping.factors[node] for node in nodes)
    start = start_of(task, task.restrictions.near(task.number[name], Mapping(factors, orders)))
    if old.axes != new.axes:
        axes = list(new.structure.axes)
        start.factors[axes] = full_array(task, task.alone(name)).factors[axes]
    return start


def _nodes(old: Machine, new: Machine) -> list[int | None]:
    """The node of a machine that each node of another one resembles: the first memory the first, others by name, else
    the next memory that keeps the same tensors."""
    found: list[int | None] = [0, *([None] * (len(new.nodes) - 1))]
    free = list(range(1, len(old.nodes)))
    for same_name in (True, False):
        for i, node in enumerate(new.nodes):
            kept = new.structure.keeps[i]
            alike = (
                j
                for j in free
                if type(old.nodes[j]) is type(node)
                and (old.nodes[j].name == node.name if same_name else kept and old.structure.keeps[j] == kept)
            )
            if found[i] is None and (other := next(alike, None)) is not None:
                found[i] = other
                free.remove(other)
    return found


def _groups(task: Task, start: Schedule, matches: MappingOf[str, Layer]) -> list[Plan]:
    """Plans for the fused groups of a schedule: with the same trips, or the nearest that are legal."""
    if task.fusing is None:
        return []
    new_name: dict[str, str] = {}
    for name, old in matches.items():
        if old.name not in new_name or name == old.name:
            new_name[old.name] = name
    found: list[Plan] = []
    for group in start.groups:
        names = sorted((new_name[one] for one in group.layers if one in new_name), key=task.workload.depth.__getitem__)
        if len(names) < 2:
            continue
        members, sink = Members(task, tuple(names)), matches[names[-1]]
        sizes = zip(task.workload[names[-1]].dims, sink.dims, strict=True)
        ratio = {dim: new / old for dim, (new, old) in zip(DIMS, sizes, strict=True)}
        trips = {loop: max(1, round(count * ratio.get(loop, 1.0))) for loop, count in group.trips._asdict().items()}
        plans = (plan_for(task, Group(tuple(names), one, group.loops)) for one in (group.trips, Trips(**trips)))
        plan = next((plan for plan in plans if plan is not None), None)
        if plan is None and members.may_be_group:
            plan = members.nearest_plan([log(trips[loop]) for loop in "GNPQ"])
        found += [] if plan is None else [plan]
    return found


def _filled(task: Task, plans: Sequence[Plan], starts: MappingOf[str, Start]) -> list[Menu | None]:
    """The mappings of each plan's layers, from their starts, with tiles made smaller until all of them fit together.

    None where they never do, and where a layer has no start. The tiles of all plans are priced at once.
    """
    found: list[Menu | None] = [None] * len(plans)
    open_ = {
        i: [starts.get(name, outermost(task)) for name in plan.group.layers]
        for i, plan in enumerate(plans)
        if all(name in starts or not task.workload[name].is_mac for name in plan.group.layers)
    }
    for _ in range(MOST_HALVINGS):
        if not open_:
            break
        rows = [
            Row(condition, one, task.all_room)
            for i, now in open_.items()
            for condition, one in zip(plans[i].conditions, now, strict=True)
        ]
        menu = started(task, rows, (1.0, 1.0))
        owner, alone = np.repeat(list(open_), [len(now) for now in open_.values()]), np.isfinite(menu.price)
        for i, now in list(open_.items()):
            mine, fit = subset(menu, np.flatnonzero(owner == i)), alone[owner == i]
            if fit.all() and fits(task, plans[i], mine):
                found[i] = mine
            # Where all fit, but not together, all of them give way.
            give_way = np.ones_like(fit) if fit.all() else ~fit
            smaller = [_halved(task, one) if too_large else one for one, too_large in zip(now, give_way, strict=True)]
            if found[i] is not None or all(a is b for a, b in zip(smaller, now, strict=True)):
                del open_[i]
            else:
                open_[i] = smaller
    return found


def _halved(task: Task, start: Start) -> Start:
    """A start with half of its largest factor at a memory below the first; the same where all are 1."""
    memories = list(task.machine.structure.memories[1:])
    factors = start.factors.copy()
    held = factors[memories]
    node, dim = np.unravel_index(int(held.argmax()), held.shape)
    if held[node, dim] <= 1:
        return start
    factors[memories[int(node)], dim] = np.ceil(held[node, dim] / 2)
    return start._replace(factors=factors)


def _ordered(workload: Workload, groups: Sequence[Group]) -> tuple[Group, ...]:
    """Groups in an order in which each finds what it reads; where two wait for each other, as they are."""
    left, done = sorted(groups, key=lambda group: workload.depth[group.layers[-1]]), set[str]()
    found: list[Group] = []
    while left:
        ready = (
            group
            for group in left
            if all(
                edge.source in done or edge.source in group.layers
                for n in group.layers
                for edge in workload.producers[n]
            )
        )
        chosen = next(ready, left[0])
        left.remove(chosen)
        done |= {*chosen.layers}
        found.append(chosen)
    return tuple(found)
