"""Mappings and groups of a schedule on another machine, or for layers of other sizes.

Nodes of a machine are matched by name, else by what they keep or take. Factors are settled to the new sizes, orders
stay, and fused groups keep their layers and trips as far as rules allow.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

import numpy as np

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

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingOf
    from collections.abc import Sequence

    from fadiff.hardware import Machine
    from fadiff.search.exact.menus import Menu
    from fadiff.workload import Layer, Workload

MOST_HALVINGS = 64
"""Steps in which tiles that do not fit are made smaller."""


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
