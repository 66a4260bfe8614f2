"""The bound of a network: below everything that anybody finds, and not far below."""

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import pytest

from examples import SECOND_FILES
from fadiff import greedy, load_machine, optimize
from fadiff.cost import evaluate
from fadiff.hardware import Memory, Vector
from fadiff.schedule.file import read_schedule
from fadiff.search.objective import EDP, STATED
from fadiff.search.solver import program
from fadiff.search.solver.lines import Lines
from fadiff.search.solver.network_bound import Prover, prove
from fadiff.search.solver.region import weighed
from search.exhaustive import least_edp
from search.networks import FLAT, GEMMINI, add, mac, network, sized

NETWORKS = {
    "products": network(mac("a", "N4 K4 C4"), mac("b", "N4 K4 C4", "a")),
    "convolutions": network(mac("a", "K2 C2 P4 Q2 R3"), mac("b", "K2 C2 P4 Q2 R3", "a")),
    "block": network(mac("a", "K2 C2 P4 Q2"), mac("b", "K2 C2 P4 Q2 R3", "a"), add("s", "K2 P4 Q2", "b", "a")),
    "feed forward": network(mac("up", "N4 K8 C2"), mac("down", "N4 K2 C8", "up")),
}
CHIPS = {
    "tight": sized(GEMMINI, rows=2, cols=2, accumulator=16, scratchpad=24),
    "flat": sized(FLAT, lanes=2, buffer=40, spad=8),
}


def proven(near, steps=24, objective=EDP, exact_factors=False):
    """A bound after so many steps, however long they take."""
    return list(islice(Prover(near, objective, exact_factors=exact_factors).run(float("inf")), steps))[-1]


@pytest.mark.parametrize("exact", [False, True], ids=["any factors", "exact factors"])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_schedule_of_a_tiny_network_is_below_the_bound(name, chip, exact):
    workload, machine = NETWORKS[name], CHIPS[chip]
    bound = proven(evaluate(greedy(workload, machine)), exact_factors=exact)
    least = least_edp(workload, machine, exact)
    assert bound.least.exact_factors == exact
    assert bound.least.edp_uj_cycles <= least * (1 + 1e-9)
    assert bound.least.edp_uj_cycles >= bound.least.energy_pj * 1e-6 * bound.least.cycles * (1 - 1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_where_nothing_fuses_layers_are_proven_one_by_one(name):
    tight = CHIPS["tight"]
    nodes = tuple(replace(node, fuses=False) if isinstance(node, Memory) else node for node in tight.nodes)
    workload, machine = NETWORKS[name], replace(tight, nodes=nodes)
    bound, least = proven(evaluate(greedy(workload, machine))), least_edp(workload, machine)
    assert least * 0.9 < bound.least.edp_uj_cycles <= least * (1 + 1e-9)


@pytest.mark.parametrize("lanes", [1, 4])
def test_layers_with_more_work_for_the_vector_unit_are_bounded_apart(lanes):
    first, second = mac("a", "N4 K4 C4", epilogue=("softmax",)), mac("b", "N4 K4 C4", "a", epilogue=("relu",))
    workload, machine = network(first, second), replace(CHIPS["flat"], vector=Vector(lanes, 2.0))
    bound, least = proven(evaluate(greedy(workload, machine))), least_edp(workload, machine)
    assert least * 0.9 < bound.least.edp_uj_cycles <= least * (1 + 1e-9)


@pytest.mark.parametrize("path", SECOND_FILES, ids=lambda path: path.stem)
def test_no_priced_schedule_is_below_a_line_of_its_network(path, monkeypatch):
    near = evaluate(read_schedule(path)[0])
    # Whatever the schedule costs, so that a line may come to lie above it.
    monkeypatch.setattr(Lines, "loss", lambda *_: 1.0)
    monkeypatch.setattr(Lines, "target", lambda lines, weights: 2 * weighed((near.energy_pj, near.cycles), weights))
    for exact in (False, True) if near.schedule.exact_factors else (False,):
        prover = Prover(near, exact_factors=exact)
        for _ in islice(prover.run(float("inf")), 3):
            assert all(line.value > 0 for line in prover.lines.drawn.values())
        for weights, line in prover.lines.drawn.items():
            assert line.value <= weighed((near.energy_pj, near.cycles), weights) * (1 + 1e-9)


def test_bounds_only_improve_and_name_every_layer_once():
    near = evaluate(greedy(NETWORKS["block"], load_machine("gemmini-small")))
    bounds = list(islice(Prover(near).run(float("inf")), 12))
    values = [bound.least.edp_uj_cycles for bound in bounds]
    assert values == sorted(values)
    names = [name for one in bounds[-1].layers for name in one.layers]
    assert sorted(names) == ["a", "b", "s"]
    assert sum(one.cost for one in bounds[-1].layers) == pytest.approx(2)
    assert all(one.loss >= 0 for one in bounds[-1].layers)


def test_the_best_schedule_of_a_tiny_network_is_proven_to_be():
    workload, machine = NETWORKS["products"], CHIPS["flat"]
    near = optimize(workload, machine, budget_seconds=60).best
    assert near.edp_uj_cycles == pytest.approx(least_edp(workload, machine))
    assert proven(near, 60).gap(near) < 0.03


def test_a_gap_that_is_small_enough_ends_the_proof():
    near = evaluate(greedy(NETWORKS["products"], load_machine("gemmini-small")))
    assert prove(near, budget_seconds=1e6, gap=10.0).gap(near) < 10.0


def test_the_objective_says_what_is_proven_most():
    near = evaluate(greedy(NETWORKS["convolutions"], load_machine("gemmini-small")))
    edp, energy, latency = (proven(near, 12, objective).least for objective in STATED)
    assert energy.energy_pj >= max(edp.energy_pj, latency.energy_pj)
    assert latency.cycles >= max(edp.cycles, energy.cycles)
    assert edp.edp_uj_cycles >= max(energy.edp_uj_cycles, latency.edp_uj_cycles)


def test_a_proof_that_is_near_ends_where_half_of_its_walks_brought_little_and_no_other():
    near = evaluate(greedy(NETWORKS["block"], load_machine("gemmini-small")))
    prover = Prover(near)
    bounds = list(prover.run(float("inf"), near=float("inf")))
    assert prover.walks > 0
    assert list(islice(Prover(near).run(float("inf"), near=float("inf")), 1000))[-1].least == bounds[-1].least
    further = Prover(near).run(float("inf"), near=bounds[-1].gap(near) / 2)
    assert len(list(islice(further, len(bounds) + 1))) > len(bounds)


def test_a_program_whose_solver_does_not_end_in_time_leaves_a_bound_that_holds(monkeypatch):
    asked: list[float] = []

    def endless(*_, options, **__):
        asked.append(options["time_limit"])
        return SimpleNamespace(status=1)

    monkeypatch.setattr(program, "linprog", endless)
    workload, machine = NETWORKS["products"], CHIPS["flat"]
    near = evaluate(greedy(workload, machine))
    proven = prove(near, budget_seconds=5.0)
    assert 0 < proven.least.edp_uj_cycles <= least_edp(workload, machine) * (1 + 1e-9)
    assert asked
    assert all(0 < seconds <= 5.0 for seconds in asked)
