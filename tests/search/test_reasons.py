"""Why a tensor goes through DRAM: each cause on a network made for it."""

from dataclasses import replace
from functools import partial

import pytest

from fadiff.cost import evaluate
from fadiff.search.driver import Settings, search
from fadiff.search.greedy import greedy
from fadiff.search.joint import JointOptions, joint
from fadiff.search.reasons import boundaries
from search.networks import MACHINE, NETWORKS, group, mac, machine, network


def reasons(workload, hardware=MACHINE, groups=None, objective="edp", **rest):
    """Cause and detail by edge, of layers that run alone or in the groups given."""
    schedule = greedy(workload, hardware)
    evaluation = evaluate(schedule if groups is None else replace(schedule, groups=groups))
    found = boundaries(evaluation, objective, **rest)
    return {f"{one.source} {one.target}": (one.cause, one.detail) for one in found}


def test_capacity_where_no_trip_counts_make_the_buffers_fit():
    workload = network(mac("a", "K8 C2 P4 Q4", epilogue=("layer_norm",)), mac("b", "K2 C8 P4 Q4", "a"))
    cause, detail = reasons(workload, machine(l2_bytes=6))["a b"]
    assert cause == "capacity"
    assert detail == "its buffers need 8 bytes of L2 at least, 6 are there"


def test_alignment_where_sizes_have_no_common_divisor():
    workload = network(mac("a", "K8 C2 P5"), mac("b", "K2 C8 P3 R3", "a"))
    cause, detail = reasons(workload, machine(l2_bytes=39))["a b"]
    assert cause == "alignment"
    assert detail == "it cannot be tiled, and its buffers need 40 bytes of L2 at least, 39 are there"


FLATTENED = network(mac("a", "K4 C2 P4 Q4", epilogue=("flatten",)), mac("b", "K2 C64", "a"))
POOLED = network(mac("a", "K4 C2 P4 Q4"), mac("b", "K4 C4 P4 Q4 R3 S3", "a", epilogue=("global_pool",), out=(1, 1)))


@pytest.mark.parametrize("workload", [FLATTENED, POOLED], ids=["flatten", "global_pool"])
def test_whole_tensor_where_an_operator_needs_all_of_it(workload):
    cause, detail = reasons(workload, machine(l2_bytes=63))["a b"]
    assert cause == "whole tensor"
    assert detail == "it cannot be tiled, and its buffers need 64 bytes of L2 at least, 63 are there"


def test_whole_tensor_where_keys_must_be_complete():
    workload = network(mac("k", "N8 K4 C2", epilogue=("transpose",)), mac("qk", "N4 K8 C4", None, ("k", "weight")))
    assert reasons(workload, machine(l2_bytes=31))["k qk"][0] == "whole tensor"
    assert reasons(workload, machine(l2_bytes=1024))["k qk"][0] not in ("whole tensor", "capacity")


def test_a_buffer_that_fits_in_parts_is_not_too_large():
    """Transposed, the tensor cannot be cut along its rows, but a channel loop may cut its channels."""
    workload = network(mac("a", "N4 K8 C2", epilogue=("transpose",)), mac("b", "N4 K2 C8", "a"))
    assert reasons(workload, machine(l2_bytes=24))["a b"][0] in ("no gain", "not searched")


def test_one_sink_where_a_layer_would_lead_nowhere():
    workload = network(mac("a", "N4 K4 C2"), mac("b", "N4 K4 C4", "a"), mac("c", "N4 K2 C4", "a"))
    found = reasons(workload, groups=(group("a b"), group("c")))
    assert found == {"a c": ("one sink", "b would not lead to c inside the group")}


def test_repeat_where_layers_run_different_numbers_of_times():
    workload = network(mac("a", "N4 K4 C2", repeat=2), mac("b", "N4 K4 C4", "a", repeat=6))
    assert reasons(workload) == {"a b": ("repeat", "their layers repeat 2 and 6 times")}


PART_OF_A_SHORTCUT = network(
    mac("a", "K4 C2 P4 Q4"),
    mac("b", "K4 C4 P4 Q4", "a"),
    mac("c", "K4 C7 P4 Q4", "b", ("a", "input", False)),
    mac("d", "K4 C4 P4 Q4", "c"),
)


def test_not_fusible_where_the_network_says_so():
    found = reasons(PART_OF_A_SHORTCUT, groups=(group("a"), group("b c"), group("d")))
    assert found["a c"] == ("not fusible", "c cannot read a on chip: the network says so")
    # To merge the two groups would take the other tensor along.
    assert found["a b"] == found["a c"]
    assert found["c d"][0] in ("no gain", "not searched")


def test_order_where_other_layers_must_run_between():
    found = reasons(NETWORKS["residual"], groups=(group("a"), group("b"), group("s c")))
    assert found["a s"] == ("order", "b must run between them")


def test_no_gain_where_fusion_would_cost_more():
    workload = network(mac("a", "G4 P4 Q2 R3"), mac("b", "K4 C4 P4 Q2", "a"), mac("c", "G4 P4 Q2 R3", "b"))
    hardware = machine(rows=2, cols=2, l1_bytes=32, l2_bytes=24)
    best = search(workload, hardware, partial(joint, options=JointOptions(descent=None)), Settings()).best
    found = boundaries(best, "edp")
    assert [(one.source, one.target, one.cause) for one in found] == [("a", "b", "no gain"), ("b", "c", "no gain")]
    assert all(one.detail.startswith("fused, the edp would be about ") for one in found)
    assert all(one.detail.endswith(" higher") for one in found)


def test_not_searched_where_fusion_would_pay():
    cause, detail = reasons(NETWORKS["feed_forward"], objective="energy")["up down"]
    assert cause == "not searched"
    assert detail.startswith("fused, the energy would be about ")
    assert "lower" in detail


def test_reasons_that_are_not_priced_say_so():
    found = reasons(NETWORKS["residual"], priced=False)
    assert found["a b"][0] == found["b s"][0] == found["s c"][0] == "not searched"
    assert found["a s"][0] == "order"


def test_tensors_that_stay_on_chip_need_no_reason():
    assert reasons(NETWORKS["residual"], groups=(group("a b s c"),)) == {}
    assert list(reasons(NETWORKS["residual"], groups=(group("a b s"), group("c")))) == ["s c"]


def test_reasons_come_in_the_order_of_the_edges():
    workload = NETWORKS["residual"]
    assert list(reasons(workload, priced=False)) == [f"{edge.source} {edge.target}" for edge in workload.edges]
