"""Why not: reasons as the search tells them, with needs and prices that hold when they are tried."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from fadiff.next.analysis.why_not import why_not
from fadiff.next.cost import evaluate
from fadiff.next.hardware import load_machine
from fadiff.next.search import greedy
from fadiff.next.search.explain.reasons import verdicts
from fadiff.next.search.explain.remap import remapped
from next.search.networks import EYERISS, GEMMINI, NETWORKS, PLAIN, SIMBA, machine_with, mac, network, sized

CASES = [*((name, GEMMINI) for name in NETWORKS), ("residual", EYERISS), ("attention", SIMBA), ("residual", PLAIN)]
each_case = pytest.mark.parametrize(("name", "machine"), CASES, ids=[f"{name}-{m.name}" for name, m in CASES])


def entries(workload, machine=GEMMINI):
    evaluation = evaluate(greedy(workload, machine))
    return evaluation, {(one.source, one.target): one for one in why_not(evaluation)}


@each_case
def test_every_edge_through_dram_has_the_reason_that_the_search_tells(name, machine):
    evaluation, found = entries(NETWORKS[name], machine)
    schedule = evaluation.schedule
    assert list(found) == [(edge.source, edge.target) for edge in schedule.workload.edges]
    known = verdicts(evaluation, "edp")
    for one in found.values():
        verdict = known[schedule.group_of[one.source], schedule.group_of[one.target]]
        assert (one.cause, one.detail, one.missing_bytes) == verdict[:3]
        assert one.bytes == schedule.workload[one.source].stored_words
        assert one.sentence
        assert (one.edp_change is None) == (one.merged is None)
    assert json.dumps([asdict(one) for one in found.values()], allow_nan=False)


@pytest.mark.parametrize("machine", [GEMMINI, EYERISS], ids=lambda machine: machine.name)
@pytest.mark.parametrize("name", ["residual", "feed_forward"])
def test_prices_are_those_of_the_merged_schedule(name, machine):
    evaluation, found = entries(NETWORKS[name], machine)
    moved = evaluation.memory_words(0)
    priced = 0
    for pair, verdict in verdicts(evaluation, "edp").items():
        after = verdict.merged
        if after is None:
            continue
        priced += 1
        one = found[pair[0].layers[-1], pair[1].layers[0]]
        merged = one.merged
        assert merged.layers == pair[0].layers + pair[1].layers
        assert after.schedule.group_of[one.source] == after.schedule.group_of[one.target]
        assert one.edp_change == after.edp_uj_cycles / evaluation.edp_uj_cycles - 1
        assert merged.saved_activation_bytes - merged.refetched_weight_bytes == moved - after.memory_words(0)
        assert (1 + merged.energy_change) * (1 + merged.cycles_change) == pytest.approx(1 + one.edp_change)
        for memory in machine.memories[1:]:
            assert 0 <= merged.peak_bytes[memory.name] <= memory.usable_bytes
        assert (one.edp_change < 0) == (verdict.cause == "not searched")
    assert priced


NORMED = network(mac("a", "K8 C2 P4 Q4", epilogue=("layer_norm",)), mac("b", "K2 C8 P4 Q4", "a"))


def test_the_memory_that_is_missing_is_just_enough():
    _, found = entries(NORMED, sized(GEMMINI, scratchpad=6))
    one = found["a", "b"]
    assert (one.cause, one.missing_bytes) == ("capacity", 2)
    assert one.sentence.startswith("needs 2 B more scratchpad: ")
    assert one.merged is None
    _, almost = entries(NORMED, sized(GEMMINI, scratchpad=7))
    assert almost["a", "b"].missing_bytes == 1
    _, enough = entries(NORMED, sized(GEMMINI, scratchpad=6 + 2))
    assert enough["a", "b"].missing_bytes is None


def test_tensors_are_told_in_bytes_whatever_a_value_is():
    _, found = entries(NORMED, machine_with(GEMMINI, bits=replace(GEMMINI.bits, O=12)))
    assert found["a", "b"].bytes == 8 * 16 * 1.5


def test_weights_that_do_not_fit_are_refetched_until_they_do():
    """24 bytes of weights and the smallest buffer, 8 channels of one value, want 32."""
    workload = network(mac("a", "K8 C2 P4 Q4"), mac("b", "K1 C8 P4 Q4", "a"))
    _, found = entries(workload, sized(GEMMINI, scratchpad=20))
    assert found["a", "b"].pinning_missing_bytes == 8 * 2 + 8 + 8 - 20
    _, roomy = entries(workload)
    assert roomy["a", "b"].pinning_missing_bytes == 0
    assert roomy["a", "b"].merged.refetched_weight_bytes <= 0


@pytest.mark.parametrize("name", ["eyeriss", "simba", "tpu-v1"])
def test_weights_with_a_home_of_their_own_do_not_crowd_the_buffers(name):
    _, found = entries(NORMED, load_machine(name))
    assert found["a", "b"].pinning_missing_bytes is None
    assert found["a", "b"].merged is not None


def test_what_no_memory_would_change_has_no_need():
    workload = network(mac("a", "N4 K4 C2", repeat=2), mac("b", "N4 K4 C4", "a", repeat=6))
    _, found = entries(workload)
    one = found["a", "b"]
    assert (one.cause, one.pinning_missing_bytes, one.missing_bytes, one.merged) == ("repeat", None, None, None)
    assert one.sentence == "their layers repeat 2 and 6 times"


WIDE = network(mac("a", "K16 C16 P8 Q8"), mac("b", "K16 C16 P8 Q8", "a"))


def mapped_alone(scratchpad_bytes):
    """Good mappings of both layers on their own: each one's 256 weights stay on chip, and its input streams."""
    machine = sized(GEMMINI, scratchpad=scratchpad_bytes, rows=2, cols=2)
    return remapped(evaluate(greedy(WIDE, machine)), machine)


def test_sentences_say_what_is_saved_and_what_it_costs():
    (one,) = why_not(mapped_alone(400))
    assert one.cause == "no gain"
    assert one.merged.saved_activation_bytes > 0
    assert one.merged.refetched_weight_bytes > 0
    assert one.sentence.startswith("would save ")
    assert " of activations but refetch " in one.sentence
    assert f"EDP +{one.edp_change:.1%}" in one.sentence
    assert one.sentence.endswith(" more scratchpad every weight would be fetched once")


def test_with_the_memory_that_pinning_needs_every_weight_is_fetched_once():
    (short,) = why_not(mapped_alone(400))
    some_room_for_inputs = 64
    evaluation = mapped_alone(400 + short.pinning_missing_bytes + some_room_for_inputs)
    (enough,) = why_not(evaluation)
    assert enough.pinning_missing_bytes == 0
    ((_, _, _, merged),) = verdicts(evaluation, "edp").values()
    from_dram = [flow.tensor == "W" and flow.memory == 0 for flow in merged.flows]
    assert np.sum(merged.words[from_dram], axis=0).tolist() == [256, 256]


def test_without_prices_nothing_is_tried():
    (one,) = why_not(mapped_alone(400), priced=False)
    assert (one.cause, one.merged, one.edp_change) == ("not searched", None, None)


def test_it_is_the_same_every_time():
    evaluation, _ = entries(NETWORKS["residual"])
    assert why_not(evaluation) == why_not(evaluation)
