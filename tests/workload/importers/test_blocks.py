"""Many equal blocks of an imported model become one that repeats."""

import pytest
import torch
from torch import nn
from transformers import AutoConfig

from fadiff import evaluate, greedy, load_machine
from fadiff.workload.importers.blocks import FEWEST, FEWEST_OF_IMAGES
from fadiff.workload.importers.torch_models import import_huggingface, import_torch
from fadiff.workload.repeats import AT_THE_BORDER

TINY = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100}


@pytest.mark.parametrize(("blocks", "repeat"), [(FEWEST - 1, 1), (FEWEST, FEWEST)])
def test_a_transformer_of_many_blocks_is_one_block_that_repeats(blocks: int, repeat: int):
    config = AutoConfig.for_model("bert", num_hidden_layers=blocks, **TINY)
    model = import_huggingface(config, seq=16)
    assert max(layer.repeat for layer in model.workload.layers) == repeat
    assert len(model.workload.layers) == 10 * blocks // repeat + 1


@pytest.mark.parametrize(("blocks", "repeat"), [(FEWEST_OF_IMAGES - 1, 1), (FEWEST_OF_IMAGES, FEWEST_OF_IMAGES)])
def test_blocks_of_images_are_folded_later(blocks: int, repeat: int):
    module = nn.Sequential(*(nn.Conv2d(4, 4, 3, padding=1) for _ in range(blocks)))
    network = import_torch(module, torch.zeros(1, 4, 8, 8)).workload
    assert [layer.repeat for layer in network.layers] == [repeat] * (blocks // repeat)


def test_folded_and_unfolded_models_have_the_same_totals():
    config = AutoConfig.for_model("llama", num_hidden_layers=FEWEST + 2, num_key_value_heads=2, **TINY)
    whole, small = (import_huggingface(config, seq=16, unfold=unfold) for unfold in (True, False))
    assert len(small.workload.layers) < len(whole.workload.layers) / FEWEST
    for name in ("operators", "macs", "parameters", "layer_parameters", "not_modelled"):
        assert getattr(small.report, name) == getattr(whole.report, name)
    assert small.workload.parameter_words == whole.workload.parameter_words
    costs = [evaluate(greedy(model.workload, load_machine("gemmini-small"))) for model in (whole, small)]
    for name in ("energy_pj", "cycles", "edp_uj_cycles"):
        assert getattr(costs[1], name) == pytest.approx(getattr(costs[0], name), rel=1e-12)


def test_the_account_of_a_folded_model_speaks_of_the_layers_that_are_left():
    module = nn.Sequential(nn.Linear(8, 16), *(nn.Linear(16, 16) for _ in range(FEWEST)), nn.Linear(16, 4))
    model = import_torch(module, torch.zeros(2, 8))
    names = {layer.name for layer in model.workload.layers}
    assert names == {"0", "1", str(FEWEST + 1)}
    assert {(edge.source, edge.target, edge.reason) for edge in model.report.edges} == {
        ("0", "1", AT_THE_BORDER), ("1", str(FEWEST + 1), AT_THE_BORDER)
    }  # fmt: skip
    assert {row.layer for row in model.report.folded} <= {None, *names}
    (note,) = model.report.notes
    assert f"{FEWEST} equal blocks, up to {FEWEST}, are folded into one that repeats (1)" in note
    assert "--unfold" in note
