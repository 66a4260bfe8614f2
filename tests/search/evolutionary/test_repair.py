"""Repair: any genome becomes a legal schedule near it, and costs what the exact evaluator says."""

import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fadiff.cost import evaluate
from fadiff.hardware import builtin_machines, load_machine
from fadiff.schedule import Trips
from fadiff.search.driver import Incumbent, OutOfTimeError, Settings
from fadiff.search.evolutionary.genome import SHARES, STRENGTHS, Encoding
from fadiff.search.evolutionary.repair import Judge, Repair
from fadiff.search.exact.conditions import Task
from fadiff.search.objective import EDP, OBJECTIVES
from fadiff.workload import DIMS, load_model
from oracle import schedules as oracle
from search.evolutionary.populations import CHIP, random_rows, repair_of, schedules, tight_machine
from search.networks import GEMMINI, MACHINES, NETWORKS, mac, network, sized

BATCH = 32


def repaired(workload, machine, seed=0, count=BATCH):
    repair = repair_of(workload, machine)
    return repair, repair(random_rows(repair.encoding, seed, count))


def fused(repair, count=BATCH, seed=0, **wishes):
    """Random genomes whose edges are all strong, with some wishes (by place) the same in all layers."""
    rows = random_rows(repair.encoding, seed, count)
    genomes = repair.encoding.genes(rows)
    for place, value in wishes.items():
        genomes.wish[..., int(place[1:])] = value
    genomes.strength[:, repair.encoding.fusible] = STRENGTHS - 1
    return rows


# Every genome is legal


def check(repair, rows):
    """What comes out is legal, was priced as it is, and stays as it is when it is repaired again."""
    given = rows.copy()
    population = repair(rows)
    assert np.array_equal(rows, given)
    for i, schedule in enumerate(schedules(repair, population)):
        exact = evaluate(schedule)
        assert population.energy_pj[i] == pytest.approx(exact.energy_pj, rel=1e-5)
        assert population.cycles[i] == pytest.approx(exact.cycles, rel=1e-5)
    again = repair(population.rows)
    assert np.array_equal(again.rows, population.rows)
    assert np.array_equal(again.seats, population.seats)
    return population


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("machine", MACHINES)
def test_any_genome_becomes_a_legal_schedule_and_stays_it(name, machine):
    repair = repair_of(NETWORKS[name], MACHINES[machine])
    check(repair, random_rows(repair.encoding, 1, 6))
    check(repair, fused(repair, 6))


@settings(max_examples=40)
@given(st.sampled_from(sorted(oracle.KINDS)), st.integers(0, 10**6))
@example("channel_loop", 3)
def test_any_genome_is_legal_on_any_machine(kind, seed):
    """Random networks on random machines of two to six memories, which often hold no more than one value each."""
    repair = Repair(Encoding(Task(oracle.draw(kind, seed).workload, tight_machine(seed))))
    check(repair, random_rows(repair.encoding, seed, 6))
    check(repair, fused(repair, 3, seed))


@pytest.mark.parametrize("machine", builtin_machines())
def test_any_genome_is_legal_on_every_machine_of_the_catalog(machine):
    repair = Repair(Encoding(Task(load_model("mobilenet_v1"), load_machine(machine))))
    population = check(repair, random_rows(repair.encoding, 0, 3))
    fuses = load_machine(machine).fused_in() is not None
    assert any(schedule.fused_edges for schedule in schedules(repair, population)) == fuses


def test_programs_and_functions_find_the_same(compiled):
    repair = Repair(Encoding(Task(NETWORKS["residual"], CHIP)))
    rows = random_rows(repair.encoding, 4, BATCH)
    found = check(repair, rows)
    with pytest.MonkeyPatch.context() as patch:
        from fadiff.search.evolutionary import fitting

        for name in ("examine", "relieve", "price"):
            patch.setattr(fitting, name, getattr(fitting, name).__wrapped__)
        patch.setattr(fitting, "compile_in_time", lambda *_: None)
        other = Repair(repair.encoding)(rows)
    assert np.array_equal(found.rows, other.rows)
    assert found.energy_pj == pytest.approx(other.energy_pj, rel=1e-5)
    assert found.cycles == pytest.approx(other.cycles, rel=1e-5)


# What repair keeps


def test_a_genome_that_fits_stays_as_it_is():
    roomy = sized(GEMMINI, scratchpad=2**20, accumulator=2**16)
    repair = repair_of(network(mac("a", "N12 K8 C6")), roomy)
    rows = random_rows(repair.encoding, 0, BATCH)
    lanes = repair.encoding.genes(rows).factors[:, 0].prod(axis=2)
    fits = (lanes[:, 1] <= 4) & (lanes[:, 3] <= 4)
    assert fits.sum() > 3
    assert (repair(rows).rows == rows)[fits].all()


def unmapped(code):
    """A genome without loops below the first memory, and its factors."""
    rows = random_rows(code, 0, 1)
    factors = code.genes(rows).factors
    factors[:] = 1
    return rows, factors


def test_tiles_shrink_no_further_than_they_must():
    """One byte less, and half of the scratchpad is given up."""
    workload = network(mac("a", "N16 K16 C16"))
    roomy, tight = (repair_of(workload, sized(GEMMINI, scratchpad=size, accumulator=4096)) for size in (512, 511))
    rows, factors = unmapped(roomy.encoding)
    for node, dim in ((5, "N"), (3, "K"), (3, "C")):
        factors[0, 0, node - 1, DIMS.index(dim)] = 16
    kept, shrunk = (repair.encoding.genes(repair(rows).rows).factors for repair in (roomy, tight))
    assert (kept == factors).all()
    assert (factors // shrunk).prod() == 2


def test_lanes_that_are_not_there_become_loops_outside():
    repair = repair_of(network(mac("a", "K16 C16 P2")), sized(GEMMINI, scratchpad=4096, accumulator=256))
    rows, factors = unmapped(repair.encoding)
    factors[0, 0, 1, DIMS.index("K")] = 16  # cols has 4 lanes
    found = repair.encoding.genes(repair(rows).rows).factors[0, 0]
    assert found[[1, 0], DIMS.index("K")].tolist() == [4, 4], "loops of the scratchpad, the next memory further out"


# Groups


def test_runs_are_split_at_their_weakest_edge():
    """The last layer needs whole images: of those before it only one fits on chip."""
    layers = [mac("a", "K2 C2 P4 Q4"), mac("b", "K2 C2 P4 Q4", "a"), mac("c", "K2 C2 P4 Q4", "b")]
    workload = network(*layers, mac("d", "K2 C2 P4 Q4", "c", epilogue=("flatten",)))
    repair = repair_of(workload, sized(GEMMINI, scratchpad=50))
    rows = fused(repair, 3, **{f"w{i}": 0 for i in range(6)})
    np.fill_diagonal(repair.encoding.genes(rows).strength, STRENGTHS // 2)
    population = repair(rows)
    found = schedules(repair, population)
    assert [[len(one.layers) for one in schedule.groups] for schedule in found] == [[1, 1, 2], [2, 2], [3, 1]]
    strong = repair.encoding.genes(population.rows).strength >= STRENGTHS // 2
    assert strong.tolist() == [[schedule.is_fused(edge) for edge in workload.edges] for schedule in found]


def test_trips_are_the_legal_ones_nearest_to_what_layers_wish():
    repair = repair_of(network(mac("a", "N16 K4 C4"), mac("b", "N16 K4 C4", "a")), sized(GEMMINI, scratchpad=4096))
    for wish, trips in ((0, 1), (SHARES // 2, 4), (SHARES, 16)):
        for schedule in schedules(repair, repair(fused(repair, 4, w0=0, w1=wish, w2=0, w3=0, w4=0))):
            assert [one.trips for one in schedule.groups] == [Trips(N=trips)]


@pytest.mark.parametrize(("outside", "loops"), [(0, "GNPQX"), (1, "GXNPQ")])
def test_pairs_share_the_channel_loop_where_they_wish(outside, loops):
    repair = repair_of(NETWORKS["feed_forward"], sized(GEMMINI, scratchpad=4096, accumulator=512))
    rows = fused(repair, 4, w0=0, w1=0, w2=0, w3=0, w4=5, w5=outside)
    for schedule in schedules(repair, repair(rows)):
        assert [(one.trips, one.loops) for one in schedule.groups] == [(Trips(X=4), loops)]


FLASH = network(mac("qk", "N8 K8 C4", epilogue=("softmax",)), mac("av", "N8 K4 C8", "qk"))
"""Scores that only an online softmax can take in parts, and their product with values."""


def test_online_softmax_under_the_channel_loop_holds_its_sums():
    """The consumer's loops over outputs go inside, whatever the genome said of them."""
    repair = repair_of(FLASH, sized(GEMMINI, scratchpad=4096, accumulator=256))
    for schedule in schedules(repair, repair(fused(repair, w0=0, w1=0, w2=0, w3=0, w4=5, w5=0))):
        assert [one.trips for one in schedule.groups] == [Trips(X=4)]
        first, scratchpad, *_ = schedule.mappings["av"].factors
        assert (first.N, first.K, scratchpad.N, scratchpad.K) == (1, 1, 1, 1)


def test_a_group_that_fits_in_no_way_is_dissolved():
    """A bank holds one sum, and the consumer has at least eight to hold in each."""
    repair = repair_of(FLASH, sized(GEMMINI, scratchpad=4096, accumulator=4))
    rows = fused(repair, w0=0, w1=0, w2=0, w3=0, w4=5, w5=0)
    seats = repair.grouping.seats(repair.encoding.genes(rows))
    wanted = [repair.grouping.groups(mine) for mine in seats]
    assert all(one[0].trips.X > 1 for one in wanted)
    population = repair(rows)
    assert all(len(schedule.groups) == 2 for schedule in schedules(repair, population))
    assert (repair.encoding.genes(population.rows).strength < STRENGTHS // 2).all()


def test_fused_producers_end_their_sums_on_chip():
    workload = network(mac("a", "N4 K4 C8"), mac("b", "N4 K4 C4", "a"))
    repair = repair_of(workload, sized(GEMMINI, scratchpad=4096))
    orders = repair.task.space.orders[0]
    rows = fused(repair, len(orders), w0=0, w1=0, w2=0, w3=0, w4=0)
    genomes = repair.encoding.genes(rows)
    genomes.factors[:], genomes.order[:] = 1, 0
    genomes.order[:, :, 0] = np.arange(len(orders))[:, None]
    for schedule, order in zip(schedules(repair, repair(rows)), orders, strict=True):
        assert len(schedule.fused_edges) == 1
        assert schedule.mappings["a"].orders[0] == order.replace("CRS", "") + "CRS"
        assert schedule.mappings["b"].orders[0] == order, "a sink may spill"


# Populations


def test_populations_of_any_size_are_fitted_in_chunks():
    workload = NETWORKS["residual"]
    repair = repair_of(workload, GEMMINI)
    rows = random_rows(repair.encoding, 3, 2 * BATCH + 25)
    whole = repair(rows)
    assert whole.rows.shape == rows.shape
    for i in (0, BATCH, 2 * BATCH + 24):
        one = repair(rows[[i]])
        assert (one.rows[0] == whole.rows[i]).all()
        assert one.energy_pj[0] == pytest.approx(whole.energy_pj[i], rel=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_scores_are_those_of_the_driver(objective):
    repair, population = repaired(NETWORKS["residual"], GEMMINI, seed=4)
    exact = [objective.score(evaluate(schedule)) for schedule in schedules(repair, population)]
    assert population.score(objective) == pytest.approx(exact, rel=1e-6)


def test_only_what_is_better_is_offered():
    incumbent = Incumbent(EDP)
    judge = Judge(NETWORKS["residual"], GEMMINI, Settings(), incumbent)
    drawn = random_rows(judge.encoding, 5, BATCH)
    population = judge.repair(drawn)
    expected = population.score(EDP)
    for _ in range(2):
        rows, scores = judge(drawn)
        assert (rows == population.rows).all()
        assert (scores == expected).all()
        assert judge.best == expected.min()
        assert incumbent.best.schedule == judge.repair.schedule(population, int(expected.argmin()))
    assert incumbent.offered == 1


def test_nothing_is_begun_after_the_deadline():
    code = Encoding(Task(NETWORKS["residual"], GEMMINI, deadline=time.monotonic() - 1))
    with pytest.raises(OutOfTimeError):
        Repair(code)(random_rows(code, 0, 1))


def test_a_program_that_cannot_be_compiled_in_time_is_not_run(monkeypatch):
    from fadiff.search.evolutionary import fitting

    def refuse(what, deadline, nodes, program, *args):
        assert (deadline, nodes) == (code.task.deadline, len(GEMMINI.nodes))
        raise OutOfTimeError(what)

    monkeypatch.setattr(fitting, "compile_in_time", refuse)
    code = Encoding(Task(NETWORKS["residual"], GEMMINI, deadline=time.monotonic() + 1e6))
    with pytest.raises(OutOfTimeError, match="repairing schedules"):
        Repair(code)(random_rows(code, 0, 1))


def test_large_sizes_are_repaired_too():
    """Products that 32-bit numbers do not tell apart."""
    workload = network(mac("a", "N16777213 K3 C2"), mac("b", "N3 K16777213 C2"))
    repair, population = repaired(workload, sized(GEMMINI, scratchpad=2**26, accumulator=2**26), seed=6, count=8)
    assert len(schedules(repair, population)) == 8
