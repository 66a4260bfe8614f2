"""`models`, `hardware` and `show`."""

import json
from pathlib import Path

import pytest

from cli.command import MACHINE, NETWORK, answer, fadiff, refusal, write
from fadiff.hardware import builtin_machines, load_machine
from fadiff.workload import load_model, zoo_names

GOLDEN = Path(__file__).parent / "golden"


def test_models_lists_the_zoo():
    listed = answer("models")["models"]
    assert [model["name"] for model in listed] == list(zoo_names())
    resnet = next(model for model in listed if model["name"] == "resnet18")
    assert resnet["macs"] == load_model("resnet18").macs
    shown = fadiff("models").stdout
    assert all(name in shown for name in zoo_names())


def test_hardware_lists_the_built_in_machines():
    listed = answer("hardware")["hardware"]
    assert [machine["name"] for machine in listed] == list(builtin_machines())
    assert "gemmini-large" in fadiff("hardware").stdout


def test_hardware_in_full_is_a_hardware_file(tmp_path: Path):
    path = write(tmp_path, "printed.json", fadiff("hardware", "gemmini-small", "--json").stdout)
    assert load_machine(str(path)) == load_machine("gemmini-small")


def test_a_hardware_file_is_shown_with_its_units(tmp_path: Path):
    shown = fadiff("hardware", write(tmp_path, "chip.yaml", MACHINE)).stdout
    assert "16 KB" in shown
    assert "pJ/word" in shown
    for part in (
        "scratchpad",
        "8 lanes over K, G",
        "64",
        "filled in",
        "Tensors between fused layers stay in scratchpad",
    ):
        assert part in shown


def test_the_area_of_a_machine_is_told_by_part_and_in_all():
    shown = " ".join(fadiff("hardware", "gemmini-large").stdout.split())
    parts = "scratchpad 1.34, accumulator 0.186, registers 0.0410, MACs 0.341"
    assert f"area 1.91 mm2 at 40 nm ({parts}) leakage 381 mW" in shown


def test_a_space_of_machines_is_shown_with_its_ends(tmp_path: Path):
    space = write(tmp_path, "space.yaml", MACHINE.replace("l2: 16 KB", "l2: {from: 16 KB, to: 1 MB}"))
    shown = " ".join(fadiff("hardware", space).stdout.split())
    assert "1 free number" in shown
    assert "scratchpad.bytes any 16 KB 1 MB" in shown
    assert "smallest area 0.0" in shown
    assert "largest area 2.69 mm2" in shown
    printed = answer("hardware", space)
    assert printed["numbers"][0]["name"] == "scratchpad.bytes"
    assert printed["smallest"]["area_mm2"] < printed["largest"]["area_mm2"]
    assert printed["largest"]["hardware"]["nodes"][1]["bytes"] == 2**20


def test_a_space_is_refused_where_a_machine_is_wanted(tmp_path: Path):
    space = write(tmp_path, "space.yaml", MACHINE.replace("l2: 16 KB", "l2: {from: 16 KB, to: 1 MB}"))
    told = refusal("optimize", "mobilenet_v1", "--hardware", space, "-m", "greedy")
    assert "this is a space of machines, not one machine" in told


def test_an_extrapolated_energy_is_told_with_its_memory():
    shown = " ".join(fadiff("hardware", "tpu-v1").stdout.split())
    assert "unified_buffer: from the capacity, extrapolated beyond the table's 1 KB to 8 MB" in shown
    assert "clock 700 MHz" in shown
    assert "extrapolated" not in fadiff("hardware", "gemmini-large").stdout


def test_show_prints_a_network_as_its_golden_says(tmp_path: Path):
    path = write(tmp_path, "net.yaml", NETWORK)
    assert fadiff("show", path, "--json").stdout == (GOLDEN / "show_tiny.json").read_text(encoding="utf-8")


def test_show_names_layers_dims_operands_and_totals(tmp_path: Path):
    shown = fadiff("show", write(tmp_path, "net.yaml", NETWORK)).stdout
    for part in ("K8 C4 P8 Q8 R3 S3", "relu, max_pool -> 4x4", "b (x2)", "b, a", "(input)"):
        assert part in shown
    assert f"{load_model(str(tmp_path / 'net.yaml')).macs:,}" in shown


def test_options_of_a_zoo_model_follow_a_colon():
    assert answer("show", "bert-base:seq=128,repeat=12")["totals"]["macs"] == 11_173_625_856


@pytest.mark.parametrize("name", ["[bold]a[/bold]", ":smile:", "ä-λ"])
def test_names_are_printed_as_they_are(tmp_path: Path, name: str):
    text = NETWORK.replace("name: a,", f"name: {json.dumps(name)},").replace("from: a,", f"from: {json.dumps(name)},")
    assert name in fadiff("show", write(tmp_path, "net.yaml", text)).stdout


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize(
    "command",
    [
        ("models",),
        ("hardware",),
        ("hardware", "gemmini-large"),
        ("hardware", "tesla-npu-like-df"),
        ("show", "resnet18"),
    ],
)
def test_tables_keep_within_the_terminal(command: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = fadiff(*command).stdout
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
