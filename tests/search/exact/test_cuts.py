"""Cuts of a network into groups: the cheapest there are, and what other plans would cost."""

from itertools import pairwise

import numpy as np
import pytest

from fadiff.search.exact.assemble import fill
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.cuts import Cuts
from fadiff.search.exact.plans import alone, plans
from search.exact.rows import made_up
from search.exhaustive import orders_of_groups
from search.networks import GEMMINI, add, mac, network, sized

WEIGHTS = (1.0, 0.5)
CHAIN = network(
    mac("a", "K4 C2 P4 Q4"),
    mac("b", "K4 C4 P4 Q4 R3 S3", "a"),
    mac("c", "K4 C4 P2 Q2", "b", stride=(2, 2)),
    mac("d", "K2 C4 P2 Q2", "c"),
    mac("e", "K4 C2 P2 Q2 R3 S3", "d"),
    mac("f", "K4 C4 P2 Q2", "e"),
)
BRANCHES = network(
    mac("a", "K4 C2 P4 Q4"),
    mac("b", "K4 C4 P4 Q4", "a"),
    mac("c", "K4 C4 P4 Q4", "b"),
    mac("s", "K4 C4 P4 Q4", "a"),
    add("d", "K4 P4 Q4", "c", "s"),
    mac("e", "K2 C4 P4 Q4", "d"),
)


def priced(workload, scratchpad, seed):
    """A task, its plans, made-up mappings, and the least price of each set of layers as a group."""
    task, random = Task(workload, sized(GEMMINI, scratchpad=scratchpad)), np.random.default_rng(seed)
    every = [*(alone(task, layer.name) for layer in workload.layers), *plans(task)]
    conditions = dict.fromkeys(condition for plan in every for condition in plan.conditions)
    menus = {c: made_up(random, task, int(random.integers(1, 5)), 1 / 6) for c in conditions}
    prices = {}
    for plan in every:
        filled = fill(task, plan, menus, WEIGHTS, np.inf)
        prices[plan] = np.inf if filled is None else filled.price
    return task, every, menus, prices


def least_totals(workload, prices):
    """The least price of a schedule, and of one with each plan: of all orders of all groups."""
    members = dict.fromkeys(plan.group.layers for plan in prices)
    cheapest = {some: min(price for plan, price in prices.items() if plan.group.layers == some) for some in members}
    steps = orders_of_groups(workload, members)
    nothing, everything = frozenset(), frozenset(workload.topological)
    before, after = {nothing: 0.0}, {everything: 0.0}
    for _ in workload.layers:
        for a, b, some in steps:
            before[b] = min(before.get(b, np.inf), before.get(a, np.inf) + cheapest[some])
            after[a] = min(after.get(a, np.inf), after.get(b, np.inf) + cheapest[some])
    with_plan = {
        plan: min(before[a] + price + after[b] for a, b, some in steps if some == plan.group.layers)
        for plan, price in prices.items()
    }
    return before[everything], with_plan


@pytest.mark.parametrize("workload", [CHAIN, BRANCHES], ids=["chain", "branches"])
@pytest.mark.parametrize("scratchpad", [150, 400])
@pytest.mark.parametrize("seed", range(3))
def test_a_cut_is_the_cheapest_of_all_cuts(workload, seed, scratchpad):
    task, every, menus, prices = priced(workload, scratchpad, seed)
    found = Cuts(task, every).cut(menus, WEIGHTS)
    assert {name for filled in found.groups for name in filled.plan.group.layers} == {*workload.topological}
    assert len(found.groups) < 6, "some layers are fused"
    # A fill may miss the cheapest combination by a thousandth, and which one depends on what it has to beat.
    assert found.total == pytest.approx(least_totals(workload, prices)[0], rel=2e-3)
    assert found.total == pytest.approx(sum(filled.price for filled in found.groups))
    for filled, later in pairwise(found.groups):
        names = [*filled.plan.group.layers, *later.plan.group.layers]
        assert not any(edge.source in later.plan.group.layers for name in names[: -len(later.plan.group.layers)]
                       for edge in workload.producers[name])  # fmt: skip


def test_a_branch_runs_before_layers_that_stand_before_it():
    """The skip of a block on its own, fused with the sum at its end, though two layers stand between them."""
    task, every, menus, _ = priced(BRANCHES, 400, 0)
    wanted = [plan for plan in every if plan.group.layers in (("a",), ("b",), ("c",), ("s", "d"), ("e",))]
    found = Cuts(task, wanted).cut(menus, WEIGHTS)
    assert [filled.plan.group.layers for filled in found.groups] == [("a",), ("b",), ("c",), ("s", "d"), ("e",)]


@pytest.mark.parametrize("workload", [CHAIN, BRANCHES], ids=["chain", "branches"])
def test_the_regret_of_a_plan_is_what_the_best_schedule_with_it_costs_more(workload):
    task, every, _, prices = priced(workload, 400, 1)
    best, with_plan = least_totals(workload, prices)
    cuts = Cuts(task, every)
    found = cuts.regret(np.array([prices[plan] for plan in cuts.plans]), best)
    np.testing.assert_allclose(found, [with_plan[plan] - best for plan in cuts.plans], rtol=1e-9, atol=1e-9)


def test_plans_without_mappings_are_not_chosen_and_known_plans_are_added_once():
    task, every, menus, _ = priced(CHAIN, 400, 1)
    singles = [plan for plan in every if len(plan.conditions) == 1]
    cuts = Cuts(task, singles)
    cuts.add(every)
    cuts.add(every)
    assert cuts.plans == [*singles, *(plan for plan in every if plan not in singles)]
    alone_only = {condition: menus[condition] for plan in singles for condition in plan.conditions}
    assert len(cuts.cut(alone_only, WEIGHTS).groups) == len(singles)
    known = cuts.known(set(alone_only))
    assert [plan for plan, is_known in zip(cuts.plans, known, strict=True) if is_known] == singles


@pytest.mark.parametrize("workload", [CHAIN, BRANCHES], ids=["chain", "branches"])
def test_what_plans_cost_is_kept_until_prices_or_their_mappings_change(workload, monkeypatch: pytest.MonkeyPatch):
    task, every, menus, _ = priced(workload, 400, 2)
    tried = []

    def noted(task, plan, *told):
        tried.append(plan)
        return fill(task, plan, *told)

    monkeypatch.setattr("fadiff.search.exact.cuts.fill", noted)
    cuts = Cuts(task, every)
    before = cuts.cut(menus, WEIGHTS)
    assert tried
    tried.clear()
    again = cuts.cut(menus, WEIGHTS)
    assert not tried
    assert again.total == before.total
    changed = before.groups[0].plan.conditions[0]
    kept = {one.plan for one in before.groups if changed not in one.plan.conditions}
    menus[changed] = menus[changed]._replace(cycles=1.01 * menus[changed].cycles)
    for weights in (WEIGHTS, (1.0, 0.4)):
        tried.clear()
        found = cuts.cut(menus, weights)
        assert before.groups[0].plan in tried
        assert bool(kept & {*tried}) == (weights != WEIGHTS)
        assert found.total == pytest.approx(Cuts(task, every).cut(menus, weights).total, rel=2e-3)
        np.testing.assert_allclose(found.least, Cuts(task, every).least(menus, weights))
