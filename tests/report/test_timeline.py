"""The timeline: no gaps, cycles of the model, and L2 split into parts that sum to what legality compares."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from execute.builders import group, mac, schedule, tiled
from fadiff.cost import evaluate, load_schedule
from fadiff.report.timeline import timeline
from fadiff.schedule.footprint import group_steps
from oracle import schedules

DATA = Path(__file__).parents[1] / "data" / "schedules"
FILES = sorted([*DATA.glob("*.json"), *(DATA / "small").glob("*.json")])


def assert_times_and_bytes_agree(evaluation):
    times = timeline(evaluation)
    now = 0.0
    for number, one in enumerate(times.groups):
        assert (one.group, one.layers) == (number, evaluation.schedule.groups[number].layers)
        assert one.start_cycles == pytest.approx(now)
        steps = group_steps(evaluation.schedule, evaluation.schedule.groups[number])
        for span, step in zip(one.spans, steps, strict=True):
            assert span.layer == step.layer
            assert span.start_cycles == pytest.approx(now)
            now += span.cycles
            assert sum(part.bytes for part in span.l2_parts) == span.l2_bytes == step.l2_bytes
            assert span.l1_bytes == step.l1_bytes
            assert all(part.bytes > 0 for part in span.l2_parts)
        assert one.cycles == pytest.approx(sum(span.cycles for span in one.spans))
        assert one.peak_l2_bytes == max(step.l2_bytes for step in steps)
    assert now == pytest.approx(times.cycles) == pytest.approx(evaluation.cycles)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_groups_follow_each_other_and_parts_sum_to_the_rule(path):
    evaluation = evaluate(load_schedule(path))
    assert_times_and_bytes_agree(evaluation)
    assert json.dumps(asdict(timeline(evaluation)))


@settings(max_examples=40)
@given(schedules.chains())
def test_chains_agree(plan):
    assert_times_and_bytes_agree(evaluate(plan))


@settings(max_examples=30)
@given(schedules.channel_loops())
def test_channel_loops_agree(plan):
    assert_times_and_bytes_agree(evaluate(plan))


@settings(max_examples=30)
@given(schedules.concatenations())
def test_concatenations_agree(plan):
    assert_times_and_bytes_agree(evaluate(plan))


def padded_pair():
    layers = [mac("u", "K4 C2 P8"), mac("v", "K2 C4 P8 R3", "u", repeat=1)]
    mappings = {"u": tiled("C2 K4", "P2", "", "", "P4"), "v": tiled("C4 K2", "P2", "R3", "", "P4", o1="R")}
    return schedule(layers, [group("u v", "P4")], mappings)


def test_weights_are_pinned_and_halos_stand_apart_from_their_tile():
    u, v = timeline(evaluate(padded_pair())).groups[0].spans
    parts = {(part.kind, part.layer): part.bytes for part in v.l2_parts}
    # Two of eight rows are u's tile, of four channels; v's kernel of three rows keeps two more.
    assert parts == {("pinned weights", "u"): 8, ("pinned weights", "v"): 24, ("buffer", "u"): 8, ("halo", "u"): 8}
    assert {part.kind for part in u.l2_parts} == {"pinned weights", "input tile", "buffer", "halo"}


def test_repeats_make_a_layer_longer():
    layers = [mac("a", "K2 C2 P4", repeat=3)]
    evaluation = evaluate(schedule(layers, [group("a")], {"a": tiled("C2 K2", "P4")}))
    (span,) = timeline(evaluation).groups[0].spans
    assert span.cycles == 3 * float(np.asarray(evaluation.layers.cycles.total)[0])
    assert max(span.cycles_by_term.values()) == span.cycles
