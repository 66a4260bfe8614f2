"""The network as a value: MAC and add layers, joined by edges into a checked, immutable graph.

A workload that exists is a valid one: the constructors raise :class:`WorkloadError` with one sentence.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal, NamedTuple, get_args

from fadiff.errors import FadiffError

Kind = Literal["mac", "add"]
Port = Literal["input", "weight", "addend"]
VectorOp = Literal[
    "bias", "batch_norm", "relu", "gelu", "silu", "sigmoid", "tanh", "clip", "scale", "softmax", "layer_norm",
    "max_pool", "avg_pool", "global_pool", "flatten", "reshape", "transpose", "upsample",
]  # fmt: skip
PORTS: tuple[str, ...] = get_args(Port)
VECTOR_OPS: tuple[str, ...] = get_args(VectorOp)
RESIZING_OPS = frozenset({"max_pool", "avg_pool", "global_pool", "upsample", "reshape"})
"""Vector operators after which the stored rows and columns may differ from the computed ones."""


class WorkloadError(FadiffError):
    """A network that does not make sense, told in one sentence that names the layer."""


class Dims(NamedTuple):
    """Sizes of the eight loops of a layer. An add layer uses N, K, P, Q only.

    Tensors: ``W[G,K,C,R,S]``, ``I[G,N,C,H,V]``, ``O[G,N,K,P,Q]``.
    """

    G: int = 1
    N: int = 1
    K: int = 1
    C: int = 1
    P: int = 1
    Q: int = 1
    R: int = 1
    S: int = 1


DIMS: tuple[str, ...] = Dims._fields


@dataclass(frozen=True, slots=True)
class Input:
    """One operand of a layer: the tensor of layer `source` (None: a network input) on a port."""

    source: str | None
    port: Port = "input"


@dataclass(frozen=True)
class Layer:
    """One loop nest and the vector operators folded into it.

    `out` is (P', Q'), the rows and columns stored after the epilogue; None where it keeps P and Q.
    """

    name: str
    kind: Kind
    dims: Dims
    inputs: tuple[Input, ...]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    epilogue: tuple[VectorOp, ...] = ()
    out: tuple[int, int] | None = None
    repeat: int = 1

    def __post_init__(self) -> None:
        problem = next(_layer_problems(self), None)
        if problem is not None:
            raise WorkloadError(f"layer {self.name!r}: {problem}")

    @property
    def is_mac(self) -> bool:
        """Whether the layer multiplies; add layers only sum."""
        return self.kind == "mac"

    @property
    def macs(self) -> int:
        """Multiply-accumulates: the product of the eight dims (0 for an add layer)."""
        return prod(self.dims) if self.is_mac else 0

    @property
    def input_rows(self) -> int:
        """H = (P-1)*stride + (R-1)*dilation + 1; padding counts as data."""
        return (self.dims.P - 1) * self.stride[0] + (self.dims.R - 1) * self.dilation[0] + 1

    @property
    def input_cols(self) -> int:
        """V = (Q-1)*stride + (S-1)*dilation + 1."""
        return (self.dims.Q - 1) * self.stride[1] + (self.dims.S - 1) * self.dilation[1] + 1

    @property
    def stored(self) -> tuple[int, int]:
        """(P', Q'): rows and columns of the tensor after the epilogue."""
        return self.out if self.out is not None else (self.dims.P, self.dims.Q)

    @property
    def channels(self) -> int:
        """Output channels of all groups, G*K."""
        return self.dims.G * self.dims.K

    @property
    def weight_words(self) -> int:
        """|W| (0 for an add layer)."""
        d = self.dims
        return d.G * d.K * d.C * d.R * d.S if self.is_mac else 0

    @property
    def output_words(self) -> int:
        """|O|, before the epilogue."""
        d = self.dims
        return d.G * d.N * d.K * d.P * d.Q

    @property
    def stored_words(self) -> int:
        """|O'|, after the epilogue: what is written to L3 or copied to L2."""
        d = self.dims
        return d.G * d.N * d.K * prod(self.stored)

    @property
    def has_weight_port(self) -> bool:
        """Whether W is an activation that arrives over an edge."""
        return any(i.port == "weight" for i in self.inputs)


class Edge(NamedTuple):
    """A tensor handed from one layer to another.

    `channels` is the edge's share of the consumer's G*C input channels: concatenation lays several end to end.
    It is 0 on the weight and addend ports, where an edge always brings the whole operand.
    """

    source: str
    target: str
    port: Port
    channels: int


@dataclass(frozen=True)
class Workload:
    """A network: layers with unique names, an acyclic graph, and shapes that agree along every edge."""

    name: str
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        if not self.layers:
            raise WorkloadError(f"workload {self.name!r} has no layers: give it at least one")
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
    def edges(self) -> tuple[Edge, ...]:
        """Every edge between two layers, grouped by consumer in the order of its inputs."""
        return tuple(
            Edge(operand.source, layer.name, operand.port, channels)
            for layer in self.layers
            for operand, channels in zip(layer.inputs, _input_channels(self, layer), strict=True)
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

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the network, repeats counted."""
        return sum(layer.macs * layer.repeat for layer in self.layers)

    @property
    def parameter_words(self) -> int:
        """Weights of the network, repeats counted; activations on weight ports are no parameters."""
        return sum(layer.weight_words * layer.repeat for layer in self.layers if not layer.has_weight_port)

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


def _layer_problems(layer: Layer) -> Iterator[str]:
    """What is wrong with a layer taken by itself."""
    if not layer.name:
        yield "its name is empty: give every layer a name"
    for dim, size in zip(DIMS, layer.dims, strict=True):
        if size < 1:
            yield f"dimension {dim} is {size}: sizes are at least 1"
    for what, pair in (("stride", layer.stride), ("dilation", layer.dilation), ("out", layer.stored)):
        if min(pair) < 1:
            yield f"{what} is {list(pair)}: both values are at least 1"
    if layer.repeat < 1:
        yield f"repeat is {layer.repeat}: it is at least 1"
    for operator in layer.epilogue:
        if operator not in VECTOR_OPS:
            yield f"epilogue {operator!r} is unknown: use one of {', '.join(VECTOR_OPS)}"
    if layer.stored != (layer.dims.P, layer.dims.Q) and RESIZING_OPS.isdisjoint(layer.epilogue):
        yield (
            f"out is {list(layer.stored)} but no operator of its epilogue changes "
            f"{layer.dims.P}x{layer.dims.Q}: leave out away, or add the pooling or upsampling"
        )
    if "global_pool" in layer.epilogue and layer.stored != (1, 1):
        yield f"global_pool leaves one row and column: say out P=1, Q=1 (it is {list(layer.stored)})"
    ports = [operand.port for operand in layer.inputs]
    if layer.kind == "mac":
        if "input" not in ports:
            yield "a mac layer needs an operand on its input port"
        if ports.count("weight") > 1:
            yield f"{ports.count('weight')} operands are on the weight port: at most one may be"
        if "addend" in ports:
            yield "a mac layer has no addend port: use input or weight, or make it an add layer"
    else:
        if set(ports) != {"addend"} or len(ports) < 2:
            yield "an add layer needs two or more operands, all on the addend port"
        used = {"N", "K", "P", "Q"}
        for dim, size in zip(DIMS, layer.dims, strict=True):
            if size != 1 and dim not in used:
                yield f"an add layer has no dimension {dim} (it is {size}): it runs over N, K, P, Q"
        if layer.stride != (1, 1) or layer.dilation != (1, 1):
            yield "an add layer has no stride or dilation"


def stored_channels(producer: Layer) -> int:
    """Channels a consumer sees: G*K, times P'*Q' after flatten."""
    return producer.channels * (prod(producer.stored) if "flatten" in producer.epilogue else 1)


def _input_channels(workload: Workload, layer: Layer) -> tuple[int, ...]:
    """The consumer's G*C input channels, shared out over its operands.

    A layer's operand brings its own channels; a network input takes what the others leave. An operand that is
    alone on the port brings all channels, also through a reshape.
    """
    total = layer.dims.G * layer.dims.C
    on_port = [operand for operand in layer.inputs if operand.port == "input"]
    if len(on_port) <= 1:
        return tuple(total if operand.port == "input" else 0 for operand in layer.inputs)
    named = {o.source: stored_channels(workload[o.source]) for o in on_port if o.source is not None}
    outside = sum(operand.source is None for operand in on_port)
    taken = sum(named[o.source] for o in on_port if o.source is not None)
    rest = (total - taken) // outside if outside else 0
    return tuple(
        (rest if operand.source is None else named[operand.source]) if operand.port == "input" else 0
        for operand in layer.inputs
    )


def _edge_problems(workload: Workload, layer: Layer) -> Iterator[str]:
    """Where the shapes of a layer's operands disagree with the layer."""
    channels = _input_channels(workload, layer)
    d = layer.dims
    if layer.is_mac and (sum(channels) != d.G * d.C or min(c for c, _ in _on_input(channels, layer)) < 1):
        yield (
            f"the inputs of {layer.name!r} bring {sum(channels)} channels, its G*C is {d.G * d.C}: they must be equal"
        )
    for operand in layer.inputs:
        if operand.source is None:
            continue
        producer = workload[operand.source]
        edge = f"{producer.name!r} -> {layer.name!r} ({operand.port})"
        reshaped = not {"reshape", "transpose"}.isdisjoint(producer.epilogue)
        if operand.port == "weight":
            if producer.stored_words != layer.weight_words:
                yield f"{edge}: {producer.stored_words} words arrive, the weights are {layer.weight_words}"
        elif operand.port == "addend":
            have = (producer.dims.N, producer.channels, *producer.stored)
            want = (d.N, d.K, d.P, d.Q)
            if have != want and not (reshaped and prod(have) == prod(want)):
                yield f"{edge}: the addend is N,K,P,Q = {have}, the sum {want}"
        else:
            yield from _input_problems(edge, producer, layer, alone=len(_on_input(channels, layer)) == 1)


def _on_input(channels: Iterable[int], layer: Layer) -> list[tuple[int, Input]]:
    return [(c, o) for c, o in zip(channels, layer.inputs, strict=True) if o.port == "input"]


def _input_problems(edge: str, producer: Layer, layer: Layer, *, alone: bool) -> Iterator[str]:
    """Where a tensor on the input port disagrees with what the layer reads.

    Rows: P outputs at the stride take H rows; between H - 2*(R-1)*dilation (padding on both sides) and
    H + stride - 1 (rows the stride skips at the end) may be stored. Columns likewise.
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
    rows, cols = (1, 1) if "flatten" in producer.epilogue else producer.stored
    for what, have, want, stride, reach in (
        ("rows", rows, layer.input_rows, layer.stride[0], (d.R - 1) * layer.dilation[0]),
        ("columns", cols, layer.input_cols, layer.stride[1], (d.S - 1) * layer.dilation[1]),
    ):
        if not want - 2 * reach <= have <= want + stride - 1:
            yield f"{edge}: {have} {what} arrive, the layer reads {want} (stride {stride}, padding included)"
