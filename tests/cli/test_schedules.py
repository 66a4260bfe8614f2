"""`optimize` and `evaluate`."""

import json
from pathlib import Path

import pytest

import fadiff as api
from cli.command import MACHINE, NETWORK, answer, fadiff, refusal, schedule_file, write
from fadiff.analysis.units import significant
from fadiff.cost import evaluate, load_schedule
from fadiff.hardware import area_by_node_mm2, leakage_mw, machine_area
from fadiff.report.notebook import schedule_html

FUSED = Path(__file__).parents[1] / "data" / "schedules" / "mobilenet_v1.gemmini-large.fused.json"


def test_optimize_writes_a_schedule_that_says_who_made_it(tmp_path: Path):
    path = schedule_file(tmp_path)
    made_by = dict(load_schedule(path).made_by)
    asked = f"--hardware {tmp_path / 'chip.yaml'} --method greedy --budget 60s --seed 0"
    assert made_by.pop("command") == f"fadiff optimize {tmp_path / 'net.yaml'} {asked}"
    assert made_by == {"version": api.__version__, "method": "greedy", "seed": 0}


def test_optimize_twice_writes_the_same_bytes(tmp_path: Path):
    first = schedule_file(tmp_path).read_bytes()
    assert schedule_file(tmp_path).read_bytes() == first


def test_optimize_sums_up_and_says_where_it_wrote(tmp_path: Path):
    network, path = write(tmp_path, "net.yaml", NETWORK), tmp_path / "out.json"
    summary = answer("optimize", network, "--hardware", "gemmini-small", "-m", "greedy", "-o", path)
    assert summary["schedule_file"] == str(path)
    assert summary["totals"]["edp_uj_cycles"] == evaluate(load_schedule(path)).edp_uj_cycles
    shown = fadiff("optimize", network, "--hardware", "gemmini-small", "-m", "greedy", "-o", path).stdout
    assert "EDP" in shown
    assert str(path) in shown.replace("\n", "")


def test_optimize_without_a_file_says_how_to_save(tmp_path: Path):
    network = write(tmp_path, "net.yaml", NETWORK)
    assert "-o FILE" in fadiff("optimize", network, "-m", "greedy").stdout
    assert answer("optimize", network, "-m", "greedy")["schedule_file"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["net.yaml"]


def test_evaluate_prints_what_the_model_computes(tmp_path: Path):
    path = schedule_file(tmp_path)
    costs, expected = answer("evaluate", path), evaluate(load_schedule(path))
    assert costs["totals"]["energy_pj"] == expected.energy_pj
    assert costs["totals"]["cycles"] == expected.cycles
    totals = costs["totals"]
    assert totals["mac_energy_pj"] + sum(totals["memory_energy_pj"].values()) == pytest.approx(expected.energy_pj)
    machine = expected.schedule.machine
    assert costs["area_mm2"] == area_by_node_mm2(machine)
    assert costs["leakage_mw"] == leakage_mw(machine)
    assert f"{significant(machine_area(machine).total)} mm2 at 40 nm" in fadiff("evaluate", path).stdout


def test_layers_and_groups_add_up_to_the_totals():
    costs = answer("evaluate", FUSED)
    for key in ("energy_pj", "cycles"):
        assert sum(layer[key] * layer["repeat"] for layer in costs["layers"]) == pytest.approx(costs["totals"][key])
        assert sum(group[key] for group in costs["groups"]) == pytest.approx(costs["totals"][key])
    assert sum(group["first_memory_bytes"] for group in costs["groups"]) == costs["totals"]["first_memory_bytes"]


def test_a_layer_takes_the_cycles_of_the_term_that_binds_it():
    for layer in answer("evaluate", FUSED)["layers"]:
        assert layer["cycles_by_term"][layer["bound_by"]] == layer["cycles"]


def test_fused_groups_show_their_layers_loops_and_peaks():
    shown = fadiff("evaluate", FUSED).stdout
    assert "conv1 + dw1 + pw1" in shown
    assert "Q14" in shown
    group = answer("evaluate", FUSED)["groups"][0]
    assert group["trips"] == {"Q": 14}
    assert group["peak_bytes"]["scratchpad"] <= 524288


def test_layers_are_shown_when_asked_for():
    shown = fadiff("evaluate", FUSED, "--layers").stdout
    for part in ("words at scratchpad", "weights", "from DRAM", "bound", "compute", "pw13"):
        assert part in shown
    assert "words at" not in fadiff("evaluate", FUSED).stdout


def test_layers_that_cost_most_come_first_or_as_the_network_lists_them():
    told = {layer["name"]: layer for layer in answer("evaluate", FUSED)["layers"]}

    def listed(*options: str) -> list[str]:
        shown = fadiff("evaluate", FUSED, "--layers", *options).stdout.partition("Layers: one execution")[2]
        firsts = [line.split()[0] for line in shown.splitlines() if line.split()]
        return list(dict.fromkeys(name for name in firsts if name in told))

    assert listed("--network-order") == list(told)
    costly = listed()
    assert costly != list(told)
    shares = [told[name]["cost_share"] for name in costly]
    assert shares == sorted(shares, reverse=True)


def test_idle_lanes_are_told_with_their_reasons():
    layers = answer("evaluate", FUSED)["layers"]
    idle = [layer for layer in layers if layer["macs"] and layer["pe_use"] < 0.9]
    assert idle
    for layer in idle:
        assert sum(reason["share"] for reason in layer["idle"]) == pytest.approx(1 - layer["pe_use"])
    shown = " ".join(fadiff("evaluate", FUSED, "--layers").stdout.split())
    assert "Layers: lanes without work while they compute" in shown
    assert idle[0]["idle"][0]["sentence"].split(":")[0] in shown


@pytest.mark.parametrize("width", [80, 100])
def test_tables_keep_within_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = fadiff("evaluate", FUSED, "--layers").stdout
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown


def test_a_narrow_terminal_costs_no_digits_and_no_names(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = fadiff("evaluate", FUSED, "--layers").stdout
    monkeypatch.setenv("COLUMNS", "50")
    assert fadiff("evaluate", FUSED, "--layers").stdout == shown


CLOCKED = MACHINE + "clock: 800 MHz\nrate: 6.4 GB/s\n"  # 8 bytes a cycle, as where nothing is said


def test_a_clock_adds_units_of_time_and_power_and_changes_no_cost(tmp_path: Path):
    network, clocked = write(tmp_path, "net.yaml", NETWORK), write(tmp_path, "clocked.yaml", CLOCKED)
    path = tmp_path / "clocked.json"
    plain = answer("evaluate", schedule_file(tmp_path))["totals"]
    found = answer("optimize", network, "--hardware", clocked, "-m", "greedy", "-o", path)["totals"]
    told = answer("evaluate", path)["totals"]
    assert found == told
    assert plain.pop("at_clock") is None
    at_clock = told.pop("at_clock")
    assert told == plain
    seconds = told["cycles"] / 800e6
    operations = 2 * load_schedule(path).workload.macs
    assert at_clock == pytest.approx(
        {
            "clock_mhz": 800,
            "latency_ms": 1e3 * seconds,
            "inferences_per_second": 1 / seconds,
            "energy_mj": told["energy_pj"] * 1e-9,
            "average_power_w": told["energy_pj"] * 1e-12 / seconds,
            "tops": operations / seconds * 1e-12,
            "tops_per_w": operations / (told["energy_pj"] * 1e-12) * 1e-12,
        }
    )


def test_every_summary_tells_time_and_power_where_there_is_a_clock(tmp_path: Path):
    network, clocked = write(tmp_path, "net.yaml", NETWORK), write(tmp_path, "clocked.yaml", CLOCKED)
    path, page = tmp_path / "clocked.json", tmp_path / "clocked.html"
    found = fadiff("optimize", network, "--hardware", clocked, "-m", "greedy", "-o", path, "--report", page).stdout
    shown = fadiff("evaluate", path).stdout
    for text in (found, shown, page.read_text(encoding="utf-8"), schedule_html(load_schedule(path))):
        for part in ("at 800 MHz", " ms, ", " inferences/s, ", " mJ, ", " W, ", " TOPS, ", " TOPS/W"):
            assert part in text
    assert "TOPS" not in fadiff("evaluate", schedule_file(tmp_path)).stdout


def test_a_vector_unit_is_charged_from_the_search_to_the_report(tmp_path: Path):
    network = write(tmp_path, "net.yaml", NETWORK)
    slow = write(tmp_path, "slow.yaml", MACHINE + "vector: {lanes: 1, pj: 50}\n")
    path, page = tmp_path / "slow.json", tmp_path / "slow.html"
    found = fadiff("optimize", network, "--hardware", slow, "-m", "greedy", "-o", path, "--report", page)
    assert found.exit_code == 0
    assert "vector " in found.stdout
    told = answer("evaluate", path)
    values = {"a": 512, "b": 0, "s": 128}
    assert {layer["name"]: layer["vector_energy_pj"] for layer in told["layers"]} == {
        "a": 2 * values["a"] * 50,  # relu, and what the pooling reads
        "b": 0,
        "s": values["s"] * 50,
    }
    assert told["layers"][0]["bound_by"] == "vector"
    assert told["totals"]["vector_energy_pj"] == 57600
    assert " vector" in fadiff("evaluate", path, "--layers").stdout
    assert '"vector_energy_pj":57600' in page.read_text(encoding="utf-8").replace(" ", "").replace(".0", "")
    assert answer("verify", path)["holds"]
    assert answer("evaluate", schedule_file(tmp_path))["totals"]["vector_energy_pj"] == 0


def test_a_wrong_stated_cost_is_refused(tmp_path: Path):
    path = schedule_file(tmp_path)
    data = json.loads(path.read_text(encoding="utf-8"))
    data["cost"]["cycles"] *= 1.01
    path.write_text(json.dumps(data), encoding="utf-8")
    assert "cost.cycles" in refusal("evaluate", path)
