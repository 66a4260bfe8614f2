"""The genetic algorithm: its operators keep genomes valid, its populations keep the best, its runs repeat."""

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.cost import save_schedule
from fadiff.schedule.legality import violations
from fadiff.search import genetic as genetic_module
from fadiff.search.breeding import Breeder, Chances
from fadiff.search.conditions import Problem
from fadiff.search.driver import Incumbent, Settings, search
from fadiff.search.genetic import GeneticOptions, genetic
from fadiff.search.genome import STRENGTHS, Encoding
from fadiff.search.greedy import greedy
from fadiff.search.island import Island, Rates
from fadiff.search.space import useful_slots
from search.exhaustive import least_edp
from search.networks import MACHINE, NETWORKS, add, mac, machine, network
from search.populations import BATCH, everything_equal, random_genomes, refused_without

SEEDS = st.integers(0, 2**32 - 1)
SMALL = GeneticOptions(islands=2, population=BATCH // 2, generations=60, migration=5, patience=15)
CHIP = machine(rows=2, cols=4, l1_bytes=128, l2_bytes=100)


@cache
def breeder_of(name, chances=Chances()):
    code = Encoding(NETWORKS[name], MACHINE)
    return Breeder(code, Problem(NETWORKS[name], MACHINE), chances)


@given(st.sampled_from(sorted(NETWORKS)), SEEDS, st.floats(1, 12), st.floats(0, 1))
def test_mutants_are_genomes(name, seed, changes, focus):
    breeder = breeder_of(name)
    code, random = breeder.encoding, np.random.default_rng(seed)
    genomes = code.random(random, 8)
    kept = [genes.copy() for genes in genomes]
    mutants = breeder.mutated(random, genomes, changes, focus)
    assert everything_equal(genomes, kept), "parents stay as they are"
    assert (mutants.factors.prod(axis=1) == code.size).all()
    assert (mutants.factors[:, ~code.slots] == 1).all()
    assert ((mutants.strength >= 0) & (mutants.strength < STRENGTHS)).all()
    assert (mutants.strength[:, ~code.fusible] == 0).all()
    assert (mutants.x_outside[:, ~code.x_producer] == 0).all()


@pytest.mark.parametrize(
    ("chances", "changed"),
    [
        (Chances(1, 0, 0, 0, 0), {"factors"}),
        (Chances(0, 1, 0, 0, 0), {"order"}),
        (Chances(0, 0, 1, 0, 0), {"strength", "factors", "x_outside"}),
        (Chances(0, 0, 0, 1, 0), {"factors", "x_outside"}),
        (Chances(0, 0, 0, 0, 1), set()),
    ],
    ids=["move", "order", "cut", "share", "copy"],
)
def test_every_kind_of_change_changes_its_own_genes(chances, changed):
    breeder = breeder_of("feed_forward", chances)
    genomes = random_genomes(breeder.encoding, 0, 400)
    mutants = breeder.mutated(np.random.default_rng(1), genomes, 1.0, 0.0)
    assert {field for field in genomes._fields if (getattr(mutants, field) != getattr(genomes, field)).any()} == changed


def test_a_focused_mutation_meets_one_layer():
    breeder = breeder_of("conv_chain", Chances(0.8, 0.2, 0, 0, 0))
    genomes = random_genomes(breeder.encoding, 0, 200)
    for focus, most in ((1.0, 1), (0.0, 3)):
        mutants = breeder.mutated(np.random.default_rng(1), genomes, 6.0, focus)
        touched = (mutants.factors != genomes.factors).any(axis=(1, 2)) | (mutants.order != genomes.order)
        assert touched.sum(axis=1).max() == most


def test_copies_come_from_layers_of_the_same_shape():
    workload = network(mac("a", "K4 C4"), mac("b", "K8 C4", "a"), mac("c", "K4 C4"), mac("d", "K4 C8", "b"))
    code = Encoding(workload, MACHINE)
    breeder = Breeder(code, Problem(workload, MACHINE), Chances(0, 0, 0, 0, 1))
    genomes = random_genomes(code, 0, 100)
    mutants = breeder.mutated(np.random.default_rng(0), genomes, 1.0, 0.0)
    assert (mutants.factors[..., 0] == mutants.factors[..., 2]).all()
    assert everything_equal(
        [mutants.factors[..., [1, 3]], mutants.order[:, [1, 3]]],
        [genomes.factors[..., [1, 3]], genomes.order[:, [1, 3]]],
    )


def test_all_layers_of_a_group_share_a_factor_more_or_less():
    breeder = breeder_of("conv_chain", Chances(0, 0, 0, 1, 0))
    code = breeder.encoding
    genomes = random_genomes(code, 0, 500)
    genomes.strength[:] = [STRENGTHS - 1, 0]
    shared = genomes.factors[:, 5]
    mutants = breeder.mutated(np.random.default_rng(0), genomes, 1.0, 0.0).factors[:, 5]
    touched = (mutants != shared).any(axis=1)
    assert touched[:, :2].any()
    assert touched[:, 2].any()
    assert not (touched[:, :2].any(axis=1) & touched[:, 2]).any(), "the last layer is cut off from the others"


def test_children_take_whole_layers_from_either_parent():
    breeder = breeder_of("residual")
    code = breeder.encoding
    one, other = code.flat(random_genomes(code, 0, 300)), code.flat(random_genomes(code, 1, 300))
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


def island_of(seed=0, size=12):
    breeder = breeder_of("conv_chain")
    return Island(breeder, Rates(), breeder.encoding.flat(random_genomes(breeder.encoding, 0, size)), seed)


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
    strangers = rows[:2] * 0
    island.welcome(strangers, rank(strangers))
    after = island.fittest(12)[0]
    assert (after[:2] == 0).all()
    assert (after[2:] == before[:10]).all()


def test_islands_of_one_seed_breed_the_same_children():
    families = []
    for seed in (3, 3, 4):
        island = island_of(seed)
        rows = island.children()
        island.grow(rows, rank(rows))
        families.append(island.children())
    assert np.array_equal(families[0], families[1])
    assert not np.array_equal(families[0], families[2])


@cache
def found(name, seed=0, objective="edp"):
    return search(NETWORKS[name], CHIP, partial(genetic, options=SMALL), Settings(seed=seed, objective=objective))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_result_is_legal_and_better_than_greedy(name):
    result = found(name)
    assert violations(result.schedule) == []
    assert result.stopped == "done"
    assert result.best.edp_uj_cycles < result.greedy.edp_uj_cycles
    assert [point.phase for point in result.trace] == ["greedy"] + ["evolve"] * SMALL.generations


def test_the_best_of_all_schedules_is_found_on_a_small_network():
    workload = network(mac("a", "N4 K4 C4"), mac("b", "N4 K4 C4", "a"), mac("c", "N4 K2 C4", "b"))
    best = least_edp(workload, CHIP, useful_slots)
    result = search(workload, CHIP, partial(genetic, options=SMALL), Settings())
    assert best * (1 - 1e-9) <= result.best.edp_uj_cycles <= best * 1.01


def test_each_objective_is_better_at_its_own_measure():
    energy, latency = (found("conv_chain", 0, objective) for objective in ("energy", "latency"))
    assert energy.best.energy_pj < min(energy.greedy.energy_pj, latency.best.energy_pj)
    assert latency.best.cycles < min(latency.greedy.cycles, energy.best.cycles)


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for i in range(2):
        found.cache_clear()
        save_schedule(tmp_path / f"{i}.json", found("residual", 5).schedule)
    assert (tmp_path / "0.json").read_bytes() == (tmp_path / "1.json").read_bytes()


def test_the_first_population_holds_the_greedy_schedule(monkeypatch):
    begun = []

    def watched(breeder, rates, rows, seed):
        begun.append(rows)
        return Island(breeder, rates, rows, seed)

    monkeypatch.setattr(genetic_module, "Island", watched)
    workload = NETWORKS["residual"]
    next(genetic(workload, CHIP, Settings(), Incumbent("edp"), SMALL))
    first = Encoding(workload, CHIP).of_schedule(greedy(workload, CHIP))
    row = Encoding(workload, CHIP).flat(first)[0]
    assert (begun[0][0] == row).all()
    assert [len(rows) for rows in begun] == [SMALL.population] * SMALL.islands
    assert not any((other == row).all() for rows in begun[1:] for other in rows)


def test_restarts_are_the_number_of_islands():
    method = partial(genetic, options=GeneticOptions(population=BATCH, generations=3))
    result = search(NETWORKS["residual"], CHIP, method, Settings(restarts=1))
    assert result.trace[-1].step == 3


def test_a_network_whose_schedules_are_soon_all_known_ends_the_search():
    workload = network(add("a", "K2", None, None))
    result = search(workload, CHIP, partial(genetic, options=SMALL), Settings())
    assert result.stopped == "done"
    assert len(result.trace) < SMALL.generations


def test_without_pymoo_the_method_says_what_to_install(monkeypatch):
    sentence = refused_without(monkeypatch, "genetic", "pymoo")
    assert sentence == "method 'genetic' needs pymoo: pip install 'fadiff-scheduler[baselines]'"
