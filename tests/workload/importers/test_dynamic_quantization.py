"""Dynamically quantized models are their float twins: scales are a few words, and no tensors that layers read."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from fadiff.workload.importers import ImportedModel, import_onnx
from workload.importers.graphs import (
    GraphBuilder,
    attention,
    bert_block,
    gated_block,
    llama_block,
    mobilenet_v2,
    resnet,
)
from workload.importers.quantization import dynamically_quantized


def split_and_joined() -> GraphBuilder:
    """A block of a detector: a tensor is split, its halves and all that is made of them are joined again."""
    net = GraphBuilder()
    start = net.conv(net.input("image", (1, 16, 32, 32)), (16, 32), norm=False, name="start")
    parts = net.add_all("Split", start, net.integers(16, 16), outputs=2, axis=1)
    for i in range(3):
        y = net.add("Relu", net.conv(parts[-1], (16, 16), 3, norm=False, name=f"{i}.a"))
        y = net.conv(y, (16, 16), 3, norm=False, name=f"{i}.b")
        parts.append(net.add("Add", parts[-1], y, name=f"{i}.add"))
    joined = net.conv(net.add("Concat", *parts, axis=1), (80, 32), norm=False, name="join")
    net.add("Add", joined, start, name="end")
    return net


def gated_residual() -> GraphBuilder:
    """Residual blocks whose sums read a tensor through its gate."""
    net = GraphBuilder()
    x = net.conv(net.input("image", (1, 16, 32, 32)), (16, 16), 3, norm=False, name="stem")
    for i in range(2):
        y = net.conv(x, (16, 16), 3, norm=False, name=f"{i}.conv")
        gate = net.conv(net.add("GlobalAveragePool", y), (16, 16), norm=False, name=f"{i}.gate")
        x = net.add("Relu", net.add("Add", net.add("Mul", y, net.add("Sigmoid", gate)), x, name=f"{i}.add"))
    net.conv(x, (16, 8), norm=False, name="end")
    return net


def joined_rows() -> GraphBuilder:
    """Tokens of fourteen layers end to end, which a product and a sum read."""
    net = GraphBuilder()
    x = net.input("x", (1, 8, 32))
    joined = net.add("Concat", *(net.linear(x, 32, 32, name=f"part{i}") for i in range(14)), axis=1)
    net.add("Add", net.linear(joined, 32, 32, name="product"), joined, name="end")
    return net


def tokens_of_an_image() -> GraphBuilder:
    """Patches with a token in front of them, positions, and attention."""
    net = GraphBuilder()
    net.input("mask", (1, 1, 1, 65))
    weight = net.weight(32, 3, 8, 8)
    x = net.add("Conv", net.input("image", (1, 3, 64, 64)), weight, name="patch", kernel_shape=[8, 8], strides=[8, 8])
    x = net.add("Transpose", net.add("Reshape", x, net.integers(1, 32, 64)), perm=[0, 2, 1])
    x = net.add("Add", net.add("Concat", net.weight(1, 1, 32), x, axis=1), net.weight(1, 65, 32))
    net.add("Add", attention(net, net.layer_norm(x, 32), 4, 8, bias=True), x, name="end")
    return net


TWINS: dict[str, tuple[Callable[[], GraphBuilder], str]] = {
    "ResNet": (lambda: resnet((1, 1, 1, 1), bottleneck=True), "fc"),
    "MobileNet": (mobilenet_v2, "fc"),
    "gate": (gated_block, "add"),
    "gated residual": (gated_residual, "end"),
    "detector": (split_and_joined, "end"),
    "BERT": (lambda: bert_block(1, 32), "out"),
    "LLaMA": (lambda: llama_block(1, 32), "out"),
    "image tokens": (tokens_of_an_image, "end"),
    "joined rows": (joined_rows, "end"),
}


def imported(model: onnx.ModelProto, folder: Path) -> ImportedModel:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return import_onnx(path, dims={"batch": 1} if model.graph.input[0].name == "input" else None)


@pytest.mark.parametrize("per_channel", [False, True], ids=["a scale", "a scale for each channel"])
@pytest.mark.parametrize("name", TWINS)
def test_a_dynamically_quantized_model_has_the_layers_of_its_float_twin(name: str, per_channel: bool, tmp_path: Path):
    build, output = TWINS[name]
    model = build().model(output)
    plain = imported(model, tmp_path)
    small = imported(dynamically_quantized(model, per_channel=per_channel), tmp_path)
    number = [{layer.name: i for i, layer in enumerate(one.workload.layers)} for one in (plain, small)]
    for layer, twin in zip(plain.workload.layers, small.workload.layers, strict=True):
        assert (twin.kind, twin.dims, twin.stored) == (layer.kind, layer.dims, layer.stored)
        read, read_by_twin = (
            [(operand.source and numbers[operand.source], operand.port) for operand in one.inputs]
            for one, numbers in zip((layer, twin), number, strict=True)
        )
        assert read_by_twin == read
    assert small.workload.macs == plain.workload.macs
    assert small.report.not_modelled == ()
    assert small.report.notes == plain.report.notes


def test_a_scale_does_not_keep_the_tensor_before_it_from_a_sum(tmp_path: Path):
    """It comes from the words that the layer reads, which are there when the layer runs."""
    model = resnet((1, 1, 1, 1), bottleneck=True).model("fc")
    edges = imported(dynamically_quantized(model, per_channel=True), tmp_path).workload.edges
    assert all(edge.fusible for edge in edges if edge.port == "addend")
    # What is quantized must be complete first. All of a single row always is.
    assert {edge.target for edge in edges if edge.fusible and edge.port == "input"} == {"fc_quantized"}


def test_scales_of_rows_are_in_the_epilogue_too(tmp_path: Path):
    """Rows that are quantized each by its largest word, operator by operator."""
    net = GraphBuilder()
    y = net.linear(net.input("x", (1, 16, 32)), 32, 64, name="a")
    largest, smallest = (net.add(f"Reduce{which}", y, axes=[-1], keepdims=1) for which in ("Max", "Min"))
    scale = net.add("Div", net.add("Sub", largest, smallest), net.constant(255, scalar=True))
    small = net.add("Round", net.add("Div", y, scale))
    sums = net.add("Mul", net.linear(small, 64, 64, bias=False, name="b"), net.add("Mul", scale, net.weight(64)))
    net.add("Add", sums, y, name="end")
    a, b, end = imported(net.model("end"), tmp_path).workload.layers
    assert [operand.source for operand in end.inputs] == ["b", "a"]
    assert [operand.source for operand in b.inputs] == ["a"]
    assert (a.kind, b.kind, end.kind) == ("mac", "mac", "add")
    assert b.epilogue == ("scale",)


def test_both_operands_of_a_product_may_have_scales_that_the_run_decides(tmp_path: Path):
    net = GraphBuilder()
    x = net.input("x", (1, 16, 32))
    a, b = (net.linear(x, 32, 16, name=name) for name in ("a", "b"))
    (small_a, scale_a, zero_a), (small_b, scale_b, zero_b) = (
        net.add_all("DynamicQuantizeLinear", tensor, outputs=3) for tensor in (a, b)
    )
    sums = net.add("MatMulInteger", small_a, small_b, zero_a, zero_b, name="product")
    product = net.add("Mul", net.add("Cast", sums, to=1), net.add("Mul", scale_a, scale_b))
    net.add("Add", product, a, name="end")
    network = imported(net.model("end"), tmp_path).workload
    assert [(layer.name, layer.kind) for layer in network.layers][2:] == [("product", "mac"), ("end", "add")]
    assert [operand.source for operand in network["end"].inputs] == ["product", "a"]
