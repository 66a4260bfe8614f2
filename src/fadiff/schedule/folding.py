"""Groups that are the same but for the names of their layers: a network of many equal blocks has few kinds of them.

What a group costs, holds and would cost on another machine depends on its kind alone, so it need be computed, and
told, only once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fadiff.workload import Workload
from fadiff.workload.layer import MAX_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fadiff.schedule.ir import Group, Schedule


def group_kinds(schedule: Schedule) -> list[int]:
    """For each group the number of the first one that is the same but for names; its own where none before is."""
    first: dict[object, int] = {}
    return [first.setdefault(_kind(schedule, group), i) for i, group in enumerate(schedule.groups)]


def folded(schedule: Schedule) -> Schedule:
    """One group of each kind, repeated as often as all of its kind are: its cost is that of the whole schedule."""
    shares: dict[int, int] = {}
    for kind, group in zip(group_kinds(schedule), schedule.groups, strict=True):
        most = max(schedule.workload[name].repeat for name in group.layers)
        if (shares.get(kind, 0) + 1) * most > MAX_SIZE:
            return schedule
        shares[kind] = shares.get(kind, 0) + 1
    if len(shares) == len(schedule.groups):
        return schedule
    times = {name: count for kind, count in shares.items() for name in schedule.groups[kind].layers}
    layers = (replace(layer, repeat=layer.repeat * times.get(layer.name, 1)) for layer in schedule.workload.layers)
    excerpt = schedule.excerpt([schedule.groups[kind] for kind in shares])
    return replace(excerpt, workload=Workload(schedule.workload.name, tuple(layers)))


def run_kind(workload: Workload, names: Sequence[str]) -> tuple[object, ...]:
    """All that layers which run together are to the model: their shapes, the edges between them, and who else reads."""
    place = {name: i for i, name in enumerate(names)}
    found: list[object] = []
    for name in names:
        layer = workload[name]
        shape = (layer.kind, layer.dims, layer.stride, layer.dilation, layer.epilogue, layer.stored, layer.repeat)
        inputs = tuple((o.source and place.get(o.source, -1), replace(o, source=None)) for o in layer.inputs)
        readers = frozenset(place.get(edge.target, -1) for edge in workload.consumers[name])
        found.append((shape, layer.pad, inputs, workload.input_channels(layer), readers))
    return tuple(found)


def _kind(schedule: Schedule, group: Group) -> object:
    mappings = tuple(schedule.mappings.get(name) for name in group.layers)
    return group.trips, group.nesting, mappings, run_kind(schedule.workload, group.layers)
