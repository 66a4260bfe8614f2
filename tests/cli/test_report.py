"""`fadiff report` and `optimize --report`: what is written, and what is refused."""

import json
import re
from pathlib import Path

import pytest

from cli.command import fadiff, refusal, schedule_file, write
from fadiff.analysis.opponents import Opponents
from fadiff.analysis.what_if import WhatIf
from fadiff.cost import evaluate, load_schedule, save_schedule
from fadiff.schedule import Schedule
from fadiff.schedule.rules import violations

pytestmark = pytest.mark.usefixtures("small_and_quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch):
    """Without the searches and programs of some sections, which tests of their own look at."""

    def rivals(schedule: Schedule) -> Opponents:
        return Opponents(evaluate(schedule), evaluate(schedule))

    monkeypatch.setattr("fadiff.analysis.opponents.opponents", rivals)
    monkeypatch.setattr("fadiff.analysis.what_if.what_if", lambda _: WhatIf(1.0, (), "none"))
    monkeypatch.setattr("fadiff.analysis.why_not.why_not", lambda _: ())


def data_of(path: Path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_report_holds_every_section(tmp_path: Path):
    schedule, page = schedule_file(tmp_path), tmp_path / "tiny.html"
    result = fadiff("report", schedule, "-o", page)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert re.fullmatch(rf"Written to {re.escape(str(page))} \([\d.]+ KB\): open it in a browser\.", said)
    data = data_of(page)
    evaluation = evaluate(load_schedule(schedule))
    assert data["summary"]["totals"]["energy_pj"] == evaluation.energy_pj
    rivals = dict(data["summary"]["rivals"])
    assert rivals["best unfused"]["edp_uj_cycles"] <= rivals["greedy"]["edp_uj_cycles"]
    told = sorted(edge for entry in data["why_not"]["entries"] for edge in entry["edges"])
    assert [data["layers"][source][0] for source, _ in told] == ["a", "a", "b"]
    assert {one["name"] for one in data["what_if"]["sensitivities"]} >= {
        "scratchpad.bytes",
        "accumulator.bytes",
        "DRAM.read_pj+write_pj",
        "rows.size",
    }


@pytest.mark.usefixtures("quick")
def test_without_a_name_the_report_is_named_after_the_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    schedule_file(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert fadiff("report", "../tiny.json").exit_code == 0
    assert [path.name for path in Path().iterdir()] == ["tiny.html"]


@pytest.mark.usefixtures("quick")
def test_optimize_writes_the_report_that_its_files_would_give(tmp_path: Path):
    schedule = schedule_file(tmp_path)
    net, chip, trace = tmp_path / "net.yaml", tmp_path / "chip.yaml", tmp_path / "trace.json"
    at_once, later = tmp_path / "at-once.html", tmp_path / "later.html"
    found = ("optimize", net, "--hardware", chip, "--method", "greedy")
    result = fadiff(*found, "-o", schedule, "--trace", trace, "--report", at_once)
    assert result.exit_code == 0, result.output
    assert f"Report: {at_once}" in result.stdout.replace("\n", "")
    assert fadiff("report", schedule, "--trace", trace, "-o", later).exit_code == 0
    assert at_once.read_bytes() == later.read_bytes()
    assert data_of(later)["search"]["phase"] == ["greedy"]


@pytest.mark.usefixtures("quick")
def test_two_schedules_are_compared_with_the_other_one_first(tmp_path: Path):
    first = schedule_file(tmp_path)
    schedule = load_schedule(first)
    assert violations(schedule) == []
    second = tmp_path / "second.json"
    save_schedule(second, schedule)
    page = tmp_path / "page.html"
    assert fadiff("report", first, "--compare", second, "-o", page).exit_code == 0
    assert {change["ratio"] for change in data_of(page)["compare"]["totals"]} <= {1.0, None}


def test_the_command_is_kept_without_the_files_that_it_wrote(tmp_path: Path):
    net, chip = tmp_path / "net.yaml", tmp_path / "chip.yaml"
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    schedule_file(tmp_path)
    for path in files:
        found = ("optimize", net, "--hardware", chip, "--method", "greedy", "--seed", 5, "--objective", "energy")
        assert fadiff(*found, "-o", path).exit_code == 0
    command = load_schedule(files[0]).made_by["command"]
    asked = f"--hardware {chip} --method greedy --budget 60s --seed 5 --objective energy"
    assert command == f"fadiff optimize {net} {asked}"
    assert files[0].read_bytes() == files[1].read_bytes()


def test_reports_that_cannot_be_made_are_refused_in_one_sentence(tmp_path: Path):
    schedule = schedule_file(tmp_path)
    before = schedule.read_bytes()
    other = tmp_path / "other.json"
    assert fadiff("optimize", "mobilenet_v1:size=32", "-m", "greedy", "-o", other).exit_code == 0
    trace = tmp_path / "trace.json"
    assert fadiff("optimize", "mobilenet_v1:size=32", "-m", "greedy", "--trace", trace).exit_code == 0
    page = tmp_path / "page.html"
    for wrong, parts in (
        ((tmp_path / "none.json", "-o", page), ("none.json", "no such file")),
        ((schedule, "-o", tmp_path / "none" / "page.html"), ("does not exist",)),
        ((schedule, "-o", tmp_path), ("this is a folder",)),
        ((".",), ("this is a folder",)),
        ((schedule, "-o", schedule), ("would replace a file that is read",)),
        ((schedule, "-o", page, "--compare", other), ("tiny", "mobilenet_v1")),
        ((schedule, "-o", page, "--compare", tmp_path / "none.json"), ("no such file",)),
        ((schedule, "-o", page, "--trace", trace), ("trace.json", "the schedule has", "give the trace of the search")),
        ((schedule, "-o", page, "--trace", other), ("other.json", "a schedule, not the trace")),
        ((schedule, "-o", page, "--trace", write(tmp_path, "empty.json", "{")), ("empty.json", "cut short")),
    ):
        sentence = refusal("report", *wrong)
        assert "\n" not in sentence
        assert all(part in sentence for part in parts), sentence
        assert not page.exists()
    assert schedule.read_bytes() == before


def test_a_place_for_the_report_is_checked_before_the_search(tmp_path: Path):
    schedule_file(tmp_path)
    chip, path = tmp_path / "chip.yaml", tmp_path / "new.json"
    sentence = refusal("optimize", tmp_path / "net.yaml", "--hardware", chip, "-o", path, "--report", "none/page.html")
    assert "its folder none does not exist" in sentence
    assert not path.exists()
