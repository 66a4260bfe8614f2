"""Which schedules are legal: named rules that report every violation, with layers and numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from fadiff.errors import FadiffError
from fadiff.hardware import Axis, pack_machine
from fadiff.schedule.arrays import pack_layers, pack_schedule, schedule_tiling
from fadiff.schedule.barriers import barriers
from fadiff.schedule.capacity import Needs, needs
from fadiff.schedule.ir import SHARED_LOOPS, Group, Mapping, Schedule
from fadiff.schedule.nest import Nest
from fadiff.schedule.tiling import Tiling, inner_edges, shared_dim
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


class Examined:
    """A schedule with what several rules ask about it, computed once."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.workload, self.machine = schedule.workload, schedule.machine
        self.number = {layer.name: i for i, layer in enumerate(self.workload.layers)}
        self.tilings = {group: schedule_tiling(schedule, group) for group in schedule.groups}
        packed = pack_schedule(schedule)
        self.shared = np.asarray(packed.fusion.shared)
        self.tile = np.asarray(packed.fusion.tile)
        self.placement = packed.placement
        self.nest = Nest(self.machine.structure, pack_layers(self.workload), packed.mapping, packed.fusion)

    def tiled(self, group: Group) -> bool:
        """Whether a group's tiles are defined: nothing speaks against its trip counts."""
        return bool(self.tilings[group].aligned[0])

    def untiled(self, name: str) -> set[str]:
        """Dims of a layer whose tiles are not defined, because its group cannot share them."""
        group = self.schedule.group_of[name]
        if self.tiled(group):
            return set()
        shared = [loop for loop in SHARED_LOOPS if group.trips._asdict()[loop] > 1]
        return {shared_dim(loop, first=name == group.layers[0]) for loop in shared}

    def mapped(self) -> Iterator[tuple[Layer, Mapping]]:
        """MAC layers with their mappings."""
        for layer in self.workload.layers:
            if layer.is_mac:
                yield layer, self.schedule.mappings[layer.name]

    def arrivals(self, keeper: int, name: str) -> int:
        """Sums that arrive from a keeper of O further out, where no axis is in between."""
        return round(float(np.asarray(self.nest.past("O", keeper, ()))[self.number[name]]))


def violations(schedule: Schedule) -> list[Violation]:
    """Every rule the schedule breaks, in the order of :data:`RULES`; empty for a legal schedule."""
    examined = Examined(schedule)
    return [violation for rule in RULES.values() for violation in rule(examined)]


def check_legal(schedule: Schedule, file: Path | None = None) -> None:
    """Raise :class:`IllegalScheduleError` unless the schedule, which may come from a file, is legal."""
    if broken := violations(schedule):
        raise IllegalScheduleError(broken, file)


def factors(examined: Examined) -> Iterator[Violation]:
    """*factors*: the factors of every dim multiply to its size (in a group: to its tile) or more, and none is idle.

    The outermost factor above 1 is ceil(size / extent below it), and the extent below it is less than the size.
    """
    nodes = examined.machine.nodes
    for layer, mapping in examined.mapped():
        i, untiled = examined.number[layer.name], examined.untiled(layer.name)
        for d, (dim, size) in enumerate(zip(DIMS, layer.dims, strict=True)):
            tile, shared = round(examined.tile[d, i]), round(examined.shared[d, i])
            first, *inner = (factors[d] for factors in mapping.factors)
            if dim in untiled or first % shared:
                continue  # the rule *aligned* says what is wrong
            private = [first // shared, *inner]
            told = ", ".join(f"{node.name} {f[d]}" for node, f in zip(nodes, mapping.factors, strict=True) if f[d] > 1)
            what = f"{dim} is {size:,}" if shared == 1 else f"{dim} is {size:,} in shared tiles of {tile:,}"
            if prod(private) < tile:
                short = f"its factors multiply to {prod(private):,} ({told or 'all are 1'})"
                yield Violation("factors", (layer.name,), f"{layer.name}: {what}, {short}")
                continue
            outermost = next((at for at, factor in enumerate(private) if factor > 1), len(private) - 1)
            below = prod(private[outermost + 1 :])
            needed = -(-tile // below)
            if private[outermost] != needed:
                outside = 1 if outermost else shared
                yield Violation(
                    "factors",
                    (layer.name,),
                    f"{layer.name}: {what}, {private[outermost] * outside:,} trips at {nodes[outermost].name} over "
                    f"tiles of {below:,} leave some idle ({told}): it takes {needed * outside:,}",
                )


def spatial(examined: Examined) -> Iterator[Violation]:
    """*spatial*: only dims that an axis takes unroll over it, over no more lanes than there are."""
    machine = examined.machine
    for layer, mapping in examined.mapped():
        for node, factors in zip(machine.nodes, mapping.factors, strict=True):
            if not isinstance(node, Axis):
                continue
            told = ", ".join(f"{dim} {f}" for dim, f in zip(DIMS, factors, strict=True) if f > 1)
            if prod(factors) > node.size:
                message = f"{layer.name}: {prod(factors)} lanes of {node.name} are used ({told}), {node.size} are there"
                yield Violation("spatial", (layer.name,), message)
            for dim, count in zip(DIMS, factors, strict=True):
                if count > 1 and dim not in node.dims:
                    message = f"{layer.name}: {dim} unrolls {count} times over {node.name}, which takes {node.dims}"
                    yield Violation("spatial", (layer.name,), message)


def aligned(examined: Examined) -> Iterator[Violation]:
    """*aligned*: shared trip counts suit the group's layers, and divide the first memory's factors."""
    schedule = examined.schedule
    for group in schedule.groups:
        for problem in _misalignments(examined, group, examined.tilings[group]):
            yield Violation("aligned", group.layers, f"{group.name}: {problem}")


def _misalignments(examined: Examined, group: Group, tiling: Tiling) -> Iterator[str]:
    trips = group.trips._asdict()
    if group.nesting.index("P") > group.nesting.index("Q"):
        yield f"loops {group.loops!r} nest P inside Q: P is always outside"
    for misfit in tiling.misfits:
        if misfit.where[0]:
            yield f"{misfit.loop} is shared ({trips[misfit.loop]} trips), but {misfit.reason}"
    first = examined.machine.nodes[0].name
    for name in group.layers if tiling.aligned[0] else ():
        mapping = examined.schedule.mappings.get(name)
        for loop in SHARED_LOOPS:
            dim = shared_dim(loop, first=name == group.layers[0])
            count = round(examined.shared[DIMS.index(dim), examined.number[name]])
            if mapping is not None and trips[loop] > 1 and mapping.factors[0]._asdict()[dim] % count:
                factor = mapping.factors[0]._asdict()[dim]
                yield f"{name} shares {count} trips of {dim}, which do not divide its {factor} at {first}"


def complete(examined: Examined) -> Iterator[Violation]:
    """*complete*: what a fused producer hands over are finished outputs, each once."""
    schedule, structure = examined.schedule, examined.machine.structure
    fuses = structure.fuses
    keeper = next((m for m in structure.keepers("O") if fuses is not None and m > fuses), None)
    for group in schedule.groups:
        for name in dict.fromkeys(edge.source for edge in inner_edges(examined.workload, group.layers)):
            if fuses is None or not examined.tiled(group):
                continue
            if keeper is None:
                where = examined.machine.nodes[fuses].name
                yield Violation("complete", (name,), f"{name} is fused, but no memory further in than {where} keeps O")
            elif examined.workload[name].is_mac:
                extra = examined.arrivals(keeper, name) - examined.workload[name].output_words
                if extra > 0:
                    yield Violation(
                        "complete",
                        (name,),
                        f"{name} is fused but {extra:,} unfinished sums leave {examined.machine.nodes[keeper].name}: "
                        "keep its C, R, S loops inside the loops over its outputs",
                    )


def fits(examined: Examined) -> Iterator[Violation]:
    """*fits*: every memory holds what each step needs."""
    machine = examined.machine
    need = needs(examined.nest, examined.placement, pack_machine(machine))
    for group in examined.schedule.groups:
        if not examined.tiled(group):
            continue
        for name in group.layers:
            i = examined.number[name]
            for node, total in need.total.items():
                memory = machine.memories[machine.structure.memories.index(node)]
                needed = float(np.asarray(total)[i])
                if needed > memory.usable_bytes:
                    parts = held_parts(examined, need, group, name, node)
                    told = ", ".join(f"{what} {_bytes(size)}" for what, size in parts.items())
                    verb = "need" if len(group.layers) > 1 else "needs"
                    yield Violation(
                        "fits",
                        group.layers,
                        f"{group.name} {verb} {_bytes(needed)} bytes of {memory.name} at step {name}, "
                        f"{memory.usable_bytes:,} are there: {told}",
                    )


def held_parts(examined: Examined, need: Needs, group: Group, name: str, memory: int) -> dict[str, float]:
    """What is in a memory while a layer runs, by what it is, in bytes."""

    def at(values: object, layer: str) -> float:
        return float(np.asarray(values)[examined.number[layer]])

    what = {"W": "weight tile", "I": "input tile", "O": "output tile"}
    own = need.tiles
    place = {layer: i for i, layer in enumerate(group.layers)}
    parts = {f"{what[t]} of {name}": at(held, name) for (m, t), held in own.running.items() if m == memory}
    for (m, t), held in own.kept.items():
        parts |= {f"kept {what[t]} of {u}": at(held, u) for u in group.layers if m == memory and u != name}
    if memory == examined.machine.structure.fuses:
        last = dict(place)
        for edge in inner_edges(examined.workload, group.layers):
            last[edge.source] = max(last[edge.source], place[edge.target])
        for u in group.layers:
            if at(examined.placement.retained, u) > 0 or place[u] <= place[name] <= last[u]:
                parts[f"buffer of {u}"] = at(need.buffer, u)
    if memory in own.waiting and group.trips.X > 1 and name == group.layers[0]:
        parts[f"waiting sums of {group.layers[1]}"] = at(own.waiting[memory], group.layers[1])
    return {part: size for part, size in parts.items() if size}


def _bytes(size: float) -> str:
    return f"{size:,.0f}" if size == int(size) else f"{size:,.2f}"


def whole(examined: Examined) -> Iterator[Violation]:
    """*whole*: what must be complete before it is used is not cut by shared loops."""
    workload, machine = examined.workload, examined.machine
    home = machine.structure.home("O")
    for group in examined.schedule.groups:
        trips = group.trips._asdict()
        told = ", ".join(f"{loop} {count}" for loop, count in trips.items() if count > 1)
        fused = inner_edges(workload, group.layers)
        for barrier in barriers(workload, group.layers, fused, online_softmax=machine.online_softmax):
            if any(trips[loop] > 1 for loop in barrier.loops):
                loops = " and ".join(barrier.loops)
                message = f"{group.name}: {barrier.reason}, so {loops} must not be shared (trips {told})"
                yield Violation("whole", group.layers, message)
        softmax = any("softmax" in workload[name].epilogue for name in group.layers)
        if trips["X"] > 1 and softmax and machine.online_softmax and home is not None and examined.tiled(group):
            consumer = group.layers[-1]
            extra = examined.arrivals(home, consumer) - workload[consumer].output_words
            if extra > 0:
                where = machine.nodes[home].name
                message = f"{group.name}: softmax under X needs the sums of {consumer} in {where}, {extra:,} spill"
                yield Violation("whole", group.layers, message)


def fusible(examined: Examined) -> Iterator[Violation]:
    """*fusible*: a tensor that must go through the first memory has its two ends in different groups."""
    for edge in examined.schedule.fused_edges:
        if not edge.fusible:
            yield Violation(
                "fusible",
                (edge.source, edge.target),
                f"{edge.target} cannot read {edge.source} on chip (its {edge.port} is not fusible): put them in "
                "different groups",
            )


def fuses(examined: Examined) -> Iterator[Violation]:
    """*fuses*: a machine without a memory that fuses runs layer by layer."""
    for group in examined.schedule.groups:
        if len(group.layers) > 1 and examined.machine.structure.fuses is None:
            message = f"{group.name} is a group, but no memory of {examined.machine.name} holds fused tensors"
            yield Violation("fuses", group.layers, f"{message}: give its layers groups of their own")


def one_sink(examined: Examined) -> Iterator[Violation]:
    """*one sink*: every layer of a group reaches the group's last layer through edges inside it."""
    for group in examined.schedule.groups:
        reaching = {group.layers[-1]}
        for name in sorted(group.layers, key=examined.workload.depth.__getitem__, reverse=True):
            if any(edge.target in reaching for edge in examined.workload.consumers[name]):
                reaching.add(name)
        for name in group.layers:
            if name not in reaching:
                yield Violation(
                    "one sink",
                    group.layers,
                    f"{group.name}: {name} does not reach {group.layers[-1]} inside the group: take it out",
                )


def ordered(examined: Examined) -> Iterator[Violation]:
    """*ordered*: every edge goes to a later group, or to a later layer of its own group."""
    position = examined.schedule.position
    for edge in examined.workload.edges:
        if position[edge.source] >= position[edge.target]:
            yield Violation(
                "ordered",
                (edge.source, edge.target),
                f"{edge.target} runs before {edge.source}, whose output it reads: list it later",
            )


def repeat(examined: Examined) -> Iterator[Violation]:
    """*repeat*: layers of a group have the same repeat count."""
    for group in examined.schedule.groups:
        counts = {name: examined.workload[name].repeat for name in group.layers}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            yield Violation("repeat", group.layers, f"{group.name}: repeat counts differ ({told})")


RULES: dict[str, Callable[[Examined], Iterator[Violation]]] = {
    "factors": factors,
    "spatial": spatial,
    "aligned": aligned,
    "complete": complete,
    "fits": fits,
    "whole": whole,
    "fusible": fusible,
    "fuses": fuses,
    "one sink": one_sink,
    "ordered": ordered,
    "repeat": repeat,
}
"""The rules by name. The rule *shapes* is kept by the workload's constructor: no other graph can be built."""
