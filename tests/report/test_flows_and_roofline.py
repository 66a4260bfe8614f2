"""Flows account for every access once; the roofline bounds what layers attain."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from execute.builders import group, mac, schedule, tiled
from fadiff.cost import evaluate, load_schedule
from fadiff.report.flows import flows, total_flows
from fadiff.report.roofline import roofline
from oracle import schedules

DATA = Path(__file__).parents[1] / "data" / "schedules"
FILES = sorted([*DATA.glob("*.json"), *(DATA / "small").glob("*.json")])
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
FREE = {"mac": 0.0, "l0": 0.0, "l1": 0.0, "l2": 0.0, "l3": 0.0}


def assert_every_access_is_an_end_of_one_flow(plan):
    """With only one level's accesses priced, and at 1 pJ, the flows' energies count that level's accesses."""
    for level in ("l0", "l1", "l2", "l3"):
        machine = replace(plan.hardware, pj=plan.hardware.pj._replace(**FREE | {level: 1.0}))
        evaluation = evaluate(replace(plan, hardware=machine))
        counted = float(np.sum(np.asarray(getattr(evaluation.layers.traffic, level)) * evaluation.repeat))
        assert sum(flow.energy_pj for flow in flows(evaluation)) == pytest.approx(counted, rel=1e-12)


@each_file
def test_flows_hold_every_access_of_every_level(path):
    plan = load_schedule(path)
    assert_every_access_is_an_end_of_one_flow(plan)
    evaluation = evaluate(plan)
    totals = total_flows(evaluation)
    macs = plan.workload.macs * plan.hardware.pj.mac
    assert sum(flow.energy_pj for flow in totals) + macs == pytest.approx(evaluation.energy_pj, rel=1e-12)
    assert sum(f.words for f in totals if "L3" in (f.source, f.target)) == round(evaluation.l3_words)
    assert json.dumps([asdict(flow) for flow in totals])


@settings(max_examples=30)
@given(schedules.residuals())
def test_flows_of_sums_hold_every_access(plan):
    assert_every_access_is_an_end_of_one_flow(plan)


@settings(max_examples=30)
@given(schedules.single_layers())
def test_flows_of_spills_hold_every_access(plan):
    assert_every_access_is_an_end_of_one_flow(plan)


@each_file
def test_no_layer_is_faster_than_its_roofs(path):
    evaluation = evaluate(load_schedule(path))
    numbers = roofline(evaluation)
    slack = 1 + 1e-9
    for point in (*numbers.points, numbers.network):
        assert point.attained_macs_per_cycle <= point.attainable_macs_per_cycle * slack
        assert point.attainable_macs_per_cycle <= numbers.peak_macs_per_cycle
    for point in numbers.points:
        assert point.attained_macs_per_cycle <= point.mapped_macs_per_cycle * slack
        if point.bound_by == "L3":
            assert point.attained_macs_per_cycle == pytest.approx(point.macs_per_l3_word * numbers.l3_words_per_cycle)
        if point.bound_by == "compute":
            assert point.attained_macs_per_cycle == pytest.approx(point.mapped_macs_per_cycle)
    assert numbers.network.attained_macs_per_cycle == pytest.approx(
        evaluation.utilization * numbers.peak_macs_per_cycle
    )
    assert len(numbers.points) == sum(layer.is_mac for layer in evaluation.schedule.workload.layers)
    assert json.dumps(asdict(numbers), allow_nan=False)


def test_a_layer_that_touches_no_dram_has_no_intensity():
    """Its input and its weights come from layers of its group, and so does the reader of its output."""
    layers = [
        mac("a", "N4 K4 C2"),
        mac("w", "N4 K4 C2"),
        mac("b", "N4 K4 C4", "a", ("w", "weight")),
        mac("c", "N4 K2 C4", "b"),
    ]
    mappings = {layer.name: tiled("C2 K2", "N4", f"C{layer.dims.C // 2} K{layer.dims.K // 2}") for layer in layers}
    points = {point.layer: point for point in roofline(evaluate(schedule(layers, [group("a w b c")], mappings))).points}
    assert points["b"].macs_per_l3_word is None
    assert points["b"].attainable_macs_per_cycle == 16
    assert points["c"].macs_per_l3_word == 32 / (8 + 8)
