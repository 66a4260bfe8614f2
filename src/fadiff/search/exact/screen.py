"""Mappings that are known of a layer, tried as they stand under other conditions: a thousandth of the price of a climb.

A mapping of a layer on its own, settled into the tiles of a group, is near what a climb would end at. So it tells which
groups may pay, and gives most of them their first mappings; climbs then start from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.exact.menus import Hints, Menu, Menus, Row, room_in_group, started, subset, weighed
from fadiff.search.exact.starts import full_array, outermost, pinned

if TYPE_CHECKING:
    from fadiff.search.exact.conditions import Condition, Task
    from fadiff.search.exact.starts import Start
    from fadiff.search.objective import Weights

ROWS_AT_ONCE = 4096
"""Mappings that are priced in one call: so many that fit in a processor's cache."""
MOST_KEPT = 4
"""Mappings of a condition that are kept at most."""


def known_under(task: Task, conditions: Sequence[Condition], known: Hints, weights: Weights) -> Menus:
    """Of the known mappings of layers those worth having under each condition."""
    return _best(task, ((c, known.get(c.layer, ())) for c in conditions), weights)


def screened(task: Task, conditions: Sequence[Condition], known: Hints, weights: Weights) -> Menus:
    """The same, and of a full array. Where none fits, tiles of one value do in some order, or nothing does: the menu is
    empty then."""
    found = _best(task, ((c, _starts(task, c, known)) for c in conditions), weights)
    stuck = [c for c, menu in found.items() if not menu.price.size]
    return found | _best(task, ((c, _smallest(task, c)) for c in stuck), weights)


def _starts(task: Task, condition: Condition, known: Hints) -> list[Start]:
    if not task.layer(condition).is_mac:
        return [outermost(task)]
    return [*known.get(condition.layer, ()), full_array(task, condition), pinned(task, condition)]


def _smallest(task: Task, condition: Condition) -> list[Start]:
    """Tiles of one value, without weights at home and with them, in every order of the first memory's loops."""
    starts = outermost(task), pinned(task, condition, outermost(task))
    orders = [np.concatenate([[number], starts[0].order[1:]]) for number in range(len(task.space.orders[0]))]
    return [start._replace(order=order.astype(np.int32)) for start in starts for order in orders]


def _best(task: Task, starts: Iterable[tuple[Condition, Sequence[Start]]], weights: Weights) -> Menus:
    """What fits of the starts of each condition: the cheapest, and dearer ones for less of the memory that fuses."""
    found: Menus = {}
    part: list[tuple[Condition, int]] = []
    rows: list[Row] = []
    for condition, mine in starts:
        if rows and len(rows) + len(mine) > ROWS_AT_ONCE:
            found |= _chosen(task, part, rows, weights)
            part, rows = [], []
        room = room_in_group(task, condition)
        part.append((condition, len(mine)))
        rows += [Row(condition, start, room) for start in mine]
    return found | _chosen(task, part, rows, weights) if rows else found


def _chosen(task: Task, part: Sequence[tuple[Condition, int]], rows: Sequence[Row], weights: Weights) -> Menus:
    """The same of conditions that have so many of some rows each."""
    fusing = task.fusing
    assert fusing is not None, "groups need a memory that fuses"
    priced = started(task, rows, weights)
    every = Menu(*(values.astype(np.float64) if values.dtype == np.float32 else values for values in priced))
    cost = np.where(np.isfinite(every.price), weighed(every, weights), np.inf)
    found: Menus = {}
    at = 0
    for condition, count in part:
        order = at + np.argsort(cost[at : at + count], kind="stable")
        order, at = order[np.isfinite(cost[order])], at + count
        taken = every.running[fusing, order]
        smaller = np.append(True, taken[1:] < np.minimum.accumulate(taken)[:-1])[: order.size]
        found[condition] = subset(every, order[smaller][:MOST_KEPT])
    return found
