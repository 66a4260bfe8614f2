"""What more memory or more lanes are worth to a schedule whose mapping follows.

As long as a schedule fits, its cost does not depend on capacities or on the sizes of axes: what more of them is worth
shows when its layers take mappings that did not fit before. Here each layer looks at its next mappings, those a single
move away, which would need more of one memory or axis than there is and no more of any other than that has. Between
what is needed now and what the move needs, the layer's cost is taken for a power of it:

.. math:: \\frac{d \\log cost}{d \\log x} \\approx \\min_{moves} \\frac{\\log(cost' / cost)}{\\log(need' / need)}

Costs of layers add up by their shares of the network. Layers of a group use a memory in turns, so each of them may grow
a tile that passes; one that stays takes its bytes from all of them. So a group gains by its best tile that stays, or by
the best tile that passes of every layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.exact.conditions import Room, Task
from fadiff.search.exact.menus import Menu, Row, started
from fadiff.search.explain.climbs import affordable, after_moves, chunks, costliest, present_rows
from fadiff.search.objective import EDP

if TYPE_CHECKING:
    from jaxtyping import Float

    from fadiff.cost import Evaluation

NOISE = 1e-12
"""Gains below are rounding."""
LEAST_GROWTH = 0.01
"""A move that needs less than 1% more counts as one that needs 1%, for which elasticities are told."""
MOST_MOVES = 2**21
"""Moves that all layers may have together, at every node: of the others, which cost least, nothing is looked at."""
TINY = 1e-300
"""In the place of energies and cycles that are 0, which have no logarithm and no share of the network."""


class Parts(NamedTuple):
    """d log energy and d log cycles by d log x; their sum is that of EDP."""

    energy: float = 0.0
    cycles: float = 0.0

    @property
    def edp(self) -> float:
        """d log EDP by d log x."""
        return self.energy + self.cycles


def following(evaluation: Evaluation) -> dict[str, Parts]:
    """Elasticities by memory below the first, and by axis; never positive, since nothing has to follow."""
    schedule = evaluation.schedule
    task = Task(schedule.workload, schedule.machine, dtype=np.float64)
    rows = present_rows(task, schedule)
    rows = {name: rows[name] for name in costliest(evaluation, rows, affordable(task, MOST_MOVES))}
    weights = EDP.weights(evaluation)
    all_rows = list(rows.values())
    slopes = [_slopes(task, [all_rows[i] for i in part], weights) for part in chunks(task, range(len(all_rows)))]
    by_layer: dict[str, np.ndarray] = dict(zip(rows, (one for part in slopes for one in part), strict=True))
    nodes = [node.name for node in (*task.machine.memories[1:], *task.machine.axes)]
    total = np.zeros((len(nodes), 2))
    for group in schedule.groups:
        mine = [by_layer[name] for name in group.layers if name in by_layer]
        for i in range(len(nodes) if mine else 0):
            passing = np.sum([each[0, i] for each in mine], axis=0)
            total[i] += min(passing, *(each[1, i] for each in mine), key=np.sum)
    return {name: Parts(*parts) for name, parts in zip(nodes, total.tolist(), strict=True)}


def _slopes(
    task: Task, rows: Sequence[Row], weights: tuple[float, float]
) -> Float[np.ndarray, "rows kinds nodes parts"]:
    """What the best move of each row gains per growth of what it needs.

    Kinds are moves whose tile passes, and those whose tile stays; nodes the memories below the first, then the axes;
    parts d log energy and d log cycles of the network.
    """
    room = Room(*[(np.inf,) * len(task.all_room.running)] * 2)
    free, numbers = [row._replace(room=room) for row in rows], task.numbers._replace(lanes=task.numbers.lanes * np.inf)
    start = started(task, free, weights, numbers)
    now, then = Menu(*(values[..., None, :] for values in start)), after_moves(task, free, start, weights, numbers)

    need, needed = _needs(task, rows, now, now), _needs(task, rows, now, then)
    there = np.array([*task.all_room.running, *task.numbers.lanes])[:, None, None]
    over = needed > there * (1 + 1e-9)
    only = over & (over.sum(axis=0) == 1) & (needed > need) & np.isfinite(then.price)
    growth = np.maximum(np.log(np.where(only, needed / np.maximum(need, 1), np.e)), LEAST_GROWTH)
    repeat = np.array([task.layer(row.condition).repeat for row in rows])
    before = np.maximum([now.energy_pj, now.cycles], TINY)
    after = np.maximum([then.energy_pj, then.cycles], TINY)
    gains = np.array(weights)[:, None, None] * repeat * before * np.log(after / before)
    slopes = gains[:, None] / growth
    stays = np.zeros_like(only)
    stays[: len(room.kept)] = _staying(then) > _staying(now)
    kinds: list[Float[np.ndarray, "parts nodes rows"]] = []
    for mask in (only & ~stays, only & stays):
        gained = np.where(mask & (slopes.sum(axis=0) < -NOISE), slopes, 0)
        best = gained.sum(axis=0).argmin(axis=1)
        kinds.append(np.take_along_axis(gained, best[None, :, None], axis=2)[:, :, 0])
    return np.stack(kinds).transpose(3, 0, 2, 1)


def _staying(mapped: Menu) -> Float[np.ndarray, "memories moves rows"]:
    """Bytes of a layer that are there while others of its group run."""
    return mapped.kept + mapped.waiting


def _needs(task: Task, rows: Sequence[Row], now: Menu, then: Menu) -> Float[np.ndarray, "nodes moves rows"]:
    """Bytes in each memory below the first, at the fullest while or because a layer runs, and lanes of each axis."""
    running, kept = (np.array([row.room[i] for row in rows]).T[:, None] for i in (0, 1))
    over = np.maximum(then.running - running, _staying(then) - now.waiting - kept)
    lanes = [then.factors[axis].prod(axis=0) for axis in task.machine.structure.axes]
    there = np.array(task.all_room.running)[:, None, None]
    return np.concatenate([there + over, *(used[None] for used in lanes)])
