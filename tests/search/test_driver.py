"""The driver: one budget, one incumbent that is always legal, one way to stop."""

from dataclasses import replace
from importlib import import_module

import pytest

from fadiff.cost import evaluate
from fadiff.errors import FadiffError
from fadiff.schedule import Mapping
from fadiff.search import driver, greedy
from fadiff.search.driver import (
    Incumbent,
    OutOfTimeError,
    Pace,
    Settings,
    Status,
    TracePoint,
    search,
)
from fadiff.search.objective import EDP, ENERGY, LATENCY, OBJECTIVES
from search.clock import Clock
from search.networks import GEMMINI, MACHINES, NETWORKS, dims, group, machine_with, sized

WORKLOAD = NETWORKS["feed_forward"]


def offering(*schedules):
    """A method that offers schedules one by one."""

    def method(workload, machine, settings, incumbent):
        for i, schedule in enumerate(schedules):
            incumbent.offer(schedule)
            yield Status("offer", i + 1, len(schedules))

    return method


def run(method, settings=Settings(), **rest):
    return search(WORKLOAD, GEMMINI, method, settings, **rest)


@pytest.fixture(scope="module")
def first():
    return greedy(WORKLOAD, GEMMINI)


@pytest.fixture(scope="module")
def better(first):
    """Fused as it is, the greedy schedule saves the trip of a tensor through DRAM."""
    return replace(first, groups=(group("up down"),))


@pytest.fixture(scope="module")
def illegal(better):
    """Cheaper still: whole layers in one tile of the accumulator, which does not fit."""
    mappings = {
        "up": Mapping.of(
            GEMMINI,
            {"cols": dims("K4"), "rows": dims("C4"), "accumulator": dims("K2"), "registers": dims("N7")},
        ),
        "down": Mapping.of(
            GEMMINI,
            {"cols": dims("K4"), "rows": dims("C4"), "accumulator": dims("C2"), "registers": dims("N7")},
        ),
    }
    return replace(better, mappings=mappings, machine=sized(GEMMINI, accumulator=16))


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(driver, "clock", fake)
    return fake


def test_a_search_starts_from_the_greedy_schedule(first):
    result = run(offering())
    assert result.schedule == first
    assert result.best == result.greedy == result.unfused
    assert result.found is None
    assert [point.phase for point in result.trace] == ["greedy"]
    assert result.stopped == "done"


def test_a_better_schedule_is_kept_and_a_worse_one_is_not(first, better):
    assert run(offering(better)).schedule == better
    result = run(offering(better, first))
    assert result.schedule == better
    assert result.greedy.schedule == first


def test_what_a_method_found_itself_is_told_apart_from_the_greedy_schedule(first):
    slow = replace(first, mappings={**first.mappings, "up": Mapping.of(GEMMINI, {"DRAM": dims("N7 K8 C4")})})
    result = run(offering(slow))
    assert result.schedule == first
    assert result.found.schedule == slow


def test_an_illegal_schedule_is_never_kept(illegal):
    legal = greedy(WORKLOAD, illegal.machine)
    assert evaluate(illegal).edp_uj_cycles < evaluate(legal).edp_uj_cycles
    result = search(WORKLOAD, illegal.machine, offering(illegal), Settings())
    assert result.schedule == legal
    incumbent = Incumbent(EDP)
    assert incumbent.offer(illegal) is None
    assert (incumbent.best, incumbent.unfused, incumbent.found, incumbent.offered) == (None, None, None, 1)


def test_the_best_schedule_without_fusion_is_remembered(first, better):
    slow = replace(first, mappings={**first.mappings, "up": Mapping.of(GEMMINI, {"DRAM": dims("N7 K8 C4")})})
    incumbent = Incumbent(EDP)
    for schedule in (slow, better, first):
        incumbent.offer(schedule)
    assert incumbent.best.schedule == better
    assert incumbent.unfused.schedule == first


def test_a_network_that_fits_in_no_way_is_refused():
    with pytest.raises(FadiffError, match=r"'up' fits toy in no way: .* 4 bytes of accumulator .* \(1 too few\)"):
        search(WORKLOAD, sized(GEMMINI, accumulator=3), offering(), Settings())


def test_a_machine_without_energies_is_refused():
    nothing = {memory.name: {"read_pj": 0.0, "write_pj": 0.0} for memory in GEMMINI.memories}
    with pytest.raises(FadiffError) as refused:
        search(WORKLOAD, machine_with(GEMMINI, nothing, mac_pj=0.0), offering(), Settings())
    assert str(refused.value) == "all energies of 'toy' are 0, and so is every EDP: give some pj a value above 0"


def test_the_budget_stops_a_search_between_two_steps(clock, better):
    def method(workload, machine, settings, incumbent):
        incumbent.offer(better)
        for i in range(10):
            clock.now += 4
            yield Status("step", i)

    result = run(method, budget_seconds=10)
    assert result.stopped == "budget"
    assert [point.phase for point in result.trace] == ["greedy", "step", "step", "step"]
    assert result.seconds == 12
    assert result.schedule == better


def test_a_method_that_gives_up_for_lack_of_time_was_stopped_by_the_budget(clock):
    def method(workload, machine, settings, incumbent):
        yield Status("step")
        clock.now += settings.seconds_left

    assert run(method, budget_seconds=10).stopped == "budget"


def test_a_step_that_runs_out_of_time_keeps_what_was_offered(better):
    def method(workload, machine, settings, incumbent):
        incumbent.offer(better)
        yield Status("step")
        raise OutOfTimeError

    result = run(method)
    assert result.stopped == "budget"
    assert result.schedule == better


def test_what_a_method_leaves_out_is_told(better):
    def method(workload, machine, settings, incumbent):
        incumbent.offer(better)
        yield Status("step")
        raise OutOfTimeError("the rest was left out: 3 s were left")

    result = run(method)
    assert (result.stopped, result.left_out) == ("budget", "the rest was left out: 3 s were left")
    assert run(offering(better)).left_out == ""


@pytest.mark.parametrize(("gains_at", "ends_at"), [(1, 6), (3, 7), (None, 6)])
def test_a_search_that_hardly_gains_leaves_the_time_to_the_proof(clock, better, gains_at, ends_at):
    """Of 10 s from half of them on, as soon as the last gain is half of its own time ago."""

    def method(workload, machine, settings, incumbent):
        for i in range(1, 11):
            settings.check_gain(incumbent)
            clock.now += 1
            if i == gains_at:
                incumbent.offer(better)
            yield Status("step", i)

    patient = run(method, budget_seconds=10)
    assert (patient.seconds, patient.left_out) == (10, "")
    result = run(method, budget_seconds=10, proof_follows=True)
    assert (result.stopped, result.seconds) == ("budget", ends_at)
    assert result.left_out == "the last half of its time brought less than 0.2%, so the proof has the rest"


def test_a_search_that_gains_leaves_a_tenth_to_the_proof(clock):
    def method(workload, machine, settings, incumbent):
        while True:
            clock.now += 0.5
            yield Status("step")

    result = run(method, budget_seconds=10, proof_follows=True)
    assert (result.stopped, result.seconds) == ("budget", 9)


def test_work_that_would_end_too_late_is_not_begun(clock):
    pace, done = Pace(), []

    def work(units, seconds):
        with pace.work(1010.0, units):
            clock.now += seconds
            done.append(units)

    work(2, 4.0)  # 2 s each
    work(3, 6.0)  # would end at the deadline exactly
    assert done == [2, 3]
    with pytest.raises(OutOfTimeError):
        work(1, 0.0)
    assert done == [2, 3]


def test_work_is_done_in_pieces_of_about_half_a_second(clock):
    pace, pieces = Pace(), []
    while sum(pieces) < 60:
        count = pace.piece(60 - sum(pieces))
        with pace.work(float("inf"), count):
            clock.now += 0.03125 * count
        pieces.append(count)
    assert pieces == [1, 16, 16, 16, 11]
    with pace.work(float("inf")):
        clock.now += 7
    assert pace.piece(60) == 1


def test_methods_know_how_much_time_is_left(clock):
    left = []

    def method(workload, machine, settings, incumbent):
        for _ in range(2):
            left.append(settings.seconds_left)
            clock.now += 3
            yield Status("step")

    assert run(method, budget_seconds=10).stopped == "done"
    assert left == [10, 7]
    assert Settings().seconds_left == float("inf")


def test_an_interrupt_returns_the_best_so_far(better):
    def method(workload, machine, settings, incumbent):
        incumbent.offer(better)
        yield Status("step")
        raise KeyboardInterrupt

    result = run(method)
    assert result.stopped == "interrupt"
    assert result.schedule == better
    assert len(result.trace) == 2


def test_an_interrupt_before_the_greedy_schedule_is_there_returns_a_coarse_one(first, monkeypatch):
    def growing(*_, **_settings):
        yield first
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("fadiff.search.greedy"), "growing", growing)
    result = run(offering())
    assert result.stopped == "interrupt"
    assert result.schedule == first
    assert [point.phase for point in result.trace] == ["greedy"]


def test_an_interrupt_inside_a_step_keeps_what_the_step_offered(better):
    def method(workload, machine, settings, incumbent):
        incumbent.offer(better)
        raise KeyboardInterrupt
        yield

    assert run(method).schedule == better


def test_an_interrupt_while_the_display_is_updated_is_one_too(first):
    def watch(status, incumbent, seconds):
        raise KeyboardInterrupt

    result = run(offering(first), watch=watch)
    assert result.stopped == "interrupt"
    assert result.schedule == first


def test_a_trace_tells_every_step(clock, better):
    def method(workload, machine, settings, incumbent):
        clock.now += 1
        yield Status("look", 1, 2, temperature=0.5, legal_share=0.25, restart_edp_uj_cycles=(2.0, 3.0))
        clock.now += 1
        incumbent.offer(better)
        yield Status("look", 2, 2)

    seen = []
    result = run(method, watch=lambda status, incumbent, seconds: seen.append((status.phase, status.step, seconds)))
    unfused, fused = result.greedy.edp_uj_cycles, evaluate(better).edp_uj_cycles
    assert result.trace == [
        TracePoint(0.0, "greedy", 0, None, None, unfused, None, 0),
        TracePoint(1.0, "look", 1, 0.5, 0.25, unfused, None, 0, (2.0, 3.0)),
        TracePoint(2.0, "look", 2, None, None, fused, fused, 1),
    ]
    assert seen == [("greedy", 0, 0.0), ("look", 1, 1.0), ("look", 2, 2.0)]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_every_kind_of_machine_can_be_searched(machine):
    result = search(WORKLOAD, machine, offering(), Settings())
    assert result.best.edp_uj_cycles > 0
    assert result.schedule.machine == machine


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_prices_are_the_slope_of_the_score(objective, better):
    here = evaluate(better)
    energy_price, cycle_price = OBJECTIVES[objective].weights(here)
    step = 1e-6
    for price, change in (
        (energy_price, {"energy_pj": here.energy_pj * (1 + step)}),
        (cycle_price, {"cycles": here.cycles * (1 + step)}),
    ):
        there = replace(here, **change)
        distance = sum(getattr(there, key) - getattr(here, key) for key in change)
        slope = (OBJECTIVES[objective].score(there) - OBJECTIVES[objective].score(here)) / distance
        assert slope == pytest.approx(price, rel=1e-4)


def test_scores_rank_by_their_own_measure(better):
    here = evaluate(better)
    frugal = replace(here, energy_pj=here.energy_pj / 2, cycles=here.cycles * 3)
    assert ENERGY.score(frugal) < ENERGY.score(here)
    assert LATENCY.score(frugal) > LATENCY.score(here)
    assert EDP.score(frugal) > EDP.score(here)


def test_energy_and_latency_break_ties_by_the_other(better):
    here = evaluate(better)
    assert ENERGY.score(replace(here, cycles=here.cycles / 2)) < ENERGY.score(here)
    assert LATENCY.score(replace(here, energy_pj=here.energy_pj / 2)) < LATENCY.score(here)
