"""What goes wrong must show: too little room, wrong data, words not counted, schedules that cannot run."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fadiff.execute
from execute.builders import alone, group, mac, machine, run, schedule, tiled
from execute.test_priced_files import assert_as_modelled
from fadiff.execute import Access, ExecutionError, execute
from fadiff.execute.mac_run import MacRun
from fadiff.execute.occupancy import Buffer
from fadiff.execute.operands import Operand, Tile
from fadiff.execute.tensors import Tensors

ON = machine()
CONV = "K4 C4 P8 Q6 R3 S3"
PAIR = [mac("u", CONV), mac("v", CONV, "u")]
ROWS = tiled(ON, dram="P4", acc="R3 S3", cols="K4", rows="C4", reg="P2 Q6")
FUSED = schedule(ON, PAIR, [group("u v", "P4")], dict.fromkeys("uv", ROWS))
GEMM = mac("g", "N8 K8 C8")


def gemm(on=ON, **changes):
    factors = {"dram": "K2 N2", "cols": "K4", "acc": "C2", "rows": "C4", "reg": "N4"} | changes
    return alone(on, GEMM, tiled(on, "dram:KN", **factors))


# Words that are not counted.


def test_an_honest_execution_agrees_with_the_model():
    assert_as_modelled(FUSED, execute(FUSED))


@pytest.mark.parametrize("layer", ["u", "v"])
def test_one_word_beyond_what_is_explained_is_found(layer):
    result = execute(FUSED)
    for kind, count in result.layers[layer].counts.items():
        wrong = dict(result.layers[layer].counts) | {kind: count._replace(bits=count.bits - count.word_bits)}
        layers = dict(result.layers) | {layer: replace(result.layers[layer], counts=wrong)}
        with pytest.raises(AssertionError):
            assert_as_modelled(FUSED, replace(result, layers=layers))


def test_a_piece_of_a_leading_layer_that_is_not_counted_is_found(monkeypatch):
    honest = MacRun.run

    def careless(self, number):
        before = self.counts.copy()
        honest(self, number)
        if number == 1:
            self.counts[:] = before

    monkeypatch.setattr(MacRun, "run", careless)
    result = execute(FUSED)
    assert result.exact
    with pytest.raises(AssertionError):
        assert_as_modelled(FUSED, result)


def test_a_row_that_is_brought_twice_is_found(monkeypatch):
    honest = Tile.bring

    def careless(self, box, *, slides=False):
        return honest(self, box)

    monkeypatch.setattr(Tile, "bring", careless)
    result = execute(FUSED)
    assert result.exact
    assert result.layers["u"].counts[Access("dram", "I", "read")].words > 4 * 10 * 8
    with pytest.raises(AssertionError):
        assert_as_modelled(FUSED, result)


# Wrong data.


def test_a_word_in_the_wrong_place_is_found(monkeypatch):
    honest = Operand.take

    def careless(self, box):
        taken = honest(self, box)
        return taken._replace(values=np.roll(taken.values, 1, axis=1))

    monkeypatch.setattr(Operand, "take", careless)
    (mismatch,) = execute(gemm()).mismatches
    assert (mismatch.layer, mismatch.words) == ("g", 64)
    assert "outputs are wrong" in str(mismatch)


def test_a_single_wrong_weight_is_found(monkeypatch):
    honest = Tensors.weights
    seen = []

    def once_wrong(self, layer):
        seen.append(layer)
        words = honest(self, layer)
        if len(seen) > 1:  # the first time is that of the direct computation
            words = words.copy()
            words[0, 3, 2] = words[0, 3, 2] % 8 + 1
        return words

    monkeypatch.setattr(Tensors, "weights", once_wrong)
    (mismatch,) = execute(gemm()).mismatches
    assert mismatch.wrong_words <= 8


def test_a_stale_row_is_found(monkeypatch):
    honest = Tile.bring

    def lazy(self, box, *, slides=False):
        return honest(self, box, slides=slides) if self.box is None else honest(self, self.box)._replace(wanted=0)

    monkeypatch.setattr(Tile, "bring", lazy)
    monkeypatch.setattr(Tile, "read", lambda self, box: self._values)
    assert execute(alone(ON, mac("c", CONV), ROWS)).mismatches


def test_a_halo_let_go_too_early_is_found(monkeypatch):
    honest = Buffer.release
    monkeypatch.setattr(Buffer, "release", lambda self, key, wanted: honest(self, key, np.zeros_like(wanted)))
    with pytest.raises(ExecutionError, match="v reads 6 places of u that are not on chip"):
        execute(FUSED)


def test_weights_that_are_not_yet_made_are_found():
    layers = [mac("k", "N8 K4 C4", epilogue=("transpose",)), mac("q", "N8 K8 C4", None, ("k", "weight"))]
    maps = {
        "k": tiled(ON, dram="N2", cols="K4", rows="C4", reg="N4"),
        "q": tiled(ON, dram="N2", acc="K2", cols="K4", rows="C4", reg="N4"),
    }
    assert run(schedule(ON, layers, [group("k"), group("q")], maps)).exact
    (mismatch,) = execute(schedule(ON, layers, [group("k q", "N2")], maps)).mismatches
    assert mismatch.layer == "q"


def test_outputs_are_compared_whatever_the_seed():
    assert execute(FUSED, seed=5).exact
    assert execute(FUSED, seed=5).layers == execute(FUSED, seed=6).layers


# Too little room.


def test_a_layer_fits_to_the_byte():
    peaks = {peak.memory: peak.bits / 8 for peak in run(gemm()).peaks}
    assert peaks == {"spad": 4 * 8 + 4 * 8, "acc": 4 * 4, "reg": 1}
    run(gemm(machine(spad=64, acc=16)))


@pytest.mark.parametrize(("memory", "room"), [("acc", {"acc": 15}), ("spad", {"spad": 63})])
def test_one_byte_less_overflows(memory, room):
    result = execute(gemm(machine(**room)))
    (overflow,) = result.overflows
    assert (overflow.memory, overflow.layer, overflow.capacity_bytes) == (memory, "g", room[memory])
    assert overflow.bits == 8 * (room[memory] + 1)
    assert result.exact


def test_double_buffering_halves_the_room():
    def doubled(spad):
        on = machine(spad=spad)
        nodes = (on.nodes[0], replace(on.nodes[1], double_buffered=True), *on.nodes[2:])
        return gemm(replace(on, nodes=nodes))

    assert execute(doubled(127)).overflows
    run(doubled(128))


def test_a_group_that_does_not_fit_names_its_tenants():
    result = execute(replace(FUSED, machine=machine(spad=400)))
    names = {name for overflow in result.overflows for name, _ in overflow.holders}
    assert {"u buffer", "u W", "v W"} <= names
    assert "spad needs" in str(result.overflows[0])
    assert result.exact


def test_a_fused_tensor_takes_a_tile_and_its_halo():
    held = max(bits for peak in run(FUSED).peaks for name, bits in peak.holders if name == "u buffer")
    assert held == 8 * 4 * 4 * 6


def test_sums_of_a_channel_loop_wait_while_its_producer_runs():
    layers = [mac("u", "N4 K8 C4"), mac("v", "N4 K4 C8", "u")]
    maps = {
        "u": tiled(ON, dram="K2", cols="K4", rows="C4", reg="N4"),
        "v": tiled(ON, dram="C2", cols="K4", rows="C4", reg="N4"),
    }
    result = run(schedule(ON, layers, [group("u v", "X2", "X")], maps))
    held = {(peak.layer, peak.memory): peak.bits for peak in result.peaks}
    assert held["u", "acc"] == 2 * held["v", "acc"] == 2 * 32 * 4


# Schedules that cannot run.


FLAT = [mac("u", CONV, epilogue=("flatten",)), mac("f", "K4 C192", "u")]
FLAT_MAPS = {"u": ROWS, "f": tiled(ON, acc="C48", cols="K4", rows="C4")}


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (gemm(dram="K2"), "the factors of N make 4, there are 8 to do"),
        (
            schedule(ON, PAIR, [group("u v", "P3")], dict.fromkeys("uv", ROWS)),
            "its 4 trips of P in dram are no multiple",
        ),
        (schedule(ON, PAIR, [group("v"), group("u")], dict.fromkeys("uv", ROWS)), "v runs before u, whose output"),
        (schedule(ON, FLAT, [group("u f", "P4")], FLAT_MAPS), "f needs all of u at once, so P cannot be shared"),
    ],
)
def test_a_schedule_that_cannot_be_walked_is_refused(plan, message):
    with pytest.raises(ExecutionError, match=message):
        execute(plan)


def test_a_machine_that_fuses_nothing_runs_no_groups():
    on = machine()
    apart = replace(on, nodes=(on.nodes[0], replace(on.nodes[1], fuses=False), *on.nodes[2:]))
    with pytest.raises(ExecutionError, match="v cannot read u on chip"):
        execute(replace(FUSED, machine=apart))


def test_progress_counts_up_to_all_macs():
    seen = []
    execute(FUSED, progress=lambda name, done, total: seen.append((name, done, total)))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    total = sum(layer.macs for layer in PAIR)
    assert seen[-1] == ("v", total, total)


def test_the_executor_shares_nothing_with_the_cost_model():
    allowed = {"fadiff.errors", "fadiff.hardware", "fadiff.schedule", "fadiff.workload"}
    of_a_schedule = {"Group", "Mapping", "Schedule", "Trips"}
    for path in Path(fadiff.execute.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fadiff"):
                own = node.module.startswith("fadiff.execute")
                assert own or node.module in allowed, (path.name, node.module)
                if node.module == "fadiff.schedule":
                    assert {name.name for name in node.names} <= of_a_schedule, path.name
