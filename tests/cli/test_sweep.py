"""`fadiff sweep`: plans, tables and pages, on the command line."""

import io
import json
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from fadiff.cli import live_sweep
from fadiff.cli.live_sweep import SweepDisplay
from fadiff.errors import FadiffError
from fadiff.sweeps import lesson
from fadiff.sweeps.measure import Progress

from .command import MACHINE, NETWORK, answer, fadiff, refusal, write


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    write(tmp_path, "net.yaml", NETWORK)
    chip = write(tmp_path, "chip.yaml", MACHINE)
    grid = {"base": str(chip), "set": {"scratchpad.bytes": ["8 KB", "16 KB"]}}
    text = yaml.safe_dump(
        {"networks": [str(tmp_path / "net.yaml")], "machines": ["gemmini-small", grid], "methods": "greedy"}
    )
    return write(tmp_path, "plan.yaml", text)


def test_a_sweep_writes_a_table_a_page_and_schedules(plan: Path, tmp_path: Path):
    out = tmp_path / "out"
    result = fadiff("sweep", plan, "-o", out, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert "sweep.csv with 3 rows, sweep.html, and schedules" in " ".join(result.stdout.split())
    page = (out / "sweep.html").read_text()
    for row in json.loads(fadiff("sweep", plan, "-o", out, "--jobs", 1, "--json").stdout)["rows"]:
        assert row["machine"].rpartition("/")[2] in page
        assert fadiff("verify", out / row["schedule"]).exit_code == 0


def test_two_processes_find_the_same(plan: Path, tmp_path: Path):
    def found(out: Path, jobs: int) -> list[dict[str, object]]:
        rows = answer("sweep", plan, "-o", out, "--jobs", jobs)["rows"]
        return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]

    one, two = tmp_path / "one", tmp_path / "two"
    assert found(one, 1) == found(two, 2)
    for path in sorted((one / "schedules").iterdir()):
        assert path.read_bytes() == (two / "schedules" / path.name).read_bytes()


def test_cells_that_fail_are_told_and_the_exit_code_is_1(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = lesson.optimize

    def fails(workload, machine, **options):
        if machine.name == "gemmini-small":
            raise FadiffError("no <legal> schedule: do something")
        return real(workload, machine, **options)

    monkeypatch.setattr(lesson, "optimize", fails)
    result = fadiff("sweep", plan, "-o", tmp_path / "out", "--jobs", 1)
    assert result.exit_code == 1
    told = " ".join(result.stdout.split())
    assert "on gemmini-small, greedy: no <legal> schedule: do something" in told
    assert "1 cell of 3 failed" in told
    assert "no &lt;legal&gt; schedule" in (tmp_path / "out" / "sweep.html").read_text()
    monkeypatch.setattr(lesson, "optimize", real)
    assert fadiff("sweep", plan, "-o", tmp_path / "out", "--jobs", 1).exit_code == 0


def test_a_sweep_of_which_all_cells_fail_has_a_page(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fails(*given: object, **options: object) -> None:
        raise FadiffError("no")

    monkeypatch.setattr(lesson, "optimize", fails)
    assert fadiff("sweep", plan, "-o", tmp_path / "out", "--jobs", 1).exit_code == 1
    assert "3 cells failed" in (tmp_path / "out" / "sweep.html").read_text()


def test_what_is_wrong_is_one_sentence(plan: Path, tmp_path: Path):
    wrong = write(tmp_path, "wrong.yaml", plan.read_text().replace("gemmini-small", "gemini-small"))
    assert "did you mean gemmini-small?" in refusal("sweep", wrong, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    write(tmp_path, "file", "")
    assert "no folder can be made there" in refusal("sweep", plan, "-o", tmp_path / "file")
    assert "there is no such file" in refusal("sweep", tmp_path / "none.yaml", "-o", tmp_path / "out")
    assert "add --on ray" in refusal("sweep", plan, "-o", tmp_path / "out", "--address", "10.0.0.1:6379")
    assert "add --on ray" in refusal("sweep", plan, "-o", tmp_path / "out", "--gpus", "1")


def test_while_it_runs_cells_and_the_time_left_are_shown(monkeypatch: pytest.MonkeyPatch):
    shown = io.StringIO()
    monkeypatch.setattr(live_sweep, "console", lambda err: Console(file=shown, force_terminal=True, width=100))
    clock = iter([0.0, 10.0, 10.0])
    monkeypatch.setattr(live_sweep.time, "monotonic", lambda: next(clock, 10.0))
    row = {"network": "net", "machine": "chip", "method": "greedy", "seed": "0", "error": "", "seconds": "1.5"}
    with SweepDisplay(shown=True) as display:
        display.update(Progress(5, 20, ()))
        assert display.left(Progress(5, 20, ("net on other",))) == "time left not known yet"
        display.update(Progress(10, 20, ("net on other",), [row | {"edp_uj_cycles": "123.0"}]))
        assert display.left(Progress(10, 20, ())) == "about 20 s left"
        display.update(Progress(11, 20, (), [row | {"error": "no", "seconds": ""}]))
    for text in ("net on chip, greedy, seed 0", "EDP 123", "1.5 s", "net on other", "under way", "failed", "10 of 20"):
        assert text in shown.getvalue(), text
