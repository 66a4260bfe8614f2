"""Why a tensor leaves the chip: each cause on a network or a machine made for it."""

from dataclasses import replace

import pytest

from fadiff.cost import evaluate
from fadiff.hardware import Axis, Machine, load_machine
from fadiff.schedule.rules import violations
from fadiff.search import greedy
from fadiff.search.explain.climbs import remapped
from fadiff.search.explain.reasons import verdicts
from search.networks import (
    DRAM,
    GEMMINI,
    MACHINES,
    NETWORKS,
    PLAIN,
    group,
    mac,
    machine_with,
    memory,
    network,
    sized,
)


def reasons(workload, machine=GEMMINI, groups=None, objective="edp", **rest):
    """Cause and detail by edge, of layers that run alone or in the groups given."""
    schedule = greedy(workload, machine)
    evaluation = evaluate(schedule if groups is None else replace(schedule, groups=groups))
    found, of = verdicts(evaluation, objective, **rest), evaluation.schedule.group_of
    apart = [edge for edge in workload.edges if not evaluation.schedule.is_fused(edge)]
    return {f"{edge.source} {edge.target}": found[of[edge.source], of[edge.target]][:2] for edge in apart}


NORMED = network(mac("a", "K8 C2 P4 Q4", epilogue=("layer_norm",)), mac("b", "K2 C8 P4 Q4", "a"))


def test_capacity_where_no_trip_counts_make_the_buffers_fit():
    cause, detail = reasons(NORMED, sized(GEMMINI, scratchpad=6))["a b"]
    assert cause == "capacity"
    assert detail == "its buffers need 8 bytes of scratchpad at least, 6 are there"


@pytest.mark.parametrize(
    ("name", "where"), [("eyeriss", "global_buffer"), ("simba", "global_buffer"), ("tpu-v1", "unified_buffer")]
)
def test_memories_are_called_by_their_own_names(name, where):
    machine = sized(load_machine(name), **{where: 6})
    assert reasons(NORMED, machine)["a b"] == (
        "capacity",
        f"its buffers need 8 bytes of {where} at least, 6 are there",
    )
    assert reasons(NORMED, load_machine(name))["a b"][0] in ("no gain", "not searched")


def test_wide_values_need_more():
    wide = machine_with(GEMMINI, bits=replace(GEMMINI.bits, O=12))
    assert "its buffers need 12 bytes" in reasons(NORMED, sized(wide, scratchpad=11))["a b"][1]


def test_half_of_a_double_buffered_memory_counts():
    halved = machine_with(sized(GEMMINI, scratchpad=14), {"scratchpad": {"double_buffered": True}})
    assert reasons(NORMED, halved)["a b"][1].endswith("7 are there")


def test_alignment_where_the_layers_have_different_rows():
    workload = network(mac("a", "N4 K8 C2", epilogue=("reshape",)), mac("b", "N2 K2 C16", "a"))
    cause, detail = reasons(workload, sized(GEMMINI, scratchpad=31))["a b"]
    assert cause == "alignment"
    told = "it cannot be tiled (a has N 4 and b 2), and its buffers need 32 bytes of scratchpad at least, 31 are there"
    assert detail == told


FLATTENED = network(mac("a", "K4 C2 P4 Q4", epilogue=("flatten",)), mac("b", "K2 C64", "a"))
POOLED = network(mac("a", "K4 C2 P4 Q4"), mac("b", "K4 C4 P4 Q4 R3 S3", "a", epilogue=("global_pool",), out=(1, 1)))


@pytest.mark.parametrize(
    ("workload", "reason"),
    [(FLATTENED, "flatten of a needs whole images"), (POOLED, "global_pool of b needs whole images")],
)
def test_whole_tensor_where_an_operator_needs_all_of_it(workload, reason):
    cause, detail = reasons(workload, sized(GEMMINI, scratchpad=63))["a b"]
    assert cause == "whole tensor"
    told = f"it cannot be tiled ({reason}), and its buffers need 64 bytes of scratchpad at least, 63 are there"
    assert detail == told


def test_whole_tensor_where_keys_must_be_complete():
    workload = network(mac("k", "N8 K4 C2", epilogue=("transpose",)), mac("qk", "N4 K8 C4", None, ("k", "weight")))
    assert reasons(workload, sized(GEMMINI, scratchpad=31))["k qk"][0] == "whole tensor"
    assert reasons(workload)["k qk"][0] not in ("whole tensor", "capacity")


def test_a_buffer_that_fits_in_parts_is_not_too_large():
    """Transposed, the tensor cannot be cut along its rows, but a channel loop may cut its channels."""
    workload = network(mac("a", "N4 K8 C2", epilogue=("transpose",)), mac("b", "N4 K2 C8", "a"))
    assert reasons(workload, sized(GEMMINI, scratchpad=24))["a b"][0] in ("no gain", "not searched")
    assert reasons(workload, sized(GEMMINI, scratchpad=3))["a b"] == (
        "capacity",
        "its buffers need 4 bytes of scratchpad at least, 3 are there",
    )


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


def test_not_fusible_for_the_reason_that_the_network_gives():
    *others, c, d = PART_OF_A_SHORTCUT.layers
    slice_of_a = replace(c.inputs[1], reason="Slice s takes a part of it")
    workload = network(*others, replace(c, inputs=(c.inputs[0], slice_of_a)), d)
    found = reasons(workload, groups=(group("a"), group("b c"), group("d")))
    assert found["a c"] == ("not fusible", "c cannot read a on chip: Slice s takes a part of it")


def test_no_memory_fuses_on_a_machine_that_runs_layer_by_layer():
    found = reasons(NETWORKS["residual"], PLAIN)
    assert set(found.values()) == {("no memory fuses", "no memory of plain holds fused tensors")}


def test_incomplete_where_sums_are_kept_with_the_buffers():
    outside = Machine("outside", (DRAM, memory("sram", "WIO", 512, fuses=True), Axis("lanes", 4, "KC")), mac_pj=0.5)
    found = reasons(NETWORKS["residual"], outside)
    assert set(found.values()) == {
        ("incomplete", "no memory further in than sram keeps O, where sums could be finished")
    }


def test_order_where_other_layers_must_run_between():
    found = reasons(NETWORKS["residual"], groups=(group("a"), group("b"), group("s c")))
    assert found["a s"] == ("order", "b must run between them")


def test_a_branch_that_only_stands_between_keeps_nothing_apart():
    """Nothing forces c between a and b: the two are tried as one, without it."""
    workload = network(
        mac("a", "N4 K4 C2"), mac("c", "N4 K4 C2"), mac("b", "N4 K4 C4", "a"), mac("d", "N4 K2 C8", "b", "c")
    )
    evaluation = evaluate(greedy(workload, GEMMINI))
    of = evaluation.schedule.group_of
    verdict = verdicts(evaluation, "edp")[of["a"], of["b"]]
    assert verdict.cause in ("no gain", "not searched")
    (merged,) = verdict.merger.together.schedule.groups
    assert merged.layers == ("a", "b")
    mappings = {**evaluation.schedule.mappings, **verdict.merger.together.schedule.mappings}
    whole = replace(evaluation.schedule, groups=(merged, group("c"), group("d")), mappings=mappings)
    assert not violations(whole)
    energy_pj, cycles = verdict.merger.changed(evaluation)
    assert evaluate(whole).energy_pj == pytest.approx(energy_pj)
    assert evaluate(whole).cycles == pytest.approx(cycles)


def test_order_where_a_group_must_run_between():
    """Neither layer of the group leads from a to b, but together they do."""
    workload = network(
        mac("a", "N4 K4 C2"), mac("g", "N4 K4 C2"), mac("h", "N4 K4 C8", "g", "a"), mac("b", "N4 K4 C8", "a", "g")
    )
    found = reasons(workload, groups=(group("a"), group("g h"), group("b")))
    assert found["a b"] == ("order", "g, h must run between them, fused as they are")


def test_no_gain_where_fusion_would_cost_more():
    """Weights of both layers fill the scratchpad in turn; beside a buffer they do not fit, and are fetched anew."""
    workload = network(mac("a", "K16 C16 P8 Q8"), mac("b", "K16 C16 P8 Q8", "a"))
    machine = sized(GEMMINI, scratchpad=400, cols=2, rows=2)
    schedule = remapped(evaluate(greedy(workload, machine)), machine).schedule
    ((cause, detail, missing, merger, _),) = verdicts(evaluate(schedule), "edp").values()
    assert cause == "no gain"
    assert detail.startswith("fused, the edp would be about ")
    assert detail.endswith(" higher")
    assert missing is None
    assert merger.together.edp_uj_cycles > merger.apart.edp_uj_cycles


@pytest.mark.parametrize("name", [name for name in MACHINES if name != "plain"])
def test_not_searched_where_fusion_would_pay(name):
    cause, detail = reasons(NETWORKS["feed_forward"], MACHINES[name], objective="energy")["up down"]
    assert cause == "not searched"
    assert detail.startswith("fused, the energy would be about ")
    assert "lower" in detail


def test_finished_sums_may_cost_more_than_the_way_through_dram():
    """With one sum in each column, a layer that finishes each of them at once loads its weights anew for every one."""
    found = reasons(NETWORKS["conv_chain"], MACHINES["tpu"])
    assert [cause for cause, _ in found.values()] == ["no gain", "no gain"]


def test_reasons_that_are_not_priced_say_so():
    found = reasons(NETWORKS["residual"], priced=False)
    assert found["a b"][0] == found["b s"][0] == found["s c"][0] == "not searched"
    assert found["a s"][0] == "order"


def test_tensors_that_stay_on_chip_need_no_reason():
    assert reasons(NETWORKS["residual"], groups=(group("a b s c"),)) == {}
    assert list(reasons(NETWORKS["residual"], groups=(group("a b s"), group("c")))) == ["s c"]
