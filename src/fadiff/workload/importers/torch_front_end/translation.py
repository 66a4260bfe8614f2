"""The walk over a program of ATen operators that makes an operator graph of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import getitem
from typing import TYPE_CHECKING, Any, cast

from fadiff.workload.importers.operators import ImportFailure, OperatorGraph, Role
from fadiff.workload.importers.torch_front_end import layouts, macs, vectors
from fadiff.workload.importers.torch_front_end.builder import Builder, Call, result_shapes
from fadiff.workload.importers.torch_front_end.program import functional, higher_order_name, is_inplace
from fadiff.workload.importers.torch_front_end.scans import Scan

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

TRANSLATIONS: dict[str, Callable[[Call], None]] = {**layouts.OPERATORS, **vectors.OPERATORS, **macs.OPERATORS}
"""Translations by the name of the ATen operator."""
SHAPE_ONLY = frozenset({
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "fill",
    "zero",
})  # fmt: skip
"""Operators that read the shape of a tensor and none of its words."""
RANDOM = frozenset({"rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "normal", "randperm"})


def operator_graph(program: ExportedProgram, name: str) -> OperatorGraph:
    """An exported program in neutral terms. Operators that are not known are kept as such, for the report."""
    return _Walk(functional(program, _is_known), name).graph()


def _is_known(node: Node) -> bool:
    """Whether a call need not be taken apart."""
    name = _aten_name(node)
    if name == "einsum":
        equation, operands = cast("tuple[str, list[Node]]", node.args[:2])
        return macs.parse_equation(equation, [len(operand.meta["val"].shape) for operand in operands]) is not None
    return name in TRANSLATIONS or name in SHAPE_ONLY or _is_pointwise(node) or not node.all_input_nodes


def _aten_name(node: Node) -> str:
    """linear for aten.linear.default; empty for what is not one of PyTorch's own operators."""
    namespace, _, name = str(node.target).partition(".")
    name = name.partition(".")[0]
    if namespace != "aten":
        return name if name in TRANSLATIONS and namespace == "transformers" else ""
    return name.removesuffix("_") if is_inplace(node) else name


def _is_pointwise(node: Node) -> bool:
    from torch import Tag

    return Tag.pointwise in getattr(node.target, "tags", ())


class _Walk:
    """Reads a program node by node."""

    def __init__(self, program: ExportedProgram, name: str) -> None:
        self._program, self._name = program, name
        self._builder = Builder()
        self._labels: Counter[str] = Counter()
        self._parameter_of: dict[Node, str] = {}
        self._within = ""
        """The place of a scan while its step is read, whose nodes do not say it."""

    def graph(self) -> OperatorGraph:
        """The whole program."""
        inputs = {spec.arg.name: spec for spec in self._program.graph_signature.input_specs}
        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, inputs[node.name])
            elif node.op == "get_attr":
                self._bind_all(node, "constant")
            elif node.op == "call_function":
                self._call(node)
        builder = self._builder
        operators = tuple(builder.operators)
        return OperatorGraph(self._name, builder.tensors, operators, self._outputs(), tuple(builder.notes))

    def _outputs(self) -> tuple[str, ...]:
        """Tensors that the network is run for; those that only update its own state are not."""
        wanted = set(self._program.graph_signature.user_outputs)
        nodes = {node.name: node for node in self._program.graph.nodes if node.name in wanted}
        found = (self._builder.tensor_of(nodes[name]) for name in nodes if self._builder.has(nodes[name]))
        return tuple(dict.fromkeys(found))

    def _placeholder(self, node: Node, spec: Any) -> None:  # noqa: ANN401 - a class that PyTorch does not export
        from torch.export.graph_signature import InputKind

        roles: dict[InputKind, Role] = {
            InputKind.USER_INPUT: "input",
            InputKind.PARAMETER: "parameter",
            InputKind.BUFFER: "constant",
            InputKind.CONSTANT_TENSOR: "constant",
        }
        shape = result_shapes(node)[0]
        if shape is not None and spec.kind in roles:
            role = roles[spec.kind]
            tensor = self._builder.add_tensor(spec.target or node.name, shape, role)
            self._builder.bind(node, tensor)
            if role == "parameter":
                self._parameter_of[node] = str(spec.target)

    def _call(self, node: Node) -> None:
        builder = self._builder
        if node.target is getitem:
            source, number = cast("tuple[Node, int]", node.args)
            if builder.has(source, number):
                builder.bind(node, builder.tensor_of(source, number))
            return
        if not any(shape is not None for shape in result_shapes(node)):
            return
        if higher_order_name(node) == "scan":
            outer, self._within = self._within, self._path(node)
            Scan(self._builder, node, self._label(node, "scan")).translate(self._program.graph_module, self._call)
            self._within = outer
            return
        name = _aten_name(node)
        if name in RANDOM:
            self._bind_all(node, "input")
        elif name in SHAPE_ONLY or not any(map(builder.has, node.all_input_nodes)):
            self._bind_all(node, "constant")
        else:
            self._translate(node, name)

    def _translate(self, node: Node, name: str) -> None:
        call = Call(self._builder, node, self._label(node, name))
        if name in TRANSLATIONS and not (_is_pointwise(node) and name in ("max", "min")):
            TRANSLATIONS[name](call)
        elif _is_pointwise(node):
            vectors.elementwise(call)
        elif "quantize_per_" in str(node.target):
            vectors.same(call)
        else:
            call.opaque(f"the operator {call.type} is not known", _estimated_macs(node))

    def _bind_all(self, node: Node, role: Role) -> None:
        """All results are known before the network runs, or come with its inputs."""
        for number, shape in enumerate(result_shapes(node)):
            if shape is not None:
                self._builder.bind(node, self._builder.add_tensor(node.name, shape, role), number)

    def _label(self, node: Node, name: str) -> str:
        """What an operator is called: the module whose weight it reads, or the place in the module and its own name."""
        weights = [self._parameter_of[other] for other in node.all_input_nodes if other in self._parameter_of]
        owners = [weight.removesuffix(".weight") for weight in weights if weight.endswith(".weight")]
        if owners:
            label = owners[0]
        else:
            own = "" if name in macs.ATTENTION else f".{name or node.name}"
            label = f"{self._path(node)}{own}".lstrip(".")
        self._labels[label] += 1
        return label if self._labels[label] == 1 else f"{label}.{self._labels[label]}"

    def _path(self, node: Node) -> str:
        """The module in which an operator is called."""
        stack = cast("dict[str, tuple[str, str]]", node.meta.get("nn_module_stack") or {})
        return next(reversed(stack.values()))[0] if stack else self._within


def _estimated_macs(node: Node) -> int | None:
    """Multiply-accumulates of an operator that is not known, if PyTorch can tell."""
    from torch.utils.flop_counter import flop_registry

    formula = cast("dict[object, Any]", flop_registry).get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return None

    from torch.fx.node import map_arg

    try:
        args, kwargs = cast("tuple[Any, Any]", map_arg((node.args, dict(node.kwargs)), lambda other: other.meta["val"]))
        return int(formula(*args, **kwargs, out_val=node.meta["val"])) // 2
    except (TypeError, ValueError, AttributeError, ImportFailure):
        return None
