"""The two methods without fusion, as the driver calls them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, cast

import jax
import numpy as np

from fadiff.search.driver import Pace, Status
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.method import ExactSearch
from fadiff.search.layerwise.descent import Fixed, State, descend, init
from fadiff.search.layerwise.mapspace import MapSpace, pack_mapspace, to_schedule
from fadiff.search.layerwise.points import choose_orders, normalizers, repair, round_point, rounds
from fadiff.search.programs import compile_in_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fadiff.hardware import Machine
    from fadiff.search.driver import Incumbent, Settings
    from fadiff.search.layerwise.mapspace import Orders, Point
    from fadiff.workload import Workload

TUNED_STARTS = 128
"""Without fusion there is time for twice as many starts of each layer, or more."""
_STEPS_PER_STATUS = 100


@dataclass(frozen=True)
class LayerwiseSettings:
    """DOSA's published settings, and how often they are gone through."""

    starts: int = 7
    """Descents that run as one batch: a round."""
    steps: int = 1490
    """Steps of a descent."""
    round_every: int = 500
    """Steps after which the point is rounded; it is also rounded at the end."""
    learning_rate: float = 7.5e-5
    """Of the published rates, 1e-5 to 7.5e-5, the one that gets farthest."""
    reject_over: float = 10.0
    """Starts that cost more than this times the best are drawn again."""
    rounds: int = 100
    """Published is one. More of them use the budget that other methods have too."""


def layerwise(
    workload: Workload,
    machine: Machine,
    settings: Settings,
    incumbent: Incumbent,
    own: LayerwiseSettings = LayerwiseSettings(),
) -> Iterator[Status]:
    """DOSA's gradient descent on the mappings of all layers, for a given machine.

    Rounds of starts descend until the rounds or the budget are used up. Each rounded point is repaired and offered.
    """
    # Where something must be fused, there is no other.
    begin = incumbent.unfused or incumbent.best
    assert begin is not None, "the driver starts from a legal schedule"
    space = pack_mapspace(Task.of(workload, machine, settings), settings.objective)
    if not space.mapped:
        return
    random, pace = np.random.default_rng(settings.seed), Pace()
    units, many = normalizers(space), settings.restarts or own.starts
    marks = {*range(0, own.steps, own.round_every), *range(0, own.steps, _STEPS_PER_STATUS), own.steps}
    for starts in islice(rounds(space, random, begin.schedule, many, own.reject_over), own.rounds):
        points, orders, costs = map(np.stack, zip(*starts, strict=True))
        state, legal = init(points.swapaxes(0, 1) / units), None
        for begin, end in pairwise(sorted(marks)):
            fixed = Fixed(units, orders, costs, own.learning_rate)
            tried = space.internal, fixed, state, 1
            compile_in_time("the descent", settings.deadline, len(machine.nodes), descend, *tried)
            while begin < end:
                count = pace.piece(end - begin)
                with pace.work(settings.deadline, count):
                    state = cast("State", descend(space.internal, fixed, state, count))
                    # Programs run behind Python's back; the clock must not.
                    jax.block_until_ready(state.variables)
                begin += count
            if end % own.round_every == 0 or end == own.steps:
                # Descent goes on from the rounded point, with Adam's state kept.
                point = round_point(space, np.asarray(state.variables * units, dtype=np.float64))
                state = state._replace(variables=point / units)
                orders, _ = choose_orders(space, space.internal, point, orders)
                legal = _offer(space, point, orders, incumbent)
            yield Status("descend", end, own.steps, legal_share=legal)


def layerwise_tuned(workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent) -> Iterator[Status]:
    """Our own search with every layer on its own: what is left of it without fusion."""
    exact = ExactSearch(Task.of(workload, machine, settings), settings, incumbent)
    yield from exact.map(TUNED_STARTS, polished=True)
    yield from exact.solve()
    yield from exact.polish()


def _offer(space: MapSpace, point: Point, orders: Orders, incumbent: Incumbent) -> float:
    """Repair a rounded point, and offer it in the orders that the exact model prefers; the share that was legal."""
    repaired = repair(space, point, orders)
    best, _ = choose_orders(space, space.exact, repaired, orders)
    for start, chosen in enumerate(best):
        incumbent.offer(to_schedule(space, repaired[:, start], chosen))
    return float((repaired == point).all(axis=(0, 2)).mean())
