"""Operators as each opset writes them: what a graph computes for its shapes must be computed in the opset's own way."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from fadiff.workload import Dims
from fadiff.workload.importers import import_onnx
from fadiff.workload.importers.onnx_front_end.statics import Known, Statics
from workload.importers.graphs import GraphBuilder

ROW = np.arange(6, dtype=np.int64).reshape(1, 6)
REALS = ROW.astype(np.float32)
FORMS = {
    "Unsqueeze": (12, [np.int64(5)], {"axes": [0]}, [[5]]),
    "Squeeze": (12, [ROW], {"axes": [0]}, [[0, 1, 2, 3, 4, 5]]),
    "ReduceSum": (12, [ROW], {"axes": [1], "keepdims": 0}, [[15]]),
    "ReduceProd": (17, [ROW + 1], {"axes": [1], "keepdims": 0}, [[720]]),
    "Split": (12, [ROW], {"axis": 1, "split": [2, 4]}, [[[0, 1]], [[2, 3, 4, 5]]]),
    "Slice": (9, [ROW], {"axes": [1], "starts": [1], "ends": [3]}, [[[1, 2]]]),
    "Pad": (9, [REALS], {"pads": [0, 1, 0, 0]}, [[[0, 0, 1, 2, 3, 4, 5]]]),
    "Clip": (9, [REALS], {"min": 1.0, "max": 2.0}, [[[1, 1, 2, 2, 2, 2]]]),
}


@pytest.mark.parametrize("kind", FORMS)
def test_constants_are_computed_in_the_form_of_their_opset(kind: str) -> None:
    """What later became an input was an attribute once."""
    opset, inputs, attributes, expected = FORMS[kind]
    statics = Statics({"": opset}, Path(), {})
    names = [f"x{i}" for i in range(len(inputs))]
    for name, words in zip(names, inputs, strict=True):
        array = np.asarray(words)
        statics.set(name, Known(array.shape, helper.np_dtype_to_tensor_dtype(array.dtype), fixed=True, words=array))
    made = [f"y{i}" for i in range(len(expected))]
    statics.infer(helper.make_node(kind, names, made, **attributes))
    found = [statics[name].words for name in made]
    assert [None if words is None else words.tolist() for words in found] == expected


@pytest.mark.parametrize("opset", [9, 11, 12, 13, 18])
def test_a_shape_is_put_together_in_any_opset(opset: int, tmp_path: Path) -> None:
    """Sizes taken from a tensor, multiplied and joined, as exporters write x.view(n, -1) and x.flatten(1)."""
    net = GraphBuilder(opset)
    net.conv(net.input("x", ("batch", 3, 8, 8)), (3, 4), 3, norm=False, name="a")

    def size(axis: int) -> str:
        return net.add("Gather", net.add("Shape", "a"), net.constant(axis, scalar=True, kind=np.int64))

    def row(scalar: str) -> str:
        axes = net.integers(0) if opset >= 13 else ""
        return net.add("Unsqueeze", scalar, axes) if axes else net.add("Unsqueeze", scalar, axes=[0])

    words = net.add("Mul", size(1), net.add("Mul", size(2), size(3)))
    flat = net.add("Reshape", "a", net.add("Concat", row(size(0)), row(words), axis=0))
    net.add("Gemm", flat, net.weight(5, 256), net.weight(5), transB=1, name="out")
    network = import_onnx(net.save(tmp_path, "out"), dims={"batch": 2}).workload
    assert network["out"].dims == Dims(N=2, K=5, C=256)


def test_constants_that_cannot_be_computed_are_not_said_to_be_in_another_file(tmp_path: Path) -> None:
    """A shape that an operator nobody knows makes of constants."""
    net = GraphBuilder()
    net.conv(net.input("x", (1, 3, 8, 8)), (3, 4), 3, norm=False, name="a")
    shape = net.add("Mystery", net.integers(1, 256), name="mystery", domain="my.company")
    net.add("Gemm", net.add("Reshape", "a", shape, name="flat"), net.weight(256, 5), name="out")
    model = net.model("out")
    model.graph.value_info.append(helper.make_tensor_value_info("mystery", TensorProto.INT64, (2,)))
    statics = Statics({"": 17}, Path(), {})
    statics.set("a", Known((1, 4, 8, 8)))
    statics.set("mystery", Known((2,), TensorProto.INT64, fixed=True))
    statics.infer(next(node for node in model.graph.node if node.name == "flat"))
    assert "needs the words of 'mystery', which cannot be computed here" in statics["flat"].why


def test_a_short_time_transform_has_one_side_unless_it_says_two(tmp_path: Path) -> None:
    """257 of 512 frequencies, and not modelled: its share is that of a fast transform."""
    net = GraphBuilder()
    x = net.input("sound", (1, 16000))
    step, length = net.constant(160, scalar=True, kind=np.int64), net.constant(512, scalar=True, kind=np.int64)
    bands = net.add("STFT", x, step, net.weight(512), length, name="stft")
    power = net.add("ReduceSumSquare", bands, axes=[-1], keepdims=0)
    net.add("MatMul", power, net.weight(257, 80), name="mel")
    imported = import_onnx(net.save(tmp_path, "mel"))
    frames = (16000 - 512) // 160 + 1
    assert imported.workload["mel"].dims == Dims(N=frames, K=80, C=257)
    (row,) = imported.report.not_modelled
    assert (row.type, row.macs) == ("STFT", 2 * frames * 257 * 10)


def test_random_words_are_there_before_the_network_runs(tmp_path: Path) -> None:
    net = GraphBuilder()
    net.conv(net.input("x", (1, 3, 8, 8)), (3, 4), 3, norm=False, name="a")
    net.conv(net.add("Add", "a", net.add("RandomNormalLike", "a")), (4, 4), norm=False, name="b")
    imported = import_onnx(net.save(tmp_path, "b"))
    assert imported.report.not_modelled == ()
    assert imported.report.fusible_edges == len(imported.report.edges) == 1


@pytest.mark.parametrize("indices", [[[0, 1], [2, 3]], [[[3]], [[2]], [[1]], [[0]]]])
def test_indices_at_equal_distances_are_a_slice_in_any_shape(indices: object, tmp_path: Path) -> None:
    net = GraphBuilder()
    net.conv(net.input("x", (1, 3, 8, 8)), (3, 4), 3, norm=False, name="a")
    name = net.integers(0)
    net.initializers[-1] = helper.make_tensor(name, TensorProto.INT64, np.shape(indices), np.ravel(indices).tolist())
    picked = net.add("Gather", "a", name, name="pick", axis=1)
    net.conv(net.add("Reshape", picked, net.integers(1, 4, 8, 8)), (4, 4), norm=False, name="b")
    (edge,) = import_onnx(net.save(tmp_path, "b")).report.edges
    assert edge.reason == (None if np.ravel(indices)[0] == 0 else "Gather pick takes a part of it")
