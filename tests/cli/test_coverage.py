"""What a network's layers do not stand for is told by every command, and carried by every file."""

import json
from pathlib import Path

import pytest

from cli.command import MACHINE, answer, fadiff, refusal, write
from workload.importers.graphs import GraphBuilder

GRID_SAMPLE = "20.0% of the MACs: 1 x GridSample because it reads at places that are computed"
REASON = "GridSample warp is not modelled"


def said(result: str) -> str:
    return " ".join(result.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with an operator that is not modelled, and what commands make of it one after the other."""
    folder = tmp_path_factory.mktemp("coverage")
    net = GraphBuilder()
    grid = net.input("grid", (1, 8, 8, 2))
    y = net.conv(net.input("image", (1, 8, 8, 8)), (8, 8), norm=False, name="a")
    net.conv(net.add("GridSample", y, grid, name="warp"), (8, 8), norm=False, name="b")
    model = net.save(folder, "b")
    chip = write(folder, "chip.yaml", MACHINE)
    for arguments in (
        ("import", model, "-o", folder / "net.yaml"),
        ("optimize", folder / "net.yaml", "-H", chip, "-m", "greedy", "-o", folder / "found.json"),
        ("report", folder / "found.json", "-o", folder / "found.html"),
    ):
        assert fadiff(*arguments).exit_code == 0
    return folder


COMMANDS = {
    "import": ("import", "model.onnx"),
    "show a model": ("show", "model.onnx"),
    "show a network": ("show", "net.yaml"),
    "optimize a model": ("optimize", "model.onnx", "-m", "greedy"),
    "optimize a network": ("optimize", "net.yaml", "-m", "greedy"),
    "bound": ("bound", "found.json", "-b", "1s"),
    "evaluate": ("evaluate", "found.json"),
    "verify": ("verify", "found.json"),
}
STRICT = [name for name in COMMANDS if name not in ("evaluate", "verify")]


def arguments(folder: Path, name: str) -> tuple[object, ...]:
    command, file, *options = COMMANDS[name]
    return command, folder / file, *options


@pytest.mark.parametrize("name", COMMANDS)
def test_every_summary_tells_what_is_not_modelled(name: str, folder: Path):
    result = fadiff(*arguments(folder, name))
    assert result.exit_code == 0, result.output
    assert f"not modelled {GRID_SAMPLE}" in said(result.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_document_tells_what_is_not_modelled(name: str, folder: Path):
    found = answer(*arguments(folder, name))
    if name.startswith(("import", "show")):
        network = found.get("workload", found)
        share, rows = network["totals"]["not_modelled_share"], network["not_modelled"]
    else:
        share, rows = found["coverage"]["not_modelled_share"], found["coverage"]["not_modelled"]
    assert share == 0.2
    assert rows == [
        {
            "name": "warp", "type": "GridSample", "reason": "it reads at places that are computed", "macs": 2048,
            "weight_words": 0, "input_words": 512 + 128, "output_words": 512,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("name", STRICT)
def test_strict_refuses_what_is_not_modelled_and_writes_nothing(name: str, folder: Path, tmp_path: Path):
    more = () if name.startswith("show") else ("-o", tmp_path / "out.json")
    sentence = refusal(*arguments(folder, name), "--strict", *more)
    assert "not all of it is modelled: GridSample 'warp' (it reads at places that are computed)" in sentence
    assert "\n" not in sentence
    assert not list(tmp_path.iterdir())


def test_the_report_tells_it_and_strict_refuses_it(folder: Path, tmp_path: Path):
    page = (folder / "found.html").read_text(encoding="utf-8")
    assert f"Not modelled: {GRID_SAMPLE}." in page
    assert f"b cannot read a on chip: {REASON}" in page
    assert "without --strict" in refusal("report", folder / "found.json", "--strict", "-o", tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["evaluate", "verify", "bound"])
def test_strict_refuses_a_schedule_of_a_part(command: str, folder: Path):
    assert "without --strict" in refusal(command, folder / "found.json", "--strict")


def test_strict_takes_what_is_all_there(tmp_path: Path):
    assert fadiff("show", "resnet18", "--strict").exit_code == 0
    assert "not modelled" not in fadiff("show", "resnet18").stdout


def test_why_an_edge_cannot_fuse_survives_all_files(folder: Path):
    (entry,) = answer("optimize", folder / "net.yaml", "-H", folder / "chip.yaml", "-b", "2s")["not_fused"]
    assert (entry["cause"], entry["detail"]) == ("not fusible", f"b cannot read a on chip: {REASON}")
    written = json.loads((folder / "found.json").read_text(encoding="utf-8"))["workload"]
    assert written["layers"][1]["inputs"] == [{"from": "a", "port": "input", "fusible": False, "reason": REASON}]


def test_a_schedule_from_before_is_still_read(folder: Path, tmp_path: Path):
    """One that says nothing of coverage and reasons costs the same."""
    document = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    del document["workload"]["not_modelled"]
    del document["workload"]["layers"][1]["inputs"][0]["reason"]
    old = write(tmp_path, "old.json", json.dumps(document))
    before, after = answer("evaluate", old), answer("evaluate", folder / "found.json")
    assert before["totals"] == after["totals"]
    assert before["coverage"] == {"not_modelled_share": 0.0, "not_modelled": [], "notes": []}
    assert fadiff("report", old, "-c", folder / "found.json", "-o", tmp_path / "page.html").exit_code == 0
