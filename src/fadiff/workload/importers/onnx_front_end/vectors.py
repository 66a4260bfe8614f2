"""Operators that compute without multiplying matrices: activations, norms, pooling, reductions."""

import re
from math import ceil, log2, prod

from fadiff.workload.importers.onnx_front_end.node import Node
from fadiff.workload.importers.operators import ImportFailure, Lookup, Normalize, Pool, Reduce, Resize

ELEMENTWISE = frozenset(
    (
        "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization", "BiasAdd",
        "BiasGelu", "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike",
        "Ceil", "Celu", "Clip", "Cos", "Cosh", "DequantizeLinear", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp",
        "FastGelu", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf",
        "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not",
        "Or", "PRelu", "Pow", "QLinearAdd", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid", "QuantizeLinear",
        "QuickGelu", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus",
        "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Trilu", "Where", "Xor",
    )
)  # fmt: skip
"""Operators of one output whose words depend on words in the same place only."""
_FUNCTIONS = {
    "BatchNormalization": "batch_norm",
    "BiasGelu": "gelu",
    "Cast": "identity",
    "CastLike": "identity",
    "Dropout": "identity",
    "FastGelu": "gelu",
    "PRelu": "prelu",
    "QLinearAdd": "add",
    "QLinearMul": "mul",
    "QLinearSigmoid": "sigmoid",
    "QLinearLeakyRelu": "leaky_relu",
    "Sum": "add",
    "BiasAdd": "add",
}
_MAIN_INPUTS = {
    "BatchNormalization": 1,
    "Clip": 1,
    "Dropout": 1,
    "DequantizeLinear": 1,
    "QuantizeLinear": 1,
    "Trilu": 1,
}
"""Operators whose further inputs are parameters, limits or scales: no tensors that are combined."""
REDUCTIONS = {
    "ReduceL1": "sum",
    "ReduceL2": "sum",
    "ReduceLogSum": "sum",
    "ReduceLogSumExp": "sum",
    "ReduceMax": "max",
    "ReduceMean": "mean",
    "ReduceMin": "max",
    "ReduceProd": "prod",
    "ReduceSum": "sum",
    "ReduceSumSquare": "sum",
    "ArgMax": "argmax",
    "ArgMin": "argmax",
}


def elementwise(node: Node) -> None:
    """One vector operator. A clip to positive words is a relu."""
    count = _MAIN_INPUTS.get(node.type)
    inputs = [name for name in (node.inputs if count is None else node.inputs[:count]) if name]
    fixed = [name for i, name in enumerate(node.inputs) if name and name not in inputs and node.fixed(i)]
    if node.type in ("QLinearAdd", "QLinearMul"):
        inputs = [node.read(0), node.read(3)]
    elif node.type in ("QLinearSigmoid", "QLinearLeakyRelu"):
        inputs = node.inputs[:1]
    node.elementwise(function_of(node), (*inputs, *(name for name in fixed if name not in inputs)), node.outputs[0])


def function_of(node: Node) -> str:
    """What an elementwise node computes, in small letters."""
    if node.type == "Clip":
        low = node.words(1) if node.has(1) else None
        lowest = node.attribute("min") if low is None else (float(low.reshape(-1)[0]) if low.size else None)
        return "relu6" if lowest == 0 else "clip"
    return _FUNCTIONS.get(node.type) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.type).lower()


def dynamic_quantize(node: Node) -> None:
    """y, its scale and its zero point: both come from the largest and smallest word of all of x."""
    x = node.read(0)
    everywhere = tuple(range(len(node.shape(0))))
    node.emit(
        Normalize(
            name=node.name, type=node.type, inputs=(x,), outputs=(node.outputs[0],), axes=everywhere, function="scale"
        )
    )
    for place in (1, 2):
        if node.wants(place):
            node.emit(
                Reduce(
                    name=node.name,
                    type=node.type,
                    inputs=(x,),
                    outputs=(node.outputs[place],),
                    axes=everywhere,
                    function="max",
                )
            )


def normalize(node: Node) -> None:
    """Softmax, norms, and rotary embeddings: each word depends on all along some axes. Other inputs are parameters."""
    axes, function = _normalized_axes(node)
    rest = [name for i, name in enumerate(node.inputs) if i > 0 and name and node.fixed(i)]
    _normalize(node, (node.read(0), *rest), axes, function, node.outputs[0])


def _normalize(node: Node, inputs: tuple[str, ...], axes: tuple[int, ...], function: str, output: str) -> None:
    node.emit(Normalize(name=node.name, type=node.type, inputs=inputs, outputs=(output,), axes=axes, function=function))


def _normalized_axes(node: Node) -> tuple[tuple[int, ...], str]:
    rank = len(node.shape(0))
    image = tuple(range(2, rank))
    match node.type:
        case "QLinearSoftmax":
            axis = node.axis(node.integer("axis", -1), rank)
            return ((axis,) if node.integer("opset", 13) >= 13 else tuple(range(axis, rank))), "softmax"
        case "Softmax" | "LogSoftmax" | "Hardmax":
            axis = node.axis(node.integer("axis", -1 if node.opset >= 13 else 1), rank)
            return ((axis,) if node.opset >= 13 else tuple(range(axis, rank))), "softmax"
        case "LayerNormalization" | "RMSNormalization" | "SimplifiedLayerNormalization":
            return tuple(range(node.axis(node.integer("axis", -1), rank), rank)), "layer_norm"
        case "LpNormalization":
            return (node.axis(node.integer("axis", -1), rank),), "layer_norm"
        case "LRN":
            return (min(1, rank - 1),), "lrn"
        case "InstanceNormalization":
            return image, "instance_norm"
        case "GroupNormalization":
            return (1, *image), "group_norm"
        case "MeanVarianceNormalization":
            axes = node.integers("axes", (0, 2, 3)) or ()
            return tuple(node.axis(axis, rank) for axis in axes), "instance_norm"
        case "RotaryEmbedding":
            return (rank - 1,), "rotary"
        case _:  # CumSum, CumProd
            axes = node.numbers(1)
            return tuple(node.axis(axis, rank) for axis in axes) if axes else tuple(range(rank)), "cumsum"


def skip_norm(node: Node) -> None:
    """A residual sum and its norm in one: x, skip, then parameters; the fourth output is the sum itself."""
    rank = len(node.shape(0))
    sums = node.outputs[3] if node.wants(3) else None
    total = node.elementwise("add", (node.read(0), node.read(1)), sums, node.shape(0))
    rest = [name for i, name in enumerate(node.inputs) if i > 1 and name and node.fixed(i)]
    _normalize(node, (total, *rest), (rank - 1,), "layer_norm", node.outputs[0])


def pool(node: Node) -> None:
    """Windows over the image; global ones take all of it."""
    image = node.shape(0)[2:]
    if not image or len(node.out()) != len(image) + 2:
        raise ImportFailure(
            f"{node} pools {list(node.shape(0))}, which is no image: the file is damaged, export it again"
        )
    kernel = node.integers("kernel_shape") if "Global" not in node.type else None
    node.emit(
        Pool(
            name=node.name,
            type=node.type,
            inputs=(node.read(0),),
            outputs=(node.outputs[0],),
            kernel=kernel or image,
            stride=node.integers("strides", (1,) * len(image)) or (),
            function="max" if "Max" in node.type else "average",
        )
    )


def reduce(node: Node) -> None:
    """Sums, means and extremes along axes."""
    rank = len(node.shape(0))
    if node.type in ("ArgMax", "ArgMin"):
        axes: list[int] | tuple[int, ...] | None = [node.integer("axis", 0)]
    else:
        axes = node.numbers(1) if node.has(1) else node.integers("axes")
    if not axes:
        if node.integer("noop_with_empty_axes", 0):
            node.elementwise("identity", node.inputs[:1], node.outputs[0])
            return
        axes = range(rank)  # pyright: ignore[reportAssignmentType]
    assert axes is not None
    node.emit(
        Reduce(
            name=node.name,
            type=node.type,
            inputs=(node.read(0),),
            outputs=(node.outputs[0],),
            axes=tuple(sorted(node.axis(axis, rank) for axis in axes)),
            function=REDUCTIONS[node.type],
        )
    )


def resize(node: Node) -> None:
    """Other sizes of the image; where nothing changes, nothing happens."""
    before, after = node.shape(0), node.out()
    if before == after:
        node.elementwise("identity", node.inputs[:1], node.outputs[0])
        return
    node.emit(Resize(name=node.name, type=node.type, inputs=(node.read(0),), outputs=(node.outputs[0],)))


def noise(node: Node) -> None:
    """Random words: they depend on no other words, and are there before the network runs."""
    node.emit(Lookup(name=node.name, type=node.type, inputs=(), outputs=(node.outputs[0],)))


def fourier(node: Node) -> None:
    """A fast Fourier transform: a complex product, four real ones, for two words in each of log2(n) rounds."""
    longest = max((*node.shape(0)[1:-1], 2) if node.type == "DFT" else (2 * node.out()[-2], 2))
    node.opaque("a fast Fourier transform is no matrix product", 2 * prod(node.out()[:-1]) * ceil(log2(longest)))


def grid_sample(node: Node) -> None:
    """Interpolation at computed places: four products for each word of an image."""
    node.opaque("it reads at places that are computed", 2 ** (len(node.out()) - 2) * prod(node.out()))
