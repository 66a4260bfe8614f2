"""Why not: reasons as the search tells them, with needs and prices that hold when they are tried."""

import json
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest

from fadiff.analysis import why_not as why_not_module
from fadiff.analysis.why_not import why_not
from fadiff.cost import evaluate
from fadiff.hardware import load_machine
from fadiff.schedule.rules import violations
from fadiff.search import greedy
from fadiff.search.explain import merging
from fadiff.search.explain.climbs import remapped
from fadiff.search.explain.reasons import LEFT_OUT, verdicts
from search.networks import EYERISS, GEMMINI, NETWORKS, PLAIN, SIMBA, add, mac, machine_with, network, sized

CASES = [*((name, GEMMINI) for name in NETWORKS), ("residual", EYERISS), ("attention", SIMBA), ("residual", PLAIN)]
IDS = [f"{name}-{machine.name}" for name, machine in CASES]


@cache
def priced(name, machine):
    """A network of layers on their own, and what the search says about every two of them."""
    evaluation = evaluate(greedy(NETWORKS[name], machine))
    return evaluation, verdicts(evaluation, "edp")


def entries(workload, machine=GEMMINI):
    return {(one.source, one.target): one for one in why_not(evaluate(greedy(workload, machine)))}


@pytest.fixture
def told(monkeypatch, name, machine):
    """The evaluation, the search's verdicts and the entries made of them."""
    evaluation, known = priced(name, machine)
    monkeypatch.setattr(why_not_module, "verdicts", lambda *_, **__: known)
    return evaluation, known, {(one.source, one.target): one for one in why_not(evaluation)}


@pytest.mark.parametrize(("name", "machine"), CASES, ids=IDS)
def test_every_edge_through_dram_has_the_reason_that_the_search_tells(told):
    evaluation, known, found = told
    schedule = evaluation.schedule
    assert list(found) == [(edge.source, edge.target) for edge in schedule.workload.edges]
    for one in found.values():
        verdict = known[schedule.group_of[one.source], schedule.group_of[one.target]]
        assert (one.cause, one.detail, one.missing_bytes) == verdict[:3]
        assert one.bytes == schedule.workload[one.source].stored_words
        assert one.sentence
        assert (one.edp_change is None) == (one.merged is None)
    assert json.dumps([asdict(one) for one in found.values()], allow_nan=False)


def whole(evaluation, pair, merged):
    """The whole network with two groups in one, priced and legal."""
    old = evaluation.schedule
    groups = [merged.groups[0] if group == pair[1] else group for group in old.groups if group != pair[0]]
    schedule = replace(old, groups=tuple(groups), mappings={**old.mappings, **merged.mappings})
    assert violations(schedule) == []
    return evaluate(schedule)


@pytest.mark.parametrize(("name", "machine"), CASES[1:-1], ids=IDS[1:-1])
def test_prices_are_those_of_the_merged_schedule(told, machine):
    evaluation, known, found = told
    moved = evaluation.memory_words(0)
    merging = {pair: verdict for pair, verdict in known.items() if verdict.merger is not None}
    assert merging
    for pair, verdict in merging.items():
        after = whole(evaluation, pair, verdict.merger.together.schedule)
        assert verdict.merger.changed(evaluation) == pytest.approx((after.energy_pj, after.cycles), rel=1e-12)
        one = found[pair[0].layers[-1], pair[1].layers[0]]
        merged = one.merged
        assert merged.layers == pair[0].layers + pair[1].layers
        assert after.schedule.group_of[one.source] == after.schedule.group_of[one.target]
        assert one.edp_change == pytest.approx(after.edp_uj_cycles / evaluation.edp_uj_cycles - 1, abs=1e-12)
        assert merged.saved_activation_bytes - merged.refetched_weight_bytes == moved - after.memory_words(0)
        assert (1 + merged.energy_change) * (1 + merged.cycles_change) == pytest.approx(1 + one.edp_change)
        for memory in machine.memories[1:]:
            assert 0 <= merged.peak_bytes[memory.name] <= memory.usable_bytes
        assert (one.edp_change < 0) == (verdict.cause == "not searched")


NORMED = network(mac("a", "K8 C2 P4 Q4", epilogue=("layer_norm",)), mac("b", "K2 C8 P4 Q4", "a"))


def test_the_memory_that_is_missing_is_just_enough():
    found = entries(NORMED, sized(GEMMINI, scratchpad=6))
    one = found["a", "b"]
    assert (one.cause, one.missing_bytes) == ("capacity", 2)
    assert one.sentence.startswith("needs 2 B more scratchpad: ")
    assert one.merged is None
    almost = entries(NORMED, sized(GEMMINI, scratchpad=7))
    assert almost["a", "b"].missing_bytes == 1
    enough = entries(NORMED, sized(GEMMINI, scratchpad=6 + 2))
    assert enough["a", "b"].missing_bytes is None


def test_tensors_are_told_in_bytes_whatever_a_value_is():
    found = entries(NORMED, machine_with(GEMMINI, bits=replace(GEMMINI.bits, O=12)))
    assert found["a", "b"].bytes == 8 * 16 * 1.5


def test_weights_that_do_not_fit_are_refetched_until_they_do():
    """24 bytes of weights and the smallest buffer, 8 channels of one value, want 32."""
    workload = network(mac("a", "K8 C2 P4 Q4"), mac("b", "K1 C8 P4 Q4", "a"))
    found = entries(workload, sized(GEMMINI, scratchpad=20))
    assert found["a", "b"].pinning_missing_bytes == 8 * 2 + 8 + 8 - 20
    roomy = entries(workload)
    assert roomy["a", "b"].pinning_missing_bytes == 0
    assert roomy["a", "b"].merged.refetched_weight_bytes <= 0


@pytest.mark.parametrize("name", ["eyeriss", "simba", "tpu-v1"])
def test_weights_with_a_home_of_their_own_do_not_crowd_the_buffers(name):
    found = entries(NORMED, load_machine(name))
    assert found["a", "b"].pinning_missing_bytes is None
    assert found["a", "b"].merged is not None


def test_what_no_memory_would_change_has_no_need():
    workload = network(mac("a", "N4 K4 C2", repeat=2), mac("b", "N4 K4 C4", "a", repeat=6))
    found = entries(workload)
    one = found["a", "b"]
    assert (one.cause, one.pinning_missing_bytes, one.missing_bytes, one.merged) == ("repeat", None, None, None)
    assert one.sentence == "their layers repeat 2 and 6 times"


WIDE = network(mac("a", "K16 C16 P8 Q8"), mac("b", "K16 C16 P8 Q8", "a"))


def mapped_alone(scratchpad_bytes):
    """Good mappings of both layers on their own: each one's 256 weights stay on chip, and its input streams."""
    machine = sized(GEMMINI, scratchpad=scratchpad_bytes, rows=2, cols=2)
    return remapped(evaluate(greedy(WIDE, machine)), machine)


def test_weights_of_layers_that_run_once_may_pass():
    """Nothing is tiled, so each weight is used once: of 160 bytes none has to stay beside the buffer of 8."""
    found = entries(network(mac("a", "K8 C16"), mac("b", "K4 C8", "a")), sized(GEMMINI, scratchpad=20))
    assert found["a", "b"].pinning_missing_bytes == 0


@pytest.mark.parametrize(("scratchpad_bytes", "most"), [(150, 0.55), (400, 0.15), (700, -0.3), (1500, -0.35)])
def test_merged_groups_are_mapped_for_the_room_that_buffers_leave(scratchpad_bytes, most):
    """What fusion costs at most: found by mapping layers for less than the whole scratchpad, too."""
    (one,) = why_not(mapped_alone(scratchpad_bytes))
    assert one.edp_change <= most


def test_merged_groups_start_from_weights_that_stay():
    """Three convolutions fuse best with the weights of two of them on chip."""
    kernels = "K8 C8 P8 Q8 R3 S3"
    workload = network(mac("a", kernels), mac("b", kernels, "a"), mac("c", kernels, "b"))
    machine = sized(GEMMINI, scratchpad=1500, rows=2, cols=2)
    found = why_not(remapped(evaluate(greedy(workload, machine)), machine))
    assert all(one.edp_change < -0.14 for one in found)


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
    (short,) = why_not(mapped_alone(400), priced=False)
    some_room_for_inputs = 64
    evaluation = mapped_alone(400 + short.pinning_missing_bytes + some_room_for_inputs)
    (enough,) = why_not(evaluation, priced=False)
    assert enough.pinning_missing_bytes == 0
    ((_, _, _, merger, _),) = verdicts(evaluation, "edp").values()
    merged = merger.together
    from_dram = [flow.tensor == "W" and flow.memory == 0 for flow in merged.flows]
    assert np.sum(merged.words[from_dram], axis=0).tolist() == [256, 256]


def test_without_prices_nothing_is_tried():
    (one,) = why_not(mapped_alone(400), priced=False)
    assert (one.cause, one.merged, one.edp_change) == ("not searched", None, None)


BLOCK = "K8 C8 P4 Q4 R3 S3"
TWINS = network(
    mac("a", BLOCK), mac("b", BLOCK, "a"), add("s", "K8 P4 Q4", "b", "a"),
    mac("c", BLOCK, "s"), mac("d", BLOCK, "c"), add("t", "K8 P4 Q4", "d", "s"),
    mac("e", BLOCK, "t"), mac("f", BLOCK, "e"), add("u", "K8 P4 Q4", "f", "t"),
)  # fmt: skip


def test_pairs_that_differ_in_names_alone_are_told_alike_and_named_right():
    found = why_not(evaluate(greedy(TWINS, GEMMINI)))
    edges = [(one.source, one.target) for one in found]
    like = dict(zip(edges, [edges[one.alike] for one in found], strict=True))
    assert like["e", "f"] == ("c", "d")
    assert like["d", "t"] == ("b", "s")
    assert like["c", "d"] == ("c", "d") != like["a", "b"]  # a reads the network's input
    by_edge = dict(zip(edges, found, strict=True))
    first, second = by_edge["c", "d"], by_edge["e", "f"]
    assert second.merged == replace(first.merged, layers=("e", "f"))
    assert (second.sentence, second.edp_change) == (first.sentence, first.edp_change)
    assert by_edge["t", "u"].sentence.startswith("e, f must run")


def test_of_more_pairs_than_there_is_time_for_the_largest_tensors_are_priced(monkeypatch):
    small = "K8 C8 P4 Q4"
    workload = network(
        mac("a", small), mac("b", small, "a"), mac("c", "K2 C8 P4 Q4", "b"), mac("d", "K2 C2 P4 Q4", "c")
    )
    evaluation = evaluate(greedy(workload, GEMMINI))
    assert all(one.merged is not None for one in why_not(evaluation))
    monkeypatch.setattr(merging, "MOST_MOVES", 1)
    first, *others = why_not(evaluation)
    assert first.merged is not None
    for one in others:
        assert one.bytes <= first.bytes
        assert (one.cause, one.merged, one.detail) == ("not searched", None, LEFT_OUT.detail)


def test_a_sentence_lists_a_few_of_many_layers_and_cuts_their_names():
    long = "n" * 20000
    middle = [mac(f"{long}{i}", "N4 K4 C4", f"{long}{i - 1}" if i else "a") for i in range(9)]
    workload = network(mac("a", "N4 K4 C4"), *middle, add("s", "N4 K4", f"{long}8", "a"))
    found = entries(workload)
    assert "and 6 more must run between them" in found["a", "s"].sentence
    assert len(found["a", "s"].sentence) < 300


def test_it_is_the_same_every_time():
    assert why_not(mapped_alone(400)) == why_not(mapped_alone(400))
