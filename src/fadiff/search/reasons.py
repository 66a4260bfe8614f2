"""Why a group ends where it does: for every tensor that goes through DRAM, what keeps its two groups apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
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


PLANS_PRICED = 6
"""Plans of a merged group that are looked at."""
_UNKNOWN: tuple[Cause, str] = ("not searched", "the search ended before it got there: give it more time")


class Boundary(NamedTuple):
    """A tensor that goes through DRAM, and what keeps its producer and its reader apart."""

    source: str
    target: str
    cause: Cause
    detail: str


def boundaries(evaluation: Evaluation, objective: Objective, *, priced: bool = True) -> list[Boundary]:
    """The reason for every edge that is not fused, in the order of the workload's edges.

    Where nothing forbids to merge the two groups, the best merged group that a short search finds is priced; without
    `priced` such edges are told as not searched.
    """
    schedule = evaluation.schedule
    problem = Problem(schedule.workload, schedule.hardware)
    apart = [edge for edge in schedule.workload.edges if not schedule.is_fused(edge)]
    pairs = [(schedule.group_of[edge.source], schedule.group_of[edge.target]) for edge in apart]
    known = {pair: _forbidden(problem, *pair) for pair in dict.fromkeys(pairs)}
    free = [pair for pair, cause in known.items() if cause is None]
    known.update(_losses(problem, evaluation, objective, free) if priced else dict.fromkeys(free, _UNKNOWN))
    return [
        Boundary(edge.source, edge.target, *(known[pair] or _UNKNOWN)) for edge, pair in zip(apart, pairs, strict=True)
    ]


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
    if run.smallest_bytes > there and next(run.plans(problem.hardware), None) is None:
        needed = f"its buffers need {run.smallest_bytes:,} bytes of L2 at least, {there:,} are there"
        if run.trips.shape[1] == 1:
            return ("whole tensor" if run.must_be_whole else "alignment"), f"it cannot be tiled, and {needed}"
        return "capacity", needed
    return None


def _losses(
    problem: Problem, evaluation: Evaluation, objective: Objective, pairs: Sequence[tuple[Group, Group]]
) -> dict[tuple[Group, Group], tuple[Cause, str]]:
    """What merging each pair of groups would cost, as far as a short search can tell."""
    weights = price_weights(evaluation, objective)
    seats = {
        pair: [
            seat(problem, plan)
            for plan in islice(Run(problem.workload, _merged(problem, *pair)).plans(problem.hardware), PLANS_PRICED)
        ]
        for pair in pairs
    }
    conditions = list(dict.fromkeys(c for mine in seats.values() for one in mine for c in one.conditions))
    options = grouped(problem, conditions, weights, 0, {}) if conditions else {}
    result: dict[tuple[Group, Group], tuple[Cause, str]] = {}
    for pair, mine in seats.items():
        filled = [fill(problem, one, options, weights, np.inf) for one in mine]
        prices = [one.price for one in filled if one is not None]
        change = min(prices) - sum(_price(problem, evaluation, group, weights) for group in pair) if prices else 0.0
        if not prices:
            result[pair] = ("capacity", "no tiles fit in L2 beside its buffers")
        elif change < 0:
            result[pair] = ("not searched", f"fused, the {objective} would be about {-change:.2%} lower: search longer")
        else:
            result[pair] = ("no gain", f"fused, the {objective} would be about {change:.2%} higher")
    return result


def _price(problem: Problem, evaluation: Evaluation, group: Group, weights: tuple[float, float]) -> float:
    """What a group costs now."""
    energy, cycles = evaluation.layers.energy.total, evaluation.layers.cycles.total
    numbers = [problem.number[name] for name in group.layers]
    return sum(
        (weights[0] * float(energy[i]) + weights[1] * float(cycles[i])) * problem.workload.layers[i].repeat
        for i in numbers
    )
