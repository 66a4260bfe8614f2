"""``torch.scan``: its step as operators that repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from fadiff.workload.importers.loops import FROM_THE_STEP_BEFORE, STATE, STEP_BY_STEP, note
from fadiff.workload.importers.operators import Carry, Reshape, Slice
from fadiff.workload.importers.torch_front_end.builder import Builder, result_shapes

if TYPE_CHECKING:
    from torch.fx import Node


class Scan:
    """One call of scan: arguments are the step, first states, tensors sliced by step along axis 0, and others."""

    def __init__(self, builder: Builder, node: Node, label: str) -> None:
        self._builder, self._node, self._label = builder, node, label
        _, states, sliced, others = cast("tuple[Node, list[Node], list[Node], list[Node]]", node.args)
        self._states, self._sliced, self._others = states, sliced, others
        self._count = (result_shapes(sliced[0])[0] or (1,))[0]

    def translate(self, owner: Any, call: Callable[[Node], None]) -> None:  # noqa: ANN401 - modules have any attribute
        """Add the operators of a step; `owner` holds its graph, and `call` translates one of its nodes.

        Weights are the same in every step: with some, the first step stands apart, and the others read them again.
        """
        body = getattr(owner, cast("str", cast("Node", self._node.args[0]).target))
        nodes = list(cast("Sequence[Node]", body.graph.nodes))
        builder = self._builder
        given = [builder.tensor_of(state) for state in self._states]
        left: list[list[str]] = []
        count = self._count
        if count > 1 and any(builder.tensors[builder.tensor_of(other)].role == "parameter" for other in self._others):
            left.append(self._step(nodes, given, call))
            given, count = left[0][: len(given)], count - 1
        before = [self._state(tensor) for tensor in given]
        first = len(builder.operators)
        left.append(self._step(nodes, before, call))
        for number in range(first, len(builder.operators)):
            operator = builder.operators[number]
            builder.operators[number] = replace(operator, repeat=operator.repeat * count, again=len(left) > 1)
        if self._count > 1:
            builder.notes[note(self._count)] = None
        for number, shape in enumerate(result_shapes(self._node)):
            made = [step[number] for step in left]
            if number < len(given):
                self._carry(made[-1:], (), FROM_THE_STEP_BEFORE)
                made = made[-1:]
            output = builder.add_tensor(self._node.name, shape or ())
            self._carry(made, (output,), STEP_BY_STEP)
            builder.bind(self._node, output, number)

    def _step(self, nodes: Sequence[Node], states: Sequence[str], call: Callable[[Node], None]) -> list[str]:
        """The operators of one step from these states; the tensors that it leaves."""
        builder = self._builder
        inputs = [node for node in nodes if node.op == "placeholder"]
        read = [*states, *map(self._slice, self._sliced), *map(builder.tensor_of, self._others)]
        for node, tensor in zip(inputs, read, strict=True):
            builder.bind(node, tensor)
        for node in nodes:
            if node.op == "call_function":
                call(node)
        (outputs,) = cast("tuple[Sequence[Node]]", nodes[-1].args)
        return [builder.tensor_of(node) for node in outputs]

    def _slice(self, node: Node) -> str:
        """What the first step reads of a tensor."""
        builder = self._builder
        whole = builder.tensor_of(node)
        shape = builder.tensors[whole].shape
        cut, tensor = (builder.add_tensor(node.name, size) for size in ((1, *shape[1:]), shape[1:]))
        origin, steps = (0,) * len(shape), (1,) * len(shape)
        builder.add_operator(
            Slice(name=self._label, type="scan", inputs=(whole,), outputs=(cut,), start=origin, step=steps)
        )
        builder.add_operator(Reshape(name=self._label, type="scan", inputs=(cut,), outputs=(tensor,)))
        return tensor

    def _state(self, given: str) -> str:
        """The tensor that a step reads as the state before it."""
        builder = self._builder
        fixed = builder.is_fixed((given,)) or builder.tensors[given].role == "input"
        state = builder.add_tensor(f"{given}.state", builder.tensors[given].shape, "input" if fixed else "activation")
        if not fixed:
            self._carry([given], (state,), FROM_THE_STEP_BEFORE)
        return state

    def _carry(self, inputs: Sequence[str], outputs: tuple[str, ...], reason: str) -> None:
        self._builder.add_operator(
            Carry(name=f"{self._label}.state", type=STATE, inputs=tuple(inputs), outputs=outputs, reason=reason)
        )
