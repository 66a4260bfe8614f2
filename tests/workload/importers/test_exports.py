"""Models of transformers, written to ONNX by PyTorch's own exporter, against the products that PyTorch counts."""

import io
import logging
import warnings
from contextlib import redirect_stderr, redirect_stdout
from math import prod
from pathlib import Path

import onnx
import pytest

from fadiff.workload import Dims
from fadiff.workload.importers import ImportedModel, import_onnx

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("onnxscript")


def llama():
    """Two blocks of LLaMA with grouped-query attention."""
    config = transformers.LlamaConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=2, intermediate_size=128,
        vocab_size=100, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), torch.zeros(1, 16, dtype=torch.long)


def convnext():
    config = transformers.ConvNextConfig(hidden_sizes=[16, 32], depths=[1, 1], num_stages=2)
    return transformers.ConvNextModel(config), torch.zeros(1, 3, 64, 64)


@pytest.fixture(scope="module", params=[llama, convnext], ids=lambda build: build.__name__)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """A model's name, its import, the products that PyTorch counts, and the parameters in the file."""
    from torch.utils.flop_counter import FlopCounterMode

    module, example = request.param()
    module.eval()
    path: Path = tmp_path_factory.mktemp("exported") / "model.onnx"
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        with FlopCounterMode(display=False) as counter:
            module(example)
        torch.onnx.export(module, (example,), path, dynamo=True, verbose=False, external_data=True)
    logging.disable(logging.NOTSET)
    stored = onnx.load(path, load_external_data=False).graph.initializer
    parameters = sum(prod(t.dims) for t in stored if t.data_type == onnx.TensorProto.FLOAT and prod(t.dims) > 1)
    return request.param.__name__, import_onnx(path), counter.get_total_flops() // 2, parameters


def test_counts_are_those_of_pytorch_and_of_the_file(
    exported: tuple[str, ImportedModel, int, int],
) -> None:
    _, imported, macs, parameters = exported
    assert imported.report.macs == macs
    assert imported.report.parameters == parameters
    assert imported.report.not_modelled == ()


def test_everything_between_layers_can_be_fused(exported: tuple[str, ImportedModel, int, int]) -> None:
    name, imported, _, _ = exported
    assert imported.report.fusible_edges == len(imported.report.edges)
    dims = [layer.dims for layer in imported.workload.layers if layer.is_mac]
    if name == "llama":
        assert dims.count(Dims(G=2, N=64, K=16, C=8)) == 2  # scores: 4 query heads share a key head
        assert dims.count(Dims(G=2, N=64, K=8, C=16)) == 2
    else:
        assert Dims(K=64, C=16, P=16, Q=16) in dims  # a linear layer over pixels
