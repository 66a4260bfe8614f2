"""One group of layers: shared loops outside, its layers one after the other inside."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadiff.execute.ledger import Bookkeeper, Ledger
from fadiff.execute.mac_run import MacRun
from fadiff.execute.nest import build_nest
from fadiff.execute.occupancy import Buffer, Occupancy, Residence
from fadiff.execute.operands import Inputs, Part, weight_source
from fadiff.execute.outlet import AddRun, Outlet
from fadiff.execute.plan import Indices, Plan
from fadiff.execute.result import Access, Count, ExecutionError, LayerRun
from fadiff.execute.role import layer_role
from fadiff.execute.tensors import Tensors, data_lines, exact_dtype
from fadiff.execute.traffic import MACS, STEPS, Counts, SharedWalk, Traffic
from fadiff.schedule import Group, Schedule
from fadiff.workload import Layer

Tick = Callable[[str, int], None]


class _Mac(NamedTuple):
    """A MAC layer of the group: as it runs, what its tiles would move if it did not lead, and what room they take."""

    run: MacRun
    tiles: Counts
    residence: Residence


class GroupRun:
    """The execution of one group. `tensors` has the arrays that take its outputs."""

    def __init__(self, schedule: Schedule, group: Group, tensors: Tensors) -> None:
        self._schedule, self._group, self._tensors = schedule, group, tensors
        self._machine, self._workload = schedule.machine, schedule.workload
        self._plan = plan = Plan(schedule.workload, group)
        self.occupancy = Occupancy(schedule.machine)
        layers = [self._workload[name] for name in group.layers]
        self._roles = {name: layer_role(schedule, name) for name in group.layers}
        self._buffers = {name: Buffer(self._workload[name].stored) for name in group.layers if plan.consumers(name)}
        self._outlets = {layer.name: Outlet(layer, tensors.stored[layer.name]) for layer in layers}
        self._pieces = {name: plan.pieces(name) for name in group.layers}
        self._numbers = {name: {p.at: i for i, p in enumerate(pieces)} for name, pieces in self._pieces.items()}
        self._macs = {layer.name: self._mac(layer) for layer in layers if layer.is_mac}
        self._adds = {layer.name: self._add(layer) for layer in layers if not layer.is_mac}

    def run(self, tick: Tick) -> None:
        """Runs all shared iterations; `tick` is told of pieces of layers as they are done, and of their MACs."""
        for at in self._plan.iterations:
            for name in self._group.layers:
                self._step(name, at, tick)
                self._release(name, at)

    # One layer in one shared iteration.

    def _step(self, name: str, at: Indices, tick: Tick) -> None:
        self.occupancy.begin(name)
        rows, cols = (self._plan.finished(name, at, loop) for loop in "PQ")
        outputs = self._plan.outputs(name, at)
        if name in self._buffers:
            n, g, k = (end - first for first, end in outputs)
            self._buffers[name].reserve(self._key(at), rows, cols, n * g * k)
            self._hold_buffer(name)
        if (number := self._numbers[name].get(at)) is not None:
            self._look_for_operands(name, at)
            block = self._pieces[name][number].block
            if name in self._adds:
                self._adds[name].run(block)
            else:
                mac = self._macs[name]
                self.occupancy.hold(name, mac.residence.running(block))
                mac.run.run(number)
                tick(name, prod(lens[0] for lens in block.lens))
                self.occupancy.hold(name, mac.residence.kept(mac.run.walk, number))
        if self._plan.completes(name, at):
            self._outlets[name].finish(outputs, rows, cols)

    def _key(self, at: Indices) -> Indices:
        """The iteration of the loops that are not over rows and columns."""
        return tuple(self._plan.index(at, loop) for loop in "GNX")

    def _hold_buffer(self, name: str) -> None:
        bits = self._buffers[name].values * self._machine.bits.O
        self.occupancy.hold(name, {(self._roles[name].fuses, "buffer"): bits})

    def _look_for_operands(self, name: str, at: Indices) -> None:
        """All that a layer reads of fused operands must be there."""
        for edge in self._workload.producers[name]:
            if edge.source in self._buffers:
                rows, cols = (self._plan.read(edge, i, self._plan.span(name, at, loop)) for i, loop in enumerate("PQ"))
                if missing := self._buffers[edge.source].missing(self._key(at), rows, cols):
                    told = f"{name} reads {missing} places of {edge.source} that are not on chip at that time"
                    raise ExecutionError(f"group {self._group.name}: {told}")

    def _release(self, name: str, at: Indices) -> None:
        """Empties the buffers that wait for this layer, as the last of their readers, of what nobody needs now."""
        for source, buffer in self._buffers.items():
            if max((edge.target for edge in self._plan.consumers(source)), key=self._group.layers.index) == name:
                buffer.release(self._key(at), self._wanted(source, at))
                self._hold_buffer(source)

    def _wanted(self, source: str, at: Indices) -> NDArray[np.bool_]:
        """Rows and columns ``[P', Q']`` of a fused tensor that its readers still need once an iteration is done."""
        wanted = np.zeros(self._workload[source].stored, np.bool_)
        for edge in self._plan.consumers(source):
            rows, cols = (self._plan.span(edge.target, at, loop) for loop in "PQ")
            row, next_row = (self._plan.first_read(edge, 0, computed) for computed in rows)
            wanted[row:, self._plan.first_read(edge, 1, cols[1]) :] = True
            wanted[next_row:] = True
        return wanted

    # What the layers are made of.

    def _mac(self, layer: Layer) -> _Mac:
        name, plan, role, dtype = layer.name, self._plan, self._roles[layer.name], exact_dtype(layer)
        nest = build_nest(layer, self._machine, self._schedule.mappings[name], plan.tile(name))
        traffic = Traffic(nest, role.chains, role.images)
        forgets = frozenset(i for i, leg in enumerate(traffic.legs) if role.forgets(leg))
        walk = SharedWalk(traffic, plan.dims(name), self._pieces[name], forgets)
        tiles = SharedWalk(traffic, plan.dims(name), plan.tiles(name), forgets).total()
        weights = weight_source(partial(self._tensors.weights, layer), dtype)
        inputs = Inputs(layer.dims, self._parts(layer), dtype)
        run = MacRun(traffic, walk, weights, inputs.take, self._outlets[name])
        return _Mac(run, tiles, Residence(self._machine, role, traffic, inputs, tiles))

    def _parts(self, layer: Layer) -> list[Part]:
        """The tensors on the input port."""
        parts: list[Part] = []
        first = 0
        for place, channels in enumerate(self._workload.input_channels(layer)):
            if layer.inputs[place].port == "input":
                look, lines = partial(self._tensors.operand, layer, place), data_lines(self._workload, layer, place)
                fused = layer.inputs[place].source in self._group.layers
                parts.append(Part((first, first + channels), look, lines, fused))
                first += channels
        return parts

    def _add(self, layer: Layer) -> AddRun:
        fused = [operand.source in self._group.layers for operand in layer.inputs]
        looks = [partial(self._tensors.operand, layer, place) for place in range(len(fused))]
        return AddRun(list(zip(looks, fused, strict=True)), self._outlets[layer.name])

    # What they moved.

    def result(self, name: str) -> LayerRun:
        """What a layer moved."""
        layer, stored = self._workload[name], self._outlets[name].stored
        bookkeeper = Bookkeeper(self._machine, layer, self._roles[name])
        if name in self._adds:
            add = self._adds[name]
            wanted = bookkeeper.addends(add.values[True], add.values[False], add.computed, stored)
            return LayerRun(self._counts(wanted, Ledger(), Ledger()), 0, 0, 0)
        run, tiles, _ = self._macs[name]
        wanted = bookkeeper.moves(run.traffic, run.counts, run.moved, stored)
        padding = bookkeeper.padding(run.traffic, run.counts, run.moved)
        difference = tiles - run.walk.total()
        lead = bookkeeper.moves(run.traffic, difference, {}, 0)
        numbers = (int(run.counts[MACS]), int(run.counts[STEPS]), int(difference[STEPS]))
        return LayerRun(self._counts(wanted, padding, lead), *numbers)

    def _counts(self, wanted: Ledger, padding: Ledger, lead: Ledger) -> dict[Access, Count]:
        """Counts of what was wanted, less the padding in it."""
        width = {memory.name: memory.word_bits for memory in self._machine.memories}
        return {
            kind: Count(width[kind.memory], wanted[kind] - padding[kind], padding[kind], lead[kind])
            for kind in sorted({*wanted, *padding, *lead})
        }
