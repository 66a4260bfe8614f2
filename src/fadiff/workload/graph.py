"""The network as a value: layers, joined by edges into a checked, immutable graph.

A workload that exists is a valid one: the constructor raises :class:`WorkloadError` with one sentence.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from fadiff.workload.coverage import Coverage, NotModelled
from fadiff.workload.layer import Input, Layer, Port, WorkloadError


class Edge(NamedTuple):
    """A tensor handed from one layer to another.

    `channels` is the edge's share of the consumer's G*C input channels: concatenation lays several end to end.
    It is 0 on the weight and addend ports, where an edge always brings the whole operand. An edge that is not
    `fusible` is a dependency only: the producer writes to L3, the consumer reads what its port wants from there.
    `reason` says why, where somebody knows.
    """

    source: str
    target: str
    port: Port
    channels: int
    fusible: bool = True
    reason: str | None = None


@dataclass(frozen=True)
class Workload:
    """A network: layers with unique names, an acyclic graph, and shapes that agree along every fusible edge.

    `not_modelled` are operators of the model it comes from that no layer stands for, `notes` what was assumed.
    """

    name: str
    layers: tuple[Layer, ...]
    not_modelled: tuple[NotModelled, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or not self.name.isprintable():
            raise WorkloadError(f"workload name {self.name!r}: give it a name of printable characters")
        if not self.layers:
            raise WorkloadError(f"workload {self.name!r} has no layers: give it at least one")
        for text in (*self.notes, *(text for row in self.not_modelled for text in (row.name, row.type, row.reason))):
            if not text.isprintable():
                raise WorkloadError(f"{text!r} does not print: write notes, and what is not modelled, on a line each")
        seen: set[str] = set()
        for layer in self.layers:
            if layer.name in seen:
                raise WorkloadError(f"two layers are named {layer.name!r}: layer names must be unique")
            seen.add(layer.name)
        for layer in self.layers:
            for operand in layer.inputs:
                if operand.source is not None and operand.source not in seen:
                    raise WorkloadError(
                        f"layer {layer.name!r} reads from {operand.source!r}, which is not a layer: "
                        "name a layer of this workload, or null for a network input"
                    )
        if (cycle := self._find_cycle()) is not None:
            raise WorkloadError(f"the graph has a cycle, {' -> '.join(cycle)}: remove one of its edges")
        for layer in self.layers:
            for problem in _edge_problems(self, layer):
                raise WorkloadError(f"shapes: {problem}")

    def __getitem__(self, name: str) -> Layer:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @cached_property
    def _by_name(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in self.layers}

    @cached_property
    def number(self) -> dict[str, int]:
        """Place of each layer in :attr:`layers`."""
        return {layer.name: i for i, layer in enumerate(self.layers)}

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Every edge between two layers, grouped by consumer in the order of its inputs."""
        return tuple(
            Edge(operand.source, layer.name, operand.port, channels, operand.fusible, operand.reason)
            for layer in self.layers
            for operand, channels in zip(layer.inputs, self.input_channels(layer), strict=True)
            if operand.source is not None
        )

    @cached_property
    def consumers(self) -> dict[str, tuple[Edge, ...]]:
        """Edges that leave each layer."""
        leaving: dict[str, list[Edge]] = {layer.name: [] for layer in self.layers}
        for edge in self.edges:
            leaving[edge.source].append(edge)
        return {name: tuple(edges) for name, edges in leaving.items()}

    @cached_property
    def producers(self) -> dict[str, tuple[Edge, ...]]:
        """Edges that arrive at each layer."""
        arriving: dict[str, list[Edge]] = {layer.name: [] for layer in self.layers}
        for edge in self.edges:
            arriving[edge.target].append(edge)
        return {name: tuple(edges) for name, edges in arriving.items()}

    def input_channels(self, layer: Layer) -> tuple[int, ...]:
        """The layer's G*C input channels, shared out over its operands; 0 on the other ports.

        A fusible operand of a layer brings its own channels; the others take what these leave in equal shares, the
        last of them the remainder too. An operand that is alone on the port brings all channels, also through a
        reshape.
        """
        total = layer.dims.G * layer.dims.C
        on_port = [i for i, operand in enumerate(layer.inputs) if operand.port == "input"]
        if len(on_port) <= 1:
            return tuple(total if i in on_port else 0 for i in range(len(layer.inputs)))
        brought = [0] * len(layer.inputs)
        foreign = [i for i in on_port if layer.inputs[i].is_foreign]
        for i in on_port:
            if (source := layer.inputs[i].source) is not None and i not in foreign:
                brought[i] = stored_channels(self[source])
        if foreign:
            rest = total - sum(brought)
            for i in foreign:
                brought[i] = rest // len(foreign)
            brought[foreign[-1]] += rest % len(foreign)
        return tuple(brought)

    @cached_property
    def topological(self) -> tuple[str, ...]:
        """Layer names, producers before consumers; otherwise in the order given."""
        position = {layer.name: i for i, layer in enumerate(self.layers)}
        sources = [self._sources(layer) for layer in self.layers]
        targets: list[list[int]] = [[] for _ in self.layers]
        for target, names in enumerate(sources):
            for name in names:
                targets[position[name]].append(target)
        waiting = [len(names) for names in sources]
        ready = [i for i, count in enumerate(waiting) if count == 0]
        order: list[str] = []
        while ready:
            layer = heapq.heappop(ready)
            order.append(self.layers[layer].name)
            for target in targets[layer]:
                waiting[target] -= 1
                if waiting[target] == 0:
                    heapq.heappush(ready, target)
        return tuple(order)

    @cached_property
    def depth(self) -> dict[str, int]:
        """Place of each layer in :attr:`topological`."""
        return {name: i for i, name in enumerate(self.topological)}

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the network, repeats counted."""
        return sum(layer.macs * layer.repeat for layer in self.layers)

    @property
    def parameter_words(self) -> int:
        """Weights of the network, repeats counted; activations on weight ports are no parameters."""
        return sum(layer.weight_words * layer.repeat for layer in self.layers if not layer.has_weight_port)

    @property
    def coverage(self) -> Coverage:
        """How much of the model it comes from its layers stand for."""
        missing = sum(row.macs or 0 for row in self.not_modelled)
        return Coverage(missing / max(self.macs + missing, 1), self.not_modelled, self.notes)

    @staticmethod
    def _sources(layer: Layer) -> frozenset[str]:
        return frozenset(operand.source for operand in layer.inputs if operand.source is not None)

    def _find_cycle(self) -> list[str] | None:
        """Layer names along one cycle, first one repeated at the end; None in an acyclic graph."""
        left = set(self._by_name) - set(self.topological)
        if not left:
            return None
        name = min(left)
        path: list[str] = []
        while name not in path:
            path.append(name)
            name = min(self._sources(self._by_name[name]) & left)
        return [*path[path.index(name) :], name][::-1]


def stored_channels(producer: Layer) -> int:
    """Channels a consumer sees: G*K, times P'*Q' after flatten."""
    return producer.channels * (prod(producer.stored) if "flatten" in producer.epilogue else 1)


def _stored_image(producer: Layer) -> tuple[int, int]:
    """Rows and columns a consumer sees: (P', Q'), or one of each after flatten."""
    return (1, 1) if "flatten" in producer.epilogue else producer.stored


def _edge_problems(workload: Workload, layer: Layer) -> Iterator[str]:
    """Where the shapes of a layer's operands disagree with the layer."""
    channels = workload.input_channels(layer)
    d = layer.dims
    if layer.is_mac and (sum(channels) != d.G * d.C or min(c for c, _ in _on_input(channels, layer)) < 1):
        yield (
            f"the inputs of {layer.name!r} bring {sum(channels)} channels, its G*C is {d.G * d.C}: "
            "the two must be equal, and no input empty"
        )
    for operand in layer.inputs:
        if operand.source is None or operand.is_foreign:
            continue
        producer = workload[operand.source]
        edge = f"{producer.name!r} -> {layer.name!r} ({operand.port})"
        reshaped = not {"reshape", "transpose"}.isdisjoint(producer.epilogue)
        if operand.port == "weight":
            if producer.stored_words != layer.weight_words:
                yield f"{edge}: {producer.stored_words} words arrive, the weights are {layer.weight_words}"
        elif operand.port == "addend":
            have = (producer.dims.N, stored_channels(producer), *_stored_image(producer))
            want = (d.N, d.K, d.P, d.Q)
            if have != want and not (reshaped and prod(have) == prod(want)):
                yield f"{edge}: the addend is N,K,P,Q = {have}, the sum {want}"
        else:
            yield from _input_problems(edge, producer, layer, alone=len(_on_input(channels, layer)) == 1)


def _on_input(channels: Iterable[int], layer: Layer) -> list[tuple[int, Input]]:
    return [(c, o) for c, o in zip(channels, layer.inputs, strict=True) if o.port == "input"]


def _input_problems(edge: str, producer: Layer, layer: Layer, *, alone: bool) -> Iterator[str]:
    """Where a tensor on the input port disagrees with what the layer reads.

    Rows: P outputs at the stride take H rows, the first `pad` of them padding. Of the others, P' are stored: all but
    padding below, (R-1)*dilation rows at most, and up to stride - 1 more that the stride skips at the end. Where the
    layer does not say its padding, 2*(R-1)*dilation rows may lie on both sides. Columns likewise.
    """
    d = layer.dims
    reshaped = not {"reshape", "transpose"}.isdisjoint(producer.epilogue)
    if reshaped and alone and d.P == d.Q == d.R == d.S == 1:
        if producer.stored_words != d.G * d.N * d.C:
            yield f"{edge}: {producer.stored_words} words arrive, the input holds {d.G * d.N * d.C}"
        return
    if producer.dims.N != d.N:
        yield f"{edge}: N is {producer.dims.N} before and {d.N} after: add a reshape or make them equal"
    if alone and stored_channels(producer) != d.G * d.C:
        yield f"{edge}: {stored_channels(producer)} channels arrive, G*C is {d.G * d.C}"
    rows, cols = _stored_image(producer)
    for axis, what, have, want in ((0, "rows", rows, layer.input_rows), (1, "columns", cols, layer.input_cols)):
        stride, reach = layer.stride[axis], layer.reach[axis]
        pad, most, padding = 0, 2 * reach, "padding included"
        if layer.pad is not None:
            pad, most = layer.pad[axis], reach
            padding = f"{pad} of padding before them included"
        if not -stride < want - pad - have <= most:
            yield f"{edge}: {have} {what} arrive, the layer reads {want} (stride {stride}, {padding})"
