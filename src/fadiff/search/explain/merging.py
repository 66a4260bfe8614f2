"""Two groups of a schedule as one: the best merged group that a short search finds, priced exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fadiff.cost import Evaluation, evaluate
from fadiff.schedule import Group
from fadiff.schedule.rules import violations
from fadiff.search.driver import Objective, price_weights
from fadiff.search.exact.assemble import Filled, fill, to_mappings
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.menus import grouped
from fadiff.search.exact.plans import Members, Plan, conditions_of
from fadiff.search.explain.climbs import climbed, start_of

if TYPE_CHECKING:
    from fadiff.workload import Workload

PLANS_OF_A_PAIR, PLANS_IN_ALL = 6, 20
"""Plans of a merged group that are looked at, by each of three estimates: more, where few pairs could be merged."""

Pair = tuple[Group, Group]


def merged_layers(workload: Workload, source: Group, target: Group) -> tuple[str, ...]:
    """All layers from the first of two groups to the last, in topological order: their own and those between."""
    places = [workload.depth[name] for name in source.layers + target.layers]
    return workload.topological[min(places) : max(places) + 1]


def merge(
    task: Task, evaluation: Evaluation, objective: Objective, pairs: Sequence[Pair]
) -> dict[Pair, Evaluation | None]:
    """The network with each pair of groups merged; None where nothing is found that fits. The task is of 64 bits."""
    weights = price_weights(evaluation, objective)
    most = max(PLANS_OF_A_PAIR, PLANS_IN_ALL // len(pairs))
    plans = {pair: _some_plans(task, pair, most) for pair in pairs}
    conditions = conditions_of(plan for mine in plans.values() for plan in mine)
    present = {task.twin[task.number[name]]: [start_of(task, m)] for name, m in evaluation.schedule.mappings.items()}
    menus = grouped(task, conditions, weights, 0, present, climbed)
    result: dict[Pair, Evaluation | None] = {}
    for pair, mine in plans.items():
        filled = [one for one in (fill(task, plan, menus, weights, np.inf) for plan in mine) if one is not None]
        best = min(filled, key=lambda one: one.price, default=None)
        result[pair] = None if best is None else _merged(task, evaluation, pair, best)
    return result


def _some_plans(task: Task, pair: Pair, most: int) -> list[Plan]:
    """The most promising plans of the merged group: few bytes moved, few iterations, little held for short."""
    run = Members(task, merged_layers(task.workload, *pair))
    found = [run.plan(sharing) for sharing in run.chosen()]
    moved = [_moved_bytes(task, plan) for plan in found]
    turns = [plan.group.iterations / plan.group.trips.G for plan in found]
    held = [max(plan.live_bytes) * turn for plan, turn in zip(found, turns, strict=True)]
    ranked = [np.lexsort(keys)[:most].tolist() for keys in ((turns, moved), (held, moved), (turns, held))]
    return [found[i] for i in dict.fromkeys(i for best in ranked for i in best)]


def _moved_bytes(task: Task, plan: Plan) -> float:
    """Bytes of a plan's weights from the first memory, and of what a channel loop moves more than once: an estimate.

    Weights are fetched once if those of an iteration of G (and of X, where it stands outside) fit at home, else in
    every iteration of N, P and Q. Sums that wait for the next iteration of X spill where they do not fit at home; an X
    that stands outside reads the producer's input anew.
    """
    trips, bits = plan.group.trips, task.machine.bits
    layers = [task.workload[name] for name in plan.group.layers]
    weights = sum(layer.weight_words for layer in layers if not layer.has_weight_port) * bits.W / 8
    passes = trips.N * trips.P * trips.Q
    outside = passes > 1 and plan.group.nesting.index("X") < plan.group.nesting.index("N")
    held = weights / (trips.G * (trips.X if outside else 1))
    moved = weights * (1 if held <= _home_bytes(task, plan, "W") else passes)
    waiting = layers[-1].output_words / (trips.G * (1 if outside else passes)) * bits.sums / 8
    if waiting > _home_bytes(task, plan, "O") / 2:
        moved += (trips.X - 1) * 2 * layers[-1].output_words * bits.spilled / 8
    return moved + (trips.X - 1) * layers[0].input_words * bits.I / 8 if outside else moved


def _home_bytes(task: Task, plan: Plan, tensor: str) -> float:
    """Bytes that all instances of a tensor's home have for it; beside the buffers, in the memory that fuses."""
    structure = task.machine.structure
    if (home := structure.home(tensor)) is None:
        return 0.0
    usable = task.machine.memories[structure.memories.index(home)].usable_bytes
    return usable * task.machine.instances(home) - (max(plan.live_bytes) if home == structure.fuses else 0)


def _merged(task: Task, evaluation: Evaluation, pair: Pair, filled: Filled) -> Evaluation | None:
    """The schedule with two groups in one; None where it breaks a rule after all."""
    old = evaluation.schedule
    groups = tuple(filled.plan.group if group == pair[1] else group for group in old.groups if group != pair[0])
    schedule = replace(old, groups=groups, mappings={**old.mappings, **to_mappings(task, filled)})
    return None if violations(schedule) else evaluate(schedule)
