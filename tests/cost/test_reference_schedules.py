"""Schedules priced by an independent evaluator: see tests/data/schedules/README.md."""

import json
from pathlib import Path

import numpy as np
import pytest

from fadiff.cost import evaluate, load_schedule
from fadiff.schedule.file import read_schedule
from fadiff.schedule.footprint import group_steps
from fadiff.schedule.legality import violations

FOLDER = Path(__file__).parent.parent / "data" / "schedules"
FILES = sorted(FOLDER.rglob("*.json"))

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_all_reference_schedules_are_here():
    assert len(list(FOLDER.glob("*.json"))) == 7
    assert len(list(FOLDER.glob("small/*.json"))) == 29


@every_file
def test_a_reference_schedule_loads_and_is_legal(path):
    schedule = load_schedule(path)
    assert violations(schedule) == []
    assert [layer.name for layer in schedule.workload.layers] == [
        layer["name"] for layer in json.loads(path.read_text())["workload"]["layers"]
    ]


@every_file
def test_a_reference_schedule_costs_what_its_file_states(path):
    schedule, stated = read_schedule(path)
    evaluation = evaluate(schedule)
    assert stated is not None
    assert evaluation.energy_pj == pytest.approx(stated.energy_pj, rel=1e-9)
    assert evaluation.cycles == pytest.approx(stated.cycles, rel=1e-9)
    assert evaluation.edp_uj_cycles == pytest.approx(stated.edp_uj_cycles, rel=1e-9)


@every_file
def test_the_parts_of_a_cost_sum_to_the_whole(path):
    evaluation = evaluate(read_schedule(path)[0])
    energy, times, repeat = evaluation.layers.energy, evaluation.layers.cycles, evaluation.repeat
    by_part = np.stack([energy.mac, energy.l0, energy.l1, energy.l2, energy.l3])
    np.testing.assert_allclose(by_part.sum(axis=0), energy.total, rtol=1e-12)
    assert sum(evaluation.energy_parts_pj().values()) == pytest.approx(evaluation.energy_pj, rel=1e-12)
    assert float((energy.total * repeat).sum()) == pytest.approx(evaluation.energy_pj, rel=1e-12)
    assert float((times.total * repeat).sum()) == pytest.approx(evaluation.cycles, rel=1e-12)
    slowest = np.stack([times.compute, times.l1, times.l2, times.l3]).max(axis=0)
    np.testing.assert_array_equal(times.total, slowest)
    assert float((evaluation.layers.traffic.l3 * repeat).sum()) == evaluation.l3_words


@every_file
def test_every_count_is_a_whole_number_of_words(path):
    for name, words in evaluate(read_schedule(path)[0]).layers.traffic._asdict().items():
        assert np.all(words >= 0), name
        np.testing.assert_array_equal(words, np.round(words), err_msg=name)


@every_file
def test_integer_rules_and_array_model_need_the_same_bytes_at_every_step(path):
    schedule = read_schedule(path)[0]
    need = evaluate(schedule).needs
    number = {layer.name: i for i, layer in enumerate(schedule.workload.layers)}
    steps = [step for group in schedule.groups for step in group_steps(schedule, group)]
    assert {step.layer for step in steps} == set(number)
    for step in steps:
        assert step.l2_bytes == need.l2_bytes[number[step.layer]], step.layer
        assert step.l1_bytes == need.l1_bytes[number[step.layer]], step.layer
        assert step.l2_bytes <= schedule.hardware.usable_l2_bytes
        assert step.l1_bytes <= schedule.hardware.usable_l1_bytes


def test_fusion_saves_what_it_promises_on_a_reference_pair():
    """The residual of three layers moves its two intermediates over L2 alone."""
    schedule = load_schedule(FOLDER / "small" / "r1_resid.json")
    traffic = evaluate(schedule).layers.traffic
    words = [layer.stored_words for layer in schedule.workload.layers]
    assert list(traffic.l3_output) == [0, 0, words[2]]
    assert list(traffic.l2_output_copy) == [words[0], words[1], 0]
