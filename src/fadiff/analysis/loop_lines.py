"""What one layer does inside its loops: which of them run, and what is loaded, computed and stored between them.

A load stands just inside the innermost loop that changes its tile, so it is reached as often as the model counts
refills; a store stands at the end of that loop's body, after the loops that only add to the same sums. Where an end is
cut, what a loop reaches beyond it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fadiff.analysis.breakdown import content_of, shared_trips
from fadiff.analysis.transfers import MACS, Leg, is_outer_end, leg_of
from fadiff.hardware import pack_machine
from fadiff.schedule.capacity import needs
from fadiff.schedule.nest import IMAGE_DIMS, RELEVANT_DIMS, SHARED, C, G, N
from fadiff.schedule.rules import Examined
from fadiff.schedule.tiling import shared_dim
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.workload import Layer

Kind = Literal["group", "layer", "loop", "parallel", "load", "fused", "store", "compute"]


@dataclass(frozen=True)
class Line:
    """One line of a nest. Numbers that a kind of line does not have are None."""

    indent: int
    kind: Kind
    """fused: an operand that needs no load, because it is on chip already."""
    text: str
    """What stands there, without indentation: ``for k1 in range(4):``, ``load W DRAM -> glb``, ``O += W * I``."""
    note: str = ""
    """What to say beside it."""
    layer: str | None = None
    """None: the line belongs to the whole group."""
    node: str | None = None
    """Of a loop: the memory or axis it belongs to, None where the group shares it. Of a load or store: the memory that
    holds the tile."""
    dim: str | None = None
    """Of a loop: G, N, K, C, P, Q, R, S, or X for the channel loop."""
    trips: int | None = None
    step: int | None = None
    """Of a loop of one layer: how much of the dim one trip covers."""
    last: int | None = None
    """Of a loop: how much the last trip covers, where it is cut."""
    tensor: str | None = None
    """Of a load or store: W, I, O or A (an addend)."""
    tile_bytes: float | None = None
    """What one instance of the memory holds."""
    instances: int | None = None
    """Instances that hold a tile at a time."""
    times: int | None = None
    """How often the line moves a tile in one execution of the layer."""
    words: tuple[tuple[int, float], ...] = ()
    """What the line moves in one execution: numbers of the cost model's flows, with their words. Over all lines of a
    layer each flow has exactly the words that the cost model counts."""


class Loop(NamedTuple):
    """A running loop of one layer."""

    node: int
    """`SHARED` for a loop of the group."""
    dim: str
    trips: int
    rank: float
    """Its place among the temporal loops; infinite for lanes, which change no tile of what is above them."""
    step: int = 1
    last: int | None = None


@dataclass(frozen=True)
class LayerLines:
    """One layer's running loops, outer to inner, and its lines by the number of loops around them."""

    layer: Layer
    loops: tuple[Loop, ...]
    tile: str
    """What the shared loops leave of the layer in one iteration."""
    before: dict[int, list[Line]] = field(default_factory=dict[int, list[Line]])
    """What is done at the start of a loop's body: loads, and at the very inside the multiplication."""
    after: dict[int, list[Line]] = field(default_factory=dict[int, list[Line]])
    """What is done at its end: stores."""


class Printer:
    """A schedule's nests as numbers, computed once for all layers."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation, self.schedule = evaluation, evaluation.schedule
        self.machine, self.structure = self.schedule.machine, self.schedule.machine.structure
        examined = Examined(self.schedule)
        self.nest, self.number = examined.nest, examined.number
        self.need = needs(examined.nest, examined.placement, pack_machine(self.machine))

    def lines(self, name: str) -> LayerLines:
        """The loops and lines of a layer, all at indent 0; the group's nest puts them in place."""
        return _LayerPrinter(self, name).lines()


class _LayerPrinter:
    """One layer of a schedule."""

    def __init__(self, printer: Printer, name: str) -> None:
        self.of, self.nest, self.structure = printer, printer.nest, printer.structure
        self.layer, self.i = printer.schedule.workload[name], printer.number[name]
        self.group = printer.schedule.group_of[name]
        self.fused = [e for e in printer.schedule.workload.producers[name] if printer.schedule.is_fused(e)]
        self.loops = [*self._shared_loops(), *(self._own_loops() if self.layer.is_mac else ())]
        self.shared = len(shared_trips(self.group))
        self.legs: dict[Leg, list[int]] = {}
        for number, flow in enumerate(printer.evaluation.flows):
            if printer.evaluation.words[number, self.i]:
                self.legs.setdefault(leg_of(flow), []).append(number)

    def number(self, values: object) -> float:
        return float(np.asarray(values)[self.i])

    def at(self, values: object) -> int:
        return round(self.number(values))

    def named(self, node: int) -> str:
        return self.of.machine.nodes[node].name

    def lines(self) -> LayerLines:
        made = LayerLines(self.layer, tuple(self.loops), self._tile_text())
        made.before[self.shared] = self._waiting() if self.layer.is_mac else []
        inside = sorted((leg for leg in self.legs if leg.inner != MACS), key=lambda leg: leg.inner)
        for leg in inside:
            if leg.inward:
                made.before.setdefault(self._depth(leg), []).append(self._load(leg))
        for leg in reversed(inside):
            if not leg.inward:
                made.after.setdefault(self._depth(leg), []).append(self._store(leg))
        made.before.setdefault(len(self.loops), []).append(self._compute())
        return made

    # Loops.

    def _shared_loops(self) -> list[Loop]:
        nesting = self.group.nesting
        return [Loop(SHARED, dim, trips, nesting.index(dim)) for dim, trips in shared_trips(self.group).items()]

    def _own_loops(self) -> list[Loop]:
        """The loops of each memory in its order, and the lanes of the axes between them."""
        ranked = sorted((loop for loop in self.nest.loops if loop.node != SHARED), key=lambda loop: self.at(loop.rank))
        found: list[Loop] = []
        cut: set[int] = set()
        for node, dims in enumerate(self.structure.dims):
            if node in self.structure.memories:
                here = [(loop.dim, self.at(loop.rank)) for loop in ranked if loop.node == node]
            else:
                here = [(DIMS.index(dim), float("inf")) for dim in dims]
            for d, rank in here:
                trips, step = self.at(self.nest.mapping.factors[node][d]), self.at(self.nest.below[node][d])
                if trips > 1:
                    rest = self.at(self.nest.fusion.tile[d]) - (trips - 1) * step
                    # Only the outermost loop over a dim has an end to cut: those inside run shorter in its last trip.
                    found.append(Loop(node, DIMS[d], trips, rank, step, rest if d not in cut and rest < step else None))
                    cut.add(d)
        return found

    def _tile_text(self) -> str:
        """``P7 (5 trips, last cut to 2) Q14``: the extent of the shared dims in one iteration."""
        told: list[str] = []
        for loop, trips in shared_trips(self.group).items():
            dim = shared_dim(loop, first=self.layer.name == self.group.layers[0])
            d = DIMS.index(dim)
            tile, own = self.at(self.nest.fusion.tile[d]), self.at(self.nest.fusion.shared[d])
            rest = self.layer.dims[d] - (own - 1) * tile
            notes = [f"{own} trips"] if own != trips or rest < tile else []
            notes += [f"last cut to {rest}"] if rest < tile else []
            told.append(f"{dim}{tile}" + (f" ({', '.join(notes)})" if notes else ""))
        return " ".join(told)

    def _depth(self, leg: Leg) -> int:
        """How many loops stand around a load or store: up to the innermost one that changes its tile."""
        if not self.layer.is_mac:
            return self.shared
        last = self.at(self.nest.last(leg.tensor, leg.inner))
        around = [i for i, loop in enumerate(self.loops) if loop.node < leg.inner and loop.rank <= last]
        return 1 + max(around, default=-1)

    def _turns(self, tensor: str, memory: int, dims: Sequence[int]) -> int:
        """Iterations, over some dims, of the loops not inside the innermost one that changes a tile."""
        up = self.nest.up(tensor, memory)
        return prod(self.at(self.nest.count(d, up, ())) for d in dims)

    # Lines.

    def _waiting(self) -> list[Line]:
        """Operands that need no load."""
        where, tensors = self.of.machine.fused_in(), {"weight": "W", "input": "I"}
        return [
            Line(0, "fused", f"{tensors[edge.port]} is in {where.name} (buffer of {edge.source})")
            for edge in self.fused
            if where is not None
        ]

    def _load(self, leg: Leg) -> Line:
        memory = leg.inner
        if leg.addend:
            return self._moving("load", "A", leg, self._addends(leg), "", prod(self._own_trips()))
        if leg.tensor == "O":
            turns = self._turns("O", memory, range(8))
            again = turns - self._turns("O", memory, RELEVANT_DIMS["O"])
            note = "unfinished sums come back, except to a tile's first turn"
            return self._moving("load", "O", leg, self._shape("O", memory), note, again)
        times = self._turns(leg.tensor, memory, range(8))
        notes = self._operand_notes(leg.tensor, memory, times)
        return self._moving("load", leg.tensor, leg, self._shape(leg.tensor, memory), "; ".join(notes), times)

    def _store(self, leg: Leg) -> Line:
        memory = leg.inner
        times = self._turns("O", memory, range(8)) if self.layer.is_mac else prod(self._own_trips())
        contents = {content_of(self.of.evaluation.flows[number]) for number in self.legs[leg]}
        notes = [f"after {', '.join(self.layer.epilogue)}"] if self.layer.epilogue and contents != {"sums"} else []
        if "sums" in contents:
            notes.append("unfinished sums, except in a tile's last turn" if len(contents) > 1 else "unfinished sums")
        shape = self._shape("O", memory) if self.layer.is_mac else ""
        return self._moving("store", "O", leg, shape, "; ".join(notes), times)

    def _moving(self, kind: Literal["load", "store"], tensor: str, leg: Leg, shape: str, note: str, times: int) -> Line:
        memory, flows = leg.inner, self.of.evaluation.flows
        ends = sorted({flows[number].memory for number in self.legs[leg] if is_outer_end(flows[number])})
        buffered = self.structure.fuses if not leg.inward and self.number(self.nest.fusion.copied) else None
        outer = " and ".join(self.named(end) + " (its buffer)" * (end == buffered) for end in ends)
        where = f"{outer} -> {self.named(memory)}" if leg.inward else f"{self.named(memory)} -> {outer}"
        held = self.of.need.tiles.running.get((memory, leg.tensor)) if self.layer.is_mac else None
        size = self._sum_tile(memory) if held is None else self.number(held)
        size = self.number(self.of.need.buffer) if memory == buffered else size
        above = self.structure.axes_between(SHARED, memory)
        return Line(
            indent=0,
            kind=kind,
            text=f"{kind} {tensor} {where} {shape}".rstrip(),
            note=note,
            node=self.named(memory),
            tensor=tensor,
            tile_bytes=size,
            instances=self.at(self.nest.spread(range(8), above)) if self.layer.is_mac else 1,
            times=times,
            words=self._words(leg),
        )

    def _words(self, *legs: Leg) -> tuple[tuple[int, float], ...]:
        words = self.of.evaluation.words
        return tuple((number, float(words[number, self.i])) for leg in legs for number in self.legs[leg])

    def _compute(self) -> Line:
        if not self.layer.is_mac:
            return Line(0, "compute", f"O = {' + '.join('A' for _ in self.layer.inputs)}")
        weights, inputs, sums = (self.named(self.structure.keepers(tensor)[-1]) for tensor in "WIO")
        words = self._words(*(leg for leg in self.legs if leg.inner == MACS))
        return Line(0, "compute", "O += W * I", f"W from {weights}, I from {inputs}, O in {sums}", words=words)

    # What is said of a tile.

    def _own_trips(self) -> list[int]:
        return [self.at(trips) for trips in self.nest.fusion.shared]

    def _sum_tile(self, memory: int) -> float:
        """Bytes of an add layer's operand in one shared iteration, over all instances of a keeper."""
        bits = self.of.machine.bits
        width = bits.sums if memory == self.structure.keepers("O")[-1] else bits.O
        return prod(self.at(tile) for tile in self.nest.fusion.tile) * width / 8

    def _addends(self, leg: Leg) -> str:
        """Where an add layer's operands come from."""
        ends = {self.of.evaluation.flows[number].memory for number in self.legs[leg]}
        fused = [edge.source for edge in self.fused]
        told = [operand.source or "network input" for operand in self.layer.inputs if operand.source not in fused]
        if 0 not in ends:
            told = []
        if self.structure.fuses in ends:
            told += [f"buffer of {source}" for source in fused]
        return f"({', '.join(told)})" if told else ""

    def _operand_notes(self, tensor: str, memory: int, times: int) -> list[str]:
        notes: list[str] = []
        if memory == self.structure.home(tensor):
            source = next((operand.source for operand in self.layer.inputs if operand.port == "weight"), None)
            if tensor == "W" and source and not self.number(self.nest.fusion.fused_weight):
                notes.append(f"from {source}")
            channels, fused = self.layer.dims.G * self.layer.dims.C, self.at(self.nest.fusion.fused_channels)
            if tensor == "I" and fused:
                notes.append(f"{channels - fused} of {channels} channels")
        if tensor == "I":
            notes += self._sliding(memory)
        kept = self.of.need.tiles.kept.get((memory, tensor))
        if kept is not None and self.number(kept) > 0:
            notes.append("pinned for the whole group" if times == 1 else "stays for a next iteration")
        return notes

    def _sliding(self, memory: int) -> Iterator[str]:
        """Where the window's next tile brings only some rows or columns."""
        for loop in self.nest.loops_above(memory):
            for image, (out, kernel) in enumerate(IMAGE_DIMS):
                if loop.dim in (out, kernel) and self.at(self.nest.slides(memory, loop)):
                    step = (self.layer.stride if loop.dim == out else self.layer.dilation)[image]
                    fresh = self.at(self.nest.held(memory, loop.dim)) * step
                    if fresh < self.at(self.nest.box(memory)[image]):
                        yield f"slides: {fresh} more {('rows', 'columns')[image]} after the first turn of a sweep"

    def _shape(self, tensor: str, memory: int) -> str:
        """The extents of a tile, ``[K32 C64]``; of I its box, H rows and V columns."""
        dims = (G, N, C) if tensor == "I" else RELEVANT_DIMS[tensor]
        sizes = [(DIMS[d], self.at(self.nest.held(memory, d))) for d in dims]
        if tensor == "I":
            sizes += [(side, self.at(size)) for side, size in zip("HV", self.nest.box(memory), strict=True)]
        return "[" + (" ".join(f"{dim}{size}" for dim, size in sizes if size > 1) or "1") + "]"
