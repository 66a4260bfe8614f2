"""What goes wrong must show: too little room, wrong data, schedules that cannot run."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fadiff.execute
from execute.builders import add, alone, group, mac, run, schedule, tiled
from fadiff.execute import ExecutionError, execute
from fadiff.execute.buffers import Buffer
from fadiff.execute.operands import InputOperand
from fadiff.execute.tiles import WeightTile

CONV = "K4 C4 P8 Q6 R3 S3"
PAIR = [mac("u", CONV), mac("v", CONV, "u")]
TILES = dict.fromkeys("uv", tiled("C4 K4", "P2 Q6", "R3 S3", "", "P4"))
FUSED = schedule(PAIR, [group("u v", "P4")], TILES)
GEMM = mac("g", "N8 K8 C8")
GEMM_TILES = tiled("C4 K4", "N4", "C2", "", "K2 N2", o3="KN")


def with_room(plan, **changes):
    return replace(plan, hardware=replace(plan.hardware, **changes))


def peaks(plan):
    result = run(plan)
    return max(peak.l1_bytes for peak in result.peaks), max(peak.l2_bytes for peak in result.peaks)


def test_a_layer_fits_to_the_byte():
    plan = alone(GEMM, GEMM_TILES)
    l1, l2 = peaks(plan)
    assert (l1, l2) == (4 * 4 * 4, 4 * 8 + 4 * 8)
    run(with_room(plan, l1_bytes=l1, l2_bytes=l2))


@pytest.mark.parametrize(("level", "room"), [("L1", {"l1_bytes": 63}), ("L2", {"l2_bytes": 63})])
def test_one_byte_less_overflows(level, room):
    result = execute(with_room(alone(GEMM, GEMM_TILES), **room))
    (overflow,) = result.overflows
    assert (overflow.level, overflow.layer, overflow.needed_bytes, overflow.capacity_bytes) == (level, "g", 64, 63)
    assert not result.ok
    assert result.mismatches == ()


def test_double_buffering_halves_the_room():
    assert execute(with_room(alone(GEMM, GEMM_TILES), l2_bytes=127, double_buffered=True)).overflows
    run(with_room(alone(GEMM, GEMM_TILES), l2_bytes=128, l1_bytes=128, double_buffered=True))


def test_a_group_that_does_not_fit_names_its_tenants():
    result = execute(with_room(FUSED, l2_bytes=400))
    names = {name for overflow in result.overflows for name, _ in overflow.holders}
    assert {"u buffer", "u W", "v W"} <= names
    assert result.mismatches == ()


def test_leads_that_do_not_fit_are_computed_in_warm_up():
    sums = 4 * 4 * 2 * 6
    plan = with_room(FUSED, l1_bytes=sums)
    result = run(plan)
    roomy = run(FUSED)
    assert roomy.warm_up["u"].macs == 0
    # One row more than a block of two: it is computed before the first iteration, with one more pass over W.
    assert result.warm_up["u"].macs == PAIR[0].macs // 8
    assert result.counts["u"].l0_weight_fill - roomy.counts["u"].l0_weight_fill == result.warm_up["u"].l0_weight_fill
    assert result.counts["u"].l3_input == roomy.counts["u"].l3_input
    assert result.warm_up["v"].macs == 0
    assert result.counts["v"] == roomy.counts["v"]


def test_leads_in_both_directions_are_computed_in_warm_up():
    mapping = tiled("C4 K4", "P2 Q2", "R3 S3", "", "P4 Q3", o3="PQ")
    plan = schedule(PAIR, [group("u v", "P4 Q3")], dict.fromkeys("uv", mapping), l1_bytes=4 * 4 * 2 * 2)
    result = run(plan)
    # Row -1 of 1 x 6, and column -1 of the 7 other rows.
    assert result.warm_up["u"].macs == PAIR[0].macs * (6 + 7) // 48


def test_warm_up_needs_no_more_room_than_the_group():
    layers = [mac("u", CONV), mac("v", CONV, "u"), mac("w", CONV, "v"), mac("x", CONV, "w")]
    mappings = dict.fromkeys("uvwx", tiled("C4 K4", "P2 Q6", "R3 S3", "", "P4"))
    # Weights, u's window, and buffers of four rows: less than the first iteration would take at once.
    room = 4 * 144 + 4 * 4 * 8 + 3 * 4 * 4 * 6
    plan = schedule(layers, [group("u v w x", "P4")], mappings, l1_bytes=4 * 4 * 2 * 6, l2_bytes=room)
    assert run(plan).warm_up["u"].macs > 0


def test_a_word_in_the_wrong_place_is_found(monkeypatch):
    honest = WeightTile.fill

    def careless(self, words):
        honest(self, np.roll(words, 1, axis=1))

    monkeypatch.setattr(WeightTile, "fill", careless)
    (mismatch,) = execute(alone(GEMM, GEMM_TILES)).mismatches
    assert (mismatch.layer, mismatch.words) == ("g", 64)
    assert "outputs are wrong" in str(mismatch)


def test_a_stale_row_is_found(monkeypatch):
    honest = InputOperand.load

    def lazy(self, tile, corner, rows, cols):
        return honest(self, tile, corner, (rows[0], max(rows[0], rows[1] - 1)), cols)

    monkeypatch.setattr(InputOperand, "load", lazy)
    assert execute(alone(mac("c", CONV), TILES["u"])).mismatches


def test_a_halo_let_go_too_early_is_found(monkeypatch):
    honest = Buffer.release

    def forgetful(self, at, wanted):
        honest(self, at, np.zeros_like(wanted))

    monkeypatch.setattr(Buffer, "release", forgetful)
    assert {mismatch.layer for mismatch in execute(FUSED).mismatches} == {"v"}


def test_outputs_are_compared_whatever_the_seed():
    assert execute(FUSED, seed=5).mismatches == ()
    assert execute(FUSED, seed=5).counts == execute(FUSED, seed=6).counts


def test_progress_counts_up_to_all_macs():
    seen = []
    execute(FUSED, progress=lambda name, done, total: seen.append((name, done, total)))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    total = sum(layer.macs for layer in PAIR)
    assert seen[-1] == ("v", total, total)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (alone(GEMM, tiled("C4 K4", "N4", "C2", "", "K2")), "the factors of N make 4, its size is 8"),
        (alone(GEMM, tiled("C8 K4", "N8", "", "", "K2")), "it unrolls over 8 rows, the array has 4"),
        (alone(GEMM, tiled("C4 K4", "N8 C2", "", "", "K2")), "C loops 2 times at L0"),
        (schedule(PAIR, [group("u v", "P3")], TILES), "shares 3 trips of P, which do not divide the 4 of u"),
        (schedule(PAIR, [group("v"), group("u")], TILES), "v runs before u, whose output it reads"),
        (
            schedule([add("s", "N9 K4", None, None)], [group("s", "N2")], {}),
            "shares 2 trips of N, which do not divide the 9 of s",
        ),
        (
            schedule(
                [mac("k", "N8 K4 C4", epilogue=("transpose",)), mac("q", "N8 K8 C4", None, ("k", "weight"))],
                [group("k q", "N2")],
                {"k": tiled("C4 K4", "N4", "", "", "N2"), "q": tiled("C4 K4", "N4", "K2", "", "N2")},
            ),
            "q needs all of k at once",
        ),
    ],
)
def test_a_schedule_without_a_nest_is_refused(plan, message):
    with pytest.raises(ExecutionError, match=message):
        execute(plan)


def test_the_executor_shares_nothing_with_the_cost_model():
    allowed = {"fadiff.errors", "fadiff.execute", "fadiff.hardware", "fadiff.schedule", "fadiff.workload"}
    of_a_schedule = {"DEFAULT_ORDER", "Group", "Mapping", "Schedule", "Trips"}
    for path in Path(fadiff.execute.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fadiff"):
                assert node.module in allowed or node.module.startswith("fadiff.execute."), (path.name, node.module)
                if node.module == "fadiff.schedule":
                    assert {name.name for name in node.names} <= of_a_schedule, path.name
