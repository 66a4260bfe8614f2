"""ATen operators that move words, or see them in another shape."""

from __future__ import annotations

from collections.abc import Sequence

from fadiff.workload.importers.operators import Concat, Expand, Lookup, Pad, Reshape, Slice, Transpose
from fadiff.workload.importers.torch_front_end.builder import Call

Shape = tuple[int, ...]


def reshape(call: Call) -> None:
    """The same sequence of words in another shape."""
    x = call.all_tensors()[0]
    if call.shape(x) == call.result:
        call.alias(x)
    else:
        call.emit(Reshape, (x,))


# --- axes in another order -------------------------------------------------------------------------------------------


def transpose(call: Call) -> None:
    """Two axes change places."""
    a, b = (call.axis(name) for name in list(call.arguments)[1:3])
    order = list(range(call.rank))
    order[a], order[b] = b, a
    _permute(call, order)


def matrix_transpose(call: Call) -> None:
    """``t`` and ``.mT``: the last two axes change places; ``.T`` turns all around."""
    order = list(range(call.rank))
    _permute(call, order[::-1] if call.type == "aten.numpy_T" else [*order[:-2], *order[-2:][::-1]])


def permute(call: Call) -> None:
    """Axes in any order."""
    _permute(call, [axis % max(call.rank, 1) for axis in call.numbers("dims")])


def _permute(call: Call, order: Sequence[int]) -> None:
    x = call.all_tensors()[0]
    whole = (*order, *range(len(order), len(call.shape(x))))
    if whole == tuple(range(len(whole))):
        call.alias(x)
    else:
        call.emit(Transpose, (x,), permutation=whole)


def pixel_shuffle(call: Call) -> None:
    """``[C*r*r, H, W]`` to ``[C, H*r, W*r]``: parts of the channels become pixels."""
    x, r = call.all_tensors()[0], call.number("upscale_factor")
    *outer, channels, rows, cols = call.shape(x)
    split = (*outer, channels // (r * r), r, r, rows, cols)
    n = len(outer)
    _rearrange(call, x, split, (*range(n), n, n + 3, n + 1, n + 4, n + 2))


def pixel_unshuffle(call: Call) -> None:
    """``[C, H*r, W*r]`` to ``[C*r*r, H, W]``."""
    x, r = call.all_tensors()[0], call.number("downscale_factor")
    *outer, channels, rows, cols = call.shape(x)
    split = (*outer, channels, rows // r, r, cols // r, r)
    n = len(outer)
    _rearrange(call, x, split, (*range(n), n, n + 2, n + 4, n + 1, n + 3))


def channel_shuffle(call: Call) -> None:
    """Channels of all groups, dealt out in turn."""
    x, groups = call.all_tensors()[0], call.number("groups")
    batch, channels, *image = call.shape(x)
    split = (batch, groups, channels // groups, *image)
    _rearrange(call, x, split, (0, 2, 1, *range(3, len(split))))


def _rearrange(call: Call, x: str, split: Shape, order: Shape) -> None:
    """Split axes, reorder them, and join them to the shape of the result."""
    parts = call.emit(Reshape, (x,), split, part="split")
    moved = call.emit(Transpose, (parts,), tuple(split[i] for i in order), part="moved", permutation=order)
    call.emit(Reshape, (moved,))


# --- repeated words --------------------------------------------------------------------------------------------------


def expand(call: Call) -> None:
    """Axes of one word are repeated."""
    x = call.all_tensors()[0]
    if call.shape(x) == call.result:
        call.alias(x)
    else:
        call.emit(Expand, (x,))


def repeat(call: Call) -> None:
    """The whole tensor over and over along each axis."""
    x, times = call.tensor("self"), call.numbers("repeats")
    shape = (*(1,) * (len(times) - len(call.shape(x))), *call.shape(x))
    apart = tuple(size for axis in zip((1,) * len(shape), shape, strict=True) for size in axis)
    many = tuple(size for axis in zip(times, shape, strict=True) for size in axis)
    _repeat(call, x, apart, many)


def repeat_interleave(call: Call) -> None:
    """Each word (or slice along an axis) several times in a row."""
    if not call.overload.endswith("self_int"):
        pick(call)
        return
    x, times = call.tensor("self"), call.number("repeats")
    shape = call.shape(x)
    if call.arguments.get("dim") is None:
        size = call.result[0] // times
        _repeat(call, x, (size, 1), (size, times))
        return
    axis = call.axis("dim")
    _repeat(call, x, (*shape[: axis + 1], 1, *shape[axis + 1 :]), (*shape[: axis + 1], times, *shape[axis + 1 :]))


def _repeat(call: Call, x: str, apart: Shape, many: Shape) -> None:
    if apart == many:
        call.emit(Reshape, (x,))
        return
    split = call.emit(Reshape, (x,), apart, part="split")
    repeated = call.emit(Expand, (split,), many, part="repeated")
    call.emit(Reshape, (repeated,))


# --- several tensors as one, and back ---------------------------------------------------------------------------------


def concat(call: Call) -> None:
    """Tensors end to end; empty ones are left away."""
    tensors = call.tensors("tensors")
    parts = [tensor for tensor in tensors if call.builder.tensors[tensor].words] or tensors[:1]
    if len(parts) == 1:
        call.alias(parts[0])
    else:
        call.emit(Concat, parts, axis=call.axis("dim"))


def stack(call: Call) -> None:
    """Tensors side by side along a new axis."""
    axis = call.axis("dim", more=1)
    shape = (*call.result[:axis], 1, *call.result[axis + 1 :])
    parts = [call.emit(Reshape, (tensor,), shape, part=f"part{i}") for i, tensor in enumerate(call.tensors("tensors"))]
    if len(parts) == 1:
        call.alias(parts[0])
    else:
        call.emit(Concat, parts, axis=axis)


def split(call: Call) -> None:
    """Parts of a tensor along an axis, one result each: split, chunk, tensor_split."""
    x = call.all_tensors()[0]
    axis = call.axis("dim")
    start = 0
    for number, shape in enumerate(call.results):
        if shape is None:
            continue
        if call.is_used(number):
            _cut(call, x, {axis: start}, shape, number=number)
        start += shape[axis]


def unbind(call: Call) -> None:
    """Every slice along an axis, which goes away."""
    x = call.all_tensors()[0]
    axis = call.axis("dim")
    for number in range(len(call.results)):
        if call.is_used(number):
            _pick(call, x, axis, number, number=number)


def select(call: Call) -> None:
    """One slice along an axis, which goes away."""
    x = call.all_tensors()[0]
    axis = call.axis("dim")
    _pick(call, x, axis, call.number("index") % max(call.shape(x)[axis], 1))


def slice_of(call: Call) -> None:
    """Words from `start` to `end` along an axis, `step` apart."""
    x = call.all_tensors()[0]
    shape = call.shape(x)
    if shape == call.result:
        call.alias(x)
        return
    axis = call.axis("dim")
    start = _place(call.number("start"), shape[axis])
    _cut(call, x, {axis: start}, None, step={axis: call.number("step", 1)})


def flip(call: Call) -> None:
    """Axes backwards."""
    x = call.all_tensors()[0]
    shape = call.shape(x)
    axes = {axis % len(shape) for axis in call.numbers("dims")}
    _cut(call, x, {axis: shape[axis] - 1 for axis in axes}, None, step=dict.fromkeys(axes, -1))


def roll(call: Call) -> None:
    """Words that leave an axis at its end enter it at its beginning."""
    x = call.all_tensors()[0]
    shape, shifts, axes = call.shape(x), call.numbers("shifts"), call.numbers("dims")
    if not axes:
        x, axes = call.emit(Reshape, (x,), (call.builder.tensors[x].words,), part="flat"), (0,)
    for i, (shift, axis) in enumerate(zip(shifts, axes, strict=True)):
        x = _rolled(call, x, axis % len(call.shape(x)), shift, i)
    if call.shape(x) == shape:
        call.alias(x)
    else:
        call.emit(Reshape, (x,))


def _rolled(call: Call, x: str, axis: int, shift: int, i: int) -> str:
    shape = call.shape(x)
    size = shape[axis]
    at = (size - shift) % size if size else 0
    if at == 0:
        return x
    parts: list[str] = []
    for name, start, count in (("tail", at, size - at), ("head", 0, at)):
        part = (*shape[:axis], count, *shape[axis + 1 :])
        parts.append(_slice(call, x, {axis: start}, {}, part, name=f"{name}{i}"))
    return call.emit(Concat, parts, shape, part=f"rolled{i}", axis=axis)


def slice_scatter(call: Call) -> None:
    """A part of a tensor is replaced: what is before it, the new part, and what is after, end to end."""
    x, new = call.all_tensors()[:2]
    shape = call.shape(x)
    axis = call.axis("dim")
    if call.type == "aten.select_scatter":
        start = _place(call.number("index"), shape[axis])
        new = call.emit(Reshape, (new,), (*shape[:axis], 1, *shape[axis + 1 :]), part="new")
    else:
        start = _place(call.number("start"), shape[axis])
        if call.number("step", 1) != 1:
            pick(call)
            return
    stop = start + call.shape(new)[axis]
    parts = [new]
    if start > 0:
        before = (*shape[:axis], start, *shape[axis + 1 :])
        parts.insert(0, _slice(call, x, {}, {}, before, name="before"))
    if stop < shape[axis]:
        after = (*shape[:axis], shape[axis] - stop, *shape[axis + 1 :])
        parts.append(_slice(call, x, {axis: stop}, {}, after, name="after"))
    if len(parts) == 1:
        call.alias(new)
    else:
        call.emit(Concat, parts, axis=axis)


def _place(index: int, size: int) -> int:
    """An index that may count from the end, or beyond it, as a place."""
    return min(max(index + size if index < 0 else index, 0), size)


def _pick(call: Call, x: str, axis: int, place: int, *, number: int = 0) -> None:
    """One slice along an axis, without that axis."""
    shape = call.shape(x)
    if shape[axis] > 1:
        x = _slice(call, x, {axis: place}, {}, (*shape[:axis], 1, *shape[axis + 1 :]), name=f"slice{number}")
    call.emit(Reshape, (x,), number=number)


def _cut(
    call: Call,
    x: str,
    start: dict[int, int],
    shape: Shape | None,
    *,
    step: dict[int, int] | None = None,
    number: int = 0,
) -> None:
    """A part of a tensor as a result."""
    if shape == call.shape(x):
        call.alias(x, number)
        return
    axes = range(len(call.shape(x)))
    starts, steps = tuple(start.get(i, 0) for i in axes), tuple((step or {}).get(i, 1) for i in axes)
    call.emit(Slice, (x,), number=number, start=starts, step=steps)


def _slice(call: Call, x: str, start: dict[int, int], step: dict[int, int], shape: Shape, *, name: str) -> str:
    """A part of a tensor as a tensor in between."""
    axes = range(len(shape))
    starts, steps = tuple(start.get(i, 0) for i in axes), tuple(step.get(i, 1) for i in axes)
    return call.emit(Slice, (x,), shape, part=name, start=starts, step=steps)


def pad(call: Call) -> None:
    """Words around the last axes, given from the last one on: before, after, before, after, ..."""
    x = call.all_tensors()[0]
    rank = len(call.shape(x))
    numbers = call.numbers("pad") or call.numbers("padding")
    before, after = [0] * rank, [0] * rank
    for i in range(len(numbers) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = numbers[2 * i], numbers[2 * i + 1]
    if any(before) or any(after):
        call.emit(Pad, (x,), before=tuple(before), after=tuple(after))
    else:
        call.alias(x)


def copy(call: Call) -> None:
    """The words of another tensor, repeated to the shape of this one."""
    source = call.tensor("src")
    if call.shape(source) == call.result:
        call.alias(source)
    else:
        call.emit(Expand, (source,))


def pick(call: Call) -> None:
    """Words picked, put in order or written to places that are known at run time only, or in a pattern of its own."""
    for number, shape in enumerate(call.results):
        if shape is not None and (len(call.results) == 1 or call.is_used(number)):
            call.emit(Lookup, call.all_tensors(), number=number)


_VIEWS = (
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as", "ravel",
    "_reshape_alias",
)  # fmt: skip
_PICKS = (
    "gather", "index_select", "index", "take", "take_along_dim", "_unsafe_index", "scatter", "scatter_add",
    "scatter_reduce", "index_put", "_unsafe_index_put", "index_copy", "index_add", "index_fill", "masked_scatter",
    "put", "diagonal_scatter", "unfold", "im2col", "col2im", "as_strided", "diagonal", "diag_embed", "sort", "argsort",
    "topk", "kthvalue", "multinomial", "searchsorted", "bucketize", "histc", "bincount",
)  # fmt: skip

OPERATORS = {
    **dict.fromkeys(_VIEWS, reshape),
    "transpose": transpose, "swapaxes": transpose, "swapdims": transpose, "t": matrix_transpose,
    "mT": matrix_transpose, "numpy_T": matrix_transpose, "permute": permute,
    "pixel_shuffle": pixel_shuffle, "pixel_unshuffle": pixel_unshuffle, "channel_shuffle": channel_shuffle,
    "native_channel_shuffle": channel_shuffle,
    "expand": expand, "expand_as": expand, "broadcast_to": expand, "repeat": repeat,
    "repeat_interleave": repeat_interleave,
    "cat": concat, "concat": concat, "stack": stack, "split": split, "split_with_sizes": split, "chunk": split,
    "tensor_split": split, "unsafe_split": split, "unsafe_chunk": split, "split_copy": split, "unbind": unbind,
    "select": select, "slice": slice_of, "narrow": slice_of, "flip": flip, "roll": roll,
    "slice_scatter": slice_scatter, "select_scatter": slice_scatter,
    "pad": pad, "constant_pad_nd": pad,
    **{f"{how}_pad{n}d": pad for how in ("reflection", "replication") for n in "123"},
    **dict.fromkeys(_PICKS, pick), "copy": copy,
}  # fmt: skip
"""Translations by the name of the ATen operator."""
