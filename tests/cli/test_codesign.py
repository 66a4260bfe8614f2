"""`codesign`: what it writes, how it goes on, and what it refuses."""

import csv
import json
from collections.abc import Iterator
from math import isclose
from pathlib import Path

import pytest

from cli.command import MACHINE, answer, fadiff, refusal, write
from fadiff.cost import evaluate, load_schedule
from fadiff.hardware import load_machine, machine_area
from fadiff.search.codesign import method
from fadiff.search.driver import OutOfTimeError, Status
from fadiff.sweeps.rows import alone_in

NETWORK = """
name: product
layers:
  - {name: p, kind: mac, dims: {N: 32, K: 16, C: 16}, inputs: [{from: null, port: input}]}
"""
SPACE = """
name: sketch
rows: {from: 2, to: 8, powers_of: 2}
cols: {from: 2, to: 8, powers_of: 2}
l1: 1 KB
l2: {from: 1 KB, to: 4 KB, powers_of: 2}
"""
QUICK = ("-m", "greedy", "--budget", "2s", "--area", "0.03mm2")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("codesign")
    write(folder, "net.yaml", NETWORK)
    write(folder, "space.yaml", SPACE)
    return folder


@pytest.fixture(scope="module")
def found(desk: Path) -> dict:
    trace = desk / "trace.json"
    return answer(
        "codesign", desk / "net.yaml", "--space", desk / "space.yaml", "-o", desk / "out", "--trace", trace, *QUICK
    )


def test_the_machine_and_its_schedule_are_files_that_other_commands_read(desk: Path, found: dict):
    machine = load_machine(str(desk / "out" / "best.machine.json"))
    assert machine_area(machine).total <= 0.03
    assert isclose(sum(found["area_mm2"].values()), machine_area(machine).total)
    schedule = load_schedule(desk / "out" / "best.product.json")
    assert schedule.machine == machine
    assert evaluate(schedule).energy_pj == found["costs"]["product"]["energy_pj"]
    assert fadiff("evaluate", desk / "out" / "best.product.json").exit_code == 0


def test_the_front_is_a_table_whose_machines_are_files(desk: Path, found: dict):
    rows = list(csv.DictReader((desk / "out" / "front.csv").read_text(encoding="utf-8").splitlines()))
    assert [float(row["area_mm2"]) for row in rows] == sorted(float(row["area_mm2"]) for row in rows)
    assert [float(row["to_best"]) for row in rows] == sorted((float(row["to_best"]) for row in rows), reverse=True)
    for row in rows:
        machine = load_machine(str(desk / "out" / "machines" / f"{int(row['machine']):04d}.json"))
        assert machine_area(machine).total == float(row["area_mm2"])
    assert len(found["front"]) == len(rows)


def test_what_binds_adds_up(found: dict):
    shares = found["binding"]["product"]
    assert isclose(sum(shares["time"].values()), 1)
    assert isclose(sum(shares["energy"].values()), 1)
    assert all(0 <= share <= 1 for share in shares["full"].values())


def test_the_page_the_prices_and_the_trace_are_written(desk: Path, found: dict):
    page = (desk / "out" / "index.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "machines of sketch" in page
    assert all(price["sentence"] in page for price in found["prices"])
    trace = json.loads((desk / "trace.json").read_text(encoding="utf-8"))
    assert trace["format"] == "fadiff-codesign-trace/1"
    assert trace["points"][-1]["machines"] == found["machines_scored"]


def test_asked_again_it_goes_on_from_what_is_there(desk: Path, found: dict):
    shown = fadiff("codesign", desk / "net.yaml", "--space", desk / "space.yaml", "-o", desk / "out", *QUICK)
    assert shown.exit_code == 0, shown.output
    assert "machines scored" in shown.stdout
    assert "Front: area against EDP" in shown.stdout
    rows = (desk / "out" / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows) >= found["machines_scored"]
    assert len({tuple(json.loads(row)["values"]) for row in rows}) <= 27


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["--area", "0.001mm2"], "no machine of 'sketch' fits in 0.001 mm2, the smallest takes 0.0"),
        (["--area", "big"], "area 'big' is no area: write for example 2mm2"),
        (["--objective", "beauty"], "objective 'beauty' is unknown: use one of edp, energy, latency, edp-area"),
        (["--weight", "other=2"], "'other' is none of the networks: use product"),
        (["--weight", "product=0"], "'0' is no positive number"),
        (["--weight", "produkt=2"], "'produkt' is none of the networks (did you mean product?): use product"),
        (
            ["--proposals", "magic"],
            "proposals are 'magic': use one of descent, climb, uniform, filling",
        ),
        (["--method", "magic"], "method 'magic' is unknown"),
        (["--budget", "long"], "budget 'long' is no duration"),
        (["--space", "chip.yaml"], "this is one machine, none of its numbers is free"),
        (["--space", "net.yaml"], "this is a network, not a description of hardware"),
        (["--space", "missing.yaml"], "there is no such file"),
        (["-o", "net.yaml"], "this is a file: name a folder"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    desk: Path, monkeypatch: pytest.MonkeyPatch, changes: list[str], told: str
):
    monkeypatch.chdir(desk)
    write(desk, "chip.yaml", MACHINE)
    options = {"--space": "space.yaml", "-o": "none", "--method": "greedy", "--budget": "2s"}
    options |= {changes[0]: changes[1]}
    words = [word for pair in options.items() for word in pair]
    assert told in refusal("codesign", "net.yaml", *words)
    assert not Path("none").exists()


def test_a_folder_of_another_question_is_refused(desk: Path, found: dict):
    asked = ("codesign", desk / "net.yaml", "--space", desk / "space.yaml", "-o", desk / "out")
    assert "an earlier search is there that was told another area_mm2" in refusal(
        *asked, "-m", "greedy", "--area", "0.04"
    )


def test_the_former_word_for_a_plain_climb_still_means_it(desk: Path, tmp_path: Path):
    asked = ("codesign", desk / "net.yaml", "--space", desk / "space.yaml", "-o", tmp_path / "out", *QUICK)
    assert fadiff(*asked, "--proposals", "random").exit_code == 0
    assert json.loads((tmp_path / "out" / "question.json").read_text(encoding="utf-8"))["proposals"] == "climb"
    assert "an earlier search is there that was told another proposals" in refusal(*asked, "--proposals", "uniform")


def test_a_machine_is_derived_from_one_network_alone(desk: Path, tmp_path: Path):
    other = write(tmp_path, "other.yaml", NETWORK.replace("product", "other"))
    asked = ("codesign", desk / "net.yaml", other, "--space", desk / "space.yaml", "-o", tmp_path / "out", *QUICK)
    assert "derived from the mappings of one network: give one" in refusal(*asked, "--proposals", "derived")
    assert not (tmp_path / "out").exists()


def test_a_network_is_weighted_once_by_its_name_or_by_what_was_given(desk: Path, tmp_path: Path):
    other = write(tmp_path, "other.yaml", NETWORK.replace("product", "other"))
    asked = ("codesign", desk / "net.yaml", other, "--space", desk / "space.yaml", "-o", tmp_path / "out", *QUICK)
    twice = ("--weight", "other=2", "--weight", f"{other}=3")
    assert refusal(*asked, *twice) == f"--weight {other}=3: other has a weight already: give one"
    assert fadiff(*asked, "--weight", f"{other}=3").exit_code == 0
    asked_for = json.loads((tmp_path / "out" / "question.json").read_text(encoding="utf-8"))
    assert asked_for["weights"] == [0.25, 0.75]


def test_the_trace_may_stand_in_the_folder_but_not_for_what_is_written_there(desk: Path, tmp_path: Path):
    out = tmp_path / "out"
    asked = ("codesign", desk / "net.yaml", "--space", desk / "space.yaml", "-o", out, *QUICK)
    for name in ("rows.jsonl", "best.machine.json"):
        assert refusal(*asked, "--trace", out / name) == (
            f"{out / name}: co-design itself writes this file: choose another name"
        )
    assert not out.exists()
    assert fadiff(*asked, "--trace", out / "trace.json").exit_code == 0
    assert json.loads((out / "trace.json").read_text(encoding="utf-8"))["points"]


@pytest.mark.parametrize("name", ["../pair/of layers", "p" * 300, "machine"])
def test_a_network_of_any_name_has_files(desk: Path, tmp_path: Path, name: str):
    network = write(tmp_path, "net.yaml", NETWORK.replace("name: product", f"name: {name}"))
    asked = ("codesign", network, "--space", desk / "space.yaml", "-o", tmp_path / "out", *QUICK)
    assert fadiff(*asked).exit_code == 0
    machine = load_machine(str(tmp_path / "out" / "best.machine.json"))
    schedules = [path for path in (tmp_path / "out").glob("best.*.json") if path.name != "best.machine.json"]
    assert [load_schedule(path).machine for path in schedules] == [machine]
    assert not (tmp_path / "pair").exists()


def test_what_an_earlier_search_left_and_others_damaged_is_told(desk: Path, tmp_path: Path):
    asked = ("codesign", desk / "net.yaml", "--space", desk / "space.yaml", "-o", tmp_path, *QUICK)
    for text, told in (("{", "was the file cut short?"), ("[1, 2]", "the top of the file must be a mapping")):
        question = write(tmp_path, "question.json", text)
        assert refusal(*asked).startswith(f"{question}: ")
        assert told in refusal(*asked)
    (tmp_path / "question.json").unlink()
    for text in ("[[1, 2]]", '{"a": 1}', '["abc"]', "[[1000000, 4, 4]]"):
        proposed = write(tmp_path, "proposed.json", text)
        assert refusal(*asked) == f"{proposed}: these are no machines of the space: delete the file"


def test_what_the_budget_left_out_is_told(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def too_late(*args: object, **rest: object) -> Iterator[Status]:
        raise OutOfTimeError("the descent was left out: 1 s was left")
        yield

    monkeypatch.setattr(method, "descend", too_late)
    asked = ("codesign", desk / "net.yaml", "--space", desk / "space.yaml", "-o", tmp_path / "out", *QUICK)
    told = "The descent was left out: 1 s was left; random machines took its place."
    assert told in " ".join(fadiff(*asked).stdout.split())
    assert told in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert not (tmp_path / "out" / "proposed.json").exists(), "a longer search descends"


def test_two_runs_in_one_folder_are_refused(desk: Path, tmp_path: Path):
    with alone_in(tmp_path / "out"):
        told = refusal("codesign", desk / "net.yaml", "--space", desk / "space.yaml", "-o", tmp_path / "out", *QUICK)
    assert told == f"{tmp_path / 'out'}: another run works in this folder: wait for its end, or choose another place"
    assert not list((tmp_path / "out").iterdir())
