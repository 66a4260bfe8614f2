"""The last percent: moves in pairs on the layers of a finished schedule, each with exactly the room it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.exact.assemble import Filled, fits
from fadiff.search.exact.conditions import Room
from fadiff.search.exact.menus import Menu, Row, solve, start_from, subset

if TYPE_CHECKING:
    from fadiff.search.exact.conditions import Task


def polish(task: Task, groups: Sequence[Filled], weights: tuple[float, float]) -> list[Filled]:
    """Improve every layer while the others of its group stay as they are, and take what fits together.

    All layers climb at once, each in the room that the present mappings of the others leave. Of the improvements of a
    group the largest are taken first, as long as the group fits.
    """
    places = [(i, turn) for i, filled in enumerate(groups) for turn in range(len(filled.chosen))]
    places = [(i, turn) for i, turn in places if task.workload[groups[i].plan.group.layers[turn]].is_mac]
    current = list(groups)
    if not places:
        return current
    found = solve(task, [_row(task, groups[i], turn) for i, turn in places], weights, pairs=True)
    gains: list[tuple[float, int]] = []
    for j, (i, turn) in enumerate(places):
        before, after = groups[i].chosen[turn], subset(found, slice(j, j + 1))
        gain = _price(before, weights) - _price(after, weights)
        gain *= task.layer(groups[i].plan.conditions[turn]).repeat
        if np.isfinite(after.energy_pj[0]) and gain > 0:
            gains.append((-gain, j))
    for gain, j in sorted(gains):
        i, turn = places[j]
        filled = current[i]
        chosen = (*filled.chosen[:turn], subset(found, slice(j, j + 1)), *filled.chosen[turn + 1 :])
        if fits(task, filled.plan, chosen):
            current[i] = Filled(filled.plan, chosen, filled.price + gain)
    return current


def _price(chosen: Menu, weights: tuple[float, float]) -> float:
    return weights[0] * float(chosen.energy_pj[0]) + weights[1] * float(chosen.cycles[0])


def _row(task: Task, filled: Filled, turn: int) -> Row:
    """A climb from the layer's present mapping, with the room the rest of its group leaves in every memory."""
    others = [(i, menu) for i, menu in enumerate(filled.chosen) if i != turn]
    nothing = np.zeros(len(task.all_room.running))
    kept = sum((menu.kept[:, 0] for _, menu in others), nothing)
    # The sums of a channel loop's second layer wait while its first runs, and the first's tiles leave room for them.
    waiting = sum((menu.waiting[:, 0] for i, menu in others if turn == 0 and i), nothing)
    running, elsewhere = np.array(task.all_room.running) - kept - waiting, nothing
    for i, menu in others:
        held = menu.running[:, 0] - menu.kept[:, 0]
        if task.fusing is not None:
            held[task.fusing] += filled.plan.live_bytes[i]
        elsewhere = np.maximum(elsewhere, held)
    if task.fusing is not None:
        running[task.fusing] -= filled.plan.live_bytes[turn]
    room = Room(tuple(running), tuple(np.array(task.all_room.running) - kept - elsewhere))
    return Row(filled.plan.conditions[turn], start_from(filled.chosen[turn], 0), room)
