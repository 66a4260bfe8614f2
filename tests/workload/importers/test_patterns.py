"""What becomes of the things that networks are made of: folds, edges, and the reasons against edges."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import fadiff
from fadiff.workload import Dims, Layer
from fadiff.workload.importers import ImportedModel, ImportFailure, import_onnx
from workload.importers.graphs import GraphBuilder


class Imports:
    """Imports graphs under construction."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, net: GraphBuilder, *outputs: str, dims: Mapping[str, int] | None = None) -> ImportedModel:
        return import_onnx(net.save(self.folder, *outputs), dims=dims or {})


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    return Imports(tmp_path)


def edges(imported: ImportedModel) -> dict[tuple[str, str, str], str | None]:
    return {(edge.source, edge.target, edge.port): edge.reason for edge in imported.report.edges}


def image(channels: int = 8, size: int = 16, opset: int = 17) -> tuple[GraphBuilder, str]:
    net = GraphBuilder(opset)
    return net, net.input("x", (1, channels, size, size))


# --- convolutions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "weight", "expected", "pad"),
    [
        ({}, (6, 8, 3, 3), Dims(K=6, C=8, P=14, Q=14, R=3, S=3), (0, 0)),
        ({"pads": [1, 1, 1, 1], "strides": [2, 2]}, (6, 8, 3, 3), Dims(K=6, C=8, P=8, Q=8, R=3, S=3), (1, 1)),
        ({"pads": [0, 1, 1, 2], "strides": [2, 1]}, (6, 8, 3, 5), Dims(K=6, C=8, P=8, Q=15, R=3, S=5), (0, 1)),
        ({"auto_pad": "SAME_UPPER", "strides": [3, 2]}, (6, 8, 3, 3), Dims(K=6, C=8, P=6, Q=8, R=3, S=3), (1, 0)),
        ({"auto_pad": "SAME_LOWER"}, (6, 8, 2, 4), Dims(K=6, C=8, P=16, Q=16, R=2, S=4), (1, 2)),
        ({"auto_pad": "SAME_UPPER"}, (6, 8, 2, 4), Dims(K=6, C=8, P=16, Q=16, R=2, S=4), (0, 1)),
        ({"auto_pad": "VALID"}, (6, 8, 5, 1), Dims(K=6, C=8, P=12, Q=16, R=5), (0, 0)),
        ({"dilations": [2, 3], "pads": [2, 3, 2, 3]}, (6, 8, 3, 3), Dims(K=6, C=8, P=16, Q=16, R=3, S=3), (2, 3)),
        ({"strides": [2, 2]}, (6, 8, 1, 1), Dims(K=6, C=8, P=8, Q=8), (0, 0)),
        ({"group": 2}, (6, 4, 1, 1), Dims(G=2, K=3, C=4, P=16, Q=16), None),
        ({"group": 8}, (16, 1, 1, 1), Dims(G=8, K=2, P=16, Q=16), None),
    ],
)
def test_a_convolution_is_one_layer(
    imports, attributes: dict[str, object], weight: tuple[int, ...], expected: Dims, pad: tuple[int, int] | None
):
    net, x = image()
    net.add("Conv", x, net.weight(*weight), net.weight(weight[0]), name="conv", **attributes)
    (layer,) = imports(net, "conv").workload.layers
    assert layer.dims == expected
    assert layer.stride == tuple(attributes.get("strides", [1, 1]))
    assert layer.dilation == tuple(attributes.get("dilations", [1, 1]))
    assert layer.pad == pad
    assert layer.epilogue == ("bias",)


def test_a_convolution_over_one_axis_runs_over_rows(imports):
    net = GraphBuilder()
    x = net.input("x", (2, 8, 100))
    y = net.add("Conv", x, net.weight(4, 8, 5), name="a", strides=[2])
    net.add("Conv", y, net.weight(6, 4, 3), name="b", pads=[2, 0])
    imported = imports(net, "b")
    a, b = imported.workload.layers
    assert (a.dims, a.stride) == (Dims(N=2, K=4, C=8, P=48, R=5), (2, 1))
    assert b.dims == Dims(N=2, K=6, C=4, P=48, R=3)  # padded on one side only: causal
    assert (a.pad, b.pad) == ((0, 0), (2, 0))
    assert imported.report.fusible_edges == 1


def test_a_convolution_over_three_axes_counts_every_product(imports):
    net = GraphBuilder()
    x = net.input("x", (2, 3, 8, 16, 16))
    y = net.add("Conv", x, net.weight(4, 3, 1, 3, 3), name="a", pads=[0, 1, 1, 0, 1, 1])
    y = net.add("Conv", y, net.weight(5, 4, 1, 1, 1), name="b")
    net.add("Conv", y, net.weight(6, 5, 3, 3, 3), name="c")
    imported = imports(net, "c")
    a, b, c = imported.workload.layers
    assert a.dims == Dims(N=16, K=4, C=3, P=16, Q=16, R=3, S=3)  # depth joins the batch
    assert c.dims == Dims(N=12, K=6, C=15, P=14, Q=14, R=3, S=3)  # kernel planes join the channels
    assert (a.pad, b.pad, c.pad) == ((1, 1), None, (0, 0))
    assert c.macs == 2 * 6 * 5 * 6 * 14 * 14 * 27
    assert b.macs == 16 * 5 * 4 * 16 * 16
    assert edges(imported)["a", "b", "input"] is None
    assert "kernel planes" in (edges(imported)["b", "c", "input"] or "")


@pytest.mark.parametrize(
    ("kernel", "attributes", "layers"),
    [
        (2, {"strides": [2, 2]}, [(Dims(K=20, C=8, P=16, Q=16), None)]),
        # Of its two phases along each axis one begins a row above the image: no one padding says both.
        (4, {"strides": [2, 2], "pads": [1, 1, 1, 1]}, [(Dims(K=20, C=8, P=16, Q=16, R=2, S=2), None)]),
        (
            3,
            {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
            [
                (Dims(K=5, C=8, P=16, Q=16), None),
                (Dims(K=5, C=8, P=16, Q=16, S=2), (0, 0)),
                (Dims(K=5, C=8, P=16, Q=16, R=2), (0, 0)),
                (Dims(K=5, C=8, P=16, Q=16, R=2, S=2), (0, 0)),
            ],
        ),
        (3, {"pads": [1, 1, 1, 1]}, [(Dims(K=5, C=8, P=16, Q=16, R=3, S=3), (1, 1))]),
    ],
)
def test_a_transposed_convolution_is_counted_without_its_zeros(imports, kernel: int, attributes, layers):
    net, x = image()
    net.add("ConvTranspose", x, net.weight(8, 5, kernel, kernel), name="up", **attributes)
    imported = imports(net, "up")
    assert [(layer.dims, layer.pad) for layer in imported.workload.layers] == layers
    assert imported.workload.macs == 8 * 5 * kernel**2 * 16 * 16  # every input word times every kernel word
    assert imported.workload.parameter_words == 8 * 5 * kernel**2


def test_what_reads_a_transposed_convolution_reads_it_from_dram(imports):
    net, x = image()
    y = net.add("ConvTranspose", x, net.weight(8, 4, 2, 2), net.weight(4), name="up", strides=[2, 2])
    net.conv(net.add("Relu", net.batch_norm(y, 4)), (4, 4), 3, norm=False, name="conv")
    net.add("ConvTranspose", x, net.weight(8, 4, 2, 2), name="same", group=2)
    imported = imports(net, "conv")
    assert imported.workload["up"].epilogue == ("bias", "batch_norm", "relu")
    assert "rows and columns" in (edges(imported)["up", "conv", "input"] or "")


def test_a_transposed_convolution_without_a_stride_is_a_plain_one(imports):
    net, x = image()
    y = net.add("ConvTranspose", x, net.weight(8, 4, 3, 3), name="up", pads=[1, 1, 1, 1])
    net.conv(y, (4, 4), 3, norm=False, name="conv")
    assert imports(net, "conv").report.fusible_edges == 1


@pytest.mark.parametrize(
    ("kernel", "attributes", "fuses"),
    [
        (2, {"strides": [2, 2]}, [True]),
        (4, {"strides": [2, 2], "pads": [1, 1, 1, 1]}, [False]),
        (2, {"strides": [2, 2], "pads": [1, 1, 1, 1]}, [False]),  # one of two phases skips the first row
        (3, {"strides": [2, 2]}, [True] * 4),
        (2, {"dilations": [3, 3], "strides": [2, 2]}, [False]),  # outputs before the first product
    ],
)
def test_a_transposed_convolution_fuses_where_one_padding_says_what_it_reads(imports, kernel, attributes, fuses):
    net, x = image()
    y = net.conv(x, (8, 8), 3, norm=False, name="conv")
    net.add("ConvTranspose", y, net.weight(8, 5, kernel, kernel), name="up", **attributes)
    imported = imports(net, "up")
    assert [layer.inputs[0].fusible for layer in imported.workload.layers[1:]] == fuses
    told = {edge.reason for edge in imported.report.edges if not edge.fusible}
    assert told <= {"no one padding within reach of the kernel tells which rows and columns are read"}


def test_padding_of_its_own_is_padding_of_the_convolution(imports):
    net, x = image()
    y = net.conv(x, (8, 8), 3, name="a")
    y = net.add("Pad", y, net.integers(0, 0, 1, 1, 0, 0, 1, 1))
    y = net.add("Conv", y, net.weight(8, 8, 3, 3), name="b", strides=[2, 2])
    y = net.add("Pad", y, net.integers(0, 0, 9, 9, 0, 0, 9, 9))
    net.add("Conv", y, net.weight(8, 8, 3, 3), name="c")
    imported = imports(net, "c")
    assert imported.workload["b"].dims == Dims(K=8, C=8, P=8, Q=8, R=3, S=3)
    assert imported.workload["b"].pad == (1, 1)
    assert edges(imported)["a", "b", "input"] is None
    assert imported.workload["c"].pad is None  # more padding than a 3x3 kernel can see
    assert "no one padding within reach" in (edges(imported)["b", "c", "input"] or "")


@pytest.mark.parametrize(
    ("pads", "own", "pad"),
    [
        ([1, 0, 0, 1], [0, 0, 0, 0], (1, 0)),
        ([0, 0, 1, 1], [0, 1, 1, 0], (0, 1)),
        ([1, 1, 0, 0], [1, 0, 1, 2], (2, 1)),
    ],
)
def test_padding_above_and_to_the_left_is_told_as_it_is(imports, pads: list[int], own: list[int], pad):
    """Along channels last too: the padding operator pads rows and columns, wherever these lie."""
    net, x = image()
    y = net.conv(x, (8, 8), 3, name="a")
    y = net.add("Transpose", y, perm=[0, 2, 3, 1])
    top, left, bottom, right = pads
    y = net.add("Pad", y, net.integers(0, top, left, 0, 0, bottom, right, 0))
    y = net.add("Transpose", y, perm=[0, 3, 1, 2])
    net.add("Conv", y, net.weight(8, 8, 3, 3), name="b", pads=own)
    imported = imports(net, "b")
    assert imported.workload["b"].pad == pad
    assert edges(imported)["a", "b", "input"] is None


def test_rows_below_that_the_kernel_cannot_reach_keep_an_edge_from_fusing(imports):
    net, x = image()
    y = net.conv(x, (8, 8), 3, name="a")
    net.add("Conv", y, net.weight(8, 8, 3, 3), name="b", pads=[1, 1, 3, 1])
    imported = imports(net, "b")
    assert imported.workload["b"].pad == (1, 1)
    assert "16 rows arrive, the layer reads 20" in (edges(imported)["a", "b", "input"] or "")


def test_padding_of_a_network_input_is_a_part_of_it(imports):
    net, x = image()
    y = net.add("Pad", x, net.integers(0, 0, 1, 1, 0, 0, 1, 1))
    net.add("Conv", y, net.weight(8, 8, 3, 3), name="a")
    assert imports(net, "a").workload["a"].pad == (0, 0)


# --- vector operators ------------------------------------------------------------------------------------------------


def test_everything_elementwise_on_one_tensor_is_one_epilogue(imports):
    net, x = image()
    y = net.conv(x, (8, 8), 3, name="a")
    y = net.add("Mul", y, net.add("Sigmoid", y))
    y = net.gelu(net.add("LeakyRelu", y))
    net.add("HardSwish", net.add("Clip", y, net.constant(-1, scalar=True), net.constant(1, scalar=True)), name="out")
    (layer,) = imports(net, "out").workload.layers
    assert layer.epilogue == ("batch_norm", "silu", "relu", "gelu", "clip", "silu")


@pytest.mark.parametrize("written", ["LayerNormalization", "ten nodes", "rms"])
def test_a_layer_norm_is_one_operator_however_it_is_written(imports, written: str):
    net = GraphBuilder()
    x = net.linear(net.input("x", (4, 10, 32)), 32, 64, name="a")
    match written:
        case "ten nodes":
            x = net.layer_norm(x, 64)
        case "rms":
            x = net.rms_norm(x, 64)
        case _:
            x = net.add("LayerNormalization", x, net.weight(64), net.weight(64), axis=-1)
    net.linear(x, 64, 16, name="b")
    imported = imports(net, "b")
    assert imported.workload["a"].epilogue == ("bias", "layer_norm")
    assert imported.report.fusible_edges == 1


def test_a_softmax_is_one_operator_however_it_is_written(imports):
    net = GraphBuilder()
    x = net.linear(net.input("x", (4, 10, 32)), 32, 64, name="a")
    shifted = net.add("Exp", net.add("Sub", x, net.add("ReduceMax", x, axes=[-1])))
    x = net.add("Div", shifted, net.add("ReduceSum", shifted, net.integers(-1)))
    net.linear(x, 64, 16, name="b")
    assert imports(net, "b").workload["a"].epilogue == ("bias", "softmax")


@pytest.mark.parametrize(
    "norm",
    [
        lambda net, y: net.add("InstanceNormalization", y, net.weight(8), net.weight(8)),
        lambda net, y: net.add("Sub", y, net.add("ReduceMean", y, axes=[2, 3])),
        lambda net, y: net.add("Softmax", y, axis=-1),
        lambda net, y: net.add("DynamicQuantizeLinear", y, outputs=3),
    ],
    ids=["instance norm", "its mean", "softmax over a row", "dynamic quantization"],
)
def test_nobody_reads_a_tensor_on_chip_whose_norm_needs_all_of_it(imports, norm):
    net, x = image()
    y = norm(net, net.conv(x, (8, 8), 3, norm=False, name="a"))
    kind, words = ("ConvInteger", TensorProto.UINT8) if "Quantize" in y else ("Conv", TensorProto.FLOAT)
    net.add(kind, y, net.weight(8, 8, 1, 1, kind=words), name="b")
    reason = edges(imports(net, "b"))["a", "b", "input"]
    assert reason is not None
    assert "runs over more than" in reason or "needs all of" in reason


def test_pooling_changes_what_is_stored_if_all_readers_want_it(imports):
    net, x = image()
    y = net.add("Relu", net.conv(x, (8, 8), 3, norm=False, name="a"))
    y = net.add("AveragePool", net.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), kernel_shape=[3, 3])
    for name in ("b", "c"):
        net.conv(y, (8, 8), name=name, norm=False)
    net.add("Add", "b", "c", name="out")
    imported = imports(net, "out")
    a = imported.workload["a"]
    assert (a.epilogue, a.stored) == (("bias", "relu", "max_pool", "avg_pool"), (6, 6))
    assert all(edge.fusible for edge in imported.report.edges)


def test_a_tensor_is_stored_as_it_is_if_one_reader_pools_it_and_another_does_not(imports):
    net, x = image()
    y = net.conv(x, (8, 8), 3, norm=False, name="a")
    net.conv(y, (8, 8), 3, 2, norm=False, name="b")
    pooled = net.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2], name="pool")
    net.conv(pooled, (8, 8), norm=False, name="c")
    net.add("Concat", "b", "c", axis=1, name="join")
    net.conv("join", (16, 4), norm=False, name="d")
    imported = imports(net, "d")
    assert imported.workload["a"].stored == (16, 16)
    found = edges(imported)
    assert found["a", "b", "input"] is None
    assert found["a", "c", "input"] == "MaxPool pool is for this reader alone: others read it as it was"
    assert found["b", "d", "input"] is found["c", "d", "input"] is None
    assert imported.workload["c"].dims.P == 8


def test_a_concatenation_is_pooled_piece_by_piece(imports):
    net, x = image()
    parts = [net.add("Relu", net.conv(x, (8, 4 * i), 3, norm=False, name=f"a{i}")) for i in (1, 2)]
    y = net.add(
        "GlobalAveragePool", net.add("BatchNormalization", net.add("Concat", *parts, axis=1), *[net.weight(12)] * 4)
    )
    net.add("Gemm", net.add("Flatten", y), net.weight(12, 5), name="fc")
    imported = imports(net, "fc")
    assert imported.workload["a1"].epilogue == ("bias", "relu", "global_pool")
    assert [operand.source for operand in imported.workload["fc"].inputs] == ["a1", "a2"]
    assert imported.report.fusible_edges == 2


def test_upsampling_grows_what_is_stored(imports):
    net, x = image()
    y = net.conv(x, (8, 8), norm=False, name="a")
    y = net.add("Resize", y, "", net.constant(1, 1, 2, 2), mode="nearest")
    net.conv(y, (8, 8), 3, norm=False, name="b")
    a = imports(net, "b").workload["a"]
    assert (a.epilogue, a.stored) == (("bias", "upsample"), (32, 32))


# --- sums and products -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Add", "Mul", "Sub", "Max"])
def test_two_stored_tensors_meet_in_an_add_layer(imports, kind: str):
    net, x = image()
    y = net.conv(x, (8, 8), 3, norm=False, name="a")
    z = net.conv(y, (8, 8), 3, norm=False, name="b")
    net.add("Relu", net.add(kind, y, z, name="sum"), name="out")
    imported = imports(net, "out")
    total = imported.workload["sum"]
    assert (total.kind, total.dims) == ("add", Dims(K=8, P=16, Q=16))
    assert total.epilogue == ("relu",)
    assert imported.report.fusible_edges == 3


def test_a_sum_with_a_constant_or_a_broadcast_input_is_no_layer(imports):
    net, x = image()
    net.input("mask", (1, 1, 16, 16))
    y = net.conv(x, (8, 8), 3, norm=False, name="a")
    y = net.add("Add", y, net.weight(1, 8, 16, 16))
    net.add("Mul", y, net.add("Sub", net.constant(1, scalar=True), "mask"), name="out")
    (layer,) = imports(net, "out").workload.layers
    assert layer.epilogue == ("bias", "scale")


def test_a_sum_with_a_whole_input_reads_it(imports):
    net, x = image()
    net.add("Add", net.conv(x, (8, 8), 3, norm=False, name="a"), x, name="sum")
    imported = imports(net, "sum")
    assert [operand.source for operand in imported.workload["sum"].inputs] == ["a", None]


def squeeze_and_excite(net: GraphBuilder, y: str, channels: int) -> str:
    gate = net.conv(net.add("GlobalAveragePool", y, name="squeeze"), (channels, 4), norm=False, name="down")
    gate = net.add("Sigmoid", net.conv(net.add("Relu", gate), (4, channels), norm=False, name="up"))
    return net.add("Mul", y, gate, name="gate")


def test_a_gate_is_applied_by_who_reads_the_tensor(imports):
    net, x = image()
    y = squeeze_and_excite(net, net.conv(x, (8, 8), 3, norm=False, name="a"), 8)
    net.conv(net.add("HardSwish", y), (8, 8), norm=False, name="b")
    imported = imports(net, "b")
    assert [layer.name for layer in imported.workload.layers] == ["a", "down", "up", "b"]
    found = edges(imported)
    assert found["a", "down", "input"] == "GlobalAveragePool squeeze is for this reader alone: others read it as it was"
    assert found["down", "up", "input"] is None
    assert found["a", "b", "input"] == found["up", "b", "input"] == "Mul gate waits for up as well"
    assert imported.workload["b"].input_words == 8 * 16 * 16  # what it reads from DRAM, in all


def test_a_gated_tensor_that_is_summed_is_one_addend_of_the_sum(imports):
    """It waits for the gate, which waits for the tensor."""
    net, x = image()
    y = net.conv(x, (8, 8), 3, norm=False, name="a")
    net.add("Add", squeeze_and_excite(net, y, 8), net.conv(x, (8, 8), norm=False, name="skip"), name="sum")
    total = imports(net, "sum").workload["sum"]
    assert {operand.source: operand.fusible for operand in total.inputs} == {"up": False, "skip": True}
    assert total.dims == Dims(K=8, P=16, Q=16)


def test_halves_of_a_tensor_meet_in_an_add_layer(imports):
    net = GraphBuilder()
    y = net.linear(net.input("x", (1, 10, 16)), 16, 64, bias=False, name="gate_up")
    gate, up = net.add_all("Split", y, net.integers(32, 32), outputs=2, axis=-1, name="split")
    product = net.add("Mul", net.add("Mul", gate, net.add("Sigmoid", gate)), up, name="product")
    net.linear(product, 32, 16, bias=False, name="down")
    imported = imports(net, "down")
    assert [layer.name for layer in imported.workload.layers] == ["gate_up", "product", "down"]
    joined = imported.workload["product"]
    assert joined.dims == Dims(N=10, K=32)
    assert [(o.source, o.fusible) for o in joined.inputs] == [("gate_up", False), ("gate_up", False)]
    assert edges(imported)["product", "down", "input"] is None


# --- data movement ---------------------------------------------------------------------------------------------------


def test_a_concatenation_of_channels_is_several_inputs(imports):
    net, x = image()
    parts = [net.conv(x, (8, 4 * i), 3, norm=False, name=f"a{i}") for i in (1, 2, 3)]
    y = net.add("Concat", net.add("Concat", *parts[:2], axis=1), parts[2], x, axis=1)
    net.conv(y, (32, 8), 3, norm=False, name="b")
    imported = imports(net, "b")
    assert [operand.source for operand in imported.workload["b"].inputs] == ["a1", "a2", "a3", None]
    assert [edge.channels for edge in imported.workload.producers["b"]] == [4, 8, 12]
    assert imported.report.fusible_edges == 3


def test_a_concatenation_of_rows_goes_through_dram_and_waits_for_all(imports):
    net, x = image()
    parts = [net.conv(x, (8, 8), 3, norm=False, name=f"a{i}") for i in (1, 2)]
    net.conv(net.add("Concat", *parts, axis=2, name="join"), (8, 8), norm=False, name="b")
    imported = imports(net, "b")
    assert imported.workload["b"].dims.P == 32
    assert set(edges(imported).values()) == {"Concat join joins along axis 2, not along channels"}
    assert [operand.source for operand in imported.workload["b"].inputs] == ["a1", "a2"]


def test_a_layer_of_few_channels_waits_for_as_many_tensors(imports):
    """Each operand brings a channel at least; what cannot be said is told."""
    net, x = image()
    y = net.conv(x, (8, 1), 3, norm=False, name="a1")
    parts = [net.conv(x, (8, 1), 3, norm=False, name="a0"), y, net.conv(y, (1, 1), 3, norm=False, name="a2")]
    net.conv(net.add("Concat", *parts, axis=2), (1, 4), norm=False, name="b")
    imported = imports(net, "b")
    assert [operand.source for operand in imported.workload["b"].inputs] == ["a2"]  # which waits for a1
    assert imported.report.notes == ("b waits for a0 as well, which the network does not say",)
    assert "must be written" in (edges(imported)["a1", "a2", "input"] or "")


def test_many_tensors_that_are_waited_for_are_told_in_one_note(imports):
    net, x = image()
    parts = [net.conv(x, (8, 1), 3, norm=False, name=f"a{i}") for i in range(6)]
    net.conv(net.add("Concat", *parts, axis=2), (1, 4), norm=False, name="b")
    (note,) = imports(net, "b").report.notes
    assert note == "b waits for a4, a3, a2 and 2 more as well, which the network does not say"


def test_many_layers_that_wait_are_one_note(imports):
    net, x = image()
    for i in range(3):
        parts = [net.conv(x, (8, 1), 3, norm=False, name=f"{name}{i}") for name in "ab"]
        net.conv(net.add("Concat", *parts, axis=2), (1, 4), norm=False, name=f"c{i}")
    (note,) = imports(net, "c0", "c1", "c2").report.notes
    assert note == "c0 waits for a0 as well, which the network does not say (and 2 more such waits)"


def test_a_join_of_channels_that_lie_otherwise_is_not_blamed_on_the_axis(imports):
    """The phases of a transposed convolution are its innermost channels."""
    net, x = image()
    y = net.conv(x, (8, 8), 3, norm=False, name="a")
    pooled = net.conv(net.add("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), (8, 8), norm=False, name="b")
    grown = net.add("ConvTranspose", pooled, net.weight(8, 8, 2, 2), strides=[2, 2], name="grown")
    net.conv(net.add("Concat", y, grown, axis=1, name="join"), (16, 8), norm=False, name="c")
    found = edges(imports(net, "c"))
    told = "Concat join joins tensors whose channels, rows or columns lie differently"
    assert found["a", "c", "input"] == found["grown", "c", "input"] == told


@pytest.mark.parametrize(
    ("kind", "attributes", "inputs", "words"),
    [
        ("Slice", {}, [(0,), (4,), (1,)], 4 * 16 * 16),
        ("Slice", {}, [(0, 2), (16, 2**40), (2, 3), (2, 2)], 8 * 8 * 7),
        ("Gather", {"axis": 1}, [(1, 2, 3)], 3 * 16 * 16),
        ("Gather", {"axis": 1}, [(7, 0, 3)], 3 * 16 * 16),
    ],
)
def test_a_slice_goes_through_dram(imports, kind: str, attributes, inputs: list[tuple[int, ...]], words: int):
    net, x = image()
    y = net.conv(x, (8, 8), 3, norm=False, name="a")
    y = net.add(kind, y, *(net.integers(*values) for values in inputs), name="slice", **attributes)
    channels = 8 if kind == "Slice" and inputs[-1] != (1,) else words // 256
    net.conv(y, (channels, 8), norm=False, name="b")
    imported = imports(net, "b")
    assert (edges(imported)["a", "b", "input"] or "").startswith(f"{kind} slice ")
    assert imported.workload["b"].input_words == words
    assert imported.workload["a"].stored_words == 8 * 16 * 16


def test_a_slice_that_takes_everything_is_no_slice(imports):
    net, x = image()
    y = net.conv(x, (8, 8), 3, norm=False, name="a")
    net.conv(net.add("Slice", y, net.integers(0), net.integers(2**62), net.integers(1)), (8, 8), norm=False, name="b")
    assert imports(net, "b").report.fusible_edges == 1


def test_a_linear_layer_over_pixels_is_a_convolution(imports):
    """ConvNeXt: depthwise convolution, channels last, two linear layers, channels first, sum."""
    net, x = image()
    skip = net.conv(x, (8, 8), 3, norm=False, name="stem")
    y = net.add("Transpose", net.conv(skip, (8, 8), 7, groups=8, norm=False, name="dw"), perm=[0, 2, 3, 1])
    y = net.add("LayerNormalization", y, net.weight(8), net.weight(8), axis=-1)
    y = net.linear(net.gelu(net.linear(y, 8, 32, name="wide")), 32, 8, name="narrow")
    net.add("Add", skip, net.add("Transpose", y, perm=[0, 3, 1, 2]), name="sum")
    imported = imports(net, "sum")
    assert imported.workload["wide"].dims == Dims(K=32, C=8, P=16, Q=16)
    assert imported.workload["dw"].epilogue == ("bias", "layer_norm", "reshape")
    assert imported.workload["sum"].dims == Dims(K=8, P=16, Q=16)
    assert imported.report.fusible_edges == len(imported.report.edges) == 5


def test_an_image_can_be_flattened_for_one_reader_or_kept_for_others(imports):
    net, x = image(4, 6)
    y = net.conv(x, (4, 4), 3, norm=False, name="a")
    net.add("Gemm", net.add("Flatten", y), net.weight(144, 5), name="fc")
    (a, fc) = imports(net, "fc").workload.layers
    assert a.epilogue == ("bias", "flatten")
    assert fc.dims == Dims(K=5, C=144)
    net.conv(y, (4, 4), 3, norm=False, name="b")
    imported = imports(net, "fc", "b")
    assert imported.workload["a"].epilogue == ("bias",)
    assert "flattened for this reader alone" in (edges(imported)["a", "fc", "input"] or "")
    assert edges(imported)["a", "b", "input"] is None


def test_a_flatten_with_channels_last_reads_the_whole_tensor(imports):
    net, x = image(4, 6)
    y = net.add("Transpose", net.conv(x, (4, 4), 3, norm=False, name="a"), perm=[0, 2, 3, 1])
    net.add("Gemm", net.add("Flatten", y), net.weight(144, 5), name="fc")
    imported = imports(net, "fc")
    assert imported.workload["a"].epilogue == ("bias", "transpose")
    assert imported.report.fusible_edges == 1


def test_pixels_that_become_channels_go_through_dram(imports):
    net, x = image()
    y = net.conv(x, (8, 16), norm=False, name="a")
    net.conv(net.add("DepthToSpace", y, blocksize=2), (4, 4), 3, norm=False, name="b")
    net.conv(net.add("SpaceToDepth", "b", blocksize=4), (64, 4), norm=False, name="c")
    imported = imports(net, "c")
    assert imported.report.fusible_edges == 0
    assert [layer.dims.P for layer in imported.workload.layers] == [16, 32, 8]


def test_an_output_that_is_read_as_well_is_written(imports):
    net, x = image()
    y = net.conv(x, (8, 8), 3, norm=False, name="a")
    net.conv(y, (8, 8), norm=False, name="b")
    assert edges(imports(net, "b"))["a", "b", "input"] is None
    assert (
        edges(imports(net, "b", y))["a", "b", "input"]
        == "a is an output of the network too, or the state of a loop, and must be written"
    )


# --- matrix products -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "dims"),
    [
        ((5, 6), (6, 7), Dims(N=5, K=7, C=6)),
        ((3, 5, 6), (6, 7), Dims(N=15, K=7, C=6)),
        ((3, 5, 6), (3, 6, 7), Dims(G=3, N=5, K=7, C=6)),
        ((2, 3, 5, 6), (1, 3, 6, 7), Dims(G=3, N=10, K=7, C=6)),
        ((3, 5, 6), (2, 3, 6, 7), Dims(G=3, N=5, K=14, C=6)),
        ((6,), (6, 7), Dims(K=7, C=6)),
        ((5, 6), (6,), Dims(N=5, C=6)),
    ],
)
@pytest.mark.parametrize("weight", ["parameter", "input", "left parameter"])
def test_a_matrix_product_is_one_layer(imports, left, right, dims: Dims, weight: str):
    net = GraphBuilder()
    tensors = [net.input("x", left) if weight != "left parameter" else net.weight(*left)]
    tensors += [net.weight(*right) if weight == "parameter" else net.input("y", right)]
    net.add("MatMul", *tensors, name="product")
    (layer,) = imports(net, "product").workload.layers
    assert layer.has_weight_port == (weight == "input")
    assert layer.macs == np.prod(dims)
    if weight != "left parameter":
        assert layer.dims == dims
    else:
        assert (layer.dims.G, layer.dims.C, layer.dims.N * layer.dims.K) == (dims.G, dims.C, dims.N * dims.K)


@pytest.mark.parametrize("bits", range(4))
def test_gemm_transposes_scales_and_adds(imports, bits: int):
    net = GraphBuilder()
    turned = (bits & 1, bits >> 1)
    x = net.input("x", (6, 5) if turned[0] else (5, 6))
    shape = (7, 6) if turned[1] else (6, 7)
    skip = net.linear(net.input("y", (5, 4)), 4, 7, name="skip")
    net.add("Gemm", x, net.weight(*shape), skip, name="gemm", transA=turned[0], transB=turned[1], alpha=0.5)
    imported = imports(net, "gemm")
    product, total = imported.workload.layers[1:]
    assert (product.dims, product.epilogue) == (Dims(N=5, K=7, C=6), ("scale",))
    assert (total.kind, total.dims) == ("add", Dims(N=5, K=7))


@pytest.mark.parametrize(
    ("equation", "shapes", "macs", "layers"),
    [
        ("bnc,ck->bnk", [(2, 5, 6), (6, 7)], 420, 1),
        ("bhnd,bhkd->bhnk", [(2, 3, 5, 6), (2, 3, 4, 6)], 720, 1),
        ("bnhd,hdk->bnk", [(2, 5, 3, 6), (3, 6, 7)], 1260, 1),
        ("...d,dk->...k", [(2, 5, 6), (6, 7)], 420, 1),
        ("ab,bc", [(5, 6), (6, 7)], 210, 1),
        ("abx,bc->ac", [(5, 6, 9), (6, 7)], 210, 1),
    ],
)
def test_einsum_is_a_product_where_it_is_one(imports, equation: str, shapes, macs: int, layers: int):
    net = GraphBuilder()
    x = net.conv(net.input("x", (1, shapes[0][0], 1, 1)), (shapes[0][0],) * 2, norm=False, name="before")
    y = net.add(
        "Expand",
        net.add("Reshape", x, net.integers(shapes[0][0], *[1] * (len(shapes[0]) - 1))),
        net.integers(*shapes[0]),
    )
    net.add("Einsum", y, net.weight(*shapes[1]), name="product", equation=equation)
    imported = imports(net, "product")
    assert imported.workload["product"].macs == macs
    assert len(imported.workload.layers) == 1 + layers


@pytest.mark.parametrize("equation", ["ii->i", "ab,bc,cd->ad", "aab,bc->ac"])
def test_einsum_is_reported_where_it_is_no_product(imports, equation: str):
    net = GraphBuilder()
    terms = equation.partition("->")[0].split(",")
    first = net.linear(net.input("x", (6, 6) if len(terms[0]) == 2 else (6, 6, 6)), 6, 6, name="before")
    net.add("Einsum", first, *(net.weight(6, 6) for _ in terms[1:]), name="product", equation=equation)
    network = imports(net, "product").workload
    (row,) = network.not_modelled
    assert row.macs == 6 ** len(set(equation) & set("abcdi"))
    assert network.coverage.not_modelled_share == row.macs / (row.macs + network.macs)
    assert row.weight_words == 36 * (len(terms) - 1)


def attention_inputs(net: GraphBuilder, heads: int, shared: int, width: int, rows: int) -> list[str]:
    x = net.input("x", (1, rows, heads * width))
    return [
        net.linear(x, heads * width, count * width, bias=False, name=name)
        for name, count in (("q", heads), ("k", shared), ("v", shared))
    ]


def expected_attention(heads: int, shared: int, width: int, rows: int) -> tuple[Dims, Dims]:
    together = rows * heads // shared
    return Dims(G=shared, N=together, K=rows, C=width), Dims(G=shared, N=together, K=width, C=rows)


@pytest.mark.parametrize("shared", [8, 2, 1])
def test_query_heads_that_share_keys_are_rows_of_one_group(imports, shared: int):
    """Grouped-query attention as exporters write it: keys and values are repeated."""
    net = GraphBuilder()
    q, k, v = attention_inputs(net, 8, shared, 16, 10)
    q = net.heads(q, 8, 16)
    k, v = (net.heads(tensor, shared, 16) for tensor in (k, v))
    if shared < 8:
        repeat = net.integers(1, shared, 8 // shared, 10, 16)
        k, v = (
            net.add(
                "Reshape",
                net.add("Expand", net.add("Unsqueeze", t, net.integers(2)), repeat),
                net.integers(1, 8, 10, 16),
            )
            for t in (k, v)
        )
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]), name="scores")
    values = net.add("MatMul", net.add("Softmax", scores, axis=-1), v, name="values")
    y = net.add("Reshape", net.add("Transpose", values, perm=[0, 2, 1, 3]), net.integers(1, 10, 128))
    net.linear(y, 128, 128, bias=False, name="out")
    imported = imports(net, "out")
    assert (imported.workload["scores"].dims, imported.workload["values"].dims) == expected_attention(8, shared, 16, 10)
    assert imported.report.fusible_edges == len(imported.report.edges) == 5
    assert imported.workload["k"].epilogue == ("transpose",)
    assert imported.workload["scores"].epilogue == ("softmax",)


@pytest.mark.parametrize("shared", [8, 2])
@pytest.mark.parametrize("axes", [3, 4])
def test_the_attention_operator_is_its_two_products(imports, shared: int, axes: int):
    net = GraphBuilder(23)
    q, k, v = attention_inputs(net, 8, shared, 16, 10)
    if axes == 4:
        q, k, v = (net.heads(t, count, 16) for t, count in ((q, 8), (k, shared), (v, shared)))
        net.add("Attention", q, k, v, name="attention")
    else:
        net.add("Attention", q, k, v, name="attention", q_num_heads=8, kv_num_heads=shared)
    imported = imports(net, "attention")
    scores, values = imported.workload["attention.scores"], imported.workload["attention.values"]
    assert (scores.dims, values.dims) == expected_attention(8, shared, 16, 10)
    assert imported.report.fusible_edges == len(imported.report.edges) == 4


@pytest.mark.parametrize("kind", ["MultiHeadAttention", "GroupQueryAttention", "packed", "Attention"])
def test_attention_of_onnx_runtime_is_its_two_products(imports, kind: str):
    net = GraphBuilder()
    name, domain = "attention", "com.microsoft"
    if kind == "Attention":
        x = net.input("x", (1, 10, 128))
        net.add(kind, x, net.weight(128, 384), net.weight(384), name=name, domain=domain, num_heads=8)
        shared = 8
    elif kind == "packed":
        shared = 2
        x = net.linear(net.input("x", (1, 10, 128)), 128, 192, bias=False, name="qkv")
        net.add("GroupQueryAttention", x, name=name, domain=domain, num_heads=8, kv_num_heads=2)
    else:
        shared = 2 if kind == "GroupQueryAttention" else 8
        q, k, v = attention_inputs(net, 8, shared, 16, 10)
        more = {"kv_num_heads": 2} if shared == 2 else {}
        net.add(kind, q, k, v, name=name, domain=domain, num_heads=8, **more)
    imported = imports(net, name)
    scores, values = imported.workload["attention.scores"], imported.workload["attention.values"]
    assert scores.macs == values.macs == 8 * 10 * 10 * 16
    if kind in ("MultiHeadAttention", "GroupQueryAttention"):
        assert (scores.dims, values.dims) == expected_attention(8, shared, 16, 10)
    assert imported.report.not_modelled == ()


def test_keys_from_before_are_read_from_dram(imports):
    net = GraphBuilder()
    q, k, v = attention_inputs(net, 4, 4, 8, 1)
    q, k, v = (net.heads(tensor, 4, 8) for tensor in (q, k, v))
    for name in ("past_k", "past_v"):
        net.input(name, (1, 4, 31, 8))
    k = net.add("Concat", "past_k", k, axis=2, name="keys")
    v = net.add("Concat", "past_v", v, axis=2)
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]), name="scores")
    net.add("MatMul", net.add("Softmax", scores), v, name="values")
    imported = imports(net, "values", k)
    assert imported.workload["scores"].dims == Dims(G=4, K=32, C=8)
    found = edges(imported)
    assert found["k", "scores", "weight"] == "Concat keys joins along axis 2, not along channels"
    assert found["scores", "values", "input"] is None


def test_a_concatenation_with_a_slice_fuses_what_is_whole(imports):
    """The block of YOLOv8: half of the channels go around, and are read from DRAM; the rest need not be."""
    net, x = image()
    y = net.conv(x, (8, 16), norm=False, name="a")
    halves = net.add_all("Split", y, net.integers(8, 8), outputs=2, name="halves", axis=1)
    z = net.conv(halves[1], (8, 8), 3, norm=False, name="b")
    joined = net.add("Concat", *halves, z, axis=1, name="join")
    net.conv(net.add("Relu", joined), (24, 8), norm=False, name="c")
    imported = imports(net, "c")
    found = edges(imported)
    assert found["a", "b", "input"] == found["a", "c", "input"] == "Split halves takes a part of it"
    assert found["b", "c", "input"] is None
    network = imported.workload
    assert [operand.source for operand in network["c"].inputs] == ["a", "a", "b"]
    assert network.input_channels(network["c"]) == (8, 8, 8)
    machine = fadiff.load_hardware("gemmini-large")
    assert fadiff.verify(fadiff.greedy(network, machine)).holds


def test_a_piece_of_more_layers_than_channels_is_not_read_piece_by_piece(imports):
    """The one channel that two layers leave together cannot be shared out between them."""
    net, x = image()
    several = [net.conv(x, (8, 1), norm=False, name=name) for name in ("a", "b")]
    rows = net.add("Concat", *several, axis=2)
    half = net.add("Slice", rows, net.integers(0), net.integers(16), net.integers(2))
    whole = net.conv(x, (8, 4), norm=False, name="c")
    net.conv(net.add("Concat", half, whole, axis=1, name="join"), (5, 8), norm=False, name="d")
    assert edges(imports(net, "d"))["c", "d", "input"] == "Concat join joins it with a tensor that goes through DRAM"


def test_a_norm_of_a_single_row_is_one_of_channels(imports):
    """The mean of all channels is a single word where there is one row, and the row is all it needs."""
    net = GraphBuilder(opset=13)
    y = net.linear(net.input("x", (1, 8)), 8, 16, name="a")
    net.linear(net.layer_norm(y, 16), 16, 4, name="b")
    imported = imports(net, "b")
    assert edges(imported) == {("a", "b", "input"): None}
    assert imported.workload["a"].epilogue == ("bias", "layer_norm")


def test_planes_that_are_skipped_cannot_be_fused(imports):
    net = GraphBuilder()
    x = net.input("x", (1, 3, 8, 16, 16))
    y = net.add("Conv", x, net.weight(4, 3, 1, 3, 3), name="a", pads=[0, 1, 1, 0, 1, 1])
    net.add("Conv", y, net.weight(6, 4, 1, 1, 1), name="b", strides=[2, 1, 1])
    imported = imports(net, "b")
    assert imported.workload["b"].dims == Dims(N=4, K=6, C=4, P=16, Q=16)
    assert edges(imported)["a", "b", "input"] == "only some of its planes are read, or planes of padding as well"


def test_a_weight_made_of_two_layers_is_waited_for(imports):
    net = GraphBuilder()
    q, k, v = attention_inputs(net, 1, 1, 8, 6)
    keys = net.add("Concat", k, v, axis=1, name="join")
    net.add("MatMul", q, net.add("Transpose", keys, perm=[0, 2, 1]), name="scores")
    imported = imports(net, "scores")
    scores = imported.workload["scores"]
    assert [(operand.source, operand.port) for operand in scores.inputs] == [
        ("q", "input"),
        ("k", "input"),
        ("v", "weight"),
    ]
    assert not any(operand.fusible for operand in scores.inputs)
    assert scores.dims == Dims(N=6, K=12, C=8)


# --- recurrent layers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("time", [1, 20])
def test_a_recurrent_layer_is_its_products(imports, kind: str, gates: int, directions: int, time: int):
    net = GraphBuilder()
    x = net.input("x", (time, 3, 10))
    net.add(
        kind, x, net.weight(directions, gates * 8, 10), net.weight(directions, gates * 8, 8),
        net.weight(directions, 2 * gates * 8), name="rnn", hidden_size=8,
        direction="bidirectional" if directions == 2 else "forward",
    )  # fmt: skip
    imported = imports(net, "rnn")
    assert imported.report.macs == directions * time * 3 * gates * 8 * (10 + 8)
    assert imported.workload.parameter_words == directions * gates * 8 * (10 + 8)
    assert imported.report.parameters == directions * gates * 8 * (10 + 8 + 2)
    steps = sum(layer.repeat for layer in imported.workload.layers if ".state" in layer.name)
    assert steps == directions * time


def test_time_steps_wait_for_each_other(imports):
    net = GraphBuilder()
    x = net.linear(net.input("x", (5, 3, 10)), 10, 10, name="before")
    y = net.add("LSTM", x, net.weight(1, 32, 10), net.weight(1, 32, 8), name="rnn", hidden_size=8)
    net.linear(y, 8, 2, name="after")
    imported = imports(net, "after")
    order = imported.workload.topological
    assert order == ("before", "rnn.input", "rnn.state", "rnn.gates", "rnn.state.rest", "rnn.gates.rest", "after")
    found = edges(imported)
    assert found["before", "rnn.input", "input"] is None
    assert found["rnn.state", "rnn.gates", "addend"] is None
    assert found["rnn.state.rest", "rnn.gates.rest", "addend"] is None
    assert found["rnn.gates", "rnn.state.rest", "input"] == "it is the state of the step before"
    assert found["rnn.gates.rest", "after", "input"] == "LSTM rnn leaves it step by step"


# --- quantized models ------------------------------------------------------------------------------------------------


def quantized(net: GraphBuilder, x: str) -> str:
    scale, zero = net.constant(0.1, scalar=True), net.constant(0, scalar=True, kind=np.uint8)
    return net.add("DequantizeLinear", net.add("QuantizeLinear", x, scale, zero), scale, zero)


def stored_words(net: GraphBuilder, *shape: int) -> str:
    scale = net.constant(0.1, scalar=True)
    return net.add("DequantizeLinear", net.weight(*shape, kind=TensorProto.INT8), scale)


def test_a_model_with_quantizers_is_the_model_without_them(imports):
    net, x = image()
    y = net.add("Conv", quantized(net, x), stored_words(net, 8, 8, 3, 3), name="a", pads=[1, 1, 1, 1])
    y = net.add("Relu", quantized(net, net.add("Relu", y)))
    z = net.add("Conv", quantized(net, y), stored_words(net, 8, 8, 1, 1), name="b")
    net.add("Add", quantized(net, y), quantized(net, z), name="sum")
    imported = imports(net, "sum")
    assert [layer.name for layer in imported.workload.layers] == ["a", "b", "sum"]
    assert imported.report.fusible_edges == len(imported.report.edges) == 3
    assert imported.report.parameters == 8 * 8 * 9 + 64
    assert {row.type: row.parameters for row in imported.report.operators}["Conv"] == 8 * 8 * 9 + 64


def test_quantized_operators_are_their_plain_forms(imports):
    net = GraphBuilder()
    x = net.input("x", (1, 8, 16, 16), TensorProto.UINT8)
    scale, zero = net.constant(0.1, scalar=True), net.constant(0, scalar=True, kind=np.uint8)
    weight = net.weight(4, 8, 3, 3, kind=TensorProto.UINT8)
    y = net.add("QLinearConv", x, scale, zero, weight, scale, zero, scale, zero, name="a")
    y = net.add("ConvInteger", y, net.weight(5, 4, 1, 1, kind=TensorProto.UINT8), zero, zero, name="b")
    y = net.add("Cast", net.add("Flatten", y), to=TensorProto.UINT8)
    both = net.weight(980, 3, kind=TensorProto.UINT8)
    y = net.add("QLinearMatMul", y, scale, zero, both, scale, zero, scale, zero, name="c")
    net.add("MatMulInteger", y, net.weight(3, 2, kind=TensorProto.UINT8), zero, name="d")
    imported = imports(net, "d")
    assert [layer.dims for layer in imported.workload.layers] == [
        Dims(K=4, C=8, P=14, Q=14, R=3, S=3),
        Dims(K=5, C=4, P=14, Q=14),
        Dims(K=3, C=980),
        Dims(K=2, C=3),
    ]
    assert imported.report.fusible_edges == 3
    assert [layer.epilogue for layer in imported.workload.layers] == [("scale",), ("flatten",), ("scale",), ()]


def test_words_of_four_bits_are_counted_one_by_one(imports):
    net = GraphBuilder()
    x = net.input("x", (1, 10, 64))
    packed, scales = net.weight(32, 2, 16, kind=TensorProto.UINT8), net.weight(64)
    net.add("MatMulNBits", x, packed, scales, name="a", domain="com.microsoft", K=64, N=32, bits=4, block_size=32)
    imported = imports(net, "a")
    assert imported.workload["a"].dims == Dims(N=10, K=32, C=64)


# --- what is not modelled --------------------------------------------------------------------------------------------


def test_an_operator_nobody_knows_is_reported_and_waited_for(imports):
    net, x = image()
    y = net.conv(x, (8, 8), 3, norm=False, name="a")
    y = net.add("Mystery", y, name="mystery", domain="my.company")
    net.conv(y, (8, 8), 3, norm=False, name="b")
    model = net.model("b")
    model.graph.value_info.append(helper.make_tensor_value_info("mystery", TensorProto.FLOAT, (1, 8, 16, 16)))
    path = imports.folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_onnx(path)
    (row,) = imported.report.not_modelled
    assert (row.name, row.type, row.macs) == ("mystery", "Mystery", None)
    assert (row.weight_words, row.input_words, row.output_words) == (0, 8 * 16 * 16, 8 * 16 * 16)
    assert imported.workload.coverage.gaps == (row,)
    assert edges(imported)["a", "b", "input"] == "Mystery mystery is not modelled"


def test_an_operator_of_unknown_shape_stops_only_what_needs_its_shape(imports):
    net, x = image()
    y = net.conv(x, (8, 8), 3, norm=False, name="a")
    found = net.add("NonZero", y, name="where")
    net.add("Relu", net.add("Cast", found, to=TensorProto.FLOAT), name="tail")
    net.conv(y, (8, 8), norm=False, name="b")
    imported = imports(net, "tail", "b")
    assert [row.type for row in imported.report.not_modelled] == ["NonZero"]
    assert imported.report.notes == ("left out: 2 nodes of open shape",)
    assert "an output of the network too" in (edges(imported)["a", "b", "input"] or "")
    net.add("MatMul", "tail", net.weight(8, 3), name="late")
    with pytest.raises(
        ImportFailure, match=r"MatMul 'late' reads 'tail', whose shape is open: NonZero 'where' decides it"
    ):
        imports(net, "late")


def test_an_unread_result_is_left_out(imports):
    net, x = image()
    net.conv(x, (8, 8), 3, norm=False, name="a")
    net.conv(x, (8, 80), 3, norm=False, name="dead")
    imported = imports(net, "a")
    assert [layer.name for layer in imported.workload.layers] == ["a"]
    assert imported.report.notes == ("left out: 1 node without an effect on outputs",)


def branches(net: GraphBuilder, condition: str, kind: str = "Conv") -> str:
    """``if condition: conv3x3(a) else: conv1x1(a)``, both with names of their own that are the same."""
    graphs = []
    for size in (3, 1):
        inner = GraphBuilder()
        weight = inner.weight(8, 8, size, size)
        node = helper.make_node(kind, ["a", weight] if kind == "Conv" else ["a"], ["y"], name="y")
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graphs.append(helper.make_graph([node], "branch", [], [out], inner.initializers if kind == "Conv" else []))
    return net.add("If", condition, name="choice", then_branch=graphs[0], else_branch=graphs[1])


def test_a_branch_that_the_shapes_decide_is_taken(imports):
    net, x = image()
    net.conv(x, (8, 8), 3, norm=False, name="a")
    rows = net.add("Gather", net.add("Shape", "a"), net.constant(2, scalar=True, kind=np.int64))
    y = branches(net, net.add("Equal", rows, net.constant(16, scalar=True, kind=np.int64)))
    net.conv(y, (8, 8), norm=False, name="b")
    imported = imports(net, "b")
    assert [layer.dims.R for layer in imported.workload.layers] == [3, 3, 1]
    assert imported.report.fusible_edges == 2


def test_a_branch_that_an_input_decides_needs_its_value(imports):
    net, x = image()
    net.conv(x, (8, 8), 3, norm=False, name="a")
    net.input("fast", (), TensorProto.BOOL)
    path = net.save(imports.folder, branches(net, "fast"))
    with pytest.raises(
        ImportFailure, match=r"If 'choice' chooses .* Conv inside: give the input that decides with --value fast=NUMBER"
    ):
        import_onnx(path)
    for value, size in ((1, 3), (0, 1)):
        assert size == import_onnx(path, values={"fast": value}).workload.layers[1].dims.R


@pytest.mark.parametrize("shape", [(), (1,), ("batch", 1)])
def test_a_value_has_the_shape_of_its_input(imports, shape: tuple[int | str, ...]):
    """The rate of a sound decides, whether it is a number or a list of one."""
    net, x = image()
    net.conv(x, (8, 8), 3, norm=False, name="a")
    rate = net.add("Squeeze", net.input("rate", shape, TensorProto.INT64))
    fast = net.add("Equal", rate, net.constant(16000, scalar=True, kind=np.int64))
    path = net.save(imports.folder, branches(net, fast))
    with pytest.raises(ImportFailure, match=r"give the input that decides with --value rate=NUMBER"):
        import_onnx(path, dims={"batch": 1} if "batch" in shape else {})
    assert import_onnx(path, values={"rate": 16000}).workload.layers[1].dims.R == 3
    assert import_onnx(path, values={"rate": 8000}).workload.layers[1].dims.R == 1


def test_a_branch_that_the_network_decides_cannot_be_given(imports):
    net, x = image()
    net.conv(x, (8, 8), 3, norm=False, name="a")
    best = net.add("ReduceMax", "a", keepdims=0)
    path = net.save(imports.folder, branches(net, net.add("Greater", best, net.constant(0.5, scalar=True))))
    with pytest.raises(ImportFailure, match=r"Conv inside: what the network computes decides, so export the branch"):
        import_onnx(path)


def test_a_choice_without_products_is_no_obstacle(imports):
    net, x = image()
    net.conv(x, (8, 8), 3, norm=False, name="a")
    net.input("fast", (), TensorProto.BOOL)
    net.add("Relu", branches(net, "fast", "Relu"), name="out")
    imported = imports(net, "out")
    assert [row.type for row in imported.report.not_modelled] == ["If"]


def test_a_loop_with_products_inside_that_the_run_counts_is_refused(imports):
    net, x = image()
    net.conv(x, (8, 8), 3, norm=False, name="a")
    inner = GraphBuilder()
    weight = inner.weight(8, 8, 1, 1)
    body = helper.make_graph(
        [helper.make_node("Conv", ["h", weight], ["next"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("go", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("h", TensorProto.FLOAT, (1, 8, 16, 16)),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, (1, 8, 16, 16)),
        ],
        inner.initializers,
    )
    net.add("Loop", net.input("count", (), TensorProto.INT64), "", "a", name="loop", body=body)
    with pytest.raises(
        ImportFailure, match=r"Loop 'loop' repeats its body .* Conv inside: export the model with the loop"
    ):
        imports(net, "loop")


# --- many opsets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", range(9, 22))
def test_a_network_is_the_same_in_every_opset(imports, opset: int):
    """Arguments moved from attributes to inputs over the years."""
    net = GraphBuilder(opset)
    x = net.input("x", ("batch", 4, 9, 9))
    old = opset < 11
    y = (
        net.add("Pad", x, pads=[0, 0, 1, 1, 0, 0, 1, 1])
        if old
        else net.add("Pad", x, net.integers(0, 0, 1, 1, 0, 0, 1, 1))
    )
    y = net.add("Conv", y, net.weight(8, 4, 3, 3), name="a")
    limits = (net.constant(0, scalar=True), net.constant(6, scalar=True))
    y = net.add("Clip", y, min=0.0, max=6.0) if old else net.add("Clip", y, *limits)
    if opset == 9:
        y = net.add("Slice", y, starts=[0, 0], ends=[9, 9], axes=[2, 3])
        y = net.add("Upsample", y, net.constant(1, 1, 2, 2))
    else:
        y = net.add("Slice", y, net.integers(0, 0), net.integers(9, 9), net.integers(2, 3))
        more = () if old else (net.constant(kind=np.float32),)
        y = net.add("Resize", y, *more, net.constant(1, 1, 2, 2))
    y = net.add("Dropout", net.conv(y, (8, 8), 3, norm=False, name="b"))
    keep = {"axes": [2, 3], "keepdims": 1}
    y = net.add("ReduceMean", y, net.integers(2, 3)) if opset >= 18 else net.add("ReduceMean", y, **keep)
    y = net.add("Squeeze", y, axes=[2, 3]) if opset < 13 else net.add("Squeeze", y, net.integers(2, 3))
    y = net.add("Gemm", y, net.weight(8, 5), net.weight(5), name="c")
    net.add("Softmax", y, axis=1, name="out")
    imported = imports(net, "out", dims={"batch": 2})
    a, b, c = imported.workload.layers
    assert (a.dims, a.epilogue, a.stored) == (Dims(N=2, K=8, C=4, P=9, Q=9, R=3, S=3), ("relu", "upsample"), (18, 18))
    assert (b.dims, b.epilogue) == (Dims(N=2, K=8, C=8, P=18, Q=18, R=3, S=3), ("bias", "global_pool"))
    assert (c.dims, c.epilogue) == (Dims(N=2, K=5, C=8), ("bias", "softmax"))
    assert imported.report.fusible_edges == 2


def test_layers_have_the_names_of_their_nodes(imports):
    net, x = image()
    y = net.conv(x, (8, 8), norm=False, name="/model/a/Conv")
    net.nodes[-1].name = ""
    net.conv(y, (8, 8), norm=False, name="b")
    net.nodes[-1].name = "/model/a/Conv"
    layers: tuple[Layer, ...] = imports(net, "b").workload.layers
    assert [layer.name for layer in layers] == ["/model/a/Conv", "/model/a/Conv.2"]


def test_functions_of_the_file_are_looked_into(imports):
    net, x = image()
    net.conv(x, (8, 8), 3, norm=False, name="a")
    net.add("Block", "a", net.weight(8, 8, 1, 1), name="block", domain="mine")
    model = net.model("block")
    body = [helper.make_node("Conv", ["h", "w"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(onnx.helper.make_function("mine", "Block", ["h", "w"], ["y"], body, opsets))
    path = imports.folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_onnx(path)
    assert [layer.dims.R for layer in imported.workload.layers] == [3, 1]
    assert imported.workload.layers[1].epilogue == ("relu",)
