"""The printed loop nest: its words are the cost model's, its places the model's refills, and its loops really run."""

import json
from dataclasses import asdict
from itertools import pairwise
from math import prod

import numpy as np
import pytest

from analysis.mappings import alone
from analysis.running import Running, expected_output
from examples import FILES, FIRST_FILES, second
from fadiff.analysis.loop_nest import LoopNest, as_text, loop_nests
from fadiff.cost.evaluate import evaluate
from fadiff.schedule.file import read_schedule
from fadiff.schedule.rules import violations
from schedule.toys import CORES, GEMMINI, PLAIN, ROW_STATIONARY, add, conv, mac, regrouped, remapped, schedule


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_words_beside_the_lines_sum_to_the_models(path):
    evaluation = evaluate(read_schedule(path)[0])
    nests = loop_nests(evaluation)
    for i, layer in enumerate(evaluation.schedule.workload.layers):
        words = np.zeros(len(evaluation.flows))
        for nest in nests:
            for line in nest.of_layer(layer.name).lines:
                for number, count in line.words:
                    words[number] += count
        assert words.tolist() == evaluation.words[:, i].tolist()


@pytest.mark.parametrize("path", FIRST_FILES, ids=lambda path: path.stem)
def test_without_cut_ends_every_line_is_reached_as_often_as_it_says(path):
    for nest in loop_nests(evaluate(read_schedule(path)[0])):
        around: list[tuple[int, int]] = []
        for line in nest.lines:
            around = [(indent, trips) for indent, trips in around if indent < line.indent]
            if line.kind == "loop":
                around.append((line.indent, line.trips))
            if line.kind in ("load", "store"):
                reached = prod(trips for _, trips in around)
                assert line.times < reached if (line.kind, line.tensor) == ("load", "O") else line.times == reached


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_loops_over_a_dim_cover_it_and_those_of_one_trip_are_left_out(path):
    evaluation = evaluate(read_schedule(path)[0])
    for nest in loop_nests(evaluation):
        shared = {line.dim for line in nest.lines if line.kind == "loop" and line.node is None}
        assert all(line.trips > 1 for line in nest.lines if line.trips is not None)
        for name in nest.layers:
            layer = evaluation.schedule.workload[name]
            for dim, size in layer.dims._asdict().items() if layer.is_mac else ():
                loops = [line for line in nest.lines if line.layer == name and line.dim == dim]
                for outer, inner in pairwise(loops):
                    assert outer.step == inner.trips * inner.step
                    assert inner.last is None
                if loops and dim not in shared and "X" not in shared:
                    assert (loops[0].trips - 1) * loops[0].step + (loops[0].last or loops[0].step) == size


RUNNABLE = {
    "weights stay while rows pass": alone(
        conv("a", K=4, P=6, Q=2, R=3), GEMMINI, DRAM="P6", scratchpad="K2", cols="K2", accumulator="R3", rows="C2",
        registers="Q2",
    ),
    "a strided window slides along columns": alone(
        conv("a", P=3, Q=6, R=3, S=3, stride=(2, 2)), GEMMINI, DRAM="Q6", scratchpad="R3", cols="K2", accumulator="S3",
        rows="C2", registers="P3",
    ),
    "sums spill": alone(
        mac("a", N=4, K=4, C=4), GEMMINI, DRAM="C4 N2", scratchpad="K2", cols="K2", registers="N2"
    ),
    "groups, dilated": alone(
        mac("a", G=2, K=2, C=2, P=4, R=2, dilation=(2, 1)), GEMMINI, DRAM="G2", scratchpad="P2", cols="K2",
        accumulator="C2 R2", registers="P2",
    ),
    "every memory loops": alone(
        mac("a", N=2, K=8, C=8, P=4, Q=4), GEMMINI, DRAM="N2 Q2 C2", scratchpad="P2 K2", cols="K2", accumulator="K2 C2",
        rows="C2", registers="P2 Q2",
    ),
    "ends are cut": alone(
        mac("a", N=3, K=10, C=7, P=5, Q=3), GEMMINI, DRAM="P3 C2", scratchpad="N2", cols="K4", accumulator="N2 K3",
        rows="C4", registers="P2 Q3",
    ),
    "ends are cut inside cut ends": alone(
        mac("a", N=13, K=5, C=11), GEMMINI, DRAM="N3", scratchpad="C2 N2", cols="K5", accumulator="C2", rows="C4",
        registers="N3",
    ),
    "kernel rows on lanes": alone(
        conv("a", K=3, C=2, P=6, Q=4, R=3, S=3), ROW_STATIONARY, DRAM="K3 P2", glb="C2", rows="R3", cols="P3",
        ispad="Q4", pspad="S3",
    ),
    "cut lanes, and sums that come back": alone(
        mac("a", N=4, K=7, C=10), ROW_STATIONARY, DRAM="C3 K2", glb="N2", rows="C4", cols="K4", pspad="N2",
    ),
    "no memory fuses": alone(mac("a", N=5, K=6, C=9), PLAIN, DRAM="C2 N3", sram="K3 C2", lanes="C3 K2", sums="N2"),
}  # fmt: skip


@pytest.mark.parametrize("plan", RUNNABLE.values(), ids=RUNNABLE)
def test_the_printed_loops_compute_the_layer_and_move_what_is_printed_beside_them(plan):
    assert [broken for broken in violations(plan) if broken.rule != "fits"] == []
    evaluation = evaluate(plan)
    machine, bits = plan.machine, vars(plan.machine.bits)
    running = Running(plan, as_text(evaluation, loop_nests(evaluation)[0])).run()
    assert np.array_equal(running.output, expected_output(running))
    assert running.macs == plan.workload.layers[0].macs

    def values(tensor, memory, action, *, wide=None, **other):
        """Values that the model counts, from words of the memory."""
        node = machine.number[memory]
        width = bits[wide or tensor] / next(m.word_bits for m in machine.memories if m.name == memory)
        return sum(
            count / width
            for flow, (count,) in zip(evaluation.flows, evaluation.words, strict=True)
            if (flow.tensor, flow.memory, flow.action) == (tensor, node, action)
            and all(getattr(flow, key) == value for key, value in other.items())
        )

    for tensor in "WI":
        for outer, node in zip(machine.structure.keepers(tensor), machine.structure.keepers(tensor)[1:], strict=False):
            name, parent = machine.nodes[node].name, machine.nodes[outer].name
            assert running.written["load", tensor, name] == values(tensor, name, "write")
            assert running.read(tensor, name) == values(tensor, parent, "read", other=node)
    sums = machine.nodes[machine.structure.keepers("O")[-1]].name
    drained = values("O", sums, "read", wide="sums") - values("O", sums, "read", wide="sums", what="update")
    assert running.written["store", "O", sums] == drained
    assert running.written.get(("load", "O", sums), 0) == values("O", sums, "write", wide="sums", what="reload")


def fused_pair(machine=GEMMINI):
    """Seven rows in tiles of three: the last is cut."""
    return schedule(
        conv("u", P=7, R=3, epilogue=("relu",)), conv("v", "u", K=4, P=7), machine=machine, P=3, own={"u": {"P": 3}}
    )


PAIR = """\
group 1: u + v 3 shared iterations
u: load W DRAM -> scratchpad [K2 C2 R3] 12 B; pinned for the whole group DRAM 12 scratchpad 12
v: load W DRAM -> scratchpad [K4 C2] 8 B; pinned for the whole group DRAM 8 scratchpad 8
for p in range(3): shared, output rows
u: K2 C2 P7 Q4 R3; tiles of P3 (3 trips, last cut to 1)
load I DRAM -> scratchpad [C2 H5 V4] 40 B, 3 times; slides: 3 more rows after the first turn of a sweep; \
stays for a next iteration DRAM 72 scratchpad 72
for p3 in range(3): accumulator, output rows
for q3 in range(4): accumulator, output columns
for k3 in range(2): accumulator, output channels
for c3 in range(2): accumulator, input channels
for r3 in range(3): accumulator, kernel rows
"""


def lines_of(plan):
    evaluation = evaluate(plan)
    return [" ".join(line.split()) for line in as_text(evaluation, loop_nests(evaluation)[0]).splitlines()]


def test_a_fused_pair_reads_from_the_outside_in():
    lines = lines_of(fused_pair())
    assert lines[:11] == PAIR.splitlines()
    assert [line.split(" ")[0] for line in lines[11:]] == [
        "load", "O", "store", "v:", "I", "for", "for", "for", "for", "load", "O", "store",
    ]  # fmt: skip
    told = [line for line in lines if line.startswith("store")]
    assert told[0].startswith("store O accumulator -> scratchpad (its buffer) [K2 P3 Q4] 96 B, 3 times; after relu ")
    assert told[1].startswith("store O accumulator -> DRAM [K4 P3 Q4] 192 B, 3 times ")
    assert "I is in scratchpad (buffer of u)" in lines


def test_tiles_pass_every_memory_that_keeps_them():
    lines = lines_of(fused_pair(CORES))
    for way in ("load W DRAM -> l2", "load W l2 -> l1", "load W l1 -> reg", "load I DRAM -> l2", "load I l2 -> l1"):
        assert any(way in line for line in lines), way
    # The buffer keeps outputs itself: those that nobody outside reads stay there.
    stores = [line.split(" [")[0].removeprefix("v: ") for line in lines if "store O" in line]
    inner = "store O acc -> l1"
    assert stores == [inner, "store O l1 -> l2 (its buffer)", inner, "store O l1 -> l2", "store O l2 -> DRAM"]


def test_what_an_outsider_reads_too_leaves_for_both():
    lines = lines_of(second("gemmini_outside_read"))
    assert any("store O accumulator -> DRAM and scratchpad (its buffer)" in line for line in lines)


def test_own_trips_of_a_layer_are_told_where_they_differ_from_the_groups():
    """u has 9 rows, which its unpadded consumer cuts to 7: tiles of three make three of them, one more in time."""
    plan = schedule(conv("u", P=8), conv("v", "u", P=6, R=3, pad=(0, 0)), P=2, own={"u": {"P": 3}})
    assert [broken for broken in violations(plan) if broken.rule != "fits"] == []
    assert any(line.endswith("tiles of P3 (3 trips, last cut to 2)") for line in lines_of(plan))


def test_one_layer_of_a_group_keeps_the_shared_loops():
    nest = loop_nests(evaluate(fused_pair()))[0].of_layer("v")
    assert nest.layers == ("v",)
    assert {line.layer for line in nest.lines} == {None, "v"}
    assert [line.text for line in nest.lines if line.kind == "loop" and line.node is None] == ["for p in range(3):"]


def test_a_sum_brings_its_addends_from_where_they_are():
    plan = schedule(conv("a"), add("s", "a", None, K=2, P=4, Q=4), P=2)
    lines = {line.text: line for line in loop_nests(evaluate(plan))[0].lines if line.layer == "s"}
    load = lines["load A DRAM and scratchpad -> accumulator (network input, buffer of a)"]
    assert (load.times, load.tile_bytes) == (2, 2 * 2 * 4 * 4)
    assert (lines["O = A + A"].kind, lines["store O accumulator -> DRAM"].times) == ("compute", 2)


def test_tiles_say_how_many_instances_hold_one():
    plan = remapped(schedule(conv("a")), "a", cols={"K": 2}, accumulator={"K": 1})
    (store,) = (line for line in loop_nests(evaluate(plan))[0].lines if line.kind == "store")
    assert (store.node, store.instances, store.tile_bytes) == ("accumulator", 2, 4 * 4 * 4)


def test_the_channel_loop_is_named_after_no_layers_dim():
    plan = schedule(mac("u", N=4, K=8, C=2), mac("v", "u", N=4, K=2, C=8), loops="GNPQX", X=4)
    lines = lines_of(plan)
    assert "for x in range(4): shared, channels between the two layers" in lines
    assert any(line.startswith("u: N4 K8 C2; tiles of K2") for line in lines)
    assert any(line.startswith("v: N4 K2 C8; tiles of C2") for line in lines)


def test_a_group_without_shared_loops_says_where_its_tensors_wait():
    lines = lines_of(regrouped(schedule(conv("u"), conv("v", "u"), machine=ROW_STATIONARY)))
    assert lines[0] == "group 1: u + v one after the other, whole tensors in glb"


def test_a_nest_is_plain_data():
    nest = loop_nests(evaluate(fused_pair()))[0]
    assert isinstance(nest, LoopNest)
    assert json.loads(json.dumps(asdict(nest)))["layers"] == ["u", "v"]
