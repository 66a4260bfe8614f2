"""Tensors and operators of a graph in the making, and one call of an ATen operator as its translation sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from fadiff.workload.importers.operators import ImportFailure, Opaque, Operator, Role, Tensor

if TYPE_CHECKING:
    from torch.fx import Node


class Builder:
    """Tensors, operators and notes found so far."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.operators: list[Operator] = []
        self._fixed: set[str] = set()
        """Tensors known before the network runs: parameters, constants, and what is made of them alone."""
        self.made_by: dict[str, Operator] = {}
        self.notes: dict[str, None] = {}
        """Sentences for the report, each once."""
        self._names: dict[tuple[Node, int], str] = {}
        self._taken: Counter[str] = Counter()

    def add_tensor(self, name: str, shape: tuple[int, ...], role: Role = "activation") -> str:
        """A new tensor; its name gets a number where it is taken."""
        unique = name
        while unique in self.tensors:
            self._taken[name] += 1
            unique = f"{name}_{self._taken[name]}"
        self.tensors[unique] = Tensor(unique, shape, role)
        if self.tensors[unique].is_fixed:
            self._fixed.add(unique)
        return unique

    def is_fixed(self, tensors: Iterable[str]) -> bool:
        """Whether tensors are known before the network runs."""
        return all(tensor in self._fixed for tensor in tensors if tensor)

    def add_operator(self, operator: Operator) -> None:
        """A new operator. One that reads constants alone makes constants; one that reads parameters is kept."""
        if self.is_fixed(operator.inputs):
            self._fixed.update(filter(None, operator.outputs))
            if all(self.tensors[tensor].role == "constant" for tensor in operator.inputs if tensor):
                for output in filter(None, operator.outputs):
                    self.tensors[output] = replace(self.tensors[output], role="constant")
                return
        self.operators.append(operator)
        self.made_by.update(dict.fromkeys(filter(None, operator.outputs), operator))

    def bind(self, node: Node, tensor: str, number: int = 0) -> None:
        """From here on, result `number` of a node is this tensor."""
        self._names[node, number] = tensor

    def tensor_of(self, node: Node, number: int = 0) -> str:
        """The tensor that a node stands for, or one of its results."""
        return self._names[node, number]

    def has(self, node: Node, number: int = 0) -> bool:
        """Whether a result of a node is known."""
        return (node, number) in self._names


class Call:
    """One call of an operator: arguments by name, results by number."""

    def __init__(self, builder: Builder, node: Node, name: str) -> None:
        self.builder, self.node, self.name = builder, node, name
        self.overload = str(node.target)
        self.type = ".".join(self.overload.split(".")[:2])
        self.arguments = _bound(node)

    # --- arguments ---------------------------------------------------------------------------------------------------

    def tensor(self, name: str) -> str:
        """An argument that is a tensor."""
        return self.builder.tensor_of(cast("Node", self.arguments[name]))

    def optional(self, name: str) -> str | None:
        """An argument that is a tensor or None."""
        return None if self.arguments.get(name) is None else self.tensor(name)

    def present(self, *names: str) -> tuple[str, ...]:
        """The tensors among these arguments."""
        return tuple(tensor for name in names if (tensor := self.optional(name)) is not None)

    def tensors(self, name: str) -> list[str]:
        """An argument that is a list of tensors; None in it is left out."""
        nodes = cast("Sequence[Node | None]", self.arguments[name])
        return [self.builder.tensor_of(node) for node in nodes if node is not None]

    def all_tensors(self) -> tuple[str, ...]:
        """Every tensor among the arguments, in their order."""
        nodes = (node for node in self.node.all_input_nodes if self.builder.has(node))
        return tuple(self.builder.tensor_of(node) for node in nodes)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.builder.tensors[tensor].shape

    def number(self, name: str, default: int = 0) -> int:
        """An argument that is a whole number."""
        value = self.arguments.get(name)
        return default if value is None else _size(value, self.node)

    def numbers(self, name: str, count: int = 0) -> tuple[int, ...]:
        """An argument that is a list of whole numbers; a single one is repeated `count` times."""
        value = self.arguments.get(name)
        if value is None:
            return ()
        values = cast("Iterable[object]", value) if isinstance(value, (list, tuple)) else (value,)
        found = tuple(_size(item, self.node) for item in values)
        return found * count if len(found) == 1 < count else found

    def axis(self, name: str, default: int = 0, *, more: int = 0) -> int:
        """An argument that is an axis of the first tensor (with `more` axes), counted from 0."""
        return self.number(name, default) % max(self.rank + more, 1)

    @property
    def rank(self) -> int:
        """Axes of the first tensor as PyTorch counts them, without that of complex numbers."""
        first = next(node for node in self.node.all_input_nodes if self.builder.has(node))
        value = first.meta["val"]
        return len(value.shape)

    def flag(self, name: str) -> bool:
        """An argument that is true or false."""
        return bool(self.arguments.get(name))

    # --- results -----------------------------------------------------------------------------------------------------

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the only or the first result."""
        return self.results[0] or ()

    @cached_property
    def results(self) -> list[tuple[int, ...] | None]:
        """The shapes of all results; None for one that is no tensor."""
        return result_shapes(self.node)

    def is_used(self, number: int) -> bool:
        """Whether anybody reads one of several results."""
        return any(user.args[1] == number and user.users for user in self.node.users)

    def alias(self, tensor: str, number: int = 0) -> None:
        """The result is a tensor that exists already."""
        self.builder.bind(self.node, tensor, number)

    def emit(
        self,
        kind: Callable[..., Operator],
        inputs: Sequence[str],
        shape: tuple[int, ...] | None = None,
        *,
        part: str = "",
        number: int = 0,
        **fields: object,
    ) -> str:
        """Add an operator; its output is the result `number`, or with a `shape` a tensor in between."""
        label = f"{self.name}.{part}" if part else self.name
        if shape is None:
            output = self.builder.add_tensor(self.node.name, self.results[number] or ())
            self.alias(output, number)
        else:
            output = self.builder.add_tensor(f"{self.node.name}.{part or 'inner'}", shape)
        self.add(kind, inputs, (output,), label, **fields)
        return output

    def opaque(self, reason: str, macs: int | None = None) -> None:
        """Add an operator that is not modelled, with all the results that are tensors."""
        outputs: list[str] = []
        for number, shape in enumerate(self.results):
            if shape is not None:
                outputs.append(self.builder.add_tensor(self.node.name, shape))
                self.alias(outputs[-1], number)
        self.add(Opaque, self.all_tensors(), outputs, self.name, reason=reason, macs=macs)

    def add(
        self, kind: Callable[..., Operator], inputs: Sequence[str], outputs: Sequence[str], label: str, **fields: object
    ) -> None:
        """Add an operator with outputs that exist already."""
        self.builder.add_operator(
            kind(name=label, type=self.type, inputs=tuple(inputs), outputs=tuple(outputs), **fields)
        )


def result_shapes(node: Node) -> list[tuple[int, ...] | None]:
    """The shapes of a node's results; None where one is no tensor. The two words of complex numbers are an axis."""
    from torch import Tensor as TorchTensor

    value = node.meta.get("val")
    values = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else [value]
    shapes: list[tuple[int, ...] | None] = []
    for item in values:
        if isinstance(item, TorchTensor):
            shape = tuple(_size(size, node) for size in item.shape)
            shapes.append((*shape, 2) if item.is_complex() else shape)
        else:
            shapes.append(None)
    return shapes


def _bound(node: Node) -> dict[str, Any]:
    """Arguments of a call by the names of the operator's schema, defaults included."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return dict(node.kwargs)
    names = [argument.name for argument in schema.arguments]
    defaults = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    given = {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}
    return {name: given[name] for name in names if name in given}


def _size(value: object, node: Node) -> int:
    """A size as a number. One that was left open when the program was made is the size of its example."""
    from torch import SymInt
    from torch.fx import Node as FxNode

    if isinstance(value, FxNode):
        value = cast("object", value.meta["val"])
    if isinstance(value, SymInt):
        if not value.node.has_hint():
            raise ImportFailure(
                f"a shape at {node.name} ({node.target}) depends on the values of a tensor: layers need fixed sizes"
            )
        return int(cast("int", value.node.hint))
    return int(cast("int", value))
