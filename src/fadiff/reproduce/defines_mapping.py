"""Mappings for schedules whose groups and trip counts are given: the best that the exact search finds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log
from typing import TYPE_CHECKING

import numpy as np

from fadiff.cost import evaluate
from fadiff.schedule.legality import violations
from fadiff.search.assemble import Filled, fill, seat, to_schedule
from fadiff.search.conditions import Condition, Problem
from fadiff.search.driver import Objective, price_weights
from fadiff.search.greedy import greedy
from fadiff.search.groups import Plan, Run
from fadiff.search.options import ROW_CHUNKS, Options, Row, from_dram, join, pinned, scattered, solve, subset
from fadiff.search.polish import polish

if TYPE_CHECKING:
    from fadiff.hardware import Hardware
    from fadiff.schedule import Group, Schedule
    from fadiff.workload import Workload

ROOMS = tuple(2.0**-i for i in range(6))
"""Shares of L2 that a layer of a group may take for its tiles: each gives the layer other mappings to choose from."""
POLISHES = 4


def best_schedules(
    workload: Workload, hardware: Hardware, wanted: Sequence[tuple[Group, ...]], objective: Objective
) -> list[Schedule | None]:
    """For each list of groups, the schedule of least price; None where no mapping fits.

    The price is the objective, linearized at the greedy schedule: the same for all, so that schedules of one network
    are mapped alike. Same input, same result.
    """
    problem = Problem(workload, hardware)
    weights = price_weights(evaluate(greedy(workload, hardware)), objective)
    plans = {group: _plan(workload, hardware, group) for groups in wanted for group in groups}
    seats = {group: seat(problem, plan) for group, plan in plans.items() if plan is not None}
    conditions = list(dict.fromkeys(condition for one in seats.values() for condition in one.conditions))
    options = _options(problem, conditions, weights)
    filled: dict[Group, Filled] = {}
    for group, one in seats.items():
        found = fill(problem, one, options, weights, worth=inf)
        if found is not None:
            filled[group] = found
    filled = dict(zip(filled, _polished(problem, list(filled.values()), weights), strict=True))
    return [_schedule(problem, [filled.get(group) for group in groups]) for groups in wanted]


def _plan(workload: Workload, hardware: Hardware, group: Group) -> Plan | None:
    """The group with the bytes of its buffers; None where they do not fit."""
    trips = group.trips
    plan = Run(workload, group.layers).nearest_plan(hardware, [log(t) for t in (trips.G, trips.N, trips.P, trips.Q)])
    return plan if plan is not None and plan.group == group else None


def _options(
    problem: Problem, conditions: Sequence[Condition], weights: tuple[float, float]
) -> dict[Condition, Options]:
    """Mappings of every layer under its condition, climbed to from three starts in every room."""
    random = np.random.default_rng(0)
    l2, l1 = problem.hardware.usable_l2_bytes, problem.hardware.usable_l1_bytes
    rows = [
        Row(condition, start, share * l2, share * l2, l1)
        for condition in conditions
        for share in ROOMS
        for start in (from_dram(problem, condition), pinned(problem, condition), scattered(problem, condition, random))
    ]
    if not rows:
        return {}
    # A call is filled up to one of a few sizes: calls of the smallest compute the least in vain.
    size = ROW_CHUNKS[0]
    found = join([solve(problem, rows[at : at + size], weights, pairs=False) for at in range(0, len(rows), size)])
    of = np.repeat(np.arange(len(conditions)), len(rows) // len(conditions))
    return {c: subset(found, (of == i) & np.isfinite(found.energy_pj)) for i, c in enumerate(conditions)}


def _polished(problem: Problem, groups: list[Filled], weights: tuple[float, float]) -> list[Filled]:
    """Moves in pairs until nothing changes."""
    for _ in range(POLISHES):
        before = [filled.price for filled in groups]
        groups = polish(problem, groups, weights)
        if [filled.price for filled in groups] == before:
            break
    return groups


def _schedule(problem: Problem, groups: Sequence[Filled | None]) -> Schedule | None:
    """The schedule of all groups; None if one has no mapping, or if the search's 32-bit numbers hid that it is full."""
    mapped = [filled for filled in groups if filled is not None]
    if len(mapped) < len(groups):
        return None
    schedule = to_schedule(problem, mapped)
    return None if violations(schedule) else schedule
