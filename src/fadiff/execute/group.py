"""One group of layers: shared loops outside, its layers one after the other inside."""

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from fadiff.execute.ledger import Bookkeeper, Ledger
from fadiff.execute.mac_run import MacRun
from fadiff.execute.nest import Block, K, N, P, Q, build_nest
from fadiff.execute.occupancy import Buffer, Occupancy, Residence
from fadiff.execute.operands import Operand, Outlet, weight_parts
from fadiff.execute.plan import Indices, Plan
from fadiff.execute.result import Count, LayerRun
from fadiff.execute.role import layer_role
from fadiff.execute.tensors import Tensors, exact_dtype
from fadiff.execute.traffic import MACS, STEPS, SharedWalk, Traffic
from fadiff.schedule import Group, Schedule
from fadiff.workload import Layer

Tick = Callable[[str, int], None]


class GroupRun:
    """The execution of one group. `tensors` has the arrays that take its outputs."""

    def __init__(self, schedule: Schedule, group: Group, tensors: Tensors) -> None:
        self._schedule, self._group, self._tensors = schedule, group, tensors
        self._machine, self._workload = schedule.machine, schedule.workload
        self._plan = plan = Plan(schedule.workload, group)
        self.occupancy = Occupancy(schedule.machine)
        layers = [self._workload[name] for name in group.layers]
        self._roles = {name: layer_role(schedule, tensors, name) for name in group.layers}
        self._buffers = {name: Buffer(self._workload[name].stored) for name in group.layers if plan.consumers(name)}
        self._outlets = {layer.name: Outlet(layer, tensors.stored[layer.name]) for layer in layers}
        self._pieces = {name: {p.at: (i, p.block) for i, p in enumerate(plan.pieces(name))} for name in group.layers}
        self._macs = {layer.name: self._mac(layer) for layer in layers if layer.is_mac}

    def run(self, tick: Tick) -> None:
        """Runs all shared iterations; `tick` is told of pieces of layers as they are done, and of their MACs."""
        for at in self._plan.iterations:
            for name in self._group.layers:
                self._step(name, at, tick)
                self._release(name, at)

    def result(self, name: str) -> LayerRun:
        """What a layer moved."""
        layer, outlet = self._workload[name], self._outlets[name]
        bookkeeper = Bookkeeper(self._machine, layer, self._roles[name])
        padding, lead, numbers = Ledger(), Ledger(), (0, 0, 0)
        if layer.is_mac:
            run, residence = self._macs[name]
            wanted, padding = bookkeeper.moves(run.walk.traffic, run.counts, run.moved, outlet.stored)
            difference = residence.tiles - run.walk.total()
            lead, _ = bookkeeper.moves(run.walk.traffic, difference, {}, 0)
            numbers = (int(run.counts[MACS]), int(run.counts[STEPS]), int(difference[STEPS]))
        else:
            fused = sum(operand.source in self._group.layers for operand in layer.inputs)
            wanted = bookkeeper.addends(fused, len(layer.inputs) - fused, outlet.computed, outlet.stored)
        width = {memory.name: memory.word_bits for memory in self._machine.memories}
        counts = {
            kind: Count(width[kind.memory], wanted[kind] - padding[kind], padding[kind], lead[kind])
            for kind in sorted({*wanted, *padding, *lead})
        }
        return LayerRun(counts, *numbers)

    # One layer in one shared iteration.

    def _step(self, name: str, at: Indices, tick: Tick) -> None:
        self.occupancy.begin(name)
        *outputs, rows, cols = stored = self._plan.stores(name, at)
        if name in self._buffers:
            self._buffers[name].reserve(self._key(at), rows, cols, prod(end - first for first, end in outputs))
            self._hold_buffer(name)
        if at in self._pieces[name]:
            self._look_for_operands(name, at)
            number, block = self._pieces[name][at]
            if name in self._macs:
                run, residence = self._macs[name]
                self.occupancy.hold(name, residence.running(block))
                run.run(number)
                tick(name, prod(lens[0] for lens in block.lens))
                self.occupancy.hold(name, residence.kept(number))
            else:
                self._add(self._workload[name], block)
        if self._plan.completes(name, at):
            self._outlets[name].finish(stored)

    def _key(self, at: Indices) -> Indices:
        """The iteration of the loops that are not over rows and columns."""
        return tuple(self._plan.index(at, loop) for loop in "GNX")

    def _hold_buffer(self, name: str) -> None:
        bits = self._buffers[name].values * self._machine.bits.O
        self.occupancy.hold(name, {(self._roles[name].fuses, "buffer"): bits})

    def _look_for_operands(self, name: str, at: Indices) -> None:
        """All that a layer reads of fused operands must be there."""
        for edge in (edge for edge in self._workload.producers[name] if edge.source in self._buffers):
            rows, cols = (self._plan.read(edge, at, loop)[:2] for loop in "PQ")
            if missing := self._buffers[edge.source].missing(self._key(at), rows, cols):
                told = f"{name} reads {missing} places of {edge.source} that are not on chip at that time"
                raise self._plan.error(told)

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
            (row, _, next_row), (_, _, next_col) = (self._plan.read(edge, at, loop) for loop in "PQ")
            wanted[row:, next_col:] = True
            wanted[next_row:] = True
        return wanted

    def _add(self, layer: Layer, block: Block) -> None:
        """Sums a piece of an add layer's operands, ``[N, K, P, Q]``."""
        n, k, p, q = (slice(block.starts[d], block.starts[d] + block.lens[d][0]) for d in (N, K, P, Q))
        parts = [self._tensors.operand(layer, i)[n, k, p, q].astype(np.float32) for i in range(len(layer.inputs))]
        sums = sum(parts[1:], parts[0]).transpose(1, 0, 2, 3)[None]
        self._outlets[layer.name].drain(sums, (0, k.start, n.start, p.start, q.start))

    # What MAC layers are made of.

    def _mac(self, layer: Layer) -> tuple[MacRun, Residence]:
        name, plan, role, dtype = layer.name, self._plan, self._roles[layer.name], exact_dtype(layer)
        nest = build_nest(layer, self._machine, self._schedule.mappings[name], plan.tile(name))
        traffic = Traffic(nest, role)
        walk, tiles = (SharedWalk(traffic, plan.dims(name), plan.pieces(name, leads=leads)) for leads in (True, False))
        weights = Operand(weight_parts(layer.dims, partial(self._tensors.weights, layer)), dtype)
        inputs = Operand(role.parts, dtype)
        run = MacRun(walk, weights, inputs, self._outlets[name])
        return run, Residence(self._machine, role, walk, inputs, tiles.total())
