"""The whole search without its descent: on networks small enough to try everything, it finds what there is to find."""

from functools import cache, partial

import numpy as np
import pytest

from fadiff.cost import save_schedule
from fadiff.schedule.legality import violations
from fadiff.search.driver import OBJECTIVES, Settings, search
from fadiff.search.joint import JointOptions, joint
from fadiff.search.space import useful_slots
from search.exhaustive import least_edp
from search.networks import add, mac, machine, network

NETWORKS = {
    "products": network(mac("a", "N4 K4 C4"), mac("b", "N4 K4 C4", "a"), mac("c", "N4 K2 C4", "b")),
    "convolutions": network(mac("a", "K2 C2 P4 Q2 R3"), mac("b", "K2 C2 P4 Q2 R3", "a"), mac("c", "K4 C2 P4 Q2", "b")),
    "strided": network(
        mac("a", "K2 C2 P4 Q4 R3"), mac("b", "K2 C2 P2 Q2 R3", "a", stride=(2, 2)), mac("c", "K4 C2 P2 Q2", "b")
    ),
    "block": network(
        mac("a", "K2 C2 P4 Q2"),
        mac("b", "K2 C2 P4 Q2 R3", "a"),
        add("s", "K2 P4 Q2", "b", "a"),
        mac("c", "K2 C2 P4 Q2", "s"),
    ),
    "separable": network(mac("a", "G4 P4 Q2 R3"), mac("b", "K4 C4 P4 Q2", "a"), mac("c", "G4 P4 Q2 R3", "b")),
    "feed forward": network(mac("up", "N4 K8 C2"), mac("down", "N4 K2 C8", "up")),
    "part of a shortcut": network(
        mac("a", "K2 C2 P4 Q2"),
        mac("b", "K2 C2 P4 Q2 R3", "a"),
        mac("c", "K2 C3 P4 Q2", "b", ("a", "input", False)),
    ),
    "attention": network(
        mac("k", "G2 N4 K2 C2", epilogue=("transpose",), repeat=2),
        mac("qk", "G2 N4 K4 C2", None, ("k", "weight"), epilogue=("softmax",), repeat=2),
        mac("av", "G2 N4 K2 C4", "qk", repeat=2),
    ),
}
CHIPS = {
    "roomy": machine(rows=2, cols=4, l1_bytes=128, l2_bytes=100),
    "small": machine(rows=2, cols=2, l1_bytes=64, l2_bytes=64),
    "tight": machine(rows=2, cols=2, l1_bytes=32, l2_bytes=24),
}
MISSED = {
    ("strided", "small"): 1.12,
    ("products", "tight"): 1.32,
    ("convolutions", "tight"): 1.46,
    ("strided", "tight"): 1.06,
    ("block", "tight"): 1.23,
    ("part of a shortcut", "tight"): 1.02,
}
"""Where a group fits only to the byte, none of the few mappings that each layer is given may fit beside the others."""


@cache
def found(name, chip, objective="edp", options=JointOptions(descent=None)):
    return search(NETWORKS[name], CHIPS[chip], partial(joint, options=options), Settings(objective=objective))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_best_of_all_schedules_is_found(name, chip):
    """Of all cuts into groups, all shared trip counts, and all mappings over the useful slots."""
    best = least_edp(NETWORKS[name], CHIPS[chip], useful_slots)
    edp = found(name, chip).best.edp_uj_cycles
    assert edp >= best * (1 - 1e-9)
    assert edp <= best * MISSED.get((name, chip), 1.0001)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_result_is_legal_and_no_worse_than_greedy_and_unfused(name, chip):
    result = found(name, chip)
    assert violations(result.schedule) == []
    assert result.stopped == "done"
    assert result.best.edp_uj_cycles <= result.unfused.edp_uj_cycles <= result.greedy.edp_uj_cycles
    assert not result.unfused.schedule.fused_edges


def test_fusion_pays_on_small_networks():
    gains = [found(name, "small").unfused.edp_uj_cycles / found(name, "small").best.edp_uj_cycles for name in NETWORKS]
    assert min(gains) > 1.3


@pytest.mark.parametrize("name", ["convolutions", "block", "separable", "attention"])
def test_each_objective_is_best_at_its_own_measure(name):
    edp, energy, latency = (found(name, "small", objective).best for objective in OBJECTIVES)
    assert energy.energy_pj <= min(edp.energy_pj, latency.energy_pj) * (1 + 1e-9)
    assert latency.cycles <= min(edp.cycles, energy.cycles) * (1 + 1e-9)
    assert edp.edp_uj_cycles <= min(energy.edp_uj_cycles, latency.edp_uj_cycles) * (1 + 1e-9)


def test_without_fusion_nothing_is_fused():
    result = found("block", "small", options=JointOptions(descent=None, fuse=False))
    assert not result.schedule.fused_edges
    assert result.best.edp_uj_cycles == result.unfused.edp_uj_cycles
    assert found("block", "small").best.edp_uj_cycles < result.best.edp_uj_cycles


def test_without_plans_or_proposals_nothing_is_fused():
    result = found("block", "small", options=JointOptions(descent=None, enumerate_plans=False))
    assert not result.schedule.fused_edges


def test_one_start_is_enough_for_a_legal_schedule():
    result = found("block", "small", options=JointOptions(descent=None, starts=1))
    assert result.best.edp_uj_cycles < result.greedy.edp_uj_cycles


def test_polishing_is_no_loss():
    for name in ("convolutions", "block", "attention"):
        rough = found(name, "tight", options=JointOptions(descent=None, polish=False))
        assert found(name, "tight").best.edp_uj_cycles <= rough.best.edp_uj_cycles


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for i in range(2):
        method = partial(joint, options=JointOptions(descent=None))
        result = search(NETWORKS["block"], CHIPS["tight"], method, Settings(seed=3))
        save_schedule(tmp_path / f"{i}.json", result.schedule)
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()


def test_a_network_of_one_layer_is_searched_too():
    workload = network(mac("a", "K4 C4 P4 Q4 R3 S3"))
    hardware = machine(l1_bytes=64, l2_bytes=96)
    result = search(workload, hardware, partial(joint, options=JointOptions(descent=None)), Settings())
    assert result.best.edp_uj_cycles == pytest.approx(least_edp(workload, hardware, useful_slots))


def test_a_network_of_sums_alone_is_searched_too():
    workload = network(add("a", "K4 P4 Q4", None, None), add("b", "K4 P4 Q4", "a", None))
    result = search(workload, machine(), partial(joint, options=JointOptions(descent=None)), Settings())
    assert np.isfinite(result.best.edp_uj_cycles)
    assert len(result.schedule.fused_edges) == 1
