"""The trial of networks: what its table holds, what its rows tell, and a row that is a search."""

from importlib import metadata
from pathlib import Path

import pytest
import torch

import fadiff
from fadiff.errors import FadiffError
from fadiff.reproduce.experiment import Desk, run
from fadiff.reproduce.trial import experiment, unets, vision
from fadiff.reproduce.trial.networks import NETWORKS, File
from reproduce.pages import table_after, told_and_committed, write_csv

SMALL = "silero-vad"


@pytest.mark.parametrize(
    ("build", "published"),
    [(vision.mobilenet_v3, 5_483_032), (vision.Yolo, 3_157_184), (unets.UNet, 31_043_586),
     (unets.DiffusionUNet, 859_520_964)],
)  # fmt: skip
def test_modules_have_the_parameters_that_were_published(build, published):
    with torch.device("meta"):
        assert sum(parameter.numel() for parameter in build().parameters()) == published


def test_a_network_that_was_quantized_as_it_runs_is_its_float_twin():
    twin = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2048}
    floats = fadiff.from_huggingface({"model_type": "bert", **twin}, seq=128)
    quantized = NETWORKS["bert-small-int8"].load("").workload
    assert [layer.dims for layer in quantized.layers] == [layer.dims for layer in floats.layers]
    assert not quantized.not_modelled


def test_a_network_that_was_quantized_once_is_its_float_twin():
    floats, quantized = (NETWORKS[name].load(name).workload for name in ("mobilenet-v3", "mobilenet-v3-int8"))
    assert [layer.dims for layer in quantized.layers] == [layer.dims for layer in floats.layers]
    fusible = [[edge.fusible for edge in network.edges] for network in (floats, quantized)]
    assert fusible[0] == fusible[1]
    assert not quantized.not_modelled


def test_a_package_that_is_not_there_is_told():
    with pytest.raises(FadiffError, match=r"net comes with no-such-package: run python -m pip install --no-deps no-"):
        File("net.onnx", "no-such-package").load("net")


def test_every_network_is_told_on_every_machine(tmp_path: Path):
    told = {"source": "somewhere", "layers": 12, "macs": 3_456_000_000, "parameters": 7_000_000, "modelled": 0.995}
    cell = {"edp_uj_cycles": 90.0, "utilization": 0.5, "unfused_edp_uj_cycles": 120.0, "edges_fused": 7, "gap": 0.015}
    trials = [experiment.Trial(name, experiment.SEARCH_S, experiment.PROOF_S) for name in NETWORKS]
    rows = [
        {**trial._asdict(), **told, "read_s": 1.5, "hardware": machine, **cell, "seconds": 19.6, "stopped": "done"}
        for trial in trials for machine in experiment.MACHINES
    ]  # fmt: skip
    write_csv(tmp_path / "results" / "trial.csv", rows)
    page = run(Desk("trial", tmp_path)).read_text()
    networks = table_after(page, "| network | comes from")
    assert list(networks) == list(NETWORKS)
    assert networks["gpt2"] == ["somewhere", "12", "3.456", "7", "99.50%", "1.5 s"]
    for machine in experiment.MACHINES:
        section = page[page.index(f"### On {machine}") :]
        cells = table_after(section, "| network | EDP")
        assert list(cells) == list(NETWORKS)
        assert cells["gpt2"] == ["90", "50.0%", "7", "0.750", "1.5%", "20 s"]


def test_the_section_in_the_documentation_is_that_of_its_rows(tmp_path: Path):
    told, committed = told_and_committed("trial", tmp_path)
    assert told == committed


def test_rows_are_searches_of_what_was_read(monkeypatch: pytest.MonkeyPatch):
    if not any(found.name == SMALL for found in metadata.distributions()):
        pytest.skip(f"{SMALL} is not installed")
    monkeypatch.setattr(experiment, "MACHINES", {"gemmini-small": ""})
    (row,) = experiment._rows(experiment.Trial(SMALL, 0.1, 0.1))
    assert (row["layers"], row["modelled"], row["hardware"]) == (10, 1.0, "gemmini-small")
    network = NETWORKS[SMALL].load(SMALL).workload
    assert row["macs"] == network.macs
    assert 0 < row["edp_uj_cycles"] <= row["unfused_edp_uj_cycles"]
    assert row["gap"] > 0


def test_the_quick_trial_is_part_of_the_whole():
    assert set(experiment.QUICK_NETWORKS) < set(NETWORKS)
    assert len(NETWORKS) >= 25
