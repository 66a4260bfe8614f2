"""ONNX models written by hand: a small builder, and whole networks in the form that exporters give them.

Weights are named but absent ("external data" in a file that does not exist), so models of any size are a few kilobytes.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
Dim = int | str


class GraphBuilder:
    """A graph under construction. Every method adds nodes and returns the name of what they make."""

    def __init__(self, opset: int = OPSET, *, weights: bool = False) -> None:
        self.opset, self._weights = opset, weights
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self._count = 0

    def input(self, name: str, shape: Sequence[Dim], kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, *shape: int, kind: int = TensorProto.FLOAT) -> str:
        """A parameter; its words are zeros, or not there at all."""
        name = self._new("w")
        if self._weights:
            words = np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind))
            self.initializers.append(numpy_helper.from_array(words, name))
        else:
            tensor = TensorProto(name=name, dims=shape, data_type=kind, data_location=TensorProto.EXTERNAL)
            tensor.external_data.add(key="location", value="not-there.bin")
            self.initializers.append(tensor)
        return name

    def constant(self, *values: float, scalar: bool = False, kind: type = np.float32) -> str:
        name = self._new("c")
        self.initializers.append(numpy_helper.from_array(np.asarray(values[0] if scalar else values, kind), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(*values, kind=np.int64)

    def add(
        self, kind: str, *inputs: str, outputs: int = 1, name: str = "", domain: str = "", **attributes: object
    ) -> str:
        """Any node; the name of its first output."""
        return self.add_all(kind, *inputs, outputs=outputs, name=name, domain=domain, **attributes)[0]

    def add_all(
        self, kind: str, *inputs: str, outputs: int = 1, name: str = "", domain: str = "", **attributes: object
    ) -> list[str]:
        name = name or self._new(kind)
        made = [name if i == 0 else f"{name}:{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name=name, domain=domain, **attributes))
        return made

    def _new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._count}"

    def model(self, *outputs: str) -> onnx.ModelProto:
        domains = {node.domain for node in self.nodes if node.domain}
        opsets = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "graph", self.inputs, infos, self.initializers)
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def save(self, folder: Path, *outputs: str, name: str = "model.onnx") -> Path:
        path = folder / name
        path.write_bytes(self.model(*outputs).SerializeToString())
        return path

    # --- what networks are made of -----------------------------------------------------------------------------------

    def conv(
        self,
        x: str,
        channels: tuple[int, int],
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        *,
        norm: bool = True,
        name: str = "",
    ) -> str:
        """A convolution with "same" padding, followed by a batch norm or with a bias of its own."""
        c, k = channels
        pads = [kernel // 2] * 4
        inputs = [x, self.weight(k, c // groups, kernel, kernel)]
        if not norm:
            inputs.append(self.weight(k))
        made = self.add(
            "Conv", *inputs, name=name, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=groups
        )
        return self.batch_norm(made, k) if norm else made

    def batch_norm(self, x: str, channels: int) -> str:
        return self.add("BatchNormalization", x, *(self.weight(channels) for _ in range(4)))

    def linear(self, x: str, c: int, k: int, *, bias: bool = True, name: str = "") -> str:
        """As exporters write it for tensors of more than two axes: MatMul and Add."""
        made = self.add("MatMul", x, self.weight(c, k), name=name)
        return self.add("Add", self.weight(k), made) if bias else made

    def gelu(self, x: str) -> str:
        """GELU as exporters of opsets before 20 write it."""
        inner = self.add("Erf", self.add("Div", x, self.constant(2**0.5, scalar=True)))
        outer = self.add("Mul", x, self.add("Add", inner, self.constant(1, scalar=True)))
        return self.add("Mul", outer, self.constant(0.5, scalar=True))

    def layer_norm(self, x: str, width: int) -> str:
        """Layer norm as exporters of opsets before 17 write it, ten nodes long."""
        axes = {"axes": [-1]} if self.opset < 18 else {}
        more = () if self.opset < 18 else (self.integers(-1),)
        centered = self.add("Sub", x, self.add("ReduceMean", x, *more, **axes))
        square = self.add("Pow", centered, self.constant(2, scalar=True))
        variance = self.add("Add", self.add("ReduceMean", square, *more, **axes), self.constant(1e-5, scalar=True))
        scaled = self.add("Div", centered, self.add("Sqrt", variance))
        return self.add("Add", self.add("Mul", scaled, self.weight(width)), self.weight(width))

    def rms_norm(self, x: str, width: int) -> str:
        square = self.add("Pow", self.add("Cast", x, to=TensorProto.FLOAT), self.constant(2, scalar=True))
        mean = self.add("ReduceMean", square, axes=[-1])
        root = self.add("Sqrt", self.add("Add", mean, self.constant(1e-6, scalar=True)))
        scaled = self.add("Mul", x, self.add("Reciprocal", root))
        return self.add("Mul", self.weight(width), self.add("Cast", scaled, to=TensorProto.FLOAT))

    def heads(self, x: str, heads: int, width: int, *, transposed: bool = False) -> str:
        """``[batch, seq, heads*width]`` to ``[batch, heads, seq, width]`` (or width before seq), shapes computed."""
        batch = self.add("Gather", self.add("Shape", x), self.constant(0, scalar=True, kind=np.int64), axis=0)
        shape = self.add(
            "Concat", self.add("Unsqueeze", batch, self.integers(0)), self.integers(-1, heads, width), axis=0
        )
        split = self.add("Reshape", x, shape)
        return self.add("Transpose", split, perm=[0, 2, 3, 1] if transposed else [0, 2, 1, 3])


def resnet(blocks: Sequence[int], *, bottleneck: bool) -> GraphBuilder:
    """ResNet with a dynamic batch, layers named as in the zoo."""
    net = GraphBuilder()
    x = net.input("input", ("batch", 3, 224, 224))
    x = net.add("Relu", net.conv(x, (3, 64), 7, 2, name="conv1"))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, count in enumerate(blocks, start=1):
        width = 32 << stage
        for block in range(count):
            at, stride = f"l{stage}.{block}", 2 if block == 0 and stage > 1 else 1
            if bottleneck:
                y = net.add("Relu", net.conv(x, (channels, width), name=f"{at}.conv1"))
                y = net.add("Relu", net.conv(y, (width, width), 3, stride, name=f"{at}.conv2"))
                y = net.conv(y, (width, 4 * width), name=f"{at}.conv3")
                out = 4 * width
            else:
                y = net.add("Relu", net.conv(x, (channels, width), 3, stride, name=f"{at}.conv1"))
                y = net.conv(y, (width, width), 3, name=f"{at}.conv2")
                out = width
            if stride != 1 or channels != out:
                x = net.conv(x, (channels, out), 1, stride, name=f"{at}.down")
            x = net.add("Relu", net.add("Add", y, x, name=f"{at}.add"))
            channels = out
    x = net.add("Flatten", net.add("GlobalAveragePool", x), axis=1)
    net.add("Gemm", x, net.weight(1000, channels), net.weight(1000), name="fc", transB=1)
    return net


def vgg16() -> GraphBuilder:
    """VGG-16, flattened by a shape that the graph computes."""
    net = GraphBuilder()
    x, channels = net.input("input", ("batch", 3, 224, 224)), 3
    for stage, count in enumerate((2, 2, 3, 3, 3), start=1):
        for i in range(1, count + 1):
            out = min(32 << stage, 512)
            x = net.add("Relu", net.conv(x, (channels, out), 3, norm=False, name=f"conv{stage}_{i}"))
            channels = out
        x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    batch = net.add("Gather", net.add("Shape", x), net.constant(0, scalar=True, kind=np.int64))
    shape = net.add("Concat", net.add("Unsqueeze", batch, net.integers(0)), net.integers(-1), axis=0)
    x = net.add("Reshape", x, shape)
    for name, c, k in (("fc6", 25088, 4096), ("fc7", 4096, 4096), ("fc8", 4096, 1000)):
        x = net.add("Gemm", x, net.weight(k, c), net.weight(k), name=name, transB=1)
        if name != "fc8":
            x = net.add("Dropout", net.add("Relu", x))
    return net


def mobilenet_v2() -> GraphBuilder:
    """MobileNetV2, whose activation is a clip to [0, 6]."""
    net = GraphBuilder()
    low, high = net.constant(0, scalar=True), net.constant(6, scalar=True)
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def block(
        x: str, channels: tuple[int, int], kernel: int = 1, stride: int = 1, groups: int = 1, name: str = ""
    ) -> str:
        return net.add("Clip", net.conv(x, channels, kernel, stride, groups, name=name), low, high)

    x, channels = block(net.input("input", ("batch", 3, 224, 224)), (3, 32), 3, 2, name="conv1"), 32
    steps = [(e, c, stride if i == 0 else 1) for e, c, count, stride in stages for i in range(count)]
    for i, (expansion, out, stride) in enumerate(steps, start=1):
        wide = expansion * channels
        y = x if expansion == 1 else block(x, (channels, wide), name=f"b{i}.expand")
        y = block(y, (wide, wide), 3, stride, wide, name=f"b{i}.dw")
        y = net.conv(y, (wide, out), name=f"b{i}.project")
        x = net.add("Add", x, y, name=f"b{i}.add") if stride == 1 and channels == out else y
        channels = out
    x = block(x, (320, 1280), name="conv2")
    x = net.add("Reshape", net.add("ReduceMean", x, axes=[2, 3], keepdims=1), net.integers(0, -1))
    net.add("Gemm", x, net.weight(1000, 1280), net.weight(1000), name="fc", transB=1)
    return net


def attention(net: GraphBuilder, x: str, heads: int, width: int, *, bias: bool, rotary: bool = False) -> str:
    """Self-attention as exporters write it, with everything decomposed."""
    features = heads * width
    q, k, v = (net.linear(x, features, features, bias=bias, name=f"{name}_proj") for name in "qkv")
    if rotary:
        q, k = (rotated(net, net.heads(tensor, heads, width), width) for tensor in (q, k))
        k = net.add("Transpose", k, perm=[0, 1, 3, 2])
    else:
        q, k = net.heads(q, heads, width), net.heads(k, heads, width, transposed=True)
    v = net.heads(v, heads, width)
    scores = net.add("Div", net.add("MatMul", q, k, name="qk"), net.constant(width**0.5, scalar=True))
    weights = net.add("Softmax", net.add("Add", scores, "mask"), axis=-1)
    values = net.add("Transpose", net.add("MatMul", weights, v, name="av"), perm=[0, 2, 1, 3])
    joined = net.add("Reshape", values, net.integers(0, 0, features))
    return net.linear(joined, features, features, bias=bias, name="out_proj")


def rotated(net: GraphBuilder, x: str, width: int) -> str:
    """x*cos + rotate_half(x)*sin, with tables that come from positions given at run time."""
    ends = {"axes": net.integers(-1), "steps": net.integers(1)}
    first = net.add("Slice", x, net.integers(0), net.integers(width // 2), *ends.values())
    second = net.add("Slice", x, net.integers(width // 2), net.integers(2**31), *ends.values())
    turned = net.add("Concat", net.add("Neg", second), first, axis=-1)
    return net.add("Add", net.add("Mul", x, "cos"), net.add("Mul", turned, "sin"))


def bert_block(batch: Dim = "batch", seq: Dim = "seq") -> GraphBuilder:
    net = GraphBuilder(16)
    x = net.input("x", (batch, seq, 768))
    net.input("mask", (batch, 1, 1, seq))
    y = net.layer_norm(net.add("Add", attention(net, x, 12, 64, bias=True), x, name="add1"), 768)
    z = net.gelu(net.linear(y, 768, 3072, name="ffn1"))
    z = net.add("Add", net.linear(z, 3072, 768, name="ffn2"), y, name="add2")
    net.add("LayerNormalization", z, net.weight(768), net.weight(768), name="out", axis=-1)
    net.opset = 17
    return net


def llama_block(batch: Dim = "batch", seq: Dim = "seq") -> GraphBuilder:
    """A block as it stands between others: it starts after a norm, and ends with the sum and the next norm."""
    net = GraphBuilder()
    x = net.input("x", (batch, seq, 4096))
    net.input("mask", (batch, 1, seq, seq))
    for table in ("cos", "sin"):
        net.input(table, (1, 1, seq, 128))
    total = net.add("Add", x, attention(net, x, 32, 128, bias=False, rotary=True), name="add1")
    y = net.rms_norm(total, 4096)
    gate = net.linear(y, 4096, 11008, bias=False, name="gate")
    gate = net.add("Mul", gate, net.add("Sigmoid", gate))
    product = net.add("Mul", gate, net.linear(y, 4096, 11008, bias=False, name="up"), name="product")
    total = net.add("Add", total, net.linear(product, 11008, 4096, bias=False, name="down"), name="add2")
    net.add("Identity", net.rms_norm(total, 4096), name="out")
    return net


def gated_block() -> GraphBuilder:
    """An inverted residual block with a squeeze-and-excite gate and a hard swish, as in MobileNetV3."""
    net = GraphBuilder()
    x = net.input("image", (1, 24, 28, 28))
    y = net.add("HardSwish", net.conv(x, (24, 72), name="expand"), name="expand.act")
    y = net.add("HardSwish", net.conv(y, (72, 72), 5, groups=72, name="dw"), name="dw.act")
    gate = net.conv(net.add("GlobalAveragePool", y, name="squeeze"), (72, 18), norm=False, name="fc1")
    gate = net.conv(net.add("Relu", gate, name="fc1.act"), (18, 72), norm=False, name="fc2")
    y = net.add("Mul", y, net.add("HardSigmoid", gate, name="fc2.act"), name="gate")
    net.add("Add", net.conv(y, (72, 24), name="project"), x, name="add")
    return net


def deep_stack() -> GraphBuilder:
    """A stem, 32 equal residual blocks, and a head."""
    net = GraphBuilder()
    x = net.conv(net.input("image", (1, 3, 16, 16)), (3, 16), 3, norm=False, name="stem")
    for i in range(32):
        y = net.add("Relu", net.conv(x, (16, 16), 3, norm=False, name=f"conv{i}"))
        x = net.add("Add", y, x, name=f"add{i}")
    net.conv(x, (16, 10), norm=False, name="head")
    return net


FILES = {
    "resnet18.onnx": (resnet((2, 2, 2, 2), bottleneck=False), "fc"),
    "squeeze-excite.onnx": (gated_block(), "add"),
    "deep.onnx": (deep_stack(), "head"),
}
"""Models in `tests/data/models`, with their outputs. ``python tests/workload/importers/graphs.py`` writes them."""

if __name__ == "__main__":
    for file, (network, output) in FILES.items():
        network.save(Path(__file__).parents[2] / "data" / "models", output, name=file)
