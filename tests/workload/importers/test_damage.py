"""Damaged and random models: an import succeeds or says one sentence. No other error ever comes out."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from fadiff.errors import FadiffError
from fadiff.workload.importers.onnx_front_end import import_onnx
from fadiff.workload.importers.onnx_front_end.translation import MULTIPLYING, OTHERS
from workload.importers.graphs import GraphBuilder, attention


def small_cnn() -> onnx.ModelProto:
    net = GraphBuilder(weights=True)
    x = net.input("x", ("batch", 3, 16, 16))
    y = net.add("Relu", net.conv(x, (3, 8), 3, 2, name="a"))
    gate = net.conv(net.add("GlobalAveragePool", y), (8, 8), norm=False, name="gate")
    y = net.add("Mul", y, net.add("Sigmoid", gate))
    y = net.add("Concat", y, net.add("MaxPool", y, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), axis=1)
    y = net.add("ConvTranspose", y, net.weight(16, 4, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
    y = net.add("Reshape", y, net.integers(0, -1))
    net.add("Gemm", y, net.weight(1024, 5), net.weight(5), name="out")
    return net.model("out")


def small_transformer() -> onnx.ModelProto:
    net = GraphBuilder(weights=True)
    x = net.input("x", ("batch", 10, 32))
    net.input("mask", ("batch", 1, 1, 10))
    y = net.layer_norm(net.add("Add", attention(net, x, 4, 8, bias=True), x), 32)
    net.add("Add", net.linear(net.gelu(net.linear(y, 32, 64)), 64, 32), y, name="out")
    return net.model("out")


def small_recurrent() -> onnx.ModelProto:
    net = GraphBuilder(weights=True)
    x = net.input("x", (6, "batch", 8))
    y = net.add("LSTM", x, net.weight(1, 16, 8), net.weight(1, 16, 4), hidden_size=4)
    y = net.add("Squeeze", y, net.integers(1))
    first, second = net.add_all("Split", y, net.integers(2, 4), outputs=2, axis=0)
    net.add("Einsum", first, second, equation="tbc,sbc->bts", name="out")
    return net.model("out")


MODELS = {"cnn": small_cnn(), "transformer": small_transformer(), "recurrent": small_recurrent()}
BYTES = {name: model.SerializeToString() for name, model in MODELS.items()}


def attempt(data: bytes, folder: Path) -> bool:
    """Import some bytes; whether it worked."""
    path = folder / "model.onnx"
    path.write_bytes(data)
    told = ""
    try:
        imported = import_onnx(path, {}, {"batch": 2} if b"batch" in data else {}, {})
    except FadiffError as error:
        told = str(error)
    else:
        assert imported.report.macs == imported.workload.macs
    assert "\n" not in told
    return not told


@pytest.mark.parametrize("name", MODELS)
def test_undamaged_models_are_imported(name: str, tmp_path: Path) -> None:
    assert attempt(BYTES[name], tmp_path)


@settings(max_examples=150)
@given(name=st.sampled_from(sorted(MODELS)), seed=st.integers(0, 2**32))
def test_flipped_bytes_are_told_in_a_sentence(name: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    draw = random.Random(seed)
    data = bytearray(BYTES[name])
    for _ in range(draw.choice([1, 1, 2, 8])):
        data[draw.randrange(len(data))] = draw.randrange(256)
    attempt(bytes(data), tmp_path_factory.getbasetemp())


@settings(max_examples=60)
@given(name=st.sampled_from(sorted(MODELS)), share=st.floats(0, 1), tail=st.binary(max_size=20))
def test_files_cut_short_are_told_in_a_sentence(name: str, share: float, tail: bytes, tmp_path_factory) -> None:
    data = BYTES[name]
    attempt(data[: int(len(data) * share)] + tail, tmp_path_factory.getbasetemp())


def damage(model: onnx.ModelProto, draw: random.Random) -> None:
    """Change one thing that is well-formed but wrong: what bytes at random seldom hit."""
    graph = model.graph
    node = draw.choice(graph.node)
    tensor = draw.choice(graph.initializer)
    names = [name for other in graph.node for name in (*other.input, *other.output)] + ["", "nowhere"]
    changes: list[Callable[[], object]] = [
        lambda: node.input.__setitem__(draw.randrange(len(node.input)), draw.choice(names)) if node.input else None,
        lambda: node.output.__setitem__(0, draw.choice(names)),
        lambda: node.input.append(draw.choice(names)),
        lambda: node.input.pop() if node.input else None,
        lambda: setattr(node, "op_type", draw.choice([*MULTIPLYING, *OTHERS, "Nonsense", "If", "Shape", "Constant"])),
        lambda: node.attribute.append(draw_attribute(draw)),
        lambda: node.attribute.pop() if node.attribute else None,
        lambda: setattr(node, "domain", draw.choice(["com.microsoft", "elsewhere", "ai.onnx"])),
        lambda: tensor.dims.__setitem__(0, draw.choice([0, -1, 1, 7, 2**40, 2**62])) if tensor.dims else None,
        lambda: tensor.dims.append(draw.choice([0, 1, 3, 2**33])),
        lambda: setattr(tensor, "data_type", draw.randrange(30)),
        lambda: setattr(tensor, "raw_data", b"\xff" * draw.randrange(9)),
        lambda: graph.node.append(node),
        lambda: graph.initializer.remove(tensor),
        lambda: graph.input.pop(),
        lambda: graph.output[0].__setattr__("name", draw.choice(names)),
        lambda: model.opset_import.pop(),
        lambda: setattr(model.opset_import[0], "version", draw.choice([0, 1, 7, 9, 13, 21, 99, 2**40])),
        lambda: graph.input[0].type.tensor_type.shape.dim.pop(),
        lambda: graph.input[0].type.tensor_type.shape.dim.add(dim_value=draw.choice([0, 1, 5, 2**50])),
    ]
    draw.choice(changes)()


ATTRIBUTES = (
    "axis", "axes", "perm", "strides", "pads", "dilations", "group", "kernel_shape", "transB", "hidden_size",
    "equation", "auto_pad", "blocksize", "keepdims", "to", "direction", "mode", "output_shape", "layout",
)  # fmt: skip


def draw_attribute(draw: random.Random) -> onnx.AttributeProto:
    number = draw.choice([-9, -1, 0, 1, 2, 3, 10**9, 2**62])
    value = draw.choice([number, [number], [number] * 4, 0.5, "SAME_UPPER", "ij,jk->ik", [0.5], b"\xff"])
    return helper.make_attribute(draw.choice(ATTRIBUTES), value)


@settings(max_examples=250)
@given(name=st.sampled_from(sorted(MODELS)), seed=st.integers(0, 2**32))
def test_wrong_graphs_are_told_in_a_sentence(name: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    draw = random.Random(seed)
    model = onnx.ModelProto()
    model.CopyFrom(MODELS[name])
    for _ in range(draw.choice([1, 1, 2, 4])):
        damage(model, draw)
        if not (model.graph.node and model.graph.initializer and model.graph.input and model.opset_import):
            break
        if not model.graph.input[0].type.tensor_type.shape.dim:
            break
    attempt(model.SerializeToString(), tmp_path_factory.getbasetemp())


SHAPES = ((1, 4, 6, 6), (4, 4), (2, 3, 4), (4,), (), (1, 4, 1, 1), (6, 4), (4, 4, 3, 3), (1, 16, 4))


def random_graph(seed: int) -> bytes:
    """Operators of all kinds on tensors of a few shapes; most make no sense, some do."""
    draw = random.Random(seed)
    net = GraphBuilder(draw.choice([9, 11, 13, 17, 18, 20, 23]))
    tensors = [net.input(f"x{i}", draw.choice(SHAPES)) for i in range(2)]
    tensors += [net.weight(*draw.choice(SHAPES)) for _ in range(4)]
    tensors += [net.integers(*draw.choices([-1, 0, 1, 2, 4], k=draw.randrange(1, 5))) for _ in range(3)]
    for _ in range(draw.randrange(1, 12)):
        kind = draw.choice([*MULTIPLYING, *OTHERS, "Conv", "MatMul", "Shape", "Reshape", "Mystery"])
        domain = draw.choice(["", "", "", "com.microsoft"])
        made = net.add_all(
            kind, *draw.choices([*tensors, ""], k=draw.randrange(1, 5)), outputs=draw.randrange(1, 3), domain=domain
        )
        for _ in range(draw.randrange(3)):
            attribute = draw_attribute(draw)
            if attribute.name not in {item.name for item in net.nodes[-1].attribute}:
                net.nodes[-1].attribute.append(attribute)
        tensors += made
    return net.model(*draw.sample(tensors[9:], 1)).SerializeToString()


@settings(max_examples=250)
@given(seed=st.integers(0, 2**32))
def test_graphs_of_random_operators_are_imported_or_refused(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    attempt(random_graph(seed), tmp_path_factory.getbasetemp())


def test_words_that_are_not_there_are_missed_only_for_shapes(tmp_path: Path) -> None:
    net = GraphBuilder()
    x = net.conv(net.input("x", (1, 3, 8, 8)), (3, 4), 3, name="a")
    shape = net.weight(2, kind=TensorProto.INT64)
    net.add("Gemm", net.add("Reshape", x, shape, name="flat"), net.weight(256, 5), name="out")
    with pytest.raises(FadiffError, match=r"Reshape 'flat' needs the words of 'w_\d+', which are not in the file"):
        import_onnx(net.save(tmp_path, "out"), {}, {}, {})
    (tmp_path / "not-there.bin").write_bytes(np.array([1, 256], np.int64).tobytes())
    assert import_onnx(net.save(tmp_path, "out"), {}, {}, {}).workload["out"].dims.C == 256


def test_numbers_in_a_file_survive_a_round_trip() -> None:
    """The builder's own constants are what it says, or nothing above means anything."""
    net = GraphBuilder(weights=True)
    net.integers(1, 2, 3)
    assert numpy_helper.to_array(net.initializers[0]).tolist() == [1, 2, 3]
