"""ATen operators that multiply: products, convolutions, attention, recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import ceil, prod
from string import ascii_letters
from typing import Any, NamedTuple

from fadiff.workload.importers.operators import (
    Concat,
    Convolution,
    Elementwise,
    Expand,
    Normalize,
    Opaque,
    Pad,
    Product,
    Recurrent,
    Reduce,
    Reshape,
    Slice,
    Transpose,
)
from fadiff.workload.importers.torch_front_end.builder import Call


def linear(call: Call) -> None:
    """``x @ weight.T + bias``; x has any number of axes in front."""
    x, weight = call.tensor("input"), call.tensor("weight")
    rows = ascii_letters[: len(call.shape(x)) - 1]
    out = "Z" if len(call.shape(weight)) == 2 else ""
    product(call, (x, f"{rows}Y"), (weight, f"{out}Y"), f"{rows}{out}", call.present("bias"))


def matmul(call: Call) -> None:
    """``a @ b`` in all its forms: vectors, matrices, batches that broadcast."""
    multiply(call, *(call.tensor(name) for name in list(call.arguments)[:2]))


def addmm(call: Call) -> None:
    """``bias + a @ b``: a bias that is known beforehand belongs to the product, any other one is added to it."""
    bias, a, b = (call.tensor(name) for name in list(call.arguments)[:3])
    if call.builder.is_fixed([bias]):
        multiply(call, a, b, bias)
    else:
        made = multiply(call, a, b, shape=call.result, part="product")
        call.emit(Elementwise, (made, bias), function="add")


def multiply(call: Call, a: str, b: str, *bias: str, shape: tuple[int, ...] | None = None, part: str = "") -> str:
    """The product of two tensors by the rules of ``torch.matmul``."""
    left, right, out = matmul_letters(len(call.shape(a)), len(call.shape(b)))
    return product(call, (a, left), (b, right), out, bias, shape, part)


def product(
    call: Call,
    left: tuple[str, str],
    right: tuple[str, str],
    out: str,
    bias: Sequence[str] = (),
    shape: tuple[int, ...] | None = None,
    part: str = "",
) -> str:
    """A product of two tensors, each with its letters."""
    factors = (left[0], right[0], *bias)
    return call.emit(Product, factors, shape, part=part, left=left[1], right=right[1], out=out)


def matmul_letters(rank_a: int, rank_b: int) -> tuple[str, str, str]:
    """Axes of two factors and of their product.

    >>> matmul_letters(4, 2)
    ('abXY', 'YZ', 'abXZ')
    """
    batch = ascii_letters[: max(rank_a, rank_b, 2) - 2]
    a = "Y" if rank_a == 1 else f"{batch[len(batch) - rank_a + 2 :]}XY"
    b = "Y" if rank_b == 1 else f"{batch[len(batch) - rank_b + 2 :]}YZ"
    return a, b, batch + ("X" if rank_a > 1 else "") + ("Z" if rank_b > 1 else "")


def bilinear(call: Call) -> None:
    """``x1 W x2`` for every output: first all of x1 W, then each row of it times x2."""
    x1, x2, weight = (call.tensor(name) for name in ("input1", "input2", "weight"))
    rows = ascii_letters[: len(call.shape(x1)) - 1]
    k, _, j = call.shape(weight)
    shape = (*call.shape(x1)[:-1], k, j)
    inner = product(call, (x1, f"{rows}X"), (weight, "ZXY"), f"{rows}ZY", shape=shape, part="inner")
    product(call, (inner, f"{rows}ZY"), (x2, f"{rows}Y"), f"{rows}Z", call.present("bias"))


def grouped_product(call: Call) -> None:
    """Rows sorted by expert, each times the weights of its own: experts are groups, with equally many rows each.

    Where rows cannot be shared out evenly, all experts get as many as the busiest then has at least. Of more experts
    than rows, as many as there are rows get one.
    """
    x, weights = call.all_tensors()[:2]
    rows, width = call.shape(x)
    experts, out = call.shape(weights)[0], call.result[-1]
    if rows < experts:
        shape = (rows, *call.shape(weights)[1:])
        weights = call.emit(Slice, (weights,), shape, part="chosen", start=(0, 0, 0), step=(1, 1, 1))
        experts = rows
    each = ceil(rows / experts)
    filled = each * experts
    if filled > rows:
        x = call.emit(Pad, (x,), (filled, width), part="filled", before=(0, 0), after=(filled - rows, 0))
    right = "aYZ" if call.shape(weights)[1] == width else "aZY"
    call.builder.notes[_about_rows(rows, experts, each)] = None
    split = call.emit(Reshape, (x,), (experts, each, width), part="experts")
    made = product(call, (split, "aXY"), (weights, right), "aXZ", shape=(experts, each, out), part="product")
    if filled == rows:
        call.emit(Reshape, (made,))
    else:
        joined = call.emit(Reshape, (made,), (filled, out), part="joined")
        call.emit(Slice, (joined,), start=(0, 0), step=(1, 1))


def _about_rows(rows: int, experts: int, each: int) -> str:
    """What is assumed about the rows of experts.

    >>> _about_rows(254, 8, 32)
    'experts are taken to get 32 rows each, rounded up from 31.75: 0.8% more MACs than they have'
    """
    if each * experts == rows:
        return "experts are taken to get equally many rows each"
    more = f"{each * experts / rows - 1:.1%} more MACs than they have"
    return f"experts are taken to get {each} rows each, rounded up from {rows / experts:.4g}: {more}"


# --- einsum ----------------------------------------------------------------------------------------------------------


class Equation(NamedTuple):
    """An einsum of one or two operands in which no letter stands twice in one of them."""

    operands: tuple[str, ...]
    out: str


def parse_equation(equation: str, ranks: list[int]) -> Equation | None:
    """An equation with its dots written out; None if it is not one matrix product, or sums and a transposition.

    >>> parse_equation("...ij,jk", [3, 2])
    Equation(operands=('Aij', 'jk'), out='Aik')
    """
    inputs, arrow, out = equation.replace(" ", "").partition("->")
    operands = inputs.split(",")
    if len(operands) != len(ranks) or len(operands) > 2:
        return None
    dots = [rank - len(operand.replace("...", "")) for operand, rank in zip(operands, ranks, strict=True)]
    unused = (letter for letter in ascii_letters[::-1][:26][::-1] if letter not in equation)
    spelled = "".join(islice(unused, max(0, *dots)))
    written = [o.replace("...", spelled[len(spelled) - n :] if n else "") for o, n in zip(operands, dots, strict=True)]
    if not arrow:
        letters = "".join(written)
        once = sorted({letter for letter in letters if letters.count(letter) == 1 and letter not in spelled})
        out = (spelled if "..." in inputs else "") + "".join(once)
    out = out.replace("...", spelled)
    simple = all(len(set(o)) == len(o) == rank for o, rank in zip(written, ranks, strict=True))
    multiplies = len(written) == 1 or not set(written[0]).intersection(written[1]) <= set(out)
    return Equation(tuple(written), out) if simple and multiplies and len(set(out)) == len(out) else None


def _equation(call: Call) -> Equation | None:
    shapes = [call.shape(tensor) for tensor in call.tensors("tensors")]
    return parse_equation(str(call.arguments["equation"]), [len(shape) for shape in shapes])


def einsum(call: Call) -> None:
    """Axes that only one operand has and nobody wants are summed first; the rest is one product."""
    equation = _equation(call)
    if equation is None:
        call.emit(Opaque, call.tensors("tensors"), reason="an einsum of this form is not known", macs=None)
        return
    others = [set(equation.out).union(*equation.operands[:i], *equation.operands[i + 1 :]) for i in range(2)]
    factors = [
        _summed(call, tensor, letters, wanted)
        for tensor, letters, wanted in zip(call.tensors("tensors"), equation.operands, others, strict=False)
    ]
    if len(factors) == 2:
        product(call, factors[0], factors[1], equation.out)
        return
    (only, letters) = factors[0]
    call.emit(Transpose, (only,), permutation=tuple(letters.index(letter) for letter in equation.out))


def _summed(call: Call, tensor: str, letters: str, wanted: set[str]) -> tuple[str, str]:
    """A tensor without the axes that are not wanted, and the letters that are left."""
    axes = tuple(i for i, letter in enumerate(letters) if letter not in wanted)
    if not axes:
        return tensor, letters
    shape = tuple(size for i, size in enumerate(call.shape(tensor)) if i not in axes)
    summed = call.emit(Reduce, (tensor,), shape, part="sum", axes=axes, function="sum")
    return summed, "".join(letter for letter in letters if letter in wanted)


# --- convolution -----------------------------------------------------------------------------------------------------


def convolution(call: Call) -> None:
    """conv1d to conv3d, transposed or not, with numbers or a word for the padding."""
    x, weight = call.tensor("input"), call.tensor("weight")
    axes = len(call.shape(weight)) - 2
    kernel = call.shape(weight)[2:]
    stride, dilation = call.numbers("stride", axes), call.numbers("dilation", axes)
    transposed = call.flag("transposed") or "conv_transpose" in call.type
    settings: dict[str, Any] = {
        "groups": call.number("groups", 1),
        "stride": stride or (1,) * axes,
        "dilation": dilation or (1,) * axes,
        "padding": _padding(call, kernel, dilation or (1,) * axes, transposed=transposed),
        "transposed": transposed,
    }
    factors = (weight, *call.present("bias"))
    if len(call.shape(x)) == axes + 2:
        call.emit(Convolution, (x, *factors), **settings)
        return
    # A single image without a batch axis.
    batch = call.emit(Reshape, (x,), (1, *call.shape(x)), part="batch")
    image = call.emit(Convolution, (batch, *factors), (1, *call.result), part="image", **settings)
    call.emit(Reshape, (image,))


def _padding(
    call: Call, kernel: tuple[int, ...], dilation: tuple[int, ...], *, transposed: bool
) -> tuple[tuple[int, int], ...]:
    """Padding before and after each image axis; extra rows that a transposed one puts out count as less of it."""
    word = call.arguments.get("padding")
    if word == "valid":
        return tuple((0, 0) for _ in kernel)
    if word == "same":
        reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple((total // 2, total - total // 2) for total in reach)
    pads = call.numbers("padding", len(kernel)) or (0,) * len(kernel)
    extra = call.numbers("output_padding", len(kernel)) if transposed else ()
    return tuple((pad, pad - more) for pad, more in zip(pads, extra or (0,) * len(kernel), strict=True))


# --- attention -------------------------------------------------------------------------------------------------------


def attention(call: Call) -> None:
    """softmax(query @ key.T * scale + mask) @ value; causal or not, it is counted in full.

    Query heads that share a head of keys and values (grouped queries) are rows of one product.
    """
    query, key, value = (call.tensor(name) for name in ("query", "key", "value"))
    mask = call.optional("attn_mask") or call.optional("attn_bias")
    few_keys, few_values = _unrepeated(call, key), _unrepeated(call, value)
    if call.shape(few_keys)[:-2] == call.shape(few_values)[:-2]:
        key, value = few_keys, few_values
    *batch, rows, width = call.shape(query)
    heads = call.shape(key)[-3] if len(batch) > 0 and len(call.shape(key)) > 2 else 1
    if not 1 < heads < (batch or [1])[-1]:
        _attend(call, query, key, value, mask, call.result, rows="X")
        return
    groups = (heads, batch[-1] // heads)
    query = call.emit(Reshape, (query,), (*batch[:-1], *groups, rows, width), part="queries")
    if mask is not None and len(call.shape(mask)) > 2:
        *outer, there, high, wide = call.shape(mask)
        mask = call.emit(Reshape, (mask,), (*outer, *((1, 1) if there == 1 else groups), high, wide), part="masks")
    made = _attend(call, query, key, value, mask, (*batch[:-1], *groups, *call.result[-2:]), rows="VX")
    call.emit(Reshape, (made,))


def _attend(
    call: Call, query: str, key: str, value: str, mask: str | None, shape: tuple[int, ...], *, rows: str
) -> str:
    """The products of attention and the softmax between them; `rows` are letters of what queries have beyond keys."""
    keys = call.shape(key)[-2]
    letters = ascii_letters[: len(shape) - 1 - len(rows)]
    scores_shape = (*shape[:-1], keys)
    scores = product(
        call, (query, f"{letters}{rows}Y"), (key, f"{letters}ZY"), f"{letters}{rows}Z", shape=scores_shape, part="qk"
    )
    scores = call.emit(Elementwise, (scores,), scores_shape, part="scale", function="mul")
    if mask is not None:
        scores = call.emit(Elementwise, (scores, mask), scores_shape, part="mask", function="where")
    axes = (len(scores_shape) - 1,)
    weights = call.emit(Normalize, (scores,), scores_shape, part="softmax", axes=axes, function="softmax")
    return product(
        call,
        (weights, f"{letters}{rows}Z"),
        (value, f"{letters}ZW"),
        f"{letters}{rows}W",
        shape=None if shape == call.result else shape,
        part="av",
    )


def _unrepeated(call: Call, tensor: str) -> str:
    """Keys or values before their heads were repeated for several query heads: set apart, expanded, and joined."""
    made_by = call.builder.made_by
    joined = made_by.get(tensor)
    repeated = made_by.get(joined.inputs[0]) if isinstance(joined, Reshape) else None
    apart = made_by.get(repeated.inputs[0]) if isinstance(repeated, Expand) else None
    if repeated is None or not isinstance(apart, Reshape):
        return tensor
    *outer, heads, rows, width = call.shape(apart.inputs[0])
    times = call.shape(tensor)[-3] // heads
    shapes = [call.shape(operator.outputs[0]) for operator in (apart, repeated)]
    expected = [(*outer, heads, count, rows, width) for count in (1, times)]
    return apart.inputs[0] if shapes == expected else tensor


# --- recurrent layers ------------------------------------------------------------------------------------------------

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def recurrent(call: Call) -> None:
    """Stacked LSTM, GRU or plain RNN, one operator a layer; last states are gathered where somebody reads them."""
    kind = call.type.removeprefix("aten.")
    if "data" in call.arguments:
        call.opaque("sequences of different lengths (PackedSequence) have no fixed shape")
        return
    layers, directions = call.number("num_layers", 1), 1 + call.flag("bidirectional")
    weights = call.tensors("params")
    each = len(weights) // (layers * directions)
    x, batch_first = call.tensor("input"), call.flag("batch_first")
    hidden = call.shape(weights[1])[1]
    *outer, _ = call.shape(x)
    if call.shape(weights[1])[0] != GATES[kind] * hidden:
        matrices = (prod(call.shape(weight)) for weight in weights if len(call.shape(weight)) == 2)
        call.opaque("an LSTM with a projection of its state is not known", prod(outer) * sum(matrices))
        return
    states = tuple(tensor for tensor in call.all_tensors() if tensor != x and tensor not in weights)
    steps = 2 if kind == "lstm" else 1
    last_shape = (directions, outer[0] if batch_first else outer[1], hidden)
    last: list[list[str]] = [[] for _ in range(steps)]
    for layer in range(layers):
        mine = weights[layer * directions * each : (layer + 1) * directions * each]
        part = f"layer{layer}" if layers > 1 else ""
        shape = (*outer, directions * hidden)
        label = f"{call.name}.{part}" if part else call.name
        outputs = [call.builder.add_tensor(f"{call.node.name}.{part or 'all'}", shape)]
        for number in range(steps):
            if call.is_used(number + 1):
                outputs.append(call.builder.add_tensor(f"{call.node.name}.{part}.last{number}", last_shape))
                last[number].append(outputs[-1])
            elif number == 0 and call.is_used(2):
                outputs.append("")
        fields = {"hidden": hidden, "gates": GATES[kind], "directions": directions, "batch_first": batch_first}
        call.add(Recurrent, (x, *mine, *states), outputs, label, **fields)
        x = outputs[0]
    call.alias(x, 0)
    for number, parts in enumerate(last, start=1):
        if len(parts) == 1:
            call.alias(parts[0], number)
        elif parts:
            call.emit(Concat, parts, part=f"last{number}", number=number, axis=0)


def recurrent_cell(call: Call) -> None:
    """One step of an LSTM, GRU or plain RNN: a sequence of length 1."""
    kind = call.type.removeprefix("aten.").removesuffix("_cell")
    x, w_hh = call.tensor("input"), call.tensor("w_hh")
    hidden = call.shape(w_hh)[1]
    *outer, width = call.shape(x)
    batch = outer[0] if outer else 1
    step = call.emit(Reshape, (x,), (1, batch, width), part="step")
    rest = tuple(tensor for tensor in call.all_tensors() if tensor != x)
    states = range(2 if kind == "lstm" else 1)
    made = ["", *(call.builder.add_tensor(f"{call.node.name}.state{i}", (1, batch, hidden)) for i in states)]
    fields = {"hidden": hidden, "gates": GATES[kind], "directions": 1, "batch_first": False}
    call.add(Recurrent, (step, *rest), made, call.name, **fields)
    for number, state in enumerate(made[1:]):
        call.emit(Reshape, (state,), part=f"state{number}", number=number)


ATTENTION = frozenset({
    "scaled_dot_product_attention", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_attention_math",
})  # fmt: skip
OPERATORS = {
    "linear": linear, "matmul": matmul, "mm": matmul, "bmm": matmul, "mv": matmul, "dot": matmul, "vdot": matmul,
    "addmm": addmm, "baddbmm": addmm, "addmv": addmm, "bilinear": bilinear, "einsum": einsum,
    "_grouped_mm": grouped_product, "grouped_mm_fallback": grouped_product,
    "conv1d": convolution, "conv2d": convolution, "conv3d": convolution, "convolution": convolution,
    "_convolution": convolution, "conv_transpose1d": convolution, "conv_transpose2d": convolution,
    "conv_transpose3d": convolution, **dict.fromkeys(ATTENTION, attention),
    "lstm": recurrent, "gru": recurrent, "rnn_tanh": recurrent, "rnn_relu": recurrent,
    "lstm_cell": recurrent_cell, "gru_cell": recurrent_cell, "rnn_tanh_cell": recurrent_cell,
    "rnn_relu_cell": recurrent_cell,
}  # fmt: skip
"""Translations by the name of the ATen operator."""
