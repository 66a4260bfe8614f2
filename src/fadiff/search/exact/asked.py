"""Groups that constraints ask for: the smallest sets that hold what must be fused, and their plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from fadiff.schedule import Group
from fadiff.schedule.constraints import ImpossibleError
from fadiff.search.exact.assemble import fill, to_mappings
from fadiff.search.exact.climb import price
from fadiff.search.exact.menus import Climber, Menus, Row, grouped, size_of, stacked
from fadiff.search.exact.plans import Members, Plan, conditions_of
from fadiff.search.exact.sets import Graph
from fadiff.search.exact.starts import outermost

if TYPE_CHECKING:
    from jax import Array

    from fadiff.schedule import Mapping
    from fadiff.search.driver import Weights
    from fadiff.search.exact.conditions import Condition, Task
    from fadiff.workload import Workload

FEW_PLANS = 8
"""Plans of a group for whose layers mappings are sought by branch and bound."""


def asked_sets(task: Task) -> list[tuple[str, ...]]:
    """Sets of layers that must be groups, or parts of larger ones: closed, with one sink each, and apart.

    Layers that an edge must join are in one set; so are those on paths that leave a set and come back, and where it has
    several sinks, what these first come together in.
    """
    graph, restrictions = Graph(task.workload), task.restrictions
    given = {group.layers for group in restrictions.given.values() if len(group.layers) > 1}
    found: list[int] = []
    for layers in (*sorted(restrictions.required), *sorted(given)):
        number = _closed(graph, graph.number(layers))
        while met := [other for other in found if other & number]:
            found = [other for other in found if not other & number]
            for other in met:
                number |= other
            number = _closed(graph, number)
        found.append(number)
    return sorted(map(graph.layers, found), key=lambda names: task.workload.depth[names[0]])


def _closed(graph: Graph, number: int) -> int:
    """The smallest set with a given one in it that no path leaves and enters again, and that has one sink."""
    while True:
        before, after = 0, 0
        for member in graph.members(number):
            before |= graph.before[member]
            after |= graph.after[member]
        number |= before & after
        sinks = [member for member in graph.members(number) if not graph.consumers[member] & number]
        if len(sinks) == 1:
            return number
        meeting = -1
        for sink in sinks:
            meeting &= graph.after[sink] | 1 << sink
        if not meeting:
            names = " and ".join(graph.names[sink] for sink in sinks)
            raise ImpossibleError(f"{'+'.join(graph.layers(number))} cannot be a group: {names} do not come together")
        number |= meeting & -meeting


def asked_plans(task: Task) -> list[Plan]:
    """Plans of the sets that must be groups; refused where there are none."""
    found: list[Plan] = []
    for names in asked_sets(task):
        if task.fusing is None:
            raise ImpossibleError(f"{'+'.join(names)} cannot be a group: no memory of {task.machine.name} fuses")
        members = Members(task, names)
        plans = [members.plan(sharing) for sharing in members.chosen()]
        if not plans:
            raise ImpossibleError(f"{'+'.join(names)} cannot be a group that keeps what is asked of it")
        found += plans
    return found


def joined_groups(task: Task, climber: Climber) -> list[tuple[Group, dict[str, Mapping]]]:
    """The groups that must be, each under the best of its plans by the climber's mappings; refused where none fits."""
    plans: dict[tuple[str, ...], list[Plan]] = {}
    for plan in asked_plans(task):
        plans.setdefault(plan.group.layers, []).append(plan)
    found: list[tuple[Group, dict[str, Mapping]]] = []
    for names, mine in plans.items():
        weights = _near_weights(task, mine[0])
        menus = grouped(task, conditions_of(mine), weights, 0, {}, climber)
        filled = [one for plan in mine if (one := fill(task, plan, menus, weights, np.inf)) is not None]
        if not filled:
            menus |= _solved(task, mine[:FEW_PLANS], menus, climber, weights)
            filled = [one for plan in mine if (one := fill(task, plan, menus, weights, np.inf)) is not None]
        if not filled:
            raise ImpossibleError(f"{'+'.join(names)} fits {task.machine.name} as a group in no way that was tried")
        best = min(filled, key=lambda one: one.price)
        found.append((best.plan.group, to_mappings(task, best)))
    return found


def _solved(task: Task, plans: Sequence[Plan], menus: Menus, climber: Climber, weights: Weights) -> Menus:
    """Mappings under conditions of plans for which no climb found one, from what branch and bound meets."""
    from fadiff.search.exact.witness import witness

    rows: dict[Condition, Row] = {}
    for plan in plans:
        for condition in plan.conditions:
            if task.layer(condition).is_mac and not size_of(menus[condition]) and condition not in rows:
                start = witness(task, condition, plan.group.layers)
                if start is not None:
                    rows[condition] = Row(condition, start, task.all_room)
    return {condition: climber(task, [row], weights) for condition, row in rows.items()}


def _near_weights(task: Task, plan: Plan) -> Weights:
    """Prices of a pJ and a cycle near the worst mappings of a plan's layers."""
    rows = [Row(condition, outermost(task), task.all_room) for condition in plan.conditions]
    packed, (factors, order) = stacked(task, rows, (1.0, 1.0))
    priced = price(
        task.structure, task.space.orders, packed, cast("Array", factors), cast("Array", order), task.numbers
    )
    return 1 / float(np.sum(priced.energy_pj)), 1 / float(np.sum(priced.cycles))


def in_order(workload: Workload, joined: Sequence[Group]) -> tuple[Group, ...]:
    """Some groups, and all other layers on their own, in an order in which they can run; refused where two groups wait
    for each other."""
    owner = {name: group for group in joined for name in group.layers}
    found: dict[Group, None] = {}

    def run(name: str, waiting: tuple[Group, ...]) -> None:
        """Run the group of a layer, and all that it waits for before it."""
        group = owner.setdefault(name, Group((name,)))
        if group in found:
            return
        if group in waiting:
            raise ImpossibleError(f"groups {' and '.join(one.name for one in waiting[-2:])} wait for each other")
        for edge in (edge for member in group.layers for edge in workload.producers[member]):
            if owner.get(edge.source) is not group:
                run(edge.source, (*waiting, group))
        found[group] = None

    for name in workload.topological:
        run(name, ())
    return tuple(found)
