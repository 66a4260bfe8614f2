"""A schedule as tools see it that know single layers: each on its own, and a word on all that this leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from fadiff.export.exported import Remark
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.schedule.rules import Examined, violations
from fadiff.workload import DIMS, Dims, Layer


def layers_alone(schedule: Schedule) -> tuple[Schedule, list[Remark]]:
    """The same layers in groups of one, and what is lost of the schedule when they run so.

    Loops that a group shares become loops of the first memory. A mapping may then break a rule that it kept in its
    group: it is left as it is, and told.
    """
    examined = Examined(schedule)
    mappings = {layer.name: _alone(examined, layer, mapping) for layer, mapping in examined.mapped()}
    groups = tuple(Group((name,)) for group in schedule.groups for name in group.layers)
    apart = replace(schedule, groups=groups, mappings=mappings, bound=None, asked=None)
    remarks = [*_of_machine(schedule), *(found for layer in schedule.layers for found in _of_layer(schedule, layer))]
    for violation in violations(apart):
        for name in violation.layers:
            told = violation.message.removeprefix(f"{name}: ")
            remarks.append(Remark(name, f"on its own it breaks the rule {violation.rule}: {told}"))
    return apart, remarks


def _alone(examined: Examined, layer: Layer, mapping: Mapping) -> Mapping:
    """A layer's mapping without its group: the first memory runs what is left of each dim, shared loops outside."""
    group, i = examined.schedule.group_of[layer.name], examined.number[layer.name]
    if group.iterations == 1:
        return mapping
    inner = [min(size, prod(f[d] for f in mapping.factors[1:])) for d, size in enumerate(layer.dims)]
    first = Dims(*(-(-size // below) for size, below in zip(layer.dims, inner, strict=True)))
    nested = [d for loop in group.nesting for d in ((group.x_dim(layer.name) if loop == "X" else loop),) if d]
    shared = [d for d in nested if examined.shared[DIMS.index(d), i] > 1]
    order = "".join([*shared, *(d for d in mapping.orders[0] if d not in shared)])
    return Mapping((first, *mapping.factors[1:]), (order, *mapping.orders[1:]))


def _of_machine(schedule: Schedule) -> Iterator[Remark]:
    machine = schedule.machine
    if machine.overlap == "none":
        first = machine.memories[0].name
        yield Remark(None, f"transfers of {first} do not overlap with work on {machine.name}: cycles will be fewer")


def _of_layer(schedule: Schedule, layer: Layer) -> Iterator[Remark]:
    name, group, machine = layer.name, schedule.group_of[layer.name], schedule.machine
    first, trips = machine.memories[0].name, [(loop, n) for loop, n in group.trips._asdict().items() if n > 1]
    shares = " and ".join(f"{n} trips over {loop}" for loop, n in trips)
    if len(group.layers) > 1:
        told = f"fused in a group of {len(group.layers)}" + (f" that shares {shares}" if shares else "")
        yield Remark(name, f"{told}: each layer is written as it runs on its own, with its tensors in {first}")
    elif shares:
        yield Remark(name, f"its group of one shares {shares}: they are written as loops of {first}")
    if not layer.is_mac:
        yield Remark(name, "an add layer has no mapping: it is left out")
        return
    if layer.stored_words != layer.output_words:
        stored, computed = ("x".join(map(str, pair)) for pair in (layer.stored, (layer.dims.P, layer.dims.Q)))
        yield Remark(name, f"of {computed} outputs {stored} are stored after its epilogue: all are counted as stored")
    if operations := machine.vector_operations(layer):
        yield Remark(name, f"its epilogue takes {operations:,} operations on the vector unit: they are not counted")
    if layer.repeat > 1:
        yield Remark(name, f"it runs {layer.repeat} times: the files are those of one run", lost=False)
