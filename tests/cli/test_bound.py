"""`fadiff bound`, as users run it."""

import json
from pathlib import Path

import pytest

from cli.command import MACHINE, NETWORK, answer, fadiff
from examples import second
from fadiff.cost import save_schedule


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    network, machine = tmp_path / "tiny.yaml", tmp_path / "chip.yaml"
    network.write_text(NETWORK)
    machine.write_text(MACHINE)
    return network, machine


def test_a_schedule_is_bounded_layer_by_layer(files: tuple[Path, Path], tmp_path: Path):
    network, machine = files
    schedule = tmp_path / "tiny.json"
    assert fadiff("optimize", network, "-H", machine, "-m", "greedy", "-o", schedule).exit_code == 0
    found = answer("bound", schedule, "-b", "2s")
    assert found["gap"] == pytest.approx(found["schedule"]["edp_uj_cycles"] / found["edp_uj_cycles"] - 1)
    assert found["gap"] > 0
    assert found["energy_pj"] <= found["schedule"]["energy_pj"]
    assert found["cycles"] <= found["schedule"]["cycles"]
    assert sorted(name for one in found["layers"] for name in one["layers"]) == ["a", "b", "s"]
    assert all(one["open"] == pytest.approx(one["cost"] - one["bound"]) for one in found["layers"])


def test_a_network_is_searched_and_bounded(files: tuple[Path, Path]):
    network, machine = files
    result = fadiff("bound", network, "-H", machine, "-b", "3s", "--gap", "5")
    assert result.exit_code == 0, result.output
    assert "no schedule is below" in result.output
    assert "tiny on chip" in result.output


def test_the_bound_is_written_shown_and_checked(files: tuple[Path, Path], tmp_path: Path):
    network, machine = files
    schedule, proven = tmp_path / "tiny.json", tmp_path / "proven.json"
    assert fadiff("optimize", network, "-H", machine, "-m", "greedy", "-o", schedule).exit_code == 0
    found = answer("bound", schedule, "-b", "1s", "-o", proven)
    told = answer("evaluate", proven)
    assert told["bound"] == {
        key: found[key] for key in ("energy_pj", "cycles", "edp_uj_cycles", "exact_factors", "among")
    }
    assert told["gap"] == pytest.approx(found["gap"])
    assert "no schedule is below" in fadiff("evaluate", proven).output
    wrong = json.loads(proven.read_text())
    wrong["bound"]["cycles"] *= 1000
    proven.write_text(json.dumps(wrong))
    refused = fadiff("evaluate", proven)
    assert refused.exit_code != 0
    assert "bound.cycles: the file states that no schedule is below" in refused.output


def test_a_machine_without_energies_is_refused(tmp_path: Path):
    path = tmp_path / "free.json"
    save_schedule(path, second("gemmini_conv"))
    document = json.loads(path.read_text())
    document["hardware"]["mac_pj"] = 0
    for node in document["hardware"]["nodes"]:
        node |= {"read_pj": 0, "write_pj": 0} if "memory" in node else {}
    del document["cost"]
    path.write_text(json.dumps(document))
    result = fadiff("bound", path)
    assert result.exit_code != 0
    assert result.output.startswith("error: all energies of")


def test_the_schedule_that_is_read_is_not_replaced(tmp_path: Path):
    path = tmp_path / "schedule.json"
    save_schedule(path, second("gemmini_conv"))
    before = path.read_bytes()
    assert "would replace a file that is read" in fadiff("bound", path, "-o", path).output
    assert path.read_bytes() == before


def test_a_schedule_brings_its_own_machine(tmp_path: Path):
    path = tmp_path / "schedule.json"
    save_schedule(path, second("gemmini_conv"))
    result = fadiff("bound", path, "-H", "eyeriss")
    assert result.exit_code != 0
    assert "leave --hardware away" in result.output


@pytest.mark.parametrize(
    "words", [("nothing-there.json",), ("resnet19",), ("resnet18", "-b", "soon"), ("resnet18", "--objective", "speed")]
)
def test_bad_input_gets_one_sentence(words: tuple[str, ...]):
    result = fadiff("bound", *words)
    assert result.exit_code != 0
    assert result.output.startswith("error: ")
    assert len(result.output.strip().splitlines()) == 1


def test_a_bound_among_exact_factors_says_so_and_needs_a_schedule_that_has_them(
    files: tuple[Path, Path], tmp_path: Path
):
    network, machine = files
    exact, cut = tmp_path / "exact.json", tmp_path / "cut.json"
    found = answer("optimize", network, "-H", machine, "-b", "20s", "--exact-factors", "-o", exact)
    assert found["bound"]["exact_factors"] is True
    assert " --exact-factors " in found["made_by"]["command"]
    assert "no schedule with exact factors is below" in fadiff("bound", exact, "--exact-factors", "-b", "1s").output
    save_schedule(cut, second("gemmini_gemm197"))
    refused = fadiff("bound", cut, "--exact-factors")
    assert refused.exit_code != 0
    assert "cut.json has tiles that are cut at their ends: leave --exact-factors away" in refused.output
