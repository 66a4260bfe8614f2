"""Add layers: sums and products of several stored tensors."""

from functools import partial
from math import prod

from fadiff.workload.importers.lowering.drafts import Draft, Net, Operand
from fadiff.workload.importers.lowering.layout import Axis, Layout, stored, whole
from fadiff.workload.importers.lowering.values import Value
from fadiff.workload.importers.operators import Elementwise
from fadiff.workload.layer import Dims


def add_layer(net: Net, number: int, operator: Elementwise, values: list[Value]) -> Value:
    """A sum or product of several stored tensors."""
    shape = net.graph.shape(operator.outputs[0])
    dims, axes = _sum_loops(net, values, shape)
    operands: list[Operand] = []
    waits: list[Operand] = []
    for value in values:
        found = sorted(_addends(net, value, shape, axes, dims), key=partial(_stands_for_more, net))
        operands += found[-1:]
        waits += found[:-1]
    if len(operands) == 1:  # all other operands are broadcast network inputs
        operands.append(Operand(None, "addend"))
    layer = net.add(Draft(operator.label, number, "add", dims, operands, waits=waits))
    return net.output(layer, shape, axes)


def _sum_loops(net: Net, values: list[Value], shape: tuple[int, ...]) -> tuple[Dims, Layout]:
    """Loops of an add layer and where its axes lie in them: as in the first operand that shows it.

    One that can be fused shows it best, then one that cannot. Where words were picked along one axis (a slice of
    channels), the other axes still show what they are, and that one becomes the channels.
    """
    full = [value for value in values if value.shape == shape]
    for value in sorted(full, key=lambda value: (value.view is None, value.reason is not None)):
        part = value.like
        if part is None or part.layer is None or part.axes is None:
            continue
        sizes = net.drafts[part.layer].sizes(part.resizes)
        axes = part.axes
        picked = [i for i, axis in enumerate(axes) if any(atom.of == "x" for atom in axis)]
        if len(picked) == 1 and all(atom.of != "c" for axis in axes for atom in axis):
            sizes["c"] = shape[picked[0]]
            axes = (*axes[: picked[0]], whole("c", sizes["c"]), *axes[picked[0] + 1 :])
        atoms = [atom for axis in axes for atom in axis]
        if prod(sizes.values()) == prod(shape) and all(atom.of not in ("b", "x") for atom in atoms):
            return Dims(N=sizes["n"], K=sizes["c"], P=sizes["p"], Q=sizes["q"]), axes
    drafts = [net.drafts[layer] for value in values for layer in value.layers]
    return _default_loops(shape, image=any(draft.dims.P * draft.dims.Q > 1 for draft in drafts))


def _addends(net: Net, value: Value, shape: tuple[int, ...], axes: Layout, dims: Dims) -> list[Operand]:
    """An operand of an add layer: one edge, or a dependency on each layer that it is made of."""
    if not value.sources:
        return [Operand(None, "addend")] if prod(value.shape) == prod(shape) else []
    part, reason = value.view, value.reason
    if part is not None and part.layer is not None:
        if value.shape != shape:
            reason = reason or f"it is broadcast from {_told(value.shape)} to {_told(shape)}"
        elif part.axes != axes or net.drafts[part.layer].sizes(part.resizes) != _sizes(dims):
            reason = reason or "it is laid out otherwise than the sum"
        return [Operand(part.layer, "addend", part.resizes, reason=reason)]
    reason = reason or _why_scattered(value)
    return [Operand(layer, "addend", resizes, reason=reason) for layer, resizes in sorted(value.sources)]


def _stands_for_more(net: Net, operand: Operand) -> tuple[int, int]:
    """The order of layers that a tensor is made of: it is read once, and the last of them stands for all.

    That is one which waits for the most layers, as a gate does for the tensor it is applied to; then the largest.
    """
    if operand.layer is None:
        return 0, 0
    draft = net.drafts[operand.layer]
    return draft.needs.bit_count(), prod(draft.sizes(operand.resizes).values())


def _why_scattered(value: Value) -> str:
    return "a sum cannot read a concatenation piece by piece" if len(value.parts) > 1 else "its layout is not known"


def _sizes(dims: Dims) -> dict[str, int]:
    return {"n": dims.N, "c": dims.K, "p": dims.P, "q": dims.Q}


def _told(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a scalar"


def _default_loops(shape: tuple[int, ...], *, image: bool) -> tuple[Dims, Layout]:
    """Loops for a tensor of which only the shape is known: an image (of one axis, if it comes from one), or rows."""
    if len(shape) == 4 or (len(shape) == 3 and image):
        batch, channels, rows, cols = (*shape, 1)[:4]
        axes = stored(n=batch, channels=channels, rows=rows, cols=cols)
        return Dims(N=batch, K=channels, P=rows, Q=cols), axes[: len(shape)]
    if not shape:
        return Dims(), ()
    leading: list[Axis] = []
    inner = rows = prod(shape[:-1])
    for size in shape[:-1]:
        inner //= max(size, 1)
        leading.append(tuple(atom._replace(stride=inner) for atom in whole("n", size)))
    return Dims(N=rows, K=shape[-1]), (*leading, whole("c", shape[-1]))
