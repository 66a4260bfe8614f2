"""Two schedules of one network: what differs, and what is refused."""

import json
from dataclasses import asdict, replace
from math import log

import pytest

from analysis.mappings import mapped
from fadiff.analysis.compare import compare_schedules
from fadiff.cost.evaluate import evaluate
from fadiff.errors import FadiffError
from fadiff.schedule import Group
from schedule.toys import CORES, GEMMINI, conv, on, schedule

LAYERS = (conv("u", P=8), conv("v", "u", P=8, R=3))
FUSED = schedule(*LAYERS, P=4)
ALONE = replace(FUSED, groups=(Group(("u",)), Group(("v",))))


def compared(before, after):
    return compare_schedules(evaluate(before), evaluate(after))


def test_a_schedule_does_not_differ_from_itself():
    same = compared(FUSED, FUSED)
    assert same.machine == same.groups == same.layers == ()
    assert same.edges_fused_only_after == same.edges_fused_only_before == ()
    assert all(change.before == change.after for change in same.totals)
    unchanged = ", ".join(f"{what} unchanged" for what in ("EDP", "energy", "latency", "DRAM traffic"))
    assert same.summary == f"{unchanged}; the same edges fused"


def test_fusion_is_the_first_difference():
    found = compared(ALONE, FUSED)
    assert found.edges_fused_only_after == (("u", "v"),)
    assert [(one.layers, one.trips_before, one.trips_after) for one in found.groups] == [(("u", "v"), None, {"P": 4})]
    assert {layer.layer: layer.what for layer in found.layers} == {"u": ("group",), "v": ("group",)}
    edp = found.totals[0]
    assert edp.name == "edp_uj_cycles"
    assert edp.ratio == evaluate(FUSED).edp_uj_cycles / evaluate(ALONE).edp_uj_cycles < 1
    assert "1 more edge fused" in found.summary
    back = compared(FUSED, ALONE)
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
    def with_u(**nodes):
        return replace(ALONE, mappings={**ALONE.mappings, "u": mapped(GEMMINI, **nodes)})

    def differing(before, after):
        return {one.layer: one.what for one in compared(before, after).layers}

    base = with_u(DRAM="P4", accumulator="K2 C2 P2 Q4")
    assert differing(base, with_u(DRAM="P4", cols="K2", accumulator="C2 P2 Q4")) == {
        "u": ("unrolling", "tiles", "loop order")
    }
    assert differing(base, with_u(DRAM="P2", accumulator="K2 C2 P4 Q4")) == {"u": ("tiles",)}
    assert differing(base, with_u(DRAM="P4", accumulator="C2 K2 P2 Q4")) == {"u": ("loop order",)}


def test_shared_loops_that_differ_are_named():
    found = compared(FUSED, schedule(*LAYERS, P=2))
    assert [(one.trips_before, one.trips_after) for one in found.groups] == [({"P": 4}, {"P": 2})]
    assert found.layers[0].what == ("shared loops", "tiles")


def test_numbers_of_another_machine_are_told():
    wide = on(FUSED, {"scratchpad": {"bytes": 8192}, "DRAM": {"read_pj": 200.0}}, name="wide")
    found = compared(FUSED, wide)
    assert {change.name: change.ratio for change in found.machine} == {
        "name": None, "DRAM.read_pj": 2.0, "scratchpad.bytes": 2.0
    }  # fmt: skip
    assert found.summary.startswith("on wide instead of toy-gemmini: ")
    assert all(layer.what == () for layer in found.layers)
    assert json.dumps(asdict(found), allow_nan=False)


def test_schedules_on_machines_of_other_nodes_can_be_compared():
    found = compared(FUSED, schedule(*LAYERS, machine=CORES, P=4))
    assert {layer.layer: layer.what for layer in found.layers} == {"u": ("mapping",), "v": ("mapping",)}
    told = {change.name: (change.before, change.after) for change in found.machine}
    assert told["scratchpad"] == ("memory", None)
    assert told["cores"] == (None, "axis")
    assert told["l1.bytes"] == (None, 2048)
    assert told["cols.size"] == (8, 4)
    assert json.dumps(asdict(found), allow_nan=False)


def test_different_networks_are_refused_in_one_sentence():
    other = schedule(LAYERS[0], conv("v", "u", P=8), P=4)
    with pytest.raises(
        FadiffError, match=r"of different networks, 'toy' with 2 layers and .*; 'v' is the first layer to differ"
    ) as told:
        compared(FUSED, other)
    assert "\n" not in str(told.value)
