"""The nodes of a graph in an order in which they can run, those of chosen branches among them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

from fadiff.workload.importers.operators import ImportFailure, printable

SHOWN_IN_CYCLE = 6


def ordered(nodes: Sequence[onnx.NodeProto], given: set[str]) -> list[onnx.NodeProto]:
    """Nodes, producers before consumers, otherwise in the order of the file; `given` are tensors that are there."""
    maker: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in maker or name in given:
                raise ImportFailure(f"two nodes make {name!r}: the file is damaged, export it again")
            maker[name] = i
    order: list[int] = []
    state = [0] * len(nodes)  # 1: waiting for its inputs, 2: done
    for root in range(len(nodes)):
        stack = [root]
        while stack:
            i = stack[-1]
            if state[i] == 2:
                stack.pop()
                continue
            state[i] = 1
            missing = [maker[name] for name in reads(nodes[i]) if name in maker and state[maker[name]] != 2]
            if not missing:
                state[i] = 2
                order.append(i)
                stack.pop()
            elif any(state[j] == 1 for j in missing):
                told = " -> ".join(label(nodes[j]) for j in [*stack[-SHOWN_IN_CYCLE:], missing[0]])
                raise ImportFailure(f"the graph has a cycle, {told}: the file is damaged, export it again")
            else:
                stack.extend(missing)
    return [nodes[i] for i in order]


def label(node: onnx.NodeProto) -> str:
    """What a node is called: its name, or that of what it makes."""
    return printable(node.name or next(filter(None, node.output), "") or node.op_type)


def reads(node: onnx.NodeProto) -> list[str]:
    """Tensors a node reads, those that its branches and bodies read from around it among them."""
    names = [name for name in node.input if name]
    for body in bodies(node):
        made = {info.name for info in (*body.input, *body.initializer)}
        for inner in body.node:
            names += [name for name in reads(inner) if name not in made]
            made.update(inner.output)
        names += [info.name for info in body.output if info.name not in made]
    return names


def bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Branches and loop bodies of a node."""
    return [graph for item in node.attribute for graph in ((item.g,) if item.type == item.GRAPH else item.graphs)]


def all_types(graph: onnx.GraphProto) -> Iterator[str]:
    """Types of all nodes in a branch or body, however deep."""
    for node in graph.node:
        yield node.op_type
        for body in bodies(node):
            yield from all_types(body)


def needed(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that some outputs need, in order, and all tensors that they read."""
    wanted = set(outputs)
    kept: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(reads(node))
    return kept[::-1], wanted


def origins(name: str, maker: Mapping[str, onnx.NodeProto]) -> list[str]:
    """Tensors that a tensor is computed from and that no node makes, in the order they are found."""
    found: dict[str, None] = {}
    seen, waiting = {name}, [name]
    while waiting:
        tensor = waiting.pop()
        if tensor not in maker:
            found[tensor] = None
            continue
        new = [other for other in reads(maker[tensor]) if other not in seen]
        seen.update(new)
        waiting += new
    return list(found)


def spliced(node: onnx.NodeProto, branch: onnx.GraphProto) -> tuple[list[onnx.NodeProto], dict[str, onnx.TensorProto]]:
    """A branch in the place of the node that chose it: its nodes, and the constants it holds.

    Names made in the branch get the node's name in front, because another branch may use them too.
    """
    made = {name for inner in branch.node for name in inner.output} | {tensor.name for tensor in branch.initializer}
    new = {name: f"{label(node)}/{name}" for name in made if name}
    nodes = [renamed(inner, new) for inner in branch.node]
    for inner, outer in zip(branch.output, node.output, strict=False):
        if outer:
            nodes.append(onnx.helper.make_node("Identity", [new.get(inner.name, inner.name)], [outer], name=outer))
    return nodes, {new[tensor.name]: tensor for tensor in branch.initializer}


def renamed(node: onnx.NodeProto, new: Mapping[str, str], place: str = "") -> onnx.NodeProto:
    """A node with new names of tensors; its own gets the `place` in front."""
    copy: Any = onnx.NodeProto()
    copy.CopyFrom(node)
    _rename(copy, new)
    copy.name = f"{place}{node.name}" if node.name else ""
    return copy


def _rename(node: onnx.NodeProto, new: Mapping[str, str]) -> None:
    for names in (node.input, node.output):
        for i, name in enumerate(names):
            names[i] = new.get(name, name)
    for body in bodies(node):
        for inner in body.node:
            _rename(inner, new)
        for info in body.output:
            info.name = new.get(info.name, info.name)
