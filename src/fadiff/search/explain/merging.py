"""Two groups of a schedule as one: the best merged group that a short search finds, priced exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.cost import Evaluation, evaluate
from fadiff.schedule import Group
from fadiff.schedule.rules import violations
from fadiff.search.exact.assemble import Filled, fill, to_mappings
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.menus import grouped, start_of
from fadiff.search.exact.plans import Members, Plan, conditions_of
from fadiff.search.explain.climbs import affordable, climbed
from fadiff.search.objective import EDP

if TYPE_CHECKING:
    from fadiff.search.exact.conditions import Condition
    from fadiff.search.objective import Objective
    from fadiff.workload import Workload

PLANS_OF_A_PAIR, PLANS_IN_ALL = 6, 20
"""Plans of a merged group that are looked at, by each of three estimates: more, where few pairs could be merged."""
FEWER_PLANS = (3, 2, 1)
MOST_MOVES = 2**18
"""Moves that all conditions of all plans may have together, at every node: fewer plans of a pair are looked at where
there would be more, and with one of each the last pairs are left out."""
MOST_PAIRS = 150
"""Pairs that are looked at."""

Pair = tuple[Group, Group]


class Merger(NamedTuple):
    """Two groups of a schedule as they are, and as one: excerpts of it, without what stays the same."""

    apart: Evaluation
    together: Evaluation

    def changed(self, network: Evaluation, objective: Objective = EDP) -> tuple[float, float]:
        """Energy in pJ, with the objective's charges, and cycles of the network with the two merged."""
        (energy_pj, cycles), apart, together = map(objective.point, (network, self.apart, self.together))
        return energy_pj - apart[0] + together[0], cycles - apart[1] + together[1]


def merged_layers(workload: Workload, source: Group, target: Group) -> tuple[str, ...]:
    """The layers of two groups in topological order."""
    return tuple(sorted(source.layers + target.layers, key=workload.depth.__getitem__))


def merge(task: Task, evaluation: Evaluation, objective: Objective, pairs: Sequence[Pair]) -> dict[Pair, Merger | None]:
    """Each pair of groups merged; None where nothing is found that fits. The task is of 64 bits.

    Pairs that matter most come first: where all would take too long, the last ones are left out.
    """
    weights = objective.weights(evaluation)
    plans = _affordable(task, {pair: _ranked_plans(task, pair) for pair in pairs[:MOST_PAIRS]})
    conditions = conditions_of(plan for mine in plans.values() for plan in mine)
    present = {task.twin[task.number[name]]: [start_of(task, m)] for name, m in evaluation.schedule.mappings.items()}
    menus = grouped(task, conditions, weights, 0, present, climbed) if conditions else {}
    result: dict[Pair, Merger | None] = {}
    for pair, mine in plans.items():
        filled = [one for one in (fill(task, plan, menus, weights, np.inf) for plan in mine) if one is not None]
        best = min(filled, key=lambda one: one.price, default=None)
        result[pair] = None if best is None else _merged(task, evaluation, pair, best)
    return result


Ranked = tuple[list[Plan], ...]
"""Plans by each of several estimates, the most promising first."""


def _ranked_plans(task: Task, pair: Pair) -> Ranked:
    """Plans of the merged group: by few bytes moved, by few iterations, by little held for short."""
    run = Members(task, merged_layers(task.workload, *pair))
    found = [run.plan(sharing) for sharing in run.chosen()]
    moved = [_moved_bytes(task, plan) for plan in found]
    turns = [plan.group.iterations / plan.group.trips.G for plan in found]
    held = [max(plan.live_bytes) * turn for plan, turn in zip(found, turns, strict=True)]
    orders = [np.lexsort(keys).tolist() for keys in ((turns, moved), (held, moved), (turns, held))]
    return tuple([found[i] for i in order] for order in orders)


def _affordable(task: Task, ranked: dict[Pair, Ranked]) -> dict[Pair, list[Plan]]:
    """As many plans of each pair as can be mapped in the time that there is, and of the last pairs none."""
    most = affordable(task, MOST_MOVES)
    chosen: dict[Pair, list[Plan]] = {}
    for count in (max(PLANS_OF_A_PAIR, PLANS_IN_ALL // len(ranked)), *FEWER_PLANS):
        chosen = {pair: _distinct(orders, count) for pair, orders in ranked.items()}
        if len(conditions_of(plan for mine in chosen.values() for plan in mine)) <= most:
            return chosen
    taken: dict[Pair, list[Plan]] = {}
    known: set[Condition] = set()
    for pair, mine in chosen.items():
        known.update(conditions_of(mine))
        if taken and len(known) > most:
            break
        taken[pair] = mine
    return taken


def _distinct(orders: Ranked, count: int) -> list[Plan]:
    return list({id(plan): plan for order in orders for plan in order[:count]}.values())


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


def _merged(task: Task, evaluation: Evaluation, pair: Pair, filled: Filled) -> Merger | None:
    """Two groups in one; None where that breaks a rule after all."""
    together = evaluation.schedule.excerpt([filled.plan.group], to_mappings(task, filled))
    return None if violations(together) else Merger(evaluation.excerpt(pair), evaluate(together))
