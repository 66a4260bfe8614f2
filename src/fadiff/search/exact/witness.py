"""A mapping that keeps what is asked of a layer, where no climb finds one: branch and bound over all of them.

Chains of extents that branch and bound ends with (:mod:`fadiff.search.solver.layer_bound`) are mappings but for what it
leaves out. Each is tried in all orders of loops that are allowed, until one keeps what is asked.
"""

from __future__ import annotations

from itertools import islice, product
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.exact.menus import Row, start_from, started
from fadiff.search.exact.starts import Start
from fadiff.search.solver.decode import factors_of
from fadiff.search.solver.grid import Cells
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.place import ON_ITS_OWN, Links, places

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fadiff.search.exact.conditions import Condition, Task
    from fadiff.search.solver.place import Place

WEIGHTS = (1.0, 0.0)
"""Prices at which parts are ranked: any do."""
MOST_WALKS = 160
"""Walks through a layer before it is given up."""
MOST_ORDERS = 2048
"""Orders of loops, of all memories together, in which a mapping is tried."""


def witness(task: Task, condition: Condition, layers: Sequence[str] = ()) -> Start | None:
    """A mapping of a layer on its own, or in a group of some layers, that keeps what is asked of it and fits if nothing
    else is there; None where none is met."""
    for place in _places(task, condition, layers):
        for start in _starts(task, condition, place):
            rows = [Row(condition, one, task.all_room) for one in _in_all_orders(task, condition, start)]
            tried = started(task, rows, WEIGHTS)
            best = int(np.asarray(tried.price).argmin())
            if np.isfinite(tried.price[best]):
                return start_from(tried, best)
    return None


def _places(task: Task, condition: Condition, layers: Sequence[str]) -> list[Place]:
    """What the bound knows of the layer among those of its group."""
    layer = task.layer(condition)
    if not layers:
        return [ON_ITS_OWN]
    links = Links(task.workload, task.machine)
    names = [name for name in layers if task.twin[task.number[name]] == condition.layer]
    around = frozenset(link for link in links.around(names[0] if names else layer.name) if {*layers}.issuperset(link))
    return [place for fused, place in places(links, task.workload[names[0]]) if fused == around]


def _starts(task: Task, condition: Condition, place: Place) -> Iterator[np.ndarray]:
    """Factors that branch and bound meets, until it has looked at everything, or long enough."""
    asked = task.restrictions.layer_asked(condition.layer)
    whole = LayerBound(task.layer(condition), task.machine, (place,), exact=task.exact_factors, asked=asked)
    tile = tuple(Cells((size,), (size,)) for size in condition.tile)
    bound, met = whole.within(WEIGHTS, (0, tile), place), 0
    known = bound.known(WEIGHTS)
    while bound.passes < MOST_WALKS:
        values = [inf if part.settled else value for part, value in zip(known.parts, known.value.tolist(), strict=True)]
        if min(values, default=inf) == inf:
            return
        bound.look(WEIGHTS, values.index(min(values)), inf)
        for candidate in bound.candidates[met:]:
            yield factors_of(candidate.extents, task.machine, task.space)
        met = len(bound.candidates)


def _in_all_orders(task: Task, condition: Condition, factors: np.ndarray) -> list[Start]:
    """A mapping in all orders of loops that are allowed, as far as they are few."""
    ends = task.restrictions.ends
    every = [
        [n for n in range(len(orders)) if ends is None or ends.orders[m, n, condition.layer] > 0]
        for m, orders in enumerate(task.space.orders)
    ]
    return [Start(factors, np.array(order, np.int32)) for order in islice(product(*every), MOST_ORDERS)]
