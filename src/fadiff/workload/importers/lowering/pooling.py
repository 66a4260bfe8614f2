"""Reductions, poolings and resizings: what they change in the tensor that a layer stores.

A pooling changes the stored tensor, if all who read the layer want it pooled in the same way (the edges decide that in
the end). Otherwise the tensor is stored as it is, and whoever wants it pooled reads the pooled words from DRAM; the
words that this takes to write there are not counted.
"""

from dataclasses import replace
from math import prod

from fadiff.workload.importers.lowering.drafts import Net, Vector
from fadiff.workload.importers.lowering.layout import Layout, whole
from fadiff.workload.importers.lowering.looking import (
    directions,
    image_axis,
    on_the_fly,
    only_layer,
    resizes_of,
    unit_axes_changed,
)
from fadiff.workload.importers.lowering.values import Part, Value
from fadiff.workload.importers.operators import Operator, Pool, Reduce, Resize
from fadiff.workload.layer import VectorOp


def reduce(net: Net, number: int, operator: Reduce) -> None:
    """A reduction over the image is a pooling; any other is computed on the fly by those who read it."""
    name, shape = operator.outputs[0], net.graph.shape(operator.outputs[0])
    value = _produced(net, number, operator)
    if value is None:
        return
    if prod(shape) == prod(value.shape):
        net.folded[number] = "nothing: it changes no word"
        net.values[name] = unit_axes_changed(value, shape)
        return
    kept = tuple(1 if i in operator.axes else size for i, size in enumerate(value.shape))
    pooled = _pooled(net, number, value, kept, "max_pool" if operator.function == "max" else "avg_pool")
    if pooled is not None:
        net.values[name] = unit_axes_changed(pooled, shape)
        return
    over = directions(net, value, operator.axes)
    layer = only_layer(value)
    told = net.label(layer) if layer is not None else "a tensor of several layers"
    like = value.like
    axes = None if like is None or like.axes is None else _without(like.axes, operator.axes, len(shape))
    made = value.scattered(name, shape, f"{operator.type} {operator.name} reduces {told}", over, axes)
    if layer is None:
        net.folded[number] = on_the_fly(net, value)
    else:
        functions = frozenset({"reduce", operator.function})
        net.drafts[layer].vectors[number] = Vector(None, functions, resizes_of(value))
        made = replace(made, history=(*value.history, number))
    net.values[name] = made


def _without(axes: Layout, gone: tuple[int, ...], rank: int) -> Layout:
    """Axes of which some are left with size 1, or dropped if there are fewer now."""
    if rank == len(axes):
        return tuple(() if i in gone else axis for i, axis in enumerate(axes))
    return tuple(axis for i, axis in enumerate(axes) if i not in gone)


def pool(net: Net, number: int, operator: Pool) -> None:
    """Pooling changes what its layer stores, if all who read it want it pooled."""
    _resize_image(net, number, operator, "max_pool" if operator.function == "max" else "avg_pool")


def resize(net: Net, number: int, operator: Resize) -> None:
    """Upsampling, or downsampling by interpolation."""
    before, after = net.graph.shape(operator.inputs[0]), net.graph.shape(operator.outputs[0])
    _resize_image(net, number, operator, "avg_pool" if prod(after) < prod(before) else "upsample")


def _resize_image(net: Net, number: int, operator: Operator, kind: VectorOp) -> None:
    name, shape = operator.outputs[0], net.graph.shape(operator.outputs[0])
    value = _produced(net, number, operator)
    if value is None:
        return
    global_pool = kind != "upsample" and all(size == 1 for size in shape[2:])
    if global_pool and value.shape == shape:
        net.folded[number] = "nothing: it changes no word"
        net.values[name] = value
        return
    pooled = _pooled(net, number, value, shape, kind)
    if pooled is None:
        layer = only_layer(value)
        told = net.label(layer) if layer is not None else "a tensor of several layers"
        net.folded[number] = on_the_fly(net, value)
        pooled = value.scattered(name, shape, f"{operator.type} {operator.name} runs apart from {told}")
    net.values[name] = pooled


def _pooled(net: Net, number: int, value: Value, shape: tuple[int, ...], kind: VectorOp) -> Value | None:
    """A value after its image axes took other sizes; None where other axes did, or where it is not known.

    A concatenation is pooled piece by piece.
    """
    found = [_resized(net, part, value.shape, shape) for part in value.parts]
    parts: list[Part] = []
    for part, image in zip(value.parts, found, strict=True):
        if part.layer is None or image is None or None in found:
            return None
        axes, left = image
        pool: VectorOp = "global_pool" if left == (1, 1) and kind != "upsample" else kind
        net.drafts[part.layer].resizes[number] = (pool, left)
        parts.append(replace(part, axes=axes, resizes=(*part.resizes, number), padded=None))
    if not parts:
        return None
    sources = frozenset((part.layer, part.resizes) for part in parts if part.layer is not None)
    return replace(value, shape=shape, parts=tuple(parts), sources=sources)


def _resized(
    net: Net, part: Part, before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[Layout, tuple[int, int]] | None:
    """The axes of a part and the rows and columns of its image after a change of sizes."""
    if part.layer is None or part.axes is None:
        return None
    draft = net.drafts[part.layer]
    if any(draft.resizes[step][0] == "global_pool" for step in part.resizes):
        return None  # one word for all of an image, spread out again: it needs the whole image first
    sizes = draft.sizes(part.resizes)
    axes = list(part.axes)
    left = {"p": sizes["p"], "q": sizes["q"]}
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        of = image_axis(part.axes, i, sizes)
        if of is not None and (old != new or part.padded is not None):
            left[of] = new
            axes[i] = whole(of, new)
        elif old != new:
            return None
    return tuple(axes), (left["p"], left["q"])


def _produced(net: Net, number: int, operator: Operator) -> Value | None:
    """The operand, if a layer makes it; what is done to a network input is done before the network runs."""
    values = net.operands(operator)
    if values and values[0].sources:
        return values[0]
    name = operator.outputs[0]
    net.values[name] = Value(net.graph.shape(name), (Part(None),))
    net.folded[number] = "network input"
    return None
