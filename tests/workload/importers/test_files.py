"""Files and sizes that cannot be used: one sentence each, that says what to do."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from fadiff.errors import FadiffError
from fadiff.workload import load_model
from fadiff.workload.importers import from_onnx, import_onnx
from fadiff.workload.importers.onnx_front_end import translation
from workload.importers.graphs import FILES, GraphBuilder


def convolution(*shape: int | str) -> GraphBuilder:
    net = GraphBuilder()
    net.conv(net.input("image", shape), (3, 8), 3, norm=False, name="out")
    return net


def refusal(path: Path, **sizes) -> str:
    with pytest.raises(FadiffError) as error:
        import_onnx(path, **sizes)
    told = str(error.value)
    assert "\n" not in told
    assert str(path) in told
    return told


def test_a_file_that_is_not_there_or_no_file(tmp_path: Path) -> None:
    assert "there is no such file" in refusal(tmp_path / "nothing.onnx")
    assert "this is a folder" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "there is no ONNX graph in this file"),
        (b"name: toy\nlayers: []\n", "this is no ONNX file, or it was cut short"),
        (b"PK\x03\x04" + bytes(100), "this is no ONNX file, or it was cut short"),
        (b"version https://git-lfs\noid sha256:1\nsize 1\n", "this is a pointer that Git LFS left"),
    ],
)
def test_a_file_that_is_no_model(data: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    assert told in refusal(path)


def test_a_model_cut_short(tmp_path: Path) -> None:
    path = convolution(1, 3, 8, 8).save(tmp_path, "out")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert "this is no ONNX file, or it was cut short" in refusal(path)


def test_a_file_larger_than_protocol_buffers_can_be(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 2**31)  # takes no room on disk
    assert "it has 2,147,483,648 bytes" in refusal(path)
    assert "save the weights as external data" in refusal(path)


def test_weights_need_not_be_there(tmp_path: Path) -> None:
    assert from_onnx(convolution(1, 3, 8, 8).save(tmp_path, "out")).parameter_words == 216
    assert not (tmp_path / "not-there.bin").exists()


def test_a_cycle(tmp_path: Path) -> None:
    net = convolution(1, 3, 8, 8)
    net.nodes += [
        helper.make_node("Relu", ["b"], ["a"], name="r"),
        helper.make_node("Add", ["a", "out"], ["b"], name="s"),
    ]
    assert "the graph has a cycle, " in refusal(net.save(tmp_path, "b"))
    assert "r -> s" in refusal(net.save(tmp_path, "b")).replace("s -> r -> s", "r -> s")


def test_nodes_in_any_order_are_put_in_order(tmp_path: Path) -> None:
    net = convolution(1, 3, 8, 8)
    net.add("Relu", "out", name="last")
    net.nodes.reverse()
    assert from_onnx(net.save(tmp_path, "last")).layers[0].epilogue == ("bias", "relu")


def test_an_input_that_nothing_makes(tmp_path: Path) -> None:
    net = convolution(1, 3, 8, 8)
    net.add("Add", "out", "ghost", name="last")
    assert "Add 'last' reads 'ghost', which nothing makes" in refusal(net.save(tmp_path, "last"))


def test_a_network_without_products(tmp_path: Path) -> None:
    net = GraphBuilder()
    net.add("Relu", net.input("x", (1, 3)), name="out")
    assert "it has no convolution and no matrix product: there is nothing to schedule" in refusal(
        net.save(tmp_path, "out")
    )


def test_a_node_that_onnx_would_not_take(tmp_path: Path) -> None:
    net = convolution(1, 3, 8, 8)
    net.nodes[0].attribute.append(helper.make_attribute("auto_pad", 3))
    assert "Conv 'out' is no valid node" in refusal(net.save(tmp_path, "out"))


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    net = GraphBuilder()
    net.add("MatMul", net.input("x", (4, 5)), net.weight(6, 7), name="out")
    assert "MatMul 'out' multiplies [4, 5] by [6, 7], which do not fit" in refusal(net.save(tmp_path, "out"))


def test_sums_that_do_not_fit_show_what_they_are_given(tmp_path: Path) -> None:
    """An image of another size than the model was made for: two paths through it do not meet."""
    net = GraphBuilder()
    x = net.input("x", (1, 3, "size", "size"))
    halves = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    doubled = net.add("Resize", halves, "", net.constant(1, 1, 2, 2))
    net.conv(net.add("Add", x, doubled, name="sum"), (3, 4), name="out", norm=False)
    path = net.save(tmp_path, "out")
    assert import_onnx(path, dims={"size": 8}).workload["out"].dims.P == 8
    told = refusal(path, dims={"size": 9})
    assert "Add 'sum' is given [1, 3, 9, 9] and [1, 3, 8, 8], which do not fit together" in told
    assert told.endswith(": was the model made for another input shape?")


@pytest.mark.parametrize("kind", ["Conv", "AveragePool"])
def test_a_window_larger_than_the_image(kind: str, tmp_path: Path) -> None:
    net = GraphBuilder()
    x = net.input("x", (1, 4, 16))
    made = net.add("Conv", x, net.weight(4, 4, 32)) if kind == "Conv" else net.add(kind, x, kernel_shape=[32])
    net.add("Conv", made, net.weight(2, 4, 1), name="out")
    told = refusal(net.save(tmp_path, "out"))
    assert "slides a window over [1, 4, 16], which is smaller than the window: give larger inputs" in told


def test_a_layer_without_words(tmp_path: Path) -> None:
    """A convolution over a part of an input that is too short to have one, and a sum over its one column."""
    net = GraphBuilder()
    part = net.add("Slice", net.input("x", (1, 4, 16)), net.integers(16), net.integers(99), net.integers(2))
    y = net.add("Conv", part, net.weight(4, 4, 1), name="a")
    net.add("ReduceSum", y, net.integers(1), keepdims=0, name="out")
    told = refusal(net.save(tmp_path, "out"))
    assert "Conv 'a' has nothing to multiply: 'Slice_" in told
    assert told.endswith("is [1, 4, 0], which is empty: give larger inputs")


def test_an_input_that_is_no_tensor(tmp_path: Path) -> None:
    net = convolution(1, 3, 8, 8)
    net.inputs.append(helper.make_tensor_sequence_value_info("many", TensorProto.FLOAT, None))
    first = net.add("SequenceAt", "many", net.constant(0, scalar=True, kind=np.int64), name="first")
    assert "input 'many' is no tensor but a sequence" in refusal(net.save(tmp_path, "out", first))


def test_an_output_that_is_left_out_is_no_obstacle(tmp_path: Path) -> None:
    """How long a window is, the run decides; the file says what shape it has all the same."""
    net = convolution(1, 3, 8, 8)
    net.input("length", (), TensorProto.INT64)
    zero, one = (net.constant(number, scalar=True, kind=np.int64) for number in (0, 1))
    steps = net.add("Range", zero, "length", one)
    net.add("Cast", steps, to=TensorProto.FLOAT, name="window")
    model = net.model("out", "window")
    model.graph.output[1].CopyFrom(helper.make_tensor_value_info("window", TensorProto.FLOAT, (10,)))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert [layer.name for layer in import_onnx(path).workload.layers] == ["out"]


@pytest.mark.parametrize(
    ("shape", "sizes", "told"),
    [
        (("batch", 3, 8, 8), {}, "input 'image' (batch x 3 x 8 x 8) are open: say which to use, such as --dim batch=1"),
        (("n", 3, "?", "?"), {}, "(n x 3 x ? x ?) are open: say which to use, such as --shape image=1x3x224x224"),
        ((0, 3, -1, 8), {}, "(? x 3 x ? x 8) are open: say which to use, such as --shape image=1x3x224x8"),
        (("batch", 3, 8, 8), {"dims": {"bach": 1}}, "no dim 'bach' (did you mean batch?): those it has are batch"),
        (("batch", 3, 8, 8), {"shapes": {"img": (1, 3, 8, 8)}}, "no input 'img'"),
        (("batch", 3, 8, 8), {"values": {"rate": 1}}, "the model has no input 'rate': those it has are image"),
        (("batch", 3, 8, 8), {"shapes": {"image": (1, 3, 8)}}, "has 4 axes (batch x 3 x 8 x 8), the shape given has 3"),
        (("batch", 3, 8, 8), {"shapes": {"image": (1, 4, 8, 8)}}, "4 stands for an axis that the file fixes to 3"),
        (("b", 3, "b", 8), {"shapes": {"image": (1, 3, 2, 8)}}, "2 stands for dim 'b', which is 1"),
        (("b", 3, 8, 8), {"dims": {"b": -1}}, "dim 'b' is -1: give whole numbers from 0 to"),
        (("b", 3, 8, 8), {"dims": {"b": 2**31}}, "dim 'b' is 2147483648: give whole numbers from 0 to"),
        (
            ("b", 3, 8, 8),
            {"dims": {"b": 0}},
            "nothing to multiply: 'image' is [0, 3, 8, 8], which is empty: give larger inputs",
        ),
        (("b", 3, "h", "h"), {"dims": {"b": 2**30, "h": 2**30}}, "has more than 2^53 words: make it smaller"),
        (("b", 3, "h", "h"), {"dims": {"b": 2**20, "h": 2**14}}, "layer 'out': it has more than 2^53 MACs"),
    ],
)
def test_sizes_that_are_missing_or_wrong(shape, sizes, told: str, tmp_path: Path) -> None:
    assert told in refusal(convolution(*shape).save(tmp_path, "out"), **sizes)


def test_all_open_inputs_are_named_at_once(tmp_path: Path) -> None:
    net = GraphBuilder()
    x, y = net.input("x", ("batch", "seq", 8)), net.input("y", ("batch", 8, "other"))
    net.add("MatMul", x, y, name="out")
    told = refusal(net.save(tmp_path, "out"))
    assert "inputs 'x' (batch x seq x 8), 'y' (batch x 8 x other) are open" in told
    assert "--dim batch=1 --dim seq=128 --dim other=128" in told


def test_a_shape_binds_the_dims_it_names(tmp_path: Path) -> None:
    net = GraphBuilder()
    x, y = net.input("x", ("batch", "seq", 8)), net.input("y", ("batch", 8, "seq"))
    net.add("MatMul", x, y, name="out")
    workload = from_onnx(net.save(tmp_path, "out"), shapes={"x": (2, 5, 8)})
    assert workload.layers[0].macs == 2 * 5 * 5 * 8


def test_sizes_that_nothing_needs_may_stay_open(tmp_path: Path) -> None:
    net = convolution(1, 3, 8, 8)
    net.input("unused", ("a", "b"))
    assert from_onnx(net.save(tmp_path, "out")).macs == 8 * 3 * 9 * 64


def test_a_fixed_shape_may_be_repeated(tmp_path: Path) -> None:
    path = convolution(2, 3, 8, 8).save(tmp_path, "out")
    assert from_onnx(path, shapes={"image": (2, 3, 8, 8)}) == from_onnx(path)


def test_an_empty_tensor_is_harmless_where_no_layer_needs_it(tmp_path: Path) -> None:
    """Keys of earlier tokens, before the first one: there are none."""
    net = GraphBuilder()
    past = net.input("past", (1, "past_length", 8))
    keys = net.add("Concat", past, net.linear(net.input("x", (1, 5, 8)), 8, 8, bias=False, name="k"), axis=1)
    net.add("MatMul", net.input("q", (1, 2, 8)), net.add("Transpose", keys, perm=[0, 2, 1]), name="scores")
    imported = import_onnx(net.save(tmp_path, "scores"), dims={"past_length": 0})
    assert imported.workload["scores"].dims.K == 5
    assert imported.report.fusible_edges == 1


def test_a_model_is_loaded_by_its_name(tmp_path: Path) -> None:
    path = convolution("batch", 3, 8, 8).save(tmp_path, "out", name="Net.ONNX")
    assert load_model(str(path), dims={"batch": 2}).name == "Net"
    with pytest.raises(FadiffError, match="'resnet18' takes no shapes of inputs: they are for models"):
        load_model("resnet18", dims={"batch": 2})


def test_what_the_front_end_trips_over_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(node: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setitem(translation.MULTIPLYING, "Conv", stumble)
    told = refusal(convolution(1, 3, 8, 8).save(tmp_path, "out"))
    assert "it cannot be understood (KeyError: 'surprise')" in told


def test_sparse_and_odd_constants_are_constants(tmp_path: Path) -> None:
    net = GraphBuilder()
    x = net.input("x", (1, 4))
    words = helper.make_tensor("sparse", TensorProto.FLOAT, [2], [1.0, 2.0])
    places = helper.make_tensor("places", TensorProto.INT64, [2], [0, 5])
    net.add("MatMul", x, "sparse", name="a")
    net.nodes.append(helper.make_node("Constant", [], ["two"], value_float=2.0))
    net.add("Mul", "a", "two", name="out")
    model = net.model("out")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(words, places, [4, 3]))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    (layer,) = from_onnx(path).layers
    assert (layer.dims.K, layer.dims.C, layer.epilogue) == (3, 4, ("scale",))
    assert np.isclose(float(layer.macs), 12)


@pytest.mark.parametrize("name", FILES)
def test_models_in_the_repository_are_those_that_the_script_writes(name: str, tmp_path: Path) -> None:
    graph, output = FILES[name]
    stored = Path(__file__).parents[2] / "data" / "models" / name
    assert stored.read_bytes() == graph.save(tmp_path, output).read_bytes()
