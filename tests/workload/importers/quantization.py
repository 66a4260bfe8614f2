"""Float models as ONNX Runtime's dynamic quantization writes them."""

from itertools import count

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def dynamically_quantized(model: onnx.ModelProto, *, per_channel: bool = False) -> onnx.ModelProto:
    """The twin of a float model: convolutions and products with a weight read words of 8 bit, made small at run time.

    Each such input is quantized once, by a scale and a zero point that its words decide; sums of integers are cast back
    and scaled by both scales, multiplied first. With `per_channel`, weights have a scale for each output channel.
    """
    twin = onnx.ModelProto.FromString(model.SerializeToString())
    graph = twin.graph
    weights = {tensor.name: tensor for tensor in graph.initializer}
    quantized: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []
    number = count()

    def add(kind: str, *inputs: str, outputs: int = 1, into: str = "", **attributes: object) -> str:
        made = into or f"{kind.lower()}_{next(number)}"
        names = [made, *(f"{made}_{i}" for i in range(1, outputs))]
        nodes.append(helper.make_node(kind, inputs, names, name=into or made, **attributes))
        return made

    def constant(words: np.ndarray) -> str:
        name = f"constant_{next(number)}"
        graph.initializer.append(numpy_helper.from_array(words, name))
        return name

    def integers(node: onnx.NodeProto, kind: str, **attributes: object) -> None:
        """The node's product or convolution on integers; its bias, if it has one, is added at the end."""
        x, weight, *bias = node.input
        if x not in quantized:
            quantized[x] = add("DynamicQuantizeLinear", x, outputs=3)
        small, tensor = quantized[x], weights[weight]
        tensor.data_type = TensorProto.UINT8
        is_conv = kind == "ConvInteger"
        channels = tensor.dims[0] if is_conv else tensor.dims[-1]
        shape = () if not per_channel else (channels, 1, 1) if is_conv else (channels,)
        scale, zero = constant(np.ones(shape, np.float32)), constant(np.zeros((), np.uint8))
        sums = add(kind, small, weight, f"{small}_2", zero, into=f"{node.name}_quantized", **attributes)
        scales = add("Mul", f"{small}_1", scale)
        wide = add("Cast", sums, to=TensorProto.FLOAT)
        scaled = add("Mul", wide, scales, into="" if bias else node.output[0])
        if bias:
            flat = bias[0]
            if is_conv:
                flat = add("Reshape", flat, constant(np.array([1, -1, 1, 1], np.int64)))
            add("Add", scaled, flat, into=node.output[0])

    for node in graph.node:
        attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        if node.op_type == "Conv":
            integers(node, "ConvInteger", **attributes)
        elif node.op_type in ("MatMul", "Gemm") and node.input[1] in weights:
            tensor = weights[node.input[1]]
            if attributes.get("transB"):
                tensor.dims[:] = tensor.dims[::-1]
            integers(node, "MatMulInteger")
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return twin
