"""Transfers account for every access once."""

import json
from dataclasses import asdict, replace

import pytest

from examples import FILES, second
from fadiff.analysis.transfers import transfers
from fadiff.cost.evaluate import evaluate
from fadiff.hardware import Memory
from fadiff.schedule.file import read_schedule

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def priced(machine, name):
    """The machine with only one memory's accesses priced, at 1 pJ."""
    nodes = tuple(
        replace(node, read_pj=float(node.name == name), write_pj=float(node.name == name))
        if isinstance(node, Memory)
        else node
        for node in machine.nodes
    )
    return replace(machine, nodes=nodes, mac_pj=0.0)


@each_file
def test_every_access_is_an_end_of_a_transfer(path):
    plan = read_schedule(path)[0]
    for node, memory in zip(plan.machine.structure.memories, plan.machine.memories, strict=True):
        evaluation = evaluate(replace(plan, machine=priced(plan.machine, memory.name)))
        found = transfers(evaluation)
        assert sum(transfer.energy_pj for transfer in found) == pytest.approx(evaluation.memory_words(node), rel=1e-12)
        for transfer in found:
            if transfer.energy_pj:
                assert memory.name in (transfer.source, transfer.target)


@each_file
def test_transfers_and_macs_take_all_energy(path):
    evaluation = evaluate(read_schedule(path)[0])
    found = transfers(evaluation)
    macs = evaluation.schedule.workload.macs * evaluation.schedule.machine.mac_pj
    assert sum(transfer.energy_pj for transfer in found) + macs == pytest.approx(evaluation.energy_pj, rel=1e-12)
    assert json.dumps([asdict(transfer) for transfer in found], allow_nan=False)


def found(name):
    evaluation = evaluate(second(name))
    return {(t.source, t.target, t.content): t for t in transfers(evaluation)}


def test_fused_tensors_turn_back_into_the_memory_that_fuses():
    transfer = found("gemmini_odd_rows_fused")["accumulator", "scratchpad", "fused"]
    assert transfer.bytes > 0


def test_a_machine_without_a_memory_for_weights_on_the_way_brings_them_past_the_others():
    """The global buffer keeps no weights: they come from DRAM."""
    ways = found("eyeriss_conv")
    assert ("DRAM", "wspad", "weights") in ways
    assert not any("glb" in (source, target) for source, target, content in ways if content == "weights")


def test_spilled_sums_go_both_ways():
    ways = found("os_gemm_spill")
    there = [(s, t) for s, t, content in ways if content == "sums" and s is not None and t is not None]
    assert there
    assert {(t, s) for s, t in there} == set(there)
