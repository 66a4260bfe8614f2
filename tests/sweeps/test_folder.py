"""Sweeps in a folder: tables that go on where they stopped, whatever stopped them."""

import csv
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fadiff import Machine, load_schedule, optimize
from fadiff.errors import FadiffError
from fadiff.sweeps import folder as module
from fadiff.sweeps import lesson as lesson_module
from fadiff.sweeps.cell import Found, search_cell
from fadiff.sweeps.folder import sweep
from fadiff.sweeps.measure import Progress
from fadiff.sweeps.plan import Cell, read_plan
from fadiff.sweeps.rows import alone_in

NETWORK = """\
name: pair
layers:
  - {name: a, kind: mac, dims: {K: 8, C: 4, P: 8, Q: 8, R: 3, S: 3}, inputs: [{from: null, port: input}]}
  - {name: b, kind: mac, dims: {K: 8, C: 8, P: 8, Q: 8}, inputs: [{from: a, port: input}]}
"""


@pytest.fixture
def plan(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "pair.yaml").write_text(NETWORK)
    grid = {"base": "gemmini-small", "set": {"scratchpad.bytes": ["1 KB", "2 KB", "4 KB"]}}
    return {"networks": str(tmp_path / "pair.yaml"), "machines": ["gemmini-large", grid], "methods": "greedy"}


@dataclass
class Counting:
    """A crew that does jobs here, remembers them, and may fail at some."""

    done: list[str]
    fails: Callable[[Cell], BaseException | None] = lambda cell: None

    def each(self, todo, work, kin, began, lesson) -> Iterator[tuple[Any, Any]]:
        for job in todo:
            began(job)
            self.done.append(job.machine)
            error = self.fails(job)
            if isinstance(error, KeyboardInterrupt):
                raise error
            yield job, error or work(job)


def test_every_cell_has_a_row_and_a_schedule_of_its_price(plan: dict[str, Any], tmp_path: Path):
    rows = sweep(plan, tmp_path / "out")
    with (tmp_path / "out" / "sweep.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(rows) == len(table) == 4
    assert [row["scratchpad.bytes"] for row in table] == ["", "1024", "2048", "4096"]
    for row, text in zip(rows, table, strict=True):
        assert row["error"] == ""
        assert float(text["edp_uj_cycles"]) == row["edp_uj_cycles"]
        schedule = load_schedule(tmp_path / "out" / str(row["schedule"]))
        assert schedule.machine.name == row["machine"]


def test_the_table_reads_as_numbers(plan: dict[str, Any], tmp_path: Path):
    polars = pytest.importorskip("polars", reason="polars is not installed: pip install 'fadiff-scheduler[parquet]'")
    rows = sweep(plan, tmp_path / "out")
    for table in (polars.read_parquet(tmp_path / "out/sweep.parquet"), polars.read_csv(tmp_path / "out/sweep.csv")):
        assert table["edp_uj_cycles"].to_list() == [row["edp_uj_cycles"] for row in rows]
        assert table["scratchpad.bytes"].to_list() == [None, 1024, 2048, 4096]


def test_without_polars_and_pyarrow_there_is_no_parquet_file(
    plan: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    sweep(plan, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"sweep.csv", "schedules"}


def test_a_cell_that_fails_is_a_row_and_is_tried_again(plan: dict[str, Any], tmp_path: Path):
    def fails(cell: Cell) -> Exception | None:
        if cell.machine == "gemmini-large":
            return FadiffError("it will not do: do something else")
        return ZeroDivisionError("by\nzero") if "2KB" in cell.machine else None

    rows = sweep(plan, tmp_path / "out", Counting([], fails))
    told = [row["error"] for row in rows]
    assert told == ["it will not do: do something else", "", "ZeroDivisionError: by zero", ""]
    assert rows[0]["edp_uj_cycles"] is None
    again = Counting([])
    rows = sweep(plan, tmp_path / "out", again)
    assert again.done == ["gemmini-large", "gemmini-small:scratchpad.bytes=2KB"]
    assert not any(row["error"] for row in rows)


class Backwards(Counting):
    """Does the last job first."""

    def each(self, todo, work, kin, began, lesson) -> Iterator[tuple[Any, Any]]:
        return super().each(todo[::-1], work, kin, began, lesson)


def test_cells_that_learn_find_the_same_in_any_order_and_after_an_interrupt(plan: dict[str, Any], tmp_path: Path):
    plan |= {"methods": "exact", "machines": plan["machines"][1]}
    rows = sweep(plan, tmp_path / "forth", Counting([]))
    middle = "gemmini-small:scratchpad.bytes=2KB"
    assert [row["learned_from"] for row in rows] == [middle, "", middle]
    lesson_module.pioneered.cache_clear()
    with pytest.raises(KeyboardInterrupt):
        sweep(plan, tmp_path / "back", Backwards([], lambda c: KeyboardInterrupt() if "1KB" in c.machine else None))
    lesson_module.pioneered.cache_clear()
    assert len(sweep(plan, tmp_path / "back", Backwards([]))) == 3
    for row in rows:
        assert (tmp_path / "forth" / row["schedule"]).read_bytes() == (tmp_path / "back" / row["schedule"]).read_bytes()


def test_where_the_pioneer_fails_the_others_search_on_their_own(
    plan: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(workload: object, hardware: Machine, **told: object) -> object:
        if "2KB" in hardware.name:
            raise FadiffError("it will not do")
        return optimize(workload, hardware, **told | {"method": "greedy"})

    monkeypatch.setattr(lesson_module, "optimize", fails)
    lesson_module.pioneered.cache_clear()
    rows = sweep(plan | {"methods": "exact", "machines": plan["machines"][1]}, tmp_path / "out")
    assert [row["error"] for row in rows] == ["", "it will not do", ""]
    assert [row["learned_from"] for row in rows] == ["", "", ""]


def test_a_longer_plan_goes_on_and_a_shorter_one_throws_nothing_away(plan: dict[str, Any], tmp_path: Path):
    out = tmp_path / "out"
    all_rows = sweep(plan, out)
    crew = Counting([])
    assert len(sweep(plan | {"machines": ["gemmini-large"]}, out, crew)) == 1
    assert len(sweep(plan | {"machines": ["gemmini-large", "gemmini-default"]}, out, crew)) == 2
    assert crew.done == ["gemmini-default"]
    with (out / "sweep.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 5
    assert sweep(plan, out, crew) == all_rows
    assert crew.done == ["gemmini-default"]


def test_a_network_that_changed_is_searched_again(plan: dict[str, Any], tmp_path: Path):
    sweep(plan, tmp_path / "out")
    Path(plan["networks"]).write_text(NETWORK.replace("K: 8, C: 8", "K: 4, C: 8"))
    crew = Counting([])
    sweep(plan, tmp_path / "out", crew)
    assert len(crew.done) == 4
    with (tmp_path / "out" / "sweep.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 4


def test_a_cell_whose_schedule_is_gone_is_searched_again(plan: dict[str, Any], tmp_path: Path):
    rows = sweep(plan, tmp_path / "out")
    (tmp_path / "out" / str(rows[2]["schedule"])).unlink()
    crew = Counting([])
    assert [row["machine"] for row in sweep(plan, tmp_path / "out", crew)] == [row["machine"] for row in rows]
    assert crew.done == [rows[2]["machine"]]


def test_an_interrupt_keeps_what_is_done(plan: dict[str, Any], tmp_path: Path):
    crew = Counting([], lambda cell: KeyboardInterrupt() if "2KB" in cell.machine else None)
    with pytest.raises(KeyboardInterrupt):
        sweep(plan, tmp_path / "out", crew)
    rest = Counting([])
    sweep(plan, tmp_path / "out", rest)
    assert rest.done == [f"gemmini-small:scratchpad.bytes={size}" for size in ("2KB", "4KB")]


def test_a_search_that_is_interrupted_is_no_result(plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    cell = read_plan(plan)[0]

    def stopped(*given: object, **options: object) -> object:
        return type("Result", (), {"stopped": "interrupt"})

    monkeypatch.setattr("fadiff.sweeps.lesson.optimize", stopped)
    with pytest.raises(KeyboardInterrupt):
        search_cell(cell)


def test_a_bound_is_proven_where_the_plan_asks_for_it(plan: dict[str, Any]):
    cell = read_plan(plan | {"bound": True, "budget": "1s"})[1]
    found = search_cell(cell)
    assert isinstance(found, Found)
    assert 0 < found.results["bound_edp_uj_cycles"] <= found.results["edp_uj_cycles"]
    assert found.schedule.bound is not None


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """A disk that is full: no file can grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_and_what_is_done_stays_done(plan: dict[str, Any], tmp_path: Path):
    out = tmp_path / "out"
    sweep(plan | {"machines": "gemmini-large"}, out)
    before = (out / "sweep.csv").read_bytes()
    with files_of_at_most(500), pytest.raises(FadiffError, match=r"it cannot be written \(File too large\)"):
        sweep(plan, out)
    assert (out / "sweep.csv").read_bytes() == before
    assert not list(out.rglob(".fadiff-*"))
    crew = Counting([])
    sweep(plan, out, crew)
    assert len(crew.done) == 3


def test_a_damaged_table_is_told_and_left(plan: dict[str, Any], tmp_path: Path):
    (tmp_path / "sweep.csv").write_text("network,machine\na,b\n")
    with pytest.raises(FadiffError, match=r"sweep.csv: column 'method' is missing: delete the file to start anew"):
        sweep(plan, tmp_path)


def test_who_watches_hears_of_every_cell(plan: dict[str, Any], tmp_path: Path):
    heard: list[Progress] = []
    sweep(plan, tmp_path / "out", watch=heard.append)
    assert [(one.done, len(one.running), len(one.last)) for one in heard] == [
        (0, 0, 0), *(step for done in range(4) for step in ((done, 1, 0), (done + 1, 0, 1)))
    ]  # fmt: skip


def test_a_kill_loses_at_most_what_is_under_way(plan: dict[str, Any], tmp_path: Path):
    """The sweep runs in processes of its own, and is killed as soon as its table has a few rows."""
    out, plan["machines"] = tmp_path / "out", {
        "base": "gemmini-small", "set": {"scratchpad.bytes": [1024 * i for i in range(1, 25)]},
    }  # fmt: skip
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    command = [sys.executable, "-m", "fadiff_command", "sweep", tmp_path / "plan.yaml", "-o", out, "--jobs", "2"]
    with subprocess.Popen(command, start_new_session=True) as process:
        patience = time.monotonic() + 60
        while not (out / "sweep.csv").exists() or len((out / "sweep.csv").read_text().splitlines()) < 4:
            assert process.poll() is None
            assert time.monotonic() < patience
            time.sleep(0.005)
        with pytest.raises(FadiffError, match="another run works in this folder"):
            alone_in(out).__enter__()
        process.send_signal(signal.SIGKILL)
    with (out / "sweep.csv").open() as file:
        kept = list(csv.DictReader(file))
    assert 3 <= len(kept) < 24
    for row in kept:
        assert not row["error"]
        assert load_schedule(out / row["schedule"]).machine.name == row["machine"]
    crew = Counting([])
    rows = sweep(plan, out, crew)
    assert len(crew.done) == 24 - len(kept), "what was done is not done again"
    same = [row["seconds"] for row in rows if row["machine"] not in crew.done]
    assert same == [float(row["seconds"]) for row in kept]
    assert not list(out.rglob(".fadiff-*"))
    assert ended(process.pid), "its processes ended with it"


def ended(group: int) -> bool:
    patience = time.monotonic() + 20
    while time.monotonic() < patience:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False
