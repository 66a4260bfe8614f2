"""The two methods without fusion, as the driver calls them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, cast

import jax
import numpy as np

from fadiff.search.driver import Status
from fadiff.search.joint import WITHOUT_FUSION, joint
from fadiff.search.layerwise.descent import Fixed, State, descend, init, to_point
from fadiff.search.layerwise.mapspace import MapSpace, pack_mapspace, ranks3, to_schedule
from fadiff.search.layerwise.repair import repair
from fadiff.search.layerwise.rounding import choose_orders, round_point
from fadiff.search.layerwise.starts import Starts, normalizers, rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jax import Array
    from numpy.typing import NDArray

    from fadiff.hardware import Hardware
    from fadiff.search.driver import Incumbent, Settings
    from fadiff.workload import Workload

    IntArray = NDArray[np.int64]
    FloatArray = NDArray[np.float64]

TUNED = replace(WITHOUT_FUSION, starts=128)
"""Without fusion there is time for eight times as many starts of each layer."""
_STEPS_PER_CHUNK = 100


@dataclass(frozen=True)
class LayerwiseOptions:
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
    spill_words: float = 1.0
    """Words that DOSA's model counts at L3 for a sum that leaves L1 unfinished."""
    rounds: int = 100
    """Published is one. More of them use the budget that other methods have too."""


def layerwise(
    workload: Workload,
    hardware: Hardware,
    settings: Settings,
    incumbent: Incumbent,
    options: LayerwiseOptions = LayerwiseOptions(),
) -> Iterator[Status]:
    """DOSA's gradient descent on the mappings of all layers, for a given machine.

    Rounds of starts descend until the rounds or the budget are used up. Each rounded point is repaired and offered.
    """
    assert incumbent.best is not None, "the driver starts from a legal schedule"
    space = pack_mapspace(workload, hardware, settings.objective, options.spill_words)
    if not space.kinds:
        return
    random = np.random.default_rng(settings.seed)
    units = normalizers(space, random)
    count = settings.restarts or options.starts
    found = rounds(space, random, incumbent.best.schedule, count, options.reject_over)
    for starts in islice(found, options.rounds):
        yield from _one_round(space, starts, units, incumbent, options)


def layerwise_tuned(
    workload: Workload, hardware: Hardware, settings: Settings, incumbent: Incumbent
) -> Iterator[Status]:
    """Our own search with every layer on its own: what is left of ``gradient`` without fusion."""
    return joint(workload, hardware, settings, incumbent, TUNED)


def _one_round(
    space: MapSpace, starts: Starts, units: FloatArray, incumbent: Incumbent, options: LayerwiseOptions
) -> Iterator[Status]:
    """Descend from every start, rounding on the way. Descent goes on from the rounded point, with Adam's state kept."""
    state, orders, legal = init(_narrow(starts.point / units)), starts.orders, None
    for begin in range(0, options.steps, options.round_every):
        end = min(begin + options.round_every, options.steps)
        fixed = Fixed(_narrow(units), _narrow(ranks3(orders)), _narrow(starts.cost), options.learning_rate)
        for step in range(begin, end, _STEPS_PER_CHUNK):
            count = min(_STEPS_PER_CHUNK, end - step)
            state = cast("State", descend(space.internal, fixed, state, count))
            # Programs run behind Python's back; the driver's clock must not.
            jax.block_until_ready(state.variables)
            if step + count < end:
                yield Status("descend", step + count, options.steps, legal_share=legal)
        reached = to_point(space.internal, state.variables, fixed.normalizers)
        point = round_point(space, np.asarray(reached, dtype=np.float64))
        orders, _ = choose_orders(space.internal, point, orders)
        state = state._replace(variables=_narrow(point / units))
        legal = _offer(space, point, orders, incumbent)
        yield Status("descend", end, options.steps, legal_share=legal)


def _offer(space: MapSpace, point: IntArray, orders: IntArray, incumbent: Incumbent) -> float:
    """Repair a rounded point, and offer it in the orders that the exact model prefers; the share that was legal."""
    repaired = repair(space, point, orders)
    best, _ = choose_orders(space.exact, repaired, orders)
    for start in range(point.shape[2]):
        incumbent.offer(to_schedule(space, repaired[:, :, start], best[start]))
    return float((repaired == point).all(axis=(0, 1, 3)).mean())


def _narrow(values: FloatArray | Array) -> Array:
    return cast("Array", np.asarray(values, dtype=np.float32))
