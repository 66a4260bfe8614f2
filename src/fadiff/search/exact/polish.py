"""The last percent: moves in pairs on the layers of a finished schedule, each with exactly the room it has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fadiff.search.exact.assemble import Filled, fits, peaks
from fadiff.search.exact.conditions import Task, room_left
from fadiff.search.exact.menus import Row, join, solve, start_from, subset, weighed


def polish(task: Task, groups: Sequence[Filled], weights: tuple[float, float]) -> list[Filled]:
    """Improve every layer while the others of its group stay as they are, and take what fits together.

    All layers climb at once, each in the room that the present mappings of the others leave. Of the improvements of a
    group the largest are taken first, as long as the group fits.
    """
    layers = [filled.plan.group.layers for filled in groups]
    places = [(i, turn) for i, names in enumerate(layers) for turn, n in enumerate(names) if task.workload[n].is_mac]
    current = list(groups)
    if not places:
        return current
    found = solve(task, [_row(task, groups[i], turn) for i, turn in places], weights, pairs=True)
    gains: list[tuple[float, int]] = []
    for j, (i, turn) in enumerate(places):
        gain = weighed(groups[i].chosen, weights)[turn] - weighed(found, weights)[j]
        gain *= task.layer(groups[i].plan.conditions[turn]).repeat
        if np.isfinite(found.energy_pj[j]) and gain > 0:
            gains.append((-gain, j))
    for gain, j in sorted(gains):
        i, turn = places[j]
        plan, chosen, price = current[i]
        changed = join([subset(chosen, slice(turn)), subset(found, [j]), subset(chosen, slice(turn + 1, None))])
        if fits(task, plan, changed):
            current[i] = Filled(plan, changed, price + gain)
    return current


def _row(task: Task, filled: Filled, turn: int) -> Row:
    """A climb from the layer's present mapping, with the room the rest of its group leaves in every memory."""
    plan, chosen = filled.plan, filled.chosen
    # The layer's own sums do not wait for it.
    waiting = chosen.waiting.copy()
    waiting[:, turn] = 0
    total = peaks(task, plan, chosen.running, chosen.kept, waiting)
    others = [i for i in range(len(plan.conditions)) if i != turn]
    room = room_left(task.all_room, total, chosen.running, chosen.kept, turn, others)
    return Row(plan.conditions[turn], start_from(chosen, turn), room)
