"""Which schedules are legal: named rules that report every violation, with layers and numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from fadiff.errors import FadiffError
from fadiff.schedule.footprint import footprint, group_steps
from fadiff.schedule.halo import halos
from fadiff.schedule.ir import Group, Mapping, Schedule
from fadiff.workload import DIMS, Layer


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule."""

    rule: str
    layers: tuple[str, ...]
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


class IllegalScheduleError(FadiffError):
    """A schedule that breaks rules; `violations` lists all of them, `sentences` says them with the file's name."""

    def __init__(self, violations: list[Violation], file: Path | None = None) -> None:
        self.violations = violations
        self.sentences = [f"{file}: {violation}" if file else str(violation) for violation in violations]
        super().__init__("; ".join(self.sentences))


def violations(schedule: Schedule) -> list[Violation]:
    """Every rule the schedule breaks, in the order of :data:`RULES`; empty for a legal schedule."""
    return [violation for rule in RULES.values() for violation in rule(schedule)]


def check_legal(schedule: Schedule, file: Path | None = None) -> None:
    """Raise :class:`IllegalScheduleError` unless the schedule, which may come from a file, is legal."""
    if broken := violations(schedule):
        raise IllegalScheduleError(broken, file)


def factors(schedule: Schedule) -> Iterator[Violation]:
    """*factors*: for every dim, spatial * t0 * t1 * t2 * t3 = size."""
    for layer, mapping in _mapped(schedule):
        parts = {"spatial": mapping.spatial, "L3": mapping.l3, "L2": mapping.l2, "L1": mapping.l1, "L0": mapping.l0}
        for i, (dim, size) in enumerate(zip(DIMS, layer.dims, strict=True)):
            if (product := prod(values[i] for values in parts.values())) != size:
                told = ", ".join(f"{where} {values[i]}" for where, values in parts.items() if values[i] != 1)
                yield Violation(
                    "factors",
                    (layer.name,),
                    f"{layer.name}: {dim} is {size:,}, its factors multiply to {product:,} ({told or 'all are 1'})",
                )


def spatial(schedule: Schedule) -> Iterator[Violation]:
    """*spatial*: only dims the array takes unroll, over no more rows and columns than there are."""
    machine = schedule.hardware
    for layer, mapping in _mapped(schedule):
        unrolled = dict(zip(DIMS, mapping.spatial, strict=True))
        for axis, dims, there in (
            ("rows", machine.spatial_rows, machine.rows),
            ("columns", machine.spatial_cols, machine.cols),
        ):
            if (used := prod(unrolled[d] for d in dims)) > there:
                told = ", ".join(f"{d} {unrolled[d]}" for d in dims)
                yield Violation(
                    "spatial", (layer.name,), f"{layer.name}: {used} array {axis} are used ({told}), {there} are there"
                )
        for dim, count in unrolled.items():
            if count > 1 and dim not in machine.spatial_rows + machine.spatial_cols:
                yield Violation(
                    "spatial",
                    (layer.name,),
                    f"{layer.name}: {dim} unrolls {count} times, the array of {machine.name} does not take it",
                )


def registers(schedule: Schedule) -> Iterator[Violation]:
    """*registers*: L0 holds one weight, so only N, P and Q loop there."""
    for layer, mapping in _mapped(schedule):
        for dim, count in zip(DIMS, mapping.l0, strict=True):
            if count > 1 and dim not in "NPQ":
                yield Violation(
                    "registers",
                    (layer.name,),
                    f"{layer.name}: {dim} loops {count} times at L0, where a register holds one weight (N, P, Q only)",
                )


def aligned(schedule: Schedule) -> Iterator[Violation]:
    """*aligned*: shared trip counts divide what they are a part of, and are shared only where they may be."""
    for group in schedule.groups:
        for problem in _misalignments(schedule, group):
            yield Violation("aligned", group.layers, f"{group.name}: {problem}")


def _misalignments(schedule: Schedule, group: Group) -> Iterator[str]:
    trips, members = group.trips, [schedule.workload[name] for name in group.layers]
    if group.nesting.index("P") > group.nesting.index("Q"):
        yield f"loops {group.loops!r} nest P inside Q: P is always outside"
    if trips.G > 1 and (len({layer.dims.G for layer in members}) > 1 or members[0].dims.G == 1):
        told = ", ".join(f"{layer.name} {layer.dims.G}" for layer in members)
        yield f"G is shared ({trips.G} trips), but its layers have no common G > 1 ({told})"
    for layer in members:
        fused = any(schedule.is_fused(edge) for edge in schedule.workload.producers[layer.name])
        if trips.G > 1 and fused and sum(operand.port == "input" for operand in layer.inputs) > 1:
            yield f"G is shared ({trips.G} trips), but {layer.name} reads a concatenation, whose groups differ"
    if trips.X > 1 and (reason := _no_channel_loop(schedule, members)) is not None:
        yield f"X is shared ({trips.X} trips), but {reason}"
    for layer in members:
        if layer.is_mac:
            whole, what = schedule.mappings[layer.name].l3._asdict(), "L3 factor of"
            pair = schedule.channel_loop(group)
            if pair is not None and whole[dim := "K" if layer.name == pair[0] else "C"] % trips.X:
                yield f"{trips.X} trips of X do not divide {layer.name}'s L3 factor of {dim}, {whole[dim]}"
        else:
            whole, what = layer.dims._asdict(), "size of"
        for dim in "GNPQ":
            count = trips._asdict()[dim]
            if whole[dim] % count and not (dim == "G" and not layer.is_mac):
                yield f"{count} trips of {dim} do not divide {layer.name}'s {what} {dim}, {whole[dim]}"
        fused = [edge for edge in schedule.workload.consumers[layer.name] if schedule.is_fused(edge)]
        for dim, stored in zip("PQ", layer.stored, strict=True):
            if fused and stored % (count := trips._asdict()[dim]):
                yield f"{count} trips of {dim} do not divide {layer.name}'s {stored} stored {dim}'"
        for edge in fused:
            target = schedule.workload[edge.target]
            if trips.N > 1 and layer.dims.N != target.dims.N:
                yield f"N is shared, but {layer.name} has N {layer.dims.N} and {target.name} {target.dims.N}"


def _no_channel_loop(schedule: Schedule, members: list[Layer]) -> str | None:
    """Why the layers may not share the channel loop X; None if they may."""
    if len(members) != 2 or not all(layer.is_mac for layer in members):
        return "only a group of exactly two MAC layers may"
    u, v = members
    if not any(e.source == u.name and e.port == "input" for e in schedule.workload.producers[v.name]):
        return f"{u.name} does not feed the input of {v.name}"
    if u.dims.G != v.dims.G or u.dims.K != v.dims.C:
        return f"{u.name} has G,K {u.dims.G},{u.dims.K} and {v.name} G,C {v.dims.G},{v.dims.C}: they must be equal"
    if (v.dims.R, v.dims.S) != (1, 1):
        return f"{v.name} has a {v.dims.R}x{v.dims.S} kernel: it must be 1x1"
    return None


def complete(schedule: Schedule) -> Iterator[Violation]:
    """*complete*: a fused producer finishes its sums on chip."""
    for group in _computable(schedule):
        for name in group.layers:
            layer = schedule.workload[name]
            fused = any(schedule.is_fused(edge) for edge in schedule.workload.consumers[name])
            if fused and (spills := footprint(schedule, layer, (0, 0)).spills) > 0:
                yield Violation(
                    "complete",
                    (name,),
                    f"{name} is fused but spills {spills:,} partial sums to L3: keep its C, R, S loops inside the "
                    "loops over its outputs",
                )


def fits(schedule: Schedule) -> Iterator[Violation]:
    """*fits*: L2 and L1 hold what each step needs."""
    machine, halo = schedule.hardware, halos(schedule.workload, schedule.fused_edges)
    for group in _computable(schedule):
        for step in group_steps(schedule, group, halo):
            for level, needed, there, parts in (
                ("L2", step.l2_bytes, machine.usable_l2_bytes, step.l2_parts),
                ("L1", step.l1_bytes, machine.usable_l1_bytes, step.l1_parts),
            ):
                if needed > there:
                    told = ", ".join(f"{what} {size:,}" for what, size in parts.items())
                    verb = "need" if len(group.layers) > 1 else "needs"
                    yield Violation(
                        "fits",
                        group.layers,
                        f"{group.name} {verb} {needed:,} bytes of {level} at step {step.layer}, "
                        f"{there:,} are there: {told}",
                    )


def whole(schedule: Schedule) -> Iterator[Violation]:
    """*whole*: what must be complete before it is used is not cut by shared loops."""
    for group in schedule.groups:
        for message in _cut_tensors(schedule, group):
            yield Violation("whole", group.layers, f"{group.name}: {message}")


def _cut_tensors(schedule: Schedule, group: Group) -> Iterator[str]:
    trips = group.trips
    for name in group.layers:
        layer = schedule.workload[name]
        for edge in schedule.workload.producers[name]:
            if not schedule.is_fused(edge) or max(trips.N, trips.P, trips.Q) == 1:
                continue
            if edge.port == "weight":
                yield f"{edge.source} is the weight of {name}, so N, P and Q must not be shared (trips {_told(group)})"
            elif edge.port == "input" and "transpose" in schedule.workload[edge.source].epilogue:
                yield f"{edge.source} is transposed for {name}, so N, P and Q must not be shared (trips {_told(group)})"
        for operator in layer.epilogue:
            if operator in ("flatten", "global_pool") and max(trips.P, trips.Q) > 1:
                yield f"{operator} of {name} needs whole images, so P and Q must not be shared (trips {_told(group)})"
            if operator in ("flatten", "layer_norm") and max(trips.G, trips.X) > 1:
                yield f"{operator} of {name} needs all channels, so G and X must not be shared (trips {_told(group)})"
            if operator == "softmax" and trips.X > 1:
                consumer, machine = schedule.workload[group.layers[-1]], schedule.hardware
                if not machine.online_softmax:
                    yield f"softmax of {name} needs whole rows, X is {trips.X} and {machine.name} has no online softmax"
                elif group in _computable(schedule) and (spills := footprint(schedule, consumer, (0, 0)).spills) > 0:
                    yield f"softmax of {name} under X needs the sums of {consumer.name} in L1, but {spills:,} spill"


def _told(group: Group) -> str:
    return ", ".join(f"{loop} {count}" for loop, count in group.trips._asdict().items() if count > 1)


def fusible(schedule: Schedule) -> Iterator[Violation]:
    """*fusible*: a tensor that must go through DRAM has its two ends in different groups."""
    for edge in schedule.fused_edges:
        if not edge.fusible:
            yield Violation(
                "fusible",
                (edge.source, edge.target),
                f"{edge.target} cannot read {edge.source} on chip (its {edge.port} is not fusible): put them in "
                "different groups",
            )


def one_sink(schedule: Schedule) -> Iterator[Violation]:
    """*one sink*: every layer of a group reaches the group's last layer through edges inside it."""
    for group in schedule.groups:
        reaching = {group.layers[-1]}
        for name in reversed(schedule.workload.topological):
            if name in group.layers and any(edge.target in reaching for edge in schedule.workload.consumers[name]):
                reaching.add(name)
        for name in group.layers:
            if name not in reaching:
                yield Violation(
                    "one sink",
                    group.layers,
                    f"{group.name}: {name} does not reach {group.layers[-1]} inside the group: take it out",
                )


def ordered(schedule: Schedule) -> Iterator[Violation]:
    """*ordered*: every edge goes to a later group, or to a later layer of its own group."""
    for edge in schedule.workload.edges:
        if schedule.position[edge.source] >= schedule.position[edge.target]:
            yield Violation(
                "ordered",
                (edge.source, edge.target),
                f"{edge.target} runs before {edge.source}, whose output it reads: list it later",
            )


def repeat(schedule: Schedule) -> Iterator[Violation]:
    """*repeat*: layers of a group have the same repeat count."""
    for group in schedule.groups:
        counts = {name: schedule.workload[name].repeat for name in group.layers}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            yield Violation("repeat", group.layers, f"{group.name}: repeat counts differ ({told})")


RULES: dict[str, Callable[[Schedule], Iterator[Violation]]] = {
    "factors": factors,
    "spatial": spatial,
    "registers": registers,
    "aligned": aligned,
    "complete": complete,
    "fits": fits,
    "whole": whole,
    "fusible": fusible,
    "one sink": one_sink,
    "ordered": ordered,
    "repeat": repeat,
}
"""The rules by name. The rule *shapes* is kept by the workload's constructor: no other graph can be built."""


def _mapped(schedule: Schedule) -> Iterator[tuple[Layer, Mapping]]:
    for layer in schedule.workload.layers:
        if layer.is_mac:
            yield layer, schedule.mappings[layer.name]


def _computable(schedule: Schedule) -> list[Group]:
    """Groups whose tiles are defined: shared trip counts that divide nothing leave no tile to measure."""
    return [group for group in schedule.groups if next(_misalignments(schedule, group), None) is None]
