"""The exact search: on networks small enough to try everything, it finds all there is to find."""

from functools import cache

import numpy as np
import pytest

from fadiff import load_model, optimize
from fadiff.cost import save_schedule
from fadiff.errors import FadiffError
from fadiff.hardware import load_machine
from fadiff.schedule.rules import violations
from fadiff.search import driver
from fadiff.search.driver import Incumbent, Limits, OutOfTimeError, Settings, search
from fadiff.search.exact import method
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.method import ExactSearch
from fadiff.search.exact.plans import plans
from fadiff.search.objective import EDP, STATED
from fadiff.search.solver.network_bound import prove
from search.clock import Clock
from search.exhaustive import least_edp
from search.networks import FLAT, GEMMINI, PLAIN, add, mac, network, sized

NETWORKS = {
    "products": network(mac("a", "N4 K4 C4"), mac("b", "N4 K4 C4", "a"), mac("c", "N4 K2 C4", "b")),
    "odd products": network(mac("a", "N5 K3 C4"), mac("b", "N5 K4 C3", "a")),
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
    "small": sized(GEMMINI, rows=2, cols=2, accumulator=32, scratchpad=64),
    "tight": sized(GEMMINI, rows=2, cols=2, accumulator=16, scratchpad=24),
    "flat": sized(FLAT, lanes=2, buffer=40, spad=8),
}


def exact(fuse=True, polished=True, starts=16):
    """The exact search as a method, with parts left out."""

    def method(workload, machine, settings, incumbent):
        steps = ExactSearch(Task(workload, machine), settings, incumbent)
        yield from steps.map(starts, polished=polished)
        if fuse:
            steps.enumerate_plans()
            yield from steps.fuse("fuse")
            yield from steps.refine()
        if polished:
            yield from steps.polish()

    return method


@cache
def found(name, chip, objective=EDP, **parts):
    return search(NETWORKS[name], CHIPS[chip], exact(**parts), Settings(objective=objective))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_best_of_all_schedules_is_found(name, chip):
    """Of all cuts into groups, all shared trip counts, and all mappings over the useful nodes and orders."""
    best = least_edp(NETWORKS[name], CHIPS[chip])
    edp = found(name, chip).best.edp_uj_cycles
    assert edp >= best * (1 - 1e-9)
    assert edp <= best * (1 + 1e-6)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_result_is_legal_and_no_worse_than_greedy_and_unfused(name, chip):
    result = found(name, chip)
    assert violations(result.schedule) == []
    assert result.stopped == "done"
    assert result.best.edp_uj_cycles <= result.unfused.edp_uj_cycles <= result.greedy.edp_uj_cycles
    assert not result.unfused.schedule.fused_edges
    assert all(edge.fusible for edge in result.schedule.fused_edges)


def test_fusion_pays_on_small_networks():
    gains = [found(name, "small").unfused.edp_uj_cycles / found(name, "small").best.edp_uj_cycles for name in NETWORKS]
    assert min(gains) > 1.3


@pytest.mark.parametrize("name", ["convolutions", "attention"])
def test_each_objective_is_best_at_its_own_measure(name):
    edp, energy, latency = (found(name, "small", objective).best for objective in STATED)
    assert energy.energy_pj <= min(edp.energy_pj, latency.energy_pj) * (1 + 1e-9)
    assert latency.cycles <= min(edp.cycles, energy.cycles) * (1 + 1e-9)
    assert edp.edp_uj_cycles <= min(energy.edp_uj_cycles, latency.edp_uj_cycles) * (1 + 1e-9)


def test_without_fusion_nothing_is_fused():
    result = found("block", "small", fuse=False)
    assert not result.schedule.fused_edges
    assert result.best.edp_uj_cycles == result.unfused.edp_uj_cycles
    assert found("block", "small").best.edp_uj_cycles < result.best.edp_uj_cycles


def test_one_start_is_enough_for_a_legal_schedule():
    result = found("block", "small", starts=1)
    assert violations(result.schedule) == []
    assert result.best.edp_uj_cycles < result.greedy.edp_uj_cycles


def test_polishing_is_no_loss():
    for name in ("convolutions", "block", "attention"):
        rough = found(name, "tight", polished=False)
        assert found(name, "tight").best.edp_uj_cycles <= rough.best.edp_uj_cycles


def test_the_trace_of_a_search_only_goes_down():
    result = found("block", "small")
    edps = [point.best_edp_uj_cycles for point in result.trace]
    assert edps == sorted(edps, reverse=True)
    assert edps[0] == result.greedy.edp_uj_cycles
    assert edps[-1] == result.best.edp_uj_cycles
    assert {point.phase for point in result.trace} == {"greedy", "map", "fuse", "refine", "polish"}


def test_layers_are_fused_before_they_are_solved():
    result = optimize(NETWORKS["block"], CHIPS["small"])
    phases = [point.phase for point in result.trace]
    assert list(dict.fromkeys(phases)) == ["greedy", "map", "fuse", "solve", "refine", "polish"]
    assert result.trace[phases.index("solve")].fused_edges == len(result.schedule.fused_edges) > 0


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for i in range(2):
        save_schedule(tmp_path / f"{i}.json", search(NETWORKS["block"], CHIPS["tight"], exact(), Settings(3)).schedule)
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()


def test_a_search_whose_time_is_over_stops_at_once():
    def method(workload, machine, settings, incumbent):
        task = Task(workload, machine)
        task.deadline = settings.deadline
        yield from ExactSearch(task, settings, incumbent).map(4, polished=False)

    result = search(NETWORKS["block"], CHIPS["small"], method, Settings(), budget_seconds=1e-6)
    assert result.stopped == "budget"
    assert result.schedule == result.greedy.schedule


def test_hints_are_climbed_from_and_remembered():
    def method(workload, machine, settings, incumbent):
        steps = ExactSearch(Task(workload, machine), settings, incumbent)
        yield from steps.map(1, polished=False)
        known = dict(steps.menus)
        steps.take_hints(steps.known_starts())
        assert all(steps.menus[c].price.size > known[c].price.size for c in known if steps.task.layer(c).is_mac)
        yield from steps.fuse("decode")

    result = search(NETWORKS["products"], CHIPS["small"], method, Settings())
    assert violations(result.schedule) == []


def test_a_network_of_one_layer_reaches_its_optimum():
    workload = network(mac("a", "K4 C4 P4 Q3 R3"))
    machine = sized(GEMMINI, scratchpad=96, accumulator=16)
    result = search(workload, machine, exact(), Settings())
    assert result.best.edp_uj_cycles == pytest.approx(least_edp(workload, machine))


def test_a_network_of_sums_alone_is_searched_too():
    workload = network(add("a", "K4 P4 Q4", None, None), add("b", "K4 P4 Q4", "a", None))
    result = search(workload, GEMMINI, exact(), Settings())
    assert np.isfinite(result.best.edp_uj_cycles)
    assert len(result.schedule.fused_edges) == 1


def test_on_a_machine_that_cannot_fuse_every_layer_has_its_own_plan():
    workload = NETWORKS["products"]
    steps = ExactSearch(Task(workload, PLAIN), Settings(), incumbent=None)
    steps.enumerate_plans()
    assert [plan.group.layers for plan in steps.cuts.plans] == [("a",), ("b",), ("c",)]


def test_a_solved_layer_is_as_good_as_is_proven():
    def method(workload, machine, settings, incumbent):
        steps = ExactSearch(Task(workload, machine), settings, incumbent)
        yield from steps.map(1, polished=False)
        yield from steps.solve()

    result = search(network(mac("a", "N197 K768 C768")), load_machine("gemmini-small"), method, Settings())
    assert violations(result.schedule) == []
    assert {"map", "solve"} <= {point.phase for point in result.trace}
    climbed = [point.best_edp_uj_cycles for point in result.trace if point.phase == "map"]
    assert result.best.edp_uj_cycles <= climbed[-1]
    assert prove(result.best, 1e6, gap=0.02).gap(result.best) < 0.02


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_limits_are_kept_at_the_least_cost_of_the_objective(share):
    workload, machine = load_model("mobilenet_v1:size=32"), load_machine("gemmini-small")
    least, fast = (optimize(workload, machine, objective=objective).best for objective in ("energy", "latency"))
    limit = fast.cycles + share * (least.cycles - fast.cycles)
    within = optimize(workload, machine, objective="energy", limits=Limits(cycles=limit))
    assert within.best.cycles <= limit * (1 + 1e-9)
    assert least.energy_pj * (1 - 1e-3) <= within.best.energy_pj <= fast.energy_pj * (1 + 1e-9)
    assert within.stress[1] >= 1
    bound = prove(within.best, 5.0, "energy", stress=within.stress)
    assert 0 <= bound.gap_within(within.best, Limits(cycles=limit), "energy") < 0.5
    # The limit takes schedules away, so the bound within it is no lower.
    assert bound.gap_within(within.best, Limits(cycles=limit), "energy") <= bound.gap(within.best, "energy") + 1e-9


def test_limits_that_nothing_keeps_are_told():
    workload, machine = load_model("mobilenet_v1:size=32"), load_machine("gemmini-small")
    with pytest.raises(
        FadiffError, match=r"a latency of at most 10 cycles, the least that was found is [\d,]+: allow more"
    ):
        optimize(workload, machine, limits=Limits(cycles=10.0))
    with pytest.raises(FadiffError, match=r"an energy of at most 1 uJ"):
        optimize(workload, machine, limits=Limits(energy_pj=1e6))
    with pytest.raises(FadiffError, match="method 'random' keeps no limits: use one of exact, joint"):
        optimize(workload, machine, method="random", limits=Limits(cycles=10.0))
    with pytest.raises(FadiffError, match="the limit must be positive"):
        optimize(workload, machine, limits=Limits(cycles=0.0))


def test_limits_that_are_kept_anyway_change_nothing():
    workload, machine = NETWORKS["products"], CHIPS["small"]
    free = optimize(workload, machine)
    limits = Limits(free.best.energy_pj * 1.01, free.best.cycles * 1.01)
    assert optimize(workload, machine, limits=limits).schedule == free.schedule


def test_plans_are_listed_for_half_of_the_time_that_is_left(monkeypatch):
    clock = Clock()

    def slowly(task, sets):
        for plan in plans(task, sets):
            clock.now += 1
            yield plan

    monkeypatch.setattr(method, "plans", slowly)
    for module in (method, driver):
        monkeypatch.setattr(module, "clock", clock)
    task = Task(NETWORKS["block"], CHIPS["small"])
    steps = ExactSearch(task, Settings(deadline=clock.now + 2 * 3), Incumbent(EDP))
    with pytest.raises(OutOfTimeError, match="large groups were left out"):
        steps.enumerate_plans()
    assert len(steps.cuts.plans) == len(steps.singles) + 2
