"""Co-design as a whole, on a space small enough to try every machine."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from math import inf, log
from pathlib import Path

import pytest

from fadiff.analysis.design import price_sentence
from fadiff.cost import evaluate, load_schedule
from fadiff.files import FileError
from fadiff.hardware import Machine
from fadiff.schedule.rules import violations
from fadiff.search import greedy
from fadiff.search.codesign import CodesignSettings, Design, Question, codesign, method
from fadiff.search.codesign.prices import Price
from fadiff.search.codesign.rows import Rows
from fadiff.search.driver import Result, Status
from fadiff.search.exact.lessons import Learned, Lessons
from fadiff.search.optimize import optimize
from fadiff.workload import Workload
from search.codesign.tiny import ONE, SPACE, TOY, asked

PATIENT = CodesignSettings(budget_seconds=600, proposals="climb", method="greedy")
AREA_MM2 = 0.03


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("codesign") / "found"


@pytest.fixture(scope="module")
def design(folder: Path) -> Design:
    return codesign(asked(AREA_MM2), PATIENT, folder)


def test_of_a_small_space_it_finds_the_best_machine_there_is(design: Design):
    question = asked(AREA_MM2)
    least = inf
    for values in product(*([number.low, 2 * number.low, 4 * number.low] for number in SPACE.numbers)):
        if question.fits(values):
            machine = SPACE.at(values)
            least = min(least, question.score(machine, (evaluate(greedy(ONE, machine)),)))
    assert design.best.score <= least + 1e-6
    assert len(design.rows) < 27 + 2


def test_where_there_is_time_a_climb_that_has_ended_begins_anew_elsewhere(design: Design):
    first = next(i for i, row in enumerate(design.rows) if row.origin == "start")
    assert design.rows[first].values not in [row.values for row in design.rows[:first]]


def test_the_best_machine_keeps_to_the_area_and_its_schedule_is_legal(design: Design):
    assert design.best.area_mm2 <= AREA_MM2
    assert not violations(design.evaluations[0].schedule)
    assert design.evaluations[0].schedule.machine == design.machine
    assert design.question.score(design.machine, design.evaluations) == design.best.score


def test_no_machine_of_the_front_is_beaten_by_another(design: Design):
    for row in design.front:
        assert not any(other.area_mm2 <= row.area_mm2 and other.score < row.score for other in design.rows)
    assert any(row.values == design.best.values for row in design.front)


def test_prices_are_those_of_neighbours(design: Design):
    assert {price.number for price in design.prices} == {number.name for number in SPACE.numbers}
    for price in design.prices:
        assert (price.area_change > 0) == (price.after > price.before)
        if abs(price.area_change) * design.best.area_mm2 + design.best.area_mm2 <= AREA_MM2:
            assert price.score_change >= -1e-6


def test_the_same_seed_finds_the_same_machine(design: Design):
    again = codesign(asked(AREA_MM2), PATIENT)
    assert [row.values for row in again.rows] == [row.values for row in design.rows]
    assert again.best.score == design.best.score


def test_what_was_scored_is_not_scored_again(design: Design, folder: Path):
    before = (folder / "rows.jsonl").read_text()
    again = codesign(asked(AREA_MM2), PATIENT, folder)
    assert (folder / "rows.jsonl").read_text() == before
    assert again.best == design.best
    assert again.evaluations[0].energy_pj == design.evaluations[0].energy_pj


def test_a_search_that_was_killed_goes_on_from_its_rows(design: Design, folder: Path, tmp_path: Path):
    lines = (folder / "rows.jsonl").read_text().splitlines()
    killed = tmp_path / "killed"
    (killed / "schedules").mkdir(parents=True)
    for name in ("question.json", "proposed.json"):
        (killed / name).write_text((folder / name).read_text())
    for path in (folder / "schedules").iterdir():
        (killed / "schedules" / path.name).write_text(path.read_text())
    (killed / "rows.jsonl").write_text("\n".join([*lines[:3], lines[3][:40]]))  # killed while it wrote the fourth
    again = codesign(asked(AREA_MM2), PATIENT, killed)
    assert [row.values for row in again.rows] == [row.values for row in design.rows]
    assert [json.loads(line)["values"] for line in lines] == [
        json.loads(line)["values"] for line in (killed / "rows.jsonl").read_text().splitlines()
    ]


def test_every_row_has_its_schedule_on_disk(design: Design, folder: Path):
    for row in design.rows:
        found = evaluate(load_schedule(Rows(asked(AREA_MM2)).schedule_path(folder, row.number, "one")))
        assert found.energy_pj == row.costs["one"]["energy_pj"]


def test_a_machine_whose_schedule_is_gone_is_scored_again_and_takes_nobodys_number(
    design: Design, folder: Path, tmp_path: Path
):
    shutil.copytree(folder, tmp_path / "found")
    rows = Rows(asked(AREA_MM2), tmp_path / "found")
    rows.schedule_path(tmp_path / "found", 1, "one").unlink()
    rows = Rows(asked(AREA_MM2), tmp_path / "found")
    assert [row.number for row in rows.rows] == [row.number for row in design.rows if row.number != 1]
    added = rows.add(design.rows[1].values, design.evaluations, "start", 0.0, 0.0)
    assert added.number == len(design.rows)


def test_a_folder_of_another_question_is_refused(design: Design, folder: Path):
    with pytest.raises(
        FileError, match="an earlier search is there that was told another area_mm2: choose another folder"
    ):
        codesign(asked(2 * AREA_MM2), PATIENT, folder)


def test_two_networks_share_one_machine():
    other = replace(ONE, name="other")
    found = codesign(Question((ONE, other), SPACE, AREA_MM2), replace(PATIENT, budget_seconds=2))
    assert [one.schedule.workload.name for one in found.evaluations] == ["one", "other"]
    assert len({one.schedule.machine for one in found.evaluations}) == 1


def test_an_interrupt_ends_with_the_best_machine_so_far(monkeypatch: pytest.MonkeyPatch):
    scored: list[object] = []

    def interrupted(workload: Workload, machine: Machine, **rest: object) -> Result:
        scored.append(machine)
        result = optimize(workload, machine, method="greedy")
        return replace(result, stopped="interrupt") if len(scored) == 3 else result

    monkeypatch.setattr(method, "optimize", interrupted)
    found = codesign(asked(AREA_MM2), PATIENT)
    assert len(scored) == 3
    assert len(found.rows) == 2
    assert found.trace[-1].phase == "interrupted"


def test_an_interrupt_before_any_machine_is_scored_is_an_interrupt(monkeypatch: pytest.MonkeyPatch):
    def interrupted(workload: Workload, machine: Machine, **rest: object) -> Result:
        return replace(optimize(workload, machine, method="greedy"), stopped="interrupt")

    monkeypatch.setattr(method, "optimize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        codesign(asked(AREA_MM2), PATIENT)


def test_a_price_is_a_sentence():
    number = SPACE.numbers[0]
    told = [
        price_sentence(SPACE, Price(number.name, 1024, 2048, log(0.969), 0.004, 0.0), "edp"),
        price_sentence(SPACE, Price(number.name, 2048, 1024, log(1.05), -0.01, 9.0), "energy"),
        price_sentence(SPACE, Price(number.name, 2048, 1024, 1e-6, -0.01, 0.0), "latency"),
        price_sentence(SPACE, Price(number.name, 1024, 2048, -1e-6, 0.01, 0.0), "latency"),
    ]
    assert told == [
        "1 KB more scratchpad.bytes buys 3.10% EDP for 0.40% area",
        "1 KB less scratchpad.bytes costs 5.00% energy and saves 1.00% area, after a search of 9 s",
        "1 KB less scratchpad.bytes costs no latency and saves 1.00% area",
        "1 KB more scratchpad.bytes buys no latency for 1.00% area",
    ]


def test_a_derived_machine_is_scored_without_fusion(monkeypatch: pytest.MonkeyPatch):
    searched = list[Machine]()

    def watched(workload: Workload, machine: Machine, **rest: object) -> Result:
        searched.append(machine)
        return optimize(workload, machine, method="greedy")

    def nothing(*_: object, **__: object) -> Iterator[Status]:
        return iter(())

    monkeypatch.setattr(method, "optimize", watched)
    monkeypatch.setattr(method, "descend", nothing)
    found = codesign(Question((TOY,), SPACE, AREA_MM2), replace(PATIENT, budget_seconds=30, proposals="derived"))
    assert all(machine.fused_in() is None for machine in searched)
    assert found.machine.fused_in() is not None
    assert found.evaluations[0].schedule.machine == found.machine
    assert {row.origin for row in found.rows} <= {"proposed", "shrink", "full", "price"}


def test_the_best_machine_is_studied_and_machines_with_its_array_learn_from_it(monkeypatch: pytest.MonkeyPatch):
    seen = list[tuple[object, Lessons | None, bool]]()

    def watched(workload: Workload, machine: Machine, *, lessons: Lessons | None, **rest: object) -> Result:
        seen.append((machine.kind, lessons, lessons is not None and lessons.learned is not None))
        found = optimize(workload, machine, method="greedy")
        if lessons is not None:
            lessons.known = Learned({}, frozenset(), frozenset(), {}, (), found.schedule, whole=True)
        return found

    monkeypatch.setattr(method, "optimize", watched)
    found = codesign(asked(AREA_MM2), replace(PATIENT, method="exact", budget_seconds=3))
    studies = [i for i, row in enumerate(found.rows) if row.origin == "study"]
    assert studies[0] >= method.BETWEEN_STUDIES
    assert all(later - one > method.BETWEEN_STUDIES for one, later in pairwise(studies))
    studied = dict[object, Lessons]()
    for row, (kind, lessons, learns) in zip(found.rows, seen, strict=True):
        if row.origin == "full":
            assert lessons is None
        elif row.origin == "study":
            assert lessons is not None
            assert not learns
            assert kind not in studied
            studied[kind] = lessons
        else:
            assert lessons is studied.get(kind)
            assert learns == (kind in studied)
