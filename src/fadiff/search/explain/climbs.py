"""Climbs without a compiled program: a few layers, from mappings that are good already.

Moves and prices are those of :mod:`fadiff.search.exact`, in NumPy and 64 bits. Near an optimum most layers stop
after a round or two, and compiling the search's own program would take longer than all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from fadiff.search.exact.climb import Moves, moved, price
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
        tried = after_moves(task, [rows[i] for i in left.tolist()], subset(best, left), weights)
        chosen = tried.price.argmin(axis=0)
        taken = Menu(*(values[..., chosen, np.arange(left.size)] for values in tried))
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
    tile = task.rows([row.condition for row in rows], [row.room for row in rows], weights).fusion.tile
    factors = np.stack([row.start.factors for row in rows], axis=-1)
    order = np.stack([row.start.order for row in rows], axis=-1)
    return _priced(task, rows, weights, settle(cast("Array", factors), tile), cast("Array", order), numbers)


def after_moves(
    task: Task, rows: Sequence[Row], now: Menu, weights: tuple[float, float], numbers: MachineArrays | None = None
) -> Menu:
    """The mappings of `now`, one per row, after each single move: ``[..., moves, rows]``."""
    conditions = [row.condition for row in rows]
    most = 1 + max(len(task.steps[False][condition.layer]) for condition in conditions)
    moves = Moves(*(part[:most] for part in task.moves(conditions, pairs=False)))
    tile = np.array([condition.tile for condition in conditions], dtype=np.float64).T
    factors, order = moved(now.factors[:, :, None], now.order[:, None], moves, cast("Array", tile[:, None]))
    return _priced(task, rows, weights, factors, order, numbers)


def _priced(
    task: Task,
    rows: Sequence[Row],
    weights: tuple[float, float],
    factors: Array,
    order: Array,
    numbers: MachineArrays | None,
) -> Menu:
    packed = task.rows([row.condition for row in rows], [row.room for row in rows], weights)
    machine = task.numbers if numbers is None else numbers
    return price(task.machine.structure, task.space.orders, packed, factors, order, machine)
