"""Operators that multiply: convolutions, matrix products, recurrent layers. Quantized ones are their plain forms."""

from collections.abc import Sequence
from math import prod

from fadiff.workload.importers.onnx_front_end.node import Node, Shape
from fadiff.workload.importers.operators import Convolution, ImportFailure, Normalize, Product, Recurrent, Reduce

GATES = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}
FIT = "was the model made for another input shape?"
BATCH_LETTERS = "abcdefghij"


def conv(node: Node) -> None:
    """Conv, ConvTranspose, ConvInteger, FusedConv: inputs x, weight, bias."""
    has_bias = node.has(2) and node.type != "ConvInteger"  # that one has a zero point there
    _convolution(node, (0, 1, 2) if has_bias else (0, 1), node.outputs[0])


def fused_conv(node: Node) -> None:
    """A convolution with an activation, and perhaps a sum with another tensor."""
    sums = node.tensor("sums", node.out())
    _convolution(node, (0, 1, 2) if node.has(2) else (0, 1), sums)
    if node.has(3):
        sums = node.elementwise("add", (sums, node.read(3)))
    function = str(node.attribute("activation") or "identity").lower()
    node.elementwise(
        {"leakyrelu": "leaky_relu", "hardsigmoid": "hard_sigmoid"}.get(function, function), (sums,), node.outputs[0]
    )


def qlinear_conv(node: Node) -> None:
    """x and w with scales and zero points in between; the output is scaled back to small words."""
    sums = node.tensor("sums", node.out())
    _convolution(node, (0, 3, 8) if node.has(8) else (0, 3), sums)
    node.elementwise("quantize", (sums,), node.outputs[0])


def _convolution(node: Node, places: Sequence[int], output: str) -> None:
    x, weight, out = node.shape(places[0]), node.shape(places[1]), node.out()
    axes = len(x) - 2
    if axes < 1 or len(weight) != len(x) or len(out) != len(x):
        raise ImportFailure(f"{node}: input {list(x)} and weight {list(weight)} make no convolution: {FIT}")
    stride = node.integers("strides", (1,) * axes) or ()
    dilation = node.integers("dilations", (1,) * axes) or ()
    groups = node.integer("group", 1)
    transposed = node.type == "ConvTranspose"
    channels = weight[0] if transposed else weight[1] * groups
    if (
        not len(stride) == len(dilation) == axes
        or min((*stride, *dilation, groups)) < 1
        or channels != x[1]
        or weight[0] % groups
    ):
        raise ImportFailure(
            f"{node}: input {list(x)}, weight {list(weight)}, {groups} groups, strides {list(stride)} and dilations "
            f"{list(dilation)} do not fit together: {FIT}"
        )
    kernel = weight[2:]
    inputs = tuple(node.inputs[place] for place in places)
    node.emit(
        Convolution(
            name=node.name,
            type=node.type,
            inputs=inputs,
            outputs=(output,),
            groups=groups,
            stride=stride,
            dilation=dilation,
            padding=_padding(node, x[2:], kernel, out[2:], stride, dilation, transposed=transposed),
            transposed=transposed,
        )
    )


def _padding(
    node: Node, image: Shape, kernel: Shape, out: Shape, stride: Shape, dilation: Shape, *, transposed: bool
) -> tuple[tuple[int, int], ...]:
    """Padding before and after each axis; automatic padding puts an odd word last, or first if it says lower."""
    axes = len(image)
    pads = node.integers("pads", (0,) * (2 * axes)) or ()
    how = str(node.attribute("auto_pad") or "NOTSET")
    explicit = node.attribute("output_shape") is None if transposed else True
    if how in ("NOTSET", "VALID") and explicit:
        if len(pads) != 2 * axes:
            raise ImportFailure(f"{node}: {len(pads)} pads for {axes} axes: the file is damaged, export it again")
        return tuple((0, 0) if how == "VALID" else (pads[i], pads[axes + i]) for i in range(axes))
    found: list[tuple[int, int]] = []
    for size, taps, left, step, spacing in zip(image, kernel, out, stride, dilation, strict=True):
        reach = (taps - 1) * spacing + 1
        total = (size - 1) * step + reach - left if transposed else (left - 1) * step + reach - size
        total = max(total, 0)
        small, large = total // 2, total - total // 2
        found.append((large, small) if how == "SAME_LOWER" else (small, large))
    return tuple(found)


def matmul(node: Node) -> None:
    """MatMul, its quantized forms, and FusedMatMul (which may transpose)."""
    _matmul(node, node.read(0), node.read(1), node.outputs[0])


def dynamic_matmul(node: Node) -> None:
    """DynamicQuantizeMatMul: the left operand is made small first, by its largest word of all."""
    x = node.shape(0)
    small = node.tensor("quantized", x)
    everywhere = tuple(range(len(x)))
    node.emit(
        Normalize(
            name=node.name, type=node.type, inputs=(node.read(0),), outputs=(small,), axes=everywhere, function="scale"
        )
    )
    _matmul(node, small, node.read(1), node.outputs[0])


def qlinear_matmul(node: Node) -> None:
    """Operands with scales and zero points in between."""
    sums = node.tensor("sums", node.out())
    _matmul(node, node.read(0), node.read(3), sums)
    node.elementwise("quantize", (sums,), node.outputs[0])


def _matmul(node: Node, first: str, second: str, output: str) -> None:
    left, right = node.shape_of(first), node.shape_of(second)
    if not left or not right:
        raise ImportFailure(f"{node} multiplies a scalar: the file is damaged, export it again")
    depth = max(len(left), len(right)) - 2
    if depth > len(BATCH_LETTERS):
        raise ImportFailure(
            f"{node} multiplies tensors with {depth + 2} axes: at most {len(BATCH_LETTERS) + 2} are supported"
        )
    left_letters = "k" if len(left) == 1 else _batch(len(left) - 2, depth) + "mk"
    right_letters = "k" if len(right) == 1 else _batch(len(right) - 2, depth) + "kn"
    out = _batch(max(depth, 0), depth) + ("m" if len(left) > 1 else "") + ("n" if len(right) > 1 else "")
    if node.integer("transA", 0):
        left_letters = left_letters[:-2] + left_letters[-1] + left_letters[-2]
    if node.integer("transB", 0):
        right_letters = right_letters[:-2] + right_letters[-1] + right_letters[-2]
    sizes = dict(zip(left_letters, left, strict=True))
    if sizes["k"] != dict(zip(right_letters, right, strict=True))["k"]:
        raise ImportFailure(f"{node} multiplies {list(left)} by {list(right)}, which do not fit: {FIT}")
    _product(node, (first, second), (left_letters, right_letters, out), output)


def _batch(count: int, depth: int) -> str:
    """Letters of `count` leading axes, aligned at the last of `depth`."""
    return BATCH_LETTERS[depth - count : depth]


def _product(node: Node, inputs: tuple[str, ...], letters: tuple[str, str, str], output: str) -> None:
    left, right, out = letters
    node.emit(
        Product(name=node.name, type=node.type, inputs=inputs, outputs=(output,), left=left, right=right, out=out)
    )


def gemm(node: Node) -> None:
    """alpha*A*B + beta*C; C is a bias if it is a constant, else another operand."""
    letters = ("km" if node.integer("transA", 0) else "mk", "nk" if node.integer("transB", 0) else "kn", "mn")
    if len(node.shape(0)) != 2 or len(node.shape(1)) != 2:
        raise ImportFailure(f"{node} multiplies tensors that are no matrices: the file is damaged, export it again")
    both = (node.read(0), node.read(1))
    scaled = (node.attribute("alpha") or 1.0) != 1.0
    summed = node.has(2) and not node.fixed(2)
    output = node.tensor("product", node.out()) if scaled or summed else node.outputs[0]
    _product(node, (*both, node.read(2)) if node.has(2) and not summed else both, letters, output)
    if scaled:
        output = node.elementwise("mul", (output,), None if summed else node.outputs[0])
    if summed:
        node.elementwise("add", (output, node.read(2)), node.outputs[0])


def qgemm(node: Node) -> None:
    """A and B with scales and zero points in between, then a bias; the output is scaled back to small words."""
    letters = ("km" if node.integer("transA", 0) else "mk", "nk" if node.integer("transB", 0) else "kn", "mn")
    sums = node.tensor("sums", node.out())
    _product(node, (node.read(0), node.read(3), *([node.read(6)] if node.has(6) else [])), letters, sums)
    node.elementwise("quantize", (sums,), node.outputs[0])


def packed_matmul(node: Node) -> None:
    """MatMulNBits, MatMulBnb4: x ``[..., K]`` times a packed weight of N rows of K words."""
    features, outs = node.integer("K", 0), node.integer("N", 0)
    x = node.shape(0)
    if not x or x[-1] != features or outs < 1 or not node.fixed(1):
        raise ImportFailure(f"{node}: input {list(x)} does not fit K={features}, N={outs}: export it again")
    letters = BATCH_LETTERS[: len(x) - 1]
    weight = node.unpacked(1, (outs, features))
    _product(node, (node.read(0), weight), (letters + "k", "nk", letters + "n"), node.outputs[0])


def einsum(node: Node) -> None:
    """A matrix product, a transposition or a sum, where it is one; else not modelled."""
    inputs, out = _equation(node)
    sizes: dict[str, int] = {}
    for place, letters in enumerate(inputs):
        sizes |= {
            letter: max(size, sizes.get(letter, 1)) for letter, size in zip(letters, node.shape(place), strict=True)
        }
    macs = prod(sizes.values())
    if len(inputs) > 2 or any(len(set(letters)) < len(letters) for letters in (*inputs, out)):
        node.opaque("it is no product of two tensors", macs)
        return
    tensors: list[str] = []
    kept: list[str] = []
    for place, letters in enumerate(inputs):
        others = set(out).union(*(other for i, other in enumerate(inputs) if i != place))
        tensor, letters = _summed(node, node.inputs[place], letters, others)
        tensors.append(tensor)
        kept.append(letters)
    if len(kept) == 1:
        node.transpose(tensors[0], [kept[0].index(letter) for letter in out], node.outputs[0])
    else:
        _product(node, (tensors[0], tensors[1]), (kept[0], kept[1], out), node.outputs[0])


def _summed(node: Node, tensor: str, letters: str, wanted: set[str]) -> tuple[str, str]:
    """A tensor without the letters that nobody else has: it is summed over them first."""
    alone = tuple(i for i, letter in enumerate(letters) if letter not in wanted)
    if not alone:
        return tensor, letters
    shape = tuple(size for i, size in enumerate(node.shape_of(tensor)) if i not in alone)
    made = node.tensor("sum", shape)
    node.emit(Reduce(name=node.name, type=node.type, inputs=(tensor,), outputs=(made,), axes=alone, function="sum"))
    return made, "".join(letter for letter in letters if letter in wanted)


def _equation(node: Node) -> tuple[list[str], str]:
    """Letters of inputs and output; dots become letters of their own, and a missing output what einsum takes for it."""
    text = str(node.attribute("equation") or "").replace(" ", "")
    left, arrow, out = text.partition("->")
    inputs = left.split(",")
    ranks = [len(node.shape(i)) for i in range(len(node.inputs))]
    free = [chr(code) for code in range(0x3B1, 0x3B1 + 24)]
    if len(inputs) != len(ranks):
        raise ImportFailure(f"{node}: {text!r} has not one term for each of its {len(ranks)} inputs: export it again")
    dots = max((rank - len(term.replace("...", "")) for term, rank in zip(inputs, ranks, strict=True)), default=0)
    if not 0 <= dots <= len(free):
        raise ImportFailure(f"{node}: {text!r} does not fit the shapes of its inputs: export it again")
    spread = [
        term.replace("...", "".join(free[dots - (rank - len(term.replace("...", ""))) : dots]))
        for term, rank in zip(inputs, ranks, strict=True)
    ]
    letters = "".join(spread)
    out = out.replace("...", "".join(free[:dots])) if arrow else _implied(letters, free[:dots])
    fits = all(len(term) == rank for term, rank in zip(spread, ranks, strict=True))
    if not fits or not set(out) <= set(letters) or len(set(out)) < len(out) or "." in letters:
        raise ImportFailure(f"{node}: {text!r} does not fit the shapes of its inputs: export it again")
    return spread, out


def _implied(letters: str, dots: list[str]) -> str:
    """The output that einsum takes where none is written: what is there once, in the order of the alphabet."""
    return "".join(dots) + "".join(x for x in sorted(set(letters)) if letters.count(x) == 1 and x not in dots)


def recurrent(node: Node) -> None:
    """LSTM, GRU, RNN: inputs x, W, R, B, lengths, states; outputs Y, Y_h, Y_c.

    The W of a DynamicQuantizeLSTM has its last axes the other way round, and scales follow the states.
    """
    x, weight = node.shape(0), node.shape(1)
    if node.type == "DynamicQuantizeLSTM" and len(weight) == 3:
        weight = (weight[0], weight[2], weight[1])
    hidden = node.integer("hidden_size", weight[1] // GATES[node.type] if len(weight) == 3 else 0)
    expected = (weight[0], GATES[node.type] * hidden, x[-1]) if len(weight) == 3 and x else ()
    if len(x) != 3 or weight != expected or hidden < 1 or weight[0] not in (1, 2):
        raise ImportFailure(f"{node}: input {list(x)} and weight {list(weight)} do not fit together: {FIT}")
    node.emit(
        Recurrent(
            name=node.name,
            type=node.type,
            inputs=tuple(name for name in node.inputs if name),
            outputs=tuple(node.outputs),
            hidden=hidden,
            gates=GATES[node.type],
            directions=weight[0],
            batch_first=bool(node.integer("layout", 0)),
        )
    )


def deform_conv(node: Node) -> None:
    """A convolution that reads at computed places: its MACs are known, its traffic is not."""
    weight = node.shape(1)
    node.opaque("it reads at places that are computed", prod(node.out()) * prod(weight[1:]))
