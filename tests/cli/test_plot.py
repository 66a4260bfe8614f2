"""`plot`: files where they are asked for, and refusals that leave nothing behind."""

import json
from pathlib import Path

import pytest

from cli.command import MACHINE, NETWORK, fadiff, refusal, schedule_file, write


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """A folder with a schedule and the trace of the search that made it."""
    folder = tmp_path_factory.mktemp("plot")
    schedule_file(folder)
    network, machine = write(folder, "net.yaml", NETWORK), write(folder, "chip.yaml", MACHINE)
    made = fadiff("optimize", network, "-H", machine, "-m", "greedy", "--trace", folder / "trace.json")
    assert made.exit_code == 0, made.output
    return folder


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_takes_all_figures(desk: Path, tmp_path: Path):
    result = fadiff("plot", desk / "tiny.json", "-o", tmp_path / "figures")
    assert result.exit_code == 0, result.output
    names = ["energy.png", "graph.png", "latency.png", "roofline.png", "timeline.png"]
    assert listed(tmp_path / "figures") == names
    assert all(name in result.stdout.replace("\n", "") for name in names)


def test_with_a_trace_convergence_is_among_them(desk: Path, tmp_path: Path):
    result = fadiff("plot", desk / "tiny.json", "-o", tmp_path, "--trace", desk / "trace.json", "--format", "svg")
    assert result.exit_code == 0, result.output
    assert "convergence.svg" in listed(tmp_path)
    assert len(listed(tmp_path)) == 6


@pytest.mark.parametrize(
    ("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PDF", b"%PDF")]
)
def test_a_file_takes_one_figure_in_the_format_of_its_name(desk: Path, tmp_path: Path, suffix: str, magic: bytes):
    path = tmp_path / f"mine.{suffix}"
    assert fadiff("plot", desk / "tiny.json", "-f", "latency", "-o", path).exit_code == 0
    assert path.read_bytes().startswith(magic)


def test_plotting_twice_writes_the_same_bytes(desk: Path, tmp_path: Path):
    for name in ("one", "two"):
        assert fadiff("plot", desk / "tiny.json", "-f", "graph", "-f", "latency", "-o", tmp_path / name).exit_code == 0
    for figure in ("graph.png", "latency.png"):
        assert (tmp_path / "one" / figure).read_bytes() == (tmp_path / "two" / figure).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-f", "energie", "-o", "out"), "figure 'energie' is unknown: use one of energy, latency"),
        (("-o", "out.png"), "one file holds one figure"),
        (("-f", "energy", "-o", "out.png", "--format", "svg"), "its name asks for png, --format for svg"),
        (("-f", "energy", "-o", "out", "--format", "jpg"), "format 'jpg' is unknown: use one of png, svg, pdf"),
        (("-f", "convergence", "-o", "out"), "needs a trace"),
        (("-o", "not/there"), "its folder not does not exist: create it"),
        (("-f", "energy", "-o", "not/there.png"), "its folder not does not exist: create it"),
        (("-o", "all.jpg"), "figures are written as png, svg, pdf: end its name so, or name a folder"),
        (("-o", "taken.txt"), "figures are written as png, svg, pdf"),
        (("--trace", "missing.json", "-o", "out"), "there is no such file"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_written(
    arguments: tuple[str, ...], told: str, desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.txt").write_text("mine", encoding="utf-8")
    assert told in refusal("plot", desk / "tiny.json", *arguments)
    assert listed(tmp_path) == ["taken.txt"]


def test_a_bad_trace_leaves_no_figure(desk: Path, tmp_path: Path):
    data = json.loads((desk / "trace.json").read_text(encoding="utf-8"))
    bad = write(tmp_path, "bad.json", json.dumps(data | {"format": "fadiff-trace/9"}))
    assert "format" in refusal("plot", desk / "tiny.json", "-o", tmp_path / "out", "--trace", bad)
    assert listed(tmp_path) == ["bad.json"]


def test_the_trace_of_another_search_is_refused(desk: Path, tmp_path: Path):
    data = json.loads((desk / "trace.json").read_text(encoding="utf-8"))
    data["points"][-1]["best_edp_uj_cycles"] *= 2
    other = write(tmp_path, "other.json", json.dumps(data))
    sentence = refusal("plot", desk / "tiny.json", "-o", tmp_path / "out", "--trace", other)
    assert "give the trace of the search that found this schedule" in sentence
    assert listed(tmp_path) == ["other.json"]


def test_an_illegal_schedule_is_refused(desk: Path, tmp_path: Path):
    data = json.loads((desk / "tiny.json").read_text(encoding="utf-8"))
    data["hardware"]["nodes"][1]["bytes"] = 8
    bad = write(tmp_path, "bad.json", json.dumps(data))
    assert "fits" in refusal("plot", bad, "-o", tmp_path / "out")
    assert listed(tmp_path) == ["bad.json"]
