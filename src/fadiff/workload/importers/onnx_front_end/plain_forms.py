"""Operators of ONNX Runtime that are one of ONNX's own with more around it: a scale, an activation, small words.

ONNX has no rules for the shapes they make, but it has rules for their plain forms, which make the same shapes.
"""

import onnx

PLAIN: dict[str, tuple[str, tuple[int, ...]]] = {
    "DynamicQuantizeMatMul": ("MatMul", (0, 1)),
    "FusedConv": ("Conv", (0, 1)),
    "FusedGemm": ("Gemm", (0, 1)),
    "MatMulIntegerToFloat": ("MatMul", (0, 1)),
    "QGemm": ("Gemm", (0, 3)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
}
"""What they are called without what is around, and which of their inputs the plain form has."""


def plain_form(node: onnx.NodeProto) -> onnx.NodeProto | None:
    """The node as one of ONNX's own that makes the same shape; None where there is none.

    A concatenation of small words reads each tensor with its scale and zero point, after its own two. Images with their
    channels last have no plain form.
    """
    if any(item.name == "channels_last" and item.i for item in node.attribute):
        return None
    if node.op_type == "QLinearConcat":
        kind, inputs = "Concat", list(node.input[2::3])
    elif node.op_type in PLAIN:
        kind, places = PLAIN[node.op_type]
        inputs = [node.input[place] for place in places if place < len(node.input)]
    else:
        return None
    plain = onnx.helper.make_node(kind, inputs, node.output[:1], name=node.name)
    plain.attribute.extend(item for item in node.attribute if item.name in _KEPT[kind])
    return plain


def keeps_type(node: onnx.NodeProto) -> bool:
    """Whether its output has words as small as its input; a product has them only if they are scaled back."""
    return node.op_type.startswith("QLinear") or (node.op_type == "QGemm" and len(node.input) > 7)


_KEPT = {
    "AveragePool": ("auto_pad", "ceil_mode", "kernel_shape", "pads", "strides"),
    "Concat": ("axis",),
    "Conv": ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"),
    "Gemm": ("transA", "transB"),
    "GlobalAveragePool": (),
    "MatMul": (),
}
"""Attributes that the plain forms have."""
