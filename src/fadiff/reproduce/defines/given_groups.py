"""Mappings for schedules whose groups and trip counts are given: the best that the exact search finds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from fadiff.cost.evaluate import evaluate
from fadiff.schedule.rules import violations
from fadiff.search.exact.assemble import Filled, fill, polish, to_schedule
from fadiff.search.exact.conditions import Condition, Task
from fadiff.search.exact.menus import Menu, alone, grouped, size_of, start_from
from fadiff.search.exact.plans import Plan, plan_for
from fadiff.search.greedy import greedy
from fadiff.search.objective import Objective

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.schedule import Group, Schedule
    from fadiff.workload import Workload

STARTS = 16
"""Mappings that a layer on its own climbs from."""
POLISHES = 4


def best_schedules(
    workload: Workload, machine: Machine, wanted: Sequence[tuple[Group, ...]], objective: Objective | str
) -> list[Schedule | None]:
    """For each list of groups, the schedule of least price; None where no mapping fits.

    The price is the objective, linearized at the greedy schedule: the same for all, so that schedules of one network
    are mapped alike. Same input, same result.
    """
    task = Task(workload, machine)
    weights = Objective.of(objective).weights(evaluate(greedy(workload, machine)))
    plans = {group: plan for groups in wanted for group in groups if (plan := plan_for(task, group)) is not None}
    menus = _menus(task, list(plans.values()), weights)
    filled = {group: fill(task, plan, menus, weights, worth=inf) for group, plan in plans.items()}
    mapped = {group: found for group, found in filled.items() if found is not None}
    mapped = dict(zip(mapped, _polished(task, list(mapped.values()), weights), strict=True))
    return [_schedule(task, [mapped.get(group) for group in groups]) for groups in wanted]


def _menus(task: Task, plans: Sequence[Plan], weights: tuple[float, float]) -> dict[Condition, Menu]:
    """Mappings of every layer under its condition: on its own, and from there in groups."""
    conditions = dict.fromkeys(condition for plan in plans for condition in plan.conditions)
    layers = dict.fromkeys(task.layer(condition).name for condition in conditions)
    if not layers:
        return {}
    menus = alone(task, [task.alone(name) for name in layers], weights, seed=0, starts=STARTS)
    starts = {condition.layer: [start_from(menu, 0)] for condition, menu in menus.items() if size_of(menu)}
    shared = [condition for condition in conditions if condition not in menus]
    return menus | (grouped(task, shared, weights, 0, starts) if shared else {})


def _polished(task: Task, groups: list[Filled], weights: tuple[float, float]) -> list[Filled]:
    """Moves in pairs until nothing changes."""
    for _ in range(POLISHES):
        before = [filled.price for filled in groups]
        groups = polish(task, groups, weights)
        if [filled.price for filled in groups] == before:
            break
    return groups


def _schedule(task: Task, groups: Sequence[Filled | None]) -> Schedule | None:
    """The schedule of all groups; None if one has no mapping, or if the search's 32-bit numbers hid that it is full."""
    mapped = [filled for filled in groups if filled is not None]
    if len(mapped) < len(groups):
        return None
    schedule = to_schedule(task, mapped)
    return None if violations(schedule) else schedule
