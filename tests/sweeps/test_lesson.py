"""What pioneers teach, and how processes of a sweep share it."""

from pathlib import Path
from typing import Any

import pytest

from fadiff import sweep
from fadiff.errors import FadiffError
from fadiff.sweeps import lesson
from fadiff.sweeps.cell import search_cell
from fadiff.sweeps.plan import Cell, read_plan

NETWORK = """\
name: pair
layers:
  - {name: a, kind: mac, dims: {K: 4, C: 2, P: 4, Q: 4}, inputs: [{from: null, port: input}]}
  - {name: b, kind: mac, dims: {K: 2, C: 4, P: 4, Q: 4}, inputs: [{from: a, port: input}]}
"""


@pytest.fixture
def plan(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "pair.yaml").write_text(NETWORK)
    sizes = {"scratchpad.bytes": ["1 KB", "2 KB", "4 KB"]}
    return {"networks": str(tmp_path / "pair.yaml"), "machines": {"base": "gemmini-small", "set": sizes}}


@pytest.fixture
def cells(plan: dict[str, Any]) -> list[Cell]:
    lesson.pioneered.cache_clear()
    return read_plan(plan)


def test_processes_that_share_a_folder_search_a_pioneer_once(
    cells: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searched: list[str] = []
    before = lesson.optimize

    def noted(workload: Any, hardware: Any, **told: Any) -> Any:
        searched.append(hardware.name)
        return before(workload, hardware, **told)

    monkeypatch.setattr(lesson, "optimize", noted)
    small, middle, large = cells
    names = [cell.hardware.name for cell in cells]
    found = search_cell(large, tmp_path)
    assert found.results["learned_from"] == middle.machine
    for cell in (small, middle):
        lesson.pioneered.cache_clear()  # what another process knows: nothing
        search_cell(cell, tmp_path)
    assert searched == [names[1], names[2], names[0]]
    lesson.pioneered.cache_clear()
    assert search_cell(large, tmp_path).schedule == found.schedule


def test_a_folder_that_takes_no_files_is_done_without(
    cells: list[Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(path: Path, data: bytes) -> None:
        raise FadiffError("no space is left")

    monkeypatch.setattr(lesson, "write_bytes", full)
    assert search_cell(cells[0], tmp_path).results["learned_from"] == cells[1].machine


def test_a_sweep_leaves_nothing_of_what_its_processes_share(plan: dict[str, Any], tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"{lesson.SHARED}old").write_bytes(b"no pickle")
    rows = sweep(plan, tmp_path / "out", 2)
    assert [bool(row["learned_from"]) for row in rows] == [True, False, True]
    assert not list((tmp_path / "out").glob(".*"))
