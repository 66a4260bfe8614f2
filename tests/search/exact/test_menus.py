"""Menus: starts that cover a layer, and several mappings each, trading room for energy and time."""

from math import prod

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.hardware import load_machine
from fadiff.search import greedy
from fadiff.search.driver import OutOfTimeError
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.menus import (
    LITTLE_ROOM,
    THRIFT,
    Row,
    alone,
    climbed_from,
    fitted,
    grouped,
    join,
    size_of,
    solve,
    start_from,
    started,
    starts_of,
    subset,
)
from fadiff.search.exact.plans import Members
from fadiff.search.exact.starts import Start, dealt_array, full_array, outermost, pinned, scattered
from fadiff.search.objective import EDP
from fadiff.search.space import settle
from fadiff.workload import load_model
from search.exact.rows import GROUPS, conditions_in
from search.networks import GEMMINI, MACHINES, NETWORKS, at_dram, sized


@pytest.mark.parametrize(
    "machine", [m for m in MACHINES.values() if m.name != "plain"], ids=lambda machine: machine.name
)
def test_every_start_keeps_within_the_lanes(machine):
    random = np.random.default_rng(0)
    for name, one in GROUPS:
        task = Task(NETWORKS[name], machine)
        for condition in conditions_in(task, at_dram(NETWORKS[name], machine, one)).values():
            tile = np.array(condition.tile)
            for start in (full_array(task, condition), pinned(task, condition), scattered(task, condition, random)):
                factors = settle(start.factors, tile)
                assert (factors == np.rint(factors)).all()
                for node, axis in zip(machine.structure.axes, machine.axes, strict=True):
                    assert prod(factors[node]) <= axis.size
                    assert all(f == 1 or dim in axis.dims for f, dim in zip(factors[node], "GNKCPQRS", strict=True))


def test_a_full_array_takes_the_fewest_lanes_for_its_number_of_trips():
    task = Task(NETWORKS["conv_chain"], sized(GEMMINI, cols=4))
    start = full_array(task, task.alone("c"))
    assert start.factors[2].tolist() == [1, 1, 3, 1, 1, 1, 1, 1], "6 channels take two turns of 3 lanes, not of 4"


def test_pinned_weights_are_all_at_home():
    task = Task(NETWORKS["conv_chain"], GEMMINI)
    condition = task.alone("b")
    factors = settle(pinned(task, condition).factors, np.array(condition.tile))
    held = factors[1:].prod(axis=0)
    dims = dict(zip("GNKCPQRS", held, strict=True))
    assert (dims["K"], dims["C"], dims["R"], dims["S"]) == (4, 4, 3, 3)


def test_layers_alone_get_the_best_of_many_climbs_and_a_second_where_climbs_end_at_different_prices():
    task = Task(NETWORKS["separable"], GEMMINI)
    weights = EDP.weights(evaluate(greedy(task.workload, GEMMINI)))
    menus = alone(task, [task.alone("dw"), task.alone("pw")], weights, seed=0, starts=8)
    assert {size_of(menu) for menu in menus.values()} == {1, 2}
    for condition, menu in menus.items():
        price = weights[0] * menu.energy_pj + weights[1] * menu.cycles
        assert (np.diff(price) > 0).all(), "two that cost the same would be as good as one"
        one = solve(task, [Row(condition, full_array(task, condition), task.all_room)], weights, pairs=False)
        assert price[0] <= (weights[0] * one.energy_pj + weights[1] * one.cycles)[0]


def test_where_not_even_a_full_array_fits_one_lane_does():
    task = Task(NETWORKS["conv_chain"], sized(GEMMINI, scratchpad=2, accumulator=4))
    condition = task.alone("b")
    full = solve(task, [Row(condition, full_array(task, condition), task.all_room)], (1.0, 1.0), pairs=False)
    assert np.isinf(full.price).all()
    menu = alone(task, [condition], (1.0, 1.0), seed=0, starts=2)[condition]
    assert size_of(menu) == 1
    assert np.isfinite(menu.price).all()


def test_mappings_in_a_group_trade_room_for_price():
    task = Task(NETWORKS["conv_chain"], GEMMINI)
    weights = EDP.weights(evaluate(greedy(task.workload, GEMMINI)))
    conditions = Members(task, tuple("abc")).nearest_plan(np.zeros(4)).conditions
    usable = task.all_room.running[0]
    for menu in grouped(task, conditions, weights, 0, {}).values():
        used, price = menu.running[0], weights[0] * menu.energy_pj + weights[1] * menu.cycles
        assert (used <= usable).all()
        assert np.isfinite(price).all()
        rich = used[price.argmin()]
        assert used.min() <= THRIFT * rich or rich <= LITTLE_ROOM * usable


def test_only_layers_with_a_start_climb():
    task = Task(NETWORKS["conv_chain"], GEMMINI)
    a = task.alone("a")
    assert climbed_from(task, {}, (1.0, 1.0)) == {}
    found = climbed_from(task, {a: [outermost(task), full_array(task, a)]}, (1.0, 1.0))
    assert list(found) == [a]
    assert size_of(found[a]) == 2
    again = climbed_from(task, {a: [start_from(found[a], 0)]}, (1.0, 1.0))[a]
    assert np.array_equal(again.factors[..., 0], found[a].factors[..., 0]), "an optimum stays where it is"


def test_pairs_take_on_every_mapping_of_a_menu():
    task = Task(NETWORKS["separable"], GEMMINI)
    weights = EDP.weights(evaluate(greedy(task.workload, GEMMINI)))
    menus = alone(task, [task.alone("dw"), task.alone("pw")], weights, seed=0, starts=4)
    starts = {condition: starts_of(menu) for condition, menu in menus.items()}
    for condition, menu in climbed_from(task, starts, weights, pairs=True).items():
        assert size_of(menu) == size_of(menus[condition])
        assert (menu.price <= menus[condition].price * (1 + 1e-6)).all()


def test_a_menu_can_be_taken_apart_and_joined():
    task = Task(NETWORKS["separable"], GEMMINI)
    condition = task.alone("dw")
    menu = alone(task, [condition], (1.0, 1.0), seed=0, starts=4)[condition]
    again = join([subset(menu, slice(0, 1)), subset(menu, np.array([1]))])
    assert all(np.array_equal(a, b) for a, b in zip(again, menu, strict=True))
    start = start_from(menu, 1)
    assert isinstance(start, Start)
    assert np.array_equal(start.factors, menu.factors[..., 1])


def test_climbs_end_when_the_time_is_over():
    task = Task(NETWORKS["separable"], GEMMINI)
    task.deadline = 0.0
    with pytest.raises(OutOfTimeError):
        solve(task, [Row(task.alone("dw"), outermost(task), task.all_room)], (1.0, 1.0), pairs=False)


def test_starts_that_do_not_fit_give_up_tiles_until_they_do():
    task = Task(load_model("resnet18"), load_machine("eyeriss"))
    condition, random = task.alone("l1.0.conv1"), np.random.default_rng(0)
    rows = [Row(condition, scattered(task, condition, random), task.all_room) for _ in range(16)]

    def fit(rows: list[Row]) -> list[bool]:
        held = np.asarray(started(task, rows, (1.0, 1.0)).running)
        return (held <= np.array(task.all_room.running)[:, None]).all(axis=0).tolist()

    assert sum(fit(rows)) < 4
    assert all(fit(fitted(task, rows, (1.0, 1.0))))


def test_random_arrays_deal_lanes_to_dims_in_many_ways_and_leave_none_idle():
    task = Task(load_model("resnet18"), load_machine("eyeriss"))
    condition, random = task.alone("conv1"), np.random.default_rng(0)
    arrays = [dealt_array(task, condition, random).factors for _ in range(32)]
    axes = list(task.machine.structure.axes)
    assert len({factors[axes].tobytes() for factors in arrays}) > 4
    for factors in arrays:
        for node, axis in zip(axes, task.machine.axes, strict=True):
            # No dim that can would get one lane more.
            assert axis.size / 2 < factors[node].prod() <= axis.size
