"""Points of DOSA's map space: how they are rounded, ordered, repaired and drawn."""

from dataclasses import replace
from math import floor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fadiff.cost import evaluate
from fadiff.schedule.legality import violations
from fadiff.search.driver import OBJECTIVES
from fadiff.search.greedy import greedy
from fadiff.search.layerwise.mapspace import ORDERS3, SPATIAL, T0, T1, pack_mapspace, to_schedule
from fadiff.search.layerwise.repair import repair
from fadiff.search.layerwise.rounding import choose_orders, round_point
from fadiff.search.layerwise.starts import draw, normalizers, rounds
from fadiff.workload import DIMS, Dims
from search.dosa import MIXED, SMALL, STARTS, ones, stationary
from search.networks import NETWORKS, mac, machine, network

# Rounding


def divisor_by_divisor(size: int, wishes: list[float]) -> list[int]:
    """Rounding as a person would do it: one factor after the other, trying every number."""
    left, taken = size, []
    for wish in wishes:
        whole = max(1, floor(wish + 0.5))
        ways = [n for n in range(1, left + 1) if left % n == 0]
        taken.append(min(ways, key=lambda n: (abs(n - whole), -n)))
        left //= taken[-1]
    return taken


@given(
    st.tuples(*[st.integers(1, 96)] * 8),
    st.lists(st.one_of(st.floats(-2, 99), st.integers(1, 60).map(lambda n: n / 2)), min_size=24, max_size=24),
)
@example((12, 12, 12, 12, 12, 12, 12, 12), [5.0] * 24)  # 4 and 6 are equally near
def test_rounding_goes_to_the_nearest_divisor_of_what_is_left(sizes, values):
    space = pack_mapspace(network(mac("a", " ".join(map("{}{}".format, DIMS, sizes)))), machine())
    point = np.array(values).reshape(3, 8, 1, 1) * np.ones(ones(space).shape)
    rounded = round_point(space, point)[:, :, 0, 0]
    for d, size in enumerate(sizes):
        assert rounded[:, d].tolist() == divisor_by_divisor(size, point[:, d, 0, 0].tolist())


def test_a_rounded_point_rounds_to_itself():
    space = pack_mapspace(MIXED, SMALL)
    point = draw(space, np.random.default_rng(0), 16)
    assert (round_point(space, point + 0.0) == point).all()


def test_orders_are_chosen_layer_by_layer_by_the_cost_of_the_network():
    space = pack_mapspace(MIXED, SMALL)
    point = draw(space, np.random.default_rng(1), 8)
    chosen, cost = choose_orders(space.exact, point, stationary(point))
    changed = 0
    for start in range(8):
        orders = np.zeros(point.shape[3], dtype=np.int64)
        for k in range(1 + max(space.kind)):
            tried = [np.where(np.arange(len(orders)) == k, order, orders) for order in range(len(ORDERS3))]
            edps = [evaluate(to_schedule(space, point[:, :, start], each)).edp_uj_cycles for each in tried]
            orders = tried[int(np.argmin(edps))]
        found = [
            evaluate(to_schedule(space, point[:, :, start], each)).edp_uj_cycles for each in (orders, chosen[start])
        ]
        assert found[1] == pytest.approx(found[0], rel=1e-5)
        assert cost[start] == pytest.approx(found[0], rel=1e-5)
        changed += chosen[start].any()
    assert changed > 4


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_costs_are_those_of_the_exact_evaluator(objective):
    """Identical layers, repeats and sums included. To DOSA's model a spilled sum is one word."""
    hardware = machine(l1_bytes=128, spatial_rows=("C", "R"))
    space = pack_mapspace(MIXED, hardware, objective)
    point = draw(space, np.random.default_rng(2), 8)
    for model, same in ((space.exact, hardware), (space.internal, replace(hardware, spill_words=1))):
        orders, cost = choose_orders(model, point, stationary(point))
        for start in range(8):
            found = evaluate(replace(to_schedule(space, point[:, :, start], orders[start]), hardware=same))
            expected = {"edp": found.edp_uj_cycles, "energy": found.energy_pj * 1e-6, "latency": found.cycles}
            assert cost[start] == pytest.approx(expected[objective], rel=1e-5)


# Repair


@given(st.integers(0, 10**6), st.sampled_from([*NETWORKS, "mixed"]), st.sampled_from([(128, 200), (64, 64), (32, 24)]))
def test_a_repaired_point_is_legal_and_only_smaller(seed, name, capacity):
    hardware = machine(l1_bytes=capacity[0], l2_bytes=capacity[1])
    workload = NETWORKS.get(name, MIXED)
    space = pack_mapspace(workload, hardware)
    # Twice the array that there is, so that spatial factors must shrink too.
    wide = draw(pack_mapspace(workload, machine(rows=8, cols=8)), np.random.default_rng(seed), 2)
    repaired = repair(space, wide, stationary(wide))
    assert (wide % repaired == 0).all()
    for start in range(2):
        assert violations(to_schedule(space, repaired[:, :, start], stationary(wide)[start])) == []
    assert (repair(space, repaired, stationary(wide)) == repaired).all()


def test_repair_takes_the_cheapest_way():
    """One prime too many in L1: of the factors of the output tile, the one goes out that costs the layer least."""
    space = pack_mapspace(network(mac("a", "K8 C4 P6 Q4")), machine(l1_bytes=400))
    point = ones(space)
    point[SPATIAL, [2, 3], 0, 0] = 4
    point[T0, 4, 0, 0], point[T1, 5, 0, 0], point[T1, 2, 0, 0] = 6, 4, 2
    assert violations(to_schedule(space, point[:, :, 0], stationary(point)[0]))
    ways = []
    for slot, dim, prime in ((T0, 4, 2), (T1, 5, 2), (T1, 2, 2)):
        less = point.copy()
        less[slot, dim] //= prime
        schedule = to_schedule(space, less[:, :, 0], stationary(less)[0])
        if not violations(schedule):
            ways.append((evaluate(schedule).edp_uj_cycles, less))
    repaired = repair(space, point, stationary(point))
    assert len(ways) > 1
    assert (repaired[..., 0] == min(ways, key=lambda way: way[0])[1][..., 0]).all()


# Starts


def test_starts_are_legal_and_fill_the_array():
    space = pack_mapspace(MIXED, SMALL)
    found = rounds(space, np.random.default_rng(0), greedy(MIXED, SMALL), STARTS, 10)
    first, second = next(found), next(found)
    assert first.point.shape[2] == second.point.shape[2] == STARTS
    for starts in (first, second):
        assert (starts.cost <= 10 * first.cost.min()).all()
        for start in range(STARTS):
            assert violations(to_schedule(space, starts.point[:, :, start], starts.orders[start])) == []
    assert not (first.point == second.point).all()
    spatial = draw(space, np.random.default_rng(0), 1)[SPATIAL, :, 0]
    # Columns take K before G; 6 and 10 input channels leave 3 and 2 of 4 rows.
    assert [tuple(spatial[[0, 2, 3], k]) for k in (0, 1, 2)] == [(1, 4, 3), (4, 1, 1), (1, 4, 2)]


def test_a_start_over_ten_times_the_best_is_rejected():
    space = pack_mapspace(MIXED, SMALL)
    every = next(rounds(space, np.random.default_rng(0), greedy(MIXED, SMALL), STARTS, np.inf))
    least = float(every.cost.max() / every.cost.min())
    strict = next(rounds(space, np.random.default_rng(0), greedy(MIXED, SMALL), STARTS, 0.8 * least))
    assert (strict.cost <= 0.8 * least * strict.cost.min()).all()
    assert strict.cost.max() < every.cost.max()


def test_where_too_few_starts_are_good_the_best_of_the_others_are_taken():
    space = pack_mapspace(MIXED, SMALL)
    starts = next(rounds(space, np.random.default_rng(0), greedy(MIXED, SMALL), STARTS, 1.0))
    assert (np.diff(starts.cost) >= 0).all()
    assert starts.point.shape[2] == STARTS


def test_the_first_start_is_the_greedy_schedule_without_loops_at_l2():
    space = pack_mapspace(MIXED, SMALL)
    schedule = greedy(MIXED, SMALL)
    first = next(rounds(space, np.random.default_rng(0), schedule, STARTS, np.inf))
    mapping = to_schedule(space, first.point[:, :, 0], first.orders[0]).mappings["fc"]
    assert mapping.l2 == Dims()
    assert mapping.spatial == schedule.mappings["fc"].spatial


def test_normalizers_are_the_largest_values_of_a_sample():
    space = pack_mapspace(MIXED, SMALL)
    units = normalizers(space, np.random.default_rng(0))[..., 0, 0]
    assert units[SPATIAL].tolist() == [4, 1, 4, 3, 1, 1, 1, 1]
    assert units[T0].tolist() == [1, 12, 1, 1, 8, 6, 1, 1]
    assert units[T1].tolist() == [2, 12, 2, 5, 8, 6, 3, 3]
