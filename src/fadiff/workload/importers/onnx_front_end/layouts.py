"""Operators that move words: reshapes, transpositions, slices, concatenations, lookups."""

from math import prod

from fadiff.workload.importers.onnx_front_end.node import Node, Shape
from fadiff.workload.importers.operators import Concat, Expand, ImportFailure, Lookup, Pad, Slice


def reshape(node: Node) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze."""
    if prod(node.shape(0)) != prod(node.out()):
        raise ImportFailure(
            f"{node} makes {list(node.out())} out of {list(node.shape(0))}, which holds another number of words: "
            "was the model exported for another input shape?"
        )
    node.reshape(node.read(0), node.out(), node.outputs[0])


def transpose(node: Node) -> None:
    """Axes in another order; all of them backwards where none is given."""
    rank = len(node.shape(0))
    order = node.integers("perm", range(rank - 1, -1, -1)) or ()
    if sorted(order) != list(range(rank)):
        raise ImportFailure(
            f"{node}: perm {list(order)} is no order of {rank} axes: the file is damaged, export it again"
        )
    node.transpose(node.read(0), order, node.outputs[0])


def expand(node: Node) -> None:
    """Axes of size 1 repeated; Tile too, as far as it repeats single words."""
    before, after = node.shape(0), node.out()
    padded = (*(1,) * (len(after) - len(before)), *before)
    if all(old in (1, new) for old, new in zip(padded, after, strict=True)):
        node.emit(Expand(name=node.name, type=node.type, inputs=(node.read(0),), outputs=(node.outputs[0],)))
    else:
        pick(node)


def concat(node: Node) -> None:
    """Tensors end to end."""
    inputs = tuple(filter(None, node.inputs))
    axis = node.axis(node.integer("axis", 1), len(node.out()))
    node.emit(Concat(name=node.name, type=node.type, inputs=inputs, outputs=(node.outputs[0],), axis=axis))


def quantized_concat(node: Node) -> None:
    """Tensors end to end, each with its scale and zero point behind it, after those of the output."""
    axis = node.axis(node.integer("axis", 1), len(node.out()))
    inputs = tuple(node.inputs[2::3])
    node.emit(Concat(name=node.name, type=node.type, inputs=inputs, outputs=(node.outputs[0],), axis=axis))


def split(node: Node) -> None:
    """A slice for each output."""
    shape = node.shape(0)
    axis = node.axis(node.integer("axis", 0), len(shape))
    first = 0
    for place in range(len(node.outputs)):
        if not node.wants(place):
            raise ImportFailure(f"{node} drops its output {place + 1}: name all outputs")
        size = node.out(place)[axis]
        _slice(node, node.read(0), node.outputs[place], {axis: first}, {})
        first += size


def slice_(node: Node) -> None:
    """Starts and steps from constants, or from attributes in old models."""
    shape, out = node.shape(0), node.out()
    rank = len(shape)
    if node.has(1):
        starts, axes, steps = node.numbers(1), node.numbers(3), node.numbers(4)
    else:
        starts, axes, steps = node.integers("starts"), node.integers("axes"), None
    if starts is None:
        pick(node)
        return
    axes = list(range(len(starts))) if axes is None else [node.axis(axis, rank) for axis in axes]
    first: dict[int, int] = {}
    step: dict[int, int] = {}
    for i, axis in enumerate(axes):
        stride = steps[i] if steps is not None else 1
        size, start = shape[axis], starts[i]
        start = start + size if start < 0 else start
        first[axis] = min(max(start, 0), size if stride > 0 else size - 1)
        step[axis] = stride
    if len(out) != rank:
        raise ImportFailure(f"{node} changes the number of axes: the file is damaged, export it again")
    _slice(node, node.read(0), node.outputs[0], first, step)


def _slice(node: Node, tensor: str, output: str, first: dict[int, int], step: dict[int, int]) -> None:
    rank = len(node.shape_of(tensor))
    node.emit(
        Slice(
            name=node.name,
            type=node.type,
            inputs=(tensor,),
            outputs=(output,),
            start=tuple(first.get(i, 0) for i in range(rank)),
            step=tuple(step.get(i, 1) for i in range(rank)),
        )
    )


def gather(node: Node) -> None:
    """Constant indices at equal distances are a slice, whatever shape they are in; any others a lookup."""
    shape = node.shape(0)
    axis = node.axis(node.integer("axis", 0), len(shape))
    indices = node.words(1)
    if node.fixed(0) or indices is None or indices.size == 0:
        pick(node)
        return
    places = [int(index) + (shape[axis] if index < 0 else 0) for index in indices.reshape(-1)]
    step = places[1] - places[0] if len(places) > 1 else 1
    if step == 0 or places != [places[0] + i * step for i in range(len(places))]:
        pick(node)
        return
    if indices.ndim == 1:
        _slice(node, node.read(0), node.outputs[0], {axis: places[0]}, {axis: step})
        return
    made = node.tensor("slice", tuple(len(places) if i == axis else size for i, size in enumerate(shape)))
    _slice(node, node.read(0), made, {axis: places[0]}, {axis: step})
    node.reshape(made, node.out(), node.outputs[0])


def pick(node: Node) -> None:
    """Words chosen or placed by computed indices; they compute nothing."""
    inputs = tuple(name for name in node.inputs if name)
    outputs = tuple(name for name in node.outputs if name)
    node.emit(Lookup(name=node.name, type=node.type, inputs=inputs, outputs=outputs))


def pad(node: Node) -> None:
    """Words around the axes."""
    rank = len(node.shape(0))
    amounts = node.numbers(1) if node.has(1) else list(node.integers("pads") or node.integers("paddings") or ())
    axes = node.numbers(3) if node.has(3) else list(range(rank))
    if amounts is None or axes is None or len(amounts) != 2 * len(axes):
        pick(node)
        return
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[node.axis(axis, rank)], after[node.axis(axis, rank)] = amounts[i], amounts[len(axes) + i]
    node.emit(
        Pad(
            name=node.name,
            type=node.type,
            inputs=(node.read(0),),
            outputs=(node.outputs[0],),
            before=tuple(before),
            after=tuple(after),
        )
    )


def depth_to_space(node: Node) -> None:
    """Channels to pixels, in blocks of b x b; which part of the channels is the block depends on the mode."""
    (n, c, h, w), b = _image(node), node.integer("blocksize", 1)
    _check_block(node, c, b * b)
    if str(node.attribute("mode") or "DCR") == "DCR":
        parts, order = (n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        parts, order = (n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3)
    node.reshape(node.transpose(node.reshape(node.read(0), parts), order), node.out(), node.outputs[0])


def space_to_depth(node: Node) -> None:
    """Pixels of blocks of b x b to channels."""
    (n, c, h, w), b = _image(node), node.integer("blocksize", 1)
    _check_block(node, h, b)
    _check_block(node, w, b)
    split_up = node.reshape(node.read(0), (n, c, h // b, b, w // b, b))
    node.reshape(node.transpose(split_up, (0, 3, 5, 1, 2, 4)), node.out(), node.outputs[0])


def _image(node: Node) -> Shape:
    if len(node.shape(0)) != 4:
        raise ImportFailure(
            f"{node} reads {list(node.shape(0))}, which is no image: the file is damaged, export it again"
        )
    return node.shape(0)


def _check_block(node: Node, size: int, block: int) -> None:
    if block < 1 or size % block:
        raise ImportFailure(f"{node}: {size} is no multiple of {block}: the file is damaged, export it again")
