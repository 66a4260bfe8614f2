"""The two methods without fusion, as the driver calls them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, cast

import jax
import numpy as np

from fadiff.search.deadline import OutOfTimeError
from fadiff.search.driver import Status
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.method import ExactSearch
from fadiff.search.layerwise.descent import Fixed, State, descend, init, to_point
from fadiff.search.layerwise.mapspace import MapSpace, Model, pack_mapspace, to_schedule
from fadiff.search.layerwise.points import choose_orders, repair, round_point
from fadiff.search.layerwise.starts import Start, normalizers, rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jax import Array
    from jaxtyping import Float

    from fadiff.hardware import Machine
    from fadiff.search.driver import Incumbent, Settings
    from fadiff.search.layerwise.mapspace import Orders, Point
    from fadiff.workload import Workload

TUNED_STARTS = 128
"""Without fusion there is time for eight times as many starts of each layer."""
SECONDS_PER_NODE = 0.5
"""For each node of a machine compiling the descent takes so long at least, where it is not in the cache."""
_STEPS_PER_CHUNK = 100


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
    assert incumbent.best is not None, "the driver starts from a legal schedule"
    space = pack_mapspace(Task(workload, machine), settings.objective)
    if not space.mapped:
        return
    if settings.seconds_left < SECONDS_PER_NODE * len(machine.nodes):
        raise OutOfTimeError
    random = np.random.default_rng(settings.seed)
    units, count = normalizers(space), settings.restarts or own.starts
    for starts in islice(rounds(space, random, incumbent.best.schedule, count, own.reject_over), own.rounds):
        yield from _one_round(space, starts, units, incumbent, own)


def layerwise_tuned(workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent) -> Iterator[Status]:
    """Our own search with every layer on its own: what is left of it without fusion."""
    exact = ExactSearch(Task(workload, machine, settings.deadline), settings, incumbent)
    yield from exact.map(TUNED_STARTS, polished=True)
    yield from exact.polish()


def _one_round(
    space: MapSpace,
    starts: list[Start],
    units: Float[np.ndarray, "free 1 1"],
    incumbent: Incumbent,
    own: LayerwiseSettings,
) -> Iterator[Status]:
    """Descend from every start, rounding on the way. Descent goes on from the rounded point, with Adam's state kept."""
    internal: Model = jax.tree.map(_narrow, space.internal)
    orders, scale = np.stack([start.orders for start in starts]), np.array([start.cost for start in starts])
    state, legal = init(_narrow(np.stack([start.point for start in starts], axis=1) / units)), None
    for begin in range(0, own.steps, own.round_every):
        end = min(begin + own.round_every, own.steps)
        fixed = Fixed(_narrow(units), cast("Array", orders), _narrow(scale), own.learning_rate)
        for step in range(begin, end, _STEPS_PER_CHUNK):
            count = min(_STEPS_PER_CHUNK, end - step)
            state = cast("State", descend(space.frame, internal, fixed, state, count))
            # Programs run behind Python's back; the driver's clock must not.
            jax.block_until_ready(state.variables)
            if step + count < end:
                yield Status("descend", step + count, own.steps, legal_share=legal)
        reached = np.asarray(to_point(internal, state.variables, fixed.normalizers), dtype=np.float64)
        point = round_point(space, reached)
        orders, _ = choose_orders(space, space.internal, point, orders)
        state = state._replace(variables=_narrow(point / units))
        legal = _offer(space, point, orders, incumbent)
        yield Status("descend", end, own.steps, legal_share=legal)


def _offer(space: MapSpace, point: Point, orders: Orders, incumbent: Incumbent) -> float:
    """Repair a rounded point, and offer it in the orders that the exact model prefers; the share that was legal."""
    repaired = repair(space, point, orders)
    best, _ = choose_orders(space, space.exact, repaired, orders)
    for start in range(point.shape[1]):
        incumbent.offer(to_schedule(space, repaired[:, start], best[start]))
    return float((repaired == point).all(axis=(0, 2)).mean())


def _narrow(values: object) -> Array:
    wide = np.asarray(values)
    return cast("Array", wide.astype(np.float32) if wide.dtype == np.float64 else wide)
