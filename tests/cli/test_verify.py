"""`verify`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import fadiff.execute as fadiff_execute
from cli.command import answer, fadiff, schedule_file
from fadiff.execute import Execution, Mismatch, Overflow
from fadiff.schedule import Schedule

SMALL = Path(__file__).parents[1] / "data" / "schedules" / "small"


def test_a_schedule_that_holds_up_exits_with_0(tmp_path: Path):
    result = fadiff("verify", schedule_file(tmp_path))
    assert result.exit_code == 0
    assert result.stderr == ""
    for part in ("holds up", "equal to a direct computation in all 3 layers", "of 16 KB L2", "L3 weight"):
        assert part in result.stdout


def test_the_answer_holds_every_count_of_every_layer(tmp_path: Path):
    agreement = answer("verify", schedule_file(tmp_path), "--seed", 3)
    assert agreement["holds"]
    assert agreement["seed"] == 3
    assert agreement["peak_l2_bytes"] <= agreement["l2_capacity_bytes"] == 16384
    fields = {count["field"] for count in agreement["words"]}
    assert {"macs", "l3_weight", "l2_input_read", "l1_update", "l0_weight_fill"} <= fields
    assert len(agreement["words"]) == 3 * len(fields)


def test_padding_is_told_apart(tmp_path: Path):
    path = schedule_file(tmp_path)
    padded = {count["layer"] for count in answer("verify", path)["words"] if count["verdict"] == "padding"}
    assert padded == {"b"}
    assert "less through padding" in fadiff("verify", path).stdout


def test_warm_up_is_told_apart():
    shown = fadiff("verify", SMALL / "d3_pwdw.json")
    assert shown.exit_code == 0
    assert "more through warm-up" in shown.stdout
    assert "+2,048 warm-up" in shown.stdout


def test_layers_show_every_count(tmp_path: Path):
    shown = fadiff("verify", schedule_file(tmp_path), "--layers").stdout
    assert "L2 weight read" in shown
    assert shown.count("L3 output") == 3


def test_a_schedule_that_does_not_hold_up_exits_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = schedule_file(tmp_path)
    run = fadiff_execute.execute

    def spoiled(schedule: Schedule, **options: object) -> Execution:
        honest = run(schedule)
        counts = {**honest.counts, "a": honest.counts["a"]._replace(l3_weight=1)}
        wrong = Mismatch("b", 7, 128, (0, 0, 1, 2, 3), 4, 5)
        over = Overflow("s", "s", "L1", 9000, 4096, (("sums of s", 9000),))
        return replace(honest, counts=counts, mismatches=(wrong,), overflows=(over,))

    monkeypatch.setattr(fadiff_execute, "execute", spoiled)
    shown = fadiff("verify", path)
    assert shown.exit_code == 1
    assert "error" not in shown.stderr
    for part in ("DOES NOT HOLD UP", "WRONG in 1 of 3", "7 of 128", "OVERFLOW", "9000", "DISAGREE", "1 that differ"):
        assert part in " ".join(shown.stdout.split())
    told = fadiff("verify", path, "--json")
    assert told.exit_code == 1
    verdict = json.loads(told.stdout)
    assert [verdict[key] for key in ("holds", "outputs_equal", "buffers_hold", "words_agree")] == [False] * 4
    assert verdict["mismatches"][0]["layer"] == "b"
    assert verdict["overflows"][0]["needed_bytes"] == 9000


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("layers", [(), ("--layers",)])
def test_tables_keep_within_the_terminal(width: int, layers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = fadiff("verify", SMALL / "d3_pwdw.json", *layers).stdout
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
