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
    found += [inputs[place] if place < len(inputs) else None for place in OPTIONAL.get(node.op_type, ())]
    try:
        return list(rule([shape or () for shape in found], attributes))
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
    """As many words as the queries have; then all keys and values, with those of earlier tokens in front of them."""
    query, key, value, past = shapes
    if len(query) != 3 or len(key) != 3 or len(value) != 3:
        return [query] if len(query) == 3 else []
    heads = attributes.get("num_heads", 1)
    rows = key[1] + (past[2] if past else 0)
    kept = [(key[0], heads, rows, shape[2] // heads) for shape in (key, value)]
    return [(*query[:2], value[2]), *kept]


def _group_query_attention(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    """The same, where several heads share keys; keys and values may be packed behind the queries."""
    (batch, rows, width), key, past = shapes
    heads, shared = attributes.get("num_heads", 1), attributes.get("kv_num_heads", 1)
    each = width // (heads if key else heads + 2 * shared)
    kept = (batch, shared, rows + (past[2] if past else 0), each)
    return [(batch, rows, heads * each), kept, kept]


def _recurrent(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    """All hidden states, the last one and the last cell state; four gates lie side by side in the weight."""
    (time, batch, _), (directions, _, gates) = shapes
    last = (directions, batch, gates // 4)
    return [(time, directions, batch, gates // 4), last, last]


def _embedding(shapes: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    """A row of the table for each token, a word for each sequence, and the rows before their norm."""
    tokens, table = shapes
    return [(*tokens, table[1]), tokens[:1], (*tokens, table[1])]


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "BiasAdd",
            "BiasGelu",
            "FastGelu",
            "Gelu",
            "LayerNormalization",
            "QLinearLeakyRelu",
            "QLinearSigmoid",
            "QLinearSoftmax",
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
    "TransposeMatMul": _matmul,
    "MatMulNBits": _packed_matmul,
    "MatMulBnb4": _packed_matmul,
    "Attention": _attention,
    "QAttention": _attention,
    "DynamicQuantizeLSTM": _recurrent,
    "EmbedLayerNormalization": _embedding,
    "MultiHeadAttention": _multi_head_attention,
    "GroupQueryAttention": _group_query_attention,
}
USED = {
    "QLinearAdd": (0, 3),
    "QLinearMul": (0, 3),
    "FusedMatMul": (0, 1),
    "TransposeMatMul": (0, 1),
    "Attention": (0, 1),
    "QAttention": (0, 1),
    "DynamicQuantizeLSTM": (0, 1),
    "EmbedLayerNormalization": (0, 2),
}
"""Inputs that decide; the first one unless it says otherwise."""
OPTIONAL = {"MultiHeadAttention": (1, 2, 6), "GroupQueryAttention": (1, 3)}
"""Inputs that decide as well where they are there."""
