"""One node as its translation sees it, and the graph of operators it adds to."""

from collections.abc import Sequence
from typing import Any, cast

import onnx
from numpy.typing import NDArray

from fadiff.workload.importers.onnx_front_end.nodes import label, reads
from fadiff.workload.importers.onnx_front_end.statics import Statics
from fadiff.workload.importers.operators import Elementwise, ImportFailure, Opaque, Operator, Reshape, Tensor, Transpose

Shape = tuple[int, ...]


class Node:
    """A node of the graph, with what is known of its tensors; operators it stands for are added with :meth:`emit`."""

    def __init__(
        self, proto: onnx.NodeProto, statics: Statics, tensors: dict[str, Tensor], made: list[Operator]
    ) -> None:
        self.proto, self._statics, self._tensors, self._made = proto, statics, tensors, made
        self.name, self.type = label(proto), proto.op_type
        self.inputs, self.outputs = list(proto.input), list(proto.output)
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        self.opset = statics.opsets.get(domain, 1)
        self._attributes = {item.name: item for item in proto.attribute}

    def __str__(self) -> str:
        return f"{self.type} {self.name!r}"

    def has(self, place: int) -> bool:
        """Whether there is an input in a place."""
        return place < len(self.inputs) and bool(self.inputs[place])

    def wants(self, place: int) -> bool:
        """Whether there is an output in a place."""
        return place < len(self.outputs) and bool(self.outputs[place])

    def read(self, place: int) -> str:
        """An input that must be there."""
        if not self.has(place):
            raise ImportFailure(f"{self} lacks its input {place + 1}: the file is damaged, export it again")
        return self.inputs[place]

    def shape(self, place: int = 0) -> Shape:
        """The shape of an input."""
        known = self._statics[self.read(place)]
        if known.shape is None:
            raise ImportFailure(f"{self} reads {self.inputs[place]!r}, whose shape is open: {known.why}")
        return known.shape

    def out(self, place: int = 0) -> Shape:
        """The shape of an output."""
        if not self.wants(place):
            raise ImportFailure(f"{self} lacks its output {place + 1}: the file is damaged, export it again")
        known = self._statics[self.outputs[place]]
        if known.shape is None:
            raise ImportFailure(f"the shape of what {self} makes is open: {known.why}")
        return known.shape

    def fixed(self, place: int) -> bool:
        """Whether an input is known before the network runs."""
        return self.has(place) and self._statics[self.inputs[place]].fixed

    def words(self, place: int) -> NDArray[Any] | None:
        """The words of an input that is a small constant."""
        return self._statics.words(self.inputs[place]) if self.has(place) else None

    def numbers(self, place: int) -> list[int] | None:
        """An input that is a constant list of whole numbers."""
        words = self.words(place)
        return None if words is None else [int(word) for word in words.reshape(-1)]

    def attribute(self, name: str) -> Any | None:  # noqa: ANN401  (attributes are of many types)
        """The value of an attribute; None where it is not given."""
        item = self._attributes.get(name)
        if item is None:
            return None
        value = onnx.helper.get_attribute_value(item)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def integer(self, name: str, default: int) -> int:
        """A whole number among the attributes."""
        value = self.attribute(name)
        if value is not None and not isinstance(value, int):
            raise ImportFailure(
                f"{self}: its attribute {name} is no whole number: the file is damaged, export it again"
            )
        return default if value is None else value

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...] | None:
        """A list of whole numbers among the attributes."""
        value = self.attribute(name)
        if value is None:
            return None if default is None else tuple(default)
        if not isinstance(value, Sequence) or not all(
            isinstance(item, int) for item in cast("Sequence[object]", value)
        ):
            raise ImportFailure(f"{self}: its attribute {name} is no list of whole numbers: the file is damaged")
        return tuple(cast("Sequence[int]", value))

    def axis(self, value: int, rank: int) -> int:
        """An axis that may be counted from the end."""
        if not -rank <= value < max(rank, 1):
            raise ImportFailure(
                f"{self}: axis {value} of a tensor with {rank} axes: the file is damaged, export it again"
            )
        return value + rank if value < 0 else value

    def tensor(self, suffix: str, shape: Shape) -> str:
        """A new tensor between the operators that a node stands for."""
        name = f"{self.name}:{suffix}"
        while name in self._tensors or name in self._statics:
            name += "'"
        self._tensors[name] = Tensor(name, shape)
        return name

    def constant(self, suffix: str, shape: Shape) -> str:
        """A new constant."""
        name = self.tensor(suffix, shape)
        self._tensors[name] = Tensor(name, shape, "constant")
        return name

    def unpacked(self, place: int, shape: Shape) -> str:
        """A parameter that is stored packed, in the shape that is computed with."""
        name = self.tensor(f"unpacked{place}", shape)
        self._tensors[name] = Tensor(name, shape, "parameter")
        return name

    def emit(self, operator: Operator) -> str:
        """Add an operator; the name of its first output."""
        for name in (*operator.inputs, *operator.outputs):
            if name and name not in self._tensors:
                raise ImportFailure(f"the shape of {name!r} at {self} is open: {self._statics[name].why}")
        self._made.append(operator)
        return operator.outputs[0] if operator.outputs else ""

    def shape_of(self, tensor: str) -> Shape:
        """The shape of a tensor that operators know."""
        if tensor not in self._tensors:
            raise ImportFailure(f"{self} reads {tensor!r}, whose shape is open: {self._statics[tensor].why}")
        return self._tensors[tensor].shape

    def elementwise(
        self, function: str, inputs: Sequence[str], output: str | None = None, shape: Shape | None = None
    ) -> str:
        """A vector operator; its output is new unless it is named."""
        made = output or self.tensor(function, shape if shape is not None else self.shape_of(inputs[0]))
        return self.emit(
            Elementwise(name=self.name, type=self.type, inputs=tuple(inputs), outputs=(made,), function=function)
        )

    def reshape(self, tensor: str, shape: Shape, output: str | None = None) -> str:
        """The same words in another shape."""
        made = output or self.tensor("reshape", shape)
        return self.emit(Reshape(name=self.name, type=self.type, inputs=(tensor,), outputs=(made,)))

    def transpose(self, tensor: str, order: Sequence[int], output: str | None = None) -> str:
        """Axes in another order."""
        before = self.shape_of(tensor)
        made = output or self.tensor("transpose", tuple(before[i] for i in order))
        return self.emit(
            Transpose(name=self.name, type=self.type, inputs=(tensor,), outputs=(made,), permutation=tuple(order))
        )

    def opaque(self, reason: str, macs: int | None) -> None:
        """An operator that is not modelled. Outputs of open shape are left away."""
        known = [name if name and self._statics[name].shape is not None else "" for name in self.outputs]
        inputs = tuple(dict.fromkeys(name for name in reads(self.proto) if name in self._tensors))
        outputs = tuple(filter(None, known))
        self.emit(Opaque(name=self.name, type=self.type, inputs=inputs, outputs=outputs, reason=reason, macs=macs))
