"""The genetic algorithm: its operators keep genomes valid, its populations keep the best, its runs repeat."""

from dataclasses import replace
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.cost.checked import save_schedule
from fadiff.hardware import load_machine
from fadiff.schedule.rules import violations
from fadiff.search.driver import Incumbent, Settings, search
from fadiff.search.evolutionary import genetic as genetic_module
from fadiff.search.evolutionary.breeding import Breeder, Chances
from fadiff.search.evolutionary.genetic import GeneticSettings, Island, Rates, genetic
from fadiff.search.evolutionary.genome import SHARES, STRENGTHS
from fadiff.search.greedy import greedy
from fadiff.search.objective import EDP, ENERGY, LATENCY
from fadiff.workload import DIMS
from search.evolutionary.populations import CHIP, encoding_of, random_rows, repair_of
from search.networks import GEMMINI, MACHINES, NETWORKS, add, mac, network

SMALL = GeneticSettings(islands=2, population=16, generations=20, migration=5, patience=12)


# Operators


@cache
def breeder_of(name, machine=GEMMINI, chances=Chances()):
    return Breeder(encoding_of(NETWORKS[name], machine), chances)


def before_and_after(breeder, count, changes=1.0, focus=0.0, **given):
    """Random genomes, with some genes as given, and mutants of them."""
    rows = random_rows(breeder.encoding, 0, count)
    genomes = breeder.encoding.genes(rows)
    for kind, values in given.items():
        getattr(genomes, kind)[:] = values
    return genomes, breeder.encoding.genes(breeder.mutated(np.random.default_rng(1), rows, changes, focus))


@given(
    st.sampled_from(sorted(NETWORKS)), st.sampled_from(sorted(MACHINES)), st.integers(0, 2**32 - 1),
    st.floats(1, 12), st.floats(0, 1),
)  # fmt: skip
def test_mutants_are_genomes(name, machine, seed, changes, focus):
    breeder = breeder_of(name, MACHINES[machine])
    code, random = breeder.encoding, np.random.default_rng(seed)
    rows = code.random(random, 8)
    kept = rows.copy()
    mutants = code.genes(breeder.mutated(random, rows, changes, focus))
    assert (rows == kept).all(), "parents stay as they are"
    assert (mutants.factors >= 1).all()
    assert (mutants.factors[:, ~code.is_mac] == 1).all()
    for d, dim in enumerate(DIMS):
        useless = [
            node - 1 for node in range(1, len(code.task.machine.nodes)) if node not in code.task.space.nodes[dim]
        ]
        assert (mutants.factors[:, :, useless, d] == 1).all()
    assert ((mutants.order >= 0) & (mutants.order < code.orders)).all()
    assert ((mutants.wish >= 0) & (mutants.wish <= SHARES)).all()
    assert ((mutants.strength >= 0) & (mutants.strength < STRENGTHS)).all()
    assert (mutants.strength[:, ~code.fusible] == 0).all()


@pytest.mark.parametrize(
    ("chances", "changed"),
    [
        (Chances(1, 0, 0, 0, 0), {"factors", "order"}),
        (Chances(0, 1, 0, 0, 0), {"order"}),
        (Chances(0, 0, 1, 0, 0), {"strength", "wish"}),
        (Chances(0, 0, 0, 1, 0), {"wish"}),
        (Chances(0, 0, 0, 0, 1), set()),
    ],
    ids=["move", "order", "cut", "share", "copy"],
)
def test_every_kind_of_change_changes_its_own_genes(chances, changed):
    breeder = breeder_of("feed_forward", GEMMINI, chances)
    genomes, mutants = before_and_after(breeder, 400)
    assert {field for field in genomes._fields if (getattr(mutants, field) != getattr(genomes, field)).any()} == changed


def test_a_focused_mutation_meets_one_layer():
    breeder = breeder_of("conv_chain", GEMMINI, Chances(0.8, 0.2, 0, 0, 0))
    for focus, most in ((1.0, 1), (0.0, 3)):
        genomes, mutants = before_and_after(breeder, 200, 6.0, focus)
        touched = (mutants.factors != genomes.factors).any(axis=(2, 3)) | (mutants.order != genomes.order).any(axis=2)
        assert touched.sum(axis=1).max() == most


def test_copies_come_from_layers_of_the_same_shape():
    workload = network(mac("a", "K4 C4"), mac("b", "K8 C4", "a"), mac("c", "K4 C4"), mac("d", "K4 C8", "b"))
    breeder = Breeder(encoding_of(workload, GEMMINI), Chances(0, 0, 0, 0, 1))
    genomes, mutants = before_and_after(breeder, 100)
    assert (mutants.factors[:, 0] == mutants.factors[:, 2]).all()
    for now, then in zip(mutants[:2], genomes[:2], strict=True):
        assert (now[:, [1, 3]] == then[:, [1, 3]]).all()


def test_all_layers_of_a_group_wish_the_same_more_or_less():
    breeder = breeder_of("conv_chain", GEMMINI, Chances(0, 0, 0, 1, 0))
    genomes, mutants = before_and_after(breeder, 500, strength=[STRENGTHS - 1, 0])
    touched = (mutants.wish != genomes.wish).any(axis=2)
    assert touched[:, :2].any()
    assert touched[:, 2].any()
    assert not (touched[:, :2].any(axis=1) & touched[:, 2]).any(), "the last layer is cut off from the others"


def test_children_take_whole_layers_from_either_parent():
    breeder = breeder_of("residual")
    code = breeder.encoding
    one, other = random_rows(code, 0, 300), random_rows(code, 1, 300)
    children = breeder.crossed(np.random.default_rng(0), one, other)
    mixed = 0
    for child, a, b in zip(children, one, other, strict=True):
        origins = set()
        for layer in range(4):
            mine = code.owner == layer
            assert (child[mine] == a[mine]).all() or (child[mine] == b[mine]).all()
            origins.add(bool((child[mine] == a[mine]).all()))
        mixed += len(origins) == 2
    assert mixed > 150


# Islands


def island_of(seed=0, size=12):
    breeder = breeder_of("conv_chain")
    return Island(breeder, Rates(), random_rows(breeder.encoding, 0, size), seed)


def rank(rows):
    """Some score: the sum of all genes."""
    return rows.sum(axis=1).astype(np.float64)


def test_an_island_keeps_its_fittest_each_once():
    island = island_of()
    best = np.inf
    for _ in range(10):
        rows = island.children()
        assert len({row.tobytes() for row in rows}) == len(rows)
        rows[1] = rows[0]
        best = min(best, rank(rows).min())
        island.grow(rows, rank(rows))
        kept, scores = island.fittest(12)
        assert len({row.tobytes() for row in kept}) == len(kept)
        assert scores[0] == best
        assert (np.diff(scores) >= 0).all()
        assert (scores == rank(kept)).all()


def test_an_island_welcomes_others_in_place_of_its_least_fit():
    island = island_of()
    rows = island.children()
    island.grow(rows, rank(rows))
    before = island.fittest(12)[0]
    strangers = rows[:2] * [[0], [-1]]
    for _ in range(2):
        island.welcome(strangers, rank(strangers))
        after = island.fittest(12)[0]
        assert (after == [strangers[1], strangers[0], *before[:10]]).all(), "those that are there already stay"


def test_islands_of_one_seed_breed_the_same_children():
    families = []
    for seed in (3, 3, 4):
        island = island_of(seed)
        rows = island.children()
        island.grow(rows, rank(rows))
        families.append(island.children())
    assert np.array_equal(families[0], families[1])
    assert not np.array_equal(families[0], families[2])


# The method


def found(workload, machine, own=SMALL, **settings):
    return search(workload, machine, partial(genetic, own=own), Settings(**settings))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_result_is_legal_and_no_worse_than_greedy(name):
    result = found(NETWORKS[name], CHIP)
    assert violations(result.schedule) == []
    assert result.stopped == "done"
    assert result.found.edp_uj_cycles <= result.greedy.edp_uj_cycles
    assert [point.phase for point in result.trace] == ["greedy"] + ["evolve"] * SMALL.generations


@pytest.mark.parametrize("name", ["gemmini-small", "eyeriss", "simba", "tpu-v1", "meta-proto-like-df", "nvdla-small"])
def test_it_runs_on_machines_of_every_kind(name):
    machine = load_machine(name)
    result = found(NETWORKS["residual"], machine, GeneticSettings(islands=2, population=12, generations=6))
    assert violations(result.found.schedule) == []
    assert result.found.edp_uj_cycles <= result.greedy.edp_uj_cycles * (1 + 1e-6)
    assert bool(result.found.schedule.fused_edges) <= (machine.fused_in() is not None)


def test_the_best_of_all_mappings_is_found_for_a_small_layer():
    workload = network(mac("a", "N4 K4 C2"))
    repair = repair_of(workload, CHIP)
    code = repair.encoding
    places = [(node - 1, DIMS.index(dim)) for dim in "NKC" for node in code.task.space.nodes[dim][1:]]
    every = list(product((1, 2, 4), repeat=len(places)))
    rows = random_rows(code, 0, len(every) * code.orders[0])
    genomes = code.genes(rows)
    genomes.factors[:] = 1
    for i, (node, d) in enumerate(places):
        genomes.factors[:, 0, node, d] = np.repeat(np.array(every)[:, i], code.orders[0])
    genomes.order[:, 0, 0] = np.tile(np.arange(code.orders[0]), len(every))
    best = np.exp(repair(rows).score(EDP).min()) * 1e-6
    result = found(workload, CHIP)
    assert best * (1 - 1e-6) <= result.best.edp_uj_cycles <= best * (1 + 1e-6)


def test_each_objective_is_better_at_its_own_measure():
    workload, longer = NETWORKS["conv_chain"], replace(SMALL, generations=40)
    energy, latency = (found(workload, CHIP, longer, objective=objective) for objective in (ENERGY, LATENCY))
    assert energy.best.energy_pj < energy.greedy.energy_pj
    assert latency.best.cycles < latency.greedy.cycles
    assert energy.best.energy_pj <= latency.best.energy_pj
    assert latency.best.cycles <= energy.best.cycles


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for i in range(2):
        save_schedule(tmp_path / f"{i}.json", found(NETWORKS["residual"], CHIP, seed=5).schedule)
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()


def test_the_first_population_holds_the_greedy_schedule(monkeypatch):
    begun = []

    def watched(breeder, rates, rows, seed):
        begun.append(rows)
        return Island(breeder, rates, rows, seed)

    monkeypatch.setattr(genetic_module, "Island", watched)
    workload = NETWORKS["residual"]
    next(genetic(workload, CHIP, Settings(), Incumbent(EDP), SMALL))
    code = encoding_of(workload, CHIP)
    row = code.of_schedule(greedy(workload, CHIP))[0]
    assert (begun[0][0] == row).all()
    assert [len(rows) for rows in begun] == [SMALL.population] * SMALL.islands
    assert not any((other == row).all() for rows in begun[1:] for other in rows)


def test_restarts_are_the_number_of_islands():
    own = GeneticSettings(population=8, generations=3)
    assert found(NETWORKS["residual"], CHIP, own, restarts=1).trace[-1].step == 3


def test_a_network_whose_schedules_are_soon_all_known_ends_the_search():
    result = found(network(add("a", "K2", None, None)), CHIP)
    assert result.stopped == "done"
    assert len(result.trace) < SMALL.generations
