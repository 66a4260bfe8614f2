"""DOSA's method on a given machine, and the exact search without fusion."""

import time
from functools import cache, partial

import numpy as np
import pytest

from fadiff.cost.checked import save_schedule
from fadiff.hardware import load_machine
from fadiff.schedule.rules import violations
from fadiff.search.driver import Incumbent, OutOfTimeError, Settings, Status, search
from fadiff.search.greedy import greedy
from fadiff.search.layerwise import LayerwiseSettings, layerwise, layerwise_tuned
from fadiff.search.layerwise import method as method_module
from fadiff.search.layerwise.mapspace import ORDERS
from fadiff.search.layerwise.points import choose_orders, draw, rounds
from fadiff.search.objective import EDP, OBJECTIVES
from fadiff.workload import Dims
from search.layerwise.dosa import MIXED, SMALL, STARTS, space_of
from search.networks import GEMMINI, NETWORKS, add, network, sized

SHORT = LayerwiseSettings(rounds=2, steps=90, round_every=40, learning_rate=1e-2)
"""Rates a hundred times the published ones, so that few steps go far."""
TIGHT = sized(GEMMINI, accumulator=16, scratchpad=64)


class Watched(Incumbent):
    """Every schedule that is offered must be legal, and fuse nothing."""

    def offer(self, schedule):
        assert violations(schedule) == []
        assert schedule.fused_edges == ()
        return super().offer(schedule)


def offered(method, workload, machine, **settings):
    incumbent = Watched(settings.get("objective", EDP))
    incumbent.offer(greedy(workload, machine))
    incumbent.found = None
    statuses = list(method(workload, machine, Settings(**settings), incumbent))
    return incumbent, statuses


@cache
def found(name, objective="edp"):
    return offered(partial(layerwise, own=SHORT), NETWORKS.get(name, MIXED), TIGHT, objective=OBJECTIVES[objective])


@pytest.mark.parametrize("name", [*NETWORKS, "mixed"])
def test_all_that_is_offered_is_legal_and_unfused(name):
    incumbent, statuses = found(name)
    assert incumbent.offered == 1 + SHORT.rounds * 3 * STARTS
    assert [status.step for status in statuses] == [40, 80, 90] * 2
    assert all(0 <= status.legal_share <= 1 for status in statuses)


@pytest.mark.parametrize("objective", ["edp", "energy", "latency"])
def test_descent_improves_on_its_starts(objective):
    space = space_of(MIXED, TIGHT, objective)
    drawn = rounds(space, np.random.default_rng(0), greedy(MIXED, TIGHT), STARTS, SHORT.reject_over)
    starts = [start for _ in range(SHORT.rounds) for start in next(drawn)]
    best = min(choose_orders(space, space.exact, s.point[:, None], s.orders[None])[1].item() for s in starts)
    reached = found("mixed", objective)[0].found
    cost = {"edp": reached.edp_uj_cycles, "energy": reached.energy_pj * 1e-6, "latency": reached.cycles}
    assert cost[objective] < 0.99 * best


def test_mappings_stay_in_the_map_space():
    schedule = found("mixed")[0].found.schedule
    for mapping in schedule.mappings.values():
        assert mapping.factors[1] == Dims(), "the scratchpad has no loops"
        assert mapping.orders[0] in ORDERS
    assert schedule.mappings["conv"] == schedule.mappings["again"]


@pytest.mark.parametrize("name", ["eyeriss", "simba", "tpu-v1", "meta-proto-like-df", "nvdla-small"])
def test_it_runs_on_machines_of_every_kind(name, monkeypatch):
    """Wherever a descent may lead, what is offered is legal; the real one takes long to compile."""
    random = np.random.default_rng(0)

    def astray(model, fixed, state, count):
        return state._replace(variables=state.variables * np.float32(random.uniform(0.5, 2, state.variables.shape)))

    monkeypatch.setattr(method_module, "descend", astray)
    monkeypatch.setattr(method_module, "compile_in_time", lambda *_: None)
    own = LayerwiseSettings(starts=3, rounds=2, steps=2, round_every=1)
    incumbent, statuses = offered(partial(layerwise, own=own), NETWORKS["separable"], load_machine(name))
    assert [status.step for status in statuses] == [1, 2] * 2
    assert incumbent.offered == 1 + 2 * 2 * 3


def test_the_same_seed_writes_the_same_bytes(tmp_path):
    for name in "ab":
        result = search(MIXED, SMALL, partial(layerwise, own=SHORT), Settings(seed=3))
        assert result.stopped == "done"
        save_schedule(tmp_path / name, result.found.schedule)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    points = [draw(space_of(MIXED, SMALL), np.random.default_rng(seed), 1) for seed in (3, 4)]
    assert not (points[0] == points[1]).all()


def test_restarts_say_how_many_starts_a_round_has():
    own = LayerwiseSettings(starts=2, rounds=1, steps=1)
    incumbent, _ = offered(partial(layerwise, own=own), MIXED, SMALL, restarts=STARTS)
    assert incumbent.offered == 1 + STARTS


def test_a_network_of_sums_alone_has_nothing_to_map():
    workload = network(add("a", "K4 P4 Q4", None, None), add("b", "K4 P4 Q4", "a", None))
    assert offered(layerwise, workload, GEMMINI)[1] == []


def test_nothing_is_begun_after_the_deadline():
    with pytest.raises(OutOfTimeError):
        offered(layerwise, MIXED, SMALL, deadline=time.monotonic())


def test_the_tuned_search_has_eight_times_the_starts_and_fuses_nothing(monkeypatch):
    begun = []

    class Watching:
        def __init__(self, task, settings, incumbent):
            begun.append((task.workload, task.machine, task.deadline))

        def map(self, starts, *, polished):
            begun.append((starts, polished))
            return iter([Status("map")])

        def solve(self):
            return iter([Status("solve")])

        def polish(self):
            return iter([Status("polish")])

    monkeypatch.setattr(method_module, "ExactSearch", Watching)
    _, statuses = offered(layerwise_tuned, MIXED, SMALL, deadline=time.monotonic() + 1e6)
    assert begun[0][:2] == (MIXED, SMALL)
    assert begun[0][2] < float("inf"), "it keeps the budget"
    assert begun[1:] == [(128, True)]
    assert [status.phase for status in statuses] == ["map", "solve", "polish"]
