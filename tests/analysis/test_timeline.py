"""The timeline: no gaps, cycles of the model, and every memory split into parts that sum to what the rule compares."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from examples import FILES, second
from fadiff.analysis.timeline import timeline
from fadiff.cost.evaluate import evaluate
from fadiff.hardware import pack_machine
from fadiff.schedule.capacity import needs
from fadiff.schedule.file import read_schedule
from fadiff.schedule.rules import Examined
from schedule.toys import CORES, FUSING, PLAIN, conv, mac, schedule

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@each_file
def test_groups_follow_each_other_and_parts_sum_to_the_rule(path):
    evaluation = evaluate(read_schedule(path)[0])
    examined = Examined(evaluation.schedule)
    machine = evaluation.schedule.machine
    total = needs(examined.nest, examined.placement, pack_machine(machine)).total
    times = timeline(evaluation)
    now = 0.0
    for number, group in enumerate(times.groups):
        assert (group.group, group.layers) == (number, evaluation.schedule.groups[number].layers)
        assert group.start_cycles == pytest.approx(now)
        for span in group.spans:
            assert span.start_cycles == pytest.approx(now)
            now += span.cycles
            for memory, held in total.items():
                name = machine.nodes[memory].name
                assert span.bytes[name] == np.asarray(held)[examined.number[span.layer]]
                assert sum(part.bytes for part in span.held[name]) == pytest.approx(span.bytes[name])
                assert all(part.bytes > 0 for part in span.held[name])
                assert group.peak_bytes[name] >= span.bytes[name]
        assert group.cycles == pytest.approx(sum(span.cycles for span in group.spans))
    assert now == pytest.approx(times.cycles) == pytest.approx(evaluation.cycles)
    assert json.dumps(asdict(times), allow_nan=False)


def held(span, memory):
    return {(part.kind, part.tensor, part.layer): part.bytes for part in span.held[memory]}


def test_weights_are_pinned_and_halos_stand_apart_from_their_tile():
    given = schedule(conv("u", P=8), conv("v", "u", P=8, R=3), P=4)
    u, v = timeline(evaluate(given)).groups[0].spans
    # Two of eight rows are u's tile, of two channels and four columns; v's kernel of three rows keeps two more.
    assert held(v, "scratchpad") == {
        ("kept", "W", "u"): 4, ("kept", "W", "v"): 12, ("buffer", "O", "u"): 16, ("halo", "O", "u"): 16
    }  # fmt: skip
    assert held(v, "accumulator") == {("tile", "O", "v"): 2 * 2 * 4 * 4}
    assert {part.kind for part in u.held["scratchpad"]} == {"kept", "tile", "buffer", "halo"}


def test_sums_of_a_channel_loop_wait_while_its_producer_runs():
    given = schedule(mac("u", N=4, K=8, C=2), mac("v", "u", N=4, K=2, C=8), loops="GNPQX", X=4)
    u, v = timeline(evaluate(given)).groups[0].spans
    assert held(u, "accumulator")["waiting", "O", "v"] == held(v, "accumulator")["tile", "O", "v"]


@pytest.mark.parametrize("machine", FUSING, ids=lambda machine: machine.name)
def test_the_memory_that_fuses_is_shown_first(machine):
    fusing = machine.fused_in()
    assert timeline(evaluate(schedule(conv("u"), conv("v", "u"), machine=machine))).shown == fusing.name


def test_without_one_the_first_memory_on_chip_is():
    assert timeline(evaluate(schedule(conv("u"), machine=PLAIN))).shown == "sram"


def test_repeats_make_a_layer_longer():
    evaluation = evaluate(schedule(conv("a", repeat=3), machine=CORES))
    (span,) = timeline(evaluation).groups[0].spans
    assert span.cycles == 3 * evaluation.layer_cycles[0]


def test_what_a_tile_takes_is_told_where_it_is():
    (span,) = timeline(evaluate(second("eyeriss_conv"))).groups[0].spans
    assert {memory: {part.tensor for part in parts} for memory, parts in span.held.items()} == {
        "glb": {"I", "O"}, "ispad": {"I"}, "wspad": {"W"}, "pspad": {"O"}
    }  # fmt: skip
