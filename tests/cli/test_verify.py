"""`verify`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import fadiff.execute as fadiff_execute
from cli.command import MACHINE, answer, fadiff, schedule_file, write
from fadiff.execute import Access, Execution, Mismatch, Peak
from fadiff.schedule import Schedule

SMALL = Path(__file__).parents[1] / "data" / "schedules" / "small"


def test_a_schedule_that_holds_up_exits_with_0(tmp_path: Path):
    result = fadiff("verify", schedule_file(tmp_path))
    assert result.exit_code == 0
    assert result.stderr == ""
    for part in (
        "holds up",
        "equal to a direct computation in all 3 layers",
        "of 16 KB",
        "DRAM W read",
        "word for word",
    ):
        assert part in " ".join(result.stdout.split())


def test_the_answer_holds_every_count_of_every_layer(tmp_path: Path):
    agreement = answer("verify", schedule_file(tmp_path), "--seed", 3)
    assert agreement["holds"]
    assert agreement["seed"] == 3
    assert agreement["peak_bytes"]["scratchpad"] <= agreement["capacity_bytes"]["scratchpad"] == 16384
    told = {(count["memory"], count["tensor"], count["way"]) for count in agreement["words"]}
    assert {
        ("DRAM", "W", "read"),
        ("scratchpad", "I", "read"),
        ("accumulator", "O", "write"),
        ("steps", "", ""),
    } <= told
    assert all(count["agrees"] for count in agreement["words"])


def test_a_vector_unit_is_said_not_to_be_checked(tmp_path: Path):
    without = schedule_file(tmp_path)
    assert "vector_unit_checked" not in answer("verify", without)
    assert "vector unit" not in fadiff("verify", without).stdout
    chip = write(tmp_path, "vector.yaml", MACHINE + "vector: {lanes: 4, pj: 0.5}\n")
    path = tmp_path / "with.json"
    assert fadiff("optimize", tmp_path / "net.yaml", "-H", chip, "-m", "greedy", "-o", path).exit_code == 0
    assert answer("verify", path)["vector_unit_checked"] is False
    # Two operators on the 512 values of layer a, and one addition on the 128 of the sum.
    told = "vector unit not checked: its 1,152 operations follow from the layers alone"
    assert told in " ".join(fadiff("verify", path).stdout.split())


def test_padding_is_told_word_by_word(tmp_path: Path):
    path = schedule_file(tmp_path)
    padded = {count["layer"] for count in answer("verify", path)["words"] if count["padding"]}
    assert padded == {"b"}
    assert "after padding" in " ".join(fadiff("verify", path).stdout.split())


def test_leads_are_told_word_by_word():
    shown = fadiff("verify", SMALL / "d3_pwdw.json")
    assert shown.exit_code == 0
    assert "after leads" in " ".join(shown.stdout.split())


def test_layers_show_every_count(tmp_path: Path):
    shown = fadiff("verify", schedule_file(tmp_path), "--layers").stdout
    assert "scratchpad W read" in shown
    assert shown.count("DRAM O write") == 3


def test_one_word_too_many_does_not_hold_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = schedule_file(tmp_path)
    run = fadiff_execute.execute

    def spoiled(schedule: Schedule, **options: object) -> Execution:
        honest = run(schedule)
        access = Access("DRAM", "W", "read")
        mine = honest.layers["a"]
        count = mine.counts[access]
        counts = {**mine.counts, access: count._replace(bits=count.bits + count.word_bits)}
        return replace(honest, layers={**honest.layers, "a": replace(mine, counts=counts)})

    monkeypatch.setattr(fadiff_execute, "execute", spoiled)
    shown = fadiff("verify", path)
    assert shown.exit_code == 1
    assert "DISAGREE" in shown.stdout
    assert "Counts that differ (1 in all)" in shown.stdout


def test_a_schedule_that_does_not_hold_up_exits_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = schedule_file(tmp_path)
    run = fadiff_execute.execute

    def spoiled(schedule: Schedule, **options: object) -> Execution:
        wrong = Mismatch("b", 7, 128, (0, 0, 1, 2, 3), 4, 5)
        over = Peak("s", "accumulator", 72_000, 512, (("sums of s", 72_000),))
        honest = run(schedule)
        return replace(honest, mismatches=(wrong,), peaks=(*honest.peaks, over))

    monkeypatch.setattr(fadiff_execute, "execute", spoiled)
    shown = fadiff("verify", path)
    assert shown.exit_code == 1
    assert "error" not in shown.stderr
    for part in ("DOES NOT HOLD UP", "WRONG in 1 of 3", "7 of 128", "OVERFLOW", "9000"):
        assert part in " ".join(shown.stdout.split())
    told = fadiff("verify", path, "--json")
    assert told.exit_code == 1
    verdict = json.loads(told.stdout)
    assert [verdict[key] for key in ("holds", "outputs_equal", "buffers_hold", "words_agree")] == [False] * 3 + [True]
    assert verdict["mismatches"][0]["layer"] == "b"
    assert verdict["overflows"][0]["bits"] == 72_000


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("layers", [(), ("--layers",)])
def test_tables_keep_within_the_terminal(width: int, layers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = fadiff("verify", SMALL / "d3_pwdw.json", *layers).stdout
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
