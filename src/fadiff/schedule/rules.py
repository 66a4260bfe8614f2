"""Which schedules are legal: named rules that report every violation, with layers and numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, wraps
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np

from fadiff.errors import FadiffError
from fadiff.hardware import Axis, pack_machine
from fadiff.schedule.arrays import pack_layers, pack_schedule, schedule_tiling
from fadiff.schedule.barriers import barriers
from fadiff.schedule.capacity import Needs, needs
from fadiff.schedule.ir import SHARED_LOOPS, Group, Mapping, Schedule
from fadiff.schedule.nest import Nest
from fadiff.schedule.tiling import inner_edges, shared_dim
from fadiff.workload import DIMS, Layer

TILES = {"W": "weight tile", "I": "input tile", "O": "output tile"}


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


@dataclass(frozen=True)
class Part:
    """Bytes of one instance of a memory that one tensor takes while a layer runs."""

    kind: Literal["kept", "tile", "buffer", "halo", "waiting"]
    """kept: a tile that stays from one shared iteration to the next. tile: one of the running layer that does not.
    buffer: a fused tensor's tile. halo: rows and columns kept beside it. waiting: sums of a channel loop's consumer
    while its producer runs."""
    tensor: str
    """W, I or O."""
    layer: str
    """Whose weights, input or output it is."""
    bytes: float


class Examined:
    """A schedule with what several rules ask about it, computed once."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.workload, self.machine = schedule.workload, schedule.machine
        self.number = {layer.name: i for i, layer in enumerate(schedule.layers)}
        self.tilings = {group: schedule_tiling(schedule, group) for group in schedule.groups}
        packed = pack_schedule(schedule, self.tilings)
        self.shared = np.asarray(packed.fusion.shared)
        self.tile = np.asarray(packed.fusion.tile)
        self.placement = packed.placement
        self.nest = Nest(self.machine.structure, pack_layers(schedule), packed.mapping, packed.fusion)

    @cached_property
    def needs(self) -> Needs:
        """Bytes in every memory while each layer runs."""
        return needs(self.nest, self.placement, pack_machine(self.machine))

    def at(self, values: object, name: str) -> float:
        """A layer's number among those of all layers."""
        return float(np.asarray(values)[self.number[name]])

    def tiled(self, group: Group) -> bool:
        """Whether a group's tiles are defined: nothing speaks against its trip counts."""
        return bool(self.tilings[group].aligned[0])

    def mapped(self) -> Iterator[tuple[Layer, Mapping]]:
        """MAC layers with their mappings."""
        for layer in self.schedule.layers:
            if layer.is_mac:
                yield layer, self.schedule.mappings[layer.name]

    def unfinished(self, keeper: int, name: str) -> int:
        """Sums, beyond one of each output, that a keeper of O hands further out, where no axis is in between."""
        return round(self.at(self.nest.past("O", keeper, ()), name)) - self.workload[name].output_words

    def parts(self, name: str, memory: int) -> Iterator[Part]:
        """What is in a memory while a layer runs; the halo of a buffer is told with it. Parts may be empty."""
        own, place, group = self.needs.tiles, self.placement, self.schedule.group_of[name]
        for (where, tensor), kept in own.kept.items():
            for other in group.layers if where == memory else ():
                yield Part("kept", tensor, other, self.at(kept, other))
        for (where, tensor), running in own.running.items():
            if where == memory:
                stays = self.at(own.kept[where, tensor], name) if (where, tensor) in own.kept else 0.0
                yield Part("tile", tensor, name, self.at(running, name) - stays)
        for other in group.layers if memory == self.machine.structure.fuses else ():
            in_use = self.at(place.position, other) <= self.at(place.position, name) <= self.at(place.last_use, other)
            if in_use or self.at(place.retained, other):
                yield Part("buffer", "O", other, self.at(self.needs.buffer, other))
        for other in group.layers if memory in own.waiting else ():
            if self.at(place.x_consumer, name) == self.number[other]:
                yield Part("waiting", "O", other, self.at(own.waiting[memory], other))


Broken = Iterator[tuple[tuple[str, ...], str]]
"""Layers, and what is wrong with them."""
Reported = Callable[[Examined], Iterator[Violation]]
RULES: dict[str, Reported] = {}
"""The rules by name. The rule *shapes* is kept by the workload's constructor: no other graph can be built."""


def rule(check: Callable[[Examined], Broken]) -> Reported:
    """Lists a function as the rule of its own name."""
    name = check.__name__.replace("_", " ")

    @wraps(check)
    def reported(examined: Examined) -> Iterator[Violation]:
        return (Violation(name, layers, message) for layers, message in check(examined))

    RULES[name] = reported
    return reported


def violations(schedule: Schedule) -> list[Violation]:
    """Every rule the schedule breaks, in the order of :data:`RULES`; empty for a legal schedule."""
    examined = Examined(schedule)
    return [violation for reported in RULES.values() for violation in reported(examined)]


def check_legal(schedule: Schedule, file: Path | None = None) -> None:
    """Raise :class:`IllegalScheduleError` unless the schedule, which may come from a file, is legal."""
    if broken := violations(schedule):
        raise IllegalScheduleError(broken, file)


@rule
def factors(examined: Examined) -> Broken:
    """*factors*: the factors of every dim multiply to its size (in a group: to its tile) or more, and none is idle.

    The outermost factor above 1 is ceil(size / extent below it), and the extent below it is less than the size.
    """
    nodes = examined.machine.nodes
    for layer, mapping in examined.mapped():
        i, group = examined.number[layer.name], examined.schedule.group_of[layer.name]
        for d, (dim, size) in enumerate(zip(DIMS, layer.dims, strict=True)):
            tile, shared = round(examined.tile[d, i]), round(examined.shared[d, i])
            first, *inner = (factors[d] for factors in mapping.factors)
            loop = "X" if dim == group.x_dim(layer.name) else dim
            untiled = group.trips._asdict().get(loop, 1) > 1 and not examined.tiled(group)
            if untiled or first % shared:
                continue  # the rule *aligned* says what is wrong
            private = [first // shared, *inner]
            outermost = next((at for at, factor in enumerate(private) if factor > 1), len(private) - 1)
            below = prod(private[outermost + 1 :])
            needed = -(-tile // below)
            covered = prod(private) >= tile
            if covered and private[outermost] == needed:
                continue
            told = ", ".join(f"{node.name} {f[d]}" for node, f in zip(nodes, mapping.factors, strict=True) if f[d] > 1)
            what = f"{dim} is {size:,}" if shared == 1 else f"{dim} is {size:,} in shared tiles of {tile:,}"
            if not covered:
                short = f"its factors multiply to {prod(private):,} ({told or 'all are 1'})"
                yield (layer.name,), f"{layer.name}: {what}, {short}"
            else:
                outside = 1 if outermost else shared
                idle = f"{private[outermost] * outside:,} trips at {nodes[outermost].name} over tiles of {below:,}"
                takes = f"leave some idle ({told}): it takes {needed * outside:,}"
                yield (layer.name,), f"{layer.name}: {what}, {idle} {takes}"


@rule
def spatial(examined: Examined) -> Broken:
    """*spatial*: only dims that an axis takes unroll over it, over no more lanes than there are."""
    for layer, mapping in examined.mapped():
        for node, factors in zip(examined.machine.nodes, mapping.factors, strict=True):
            if not isinstance(node, Axis):
                continue
            unrolled = {dim: lanes for dim, lanes in zip(DIMS, factors, strict=True) if lanes > 1}
            if prod(factors) > node.size:
                told = ", ".join(f"{dim} {lanes}" for dim, lanes in unrolled.items())
                used = f"{prod(factors)} lanes of {node.name} are used ({told}), {node.size} are there"
                yield (layer.name,), f"{layer.name}: {used}"
            for dim, lanes in unrolled.items():
                if dim not in node.dims:
                    times = f"{dim} unrolls {lanes} times over {node.name}, which takes {node.dims}"
                    yield (layer.name,), f"{layer.name}: {times}"


@rule
def aligned(examined: Examined) -> Broken:
    """*aligned*: shared trip counts suit the group's layers, and divide the first memory's factors."""
    for group in examined.schedule.groups:
        for problem in _misalignments(examined, group):
            yield group.layers, f"{group.name}: {problem}"


def _misalignments(examined: Examined, group: Group) -> Iterator[str]:
    trips = group.trips._asdict()
    if group.nesting.index("P") > group.nesting.index("Q"):
        yield f"loops {group.loops!r} nest P inside Q: P is always outside"
    for misfit in examined.tilings[group].misfits:
        if misfit.where[0]:
            yield f"{misfit.loop} is shared ({trips[misfit.loop]} trips), but {misfit.reason}"
    mapped = [name for name in group.layers if examined.workload[name].is_mac and examined.tiled(group)]
    for name in mapped:
        for dim in (shared_dim(loop, first=name == group.layers[0]) for loop in SHARED_LOOPS if trips[loop] > 1):
            d, first = DIMS.index(dim), examined.machine.nodes[0].name
            count, factor = (
                round(examined.shared[d, examined.number[name]]),
                examined.schedule.mappings[name].factors[0][d],
            )
            if factor % count:
                yield f"{name} shares {count} trips of {dim}, which do not divide its {factor} at {first}"


@rule
def complete(examined: Examined) -> Broken:
    """*complete*: what a fused producer hands over are finished outputs, each once."""
    nodes, structure = examined.machine.nodes, examined.machine.structure
    for name in dict.fromkeys(edge.source for edge in examined.schedule.fused_edges):
        if structure.fuses is None or not examined.tiled(examined.schedule.group_of[name]):
            continue
        if structure.hands_over is None:
            yield (name,), f"{name} is fused, but no memory further in than {nodes[structure.fuses].name} keeps O"
        elif examined.workload[name].is_mac and (extra := examined.unfinished(structure.hands_over, name)) > 0:
            leave = f"{extra:,} unfinished sums leave {nodes[structure.hands_over].name}"
            yield (name,), f"{name} is fused but {leave}: keep its C, R, S loops inside the loops over its outputs"


@rule
def fits(examined: Examined) -> Broken:
    """*fits*: every memory holds what each step needs."""
    for group in examined.schedule.groups:
        for name in group.layers if examined.tiled(group) else ():
            for memory, (node, total) in zip(examined.machine.memories[1:], examined.needs.total.items(), strict=True):
                needed = examined.at(total, name)
                if needed > memory.usable_bytes:
                    parts = held_parts(examined, name, node).items()
                    told = ", ".join(f"{what} {_bytes(size)}" for what, size in parts)
                    verb = "need" if len(group.layers) > 1 else "needs"
                    step = f"{group.name} {verb} {_bytes(needed)} bytes of {memory.name} at step {name}"
                    yield group.layers, f"{step}, {memory.usable_bytes:,} are there: {told}"


def held_parts(examined: Examined, name: str, memory: int) -> dict[str, float]:
    """What is in a memory while a layer runs, by what it is called, in bytes; the layer's own tiles first."""
    sizes = {f"{tile} of {name}": 0.0 for tile in TILES.values()}
    for part in examined.parts(name, memory):
        called = {"buffer": "buffer", "waiting": "waiting sums"}.get(part.kind, TILES[part.tensor])
        label = f"{'kept ' if part.kind == 'kept' and part.layer != name else ''}{called} of {part.layer}"
        sizes[label] = sizes.get(label, 0.0) + part.bytes
    return {label: size for label, size in sizes.items() if size}


def _bytes(size: float) -> str:
    return f"{size:,.0f}" if size == int(size) else f"{size:,.2f}"


@rule
def whole(examined: Examined) -> Broken:
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
                yield group.layers, f"{group.name}: {barrier.reason}, so {loops} must not be shared (trips {told})"
        softmax = any("softmax" in workload[name].epilogue for name in group.layers)
        if trips["X"] > 1 and softmax and machine.online_softmax and home is not None and examined.tiled(group):
            consumer, where = group.layers[-1], machine.nodes[home].name
            extra = examined.unfinished(home, consumer)
            if extra > 0:
                needs_sums = f"softmax under X needs the sums of {consumer} in {where}, {extra:,} spill"
                yield group.layers, f"{group.name}: {needs_sums}"


@rule
def fusible(examined: Examined) -> Broken:
    """*fusible*: a tensor that must go through the first memory has its two ends in different groups."""
    for edge in examined.schedule.fused_edges:
        if not edge.fusible:
            on_chip = f"{edge.target} cannot read {edge.source} on chip (its {edge.port} is not fusible)"
            yield (edge.source, edge.target), f"{on_chip}: put them in different groups"


@rule
def fuses(examined: Examined) -> Broken:
    """*fuses*: a machine without a memory that fuses runs layer by layer."""
    for group in examined.schedule.groups:
        if len(group.layers) > 1 and examined.machine.structure.fuses is None:
            message = f"{group.name} is a group, but no memory of {examined.machine.name} holds fused tensors"
            yield group.layers, f"{message}: give its layers groups of their own"


@rule
def one_sink(examined: Examined) -> Broken:
    """*one sink*: every layer of a group reaches the group's last layer through edges inside it."""
    for group in examined.schedule.groups:
        reaching = {group.layers[-1]}
        for name in sorted(group.layers, key=examined.workload.depth.__getitem__, reverse=True):
            if any(edge.target in reaching for edge in examined.workload.consumers[name]):
                reaching.add(name)
        for name in group.layers:
            if name not in reaching:
                message = f"{name} does not reach {group.layers[-1]} inside the group: take it out"
                yield group.layers, f"{group.name}: {message}"


@rule
def ordered(examined: Examined) -> Broken:
    """*ordered*: every edge goes to a later group, or to a later layer of its own group."""
    position = examined.schedule.position
    for edge in examined.schedule.edges:
        here = edge.source in position and edge.target in position
        if here and position[edge.source] >= position[edge.target]:
            message = f"{edge.target} runs before {edge.source}, whose output it reads: list it later"
            yield (edge.source, edge.target), message


@rule
def repeat(examined: Examined) -> Broken:
    """*repeat*: layers of a group have the same repeat count."""
    for group in examined.schedule.groups:
        counts = {name: examined.workload[name].repeat for name in group.layers}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            yield group.layers, f"{group.name}: repeat counts differ ({told})"
