"""The same groups on another machine: every layer mapped anew in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fadiff.cost import Evaluation, evaluate
from fadiff.schedule import Mapping
from fadiff.schedule.legality import violations
from fadiff.search.assemble import Filled, Seat, choice, to_mappings
from fadiff.search.conditions import Condition, Problem
from fadiff.search.driver import price_weights
from fadiff.search.groups import Plan
from fadiff.search.options import Row, adapted, solve

if TYPE_CHECKING:
    from fadiff.hardware import Hardware
    from fadiff.schedule import Group, Schedule


def remapped(evaluation: Evaluation, hardware: Hardware) -> Evaluation | None:
    """The schedule on another machine: the same groups and shared loops, and the best mappings that a climb finds.

    Each layer climbs by exact single moves from its present mapping, in the room that the present mappings of the
    others leave on the new machine; what lowers EDP is taken, as long as it fits together. None where the schedule as
    it is does not fit on the new machine.
    """
    present = evaluate(replace(evaluation.schedule, hardware=hardware))
    if violations(present.schedule):
        return None
    problem = Problem(present.schedule.workload, hardware)
    found = _climbed(problem, present)
    gains = _gains(present, evaluate(_with(present.schedule, found)))
    taken = {name: mapping for name, mapping in found.items() if gains[name] > 0}
    while broken := violations(tried := _with(present.schedule, taken)):
        # Of a group that does not fit, the smallest gain is given up.
        inside = [name for name in broken[0].layers if name in taken]
        del taken[min(inside, key=lambda name: gains[name])]
    return evaluate(tried)


def _with(schedule: Schedule, mappings: dict[str, Mapping]) -> Schedule:
    return replace(schedule, mappings={**schedule.mappings, **mappings})


def _climbed(problem: Problem, present: Evaluation) -> dict[str, Mapping]:
    """The best new mapping of every MAC layer for which one was found."""
    weights = price_weights(present, "edp")
    seats = [
        (group, name, condition)
        for group in present.schedule.groups
        for name, condition in zip(group.layers, problem.conditions(group), strict=True)
        if problem.workload[name].is_mac
    ]
    if not seats:
        return {}
    options = solve(problem, [_row(problem, present, *seat) for seat in seats], weights, pairs=False)
    result: dict[str, Mapping] = {}
    for i, (group, name, condition) in enumerate(seats):
        if np.isfinite(options.energy_pj[i]):
            alone = Seat(Plan(replace(group, layers=(name,)), (0,)), (condition,))
            result |= to_mappings(problem, Filled(alone, (choice(options, i),), 0.0))
    return result


def _row(problem: Problem, present: Evaluation, group: Group, name: str, condition: Condition) -> Row:
    """A climb from the layer's present mapping, with the room that the rest of its group leaves."""
    machine, needs = problem.hardware, present.needs
    l2_bytes, kept, passing = (np.asarray(part) for part in (needs.l2_bytes, needs.kept, needs.passing))
    me, others = problem.number[name], [problem.number[other] for other in group.layers if other != name]
    elsewhere = max((float(l2_bytes[other] - kept[me]) for other in others), default=0.0)
    m = present.schedule.mappings[name]
    return Row(
        condition=condition,
        start=adapted(problem, condition, np.array([m.spatial, m.l0, m.l1, m.l2, m.l3])),
        l2_bytes=machine.usable_l2_bytes - float(l2_bytes[me] - kept[me] - passing[me]),
        kept_bytes=machine.usable_l2_bytes - elsewhere,
        # Both layers of a channel loop hold sums at the same time.
        l1_bytes=machine.usable_l1_bytes / (2 if condition.x_role else 1),
    )


def _gains(before: Evaluation, after: Evaluation) -> dict[str, float]:
    """What each layer's new mapping saves of the network's EDP, linearized."""
    energy, cycles = (
        np.asarray(old) - np.asarray(new)
        for old, new in (
            (before.layers.energy.total, after.layers.energy.total),
            (before.layers.cycles.total, after.layers.cycles.total),
        )
    )
    saved = (energy / before.energy_pj + cycles / before.cycles) * before.repeat
    return {layer.name: float(saved[i]) for i, layer in enumerate(before.schedule.workload.layers)}
