"""Climbs without a compiled program: a few layers, from mappings that are good already.

Moves and prices are those of :mod:`fadiff.search.exact`, in NumPy and 64 bits. Near an optimum most layers stop
after a round or two, and compiling the search's own program would take longer than all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from fadiff.search.exact.climb import Moves, Rows, best_of, moved, price
from fadiff.search.exact.menus import Menu, Row, join, subset
from fadiff.search.space import settle

if TYPE_CHECKING:
    from jax import Array

    from fadiff.hardware import MachineArrays
    from fadiff.search.exact.conditions import Task

CANDIDATES_PER_CALL = 2**13
"""Mappings priced at once: arrays that stay in the cache."""


def climbed(task: Task, rows: Sequence[Row], weights: tuple[float, float]) -> Menu:
    """The mapping that the best single moves lead to from every row, of infinite price where nothing fits.

    The task is one of 64 bits.
    """
    return join([_climbed(task, part, weights) for part in chunks(task, rows)])


def _climbed(task: Task, rows: Sequence[Row], weights: tuple[float, float]) -> Menu:
    best = started(task, rows, weights)
    left = np.arange(len(rows))
    while left.size:
        taken = best_of(after_moves(task, [rows[i] for i in left.tolist()], subset(best, left), weights))
        better = taken.price < best.price[left] * (1 - 1e-9)
        left = left[better]
        for old, new in zip(best, taken, strict=True):
            old[..., left] = new[..., better]
    return best


def chunks(task: Task, rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Rows in parts whose moves can be priced at once."""
    size = max(1, CANDIDATES_PER_CALL // task.widths[False])
    return (rows[at : at + size] for at in range(0, len(rows), size))


def started(
    task: Task, rows: Sequence[Row], weights: tuple[float, float], numbers: MachineArrays | None = None
) -> Menu:
    """The starts of rows, settled and priced; on other numbers than the task's, where they are given."""
    packed = _packed(task, rows, weights)
    factors, order = (np.stack(parts, axis=-1) for parts in zip(*(row.start for row in rows), strict=True))
    tried = settle(cast("Array", factors), packed.fusion.tile), cast("Array", order)
    return price(task.machine.structure, task.space.orders, packed, *tried, numbers or task.numbers)


def after_moves(
    task: Task, rows: Sequence[Row], now: Menu, weights: tuple[float, float], numbers: MachineArrays | None = None
) -> Menu:
    """The mappings of `now`, one per row, after each single move: ``[..., moves, rows]``."""
    conditions, packed = [row.condition for row in rows], _packed(task, rows, weights)
    most = 1 + max(len(task.steps[False][condition.layer]) for condition in conditions)
    moves = Moves(*(part[:most] for part in task.moves(conditions, pairs=False)))
    tried = moved(now.factors[:, :, None], now.order[:, None], moves, packed.fusion.tile[:, None])
    return price(task.machine.structure, task.space.orders, packed, *tried, numbers or task.numbers)


def _packed(task: Task, rows: Sequence[Row], weights: tuple[float, float]) -> Rows:
    return task.rows([row.condition for row in rows], [row.room for row in rows], weights)
