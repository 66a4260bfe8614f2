"""Layers under construction, and the state of a lowering."""

from dataclasses import dataclass, field
from typing import NamedTuple

from fadiff.workload.coverage import NotModelled
from fadiff.workload.importers.lowering.layout import Layout
from fadiff.workload.importers.lowering.values import Part, Resizes, Value
from fadiff.workload.importers.operators import Operator, OperatorGraph, printable
from fadiff.workload.layer import Dims, Kind, Port, VectorOp


class Vector(NamedTuple):
    """A vector operator that runs on a layer's output.

    `name` is what it is in the epilogue; None where it is a part of another one (`within`), or where it runs on the fly
    for those who read the tensor. `functions` are what it does, for operators that were written as several.
    """

    name: VectorOp | None
    functions: frozenset[str]
    resizes: Resizes
    compound: bool = False
    within: int | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """What a layer reads on a port: the stored tensor of `layer` (None: a network input) after `resizes`.

    `view` is what the producer's epilogue has to say so that the shapes agree. `exact`: rows, groups and channels of
    the consumer are those of the producer. `reason` tells why it cannot be fused; None where it can.
    """

    layer: int | None
    port: Port
    resizes: Resizes = ()
    view: VectorOp | None = None
    exact: bool = True
    reason: str | None = None


@dataclass
class Draft:
    """A layer, and the vector operators found to run on its output so far."""

    name: str
    operator: int
    """The operator that it comes from."""
    kind: Kind
    dims: Dims
    operands: list[Operand]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: tuple[int, int] | None = None
    repeat: int = 1
    waits: list[Operand] = field(default_factory=list[Operand])
    """Tensors that must be there first, and that no operand stands for."""
    vectors: dict[int, Vector] = field(default_factory=dict[int, Vector])
    resizes: dict[int, tuple[VectorOp, tuple[int, int]]] = field(
        default_factory=dict[int, tuple[VectorOp, tuple[int, int]]]
    )
    """Poolings and upsamplings of its output: what they are, and the rows and columns they leave."""
    is_output: list[Resizes] = field(default_factory=list[Resizes])
    """Its tensor, after these resizings, is an output of the network."""
    needs: int = 0
    """All layers that must run before it: bit i stands for layer i."""

    @property
    def channels(self) -> int:
        """Output channels of all groups."""
        return self.dims.G * self.dims.K

    def image(self, resizes: Resizes) -> tuple[int, int]:
        """Rows and columns after some resizings."""
        return self.resizes[resizes[-1]][1] if resizes else (self.dims.P, self.dims.Q)

    def sizes(self, resizes: Resizes) -> dict[str, int]:
        """Sizes of the stored axes after some resizings."""
        rows, cols = self.image(resizes)
        return {"n": self.dims.N, "c": self.channels, "p": rows, "q": cols}


class Net:
    """The state of a lowering: values of tensors so far, and layers so far."""

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self.values: dict[str, Value] = {}
        self.drafts: list[Draft] = []
        self.folded: dict[int, str] = {}
        """Operators that became no layer and no part of an epilogue, with what became of them."""
        self.not_modelled: dict[int, NotModelled] = {}
        """Operators that no layer stands for, by number."""
        self.fixed = {name for name, tensor in graph.tensors.items() if tensor.is_fixed}
        for name, tensor in graph.tensors.items():
            if tensor.role == "input":
                self.values[name] = Value(tensor.shape, (Part(None),))
        self._names: set[str] = set()

    def operands(self, operator: Operator) -> list[Value]:
        """What an operator reads that is made at run time."""
        return [self.values[name] for name in operator.inputs if name and name not in self.fixed]

    def label(self, layer: int) -> str:
        """A layer's name."""
        return self.drafts[layer].name

    def add(self, draft: Draft) -> int:
        """A new layer; its number. Its name is made unique, and printable; a step of a loop repeats."""
        operator = self.graph.operators[draft.operator]
        draft.repeat *= operator.repeat
        if operator.again and draft.kind == "mac" and all(operand.port != "weight" for operand in draft.operands):
            draft.operands.append(Operand(None, "weight"))
        draft.name = printable(draft.name) or draft.kind
        name, count = draft.name, 1
        while draft.name in self._names:
            count += 1
            draft.name = f"{name}.{count}"
        self._names.add(draft.name)
        for operand in (*draft.operands, *draft.waits):
            if operand.layer is not None:
                draft.needs |= self.drafts[operand.layer].needs | 1 << operand.layer
        self.drafts.append(draft)
        return len(self.drafts) - 1

    def output(self, layer: int, shape: tuple[int, ...], axes: Layout | None) -> Value:
        """A layer's own output as a value."""
        return Value(shape, (Part(layer, axes),), sources=frozenset({(layer, ())}))
