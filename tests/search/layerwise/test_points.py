"""Points of DOSA's map space: how they are rounded, ordered, repaired and drawn, on any machine."""

from dataclasses import replace
from math import floor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fadiff.cost import evaluate
from fadiff.schedule.rules import violations
from fadiff.search.greedy import greedy
from fadiff.search.layerwise.mapspace import ORDERS, to_schedule
from fadiff.search.layerwise.points import choose_orders, draw, normalizers, repair, round_point, rounds
from fadiff.search.objective import OBJECTIVES
from fadiff.workload import DIMS, Dims
from search.layerwise.dosa import MIXED, SMALL, STARTS, ones, place, space_of, stationary
from search.networks import EYERISS, GEMMINI, MACHINES, NETWORKS, mac, network, sized

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


@settings(max_examples=50)
@given(
    st.sampled_from(sorted(MACHINES)),
    st.tuples(*[st.integers(1, 96)] * 8),
    st.lists(st.one_of(st.floats(-2, 99), st.integers(1, 60).map(lambda n: n / 2)), min_size=40, max_size=40),
)
@example("toy", (12,) * 8, [5.0] * 40)  # 4 and 6 are equally near
def test_rounding_goes_to_the_nearest_divisor_of_what_is_left(machine, sizes, values):
    space = space_of(network(mac("a", " ".join(map("{}{}".format, DIMS, sizes)))), MACHINES[machine])
    point = np.resize(values, len(space.exact.free))[:, None, None] * np.ones(ones(space).shape)
    rounded = round_point(space, point)[:, 0, 0]
    for d, size in enumerate(sizes):
        mine = [i for i, (_, dim) in enumerate(space.exact.free) if dim == d]
        assert rounded[mine].tolist() == divisor_by_divisor(size, point[mine, 0, 0].tolist())


def test_a_rounded_point_rounds_to_itself():
    space = space_of(MIXED, EYERISS)
    point = draw(space, np.random.default_rng(0), 16)
    assert (round_point(space, point + 0.0) == point).all()


# Costs and orders


@pytest.mark.parametrize("machine", MACHINES)
def test_costs_are_those_of_the_exact_evaluator(machine):
    """Identical layers, repeats and sums included. To DOSA's model a spilled sum is as wide as an output."""
    given = MACHINES[machine]
    narrow = replace(given, bits=replace(given.bits, spilled=given.bits.O))
    for objective in OBJECTIVES:
        space = space_of(MIXED, given, objective)
        point = draw(space, np.random.default_rng(2), 3)
        for model, same in ((space.exact, given), (space.internal, narrow)):
            orders, cost = choose_orders(space, model, point, stationary(point))
            for start in range(3):
                found = evaluate(replace(to_schedule(space, point[:, start], orders[start]), machine=same))
                expected = {"edp": found.edp_uj_cycles, "energy": found.energy_pj * 1e-6, "latency": found.cycles}
                expected["ed2p"] = found.edp_uj_cycles * found.cycles
                assert cost[start] == pytest.approx(
                    expected[objective], rel=1e-2 if OBJECTIVES[objective].one_sided else 1e-9
                )


def test_orders_are_chosen_layer_by_layer_by_the_cost_of_the_network():
    space = space_of(MIXED, SMALL)
    point = draw(space, np.random.default_rng(1), 4)
    chosen, cost = choose_orders(space, space.exact, point, stationary(point))
    changed = 0
    for start in range(4):
        orders = np.zeros(point.shape[2], dtype=np.int64)
        for k in range(1 + max(space.kind)):
            tried = [np.where(np.arange(len(orders)) == k, order, orders) for order in range(len(ORDERS))]
            edps = [evaluate(to_schedule(space, point[:, start], each)).edp_uj_cycles for each in tried]
            orders = tried[int(np.argmin(edps))]
        found = [evaluate(to_schedule(space, point[:, start], each)).edp_uj_cycles for each in (orders, chosen[start])]
        assert found[1] == pytest.approx(found[0], rel=1e-9)
        assert cost[start] == pytest.approx(found[0], rel=1e-9)
        changed += chosen[start].any()
    assert changed > 2


# Repair


@pytest.mark.parametrize("machine", MACHINES)
def test_a_repaired_point_is_legal_and_only_smaller(machine):
    for workload in (*NETWORKS.values(), MIXED):
        space = space_of(workload, MACHINES[machine])
        drawn = draw(space, np.random.default_rng(3), 2)
        # Lanes twice as many as there are, so that they must shrink too.
        is_axis = np.array([node in space.exact.structure.axes for node, _ in space.exact.free])
        wide = round_point(space, drawn * (1.0 + is_axis[:, None, None]))
        repaired = repair(space, wide, stationary(wide))
        assert (wide % repaired == 0).all()
        for start in range(2):
            assert violations(to_schedule(space, repaired[:, start], stationary(wide)[start])) == []
        assert (repair(space, repaired, stationary(wide)) == repaired).all()


def test_repair_takes_the_cheapest_way():
    """One prime too many in the sums: of the factors of the output tile, the one goes out that costs least."""
    space = space_of(network(mac("a", "K8 C4 P6 Q4")), sized(GEMMINI, accumulator=100))
    point = ones(space)
    for node, dim, factor in (
        ("cols", "K", 4), ("rows", "C", 4), ("registers", "P", 6), ("registers", "Q", 4), ("accumulator", "K", 2)
    ):  # fmt: skip
        point[place(space, node, dim)] = factor
    assert violations(to_schedule(space, point[:, 0], stationary(point)[0]))
    ways = []
    for node, dim in (("registers", "P"), ("registers", "Q"), ("accumulator", "K")):
        less = point.copy()
        less[place(space, node, dim)] //= 2
        schedule = to_schedule(space, less[:, 0], stationary(less)[0])
        if not violations(schedule):
            ways.append((evaluate(schedule).edp_uj_cycles, less))
    assert len(ways) > 1
    expected = min(ways, key=lambda way: way[0])[1]
    assert (repair(space, point, stationary(point))[:, :, 0] == expected[:, :, 0]).all()


# Starts


def first_round(space, schedule, reject_over):
    return next(rounds(space, np.random.default_rng(0), schedule, STARTS, reject_over))


def test_the_first_start_is_the_greedy_schedule_without_loops_of_the_scratchpad():
    space, schedule = space_of(MIXED, SMALL), greedy(MIXED, SMALL)
    first = first_round(space, schedule, np.inf)[0]
    mapping = to_schedule(space, first.point, first.orders).mappings["fc"]
    assert mapping.factors[1] == Dims()
    assert mapping.factors[2] == schedule.mappings["fc"].factors[2]


def test_starts_fill_the_lanes_as_far_as_sizes_allow():
    space = space_of(MIXED, SMALL)
    drawn = draw(space, np.random.default_rng(0), 4)
    lanes = {dim: drawn[place(space, node, dim), :, :3] for node, dim in (("cols", "G"), ("cols", "K"), ("rows", "C"))}
    # Of 10 input channels 4 would unroll over 4 rows, and 5 is the divisor nearest to it: repair takes it back.
    assert {dim: sorted(set(values.ravel().tolist())) for dim, values in lanes.items()} == {
        "G": [1, 4], "K": [1, 4], "C": [1, 3, 5]
    }  # fmt: skip


def test_a_start_over_ten_times_the_best_is_rejected():
    space, schedule = space_of(MIXED, SMALL), greedy(MIXED, SMALL)
    every = [start.cost for start in first_round(space, schedule, np.inf)]
    least = max(every) / min(every)
    strict = [start.cost for start in first_round(space, schedule, 0.8 * least)]
    assert len(strict) == STARTS
    assert max(strict) <= 0.8 * least * min(strict)


def test_where_too_few_starts_are_good_the_best_of_the_others_are_taken():
    costs = [start.cost for start in first_round(space_of(MIXED, SMALL), greedy(MIXED, SMALL), 1.0)]
    assert costs == sorted(costs)
    assert len(costs) == STARTS


def test_normalizers_are_the_largest_values_that_factors_may_have():
    space = space_of(MIXED, SMALL)
    units = dict(zip(space.exact.free, normalizers(space).ravel().tolist(), strict=True))
    number = SMALL.number
    found = {(node, dim): units[number[node], DIMS.index(dim)] for node, dim in (
        ("cols", "G"), ("cols", "K"), ("rows", "C"), ("registers", "N"), ("registers", "P"), ("registers", "Q"),
        ("accumulator", "K"), ("accumulator", "C"), ("accumulator", "R"),
    )}  # fmt: skip
    assert list(found.values()) == [4, 4, 4, 12, 8, 6, 2, 3, 3]
