"""The framework of experiments: files, sections of the page, runs that are kept and not done twice."""

import csv
from pathlib import Path

import pytest

from fadiff.errors import FadiffError
from fadiff.reproduce import experiment, runs
from fadiff.reproduce.experiment import EXPERIMENTS, Desk, find_experiment, markdown_table, with_section
from fadiff.reproduce.runs import Run, measure, result_of
from fadiff.sweeps.rows import alone_in

KEY = ("model", "seed")


class Job(tuple[str, int]):
    """A job with the two columns of KEY."""

    model = property(lambda self: self[0])
    seed = property(lambda self: self[1])


JOBS = [Job(("a", 0)), Job(("b", 0)), Job(("a", 1))]


def letters(job: Job) -> list[dict[str, object]]:
    return [{"model": job.model, "seed": job.seed, "value": len(job.model) + job.seed / 3, "nothing": None}]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "results").mkdir()
    return Desk("table1", tmp_path)


def test_every_experiment_has_its_module():
    for name in EXPERIMENTS:
        assert callable(find_experiment(name))


def test_an_unknown_experiment_is_told():
    with pytest.raises(FadiffError, match=r"experiment 'tabel1' is unknown \(did you mean table1\?\): use one of"):
        find_experiment("tabel1")


def test_a_missing_extra_is_told(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name="matplotlib")

    monkeypatch.setattr(experiment, "import_module", missing)
    with pytest.raises(FadiffError, match=r"experiment 'fig4' needs matplotlib: run .* 'matplotlib>="):
        find_experiment("fig4")


def test_a_section_is_replaced_and_the_rest_stays():
    page = with_section(with_section("# Results\n\nProse.\n", "a", "old\n"), "b", "other")
    after = with_section(page, "a", r"new \1 text")
    assert after == page.replace("old", r"new \1 text")
    assert "Prose." in after
    assert with_section(after, "a", r"new \1 text") == after


def test_a_markdown_table_has_a_line_for_each_row():
    lines = markdown_table(["x", "y"], [["a", 1], ["b", 2]]).splitlines()
    assert lines == ["| x | y |", "|---|---:|", "| a | 1 |", "| b | 2 |"]


def test_rows_come_back_in_the_order_of_jobs(desk: Desk):
    told: list[tuple[int, int, str]] = []
    watched = Desk(desk.name, desk.into, tell=lambda *step: told.append(step))
    rows = measure(watched, JOBS, letters, KEY)
    assert [(row["model"], row["seed"]) for row in rows] == [("a", "0"), ("b", "0"), ("a", "1")]
    assert float(str(rows[2]["value"])) == 1 + 1 / 3
    assert rows[0]["nothing"] == ""
    assert list(dict.fromkeys(step[:2] for step in told)) == [(0, 3), (1, 3), (2, 3), (3, 3)]
    with desk.file(".csv").open() as file:
        assert list(csv.DictReader(file)) == rows


def test_what_was_done_is_not_done_again(desk: Desk):
    def fails_at_b(job: Job) -> list[dict[str, object]]:
        if job.model == "b":
            raise KeyboardInterrupt
        return letters(job)

    with pytest.raises(KeyboardInterrupt):
        measure(desk, JOBS, fails_at_b, KEY)
    done: list[Job] = []

    def counted(job: Job) -> list[dict[str, object]]:
        done.append(job)
        return letters(job)

    rows = measure(desk, JOBS, counted, KEY)
    assert done == JOBS[1:]
    assert rows == measure(desk, JOBS, fails_at_b, KEY), "nothing is left to do"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("model,value\na,1\n", "column 'seed' is missing"), ("model,seed\na,0\nb\n", "line 3 is broken"),
     ("model,seed\na,0,1\n", "line 2 is broken")],
)  # fmt: skip
def test_a_damaged_file_of_rows_is_told_and_left(desk: Desk, text: str, wrong: str):
    desk.file(".csv").write_text(text)
    with pytest.raises(FadiffError, match=f"table1.csv: {wrong}: delete the file to start anew"):
        measure(desk, JOBS, letters, KEY)
    assert desk.file(".csv").read_text() == text


def test_an_error_ends_the_experiment_and_what_was_done_stays(desk: Desk):
    def fails_at_b(job: Job) -> list[dict[str, object]]:
        if job.model == "b":
            raise FadiffError("b will not do")
        return letters(job)

    with pytest.raises(FadiffError, match="b will not do"):
        measure(desk, JOBS, fails_at_b, KEY)
    assert [row["model"] for row in desk.rows()] == ["a"]


def test_an_interrupted_search_is_no_result(monkeypatch: pytest.MonkeyPatch):
    whole = runs.optimize("mobilenet_v1", "gemmini-small", method="greedy")

    def stopped(*_: object, **__: object) -> object:
        return type(whole)(**{**whole.__dict__, "stopped": "interrupt"})

    monkeypatch.setattr(runs, "optimize", stopped)
    with pytest.raises(KeyboardInterrupt):
        result_of(Run("mobilenet_v1", "gemmini-small", "greedy", 0, 1.0))


def test_quick_files_do_not_touch_the_full_ones(tmp_path: Path):
    full, quick = Desk("fig4", tmp_path), Desk("fig4", tmp_path, quick=True)
    assert full.file(".csv") != quick.file(".csv")
    assert full.stem != quick.stem
    assert quick.command() == f"fadiff reproduce fig4 --quick --into {tmp_path}"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FadiffError, match=r"no folder can be made there .*: choose another place with --into"):
        experiment.run(Desk("fig4", tmp_path / "file", quick=True))


def test_two_experiments_in_one_folder_are_refused(desk: Desk):
    with (
        alone_in(desk.into / "results"),
        pytest.raises(FadiffError, match=r"results: another run works in this folder: .* another place with --into"),
    ):
        experiment.run(Desk("fig4", desk.into, quick=True))


def test_rows_under_former_names_are_found(desk: Desk):
    """`gradient` is now called `joint`, and words of L3 are words of DRAM."""
    desk.file(".csv").write_text("model,hardware,method,seed,budget_s,l3_words\na,b,gradient,0,1.0,7\n")
    run = Run("a", "b", "joint", 0, 1.0)
    (row,) = measure(desk, [run], fails, Run._fields)
    assert row == {**{name: str(value) for name, value in run._asdict().items()}, "dram_words": "7"}


def fails(run: Run) -> list[dict[str, object]]:
    raise AssertionError(f"{run} was done before")
