"""ATen operators that work on every word, or on words along an axis, without multiplying matrices."""

from __future__ import annotations

from math import prod
from typing import Any

from fadiff.workload.importers.operators import Elementwise, Lookup, Normalize, Pool, Reduce, Reshape, Resize, Slice
from fadiff.workload.importers.torch_front_end.builder import Call

FUNCTIONS = {
    "rsub": "sub", "true_divide": "div", "hardtanh": "clip", "clamp": "clip", "clamp_min": "clip", "clamp_max": "clip",
    "relu6": "clip", "hardsigmoid": "hard_sigmoid", "hardswish": "hard_swish", "masked_fill": "where", "tril": "where",
    "triu": "where", "_prelu_kernel": "prelu",
}  # fmt: skip
"""Neutral names of functions that ATen calls otherwise; all others keep their own."""


def elementwise(call: Call) -> None:
    """Each word a function of the words in its place; numbers among the arguments do not matter."""
    name = call.type.removeprefix("aten.")
    call.emit(Elementwise, call.all_tensors(), function=FUNCTIONS.get(name, name))


def same(call: Call) -> None:
    """Copies, casts, dropout at inference: the tensor itself."""
    call.alias(call.all_tensors()[0])


def batch_norm(call: Call) -> None:
    """With statistics from training a scale and a shift of each channel; otherwise a norm over all but channels."""
    x = call.tensor("input")
    if call.flag("training") or call.optional("running_mean") is None:
        axes = tuple(axis for axis in range(len(call.shape(x))) if axis != 1)
        call.emit(Normalize, call.all_tensors(), axes=axes, function="batch_norm")
    else:
        call.emit(Elementwise, call.all_tensors(), function="batch_norm")


def glu(call: Call) -> None:
    """One half of the channels, times the sigmoid of the other."""
    x = call.tensor("self")
    shape = call.shape(x)
    axis = call.axis("dim", -1)
    step = (1,) * len(shape)
    halves: list[str] = []
    for number, start in enumerate((0, shape[axis] // 2)):
        starts = tuple(start if i == axis else 0 for i in range(len(shape)))
        halves.append(call.emit(Slice, (x,), call.result, part=f"half{number}", start=starts, step=step))
    gate = call.emit(Elementwise, (halves[1],), call.result, part="gate", function="sigmoid")
    call.emit(Elementwise, (halves[0], gate), function="mul")


# --- along an axis ---------------------------------------------------------------------------------------------------


def softmax(call: Call) -> None:
    """Also log_softmax and running sums: a word depends on all along one axis."""
    x = call.all_tensors()[0]
    name = call.type.removeprefix("aten.").removeprefix("_safe_").removeprefix("_")
    call.emit(Normalize, (x,), axes=(call.axis("dim"),), function=name)


def layer_norm(call: Call) -> None:
    """Over the last axes, as many as `normalized_shape` has."""
    x = call.all_tensors()[0]
    rank, last = len(call.shape(x)), len(call.numbers("normalized_shape"))
    name = "rms_norm" if "rms_norm" in call.type else "layer_norm"
    call.emit(Normalize, call.all_tensors(), axes=tuple(range(rank - last, rank)), function=name)


def group_norm(call: Call) -> None:
    """Over groups of channels and the image; instance_norm over the image only."""
    x = call.all_tensors()[0]
    instance = "instance_norm" in call.type
    axes = tuple(range(2 if instance else 1, len(call.shape(x))))
    call.emit(Normalize, call.all_tensors(), axes=axes, function="instance_norm" if instance else "group_norm")


def reduce(call: Call) -> None:
    """One word for all along some axes; values and their places are two results."""
    x = call.all_tensors()[0]
    name = call.type.removeprefix("aten.")
    axes = tuple(sorted({axis % max(call.rank, 1) for axis in call.numbers("dim")})) or tuple(range(call.rank))
    for number in range(len(call.results)):
        if len(call.results) == 1 or call.is_used(number):
            call.emit(Reduce, (x,), number=number, axes=axes, function=name)


# --- images ----------------------------------------------------------------------------------------------------------


def pool(call: Call) -> None:
    """Windows of a given size; images may come without a batch axis."""
    axes = int(call.type.removesuffix("_with_indices")[-2])
    kernel = call.numbers("kernel_size", axes)
    stride = call.numbers("stride", axes) or kernel
    _pool(call, kernel, stride, "max" if "max" in call.type else "average")


def adaptive_pool(call: Call) -> None:
    """Windows that leave a given image: of one word a mean over all, else of nearly equal windows."""
    axes = int(call.type.removesuffix("_with_indices")[-2])
    function = "max" if "max" in call.type else "average"
    x = call.all_tensors()[0]
    before, after = call.shape(x)[-axes:], call.result[-axes:]
    if prod(after) == 1:
        rank = len(call.shape(x))
        call.emit(Reduce, (x,), axes=tuple(range(rank - axes, rank)), function="max" if function == "max" else "mean")
        return
    kernel = tuple(-(-size // left) for size, left in zip(before, after, strict=True))
    stride = tuple(max(1, size // left) for size, left in zip(before, after, strict=True))
    _pool(call, kernel, stride, function)


def _pool(call: Call, kernel: tuple[int, ...], stride: tuple[int, ...], function: str) -> None:
    x = call.all_tensors()[0]
    fields: dict[str, Any] = {"kernel": kernel, "stride": stride, "function": function}
    if len(call.shape(x)) == len(kernel) + 2:
        call.emit(Pool, (x,), **fields)
        return
    batch = call.emit(Reshape, (x,), (1, *call.shape(x)), part="batch")
    image = call.emit(Pool, (batch,), (1, *call.result), part="image", **fields)
    call.emit(Reshape, (image,))


def resize(call: Call) -> None:
    """Up- and downsampling of images."""
    call.emit(Resize, call.all_tensors()[:1])


def grid_sample(call: Call) -> None:
    """Interpolation at computed places: four products for each word of an image."""
    call.opaque("it reads at places that are computed", 2 ** (len(call.result) - 2) * prod(call.result))


# --- rows of tables --------------------------------------------------------------------------------------------------


def embedding(call: Call) -> None:
    """Rows of a table by numbers known at run time."""
    call.emit(Lookup, (call.tensor("weight"), call.tensor("indices")))


def embedding_bag(call: Call) -> None:
    """Rows of a table, summed over each bag; of bags of different sizes only the sums have a known shape."""
    weight, indices = call.tensor("weight"), call.tensor("indices")
    if len(call.shape(indices)) != 2:
        call.emit(Lookup, (weight, indices))
        return
    shape = (*call.shape(indices), call.shape(weight)[1])
    rows = call.emit(Lookup, (weight, indices), shape, part="rows")
    call.emit(Reduce, (rows,), axes=(1,), function="sum")


_SAME = (
    "_to_copy", "to", "contiguous", "alias", "detach", "lift_fresh_copy", "lift_fresh", "dropout", "native_dropout",
    "alpha_dropout", "feature_dropout", "type_as", "positive", "clone", "view_as_real", "view_as_complex",
    "resolve_conj", "resolve_neg", "_conj", "real",
)  # fmt: skip
_POINTWISE = (
    "hardswish", "prelu", "_prelu_kernel", "rrelu", "log_sigmoid", "tril", "triu", "bernoulli", "floor_divide", "where",
    "__and__", "__or__", "logical_and", "isin", "polar", "complex",
)  # fmt: skip
_ALONG = ("softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax", "cumsum", "cumprod", "logcumsumexp")
_REDUCTIONS = (
    "mean", "sum", "nansum", "amax", "amin", "max", "min", "argmax", "argmin", "logsumexp", "prod", "var", "std",
    "var_mean", "std_mean", "norm", "linalg_vector_norm", "any", "all", "aminmax", "count_nonzero", "median",
)  # fmt: skip

OPERATORS = {
    **dict.fromkeys(_SAME, same),
    **dict.fromkeys(_POINTWISE, elementwise),
    **dict.fromkeys(_ALONG, softmax),
    **dict.fromkeys(_REDUCTIONS, reduce),
    "batch_norm": batch_norm, "native_batch_norm": batch_norm, "_native_batch_norm_legit": batch_norm,
    "_native_batch_norm_legit_no_training": batch_norm, "_batch_norm_with_update": batch_norm, "glu": glu,
    "layer_norm": layer_norm, "native_layer_norm": layer_norm, "rms_norm": layer_norm, "_fused_rms_norm": layer_norm,
    "group_norm": group_norm, "native_group_norm": group_norm, "instance_norm": group_norm,
    "embedding": embedding, "embedding_bag": embedding_bag, "_embedding_bag": embedding_bag,
    "_embedding_bag_forward_only": embedding_bag,
    "grid_sampler": grid_sample, "grid_sampler_2d": grid_sample, "grid_sampler_3d": grid_sample,
    **{f"{kind}_pool{n}d": pool for kind in ("max", "avg") for n in "123"},
    **{f"max_pool{n}d_with_indices": pool for n in "123"},
    **{f"adaptive_{kind}_pool{n}d": adaptive_pool for kind in ("avg", "max") for n in "123"},
    **{f"_adaptive_avg_pool{n}d": adaptive_pool for n in "23"},
    **{
        f"{prefix}upsample_{how}": resize
        for prefix in ("", "_")
        for how in ("nearest1d", "nearest2d", "nearest3d", "nearest_exact1d", "nearest_exact2d", "nearest_exact3d",
                    "linear1d", "bilinear2d", "trilinear3d", "bicubic2d", "bilinear2d_aa", "bicubic2d_aa")
    },
}  # fmt: skip
"""Translations by the name of the ATen operator. Operators that PyTorch marks as pointwise need no entry."""
