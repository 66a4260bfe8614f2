"""Which front end reads a model file."""

import json

import pytest
import torch
from onnx import TensorProto, helper, save
from torch import nn

from fadiff.errors import FadiffError
from fadiff.workload import Dims
from fadiff.workload.importers.files import import_file, is_model_file

RESNET = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8], "depths": [1], "layer_type": "basic"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same product three times: as ONNX, as a program, and (nearly) as a configuration."""
    path = tmp_path_factory.mktemp("models")
    inputs, output = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", ["rows", 8]), ("y", ["rows", 4]))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    zeros = helper.make_tensor("w", TensorProto.FLOAT, [8, 4], [0.0] * 32)
    save(helper.make_model(helper.make_graph([node], "net", [inputs], [output], [zeros])), path / "net.onnx")
    torch.export.save(torch.export.export(nn.Linear(8, 4, bias=False), (torch.zeros(6, 8),)), path / "net.pt2")
    (path / "config.json").write_text(json.dumps(RESNET))
    (path / "net.yaml").write_text("name: net")
    return path


def test_every_kind_of_model_file_is_read(folder):
    for model in (import_file(folder / "net.onnx", dims={"rows": 6}), import_file(folder / "net.pt2")):
        assert [layer.dims for layer in model.workload.layers] == [Dims(N=6, K=4, C=8)]
    for path in (folder, folder / "config.json"):
        assert import_file(path, dims={"batch": 2}).workload.layers[0].dims.N == 2
        assert import_file(path, shapes={"pixel_values": (1, 3, 32, 32)}).workload.layers[0].dims.P == 16


def test_workload_files_are_no_models(folder):
    assert [is_model_file(folder / name) for name in ("net.onnx", "net.pt2", "config.json", ".")] == [True] * 4
    assert not is_model_file(folder / "net.yaml")
    with pytest.raises(
        FadiffError, match=r"net.yaml: this is no model that can be read: give an ONNX file \(.onnx\), "
    ):
        import_file(folder / "net.yaml")


def test_what_is_wrong_is_told_with_the_name_of_the_file(folder):
    with pytest.raises(FadiffError, match=r"config.json: values of inputs are for ONNX files only"):
        import_file(folder / "config.json", values={"x": 1.0})
    with pytest.raises(FadiffError, match=r"config.json: ResNetModel has no input 'pixels'"):
        import_file(folder / "config.json", shapes={"pixels": (1,)})
