"""Why a group ends where it does: for every tensor that goes through DRAM, what keeps its two groups apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fadiff.cost import Evaluation, evaluate
from fadiff.schedule import Group
from fadiff.schedule.legality import violations
from fadiff.search.assemble import Filled, fill, seat, to_mappings
from fadiff.search.conditions import Problem
from fadiff.search.driver import Objective, price_weights, score
from fadiff.search.groups import Plan, Run
from fadiff.search.options import Hints, grouped
from fadiff.search.programs import search_programs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fadiff.workload import Workload

Cause = Literal[
    "not fusible", "capacity", "alignment", "whole tensor", "one sink", "repeat", "order", "no gain", "not searched"
]

PLANS_PRICED = 6
"""Plans of a merged group that are looked at."""

Pair = tuple[Group, Group]


class Boundary(NamedTuple):
    """A tensor that goes through DRAM, and what keeps its producer and its reader apart."""

    source: str
    target: str
    cause: Cause
    detail: str


class Verdict(NamedTuple):
    """What keeps two groups apart."""

    cause: Cause
    detail: str
    missing_l2_bytes: int | None = None
    """L2 that the buffers lack at least, where they do not fit whatever the tiles."""
    merged: Evaluation | None = None
    """The network with the two merged, the best that a short search finds; None where it finds nothing that fits."""


_UNKNOWN = Verdict("not searched", "nothing forbids it; the search ended before pricing it (fadiff report prices it)")


def boundaries(evaluation: Evaluation, objective: Objective, *, priced: bool = True) -> list[Boundary]:
    """The reason for every edge that is not fused, in the order of the workload's edges.

    Where nothing forbids to merge the two groups, the best merged group that a short search finds is priced; without
    `priced` such edges are told as not searched.
    """
    schedule = evaluation.schedule
    known = verdicts(evaluation, objective, priced=priced)
    return [
        Boundary(edge.source, edge.target, *known[schedule.group_of[edge.source], schedule.group_of[edge.target]][:2])
        for edge in schedule.workload.edges
        if not schedule.is_fused(edge)
    ]


@search_programs()
def verdicts(evaluation: Evaluation, objective: Objective, *, priced: bool = True) -> dict[Pair, Verdict]:
    """What keeps every two groups apart that an edge joins; as in :func:`boundaries`."""
    schedule = evaluation.schedule
    problem = Problem(schedule.workload, schedule.hardware)
    apart = [edge for edge in schedule.workload.edges if not schedule.is_fused(edge)]
    pairs = dict.fromkeys((schedule.group_of[edge.source], schedule.group_of[edge.target]) for edge in apart)
    known = {pair: _forbidden(problem, *pair) for pair in pairs}
    free = [pair for pair, verdict in known.items() if verdict is None]
    found = _priced(problem, evaluation, objective, free) if priced else dict.fromkeys(free, _UNKNOWN)
    return {pair: verdict or found[pair] for pair, verdict in known.items()}


def merged_layers(workload: Workload, source: Group, target: Group) -> tuple[str, ...]:
    """All layers from the first of two groups to the last, in topological order: their own and those between."""
    places = [workload.depth[name] for name in source.layers + target.layers]
    return workload.topological[min(places) : max(places) + 1]


def _on_the_way(workload: Workload, source: Group, target: Group) -> set[str]:
    """Layers outside two groups that read one of their tensors, over any number of layers, and feed one of them."""
    members = {*source.layers, *target.layers}
    after: set[str] = set()
    for name in workload.topological:
        if any(edge.source in members | after for edge in workload.producers[name]):
            after.add(name)
    before: set[str] = set()
    for name in reversed(workload.topological):
        if any(edge.target in members | before for edge in workload.consumers[name]):
            before.add(name)
    return (after & before) - members


def _forbidden(problem: Problem, source: Group, target: Group) -> Verdict | None:
    """What forbids to merge two groups; None if nothing does."""
    names = merged_layers(problem.workload, source, target)
    between = [name for name in names if name not in source.layers + target.layers]
    if between:
        forced = _on_the_way(problem.workload, source, target) & set(between)
        if forced:
            told = ", ".join(name for name in between if name in forced)
            return Verdict("order", f"{told} must run between them")
        verb = "runs" if len(between) == 1 else "run"
        return Verdict("order", f"{', '.join(between)} {verb} between them, and only neighbours are fused")
    run = Run(problem.workload, names)
    if run.barred:
        told = ", ".join(f"{edge.target} cannot read {edge.source} on chip" for edge in run.barred)
        return Verdict("not fusible", f"{told}: the network says so")
    repeats = {layer.repeat for layer in run.segment}
    if len(repeats) > 1:
        return Verdict("repeat", f"their layers repeat {' and '.join(str(r) for r in sorted(repeats))} times")
    if not run.may_be_group:
        feeding = {edge.source for edge in run.fused}
        loose = [name for name in names[:-1] if name not in feeding]
        return Verdict("one sink", f"{', '.join(loose)} would not lead to {names[-1]} inside the group")
    there = problem.hardware.usable_l2_bytes
    if run.smallest_bytes > there and next(run.plans(problem.hardware), None) is None:
        needed = f"its buffers need {run.smallest_bytes:,} bytes of L2 at least, {there:,} are there"
        missing = run.smallest_bytes - there
        if run.trips.shape[1] == 1:
            cause: Cause = "whole tensor" if run.must_be_whole else "alignment"
            return Verdict(cause, f"it cannot be tiled, and {needed}", missing)
        return Verdict("capacity", needed, missing)
    return None


def _priced(
    problem: Problem, evaluation: Evaluation, objective: Objective, pairs: Sequence[Pair]
) -> dict[Pair, Verdict]:
    """What merging each pair of groups would cost, as far as a short search can tell."""
    weights = price_weights(evaluation, objective)
    seats = {pair: [seat(problem, plan) for plan in _some_plans(problem, pair)] for pair in pairs}
    conditions = list(dict.fromkeys(c for mine in seats.values() for one in mine for c in one.conditions))
    options = grouped(problem, conditions, weights, 0, _present(problem, evaluation)) if conditions else {}
    result: dict[Pair, Verdict] = {}
    for pair, mine in seats.items():
        filled = [one for one in (fill(problem, one, options, weights, np.inf) for one in mine) if one is not None]
        merged = _merge(problem, evaluation, pair, min(filled, key=lambda one: one.price)) if filled else None
        if merged is None:
            result[pair] = Verdict("capacity", "no tiles fit in L2 beside its buffers")
            continue
        change = exp(score(merged, objective) - score(evaluation, objective)) - 1
        told = f"fused, the {objective} would be about {abs(change):.2%}"
        result[pair] = (
            Verdict("not searched", f"{told} lower: search longer", merged=merged)
            if change < 0
            else Verdict("no gain", f"{told} higher", merged=merged)
        )
    return result


def _some_plans(problem: Problem, pair: Pair) -> list[Plan]:
    """The most promising plans of the merged group."""
    found = Run(problem.workload, merged_layers(problem.workload, *pair)).plans(problem.hardware)
    return sorted(found, key=lambda plan: (_extra_words(problem, plan), plan.group.iterations))[:PLANS_PRICED]


def _extra_words(problem: Problem, plan: Plan) -> int:
    """DRAM words of a plan's weights, and of what a channel loop moves more than once: an estimate to rank plans by.

    Weights are fetched once if those of an iteration of G (and of X, where it stands outside) fit beside the buffers,
    else in every iteration of N, P and Q. Sums that wait for the next iteration of X spill where they do not fit in
    L1; an X that stands outside reads the producer's input anew.
    """
    trips, machine = plan.group.trips, problem.hardware
    layers = [problem.workload[name] for name in plan.group.layers]
    weights = sum(layer.weight_words for layer in layers if not layer.has_weight_port)
    passes = trips.N * trips.P * trips.Q
    outside = passes > 1 and plan.group.nesting.index("X") < plan.group.nesting.index("N")
    held = weights // (trips.G * (trips.X if outside else 1))
    words = weights * (1 if max(plan.live_bytes) + held <= machine.usable_l2_bytes else passes)
    waiting = layers[-1].output_words // (trips.G * (1 if outside else passes))
    if 4 * waiting > machine.usable_l1_bytes / 2:
        words += (trips.X - 1) * 2 * machine.spill_words * layers[-1].output_words
    return words + (trips.X - 1) * layers[0].input_words if outside else words


def _present(problem: Problem, evaluation: Evaluation) -> Hints:
    """The mappings of the schedule as starts; layers of one shape take the first one's."""
    hints: dict[int, list[NDArray[np.int64]]] = {}
    for number, layer in enumerate(problem.workload.layers):
        if layer.is_mac:
            m = evaluation.schedule.mappings[layer.name]
            hints.setdefault(problem.twin[number], []).append(np.array([m.spatial, m.l0, m.l1, m.l2, m.l3]))
    return hints


def _merge(problem: Problem, evaluation: Evaluation, pair: Pair, filled: Filled) -> Evaluation | None:
    """The schedule with two groups in one; None where exact numbers break a rule after all."""
    old = evaluation.schedule
    groups = tuple(filled.seat.plan.group if group == pair[1] else group for group in old.groups if group != pair[0])
    schedule = replace(old, groups=groups, mappings={**old.mappings, **to_mappings(problem, filled)})
    return None if violations(schedule) else evaluate(schedule)
