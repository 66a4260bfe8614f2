"""The schedule over time: which layer runs when, what binds it, and what fills L2 meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from fadiff.report.breakdown import LayerCost, breakdown
from fadiff.schedule import halos
from fadiff.schedule.footprint import Step, footprint, group_steps

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Group, Schedule

PartKind = Literal["pinned weights", "kept inputs", "weight tile", "input tile", "buffer", "halo"]


@dataclass(frozen=True)
class L2Part:
    """Bytes of L2 that one tensor takes while a layer runs."""

    kind: PartKind
    """pinned weights, kept inputs: tiles that stay from one shared iteration to the next. weight tile, input tile:
    tiles of the running layer that do not. buffer: a fused tensor's tile. halo: rows and columns kept beside it."""
    layer: str
    """Whose weights, input or output it is."""
    bytes: int


@dataclass(frozen=True)
class LayerSpan:
    """One layer of a group on the time axis; all its turns laid end to end, repeats included."""

    layer: str
    start_cycles: float
    cycles: float
    bound_by: str
    """compute, L1, L2 or L3."""
    cycles_by_term: dict[str, float]
    """What each resource would need on its own (compute, l1, l2, l3), repeats included."""
    l2_parts: tuple[L2Part, ...]
    """They sum to `l2_bytes`."""
    l2_bytes: int
    """Exactly the number that the rule *fits* compares with the capacity."""
    l1_bytes: int


@dataclass(frozen=True)
class GroupSpan:
    """One group on the time axis."""

    group: int
    layers: tuple[str, ...]
    trips: dict[str, int]
    """Shared trip counts above 1, outer to inner."""
    start_cycles: float
    cycles: float
    peak_l2_bytes: int
    spans: tuple[LayerSpan, ...]


@dataclass(frozen=True)
class Timeline:
    """All groups in execution order, without gaps.

    The layers of a group take turns, one in every shared iteration; here each layer's turns stand together.
    """

    cycles: float
    l2_capacity_bytes: int
    l1_capacity_bytes: int
    groups: tuple[GroupSpan, ...]


def timeline(evaluation: Evaluation) -> Timeline:
    """When each layer runs and what is in L2 then."""
    schedule, costs = evaluation.schedule, breakdown(evaluation)
    cost_of = {layer.name: layer for layer in costs.layers}
    halo = halos(schedule.workload, schedule.fused_edges)
    order = [name for group in schedule.groups for name in group.layers]
    starts = accumulate((cost_of[name].cycles * cost_of[name].repeat for name in order), initial=0.0)
    start_of = dict(zip(order, starts, strict=False))
    groups: list[GroupSpan] = []
    for number, (group, cost) in enumerate(zip(schedule.groups, costs.groups, strict=True)):
        kept = list(_kept(schedule, group, halo))
        spans = tuple(
            _span(schedule, group, step, kept, cost_of[step.layer], start_of[step.layer])
            for step in group_steps(schedule, group, halo)
        )
        groups.append(
            GroupSpan(
                group=number,
                layers=group.layers,
                trips=cost.trips,
                start_cycles=spans[0].start_cycles,
                cycles=cost.cycles,
                peak_l2_bytes=max(span.l2_bytes for span in spans),
                spans=spans,
            )
        )
    return Timeline(costs.totals.cycles, costs.l2_capacity_bytes, costs.l1_capacity_bytes, tuple(groups))


def _kept(schedule: Schedule, group: Group, halo: dict[str, tuple[int, int]]) -> Iterator[L2Part]:
    """Tiles that are in L2 while any layer of the group runs."""
    held = {name: footprint(schedule, schedule.workload[name], halo.get(name, (0, 0))) for name in group.layers}
    for name, one in held.items():
        if one.kept_weight:
            yield L2Part("pinned weights", name, one.kept_weight)
    for name, one in held.items():
        if one.kept_input:
            yield L2Part("kept inputs", name, one.kept_input)


def _span(schedule: Schedule, group: Group, step: Step, kept: list[L2Part], cost: LayerCost, start: float) -> LayerSpan:
    parts = [*kept]
    if size := step.l2_parts.get(f"weight tile of {step.layer}"):
        parts.append(L2Part("weight tile", step.layer, size))
    if size := step.l2_parts.get(f"input tile of {step.layer}"):
        parts.append(L2Part("input tile", step.layer, size))
    for name in group.layers:
        if size := step.l2_parts.get(f"buffer of {name}"):
            tile = _tile_words(schedule, group, name)
            parts.append(L2Part("buffer", name, tile))
            if size > tile:
                parts.append(L2Part("halo", name, size - tile))
    return LayerSpan(
        layer=step.layer,
        start_cycles=start,
        cycles=cost.cycles * cost.repeat,
        bound_by=cost.bound_by,
        cycles_by_term={term: cycles * cost.repeat for term, cycles in cost.cycles_by_term.items()},
        l2_parts=tuple(parts),
        l2_bytes=step.l2_bytes,
        l1_bytes=step.l1_bytes,
    )


def _tile_words(schedule: Schedule, group: Group, name: str) -> int:
    """What a producer leaves in its buffer in one shared iteration; all that the buffer holds beyond it is halo."""
    trips, pair = group.trips, schedule.channel_loop(group)
    shared = trips.G * trips.N * trips.P * trips.Q
    if pair is not None and name == pair[0]:
        shared *= trips.X
    return schedule.workload[name].stored_words // shared
