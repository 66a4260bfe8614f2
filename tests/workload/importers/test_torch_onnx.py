"""One module, two ways in: through torch.export, and through an ONNX file. The layers are the same."""

import logging
import warnings
from importlib.util import find_spec

import pytest
import torch
from torch import nn
from transformers import AutoConfig

from fadiff.workload import Workload
from fadiff.workload.importers import from_onnx
from fadiff.workload.importers.torch_front_end.configs import build
from fadiff.workload.importers.torch_models import from_torch

TINY = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100}
AFFINE = ("bias", "scale", "batch_norm")
"""Exporters move these: batch norms into convolutions, the scale of attention in front of it."""


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Hardswish(), nn.Conv2d(16, 32, 1), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def upsampling():
    return nn.Sequential(nn.ConvTranspose2d(3, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))


def configured(model, **settings):
    config = AutoConfig.for_model(model, **settings, use_cache=False)
    return type(build(config, None))(config)


TOKENS, IMAGE = torch.zeros(1, 16, dtype=torch.long), torch.zeros(1, 3, 32, 32)
MODULES = {
    "convolutions": (convolutions, IMAGE),
    "upsampling": (upsampling, IMAGE),
    "lstm": (lambda: nn.LSTM(8, 16, batch_first=True), torch.zeros(2, 5, 8)),
    "vit": (lambda: configured("vit", image_size=32, patch_size=8, **TINY), IMAGE),
    "resnet": (
        lambda: configured("resnet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic"), IMAGE,
    ),
    "bert": (lambda: configured("bert", **TINY), TOKENS),
    "llama": (lambda: configured("llama", **TINY), TOKENS),
}  # fmt: skip
EXPORTS = [
    ("convolutions", False), ("upsampling", False), ("lstm", False), ("vit", False), ("resnet", False),
    ("bert", True), ("llama", True),
]  # fmt: skip
"""Modules, and whether the newer exporter writes the file; the older one cannot trace language models."""


def plain(network: Workload) -> list[object]:
    """Everything about the layers but their names, and what exporters move."""
    number = {layer.name: i for i, layer in enumerate(network.layers)}
    return [
        (
            layer.kind, layer.dims, layer.stride, layer.dilation, layer.out, layer.repeat,
            sorted((number.get(o.source, -1), o.port, o.fusible) for o in layer.inputs),
            [operator for operator in layer.epilogue if operator not in AFFINE],
        )
        for layer in network.layers
    ]  # fmt: skip


@pytest.fixture
def quiet():
    """The exporters talk, and warn of their own age."""
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(("name", "dynamo"), EXPORTS)
def test_the_layers_are_those_of_the_onnx_file(name, dynamo, tmp_path, quiet):
    if dynamo and find_spec("onnxscript") is None:
        pytest.skip("the exporter needs onnxscript")
    make, inputs = MODULES[name]
    module, path = make().eval(), tmp_path / "model.onnx"
    torch.onnx.export(module, (inputs,), path, dynamo=dynamo, verbose=False)
    assert plain(from_torch(module, inputs)) == plain(from_onnx(path))
