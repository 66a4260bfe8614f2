"""The quantized networks of the trial, as ONNX Runtime makes them: ``python -m benchmarks.quantized``.

Needs ``onnxruntime``, which nothing else here does. The files keep names and shapes of weights; the weights themselves,
which are random, are left out, so that a file is a few hundred kilobytes.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_dynamic, quantize_static
from transformers import BertConfig, BertModel

from fadiff.reproduce import trial
from fadiff.reproduce.trial.vision import mobilenet_v3

INTO = Path(str(trial.__file__)).with_name("quantized")
KEPT_BYTES = 512
"""Constants up to this size stay: axes, scales and zero points, which say what a node does."""


class _Images(CalibrationDataReader):
    """Random images to find ranges with."""

    def __init__(self) -> None:
        self._left = [{"image": np.random.default_rng(i).random((1, 3, 224, 224), np.float32)} for i in range(2)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


def _without_weights(path: Path) -> onnx.ModelProto:
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > KEPT_BYTES:
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="not-there.bin")
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer, *graph.value_info):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")  # where in the exporter's own machine it came from
    return model


def main() -> None:
    INTO.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        float_file, made = Path(folder) / "float.onnx", Path(folder) / "made.onnx"
        bert = BertConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)
        tokens = (torch.zeros(1, 128, dtype=torch.long),)
        torch.onnx.export(BertModel(bert).eval(), tokens, float_file, dynamo=True, external_data=False)
        quantize_dynamic(float_file, made)
        onnx.save(_without_weights(made), INTO / "bert-small.onnx")
        image = (torch.zeros(1, 3, 224, 224),)
        names = {"input_names": ["image"], "output_names": ["kinds"]}
        torch.onnx.export(mobilenet_v3().eval(), image, float_file, dynamo=True, external_data=False, **names)
        quantize_static(float_file, made, _Images(), quant_format=QuantFormat.QDQ, per_channel=True)
        onnx.save(_without_weights(made), INTO / "mobilenet-v3.onnx")


if __name__ == "__main__":
    main()
