"""Operators that move words and compute nothing: what they leave is a view of a stored tensor, or goes through DRAM.

A reshape or transpose is followed axis by axis. A concatenation along channels becomes several input edges. A slice, a
concatenation along another axis, a repetition or a cut through the middle of an axis is none of these: whoever reads
the result reads it from DRAM, and waits for all layers whose words are in it.
"""

from dataclasses import replace
from math import prod

from fadiff.workload.importers.lowering.drafts import Net
from fadiff.workload.importers.lowering.layout import Axis, reshaped, whole
from fadiff.workload.importers.lowering.looking import directions, image_axis, unit_axes_changed
from fadiff.workload.importers.lowering.values import Part, Value, merged
from fadiff.workload.importers.operators import (
    Carry,
    Concat,
    Expand,
    Lookup,
    Opaque,
    Operator,
    Pad,
    Reshape,
    Slice,
    Transpose,
)


def reshape(net: Net, number: int, operator: Reshape) -> None:
    """The same sequence of words."""
    value, shape = _moved(net, number, operator)
    if value is None:
        return
    units_only = [size for size in value.shape if size != 1] == [size for size in shape if size != 1]
    if units_only:
        net.values[operator.outputs[0]] = unit_axes_changed(value, shape)
        return
    part, like = value.view, value.like
    axes = None if like is None or like.axes is None or like.padded is not None else reshaped(like.axes, shape)
    if part is not None and axes is not None:
        net.values[operator.outputs[0]] = replace(
            value, shape=shape, parts=(replace(part, axes=axes, viewed=True),), axis=0
        )
        return
    reason = f"{operator.type} {operator.name} cuts through its axes"
    net.values[operator.outputs[0]] = value.scattered(operator.outputs[0], shape, reason, axes=axes)


def transpose(net: Net, number: int, operator: Transpose) -> None:
    """Axes in another order."""
    value, shape = _moved(net, number, operator)
    if value is None:
        return
    order = operator.permutation

    def turned(part: Part) -> Part:
        axes = None if part.axes is None else tuple(part.axes[i] for i in order)
        return replace(part, axes=axes, viewed=part.viewed or _reorders(value.shape, order))

    made = replace(
        value,
        shape=shape,
        parts=tuple(map(turned, value.parts)),
        axis=order.index(value.axis) if len(value.parts) > 1 else 0,
        hint=None if value.hint is None else turned(value.hint),
    )
    if not made.parts:
        made = replace(made, origin=operator.outputs[0], within=made.within | {operator.outputs[0]})
    net.values[operator.outputs[0]] = made


def _reorders(shape: tuple[int, ...], order: tuple[int, ...]) -> bool:
    kept = [i for i in order if shape[i] != 1]
    return kept != sorted(kept)


def expand(net: Net, number: int, operator: Expand) -> None:
    """Words repeated along new or unit axes."""
    value, shape = _moved(net, number, operator)
    if value is None:
        return
    missing = len(shape) - len(value.shape)
    part = value.view
    if prod(shape) == prod(value.shape):
        net.values[operator.outputs[0]] = unit_axes_changed(value, shape)
    elif part is not None and part.axes is not None and missing >= 0:
        axes: list[Axis] = [*[()] * missing, *part.axes]
        before = (*[1] * missing, *value.shape)
        repeated = tuple(
            axis if old == new else (*axis, *(atom._replace(stride=0) for atom in whole("b", new // max(old, 1))))
            for axis, old, new in zip(axes, before, shape, strict=True)
        )
        net.values[operator.outputs[0]] = replace(
            value, shape=shape, parts=(replace(part, axes=repeated, viewed=True),), axis=0, spread=value.words
        )
    else:
        net.values[operator.outputs[0]] = value.scattered(
            operator.outputs[0], shape, f"{operator.type} {operator.name} repeats its words"
        )


def concat(net: Net, number: int, operator: Concat) -> None:
    """Along channels: parts, end to end. Along any other axis: a tensor in DRAM."""
    name, shape = operator.outputs[0], net.graph.shape(operator.outputs[0])
    joined = [tensor for tensor in operator.inputs if 0 not in net.graph.shape(tensor)]
    values = [net.values[tensor] for tensor in joined if tensor not in net.fixed]
    net.folded[number] = "edges"
    if len(joined) == 1 and values:
        net.values[name] = replace(values[0], shape=shape)
        return
    if len(values) == len(joined) and (parts := _parts(net, values, operator.axis)) is not None:
        sources = frozenset[tuple[int, tuple[int, ...]]]().union(*(value.sources for value in values))
        net.values[name] = Value(shape, parts, operator.axis, sources)
        return
    made = merged(name, values, shape, _why_joined(operator, values))
    along = [directions(net, value, (operator.axis,)) for value in values if value.view is not None]
    made = replace(made, moved=made.moved.union(*along), hint=_joined_hint(values, operator.axis, shape))
    net.values[name] = made if made.sources else Value(shape, (Part(None),))


def _why_joined(operator: Concat, values: list[Value]) -> str:
    """Why a concatenation is not read piece by piece: a piece that nobody can read so, its layout, or the axis."""
    told = f"{operator.type} {operator.name}"
    if any(value.reason is not None and not value.parts for value in values):
        return f"{told} joins it with a tensor that goes through DRAM"
    parts = [part for value in values for part in value.parts]
    if any(part.axes is not None and any(atom.of == "c" for atom in part.axes[operator.axis]) for part in parts):
        return f"{told} joins tensors whose channels, rows or columns lie differently"
    return f"{told} joins along axis {operator.axis}, not along channels"


def _joined_hint(values: list[Value], axis: int, shape: tuple[int, ...]) -> Part | None:
    """A tensor of the same rows as all that are joined, if they are the same in all."""
    likes = [value.like for value in values if value.sources]
    first = likes[0] if likes else None
    if first is None or first.axes is None:
        return None
    rest = {None if part is None or part.axes is None else (part.axes[:axis], part.axes[axis + 1 :]) for part in likes}
    if len(rest) != 1:
        return None
    return replace(first, axes=(*first.axes[:axis], _picked(shape[axis]), *first.axes[axis + 1 :]), viewed=True)


def _parts(net: Net, values: list[Value], axis: int) -> tuple[Part, ...] | None:
    """Stored tensors whose channels lie end to end; None where other axes do, or where the rest differs.

    A network input may lie between them, or words that nobody can follow, such as a slice: these are read from DRAM.
    There must be a stored tensor to show what the other axes are.
    """
    parts: list[Part] = []
    rests: set[object] = set()
    for value in values:
        if len(value.parts) > 1 and value.axis != axis:
            return None
        if not value.parts:
            if len(value.sources) > value.shape[axis]:  # each brings a channel at least
                return None
            parts += [Part(layer, resizes=resizes, reason=value.reason) for layer, resizes in sorted(value.sources)]
            continue
        for part in value.parts:
            parts.append(part if part.layer is None else replace(part, reason=part.reason or value.reason))
            if part.layer is None or (part.reason is not None and part.axes is None):
                continue
            if part.axes is None or part.padded is not None:
                return None
            sizes = net.drafts[part.layer].sizes(part.resizes)
            if part.axes[axis] != whole("c", sizes["c"]):
                return None
            rests.add((part.axes[:axis], part.axes[axis + 1 :], sizes["n"], sizes["p"], sizes["q"]))
    return tuple(parts) if len(rests) == 1 else None


def slice_(net: Net, number: int, operator: Slice) -> None:
    """A part of a tensor; all of it is the tensor itself."""
    value, shape = _moved(net, number, operator)
    if value is None:
        return
    if value.shape == shape and all(step > 0 for step in operator.step):
        net.values[operator.outputs[0]] = value
        return
    axes = tuple(i for i, (old, new) in enumerate(zip(value.shape, shape, strict=True)) if old != new)
    axes = axes or tuple(i for i, step in enumerate(operator.step) if step < 0)
    like = value.like
    where = None
    if like is not None and like.axes is not None:
        where = tuple(
            _picked(size) if i in axes else axis for i, (size, axis) in enumerate(zip(shape, like.axes, strict=True))
        )
    reason = f"{operator.type} {operator.name} takes a part of it"
    net.values[operator.outputs[0]] = value.scattered(
        operator.outputs[0], shape, reason, directions(net, value, axes), where
    )


def _picked(size: int) -> Axis:
    """An axis of words that were picked."""
    return whole("x", size)


def pad(net: Net, number: int, operator: Pad) -> None:
    """Padding of an image is generated where a convolution or pooling reads it; any other goes through DRAM."""
    value, shape = _moved(net, number, operator)
    if value is None:
        return
    if value.shape == shape:
        net.values[operator.outputs[0]] = value
        return
    changed = [i for i, size in enumerate(shape) if size != value.shape[i]]
    added = min((*operator.before, *operator.after)) >= 0
    before = {axis: operator.before[axis] for axis in changed}
    parts = tuple(padded for part in value.parts if (padded := _padded(net, part, before)) is not None)
    if added and parts and len(parts) == len(value.parts):
        net.values[operator.outputs[0]] = replace(value, shape=shape, parts=parts)
        return
    net.values[operator.outputs[0]] = value.scattered(
        operator.outputs[0], shape, f"{operator.type} {operator.name} puts words around it"
    )


def _padded(net: Net, part: Part, before: dict[int, int]) -> Part | None:
    """A part with words before some of its axes (and after them); None where these are not its rows or columns."""
    if part.layer is None or part.axes is None:
        return None
    sizes = net.drafts[part.layer].sizes(part.resizes)
    top, left = part.padded or (0, 0)
    for axis, words in before.items():
        of = image_axis(part.axes, axis, sizes)
        if of is None:
            return None
        top, left = (top + words, left) if of == "p" else (top, left + words)
    return replace(part, padded=(top, left))


def lookup(net: Net, number: int, operator: Lookup) -> None:
    """Rows of a table: read from DRAM, as a network input is, once their indices are known."""
    net.folded[number] = "network input" if not any(value.sources for value in net.operands(operator)) else "edges"
    _merge_all(net, operator, f"{operator.type} {operator.name} picks its words by indices")


def opaque(net: Net, number: int, operator: Opaque) -> None:
    """What nobody knows: its outputs are in DRAM once its inputs are there, which must be written for it."""
    _merge_all(net, operator, f"{operator.type} {operator.name} is not modelled")


def carry(net: Net, number: int, operator: Carry) -> None:
    """What goes from one step of a loop to another, or out of it."""
    net.folded[number] = "edges"
    _merge_all(net, operator, operator.reason)


def _merge_all(net: Net, operator: Operator, reason: str) -> None:
    """All outputs are made of all inputs, in a way that is not followed. Without outputs, inputs are written anyway."""
    values = net.operands(operator)
    for name in filter(None, operator.outputs):
        shape = net.graph.shape(name)
        made = merged(name, values, shape, reason)
        net.values[name] = made if made.sources else Value(shape, (Part(None),))
    if not any(operator.outputs):
        for value in values:
            for layer, resizes in value.sources:
                net.drafts[layer].is_output.append(resizes)


def _moved(net: Net, number: int, operator: Operator) -> tuple[Value | None, tuple[int, ...]]:
    """What an operator moves, and the shape it leaves; None for what comes from network inputs alone."""
    name = operator.outputs[0]
    shape = net.graph.shape(name)
    value = net.values[operator.inputs[0]]
    net.folded[number] = "edges" if value.sources else "network input"
    if not value.sources:
        net.values[name] = Value(shape, (Part(None),))
        return None, shape
    return value, shape
