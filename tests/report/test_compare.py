"""Two schedules of one network: what differs, and what is refused."""

import json
from dataclasses import asdict, replace
from math import log

import pytest

from execute.builders import group, mac, schedule, tiled
from fadiff.cost import evaluate
from fadiff.errors import FadiffError
from fadiff.report.compare import compare_schedules

LAYERS = [mac("u", "K4 C2 P8"), mac("v", "K2 C4 P8 R3", "u")]
MAPPINGS = {"u": tiled("C2 K4", "P2", "", "", "P4"), "v": tiled("C4 K2", "P2", "R3", "", "P4", o1="R")}
FUSED = schedule(LAYERS, [group("u v", "P4")], MAPPINGS)
ALONE = schedule(LAYERS, [group("u"), group("v")], MAPPINGS)


def test_a_schedule_does_not_differ_from_itself():
    same = compare_schedules(evaluate(FUSED), evaluate(FUSED))
    assert same.hardware == same.groups == same.layers == ()
    assert same.edges_fused_only_after == same.edges_fused_only_before == ()
    assert all(change.before == change.after for change in same.totals)
    assert (
        same.summary
        == "EDP unchanged, energy unchanged, latency unchanged, DRAM traffic unchanged; the same edges fused"
    )


def test_fusion_is_the_first_difference():
    found = compare_schedules(evaluate(ALONE), evaluate(FUSED))
    assert found.edges_fused_only_after == (("u", "v"),)
    assert [(one.layers, one.trips_before, one.trips_after) for one in found.groups] == [(("u", "v"), None, {"P": 4})]
    assert {layer.layer: layer.what for layer in found.layers} == {"u": ("group",), "v": ("group",)}
    edp = found.totals[0]
    assert edp.name == "edp_uj_cycles"
    assert edp.ratio == evaluate(FUSED).edp_uj_cycles / evaluate(ALONE).edp_uj_cycles < 1
    assert "1 more edge fused" in found.summary
    back = compare_schedules(evaluate(FUSED), evaluate(ALONE))
    assert back.edges_fused_only_before == (("u", "v"),)
    assert "1 no longer" in back.summary


def test_shares_of_layers_sum_to_the_change_of_edp():
    before, after = evaluate(ALONE), evaluate(FUSED)
    found = compare_schedules(before, after)
    change = log(after.edp_uj_cycles / before.edp_uj_cycles)
    assert sum(layer.edp_share for layer in found.layers) == pytest.approx(change, rel=0.1)
    sizes = [abs(layer.edp_share) for layer in found.layers]
    assert sizes == sorted(sizes, reverse=True)


def test_tiles_unrolling_and_orders_are_told_apart():
    def differing(**mappings):
        other = replace(ALONE, mappings={**MAPPINGS, **mappings})
        return {one.layer: one.what for one in compare_schedules(evaluate(ALONE), evaluate(other)).layers}

    assert differing(u=tiled("C2 K2", "P2", "K2", "", "P4", o1="K")) == {"u": ("unrolling", "tiles", "loop order")}
    assert differing(u=tiled("C2 K4", "P4", "", "", "P2")) == {"u": ("tiles",)}
    two = tiled("C2 K2", "", "K2 P8", "", "", o1="KP")
    swapped = tiled("C2 K2", "", "K2 P8", "", "", o1="PK")
    base = evaluate(replace(ALONE, mappings={**MAPPINGS, "u": two}))
    found = compare_schedules(base, evaluate(replace(ALONE, mappings={**MAPPINGS, "u": swapped})))
    assert {one.layer: one.what for one in found.layers} == {"u": ("loop order",)}


def test_shared_loops_that_differ_are_named():
    mappings = {"u": tiled("C2 K4", "P4", "", "", "P2"), "v": tiled("C4 K2", "P4", "R3", "", "P2", o1="R")}
    coarser = schedule(LAYERS, [group("u v", "P2")], mappings)
    found = compare_schedules(evaluate(FUSED), evaluate(coarser))
    assert [(one.trips_before, one.trips_after) for one in found.groups] == [({"P": 4}, {"P": 2})]
    assert found.layers[0].what == ("shared loops", "tiles")


def test_another_machine_is_allowed_and_said():
    machine = replace(
        FUSED.hardware, name="wide", l2_bytes=2 * FUSED.hardware.l2_bytes, pj=FUSED.hardware.pj._replace(l3=2.0)
    )
    found = compare_schedules(evaluate(FUSED), evaluate(replace(FUSED, hardware=machine)))
    assert {change.name: change.ratio for change in found.hardware} == {"name": None, "l2_bytes": 2.0, "pj.L3": 2.0}
    assert found.summary.startswith("on wide instead of toy: ")
    assert all(layer.what == () for layer in found.layers)
    assert json.dumps(asdict(found), allow_nan=False)


def test_different_networks_are_refused_in_one_sentence():
    other = schedule([mac("u", "K4 C2 P8"), mac("v", "K2 C4 P8", "u")], [group("u"), group("v")],
                     {**MAPPINGS, "v": tiled("C4 K2", "P8")})  # fmt: skip
    with pytest.raises(
        FadiffError, match=r"of different networks, 'toy' with 2 layers and .*; 'v' is the first layer to differ"
    ) as told:
        compare_schedules(evaluate(FUSED), evaluate(other))
    assert "\n" not in str(told.value)
