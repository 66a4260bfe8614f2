"""Why a group ends where it does: for every tensor that goes through DRAM, what keeps its two groups apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fadiff.search.assemble import fill, seat
from fadiff.search.conditions import Problem
from fadiff.search.driver import Objective, price_weights
from fadiff.search.groups import Run
from fadiff.search.options import grouped

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Group

Cause = Literal["capacity", "alignment", "whole tensor", "one sink", "repeat", "order", "no gain", "not searched"]


class Boundary(NamedTuple):
    """A tensor that goes through DRAM, and what keeps its producer and its reader apart."""

    source: str
    target: str
    cause: Cause
    detail: str


def boundaries(evaluation: Evaluation, objective: Objective) -> list[Boundary]:
    """The reason for every edge that is not fused, in the order of the workload's edges.

    Where nothing forbids to merge the two groups, the best merged group that the search finds is priced.
    """
    schedule = evaluation.schedule
    problem = Problem(schedule.workload, schedule.hardware)
    known: dict[tuple[Group, Group], tuple[Cause, str]] = {}
    result: list[Boundary] = []
    for edge in schedule.workload.edges:
        if not schedule.is_fused(edge):
            pair = (schedule.group_of[edge.source], schedule.group_of[edge.target])
            if pair not in known:
                known[pair] = _forbidden(problem, *pair) or _loss(problem, evaluation, objective, *pair)
            result.append(Boundary(edge.source, edge.target, *known[pair]))
    return result


def _merged(problem: Problem, source: Group, target: Group) -> tuple[str, ...]:
    """All layers from the first of one group to the last of the other."""
    place = problem.workload.depth
    return problem.workload.topological[place[source.layers[0]] : place[target.layers[-1]] + 1]


def _forbidden(problem: Problem, source: Group, target: Group) -> tuple[Cause, str] | None:
    """What forbids to merge two groups; None if nothing does."""
    names = _merged(problem, source, target)
    between = [name for name in names if name not in source.layers + target.layers]
    if between:
        return "order", f"{', '.join(between)} must run between them"
    run = Run(problem.workload, names)
    repeats = {layer.repeat for layer in run.segment}
    if len(repeats) > 1:
        return "repeat", f"their layers repeat {' and '.join(str(r) for r in sorted(repeats))} times"
    if not run.may_be_group:
        feeding = {edge.source for edge in run.fused}
        loose = [name for name in names[:-1] if name not in feeding]
        return "one sink", f"{', '.join(loose)} would not lead to {names[-1]} inside the group"
    there = problem.hardware.usable_l2_bytes
    if run.smallest_bytes > there:
        needed = f"its buffers need {run.smallest_bytes:,} bytes of L2 at least, {there:,} are there"
        if run.trips.shape[1] == 1:
            return ("whole tensor" if run.must_be_whole else "alignment"), f"it cannot be tiled, and {needed}"
        return "capacity", needed
    return None


def _loss(
    problem: Problem, evaluation: Evaluation, objective: Objective, source: Group, target: Group
) -> tuple[Cause, str]:
    """What merging two groups would cost, as far as the search can tell."""
    weights = price_weights(evaluation, objective)
    seats = [
        seat(problem, plan) for plan in Run(problem.workload, _merged(problem, source, target)).plans(problem.hardware)
    ]
    conditions = list(dict.fromkeys(condition for one in seats for condition in one.conditions))
    options = grouped(problem, conditions, weights, 0, {})
    prices = [filled.price for one in seats if (filled := fill(problem, one, options, weights, np.inf)) is not None]
    if not prices:
        return "capacity", "no tiles fit in L2 beside its buffers"
    members = [problem.number[name] for name in source.layers + target.layers]
    now = sum(
        (weights[0] * float(evaluation.layers.energy.total[i]) + weights[1] * float(evaluation.layers.cycles.total[i]))
        * problem.workload.layers[i].repeat
        for i in members
    )
    change = min(prices) - now
    if change < 0:
        return "not searched", f"fused, the {objective} would be about {-change:.2%} lower: give the search more time"
    return "no gain", f"fused, the {objective} would be about {change:.2%} higher"
