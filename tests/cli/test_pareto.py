"""`pareto`: what it writes, prints and refuses."""

import csv
from pathlib import Path

import pytest

from cli.command import answer, fadiff, refusal, write
from fadiff.cost import evaluate, load_schedule
from fadiff.errors import FadiffError
from fadiff.report import figures
from fadiff.search import pareto as search

NETWORK = """\
name: tiny
layers:
  - {name: a, kind: mac, dims: {K: 2, C: 2, P: 4, Q: 2}, inputs: [{from: null, port: input}]}
  - {name: b, kind: mac, dims: {K: 2, C: 2, P: 4, Q: 2, R: 3}, inputs: [{from: a, port: input}]}
  - {name: s, kind: add, dims: {K: 2, P: 4, Q: 2}, inputs: [{from: b, port: addend}, {from: a, port: addend}]}
  - {name: c, kind: mac, dims: {K: 2, C: 2, P: 4, Q: 2}, inputs: [{from: s, port: input}]}
"""
MACHINE = """\
name: flat
mac_pj: 0.5
nodes:
  - {memory: DRAM, keeps: WIO, read_pj: 100, write_pj: 100, words_per_cycle: 2}
  - {memory: buffer, keeps: WIO, bytes: 40, read_pj: 1, write_pj: 1, words_per_cycle: 8, fuses: true}
  - {axis: lanes, size: 2, dims: KC}
  - {memory: spad, keeps: WO, bytes: 8, read_pj: 0.3, write_pj: 0.3, words_per_cycle: 4}
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """A folder with a network, a machine, and the front of both."""
    folder = tmp_path_factory.mktemp("pareto")
    network, machine = write(folder, "net.yaml", NETWORK), write(folder, "chip.yaml", MACHINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "PROVEN_GAP", 1.0)
        patch.setenv("FADIFF_CACHE_DIR", "")
        made = answer("pareto", network, "-H", machine, "-b", "10m", "-n", 4, "-o", folder / "front")
    write(folder, "answer.json", repr(made))
    return folder


@pytest.fixture(scope="module")
def made(desk: Path) -> dict:
    return eval((desk / "answer.json").read_text())


def test_every_point_is_a_file_that_states_its_numbers(desk: Path, made):
    with (desk / "front" / "front.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert made["stopped"] == "done"
    assert 1 < len(rows) == len(made["points"]) <= 4
    for row, point in zip(rows, made["points"], strict=True):
        schedule = load_schedule(desk / "front" / point["file"])
        assert evaluate(schedule).stated().model_dump() == {
            key: point[key] for key in ("energy_pj", "cycles", "edp_uj_cycles")
        }
        assert float(row["energy_pj"]) == point["energy_pj"]
        assert float(row["cycles"]) == point["cycles"]
        assert schedule.made_by["command"].startswith(f"fadiff pareto {desk / 'net.yaml'} --hardware")
        assert schedule.bound.cycles <= point["cycles"]
        assert point["gap"] >= -1e-9


def test_the_folder_has_pictures(desk: Path, made):
    names = {path.name for path in (desk / "front").iterdir()}
    assert names == {"front.csv", "front.svg", "front.png", *(point["file"] for point in made["points"])}
    assert (desk / "front" / "front.png").read_bytes().startswith(b"\x89PNG")
    assert (desk / "front" / "front.svg").read_text().count("<circle") == len(made["points"])
    assert made["proven_corners"]


def test_without_matplotlib_there_is_a_picture_all_the_same(desk: Path, tmp_path: Path, monkeypatch):
    def missing(*_):
        raise FadiffError("figures need matplotlib")

    monkeypatch.setattr(figures, "front_bytes", missing)
    monkeypatch.setenv("COLUMNS", "100")
    result = fadiff("pareto", desk / "net.yaml", "-H", desk / "chip.yaml", "-b", "10ms", "-o", tmp_path / "front")
    assert result.exit_code == 0, result.output
    assert "The budget ended the search" in result.stdout
    assert sorted(path.name for path in (tmp_path / "front").iterdir())[:2] == ["front.csv", "front.svg"]
    assert "Energy against latency" in result.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-o", "{}/nowhere/front"), "does not exist"),
        (("-o", "{}"), "not an empty folder"),
        (("-o", "{}/net.yaml"), "not an empty folder"),
        (("-o", "{}/new", "-b", "soon"), "no duration"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_search(desk: Path, words, told):
    given = [word.format(desk) for word in words]
    assert told in refusal("pareto", desk / "net.yaml", "-H", desk / "chip.yaml", *given)
    assert not (desk / "new").exists()
