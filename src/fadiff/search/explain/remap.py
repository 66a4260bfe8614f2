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
    present = evaluate(replace(evaluation.schedule, machine=machine))
    if violations(present.schedule):
        return None
    found = _climbed(present)
    gains = _gains(present, evaluate(_with(present.schedule, found)))
    taken = {name: mapping for name, mapping in found.items() if gains[name] > 0}
    while broken := violations(tried := _with(present.schedule, taken)):
        # Of a group that does not fit, the smallest gain is given up.
        inside = [name for name in broken[0].layers if name in taken]
        del taken[min(inside, key=lambda name: gains[name])]
    return evaluate(tried)


def _with(schedule: Schedule, mappings: dict[str, Mapping]) -> Schedule:
    return replace(schedule, mappings={**schedule.mappings, **mappings})


def _climbed(present: Evaluation) -> dict[str, Mapping]:
    """A new mapping of every MAC layer for which one was found."""
    task = Task(present.schedule.workload, present.schedule.machine, dtype=np.float64)
    rows = present_rows(task, present.schedule)
    if not rows:
        return {}
    found = climbed(task, list(rows.values()), price_weights(present, "edp"))
    return {
        name: to_mapping(task, row.condition, found, i)
        for i, (name, row) in enumerate(rows.items())
        if np.isfinite(found.price[i])
    }


def _gains(before: Evaluation, after: Evaluation) -> dict[str, float]:
    """What each layer's new mapping saves of the network's EDP, linearized."""
    energy, cycles = before.layer_energy_pj - after.layer_energy_pj, before.layer_cycles - after.layer_cycles
    saved = (energy / before.energy_pj + cycles / before.cycles) * before.repeat
    return {layer.name: float(saved[i]) for i, layer in enumerate(before.schedule.workload.layers)}
