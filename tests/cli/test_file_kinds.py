"""A file of the wrong kind is called by its name, whoever was to read it."""

import json
from pathlib import Path

import pytest

from cli.command import MACHINE, NETWORK, fadiff, refusal, schedule_file, write
from fadiff.file_kinds import read_data

CALLED = {
    "network.yaml": "a network",
    "network.json": "a network",
    "chip.yaml": "a description of hardware",
    "nodes.json": "a description of hardware",
    "tiny.json": "a schedule",
    "trace.json": "the trace of a search",
    "map.yaml": "a mapping of Timeloop",
    "model.onnx": "an ONNX model",
    "model.pt2": "a program of torch.export",
    "config.json": "a Hugging Face configuration",
    "weights.safetensors": "a file of weights",
    "report.html": "an HTML page",
    "graph.svg": "a picture",
    "graph.png": "a picture",
    "graph.pdf": "a PDF document",
    "shown.json": "what a command printed with --json",
    "evaluated.json": "what a command printed with --json",
    "verified.json": "what a command printed with --json",
    "exported.json": "what a command printed with --json",
}
ONE = "one-layer.yaml"
"""The network whose only layer a mapping may be of."""
READERS = {
    "a network": (("show", "{}"), ("optimize", "{}"), ("bound", "{}")),
    "a description of hardware": (("hardware", "{}"), ("optimize", "resnet18", "--hardware", "{}")),
    "a schedule": (
        ("evaluate", "{}"),
        ("verify", "{}"),
        ("plot", "{}", "-o", "x.png", "-f", "graph"),
        ("report", "{}"),
        ("export", "{}", "--to", "timeloop", "-o", "x"),
    ),
    "a mapping of Timeloop": (("import-mapping", "{}", "--model", ONE, "-H", "chip.yaml", "-o", "x.json"),),
    "the trace of a search": (("report", "tiny.json", "--trace", "{}"),),
    "a model from elsewhere": (("import", "{}"),),
}
IMPORTED = ("an ONNX model", "a program of torch.export", "a Hugging Face configuration", "a file of weights")
READ_ANYWAY = {
    ("a network", kind) for kind in IMPORTED
} | {("a model from elsewhere", kind) for kind in IMPORTED}  # fmt: skip
"""What a reader takes, or refuses in its own words."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of each kind."""
    place = tmp_path_factory.mktemp("kinds")
    schedule = schedule_file(place)
    write(place, "network.yaml", NETWORK)
    write(place, "chip.yaml", MACHINE)
    arguments = ("optimize", place / "net.yaml", "-H", place / "chip.yaml", "-m", "greedy")
    assert fadiff(*arguments, "--trace", place / "trace.json").exit_code == 0
    for name, command in (
        ("nodes.json", ("hardware", "eyeriss")),
        ("shown.json", ("show", place / "net.yaml")),
        ("evaluated.json", ("evaluate", schedule)),
        ("verified.json", ("verify", schedule)),
        ("exported.json", ("export", schedule, "--to", "zigzag", "-o", place / "zigzag")),
    ):
        write(place, name, fadiff(*command, "--json").stdout)
    write(place, "network.json", json.dumps(json.loads(schedule.read_text(encoding="utf-8"))["workload"]))
    write(place, "config.json", '{"model_type": "bert"}')
    write(place, "map.yaml", "mapping: [{target: DRAM, type: temporal}]\n")
    write(
        place, ONE, "name: one\nlayers:\n  - {name: a, kind: mac, dims: {K: 2}, inputs: [{from: null, port: input}]}\n"
    )
    write(place, "report.html", "\n<!DOCTYPE html>\n<html></html>")
    write(place, "graph.svg", '<?xml version="1.0"?><svg/>')
    for name, start in (("graph.png", b"\x89PNG\r\n"), ("graph.pdf", b"%PDF-1.4"), ("model.onnx", b"\x08\x09")):
        (place / name).write_bytes(start + b"\xff\x00")
    for name in ("model.pt2", "weights.safetensors"):
        (place / name).write_bytes(b"PK\x03\x04\xff")
    return place


PAIRS = [
    (wanted, name)
    for wanted in READERS
    for name, kind in CALLED.items()
    if kind != wanted and (wanted, kind) not in READ_ANYWAY
]


@pytest.mark.parametrize(("wanted", "name"), PAIRS)
def test_a_file_of_the_wrong_kind_is_called_by_its_name(
    wanted: str, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    for command in READERS[wanted]:
        if command[0] == "bound" and CALLED[name] == "a schedule":
            continue
        sentence = refusal(*(name if word == "{}" else word for word in command))
        assert "\n" not in sentence
        assert sentence.startswith(f"{name}: this is {CALLED[name]}, not {wanted}: ")
    assert sorted(folder.iterdir()) == before


def test_a_schedule_is_a_schedule_whatever_its_name(folder: Path, tmp_path: Path):
    path = write(tmp_path, "tiny.schedule", (folder / "tiny.json").read_text(encoding="utf-8"))
    assert fadiff("bound", path, "--budget", "1s").exit_code == 0


def test_a_file_that_is_wrong_in_another_way_is_not_named(tmp_path: Path):
    path = write(tmp_path, "net.yaml", "name: tiny\nlayer: []\n")
    assert read_data(path, "a network") == {"name": "tiny", "layer": []}
    assert "layer: this key is unknown" in refusal("show", path)


@pytest.mark.parametrize(
    ("text", "called"),
    [("architecture: {version: 0.4}", "a description for Timeloop"), ("problem: {}", "a description for Timeloop"),
     ("memories: {}\noperational_array: {}", "an accelerator for ZigZag")],
)  # fmt: skip
def test_files_of_other_tools_are_called_by_their_names(text: str, called: str, tmp_path: Path):
    path = write(tmp_path, "other.yaml", text)
    for command, wanted in ((("hardware", path), "a description of hardware"), (("show", path), "a network")):
        assert (
            refusal(*command)
            == f"{path}: this is {called}, not {wanted}: docs/coming-from.md tells how to say the same here"
        )


def test_a_tag_is_told_to_be_of_another_program(tmp_path: Path):
    path = write(tmp_path, "other.yaml", "architecture:\n  nodes:\n  - !Container\n    name: system\n")
    told = refusal("hardware", path)
    assert "line 3, column 5" in told
    assert "it has the tag !Container, and no file of FADiff has tags: is it one of another program?" in told
