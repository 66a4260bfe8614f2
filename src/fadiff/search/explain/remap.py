"""The same groups on another machine: every layer mapped anew in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fadiff.cost import Evaluation, evaluate
from fadiff.schedule.rules import violations
from fadiff.search.driver import price_weights
from fadiff.search.exact.assemble import to_mapping
from fadiff.search.exact.conditions import Task
from fadiff.search.explain.climbs import climbed
from fadiff.search.explain.present import present_rows

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.schedule import Mapping, Schedule


def remapped(evaluation: Evaluation, machine: Machine) -> Evaluation | None:
    """The schedule on another machine of the same nodes: the same groups, and the best mappings that a climb finds.

    Each layer climbs by exact single moves from its present mapping, in the room that the present mappings of the
    others leave on the new machine; what lowers EDP is taken, as long as it fits together. None where the schedule as
    it is is not legal on the new machine.
    """
    before = evaluate(replace(evaluation.schedule, machine=machine))
    if violations(before.schedule):
        return None
    task, weights = Task(before.schedule.workload, machine, dtype=np.float64), price_weights(before, "edp")
    if not (rows := present_rows(task, before.schedule)):
        return before
    found = climbed(task, list(rows.values()), weights)
    new = {name: to_mapping(task, row.condition, found, i) for i, (name, row) in enumerate(rows.items())}
    taken = {name: new[name] for name, price in zip(rows, found.price, strict=True) if np.isfinite(price)}
    # What each layer's new mapping saves of the network's EDP, linearized.
    after = evaluate(_with(before.schedule, taken))
    energy, cycles = before.layer_energy_pj - after.layer_energy_pj, before.layer_cycles - after.layer_cycles
    saved = (weights[0] * energy + weights[1] * cycles) * before.repeat
    gains = dict(zip(task.number, saved.tolist(), strict=True))
    taken = {name: mapping for name, mapping in taken.items() if gains[name] > 0}
    while broken := violations(tried := _with(before.schedule, taken)):
        # Of a group that does not fit, the smallest gain is given up.
        inside = [name for name in broken[0].layers if name in taken]
        del taken[min(inside, key=lambda name: gains[name])]
    return evaluate(tried)


def _with(schedule: Schedule, mappings: dict[str, Mapping]) -> Schedule:
    return replace(schedule, mappings={**schedule.mappings, **mappings})
