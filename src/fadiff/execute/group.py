"""One group of layers: shared loops outside, its layers one after the other inside."""

from collections.abc import Callable, Mapping
from itertools import product

from fadiff.execute.adds import Adder
from fadiff.execute.buffers import Buffer, Shared
from fadiff.execute.counts import Tally
from fadiff.execute.geometry import Geometry
from fadiff.execute.nest import Nest
from fadiff.execute.occupancy import Occupancy
from fadiff.execute.operands import Fused, Given, InputOperand, Rect, WeightOperand
from fadiff.execute.outlets import Outlet
from fadiff.execute.runnable import shared_trips
from fadiff.execute.tensors import Words, as_input, as_weight
from fadiff.execute.walk import Walk, sweep
from fadiff.schedule import Group, Schedule
from fadiff.workload import Layer


class GroupRun:
    """The execution of one group.

    `given[layer]` are the tensors in L3 that it reads; `records[layer]`, ``[N, G, K, P', Q']``, takes its output.
    """

    def __init__(
        self,
        schedule: Schedule,
        group: Group,
        given: Mapping[str, Given],
        records: Mapping[str, Words],
    ) -> None:
        self._schedule, self._group = schedule, group
        self._workload = schedule.workload
        self._given = given
        self.tallies = {name: Tally() for name in group.layers}
        self.warm_up = {name: Tally() for name in group.layers}
        self._buffers = self._make_buffers()
        self._nests: dict[str, Nest] = {}
        self._adders: dict[str, Adder] = {}
        self._outlets: dict[str, Outlet] = {}
        for name in group.layers:
            layer = self._workload[name]
            if layer.is_mac:
                self._nests[name] = self._make_nest(layer)
            else:
                self._adders[name] = Adder(layer, [s for s, _ in self._sources(layer, "addend")], group.trips.N)
            consumers = self._workload.consumers[name]
            self._outlets[name] = Outlet(
                layer,
                records[name],
                shared_trips(schedule, group, layer),
                drained=not consumers or any(edge.target not in group.layers for edge in consumers),
                buffer=self._buffers.get(name),
            )
        self._walk = self._choose_walk()
        self.occupancy = self._make_occupancy(self._walk, self._buffers)

    def is_drained(self, name: str) -> bool:
        """Whether a layer's output lies in L3 once the group has run."""
        return self._outlets[name].drained

    def is_uneven(self, name: str) -> bool:
        """Whether a layer leads the group's last one, so that its blocks are not all of one size."""
        return not self._walk.is_even(name)

    def run(self, tick: Callable[[str, int], None]) -> None:
        """Runs all shared iterations; `tick` is told of MACs as they are done."""
        for at in self._walk.iterations:
            for name in self._group.layers:
                self._step(name, at, tick)
                self.occupancy.release(name, at)

    def _step(self, name: str, at: Shared, tick: Callable[[str, int], None]) -> None:
        """The work of one layer in one shared iteration."""
        tally = Tally()
        outlet = self._outlets[name]
        self.occupancy.begin(name, at)
        outlet.begin(at)
        if self._walk.computes(name, at):
            rows, cols = self._walk.block(name, at)
            if name in self._nests:
                nest = self._nests[name]
                nest.run(at, rows, cols, outlet, tally, lambda macs: tick(name, macs))
                nest.finish(at, self._walk.next_computing(name, at), tally)
            else:
                self._adders[name].run(at, rows, cols, self.occupancy.add_chunk(name, at), outlet, tally)
        if self._walk.stores(name, at):
            outlet.finish(at, *self._walk.stored_block(name, at), tally)
        self.occupancy.end(name, at)
        self.tallies[name].add(tally)
        if at.p < 0 or at.q < 0:
            self.warm_up[name].add(tally)

    def _choose_walk(self) -> Walk:
        """The walk on which the fewest layers go ahead that fits; the one that needs least room where none does.

        Layers go ahead from the first one on: what a layer computes in warm-up needs what it reads.
        """
        walk = self._make_walk(0)
        if self._fits(walk):
            return walk
        for count in range(1, len(self._group.layers)):
            for rows_ahead, cols_ahead in ((True, False), (False, True), (True, True)):
                other = self._make_walk(count, rows_ahead=rows_ahead, cols_ahead=cols_ahead)
                if rows_ahead == (other.rows.first < 0) and cols_ahead == (other.cols.first < 0):
                    walk = other
                    if self._fits(walk):
                        return walk
        return walk

    def _make_walk(self, count: int, *, rows_ahead: bool = False, cols_ahead: bool = False) -> Walk:
        """The walk on which so many layers go ahead."""
        ahead, nobody = frozenset(self._group.layers[:count]), frozenset[str]()
        rows = sweep(self._workload, self._group, 0, ahead if rows_ahead else nobody)
        cols = sweep(self._workload, self._group, 1, ahead if cols_ahead else nobody)
        return Walk(self._workload, self._group, rows, cols)

    def _fits(self, walk: Walk) -> bool:
        """Whether a walk stays within L2 and L1 all the way."""
        occupancy = self._make_occupancy(walk, self._make_buffers())
        for at in walk.iterations:
            for name in self._group.layers:
                occupancy.begin(name, at)
                occupancy.end(name, at)
                occupancy.release(name, at)
                if occupancy.l1.overflows or occupancy.l2.overflows:
                    return False
        return True

    def _make_occupancy(self, walk: Walk, buffers: Mapping[str, Buffer]) -> Occupancy:
        geometries = {name: nest.geometry for name, nest in self._nests.items()}
        return Occupancy(self._workload, self._schedule.hardware, walk, geometries, buffers)

    def _make_buffers(self) -> dict[str, Buffer]:
        """A buffer for each tensor that a layer of the group reads."""
        buffers: dict[str, Buffer] = {}
        for name in self._group.layers:
            if any(edge.target in self._group.layers for edge in self._workload.consumers[name]):
                layer = self._workload[name]
                shared, d = shared_trips(self._schedule, self._group, layer), layer.dims
                buffers[name] = Buffer((d.N // shared.N, d.G // shared.G, d.K // shared.K, *layer.stored))
        return buffers

    def _make_nest(self, layer: Layer) -> Nest:
        mapping, hardware = self._schedule.mappings[layer.name], self._schedule.hardware
        shared = shared_trips(self._schedule, self._group, layer)
        inputs = InputOperand(layer, self._sources(layer, "input"), shared)
        weights = WeightOperand(layer, self._sources(layer, "weight")[0][0], shared)
        x2, d = mapping.extent(2), layer.dims
        corners = product(range(0, d.G, x2.G), range(0, d.C, x2.C))
        tiles = (inputs.stretches(Rect(g, g + x2.G, c, c + x2.C)) for g, c in corners)
        geometry = Geometry(
            layer,
            mapping,
            hardware,
            shared,
            self._nesting(layer),
            channels_from_l3=x2.N * max(sum(stretch.channels for stretch in tile) for tile in tiles),
            weights_from_l3=weights.from_l3,
        )
        return Nest(
            geometry,
            inputs,
            weights,
            spill_words=hardware.spill_words,
            keeps_registers=len(self._group.layers) == 1,
        )

    def _nesting(self, layer: Layer) -> str:
        """The shared loops with several trips, outer to inner, as dims of a layer: X is its K or its C."""
        ends = self._schedule.channel_loop(self._group)
        x = "K" if ends is not None and layer.name == ends[0] else "C"
        trips = self._group.trips._asdict()
        return "".join(x if loop == "X" else loop for loop in self._group.nesting if trips[loop] > 1)

    def _sources(self, layer: Layer, port: str) -> list[tuple[Words | Fused, int]]:
        """What is on a port: tensors in L3 as that port reads them, or fused ones, with their channels."""
        d = layer.dims
        given = self._given[layer.name]
        shares = self._workload.input_channels(layer)
        sources: list[tuple[Words | Fused, int]] = []
        for operand, words, share in zip(layer.inputs, given.inputs, shares, strict=True):
            if operand.port != port:
                continue
            if operand.source is None or operand.is_foreign:
                assert words is not None
                sources.append((words, share))
                continue
            producer = self._workload[operand.source]
            if words is None:
                sources.append((Fused(producer, self._buffers[producer.name]), share))
            elif port == "input":
                sources.append((as_input(words, producer, layer, d.N), share))
            elif port == "weight":
                sources.append((as_weight(words, producer, (d.G, d.K, d.C, d.R, d.S)), share))
            else:
                sources.append((words.reshape(d.N, d.K, d.P, d.Q), share))
        if port == "weight" and given.parameters is not None:
            sources.append((given.parameters, 0))
        return sources
