"""The model's statements on a few layers whose numbers fit on the back of an envelope."""

from dataclasses import replace

import pytest

from fadiff.cost import evaluate
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.workload import Dims, Input, Layer, Workload
from oracle.schedules import MACHINE

CONV = Layer("c", "mac", Dims(K=4, C=2, P=8, Q=8, R=3, S=3), (Input(None),))
WEIGHTS, WINDOW_ROW, OUTPUTS = 72, 2 * 10, 256


def words(schedule, layer="c"):
    """Traffic of one layer, by field."""
    number = [each.name for each in schedule.workload.layers].index(layer)
    return {field: values[number] for field, values in evaluate(schedule).layers.traffic._asdict().items()}


def alone(mapping, layer=CONV):
    return Schedule(Workload("one", (layer,)), MACHINE, (Group((layer.name,)),), {layer.name: mapping})


def pair(*groups, reader=False):
    """Two convolutions tiled by rows, four rows a trip; perhaps a third that reads the first."""
    first = replace(CONV, name="u")
    layers = [first, replace(CONV, name="v", dims=CONV.dims._replace(C=4), inputs=(Input("u"),))]
    if reader:
        layers.append(Layer("w", "mac", Dims(C=4, P=8, Q=8), (Input("u"),)))
    mappings = {layer.name: Mapping(l3=Dims(P=2), l1=layer.dims._replace(P=4)) for layer in layers}
    return Schedule(Workload("pair", tuple(layers)), MACHINE, groups, mappings)


def test_a_pinned_weight_is_fetched_once():
    rows = Mapping(l3=Dims(P=8), l1=CONV.dims._replace(P=1))
    assert words(alone(rows))["l3_weight"] == WEIGHTS


def test_a_weight_under_a_relevant_loop_is_fetched_anew_in_every_trip_outside():
    rest = CONV.dims._replace(P=1, K=2)
    assert words(alone(Mapping(l3=Dims(P=8, K=2), l1=rest, order3="PKGNQCRS")))["l3_weight"] == 8 * WEIGHTS
    assert words(alone(Mapping(l3=Dims(P=8, K=2), l1=rest, order3="KPGNQCRS")))["l3_weight"] == WEIGHTS


def test_a_window_that_slides_fetches_every_row_once():
    rows = Mapping(l3=Dims(P=4), l1=CONV.dims._replace(P=2))
    assert words(alone(rows))["l3_input"] == 10 * WINDOW_ROW


def test_a_window_under_an_irrelevant_loop_does_not_slide():
    rest = CONV.dims._replace(P=2, K=2)
    assert words(alone(Mapping(l3=Dims(P=4, K=2), l1=rest, order3="PKGNQCRS")))["l3_input"] == 4 * 4 * WINDOW_ROW
    assert words(alone(Mapping(l3=Dims(P=4, K=2), l1=rest, order3="KPGNQCRS")))["l3_input"] == 2 * 10 * WINDOW_ROW


def test_sums_that_leave_unfinished_go_to_l3_and_come_back():
    rest = CONV.dims._replace(P=4, C=1)
    kept = words(alone(Mapping(l3=Dims(P=2, C=2), l1=rest, order3="PCGNKQRS")))
    spilled = words(alone(Mapping(l3=Dims(P=2, C=2), l1=rest, order3="CPGNKQRS")))
    assert kept["l1_reload"] == kept["l3_spill"] == 0
    assert kept["l1_drain"] == OUTPUTS
    assert spilled["l1_reload"] == OUTPUTS
    assert spilled["l1_drain"] == 2 * OUTPUTS
    assert spilled["l3_spill"] == 2 * MACHINE.spill_words * OUTPUTS


def test_the_array_broadcasts_inputs_and_reduces_sums():
    unrolled = words(alone(Mapping(spatial=Dims(K=4, C=2), l1=Dims(R=3, S=3), l0=Dims(P=8, Q=8))))
    assert unrolled["macs"] == 8 * 8 * 8 * 9
    assert unrolled["l2_input_read"] == unrolled["macs"] / 4
    assert unrolled["l1_update"] == 2 * unrolled["macs"] / 2 - OUTPUTS
    assert unrolled["l0_weight_fill"] == WEIGHTS


def test_a_fused_intermediate_never_touches_l3():
    fused = pair(Group(("u", "v"), Trips(P=2)))
    assert words(fused, "u")["l3_output"] == words(fused, "v")["l3_input"] == words(fused, "v")["l2_input_fill"] == 0
    assert words(fused, "u")["l2_output_copy"] == words(fused, "u")["l1_drain"] == OUTPUTS
    apart = pair(Group(("u",)), Group(("v",)))
    assert words(apart, "u")["l3_output"] == OUTPUTS
    assert words(apart, "u")["l2_output_copy"] == 0
    assert words(fused, "v")["l2_input_read"] == words(apart, "v")["l2_input_read"]


def test_an_intermediate_that_is_read_outside_too_is_copied_and_drained():
    fused = words(pair(Group(("u", "v"), Trips(P=2)), Group(("w",)), reader=True), "u")
    assert fused["l3_output"] == fused["l2_output_copy"] == OUTPUTS
    assert fused["l1_drain"] == 2 * OUTPUTS


def test_registers_are_loaded_anew_in_every_trip_of_a_group():
    whole = {name: Mapping(spatial=Dims(K=4), l3=Dims(P=2), l0=Dims(P=4, Q=8)) for name in "uv"}
    layers = (
        Layer("u", "mac", Dims(K=4, P=8, Q=8), (Input(None),)),
        Layer("v", "mac", Dims(K=4, G=1, C=4, P=8, Q=8), (Input("u"),)),
    )
    whole["v"] = replace(whole["v"], spatial=Dims(K=4, C=4))
    fused = Schedule(Workload("dots", layers), MACHINE, (Group(("u", "v"), Trips(P=2)),), whole)
    apart = replace(fused, groups=(Group(("u",)), Group(("v",))))
    assert [words(fused, name)["l0_weight_fill"] for name in "uv"] == [2 * 4, 2 * 16]
    assert [words(apart, name)["l0_weight_fill"] for name in "uv"] == [4, 16]


def test_transfers_that_do_not_overlap_add_to_the_time():
    schedule = alone(Mapping(l3=Dims(P=4), l1=CONV.dims._replace(P=2)))
    times = evaluate(schedule).layers.cycles
    serial = evaluate(replace(schedule, hardware=replace(MACHINE, overlap="none"))).layers.cycles
    assert times.total[0] == max(times.compute[0], times.l1[0], times.l2[0], times.l3[0])
    assert serial.total[0] == max(times.compute[0], times.l1[0], times.l2[0]) + times.l3[0]


def test_a_repeated_layer_costs_as_often_as_it_runs():
    mapping = Mapping(l1=CONV.dims)
    once, thrice = evaluate(alone(mapping)), evaluate(alone(mapping, replace(CONV, repeat=3)))
    assert thrice.energy_pj == pytest.approx(3 * once.energy_pj)
    assert thrice.cycles == pytest.approx(3 * once.cycles)
    assert thrice.edp_uj_cycles == pytest.approx(9 * once.edp_uj_cycles)
    assert thrice.layers.traffic.l3[0] == once.layers.traffic.l3[0]
