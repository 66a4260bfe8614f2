"""The schedule over time: which layer runs when, what binds it, and what fills every memory meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from fadiff.analysis.breakdown import breakdown
from fadiff.analysis.occupancy import Part, occupancy

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.schedule import Schedule


@dataclass(frozen=True)
class LayerSpan:
    """One layer of a group on the time axis; all its turns laid end to end, repeats included."""

    layer: str
    start_cycles: float
    cycles: float
    bound_by: str
    """compute, or a memory."""
    held: dict[str, tuple[Part, ...]]
    """By memory below the first: what is there; the parts sum to `bytes`."""
    bytes: dict[str, float]
    """Exactly the numbers that the rule *fits* compares with the capacities."""


@dataclass(frozen=True)
class GroupSpan:
    """One group on the time axis."""

    group: int
    layers: tuple[str, ...]
    trips: dict[str, int]
    """Shared trip counts above 1, outer to inner."""
    start_cycles: float
    cycles: float
    peak_bytes: dict[str, float]
    spans: tuple[LayerSpan, ...]


@dataclass(frozen=True)
class Timeline:
    """All groups in execution order, without gaps.

    The layers of a group take turns, one in every shared iteration; here each layer's turns stand together.
    """

    cycles: float
    capacity_bytes: dict[str, float]
    """Of one instance of each memory below the first."""
    shown: str
    """The memory to look at first."""
    groups: tuple[GroupSpan, ...]


def timeline(evaluation: Evaluation) -> Timeline:
    """When each layer runs and what is in the memories then."""
    schedule, costs = evaluation.schedule, breakdown(evaluation)
    cost_of = {layer.name: layer for layer in costs.layers}
    held = occupancy(schedule)
    order = [name for group in schedule.groups for name in group.layers]
    starts = accumulate((cost_of[name].cycles * cost_of[name].repeat for name in order), initial=0.0)
    start_of = dict(zip(order, starts, strict=False))

    def span(name: str) -> LayerSpan:
        cost = cost_of[name]
        cycles = cost.cycles * cost.repeat
        return LayerSpan(name, start_of[name], cycles, cost.bound_by, held[name], cost.bytes)

    groups = tuple(
        GroupSpan(
            group=number,
            layers=cost.layers,
            trips=cost.trips,
            start_cycles=start_of[cost.layers[0]],
            cycles=cost.cycles,
            peak_bytes=cost.peak_bytes,
            spans=tuple(span(name) for name in cost.layers),
        )
        for number, cost in enumerate(costs.groups)
    )
    return Timeline(costs.totals.cycles, costs.capacity_bytes, shown_memory(schedule), groups)


def shown_memory(schedule: Schedule) -> str:
    """The memory to look at first: the one that holds fused tensors, or else the first on chip."""
    return (schedule.machine.fused_in() or schedule.machine.memories[1]).name
