"""Operators that ONNX Runtime writes into optimized and quantized files, where no shape is written down."""

from pathlib import Path

import pytest
from onnx import TensorProto

from fadiff.errors import FadiffError
from fadiff.workload import Dims
from fadiff.workload.importers import ImportedModel, import_onnx
from workload.importers.graphs import GraphBuilder

DOMAIN = "com.microsoft"
INT8, UINT8 = TensorProto.INT8, TensorProto.UINT8


def imported(net: GraphBuilder, folder: Path, *outputs: str) -> ImportedModel:
    return import_onnx(net.save(folder, *outputs))


def scale(net: GraphBuilder, kind: int = INT8) -> tuple[str, str]:
    """A scale and a zero point."""
    return net.constant(0.1, scalar=True), net.weight(kind=kind)


def test_a_fused_convolution_needs_no_written_shape(tmp_path: Path) -> None:
    net = GraphBuilder()
    x = net.input("x", (1, 3, 16, 16))
    net.add(
        "FusedConv", x, net.weight(8, 3, 3, 3), net.weight(8), name="a", domain=DOMAIN,
        activation="Relu", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2],
    )  # fmt: skip
    net.conv("a", (8, 4), norm=False, name="b")
    network = imported(net, tmp_path, "b").workload
    assert network["a"].dims == Dims(K=8, C=3, P=8, Q=8, R=3, S=3)
    assert network["a"].epilogue == ("bias", "relu")


def test_a_network_of_small_words(tmp_path: Path) -> None:
    """What static quantization makes of two convolutions side by side, a pooling and a linear layer."""
    net = GraphBuilder()
    x = net.input("x", (1, 8, 16, 16), INT8)
    halves: list[str] = []
    for name in ("a", "b"):
        weight = net.weight(4, 8, 1, 1, kind=INT8)
        halves.append(net.add("QLinearConv", x, *scale(net), weight, *scale(net), *scale(net), name=name))
    pieces = [name for half in halves for name in (half, *scale(net))]
    y = net.add("QLinearConcat", *scale(net), *pieces, domain=DOMAIN, axis=1)
    y = net.add("QLinearAveragePool", y, *scale(net), *scale(net), domain=DOMAIN, kernel_shape=[2, 2], strides=[2, 2])
    y = net.add("QLinearConv", y, *scale(net), net.weight(6, 8, 1, 1, kind=INT8), *scale(net), *scale(net), name="c")
    y = net.add("QLinearGlobalAveragePool", y, *scale(net), *scale(net), domain=DOMAIN)
    y = net.add("Flatten", y)
    weight = net.weight(10, 6, kind=INT8)
    y = net.add("QGemm", y, *scale(net), weight, *scale(net), "", *scale(net), name="d", domain=DOMAIN, transB=1)
    net.add("QLinearSoftmax", y, *scale(net), *scale(net), name="out", domain=DOMAIN, axis=-1, opset=13)
    found = imported(net, tmp_path, "out")
    assert [layer.dims for layer in found.workload.layers] == [
        Dims(K=4, C=8, P=16, Q=16),
        Dims(K=4, C=8, P=16, Q=16),
        Dims(K=6, C=8, P=8, Q=8),
        Dims(K=10, C=6),
    ]
    assert found.report.fusible_edges == len(found.report.edges) == 3
    assert found.report.not_modelled == ()


def test_scales_of_the_run_need_all_of_a_tensor(tmp_path: Path) -> None:
    net = GraphBuilder()
    y = net.add("MatMul", net.input("x", (4, 8)), net.weight(8, 16), name="a")
    weight = net.weight(16, 6, kind=INT8)
    net.add("DynamicQuantizeMatMul", y, weight, net.constant(1, scalar=True), name="b", domain=DOMAIN)
    found = imported(net, tmp_path, "b")
    assert found.workload["b"].dims == Dims(N=4, K=6, C=16)
    (edge,) = found.report.edges
    assert edge.reason == "DynamicQuantizeMatMul b runs over more than the channels of one place"


def test_a_product_of_small_words_that_leaves_large_ones(tmp_path: Path) -> None:
    net = GraphBuilder()
    x, weight = net.input("x", (2, 10, 16), UINT8), net.weight(16, 6, kind=INT8)
    scales = [net.constant(1, scalar=True) for _ in range(2)]
    y = net.add("MatMulIntegerToFloat", x, weight, *scales, name="a", domain=DOMAIN)
    net.add("MatMul", y, net.weight(6, 3), name="b")
    network = imported(net, tmp_path, "b").workload
    assert (network["a"].dims, network["b"].dims) == (Dims(N=20, K=6, C=16), Dims(N=20, K=3, C=6))


def test_an_lstm_of_small_words(tmp_path: Path) -> None:
    """Its weights have gates last, and what follows knows its shape."""
    net = GraphBuilder()
    x = net.input("x", (5, 2, 8))
    weights = [net.weight(1, size, 24, kind=INT8) for size in (8, 6)]
    scales = [name for _ in range(2) for name in scale(net)]
    inputs = (x, *weights, net.weight(1, 48), "", "", "", "", *scales)
    net.add("DynamicQuantizeLSTM", *inputs, outputs=3, name="lstm", domain=DOMAIN, hidden_size=6)
    net.add("MatMul", "lstm", net.weight(6, 3), name="out")
    network = imported(net, tmp_path, "out").workload
    assert network["lstm.input"].dims == Dims(N=10, K=24, C=8)
    assert network["lstm.state"].dims == Dims(N=2, K=24, C=6)
    assert network["out"].macs == 5 * 2 * 6 * 3


@pytest.mark.parametrize("kind", ["MultiHeadAttention", "GroupQueryAttention"])
def test_attention_with_earlier_tokens(kind: str, tmp_path: Path) -> None:
    """Keys that are kept are an output whose shape the file leaves open."""
    net = GraphBuilder()
    grouped = kind == "GroupQueryAttention"
    shared = 2 if grouped else 8
    tensors = [net.input(name, (1, 3, heads * 16)) for name, heads in (("q", 8), ("k", shared), ("v", shared))]
    past = [net.input(name, (1, shared, 7, 16)) for name in ("past_k", "past_v")]
    between = () if grouped else ("", "", "")
    more = {"kv_num_heads": 2} if grouped else {}
    made = net.add_all(kind, *tensors, *between, *past, outputs=3, name="a", domain=DOMAIN, num_heads=8, **more)
    found = imported(net, tmp_path, *made)
    assert found.workload["a.scores"].macs == found.workload["a.values"].macs == 8 * 3 * 10 * 16
    assert found.report.not_modelled == ()


def test_an_optimized_transformer_from_before_its_operators_were_onnx(tmp_path: Path) -> None:
    """Embeddings and their norm in one, attention of small words, a norm that ONNX has only later."""
    net = GraphBuilder(opset=11)
    ids = [net.input(name, (1, 10), TensorProto.INT32) for name in ("ids", "segments")]
    tables = [net.weight(rows, 64) for rows in (100, 32, 2)]
    norm = [net.weight(64), net.weight(64)]
    x = net.add("EmbedLayerNormalization", *ids, *tables, *norm, outputs=2, name="embed", domain=DOMAIN)
    weight, bias = net.weight(64, 192, kind=INT8), net.weight(192)
    scales = [net.constant(1, scalar=True) for _ in range(2)]
    y = net.add("QAttention", x, weight, bias, *scales, name="attention", domain=DOMAIN, num_heads=4)
    y = net.add("LayerNormalization", y, net.weight(64), net.weight(64), axis=-1)
    net.add("TransposeMatMul", y, net.weight(32, 64), name="out", domain=DOMAIN, transB=1)
    network = imported(net, tmp_path, "out").workload
    assert [layer.macs for layer in network.layers] == [10 * 64 * 192, 10 * 10 * 64, 10 * 10 * 64, 10 * 64 * 32]
    assert "layer_norm" in network["attention.values"].epilogue


def test_rotary_embeddings_are_folded(tmp_path: Path) -> None:
    net = GraphBuilder()
    x, positions = net.input("x", (1, 10, 64)), net.input("positions", (1, 10), TensorProto.INT64)
    y = net.add("MatMul", x, net.weight(64, 64), name="q")
    tables = [net.weight(128, 8) for _ in range(2)]
    y = net.add("RotaryEmbedding", y, positions, *tables, name="turn", domain=DOMAIN, num_heads=4)
    net.add("MatMul", y, net.weight(64, 8), name="out")
    found = imported(net, tmp_path, "out")
    assert found.report.not_modelled == ()
    assert [row.layer for row in found.report.folded if row.type == "RotaryEmbedding"] == ["q"]


def test_channels_in_blocks_are_refused(tmp_path: Path) -> None:
    net = GraphBuilder()
    x = net.input("x", (1, 8, 16, 16))
    net.add("Conv", x, net.weight(8, 8, 3, 3), name="a", domain="com.microsoft.nchwc")
    with pytest.raises(FadiffError, match=r"channels out in blocks .*: save it with a lower level of optimization"):
        imported(net, tmp_path, "a")
