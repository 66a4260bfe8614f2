"""Convolutions as layers, in one to three image axes, and transposed ones.

One image axis is P, two are P and Q. With three, the depth joins the batch: kernel planes are unrolled into input
channels (C counts each of them), which counts MACs and weights exactly and reads a plane once for each kernel plane
that uses it. A kernel of one plane reads it once, and such layers fuse.

**Transposed convolutions** are counted without the zeros that stretching the input would insert. Outputs whose place is
equal modulo the stride form a *phase*, and each phase is a plain convolution of the input with those taps of the kernel
that meet it. Phases with equally many taps and outputs are one layer, with their channels side by side; a kernel as
large as its stride, or a multiple of it, is one layer in all. The rows and columns of the phases interleave afterwards,
so what reads the result reads it from DRAM.

**Padding** above and to the left of the image is said wherever the kernel has several taps, or strides: that of the
convolution and of padding operators before it; of a phase, how far its first taps lie before the image. What a network
input is padded with is a part of that input. Where a layer has no one padding within the reach of its kernel (an output
sees nothing but padding, the first rows are cut off, phases in one layer begin at different rows) it says none, and its
input goes through DRAM.
"""

from dataclasses import dataclass, field
from itertools import product as pairs
from math import gcd, prod

from fadiff.workload.importers.lowering.drafts import Draft, Net, Operand, Vector
from fadiff.workload.importers.lowering.layout import Atom, Layout, joined, whole
from fadiff.workload.importers.lowering.products import scattered
from fadiff.workload.importers.lowering.values import Part, Value
from fadiff.workload.importers.operators import Convolution, ImportFailure
from fadiff.workload.layer import Dims

MOST_IMAGE_AXES = 3
Sizes = tuple[int, ...]
"""A number for each image axis."""


@dataclass(frozen=True, slots=True)
class Image:
    """Image axes of a convolution as the two of a layer, and what is left of a third one."""

    depth: int
    """Output planes: they join the batch."""
    planes: int
    """Kernel planes: they join the input channels."""
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    begins: tuple[int, int] | None
    """Padding above and to the left, no further than the kernel reaches; None where it cannot be told so."""

    @property
    def pad(self) -> tuple[int, int] | None:
        """Padding as the layer says it: one tap without a stride has none to tell."""
        return None if self.kernel == self.stride == (1, 1) else self.begins


def convolution(net: Net, number: int, operator: Convolution) -> None:
    """One MAC layer, or for a transposed convolution one for each kind of phase."""
    image_axes = len(net.graph.shape(operator.inputs[0])) - 2
    if not 1 <= image_axes <= MOST_IMAGE_AXES:
        raise ImportFailure(
            f"{operator.type} {operator.name!r} has {image_axes} image axes: one to {MOST_IMAGE_AXES} can be modelled"
        )
    if operator.inputs[0] in net.fixed:
        raise ImportFailure(f"{operator.type} {operator.name!r} reads a constant: fold it before the export")
    if operator.transposed:
        _transposed(net, number, operator)
    else:
        _plain(net, number, operator)


def _plain(net: Net, number: int, operator: Convolution) -> None:
    name, shape = operator.outputs[0], net.graph.shape(operator.outputs[0])
    weight = net.graph.shape(operator.inputs[1])
    value = net.values[operator.inputs[0]]
    before = _added(value, tuple(padding[0] for padding in operator.padding))
    image = _image(
        shape[2:], weight[2:], operator.stride, operator.dilation, before, columns=_lies_in_columns(net, value)
    )
    groups = operator.groups
    dims = Dims(
        G=groups,
        N=shape[0] * image.depth,
        K=weight[0] // groups,
        C=weight[1] * image.planes,
        P=image.out[0],
        Q=image.out[1],
        R=image.kernel[0],
        S=image.kernel[1],
    )
    rank = len(shape)
    operands = _inputs(net, value, rank, image) + _weights(net, operator)
    draft = Draft(operator.label, number, "mac", dims, operands, image.stride, image.dilation, image.pad)
    layer = net.add(draft)
    _bias(net, layer, number, operator)
    net.values[name] = net.output(layer, shape, _axes(draft, rank, shape[0], image, columns=image.out[0] == 1))


def _image(out: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes, before: Sizes | None, *, columns: bool) -> Image:
    """Image axes as planes, rows and columns; a single one is rows, or columns if its producer has it so."""

    def pair(values: Sizes, missing: int = 1) -> tuple[int, int]:
        if len(out) > 1:
            return values[-2], values[-1]
        return (missing, values[0]) if columns else (values[0], missing)

    depth, planes = (out[0], kernel[0]) if len(out) == MOST_IMAGE_AXES else (1, 1)
    begins = None if before is None else pair(before, missing=0)
    if begins is not None and not all(
        0 <= words <= (taps - 1) * spacing
        for words, taps, spacing in zip(begins, pair(kernel), pair(dilation), strict=True)
    ):
        begins = None
    return Image(depth, planes, pair(out), pair(kernel), pair(stride), pair(dilation), begins)


def _added(value: Value, before: Sizes) -> Sizes:
    """Padding before each image axis of a value, and what padding operators have put there already."""
    top, left = (value.parts[0].padded if value.parts else None) or (0, 0)
    there = {1: (top + left,), 2: (top, left), 3: (0, top, left)}[len(before)]
    return tuple(more + words for more, words in zip(before, there, strict=True))


def _lies_in_columns(net: Net, value: Value) -> bool:
    """Whether the single image axis of a value is the columns of an image of one row."""
    part = value.view
    if part is None or part.axes is None or part.layer is None or len(part.axes) != 3:
        return False
    sizes = net.drafts[part.layer].sizes(part.resizes)
    return sizes["p"] == 1 and sizes["q"] > 1 and part.axes[2] == whole("q", sizes["q"])


def _axes(draft: Draft, rank: int, batch: int, image: Image, *, columns: bool) -> Layout:
    """Where the axes of a convolution's output lie."""
    d = draft.dims
    rows, cols = whole("p", d.P), whole("q", d.Q)
    channels = whole("c", draft.channels)
    if rank == 3:
        return (whole("n", batch), channels, cols if columns else rows)
    if rank == 4:
        return (whole("n", batch), channels, rows, cols)
    return (joined([Atom("n", batch, image.depth)]), channels, whole("n", image.depth), rows, cols)


def _inputs(net: Net, value: Value, rank: int, image: Image) -> list[Operand]:
    """The input port: an edge for each part whose axes are the layer's own, else a dependency."""
    if not value.sources:
        return [Operand(None, "input")]
    if image.planes > 1:
        return scattered(value, "input", "kernel planes are unrolled into channels")
    if rank == MOST_IMAGE_AXES + 2 and value.shape[2] != image.depth:
        return scattered(value, "input", "only some of its planes are read, or planes of padding as well")
    if image.begins is None:
        return scattered(
            value, "input", "no one padding within reach of the kernel tells which rows and columns are read"
        )
    if not value.parts or (len(value.parts) > 1 and value.axis != 1):
        return scattered(value, "input")
    found: list[Operand] = []
    for part in value.parts:
        reason = value.reason or part.reason
        if part.layer is not None and not _is_image(net, part, rank):
            reason = reason or "its rows and columns are not those of the image that is read"
        if part.layer is None:
            found.append(Operand(None, "input"))
        else:
            found.append(Operand(part.layer, "input", part.resizes, exact=value.keeps_channels, reason=reason))
    return found


def _is_image(net: Net, part: Part, rank: int) -> bool:
    """Whether the axes of a part are batch, channels, rows and columns of what its layer stores."""
    if part.axes is None or part.layer is None:
        return False
    sizes = net.drafts[part.layer].sizes(part.resizes)
    n, c, p, q = (whole(of, sizes[of]) for of in ("n", "c", "p", "q"))
    if part.axes[1] != c:
        return False
    if rank == 3:
        return part.axes[0] == n and (part.axes[2] == p + q)
    if rank == 4:
        return part.axes[0] == n and part.axes[2:] == (p, q)
    return joined(part.axes[0] + part.axes[2]) == n and part.axes[3:] == (p, q)


def _weights(net: Net, operator: Convolution) -> list[Operand]:
    """W, where it is computed while the network runs."""
    if operator.inputs[1] in net.fixed:
        return []
    value = net.values[operator.inputs[1]]
    part = value.view
    if part is None or part.layer is None:
        return scattered(value, "weight")[-1:]
    return [Operand(part.layer, "weight", part.resizes, "reshape", exact=False, reason=value.reason)]


def _bias(net: Net, layer: int, number: int, operator: Convolution) -> None:
    if len(operator.inputs) > 2 and operator.inputs[2]:
        net.drafts[layer].vectors[number] = Vector("bias", frozenset({"add"}), ())


@dataclass(frozen=True, slots=True)
class Phase:
    """Outputs of a transposed convolution along one axis, `stride` apart: how many, and the taps that meet them."""

    outputs: int
    taps: int
    spacing: int
    """Distance between neighbouring taps, in inputs."""
    before: int = field(default=0, compare=False)
    """How far before the first input the first output reads; phases that differ in it are of one kind."""


def phases(outputs: int, kernel: int, stride: int, dilation: int, before: int) -> list[Phase]:
    """The phases of one axis, in the order of their first outputs.

    Output o = i*stride + t*dilation - before for input i and tap t, so tap t meets the phases with
    o + before = t*dilation modulo the stride.

    >>> [(phase.outputs, phase.taps, phase.before) for phase in phases(8, kernel=4, stride=2, dilation=1, before=1)]
    [(4, 2, 1), (4, 2, 0)]
    """
    found: list[Phase] = []
    spacing = dilation // gcd(dilation, stride)
    for first in range(min(stride, outputs)):
        ahead = [t * dilation - first - before for t in range(kernel)]
        meets = [words // stride for words in ahead if words % stride == 0]
        found.append(Phase(len(range(first, outputs, stride)), len(meets), spacing, max(meets, default=0)))
    return found


def _transposed(net: Net, number: int, operator: Convolution) -> None:
    name, shape = operator.outputs[0], net.graph.shape(operator.outputs[0])
    weight = net.graph.shape(operator.inputs[1])
    value = net.values[operator.inputs[0]]
    along = [
        phases(size, kernel, stride, dilation, padding[0])
        for size, kernel, stride, dilation, padding in zip(
            shape[2:], weight[2:], operator.stride, operator.dilation, operator.padding, strict=True
        )
    ]
    kinds: dict[tuple[Phase, ...], list[Sizes]] = {}
    for combination in pairs(*along):
        if all(phase.taps for phase in combination):
            kinds.setdefault(combination, []).append(tuple(phase.before for phase in combination))
    if not kinds:
        raise ImportFailure(f"{operator.type} {operator.name!r} has no products: its output is empty")
    groups = operator.groups
    layers: list[int] = []
    for i, (combination, begins) in enumerate(kinds.items()):
        outs = tuple(phase.outputs for phase in combination)
        taps = tuple(phase.taps for phase in combination)
        spacing = tuple(phase.spacing if phase.taps > 1 else 1 for phase in combination)
        before = _added(value, begins[0]) if len(set(begins)) == 1 else None
        image = _image(outs, taps, (1,) * len(outs), spacing, before, columns=False)
        dims = Dims(
            G=groups,
            N=shape[0] * image.depth,
            K=weight[1] * len(begins),
            C=weight[0] // groups * image.planes,
            P=image.out[0],
            Q=image.out[1],
            R=image.kernel[0],
            S=image.kernel[1],
        )
        operands = _inputs(net, value, len(shape), image) + _weights(net, operator)
        suffix = f".phase{i}" if len(kinds) > 1 else ""
        draft = Draft(operator.label + suffix, number, "mac", dims, operands, dilation=image.dilation, pad=image.pad)
        layers.append(net.add(draft))
        _bias(net, layers[-1], number, operator)
    axes = _interleaved(net.drafts[layers[0]], operator, along, shape) if len(layers) == 1 else None
    if axes is not None:
        net.values[name] = net.output(layers[0], shape, axes)
        return
    made = Value(shape, sources=frozenset((layer, ()) for layer in layers))
    net.values[name] = made.scattered(
        name, shape, f"{operator.type} {operator.name} interleaves rows and columns of its phases", frozenset("pqk")
    )


def _interleaved(
    draft: Draft, operator: Convolution, along: list[list[Phase]], shape: tuple[int, ...]
) -> Layout | None:
    """Where the axes of a transposed convolution of one layer lie: its phases are its innermost channels."""
    count = [len(found) for found in along]
    if len(count) == MOST_IMAGE_AXES or prod(count) * prod(shape) // prod(shape[2:]) // shape[0] != draft.channels:
        return None
    inner = prod(count)
    image: list[tuple[Atom, ...]] = []
    for of, phase_count, size in zip(("p", "q"), count, (draft.dims.P, draft.dims.Q), strict=False):
        inner //= phase_count
        image.append((*whole("p" if of == "p" else "q", size), *joined([Atom("c", phase_count, inner)])))
    return (whole("n", shape[0]), joined([Atom("c", shape[1], prod(count))]), *image)
