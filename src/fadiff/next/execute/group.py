"""One group of layers: shared loops outside, its layers one after the other inside."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadiff.next.execute.add_run import AddRun
from fadiff.next.execute.buffers import Buffer, Occupancy
from fadiff.next.execute.data import Span, Words, as_operand, exact_dtype, pads
from fadiff.next.execute.ledger import Bookkeeper, Ledger
from fadiff.next.execute.mac_run import MacRun
from fadiff.next.execute.nest import build_nest
from fadiff.next.execute.operands import Inputs, Part, Weights
from fadiff.next.execute.outlet import Outlet
from fadiff.next.execute.plan import Indices, Plan, reach
from fadiff.next.execute.residence import Residence
from fadiff.next.execute.result import Absence, Access, Count, LayerRun
from fadiff.next.execute.role import Role, layer_role
from fadiff.next.execute.shared import SharedWalk
from fadiff.next.execute.traffic import MACS, STEPS, Counts, Traffic
from fadiff.next.hardware import Machine, Memory
from fadiff.next.schedule import Group, Schedule
from fadiff.workload import Edge, Layer

Tick = Callable[[str, int], None]


class Given(NamedTuple):
    """The tensors in the first memory that a layer reads.

    `operands` has one for each of the layer's inputs, as its port reads it; None where it comes from a layer of the
    same group. `parameters` are W; None with a weight port or in an add layer.
    """

    operands: tuple[Words | None, ...]
    parameters: Words | None


class _Mac(NamedTuple):
    """A MAC layer of the group: as it runs, what its tiles would move if it did not lead, and what room they take."""

    run: MacRun
    tiles: Counts
    residence: Residence


class GroupRun:
    """The execution of one group. `records[layer]`, ``[N, G, K, P', Q']``, takes its output."""

    def __init__(
        self, schedule: Schedule, group: Group, given: Mapping[str, Given], records: Mapping[str, Words]
    ) -> None:
        self._schedule, self._workload, self._given, self._records = schedule, schedule.workload, given, records
        self._plan = Plan(schedule.workload, group)
        self.occupancy = Occupancy(schedule.machine, group.name)
        self.absences: dict[tuple[str, str], Absence] = {}
        self._roles = {name: layer_role(schedule, name) for name in group.layers}
        self._buffers = {n: Buffer(self._workload[n].stored) for n in group.layers if self._roles[n].fused_output}
        self._outlets = {name: Outlet(self._workload[name], records[name]) for name in group.layers}
        self._pieces = {name: self._plan.pieces(name) for name in group.layers}
        self._numbers = {name: {piece.at: i for i, piece in enumerate(self._pieces[name])} for name in group.layers}
        layers = [self._workload[name] for name in group.layers]
        self._macs = {layer.name: self._mac(layer, self._roles[layer.name]) for layer in layers if layer.is_mac}
        self._adds = {layer.name: self._add(layer) for layer in layers if not layer.is_mac}

    def run(self, tick: Tick) -> None:
        """Runs all shared iterations; `tick` is told of MACs as they are done."""
        for at in self._plan.iterations:
            for name in self._plan.group.layers:
                self._step(name, at, tick)
                self._release(name, at)

    def results(self) -> dict[str, LayerRun]:
        """What every layer moved."""
        return {name: self._result(name) for name in self._plan.group.layers}

    def is_drained(self, name: str) -> bool:
        """Whether a layer's output lies in the first memory once the group has run."""
        return self._roles[name].drained

    # One layer in one shared iteration.

    def _step(self, name: str, at: Indices, tick: Tick) -> None:
        self.occupancy.begin(name)
        rows, cols = self._plan.finished(name, at)
        outputs = self._plan.outputs(name, at)
        if name in self._buffers:
            n, g, k = (end - first for first, end in outputs)
            self._buffers[name].reserve(self._key(at), rows, cols, n * g * k)
            self._hold_buffer(name)
        number = self._numbers[name].get(at)
        if number is not None:
            self._look_for_operands(name, at)
            if name in self._macs:
                mac = self._macs[name]
                self._hold_tiles(name, mac.residence.running(self._pieces[name][number].block))
                mac.run.run(number, lambda macs: tick(name, macs))
                self._hold_tiles(name, mac.residence.kept(mac.run.walk, number))
            else:
                self._adds[name].run(self._pieces[name][number].block)
        if self._plan.group.x_dim(name) != "C" or self._plan.index(at, "X") == self._plan.group.trips.X - 1:
            self._outlets[name].finish(outputs, rows, cols)

    def _key(self, at: Indices) -> Indices:
        """The iteration of the loops that are not over rows and columns."""
        return tuple(self._plan.index(at, loop) for loop in "GNX")

    def _hold_buffer(self, name: str) -> None:
        fuses = self._roles[name].fuses
        if fuses is not None:
            self.occupancy.hold(fuses, f"{name} buffer", self._buffers[name].values * self._schedule.machine.bits.O)

    def _hold_tiles(self, name: str, held: Mapping[tuple[int, str], int]) -> None:
        for (node, tensor), bits in held.items():
            self.occupancy.hold(node, f"{name} {tensor}", bits)

    def _look_for_operands(self, name: str, at: Indices) -> None:
        """Notes what of its fused operands is not there when a layer reads it."""
        for edge in self._workload.producers[name]:
            if edge.source in self._buffers:
                rows, cols = (self._rows_read(edge, axis, self._plan.spans(name, at)[axis]) for axis in (0, 1))
                missing = self._buffers[edge.source].missing(self._key(at), rows, cols)
                if missing and (edge.target, edge.source) not in self.absences:
                    self.absences[edge.target, edge.source] = Absence(edge.target, edge.source, missing)

    def _rows_read(self, edge: Edge, axis: int, computed: Span) -> Span:
        stored = self._workload[edge.source].stored[axis]
        reads = reach(self._workload, edge, axis)
        return (0, stored) if reads is None else reads.needed(computed, stored)

    def _release(self, name: str, at: Indices) -> None:
        """Empties the buffers that wait for this layer, as the last of their readers, of what nobody needs now."""
        for source, buffer in self._buffers.items():
            readers = [edge.target for edge in self._plan.consumers(source)]
            if max(readers, key=self._plan.group.layers.index) == name:
                buffer.release(self._key(at), self._wanted(source, at))
                self._hold_buffer(source)

    def _wanted(self, source: str, at: Indices) -> NDArray[np.bool_]:
        """Rows and columns ``[P', Q']`` of a fused tensor that its readers still need once an iteration is done."""
        wanted = np.zeros(self._workload[source].stored, np.bool_)
        for edge in self._plan.consumers(source):
            rows, cols = self._plan.spans(edge.target, at)
            wanted[self._let_go(edge, 0, rows[0]) :, self._let_go(edge, 1, cols[1]) :] = True
            wanted[self._let_go(edge, 0, rows[1]) :, :] = True
        return wanted

    def _let_go(self, edge: Edge, axis: int, computed: int) -> int:
        """Stored rows of an edge's source that its target needs no more once so many of its own are computed."""
        target = self._workload[edge.target]
        stored = self._workload[edge.source].stored[axis]
        if computed >= (target.dims.P, target.dims.Q)[axis]:
            return stored
        return self._rows_read(edge, axis, (computed, computed + 1))[0]

    # What the layers are made of.

    def _mac(self, layer: Layer, role: Role) -> _Mac:
        name, machine, plan = layer.name, self._schedule.machine, self._plan
        mapping = self._schedule.mappings[name]
        nest = build_nest(layer, machine, mapping, plan.tile[name], plan.shared_trips(name), role.chains)
        traffic = Traffic(nest, role.images)
        forgets = frozenset(i for i, leg in enumerate(nest.legs) if role.forgets(leg))
        dtype = exact_dtype(layer.dims.C * layer.dims.R * layer.dims.S)
        inputs = Inputs(layer.dims, self._parts(layer), dtype)
        walk = SharedWalk(traffic, plan.dims(name), self._pieces[name], forgets)
        run = MacRun(traffic, walk, Weights(self._weights(layer), dtype), inputs, self._outlets[name])
        tiles = SharedWalk(traffic, plan.dims(name), plan.tiles(name), forgets).total()
        return _Mac(run, tiles, Residence(machine, role, traffic, inputs, tiles))

    def _add(self, layer: Layer) -> AddRun:
        members = self._plan.group.layers
        addends = [(self._look(layer, i), operand.source in members) for i, operand in enumerate(layer.inputs)]
        return AddRun(addends, self._outlets[layer.name])

    def _parts(self, layer: Layer) -> list[Part]:
        """The tensors on the input port."""
        parts: list[Part] = []
        first = 0
        for i, (operand, channels) in enumerate(zip(layer.inputs, self._workload.input_channels(layer), strict=True)):
            if operand.port == "input":
                look = self._look(layer, i)
                rows, cols = look().shape[2:]
                fused = operand.source in self._plan.group.layers
                parts.append(Part((first, first + channels), look, pads(layer, operand, (rows, cols)), fused))
                first += channels
        return parts

    def _weights(self, layer: Layer) -> Callable[[], Words]:
        parameters = self._given[layer.name].parameters
        if parameters is not None:
            return lambda: parameters
        return self._look(layer, next(i for i, operand in enumerate(layer.inputs) if operand.port == "weight"))

    def _look(self, layer: Layer, number: int) -> Callable[[], Words]:
        """How to find an operand: in the first memory, or as far as it is made in the one that fuses."""
        operand, words = layer.inputs[number], self._given[layer.name].operands[number]
        if words is not None:
            return lambda: words
        assert operand.source is not None
        producer, record = self._workload[operand.source], self._records[operand.source]
        return lambda: as_operand(record, producer, layer, operand.port)

    # What they moved.

    def _result(self, name: str) -> LayerRun:
        layer, machine, stored = self._workload[name], self._schedule.machine, self._outlets[name].stored
        bookkeeper = Bookkeeper(machine, layer, self._roles[name])
        nodes = {i: node for i, node in enumerate(machine.nodes) if isinstance(node, Memory)}
        if name in self._adds:
            add = self._adds[name]
            wanted = bookkeeper.addends(add.fused, add.unfused, add.computed, stored)
            instances = {node.name: machine.instances(i) for i, node in nodes.items()}
            return LayerRun(_counts(machine, wanted, Ledger(), Ledger()), 0, 0, 0, instances)
        run, tiles, _ = self._macs[name]
        wanted = bookkeeper.moves(run.traffic, run.counts, run.moved, stored)
        padding = bookkeeper.padding(run.traffic, run.counts, run.moved)
        difference = tiles - run.walk.total()
        lead = bookkeeper.moves(run.traffic, difference, {}, 0)
        block = self._plan.tiles(name)[0].block
        return LayerRun(
            counts=_counts(machine, wanted, padding, lead),
            macs=int(run.counts[MACS]),
            steps=int(run.counts[STEPS]),
            lead_steps=int(difference[STEPS]),
            instances={node.name: run.traffic.nest.instances(block, i) for i, node in nodes.items()},
        )


def _counts(machine: Machine, wanted: Ledger, padding: Ledger, lead: Ledger) -> dict[Access, Count]:
    """Counts of what was wanted, less the padding in it."""
    width = {memory.name: memory.word_bits for memory in machine.memories}
    return {
        kind: Count(width[kind.memory], wanted[kind] - padding[kind], padding[kind], lead[kind])
        for kind in sorted({*wanted, *padding, *lead})
    }
