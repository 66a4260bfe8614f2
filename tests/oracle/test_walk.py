"""The cost model against the walk over every iteration: words moved, and tiles held on chip."""

import math

from hypothesis import given, settings

from fadiff.cost import evaluate
from fadiff.schedule.footprint import group_steps
from fadiff.schedule.legality import violations
from oracle import Counts, schedules, walk


def assert_the_walk_finds_the_same(schedule):
    assert violations(schedule) == []
    evaluation, found = evaluate(schedule), walk(schedule)
    traffic = evaluation.layers.traffic
    for i, layer in enumerate(schedule.workload.layers):
        modelled = Counts(**{name: values[i] for name, values in traffic._asdict().items()})
        assert modelled == found.counts[layer.name], layer.name
        for level, accesses in found.counts[layer.name].levels.items():
            assert getattr(traffic, level)[i] == accesses
    assert math.isclose(evaluation.energy_pj, found.energy_pj, rel_tol=1e-12)
    assert math.isclose(evaluation.cycles, found.cycles, rel_tol=1e-12)
    assert_tiles_are_equal(schedule, evaluation.needs, found)


def assert_tiles_are_equal(schedule, need, found):
    number = {layer.name: i for i, layer in enumerate(schedule.workload.layers)}
    for group in schedule.groups:
        for step in group_steps(schedule, group):
            i, peak = number[step.layer], found.peaks[step.layer]
            # The share of a concatenated input that comes from L3 need not be a whole number of words.
            assert math.isclose(need.kept[i], peak.kept, abs_tol=1e-9)
            assert math.isclose(need.passing[i], peak.passing, abs_tol=1e-9)
            assert need.l1_bytes[i] == step.l1_bytes == peak.l1_bytes
            assert math.ceil(need.l2_bytes[i] - 1e-9) == step.l2_bytes


@settings(max_examples=300)
@given(schedules.single_layers())
def test_a_layer_on_its_own_moves_what_the_walk_counts(schedule):
    assert_the_walk_finds_the_same(schedule)


@settings(max_examples=120)
@given(schedules.chains())
def test_a_chain_moves_what_the_walk_counts(schedule):
    assert_the_walk_finds_the_same(schedule)


@settings(max_examples=120)
@given(schedules.residuals())
def test_a_residual_moves_what_the_walk_counts(schedule):
    assert_the_walk_finds_the_same(schedule)


@settings(max_examples=150)
@given(schedules.channel_loops())
def test_a_channel_loop_moves_what_the_walk_counts(schedule):
    assert_the_walk_finds_the_same(schedule)


@settings(max_examples=100)
@given(schedules.weight_ports())
def test_activations_on_a_weight_port_move_what_the_walk_counts(schedule):
    assert_the_walk_finds_the_same(schedule)


@settings(max_examples=100)
@given(schedules.unfusible())
def test_what_cannot_be_fused_moves_what_the_walk_counts(schedule):
    assert_the_walk_finds_the_same(schedule)


@settings(max_examples=100)
@given(schedules.concatenations())
def test_a_concatenation_moves_what_the_walk_counts(schedule):
    assert_the_walk_finds_the_same(schedule)
