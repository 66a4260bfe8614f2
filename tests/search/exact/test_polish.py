"""Polishing a finished schedule: never worse, always legal."""

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.schedule import Group
from fadiff.schedule.rules import violations
from fadiff.search import greedy
from fadiff.search.exact.assemble import fill, polish, to_schedule
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.cuts import Cuts
from fadiff.search.exact.menus import grouped, size_of
from fadiff.search.exact.plans import alone, plans
from fadiff.search.objective import EDP
from search.exact.rows import rough_menus
from search.networks import GEMMINI, NETWORKS, add, group, network, sized


def assert_better_and_legal(task, before, weights):
    after = polish(task, before, weights)
    assert violations(to_schedule(task, before)) == []
    assert violations(to_schedule(task, after)) == []
    for old, new in zip(before, after, strict=True):
        assert new.price <= old.price * (1 + 1e-6)
        assert new.plan == old.plan
    evaluation = evaluate(to_schedule(task, after))
    paid = weights[0] * evaluation.energy_pj + weights[1] * evaluation.cycles
    assert sum(filled.price for filled in after) == pytest.approx(paid, rel=1e-5)
    return sum(f.price for f in after) / sum(f.price for f in before)


def test_polishing_a_rough_cut_makes_it_better_and_keeps_it_legal():
    ratios, random = [], np.random.default_rng(0)
    for workload in NETWORKS.values():
        task = Task(workload, sized(GEMMINI, scratchpad=200, accumulator=16))
        weights = EDP.weights(evaluate(greedy(workload, task.machine)))
        every = [*(alone(task, name) for name in workload.topological), *list(plans(task))[::5]]
        before = Cuts(task, every).cut(rough_menus(task, every, random), weights).groups
        ratios.append(assert_better_and_legal(task, before, weights))
    assert min(ratios) < 0.8
    assert sum(ratio < 0.99 for ratio in ratios) >= 3


GROUPS = [
    ("conv_chain", group("a b c", "P2 Q2"), 100, 16),
    ("residual", group("a b s c", "P2"), 160, 16),
    ("separable", group("dw pw", "P4"), 120, 8),
    ("attention", group("qk av", "G2 N3 X2", "GNPQX"), 120, 24),
    ("feed_forward", group("up down", "N4 X4", "GXNPQ"), 60, 8),
    ("feed_forward", group("up down", "N2 X2", "GNPQX"), 60, 16),
    ("concatenation", group("a b c", "Q2"), 100, 16),
]
"""Groups on machines where the best mapping of one layer leaves no room for the best of another."""


@pytest.mark.parametrize(
    ("name", "one", "scratchpad", "accumulator"),
    GROUPS,
    ids=lambda value: value.name if isinstance(value, Group) else str(value),
)
def test_polishing_a_group_keeps_within_what_its_layers_have_together(name, one, scratchpad, accumulator):
    workload, machine = NETWORKS[name], sized(GEMMINI, scratchpad=scratchpad, accumulator=accumulator)
    task = Task(workload, machine)
    weights = EDP.weights(evaluate(greedy(workload, machine)))
    (plan,) = (plan for plan in plans(task) if plan.group == one)
    every = [plan, *(alone(task, n) for n in workload.topological if n not in one.layers)]
    every.sort(key=lambda plan: workload.depth[plan.group.layers[0]])
    menus = rough_menus(task, every, np.random.default_rng(0))
    if not all(map(size_of, menus.values())):
        menus = grouped(task, list(menus), weights, 0, {})
    assert_better_and_legal(task, [fill(task, plan, menus, weights, np.inf) for plan in every], weights)


def test_polishing_twice_changes_nothing_more():
    workload, machine = NETWORKS["residual"], sized(GEMMINI, scratchpad=200)
    task = Task(workload, machine)
    weights = EDP.weights(evaluate(greedy(workload, machine)))
    every = [alone(task, name) for name in workload.topological]
    groups = Cuts(task, every).cut(rough_menus(task, every, np.random.default_rng(0)), weights).groups
    once = polish(task, groups, weights)
    assert to_schedule(task, polish(task, once, weights)) == to_schedule(task, once)


def test_sums_have_nothing_to_polish():
    task = Task(network(add("a", "K4 P4", None, None)), GEMMINI)
    plan = alone(task, "a")
    menus = rough_menus(task, [plan], np.random.default_rng(0))
    groups = [fill(task, plan, menus, (1.0, 1.0), np.inf)]
    assert polish(task, groups, (1.0, 1.0)) == groups
