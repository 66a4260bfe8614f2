"""Why not: reasons as the search tells them, with needs and prices that hold when they are tried."""

import json
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.report.why_not import why_not
from fadiff.search.driver import Settings, search
from fadiff.search.greedy import greedy
from fadiff.search.joint import JointOptions, joint
from fadiff.search.reasons import boundaries, verdicts
from search.networks import MACHINE, NETWORKS, mac, machine, network
from search.rows import use_few_programs


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    with pytest.MonkeyPatch.context() as patch:
        use_few_programs(patch)
        yield


def entries(workload, hardware=MACHINE, groups=None, objective="edp"):
    schedule = greedy(workload, hardware)
    evaluation = evaluate(schedule if groups is None else replace(schedule, groups=groups))
    return evaluation, {(one.source, one.target): one for one in why_not(evaluation, objective)}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_edge_through_dram_has_the_reason_that_the_search_tells(name):
    evaluation, found = entries(NETWORKS[name])
    told = boundaries(evaluation, "edp")
    assert [(one.source, one.target, one.cause, one.detail) for one in found.values()] == [tuple(one) for one in told]
    for one in found.values():
        assert one.words == evaluation.schedule.workload[one.source].stored_words
        assert one.sentence
    assert json.dumps([asdict(one) for one in found.values()], allow_nan=False)


@pytest.mark.parametrize("name", ["residual", "separable", "feed_forward"])
def test_prices_are_those_of_the_merged_schedule(name):
    evaluation, found = entries(NETWORKS[name])
    for pair, verdict in verdicts(evaluation, "edp").items():
        after = verdict.merged
        if after is None:
            continue
        edge = next(
            (one.source, one.target)
            for one in evaluation.schedule.workload.edges
            if one.source in pair[0].layers and one.target in pair[1].layers
        )
        merged = found[edge].merged
        assert merged.layers == pair[0].layers + pair[1].layers
        assert merged.edp_change == after.edp_uj_cycles / evaluation.edp_uj_cycles - 1
        assert merged.saved_activation_words - merged.refetched_weight_words == evaluation.l3_words - after.l3_words
        weights = [np.sum(np.asarray(one.layers.traffic.l3_weight) * one.repeat) for one in (evaluation, after)]
        assert merged.refetched_weight_words == weights[1] - weights[0]
        assert merged.peak_l2_bytes <= evaluation.schedule.hardware.usable_l2_bytes
        assert (merged.edp_change < 0) == (verdict.cause == "not searched")


def test_the_l2_that_is_missing_is_just_enough():
    workload = network(mac("a", "K8 C2 P4 Q4", epilogue=("layer_norm",)), mac("b", "K2 C8 P4 Q4", "a"))
    _, found = entries(workload, machine(l2_bytes=6))
    one = found["a", "b"]
    assert (one.cause, one.needs_l2_bytes) == ("capacity", 2)
    assert one.sentence.startswith("needs 2 B more L2: ")
    assert one.merged is None
    _, almost = entries(workload, machine(l2_bytes=7))
    assert almost["a", "b"].needs_l2_bytes == 1
    _, enough = entries(workload, machine(l2_bytes=6 + 2))
    assert enough["a", "b"].needs_l2_bytes is None


def test_weights_that_do_not_fit_are_refetched_until_they_do():
    """24 words of weights and the smallest buffer of two rows, 8 channels each, want 40 bytes."""
    workload = network(mac("a", "K8 C2 P4 Q4"), mac("b", "K1 C8 P4 Q4", "a"))
    weights, smallest = 8 * 2 + 8, 8
    _, found = entries(workload, machine(l2_bytes=20))
    assert found["a", "b"].pinning_needs_l2_bytes == weights + smallest - 20
    _, roomy = entries(workload, machine(l2_bytes=1024))
    assert roomy["a", "b"].pinning_needs_l2_bytes == 0
    assert roomy["a", "b"].merged.refetched_weight_words <= 0


def test_what_no_memory_would_change_has_no_need():
    workload = network(mac("a", "N4 K4 C2", repeat=2), mac("b", "N4 K4 C4", "a", repeat=6))
    _, found = entries(workload)
    one = found["a", "b"]
    assert (one.cause, one.pinning_needs_l2_bytes, one.needs_l2_bytes, one.merged) == ("repeat", None, None, None)
    assert one.sentence == "their layers repeat 2 and 6 times"


WIDE = network(mac("a", "K16 C16 P8 Q8"), mac("b", "K16 C16 P8 Q8", "a"))


def best_alone(l2_bytes):
    """The best mappings of both layers on their own: each one's 256 weights stay in L2, and its input streams."""
    hardware = machine(l2_bytes=l2_bytes, rows=2, cols=2)
    options = JointOptions(descent=None, fuse=False, polish=False)
    return search(WIDE, hardware, partial(joint, options=options), Settings()).best


def test_sentences_say_what_is_saved_and_what_it_costs():
    (one,) = why_not(best_alone(400))
    assert one.cause == "no gain"
    assert one.merged.saved_activation_words > 0
    assert one.merged.refetched_weight_words > 0
    assert one.sentence.startswith("would save ")
    assert " of activations but refetch " in one.sentence
    assert f"EDP +{one.merged.edp_change:.1%}" in one.sentence
    assert one.sentence.endswith(" more L2 every weight would be fetched once")


def test_with_the_l2_that_pinning_needs_every_weight_is_fetched_once():
    (short,) = why_not(best_alone(400))
    some_room_for_inputs = 16
    evaluation = best_alone(400 + short.pinning_needs_l2_bytes + some_room_for_inputs)
    (enough,) = why_not(evaluation)
    assert enough.pinning_needs_l2_bytes == 0
    (verdict,) = verdicts(evaluation, "edp").values()
    assert np.asarray(verdict.merged.layers.traffic.l3_weight).tolist() == [256, 256]


def test_branches_that_only_stand_between_are_told_so():
    """Nothing forces c between a and b; but groups are runs of neighbours."""
    workload = network(
        mac("a", "N4 K4 C2"), mac("c", "N4 K4 C2"), mac("b", "N4 K4 C4", "a"), mac("d", "N4 K2 C8", "b", "c")
    )
    _, found = entries(workload)
    assert found["a", "b"].detail == "c runs between them, and only neighbours are fused"


def test_it_is_the_same_every_time():
    evaluation, _ = entries(NETWORKS["residual"])
    assert why_not(evaluation) == why_not(evaluation)
