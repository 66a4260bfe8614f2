"""MACs and parameters against a counter that others wrote: onnx_tool."""

import contextlib
import io
import warnings
from collections import Counter
from importlib import metadata
from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest

from fadiff.workload.importers import import_onnx
from workload.importers.graphs import GraphBuilder, attention

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    onnx_tool = pytest.importorskip("onnx_tool")

COUNTED = ("Conv", "Gemm", "MatMul", "Einsum", "QLinearConv", "ConvInteger", "MatMulInteger")


def counted(path: Path, shapes: dict[str, tuple[int, ...]]) -> tuple[Counter[str], Counter[str]]:
    """MACs by operator as onnx_tool counts them, sums with a bias taken off again, and parameters."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        graph = onnx_tool.Model(str(path), {"verbose": False, "constant_folding": False}).graph
        graph.shape_infer({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
        graph.profile()
    macs, parameters = Counter[str](), Counter[str]()
    for node in graph.nodemap.values():
        found = int(node.macs[0])
        if len(node.input) > 2 and node.op_type in ("Conv", "Gemm"):
            found -= prod(graph.tensormap[node.output[0]].get_shape())
        macs[node.op_type] += found
        parameters[node.op_type] += int(node.params)
    return macs, parameters


def cnn() -> tuple[GraphBuilder, str, dict[str, tuple[int, ...]]]:
    net = GraphBuilder(weights=True)
    x = net.input("x", (2, 3, 32, 32))
    y = net.add("Relu", net.conv(x, (3, 16), 3, 2, norm=False))
    y = net.add("Add", y, net.conv(y, (16, 16), 3, groups=16, norm=False))
    y = net.add("MaxPool", net.conv(y, (16, 24), 5, 2, groups=4, norm=False), kernel_shape=[2, 2], strides=[2, 2])
    y = net.add("Flatten", net.conv(y, (24, 8), norm=False))
    return net, net.add("Gemm", y, net.weight(10, 128), net.weight(10), transB=1), {"x": (2, 3, 32, 32)}


def block() -> tuple[GraphBuilder, str, dict[str, tuple[int, ...]]]:
    net = GraphBuilder(weights=True)
    x = net.input("x", (2, 20, 64))
    net.input("mask", (2, 1, 1, 20))
    y = net.add("Add", attention(net, x, 4, 16, bias=True), x)
    return net, net.linear(net.gelu(net.linear(y, 64, 256)), 256, 64), {"x": (2, 20, 64), "mask": (2, 1, 1, 20)}


def products() -> tuple[GraphBuilder, str, dict[str, tuple[int, ...]]]:
    net = GraphBuilder(weights=True)
    x, y = net.input("x", (3, 4, 5, 6)), net.input("y", (3, 4, 6, 7))
    z = net.add("MatMul", x, y)
    z = net.add("MatMul", z, net.weight(7, 2))
    z = net.add("Einsum", z, net.weight(2, 9), equation="abcd,de->abce")
    return net, net.add("MatMul", net.weight(8, 5), z), {"x": (3, 4, 5, 6), "y": (3, 4, 6, 7)}


@pytest.mark.parametrize("build", [cnn, block, products])
def test_counts_are_those_of_onnx_tool(build, tmp_path: Path) -> None:
    net, output, shapes = build()
    path = net.save(tmp_path, output)
    macs, parameters = counted(path, shapes)
    report = import_onnx(path).report
    assert {row.type for row in report.operators} & set(COUNTED)
    for row in report.operators:
        if row.type in COUNTED:
            assert row.macs == macs[row.type], row.type
            assert row.parameters == parameters[row.type], row.type


REAL = {
    "ch_PP-OCRv4_det_infer.onnx": (1, 3, 320, 480),
    "ch_PP-OCRv4_rec_infer.onnx": (1, 3, 48, 320),
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": (1, 3, 48, 192),
}


def wheel_file(package: str, name: str) -> Path:
    """A file of an installed package, whose own dependencies are not needed; skipped where it is not installed."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    return Path(str(next(file for file in files if file.name == name).locate()))


@pytest.mark.parametrize("name", REAL)
def test_counts_of_models_for_reading_text_are_those_of_onnx_tool(name: str) -> None:
    path = wheel_file("rapidocr-onnxruntime", name)
    macs, _ = counted(path, {"x": REAL[name]})
    imported = import_onnx(path, shapes={"x": REAL[name]})
    rows = {row.type: row for row in imported.report.operators}
    for kind in ("Conv", "MatMul"):
        assert (rows[kind].macs if kind in rows else 0) == macs[kind]
    # onnx_tool takes the output channels of a transposed convolution for its input channels; counted here by hand.
    graph = onnx.load(path).graph
    weights = {node.output[0]: node.attribute[0].t.dims for node in graph.node if node.op_type == "Constant"}
    transposed = [node for node in graph.node if node.op_type == "ConvTranspose"]
    expected, side = 0, (REAL[name][2] // 4) * (REAL[name][3] // 4)
    for i, node in enumerate(transposed):
        expected += prod(weights[node.input[1]]) * side * 4**i
    assert (rows["ConvTranspose"].macs if transposed else 0) == expected
    assert imported.report.not_modelled == ()
    assert imported.report.macs == macs["Conv"] + macs["MatMul"] + expected


VOICE = {
    "silero_vad.onnx": ({"input": (1, 512), "state": (2, 1, 128)}, {}, {"sr": 16000}),
    "silero_vad_16k_op15.onnx": ({}, {"batch": 1, "sequence": 512}, {}),
    "silero_vad_half.onnx": ({}, {"batch": 1, "sequence": 512}, {}),
    "silero_vad_op18_ifless.onnx": ({}, {"batch": 1, "sequence": 512}, {"sr": 16000}),
    "silero_vad_openvino_16k.onnx": ({}, {}, {}),
    "silero_vad_16k_sequence.onnx": ({}, {"sequence_length": 10}, {}),
}


@pytest.mark.parametrize("name", VOICE)
def test_every_form_of_a_voice_detector_is_the_same_network(name: str) -> None:
    """The same small network, exported in six ways: with branches on shapes, with gates written out, for sequences."""
    shapes, dims, values = VOICE[name]
    imported = import_onnx(wheel_file("silero-vad", name), shapes, dims, values)
    assert imported.report.not_modelled == ()
    layers = {layer.dims.K * layer.dims.C * layer.dims.R for layer in imported.workload.layers if layer.is_mac}
    # A transform, four convolutions, the two products of an LSTM with 128 units, and the answer.
    assert layers >= {258 * 256, 128 * 129 * 3, 64 * 128 * 3, 64 * 64 * 3, 128 * 64 * 3, 512 * 128, 128}
    assert imported.workload.parameter_words == 308_224
    assert imported.report.parameters >= 309_632


def test_the_voice_detector_asks_for_the_rate_that_decides_its_branch() -> None:
    path = wheel_file("silero-vad", "silero_vad.onnx")
    with pytest.raises(Exception, match=r"chooses between branches while the network runs.*--value"):
        import_onnx(path, {"input": (1, 512), "state": (2, 1, 128), "sr": ()})
