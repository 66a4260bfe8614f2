"""Every mapping of a small layer: where there are few, none has to be climbed to.

Of all choices of factors at useful nodes and of useful orders those are kept that no other undercuts in price and in
every memory at once. With such menus the mappings of a group are the best there are, also where they fit to the byte.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np

from fadiff.search.exact.climb import price
from fadiff.search.exact.menus import Menu, subset
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array

    from fadiff.search.exact.conditions import Condition, Task
    from fadiff.search.objective import Weights

LARGEST_TILE = 512
MOST_MAPPINGS = 2**17
"""MACs of a shared iteration, and choices of factors and orders, up to which all mappings are priced."""
MOST_KEPT = 512
"""Mappings of a menu at most: the cheapest of those that nothing undercuts."""


def every_mapping(task: Task, condition: Condition, weights: Weights) -> Menu | None:
    """All mappings of a layer under a condition that are worth having; None where there are too many to try."""
    if not task.layer(condition).is_mac or prod(condition.tile) > LARGEST_TILE:
        return None
    tables = [coverings(size, len(task.space.nodes[dim])) for dim, size in zip(DIMS, condition.tile, strict=True)]
    orders = [len(choices) for choices in task.space.orders]
    if prod(map(len, tables)) * prod(orders) > MOST_MAPPINGS:
        return None
    picks = np.indices([len(table) for table in tables]).reshape(8, -1)
    factors = np.ones((len(task.machine.nodes), 8, picks.shape[1]))
    for d, (table, pick) in enumerate(zip(tables, picks, strict=True)):
        factors[list(task.space.nodes[DIMS[d]]), d] = np.array(table)[pick].T
    for node, axis in zip(task.machine.structure.axes, task.machine.axes, strict=True):
        factors = factors[:, :, factors[node].prod(axis=0) <= axis.size]
    chosen = np.indices(orders).reshape(len(orders), -1)
    count = factors.shape[2]
    factors, order = np.repeat(factors, chosen.shape[1], axis=2), np.tile(chosen, count)
    rows = task.rows([condition], [task.all_room], weights)
    found = price(
        task.structure,
        task.space.orders,
        rows,
        cast("Array", factors[..., None].astype(task.dtype)),
        cast("Array", order[..., None].astype(np.int32)),
        task.numbers,
        charges=task.charges,
    )
    every = Menu(*(np.asarray(values)[..., 0].astype(np.float64) for values in found))
    every = every._replace(order=cast("Array", np.asarray(every.order).astype(np.int32)))
    return subset(every, _worth_having(every, weights))


def _worth_having(menu: Menu, weights: Weights) -> list[int]:
    """Mappings that fit and that none undercuts in price and in bytes of every memory, the cheapest first."""
    cost = weights[0] * np.asarray(menu.energy_pj) + weights[1] * np.asarray(menu.cycles)
    held = np.concatenate([np.asarray(part) for part in (menu.running, menu.kept, menu.waiting)])
    fitting = np.flatnonzero(np.isfinite(np.asarray(menu.price)))
    # Of those that hold the same, the cheapest.
    order = fitting[np.argsort(cost[fitting], kind="stable")]
    _, first = np.unique(held[:, order], axis=1, return_index=True)
    left = order[np.sort(first)]
    kept: list[int] = []
    while left.size and len(kept) < MOST_KEPT:
        kept.append(int(left[0]))
        left = left[(held[:, left] < held[:, left[:1]]).any(axis=0)]
    return kept


@cache
def coverings(size: int, count: int) -> tuple[tuple[int, ...], ...]:
    """Every way to cover a size with whole factors at so many nodes, outermost first, none of them idle.

    >>> coverings(3, 2)
    ((3, 1), (2, 2), (1, 3))
    """
    if count == 1:
        return ((size,),)
    found = [(*outer, inner) for inner in range(1, size + 1) for outer in coverings(-(-size // inner), count - 1)]
    return tuple(dict.fromkeys(found))
