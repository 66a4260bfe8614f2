"""Climbs without a compiled program: a few layers, from mappings that are good already.

Moves and prices are those of :mod:`fadiff.search.exact`, in NumPy and 64 bits. Near an optimum most layers stop
after a round or two, and compiling the search's own program would take longer than all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from fadiff.search.exact.climb import Moves, best_of, moved, price
from fadiff.search.exact.menus import Menu, Row, join, stacked, subset
from fadiff.search.space import settle

if TYPE_CHECKING:
    from jax import Array

    from fadiff.hardware import MachineArrays
    from fadiff.search.driver import Weights
    from fadiff.search.exact.conditions import Task

CANDIDATES_PER_CALL = 2**13
"""Mappings priced at once: arrays that stay in the cache."""


def climbed(task: Task, rows: Sequence[Row], weights: Weights) -> Menu:
    """The mapping that the best single moves lead to from every row, of infinite price where nothing fits.

    The task is one of 64 bits.
    """
    found: list[Menu] = []
    for part in chunks(task, rows):
        best, left = started(task, part, weights), np.arange(len(part))
        while left.size:
            taken = best_of(after_moves(task, [part[i] for i in left.tolist()], subset(best, left), weights))
            better = taken.price < best.price[left] * (1 - 1e-9)
            left = left[better]
            for old, new in zip(best, taken, strict=True):
                old[..., left] = new[..., better]
        found.append(best)
    return join(found)


def chunks(task: Task, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Rows in parts whose moves can be priced at once."""
    size = max(1, CANDIDATES_PER_CALL // task.widths[False])
    return (rows[at : at + size] for at in range(0, len(rows), size))


def started(task: Task, rows: Sequence[Row], weights: Weights, numbers: MachineArrays | None = None) -> Menu:
    """The starts of rows, settled and priced; on other numbers than the task's, where they are given."""
    packed, start = stacked(task, rows, weights)
    tried = settle(cast("Array", start.factors), packed.fusion.tile), cast("Array", start.order)
    return price(task.machine.structure, task.space.orders, packed, *tried, numbers or task.numbers)


def after_moves(
    task: Task, rows: Sequence[Row], now: Menu, weights: Weights, numbers: MachineArrays | None = None
) -> Menu:
    """The mappings of `now`, one per row, after each single move: ``[..., moves, rows]``."""
    packed, conditions = stacked(task, rows, weights)[0], [row.condition for row in rows]
    most = 1 + max(len(task.steps[False][condition.layer]) for condition in conditions)
    moves = Moves(*(part[:most] for part in task.moves(conditions, pairs=False)))
    tried = moved(now.factors[:, :, None], now.order[:, None], moves, packed.fusion.tile[:, None])
    return price(task.machine.structure, task.space.orders, packed, *tried, numbers or task.numbers)
