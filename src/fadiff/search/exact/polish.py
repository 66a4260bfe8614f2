"""The last percent: moves in pairs on the layers of a finished schedule, each with exactly the room it has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fadiff.search.driver import Weights
from fadiff.search.exact.assemble import Filled, fits, peaks
from fadiff.search.exact.conditions import Task, room_left
from fadiff.search.exact.menus import Row, join, solve, start_from, subset, weighed


def polish(task: Task, groups: Sequence[Filled], weights: Weights) -> list[Filled]:
    """Improve every layer while the others of its group stay as they are, and take what fits together.

    All layers climb at once, each in the room that the present mappings of the others leave. Of the improvements of a
    group the largest are taken first, as long as the group fits.
    """
    current = list(groups)
    seats = [(i, turn, task.layer(c)) for i, one in enumerate(groups) for turn, c in enumerate(one.plan.conditions)]
    places = [(i, turn, layer.repeat) for i, turn, layer in seats if layer.is_mac]
    if not places:
        return current
    found = solve(task, [_row(task, groups[i], turn) for i, turn, _ in places], weights, pairs=True)
    now = np.array([weighed(groups[i].chosen, weights)[turn] for i, turn, _ in places])
    gains = (now - weighed(found, weights)) * [repeat for _, _, repeat in places]
    for j in sorted(np.flatnonzero(gains > 0).tolist(), key=lambda j: -gains[j]):
        i, turn, _ = places[j]
        plan, chosen, price = current[i]
        changed = join([subset(chosen, slice(turn)), subset(found, [j]), subset(chosen, slice(turn + 1, None))])
        if fits(task, plan, changed):
            current[i] = Filled(plan, changed, price - gains[j])
    return current


def _row(task: Task, filled: Filled, turn: int) -> Row:
    """A climb from the layer's present mapping, with the room the rest of its group leaves in every memory."""
    plan, chosen = filled.plan, filled.chosen
    # The layer's own sums do not wait for it.
    waiting = chosen.waiting.copy()
    waiting[:, turn] = 0
    total = peaks(task, plan, chosen.running, chosen.kept, waiting)
    room = room_left(task.all_room, total, chosen.running, chosen.kept, turn)
    return Row(plan.conditions[turn], start_from(chosen, turn), room)
