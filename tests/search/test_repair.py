"""Repair: whatever the genome says, a legal schedule comes out, and it is the one that was priced."""

import time
from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fadiff.cost import evaluate
from fadiff.cost.arrays import pack_schedule
from fadiff.schedule import Trips
from fadiff.schedule.legality import violations
from fadiff.search.deadline import OutOfTimeError
from fadiff.search.driver import OBJECTIVES, Incumbent, score
from fadiff.search.genome import STRENGTHS, Encoding, join, take
from fadiff.search.greedy import greedy
from fadiff.search.repair import Repair, offer_best
from fadiff.search.space import SLIDING_ORDERS3
from fadiff.workload import DIMS
from search.networks import MACHINE, NETWORKS, group, mac, machine, network
from search.populations import BATCH, any_machine, any_network, everything_equal, random_genomes, repair_of

SEEDS = st.integers(0, 2**32 - 1)
N, K, C = (DIMS.index(dim) for dim in "NKC")


def repaired(workload, hardware, seed, count=BATCH):
    repair = repair_of(workload, hardware)
    return repair, repair(random_genomes(repair.encoding, seed, count))


@settings(max_examples=100)
@given(any_network(), any_machine(), SEEDS)
def test_every_genome_becomes_a_legal_schedule_that_costs_what_was_priced(workload, hardware, seed):
    repair, population = repaired(workload, hardware, seed, count=6)
    for i in range(6):
        schedule = repair.schedule(population, i)
        assert violations(schedule) == []
        exact = evaluate(schedule)
        assert population.energy_pj[i] == pytest.approx(exact.energy_pj, rel=2e-6)
        assert population.cycles[i] == pytest.approx(exact.cycles, rel=2e-6)
        event(f"fused edges: {min(3, len(schedule.fused_edges))}")


@given(any_network(), any_machine(), SEEDS)
def test_what_is_repaired_stays_as_it_is(workload, hardware, seed):
    repair, population = repaired(workload, hardware, seed)
    again = repair(population.genomes)
    assert everything_equal(again.genomes, population.genomes)
    assert everything_equal(again[1:], population[1:])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_greedy_schedule_needs_no_repair(name):
    schedule = greedy(NETWORKS[name], MACHINE)
    repair = repair_of(NETWORKS[name], MACHINE)
    population = repair(repair.encoding.of_schedule(schedule))
    found = repair.schedule(population, 0)
    assert found.groups == schedule.groups
    for layer, mapping in schedule.mappings.items():
        assert replace(found.mappings[layer], order1=mapping.order1) == mapping


@pytest.mark.parametrize("name", NETWORKS)
def test_a_fused_schedule_is_its_own_repair(name):
    repair, population = repaired(NETWORKS[name], MACHINE, seed=1)
    schedules = [repair.schedule(population, i) for i in range(BATCH)]
    assert any(schedule.fused_edges for schedule in schedules)
    genomes = join([repair.encoding.of_schedule(schedule) for schedule in schedules])
    again = repair(genomes)
    assert [repair.schedule(again, i) for i in range(BATCH)] == schedules


@pytest.mark.parametrize("name", NETWORKS)
def test_seats_say_what_the_cost_model_reads_from_the_schedule(name):
    """All that fusion changes, and where layers and buffers stand, against the packing of the exact evaluator."""
    repair, population = repaired(NETWORKS[name], machine(l2_bytes=4096), seed=2)
    packed = repair.grouping.packed(population.seats)
    for i in range(BATCH):
        expected = pack_schedule(repair.schedule(population, i))
        mine = jax.tree.map(lambda values, i=i: values[..., i, :], packed)
        for found, wanted in zip(mine.fusion, expected.fusion, strict=True):
            np.testing.assert_array_equal(found, wanted)
        for found, wanted in zip(mine.placement[1:], expected.placement[1:], strict=True):
            np.testing.assert_array_equal(found, wanted)
        groups, wanted = np.asarray(mine.placement.group), np.asarray(expected.placement.group)
        np.testing.assert_array_equal(groups[:, None] == groups, wanted[:, None] == wanted)


@pytest.mark.parametrize(("strength", "fused"), [(STRENGTHS // 2 - 1, 0), (STRENGTHS // 2, 1)])
def test_edges_of_half_the_strength_or_more_are_fused(strength, fused):
    workload = NETWORKS["feed_forward"]
    repair = repair_of(workload, machine(l2_bytes=4096))
    genomes = random_genomes(repair.encoding, 0, 1)
    population = repair(genomes._replace(strength=np.array([[strength]])))
    assert len(repair.schedule(population, 0).fused_edges) == fused


def test_groups_share_what_their_layers_would():
    workload = network(mac("a", "N8 K4 C2"), mac("b", "N8 K4 C4", "a"))
    repair = repair_of(workload, machine(l2_bytes=4096))
    factors = np.ones((1, 6, 8, 2), dtype=np.int64)
    factors[0, 4] = repair.encoding.size
    factors[0, 4, N], factors[0, 5, N] = (2, 4), (4, 2)
    genomes = random_genomes(repair.encoding, 0, 1)._replace(factors=factors, strength=np.array([[STRENGTHS - 1]]))
    (found,) = repair.schedule(repair(genomes), 0).groups
    assert found in (group("a b", "N2"), group("a b", "N4")), "the legal count nearest to the mean, as equal logs go"
    factors[0, 4, N], factors[0, 5, N] = (2, 2), (4, 4)
    assert repair.schedule(repair(genomes._replace(factors=factors)), 0).groups == (group("a b", "N4"),)


@pytest.mark.parametrize(("outside", "loops"), [(0, "GNPQX"), (1, "GXNPQ")])
def test_pairs_share_the_channel_loop_where_their_genes_say_so(outside, loops):
    workload = NETWORKS["feed_forward"]
    repair = repair_of(workload, machine(l2_bytes=4096))
    factors = np.ones((1, 6, 8, 2), dtype=np.int64)
    factors[0, 4] = repair.encoding.size
    factors[0, 4, K, 0] = factors[0, 4, C, 1] = 2
    factors[0, 5, K, 0] = factors[0, 5, C, 1] = 4
    genomes = random_genomes(repair.encoding, 0, 1)._replace(
        factors=factors, strength=np.array([[STRENGTHS - 1]]), x_outside=np.array([[outside, 0]])
    )
    (found,) = repair.schedule(repair(genomes), 0).groups
    assert (found.trips, found.loops) == (Trips(X=4), loops)


def test_online_softmax_under_the_channel_loop_holds_its_sums_in_l1():
    """The consumer's outputs go inside, whatever the genome said of them."""
    workload = network(mac("qk", "N8 K8 C4", epilogue=("softmax",)), mac("av", "N8 K4 C8", "qk"))
    repair = repair_of(workload, machine(l2_bytes=4096, l1_bytes=4 * 4 * 9))
    genomes = random_genomes(repair.encoding, 0, BATCH)
    genomes.factors[:, :, K, 0] = genomes.factors[:, :, C, 1] = [1, 1, 1, 1, 1, 8]
    population = repair(genomes._replace(strength=np.full((BATCH, 1), STRENGTHS - 1)))
    schedules = [repair.schedule(population, i) for i in range(BATCH)]
    assert all(violations(schedule) == [] for schedule in schedules)
    looped = [schedule for schedule in schedules if schedule.groups[0].trips.X > 1]
    assert looped
    for schedule in looped:
        assert (schedule.mappings["av"].l2, schedule.mappings["av"].spatial.K) == (type(workload["av"].dims)(), 4)


def test_a_group_that_fits_in_no_way_is_dissolved():
    """One bank of L1 holds the sums of one layer only, and the channel loop needs those of both."""
    workload = NETWORKS["feed_forward"]
    tight = machine(l1_bytes=16, l2_bytes=1024)
    repair = repair_of(workload, tight)
    genomes = random_genomes(repair.encoding, 0, BATCH)
    genomes.factors[:, :, K, 0] = genomes.factors[:, :, C, 1] = [1, 1, 1, 1, 1, 8]
    wanted = genomes._replace(strength=np.full((BATCH, 1), STRENGTHS - 1))
    groups = [repair.grouping.groups(seats) for seats in repair.grouping.seats(wanted)]
    assert any(one[0].trips.X > 1 for one in groups)
    population = repair(wanted)
    for i in range(BATCH):
        schedule = repair.schedule(population, i)
        assert violations(schedule) == []
        if len(schedule.groups) == 2:
            assert population.genomes.strength[i, 0] < STRENGTHS // 2


def test_tiles_shrink_no_further_than_they_must():
    """Half of L2 is one prime away."""
    workload = network(mac("a", "N16 K16 C16"))
    roomy, tight = (repair_of(workload, machine(l1_bytes=4096, l2_bytes=bytes_)) for bytes_ in (512, 511))
    factors = np.ones((1, 6, 8, 1), dtype=np.int64)
    factors[0, 1, N], factors[0, 2, K], factors[0, 2, C] = 16, 16, 16
    genomes = random_genomes(roomy.encoding, 0, 1)._replace(factors=factors)
    held = roomy(genomes).genomes.factors
    assert (held == factors).all()
    shrunk = tight(genomes).genomes.factors
    assert shrunk[0, 4].prod() == 2
    assert (factors[0, 1:4] // shrunk[0, 1:4]).prod() == 2


def test_populations_of_any_size_are_priced_in_batches():
    workload = NETWORKS["residual"]
    repair = repair_of(workload, MACHINE)
    genomes = random_genomes(repair.encoding, 3, BATCH + 5)
    whole = repair(genomes)
    assert whole.genomes.individuals == BATCH + 5
    for i in (0, BATCH - 1, BATCH, BATCH + 4):
        one = repair(take(genomes, [i]))
        assert everything_equal(one.genomes, take(whole.genomes, [i]))
        assert one.energy_pj[0] == whole.energy_pj[i]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_scores_are_those_of_the_driver(objective):
    repair, population = repaired(NETWORKS["residual"], MACHINE, seed=4)
    scores = population.score(objective)
    exact = [score(evaluate(repair.schedule(population, i)), objective) for i in range(BATCH)]
    assert scores == pytest.approx(exact, rel=1e-6)


def test_only_what_is_better_is_offered():
    repair, population = repaired(NETWORKS["residual"], MACHINE, seed=5)
    scores, incumbent = population.score("edp"), Incumbent("edp")
    best = offer_best(repair, population, scores, incumbent, np.inf)
    assert best == scores.min()
    assert incumbent.best.schedule == repair.schedule(population, int(scores.argmin()))
    assert offer_best(repair, population, scores, incumbent, best) == best
    assert incumbent.offered == 1


def test_a_repair_out_of_time_says_so():
    code = Encoding(NETWORKS["residual"], MACHINE)
    late = Repair(code, BATCH, deadline=time.monotonic() - 1)
    with pytest.raises(OutOfTimeError):
        late(random_genomes(code, 0, 1))


def test_large_sizes_are_repaired_exactly():
    """Primes and products that 32-bit floating point numbers do not tell apart."""
    workload = network(mac("a", "N2147483647 K3 C2"), mac("b", "N3 K2147483645 C2"))
    repair, population = repaired(workload, machine(l2_bytes=2**26, l1_bytes=2**26), seed=6, count=8)
    assert (population.genomes.factors.prod(axis=1) == repair.encoding.size).all()
    for i in range(8):
        assert violations(repair.schedule(population, i)) == []


def test_orders_of_fused_producers_end_their_sums_on_chip():
    workload = network(mac("a", "N4 K4 C4"), mac("b", "N4 K4 C4", "a"))
    repair = repair_of(workload, machine(l2_bytes=4096))
    factors = np.ones((len(SLIDING_ORDERS3), 6, 8, 2), dtype=np.int64)
    factors[:, 4] = repair.encoding.size
    genomes = random_genomes(repair.encoding, 0, len(SLIDING_ORDERS3))._replace(
        factors=factors,
        order=np.repeat(np.arange(len(SLIDING_ORDERS3))[:, None], 2, axis=1),
        strength=np.full((len(SLIDING_ORDERS3), 1), STRENGTHS - 1),
    )
    population = repair(genomes)
    for i, order in enumerate(SLIDING_ORDERS3):
        schedule = repair.schedule(population, i)
        assert len(schedule.fused_edges) == 1
        assert schedule.mappings["a"].order3 == order.replace("CRS", "") + "CRS"
        assert schedule.mappings["b"].order3 == order, "a sink may spill"
