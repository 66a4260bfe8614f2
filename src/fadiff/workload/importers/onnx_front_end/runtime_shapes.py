"""Shapes that operators of ONNX Runtime make: they are in optimized files, and ONNX has no rules for them."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx

Shape = tuple[int, ...]
Attributes = dict[str, int]
Rule = Callable[[Sequence[Shape], Attributes], list[Shape]]


def runtime_shapes(node: onnx.NodeProto, inputs: Sequence[Shape | None]) -> list[Shape | None]:
    """Shapes of a node's outputs, in order; fewer, or None, where they are not known."""
    rule = RULES.get(node.op_type)
    if rule is None:
        return []
    attributes = {item.name: item.i for item in node.attribute if item.type == item.INT}
    needed = USED.get(node.op_type, (0,))
    found = [inputs[place] if place < len(inputs) else None for place in needed]
    if any(shape is None for shape in found):
        return []
    try:
        return list(rule([shape for shape in found if shape is not None], attributes))
    except (IndexError, ValueError):
        return []


def _first(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    return [shapes[0]]


def _sum_and_norm(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    """The norm, two statistics that nobody wants, and the sum."""
    return [shapes[0], (), (), shapes[0]]


def _broadcast(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    return [np.broadcast_shapes(*shapes)]


def _matmul(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    left, right = (
        (*shape[:-2], shape[-1], shape[-2]) if attributes.get(flag) else shape
        for shape, flag in zip(shapes, ("transA", "transB"), strict=True)
    )
    return [(*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])]


def _packed_matmul(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    return [(*shapes[0][:-1], attributes["N"])] if "N" in attributes else []


def _attention(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    """Queries, keys and values are a third of the product each."""
    (batch, rows, _), width = shapes[0], shapes[1][1] // 3
    return [(batch, rows, width)]


def _multi_head_attention(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    return [shapes[0]] if len(shapes[0]) == 3 else []


def _group_query_attention(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    """As many words as the queries have; keys and values may be packed behind them."""
    (batch, rows, width), heads, shared = shapes[0], attributes.get("num_heads", 0), attributes.get("kv_num_heads", 0)
    return (
        [(batch, rows, width)]
        if not attributes.get("packed")
        else [(batch, rows, width * heads // (heads + 2 * shared))]
    )


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "BiasAdd",
            "BiasGelu",
            "FastGelu",
            "Gelu",
            "QLinearLeakyRelu",
            "QLinearSigmoid",
            "QuickGelu",
            "RotaryEmbedding",
        ),
        _first,
    ),
    "SimplifiedLayerNormalization": _first,
    "SkipLayerNormalization": _sum_and_norm,
    "SkipSimplifiedLayerNormalization": _sum_and_norm,
    "QLinearAdd": _broadcast,
    "QLinearMul": _broadcast,
    "FusedMatMul": _matmul,
    "FusedGemm": _matmul,
    "MatMulNBits": _packed_matmul,
    "Attention": _attention,
    "MultiHeadAttention": _multi_head_attention,
    "GroupQueryAttention": _group_query_attention,
}
USED = {
    "QLinearAdd": (0, 3),
    "QLinearMul": (0, 3),
    "FusedMatMul": (0, 1),
    "FusedGemm": (0, 1),
    "Attention": (0, 1),
}
"""Inputs that decide; the first one unless it says otherwise."""
