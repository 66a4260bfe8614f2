"""`optimize`: what it searches, writes, prints and refuses."""

import json
from pathlib import Path

import pytest

import fadiff as api
from cli.command import answer, fadiff, refusal, write
from fadiff.cli.live import LiveDisplay
from fadiff.cli.optimize import reasons_table
from fadiff.cost import evaluate, load_schedule
from fadiff.search.driver import Incumbent, OutOfTimeError, Status
from fadiff.search.objective import EDP, LATENCY
from fadiff.search.optimize import METHODS
from fadiff.workload import load_model
from search.networks import GEMMINI, group

pytestmark = pytest.mark.usefixtures("small_and_quick")

NETWORK = """\
name: tiny
layers:
  - {name: a, kind: mac, dims: {K: 4, C: 2, P: 8, Q: 4, R: 3, S: 3}, inputs: [{from: null, port: input}],
     epilogue: [relu, max_pool], out: {P: 4, Q: 4}}
  - {name: b, kind: mac, dims: {K: 4, C: 4, P: 4, Q: 4, R: 3, S: 3}, inputs: [{from: a, port: input}]}
  - {name: s, kind: add, dims: {K: 4, P: 4, Q: 4}, inputs: [{from: b, port: addend}, {from: a, port: addend}]}
  - {name: c, kind: mac, dims: {K: 2, C: 4, P: 4, Q: 4}, inputs: [{from: s, port: input}], repeat: 2}
"""
MACHINE = "name: chip\nrows: 4\ncols: 4\nl1: 256 B\nl2: 1 KB\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, str, Path]:
    """A network and a machine to search."""
    machine = write(tmp_path, "chip.yaml", MACHINE)
    return (write(tmp_path, "net.yaml", NETWORK), "--hardware", machine)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch):
    """A method that finds something better than the greedy schedule, and is interrupted."""

    def method(workload, machine, settings, incumbent):
        schedule = incumbent.best.schedule
        groups = (group("a b s"), group("c"))
        incumbent.offer(type(schedule)(workload, machine, groups, schedule.mappings))
        yield Status("look", 1, 3)
        raise KeyboardInterrupt

    monkeypatch.setitem(METHODS, "exact", method)


def test_the_search_fuses_and_writes_a_schedule_that_loads(files, tmp_path: Path):
    path, trace = tmp_path / "out.json", tmp_path / "trace.json"
    made = answer("optimize", *files, "--seed", 3, "-o", path, "--trace", trace)
    schedule = load_schedule(path)
    assert {**schedule.made_by, "command": ""} == {
        "version": api.__version__,
        "method": "exact",
        "seed": 3,
        "command": "",
    }
    assert schedule.fused_edges
    evaluation = evaluate(schedule)
    assert made["schedule_file"] == str(path)
    assert made["totals"]["edp_uj_cycles"] == evaluation.edp_uj_cycles
    assert made["edges_fused"] == len(schedule.fused_edges)
    compared = made["compared_with"]
    assert list(compared) == ["greedy", "unfused"]
    for other in compared.values():
        assert set(other) == {"energy_pj", "cycles", "edp_uj_cycles", "first_memory_bytes"}
    ranked = [made["totals"], compared["unfused"], compared["greedy"]]
    assert [one["edp_uj_cycles"] for one in ranked] == sorted(one["edp_uj_cycles"] for one in ranked)
    assert made["stopped"] == "done"
    assert made["seconds"] > 0
    assert [(one["source"], one["target"], one["cause"]) for one in made["not_fused"]] == [("s", "c", "repeat")]
    assert set(made["not_fused"][0]) == {"source", "target", "cause", "detail"}

    written = json.loads(trace.read_text(encoding="utf-8"))
    assert written["format"] == "fadiff-trace/1"
    assert written["made_by"] == schedule.made_by
    points = written["points"]
    keys = [
        "seconds", "phase", "step", "temperature", "legal_share", "best_edp_uj_cycles", "found_edp_uj_cycles",
        "fused_edges", "restart_edp_uj_cycles",
    ]  # fmt: skip
    assert all(list(point) == keys for point in points)
    assert points[0]["phase"] == "greedy"
    assert points[0]["best_edp_uj_cycles"] == compared["greedy"]["edp_uj_cycles"]
    assert points[-1]["best_edp_uj_cycles"] == evaluation.edp_uj_cycles
    assert points[-1]["fused_edges"] == len(schedule.fused_edges)
    assert [point["seconds"] for point in points] == sorted(point["seconds"] for point in points)


def test_the_same_command_writes_the_same_bytes(files, tmp_path: Path):
    for name in ("one.json", "two.json"):
        assert fadiff("optimize", *files, "-o", tmp_path / name).exit_code == 0
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_the_summary_compares_and_explains(files):
    result = fadiff("optimize", *files)
    assert result.exit_code == 0
    assert result.stderr == ""
    for part in ("best unfused", "greedy", "a + b + s", "Tensors that leave the chip, and why", "repeat 1 and 2 times"):
        assert part in result.stdout
    assert "The search ran to its end." in result.stdout
    assert "Not saved: add -o FILE" in result.stdout


def test_the_descent_is_part_of_a_search_with_time(files, tmp_path: Path):
    trace = tmp_path / "trace.json"
    made = answer("optimize", *files, "--method", "joint", "--budget", "5m", "--restarts", 2, "--trace", trace)
    points = json.loads(trace.read_text(encoding="utf-8"))["points"]
    descending = [point for point in points if point["phase"] == "descend"]
    assert descending
    assert all(0 <= point["legal_share"] <= 1 for point in descending)
    assert all(min(point["restart_edp_uj_cycles"]) > 0 for point in descending)
    temperatures = [point["temperature"] for point in descending]
    assert temperatures == sorted(temperatures, reverse=True)
    assert min(temperatures) > 0
    assert made["stopped"] == "done"
    assert made["edges_fused"] == 3


@pytest.mark.usefixtures("interrupted")
def test_an_interrupted_search_writes_its_best_and_succeeds(files, tmp_path: Path):
    path, trace = tmp_path / "out.json", tmp_path / "trace.json"
    result = fadiff("optimize", *files, "-o", path, "--trace", trace)
    assert result.exit_code == 0
    assert "Interrupted: this is the best legal schedule so far." in result.stdout
    assert f"fadiff verify {path}" in result.stdout.replace("\n", "")
    assert len(load_schedule(path).fused_edges) == 3
    assert [point["phase"] for point in json.loads(trace.read_text(encoding="utf-8"))["points"]] == ["greedy", "look"]


@pytest.mark.usefixtures("interrupted")
def test_an_interrupted_search_says_so_in_json(files):
    made = answer("optimize", *files)
    assert made["stopped"] == "interrupt"
    assert made["edges_fused"] == 3


def test_a_search_without_time_says_so_and_keeps_the_greedy_schedule(files, tmp_path: Path):
    path = tmp_path / "out.json"
    result = fadiff("optimize", *files, "--budget", "0.01ms", "-o", path)
    assert result.exit_code == 0
    assert "The budget ended the search: a longer one may find more." in result.stdout
    assert not load_schedule(path).fused_edges
    assert answer("optimize", *files, "--budget", "0.01ms")["stopped"] == "budget"


def test_a_memory_that_holds_not_one_value_is_named_with_what_it_lacks(tmp_path: Path):
    network, path = write(tmp_path, "net.yaml", NETWORK), tmp_path / "out.json"
    for change, lacking in (
        ("l1: 8 B\nl2: 1 KB\n", "accumulator has 2 bytes, and one value of each tensor it keeps (O) takes 32 bits"),
        ("l1: 256 B\nl2: 1 B\n", "scratchpad has 1 bytes, and one value of each tensor it keeps (W, I) takes 16 bits"),
    ):
        chip = write(tmp_path, "chip.yaml", "name: chip\nrows: 4\ncols: 4\n" + change)
        sentence = refusal("optimize", network, "--hardware", chip, "-o", path)
        assert lacking in sentence
    assert not path.exists()


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        (("--objective", "speed"), ("'speed'", "edp, energy, latency")),
        (("--budget", "soon"), ("'soon'", "30s, 2m or 500ms")),
        (("--budget", "0s"), ("'0s'", "30s")),
        (("--restarts", "many"), ("'many'", "a positive number, or auto")),
        (("--restarts", "0"), ("'0'", "a positive number, or auto")),
        (("--method", "gradeint"), ("did you mean gradient?", "greedy")),
        (("--trace", "missing/trace.json"), ("missing", "does not exist")),
    ],
    ids=str,
)
def test_an_option_that_makes_no_sense_is_refused_before_the_search(wrong, parts, files, tmp_path: Path):
    path = tmp_path / "out.json"
    sentence = refusal("optimize", *files, "-o", path, *wrong)
    assert "\n" not in sentence
    assert all(part in sentence for part in parts)
    assert not path.exists()


def test_options_reach_the_search(files, monkeypatch: pytest.MonkeyPatch):
    told = []
    monkeypatch.setitem(METHODS, "greedy", lambda *arguments: told.append(arguments[2]) or iter(()))
    options = ("--seed", 4, "--restarts", 6, "--objective", "latency", "--budget", "90s", "--method", "greedy")
    assert fadiff("optimize", *files, *options).exit_code == 0
    assert fadiff("optimize", *files, "--method", "greedy", "--restarts", "auto").exit_code == 0
    assert (told[0].seed, told[0].restarts, told[0].objective) == (4, 6, LATENCY)
    assert 80 < told[0].seconds_left <= 90
    assert told[1].restarts is None


def test_the_display_tells_where_the_search_stands():
    display = LiveDisplay("tiny", "chip", 10, shown=False)
    task = display._progress.tasks[0]  # what the bar shows
    incumbent = Incumbent(EDP)
    display.update(Status("map"), incumbent, 1.0)
    assert task.fields["numbers"] == "map"
    api_result = api.optimize(load_model("mobilenet_v1:size=32"), GEMMINI, method="greedy")
    incumbent.best = api_result.best
    display.update(Status("descend", 50, 300, 0.5, 0.25), incumbent, 12.0)
    edp = f"{api_result.best.edp_uj_cycles:.4g}"
    assert task.fields["numbers"] == f"descend 50/300, tau 0.50, legal 25%, EDP {edp}, 0 edges fused"
    assert (task.completed, task.total) == (10, 10)


def test_a_proof_that_is_interrupted_loses_no_schedule(files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(METHODS, "exact", lambda *_: iter(()))
    monkeypatch.setattr("fadiff.search.solver.network_bound.Prover", interrupted)
    path = tmp_path / "out.json"
    assert fadiff("optimize", *files, "-o", path).exit_code == 0
    assert load_schedule(path).bound is None


def test_what_the_budget_left_out_is_told_and_the_rest_of_it_proves(files, monkeypatch: pytest.MonkeyPatch):
    def method(*_: object):
        raise OutOfTimeError("the descent was left out: 12 s were left")
        yield

    monkeypatch.setitem(METHODS, "exact", method)
    told = fadiff("optimize", *files).stdout
    assert "The budget ended the search: the descent was left out: 12 s were left." in told
    made = answer("optimize", *files)
    assert (made["stopped"], made["left_out"]) == ("budget", "the descent was left out: 12 s were left")
    assert made["gap"] is not None


def test_a_search_that_takes_all_its_time_leaves_some_to_the_proof(files, monkeypatch: pytest.MonkeyPatch):
    deadlines = []

    def endless(_, __, settings, ___):
        deadlines.append(settings.seconds_left)
        monkeypatch.setattr("fadiff.search.clock.monotonic", lambda: settings.deadline)
        yield Status("map")

    monkeypatch.setitem(METHODS, "exact", endless)
    made = answer("optimize", *files, "-b", "1000s")
    assert made["stopped"] == "budget"
    assert 800 < deadlines[0] <= 900
    assert made["gap"] is not None


def test_a_limit_is_kept_and_proven(files, tmp_path: Path):
    free = answer("optimize", *files, "--objective", "energy")
    limit = free["totals"]["cycles"]
    made = answer("optimize", *files, "--objective", "energy", "--max-latency", limit, "-o", tmp_path / "out.json")
    assert made["totals"]["cycles"] <= limit
    assert made["totals"]["energy_pj"] == free["totals"]["energy_pj"]
    assert made["gap_within_limits"] >= 0
    assert f"--max-latency {limit}" in str(load_schedule(tmp_path / "out.json").made_by["command"])
    assert "gap_within_limits" not in free
    assert "no schedule was found" in refusal("optimize", *files, "--max-energy", 1e-9)


def test_a_search_starts_from_a_file_and_says_what_carried_over(files, tmp_path: Path):
    start, out = tmp_path / "start.json", tmp_path / "out.json"
    first = answer("optimize", *files, "-o", start)
    made = answer("optimize", *files, "--method", "greedy", "--start", start, "-o", out)
    assert made["totals"]["edp_uj_cycles"] == first["totals"]["edp_uj_cycles"]
    assert made["start"] == f"4 of 4 layers start from {start}: all of it."
    assert load_schedule(out).made_by["command"].endswith(f"--start {start}")
    bigger = write(tmp_path, "bigger.yaml", NETWORK.replace("dims: {", "dims: {N: 3, "))
    words = ("optimize", bigger, *files[1:], "--method", "greedy", "--start", start)
    assert "all of it, 3 times in a row." in " ".join(fadiff(*words).stdout.split())
    assert answer(*words)["totals"]["cycles"] <= 3 * first["totals"]["cycles"]


def test_a_start_must_be_a_schedule_that_is_kept(files, tmp_path: Path):
    assert "there is no such file" in refusal("optimize", *files, "--start", tmp_path / "nothing.json")
    assert refusal("optimize", *files, "--start", files[0])
    start = tmp_path / "start.json"
    fadiff("optimize", *files, "--method", "greedy", "-o", start)
    assert str(start) in refusal("optimize", *files, "--start", start, "-o", start)


def test_an_objective_may_be_a_formula(files, tmp_path: Path):
    out = tmp_path / "out.json"
    made = answer("optimize", *files, "--objective", "2*energy + 6*latency", "-o", out)
    assert made["objective"] == "energy + 3*latency"
    assert made["gap_of_objective"] >= 0
    assert "--objective 'energy + 3*latency'" in load_schedule(out).made_by["command"]
    assert "(energy * latency^2)" not in fadiff("optimize", *files, "--objective", "edp").stdout
    assert "above the best there is (ed2p)." in " ".join(
        fadiff("optimize", *files, "--objective", "ed2p").stdout.split()
    )


def test_a_reason_of_many_tensors_is_told_once():
    often = [
        {"source": f"a{i}", "target": f"b{i}", "cause": "not searched", "detail": "nothing forbids it"}
        for i in range(9)
    ]
    few = [{"source": f"c{i}", "target": f"d{i}", "cause": "repeat", "detail": "1 and 2 times"} for i in range(3)]
    rows = list(zip(*(column.cells for column in reasons_table([*often[:4], *few, *often[4:]]).columns), strict=True))
    assert rows == [
        ("a0", "b0", "not searched", "nothing forbids it"),
        ("8 others", "", "not searched", "the same"),
        *((f"c{i}", f"d{i}", "repeat", "1 and 2 times") for i in range(3)),
    ]
