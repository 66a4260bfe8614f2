"""Networks of the zoo, written as ONNX graphs the way exporters write them, come out as the zoo has them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fadiff.workload import Layer, load_model
from fadiff.workload.importers import import_onnx
from workload.importers.graphs import GraphBuilder, bert_block, llama_block, mobilenet_v2, resnet, vgg16

NETWORKS: Mapping[str, tuple[str, GraphBuilder, str]] = {
    "resnet18": ("resnet18", resnet((2, 2, 2, 2), bottleneck=False), "fc"),
    "resnet50": ("resnet50", resnet((3, 4, 6, 3), bottleneck=True), "fc"),
    "vgg16": ("vgg16", vgg16(), "fc8"),
    "mobilenet_v2": ("mobilenet_v2", mobilenet_v2(), "fc"),
    "bert": ("bert-base:seq=128", bert_block(), "out"),
    "llama": ("llama-7b:seq=64", llama_block(), "out"),
}
SIZES = {"bert": {"seq": 128}, "llama": {"seq": 64}}


def comparable(layer: Layer) -> Layer:
    """A layer as the zoo writes it: without biases, batch norms and padding, which it leaves away; addends in any
    order."""
    epilogue = tuple(operator for operator in layer.epilogue if operator not in ("bias", "batch_norm"))
    inputs = layer.inputs
    if not layer.is_mac:
        inputs = tuple(sorted(inputs, key=lambda operand: operand.source or ""))
    return replace(layer, epilogue=epilogue, inputs=inputs, pad=None)


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_imported_network_is_that_of_the_zoo_layer_by_layer(name: str, batch: int, tmp_path: Path) -> None:
    spec, graph, output = NETWORKS[name]
    colon = "," if ":" in spec else ":"
    zoo = load_model(f"{spec}{colon}batch={batch}")
    imported = import_onnx(graph.save(tmp_path, output), dims={"batch": batch, **SIZES.get(name, {})})
    layers = {layer.name: comparable(layer) for layer in imported.workload.layers}
    assert set(layers) == {layer.name for layer in zoo.layers}
    for layer in zoo.layers:
        assert layers[layer.name] == comparable(layer), layer.name
    for edge in zoo.edges:
        for axis, rows in enumerate(zoo[edge.source].stored):
            said = imported.workload[edge.target].pad_before(axis, rows)
            assert said == zoo[edge.target].pad_before(axis, rows), edge
    assert imported.report.macs == zoo.macs
    assert imported.workload.parameter_words == imported.report.layer_parameters == zoo.parameter_words
    assert imported.report.not_modelled == ()
    assert all(edge.fusible for edge in imported.report.edges)
