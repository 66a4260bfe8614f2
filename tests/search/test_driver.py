"""The driver: one budget, one incumbent that is always legal, one way to stop."""

from dataclasses import replace
from functools import partial

import pytest

from fadiff.cost import evaluate
from fadiff.errors import FadiffError
from fadiff.schedule import Mapping
from fadiff.search import driver
from fadiff.search.driver import OBJECTIVES, Incumbent, Settings, Status, TracePoint, price_weights, score, search
from fadiff.search.greedy import greedy
from fadiff.search.joint import JointOptions, joint
from fadiff.workload import Dims
from search.networks import MACHINE, NETWORKS, group, mac, machine, network

WORKLOAD = NETWORKS["feed_forward"]


def offering(*schedules):
    """A method that offers schedules one by one."""

    def method(workload, hardware, settings, incumbent):
        for i, schedule in enumerate(schedules):
            incumbent.offer(schedule)
            yield Status("offer", i + 1, len(schedules))

    return method


def run(method, settings=Settings(), **rest):
    return search(WORKLOAD, MACHINE, method, settings, **rest)


@pytest.fixture(scope="module")
def first():
    return greedy(WORKLOAD, MACHINE)


@pytest.fixture(scope="module")
def better(first):
    """Fused as it is, the greedy schedule saves the trip of a tensor through DRAM."""
    return replace(first, groups=(group("up down"),))


@pytest.fixture(scope="module")
def illegal(better):
    """Cheaper still: the whole layer in one L1 tile, which does not fit."""
    mappings = dict(better.mappings)
    mappings["up"] = Mapping(spatial=Dims(K=4, C=4), l0=Dims(N=6), l1=Dims(K=2))
    mappings["down"] = Mapping(spatial=Dims(K=4, C=4), l0=Dims(N=6), l1=Dims(C=2))
    return replace(better, mappings=mappings, hardware=machine(l1_bytes=64))


class Clock:
    """Time that passes when it is told to."""

    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(driver, "time", fake)
    return fake


def test_a_search_starts_from_the_greedy_schedule(first):
    result = run(offering())
    assert result.schedule == first
    assert result.best == result.greedy == result.unfused
    assert [point.phase for point in result.trace] == ["greedy"]
    assert result.stopped == "done"


def test_a_better_schedule_is_kept_and_a_worse_one_is_not(first, better):
    assert run(offering(better)).schedule == better
    result = run(offering(better, first))
    assert result.schedule == better
    assert result.greedy.schedule == first


def test_an_illegal_schedule_is_never_kept(illegal):
    legal = greedy(WORKLOAD, illegal.hardware)
    assert evaluate(illegal).edp_uj_cycles < evaluate(legal).edp_uj_cycles
    result = search(WORKLOAD, illegal.hardware, offering(illegal), Settings())
    assert result.schedule == legal
    incumbent = Incumbent("edp")
    assert incumbent.offer(illegal) is None
    assert (incumbent.best, incumbent.unfused, incumbent.offered) == (None, None, 1)


def test_the_best_schedule_without_fusion_is_remembered(first, better):
    slow = replace(first, mappings={**first.mappings, "up": Mapping(l3=Dims(N=6, K=8, C=4))})
    incumbent = Incumbent("edp")
    for schedule in (slow, better, first):
        incumbent.offer(schedule)
    assert incumbent.best.schedule == better
    assert incumbent.unfused.schedule == first


def test_a_network_that_fits_in_no_way_is_refused():
    with pytest.raises(FadiffError, match=r"'up' fits toy in no way: .* 16 bytes of L1, 12 are there \(4 too few\)"):
        search(WORKLOAD, machine(l1_bytes=12), offering(), Settings())
    with pytest.raises(FadiffError, match="2 bytes of L2, 1 are there"):
        search(WORKLOAD, machine(l2_bytes=1), offering(), Settings())


def test_the_smallest_machine_that_fits_is_enough():
    result = search(WORKLOAD, machine(l1_bytes=16, l2_bytes=2), offering(), Settings())
    assert result.best.edp_uj_cycles > 0


def test_the_budget_stops_a_search_between_two_steps(clock, better):
    def method(workload, hardware, settings, incumbent):
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
    def method(workload, hardware, settings, incumbent):
        yield Status("step")
        clock.now += settings.seconds_left

    assert run(method, budget_seconds=10).stopped == "budget"


def test_methods_know_how_much_time_is_left(clock):
    left = []

    def method(workload, hardware, settings, incumbent):
        for _ in range(2):
            left.append(settings.seconds_left)
            clock.now += 3
            yield Status("step")

    assert run(method, budget_seconds=10).stopped == "done"
    assert left == [10, 7]
    assert Settings().seconds_left == float("inf")


def test_an_interrupt_returns_the_best_so_far(better):
    def method(workload, hardware, settings, incumbent):
        incumbent.offer(better)
        yield Status("step")
        raise KeyboardInterrupt

    result = run(method)
    assert result.stopped == "interrupt"
    assert result.schedule == better
    assert len(result.trace) == 2


def test_an_interrupt_inside_a_step_keeps_what_the_step_offered(better):
    def method(workload, hardware, settings, incumbent):
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
    def method(workload, hardware, settings, incumbent):
        clock.now += 1
        yield Status("look", 1, 2, temperature=0.5, legal_share=0.25)
        clock.now += 1
        incumbent.offer(better)
        yield Status("look", 2, 2)

    seen = []
    result = run(method, watch=lambda status, incumbent, seconds: seen.append((status.phase, status.step, seconds)))
    unfused, fused = result.greedy.edp_uj_cycles, evaluate(better).edp_uj_cycles
    assert result.trace == [
        TracePoint(0.0, "greedy", 0, None, None, unfused, None, 0),
        TracePoint(1.0, "look", 1, 0.5, 0.25, unfused, None, 0),
        TracePoint(2.0, "look", 2, None, None, fused, fused, 1),
    ]
    assert seen == [("greedy", 0, 0.0), ("look", 1, 1.0), ("look", 2, 2.0)]


def test_the_trace_of_a_real_search_only_goes_down():
    result = search(NETWORKS["residual"], MACHINE, partial(joint, options=JointOptions(descent=None)), Settings())
    edps = [point.best_edp_uj_cycles for point in result.trace]
    assert edps == sorted(edps, reverse=True)
    assert edps[0] == result.greedy.edp_uj_cycles
    assert edps[-1] == result.best.edp_uj_cycles
    assert result.trace[-1].fused_edges == len(result.schedule.fused_edges) > 0
    seconds = [point.seconds for point in result.trace]
    assert seconds == sorted(seconds)
    assert seconds[-1] <= result.seconds


def test_a_real_search_stops_at_once_when_time_is_up():
    method = partial(joint, options=JointOptions(descent=None))
    result = search(NETWORKS["residual"], MACHINE, method, Settings(), budget_seconds=1e-6)
    assert result.stopped == "budget"
    assert len(result.trace) <= 2


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_prices_are_the_slope_of_the_score(objective, better):
    here = evaluate(better)
    energy_price, cycle_price = price_weights(here, objective)
    step = 1e-6
    for price, change in (
        (energy_price, {"energy_pj": here.energy_pj * (1 + step)}),
        (cycle_price, {"cycles": here.cycles * (1 + step)}),
    ):
        there = replace(here, **change)
        distance = sum(getattr(there, key) - getattr(here, key) for key in change)
        slope = (score(there, objective) - score(here, objective)) / distance
        assert slope == pytest.approx(price, rel=1e-4)


def test_scores_rank_by_their_own_measure(better):
    here = evaluate(better)
    frugal = replace(here, energy_pj=here.energy_pj / 2, cycles=here.cycles * 3)
    assert score(frugal, "energy") < score(here, "energy")
    assert score(frugal, "latency") > score(here, "latency")
    assert score(frugal, "edp") > score(here, "edp")


def test_energy_and_latency_break_ties_by_the_other(better):
    here = evaluate(better)
    assert score(replace(here, cycles=here.cycles / 2), "energy") < score(here, "energy")
    assert score(replace(here, energy_pj=here.energy_pj / 2), "latency") < score(here, "latency")


def test_a_layer_of_ones_needs_no_search():
    assert greedy(network(mac("a", "K1")), MACHINE).mappings["a"] == Mapping(order2="GKCRSNPQ", order3="GKNPQCRS")


def test_a_machine_without_energies_is_refused():
    with pytest.raises(FadiffError) as refused:
        search(WORKLOAD, machine(pj=MACHINE.pj._make([0.0] * 5)), offering(), Settings())
    assert str(refused.value) == "all energies of 'toy' are 0, and so is every EDP: give some pj a value above 0"
