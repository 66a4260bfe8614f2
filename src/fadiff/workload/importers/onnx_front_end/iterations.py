"""Loop and Scan nodes that run a number of steps which is known: what a step reads, and what it leaves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from fadiff.workload.importers.onnx_front_end.nodes import bodies, label, renamed
from fadiff.workload.importers.onnx_front_end.statics import Statics

PICKING = frozenset({"Gather", "Unsqueeze", "Cast", "Identity", "Reshape", "Equal"})
"""What may read the number of a step: operators that leave tensors of one shape in all steps."""


@dataclass(frozen=True)
class Iteration:
    """A node that runs its body `count` times. Names: of the body inside, of the graph around it outside."""

    node: onnx.NodeProto
    body: onnx.GraphProto
    count: int
    states: tuple[tuple[str, str], ...]
    """(outside, inside): tensors that the first step starts from."""
    sliced: tuple[tuple[str, str, int], ...]
    """(outside, inside, axis): tensors of which every step reads its own slice."""
    number: str = ""
    """The number of the step, inside."""
    goes_on: tuple[str, str] = ("", "")
    """Whether it goes on, inside: what a step reads and what it makes."""
    axes: tuple[int, ...] = ()
    """The new axis along which tensors of all steps are laid end to end, for each such output."""

    @property
    def left(self) -> list[str]:
        """What a step leaves, inside: states, then tensors of which all steps are kept."""
        first = len(self.body.output) - len(self.states) - len(self.axes)
        return [info.name for info in self.body.output[first:]]

    def step(self, name: str) -> tuple[list[onnx.NodeProto], dict[str, str]]:
        """The nodes of a step, and the new names of what they read and make; constants have one name in all steps."""
        constants = {tensor.name: f"{label(self.node)}/{tensor.name}" for tensor in self.body.initializer}
        inner = {made for node in self.body.node for made in node.output} | {info.name for info in self.body.input}
        new = {**{made: f"{label(self.node)}/{name}{made}" for made in inner if made}, **constants}
        return [renamed(node, new, f"{label(self.node)}/{name}") for node in self.body.node], new


def iteration(node: onnx.NodeProto, statics: Statics) -> Iteration | None:
    """A loop whose number of steps is known before it runs; None for all others."""
    found = bodies(node)
    if len(found) != 1 or not all(name in statics and statics[name].shape is not None for name in node.input if name):
        return None
    attributes = {item.name: item for item in node.attribute}
    if node.op_type == "Scan":
        return _scan(node, found[0], attributes, statics)
    return _loop(node, found[0], statics) if node.op_type == "Loop" else None


def _loop(node: onnx.NodeProto, body: onnx.GraphProto, statics: Statics) -> Iteration | None:
    count = statics.words(node.input[0]) if node.input and node.input[0] else None
    given = node.input[1] if len(node.input) > 1 else ""
    goes_on = statics.words(given) if given else None
    if count is None or count.size != 1 or (given and (goes_on is None or not goes_on.all())):
        return None
    inside = [info.name for info in body.input]
    states = tuple(zip(node.input[2:], inside[2:], strict=False))
    joined = len(body.output) - 1 - len(states)
    readers = {reader.op_type for reader in body.node if inside[0] in reader.input}
    if len(inside) != 2 + len(states) or joined < 0 or not readers <= PICKING or int(count.reshape(-1)[0]) < 1:
        return None
    return Iteration(
        node,
        body,
        int(count.reshape(-1)[0]),
        states,
        (),
        number=inside[0],
        goes_on=(inside[1], body.output[0].name),
        axes=(0,) * joined,
    )


def _scan(
    node: onnx.NodeProto, body: onnx.GraphProto, attributes: Mapping[str, onnx.AttributeProto], statics: Statics
) -> Iteration | None:
    sliced = attributes["num_scan_inputs"].i if "num_scan_inputs" in attributes else 0
    held = len(node.input) - sliced
    inside = [info.name for info in body.input]
    joined = len(body.output) - held
    if statics.opsets.get("", 1) < 9 or sliced < 1 or held < 0 or joined < 0 or len(inside) != len(node.input):
        return None

    def axes(name: str, count: int) -> Sequence[int]:
        given = list(attributes[name].ints) if name in attributes else []
        return given if len(given) == count else [0] * count

    rows: list[tuple[str, str, int]] = []
    for outer, inner, axis in zip(node.input[held:], inside[held:], axes("scan_input_axes", sliced), strict=True):
        rank = len(statics[outer].shape or ())
        if not -rank <= axis < rank:
            return None
        rows.append((outer, inner, axis % rank))
    counts = {(statics[outer].shape or ())[axis] for outer, _, axis in rows}
    if len(counts) != 1 or min(counts) < 1:
        return None
    states = tuple(zip(node.input[:held], inside[:held], strict=True))
    return Iteration(node, body, counts.pop(), states, tuple(rows), axes=tuple(axes("scan_output_axes", joined)))
