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
    """Improve one layer of every group at a time, until each has had its turn.

    The other layers of the group stay as they are, so what they leave of L2 and L1 is known to the byte.
    """
    current = list(groups)
    for turn in range(max(len(filled.choices) for filled in current)):
        turns = [i for i, filled in enumerate(current) if turn < len(filled.choices) and _is_mac(problem, filled, turn)]
        if not turns:
            continue
        found = solve(problem, [_row(problem, current[i], turn) for i in turns], weights, pairs=True)
        for j, i in enumerate(turns):
            better = choice(found, j)
            if np.isfinite(better.energy_pj) and _price(better, weights) < _price(current[i].choices[turn], weights):
                current[i] = _replaced(problem, current[i], turn, better, weights)
    return current


def _is_mac(problem: Problem, filled: Filled, turn: int) -> bool:
    return problem.workload[filled.seat.plan.group.layers[turn]].is_mac


def _price(chosen: Choice, weights: tuple[float, float]) -> float:
    return weights[0] * chosen.energy_pj + weights[1] * chosen.cycles


def _replaced(problem: Problem, filled: Filled, turn: int, better: Choice, weights: tuple[float, float]) -> Filled:
    choices = (*filled.choices[:turn], better, *filled.choices[turn + 1 :])
    priced = zip(choices, filled.seat.conditions, strict=True)
    return Filled(filled.seat, choices, sum(_price(c, weights) * problem.repeat(condition) for c, condition in priced))


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
