"""The last percent: moves in pairs on the layers of a finished schedule, each with exactly the room it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.assemble import Choice, Filled, choice
from fadiff.search.options import Row, solve

if TYPE_CHECKING:
    from fadiff.search.conditions import Problem


def polish(problem: Problem, groups: Sequence[Filled], weights: tuple[float, float]) -> list[Filled]:
    """Improve every layer while the others of its group stay as they are, and take what fits together.

    All layers climb at once, each in the room that the present mappings of the others leave. Of the improvements of a
    group the largest are taken first, as long as the group fits.
    """
    seats = [(i, turn) for i, filled in enumerate(groups) for turn in range(len(filled.choices))]
    seats = [(i, turn) for i, turn in seats if problem.workload[groups[i].seat.plan.group.layers[turn]].is_mac]
    current = list(groups)
    if not seats:
        return current
    found = solve(problem, [_row(problem, groups[i], turn) for i, turn in seats], weights, pairs=True)
    gains: list[tuple[float, int]] = []
    for j, (i, turn) in enumerate(seats):
        before, after = groups[i].choices[turn], choice(found, j)
        gain = (_price(before, weights) - _price(after, weights)) * problem.repeat(groups[i].seat.conditions[turn])
        if np.isfinite(after.energy_pj) and gain > 0:
            gains.append((-gain, j))
    for gain, j in sorted(gains):
        i, turn = seats[j]
        filled = current[i]
        choices = (*filled.choices[:turn], choice(found, j), *filled.choices[turn + 1 :])
        changed = Filled(filled.seat, choices, filled.price + gain)
        if _fits(problem, changed):
            current[i] = changed
    return current


def _price(chosen: Choice, weights: tuple[float, float]) -> float:
    return weights[0] * chosen.energy_pj + weights[1] * chosen.cycles


def _fits(problem: Problem, filled: Filled) -> bool:
    """Whether a group's choices fit in L2 and L1 together."""
    plan, conditions = filled.seat
    kept = sum(chosen.kept for chosen in filled.choices)
    peak = max(chosen.passing + live for chosen, live in zip(filled.choices, plan.live_bytes, strict=True))
    # Both layers of a channel loop may hold sums at the same time.
    sums = [chosen.l1_bytes for chosen in filled.choices]
    l1 = sum(sums) if conditions[0].x_role else max(sums)
    return kept + peak <= problem.hardware.usable_l2_bytes and l1 <= problem.hardware.usable_l1_bytes


def _row(problem: Problem, filled: Filled, turn: int) -> Row:
    """A climb from the layer's present mapping, with the room the rest of its group leaves."""
    plan, conditions = filled.seat
    l2, l1 = problem.hardware.usable_l2_bytes, problem.hardware.usable_l1_bytes
    others = [(i, chosen) for i, chosen in enumerate(filled.choices) if i != turn]
    kept = sum(chosen.kept for _, chosen in others)
    elsewhere = max((chosen.passing + plan.live_bytes[i] for i, chosen in others), default=0)
    condition = conditions[turn]
    waiting = sum(chosen.l1_bytes for _, chosen in others) if condition.x_role else 0
    return Row(
        condition=condition,
        start=filled.choices[turn].factors,
        l2_bytes=l2 - kept - plan.live_bytes[turn],
        kept_bytes=l2 - kept - elsewhere,
        l1_bytes=l1 - waiting,
    )
