"""The breakdown: every part of the cost is somewhere, once."""

import json
from dataclasses import asdict

import pytest

from examples import FILES, second
from fadiff.analysis.breakdown import breakdown
from fadiff.cost.evaluate import evaluate
from fadiff.schedule.file import read_schedule
from schedule.toys import conv, on, schedule

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@each_file
def test_parts_sum_to_the_energy_and_the_slowest_term_binds(path):
    evaluation = evaluate(read_schedule(path)[0])
    costs = breakdown(evaluation)
    totals = costs.totals
    assert totals.mac_energy_pj + sum(totals.memory_energy_pj.values()) == pytest.approx(totals.energy_pj, rel=1e-12)
    assert sum(layer.energy_pj * layer.repeat for layer in costs.layers) == pytest.approx(totals.energy_pj, rel=1e-12)
    assert sum(group.cycles for group in costs.groups) == pytest.approx(totals.cycles, rel=1e-12)
    assert sum(group.first_memory_bytes for group in costs.groups) == pytest.approx(totals.first_memory_bytes)
    for layer in costs.layers:
        assert layer.mac_energy_pj + sum(layer.access_energy_pj) == pytest.approx(layer.energy_pj, rel=1e-12)
        assert layer.cycles_by_term[layer.bound_by] == max(layer.cycles_by_term.values())
        assert len(layer.words) == len(costs.accesses)
        for memory, held in layer.bytes.items():
            assert held <= costs.capacity_bytes[memory]
    assert json.dumps(asdict(costs), allow_nan=False)


@each_file
def test_the_time_of_all_multipliers_is_told_once(path):
    costs = breakdown(evaluate(read_schedule(path)[0]))
    totals, peak = costs.totals, read_schedule(path)[0].machine.peak_macs
    assert totals.utilization + totals.idle_share + totals.waiting_share == pytest.approx(1)
    lost = sum(layer.cycles_by_term["compute"] * (1 - layer.pe_use) * layer.repeat for layer in costs.layers)
    assert lost / totals.cycles == pytest.approx(totals.idle_share, abs=1e-12)
    assert min(totals.idle_share, totals.waiting_share) >= -1e-12
    assert sum(layer.cost_share for layer in costs.layers) == pytest.approx(1)
    for layer in costs.layers:
        assert layer.pe_use * layer.cycles_by_term["compute"] * peak == pytest.approx(layer.macs)
        assert layer.utilization <= layer.pe_use * (1 + 1e-12)


def test_memories_bear_their_own_names():
    costs = breakdown(evaluate(second("cores_residual")))
    assert costs.memories == ("DRAM", "l2", "l1", "acc", "reg")
    assert list(costs.totals.memory_energy_pj) == list(costs.memories)
    assert list(costs.layers[0].bytes) == list(costs.capacity_bytes) == ["l2", "l1", "acc", "reg"]
    assert {access.memory for access in costs.accesses} == set(costs.memories)
    assert {access.other for access in costs.accesses} == {*costs.memories, None}


def test_traffic_is_told_in_bytes_whatever_a_word_is():
    """Twice as wide words move as many bytes, in half as many words."""
    given = schedule(conv("a"))
    wide = on(given, {"DRAM": {"word_bits": 16}})
    once, twice = breakdown(evaluate(given)), breakdown(evaluate(wide))
    assert twice.totals.first_memory_bytes == once.totals.first_memory_bytes == evaluate(given).memory_words(0)
    assert sum(twice.layers[0].words) < sum(once.layers[0].words)


def test_a_double_buffered_memory_has_half_its_capacity():
    given = on(schedule(conv("a")), {"scratchpad": {"double_buffered": True}})
    assert breakdown(evaluate(given)).capacity_bytes["scratchpad"] == 2048
