"""Polishing a finished schedule: never worse, always legal."""

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.schedule import Group
from fadiff.schedule.legality import violations
from fadiff.search.assemble import cut, fill, seat, to_schedule
from fadiff.search.conditions import Problem
from fadiff.search.driver import price_weights
from fadiff.search.greedy import greedy
from fadiff.search.groups import Plan, plans
from fadiff.search.options import from_dram, grouped
from fadiff.search.polish import polish
from search.networks import NETWORKS, group, machine
from search.rows import as_options


def rough_options(problem, seats, weights):
    """Mappings with every loop at L3, that nothing has climbed from yet."""
    conditions = dict.fromkeys(condition for one in seats for condition in one.conditions)
    return as_options(problem, {c: [from_dram(problem, c)] for c in conditions}, weights)


def assert_better_and_legal(problem, before, weights):
    after = polish(problem, before, weights)
    assert violations(to_schedule(problem, before)) == []
    assert violations(to_schedule(problem, after)) == []
    for old, new in zip(before, after, strict=True):
        assert new.price <= old.price * (1 + 1e-6)
        assert new.seat == old.seat
    evaluation = evaluate(to_schedule(problem, after))
    price = weights[0] * evaluation.energy_pj + weights[1] * evaluation.cycles
    assert sum(filled.price for filled in after) == pytest.approx(price, rel=1e-5)
    return sum(f.price for f in after) / sum(f.price for f in before)


def test_polishing_a_rough_cut_makes_it_better_and_keeps_it_legal():
    ratios = []
    for workload in NETWORKS.values():
        hardware = machine(l2_bytes=200, l1_bytes=64)
        problem = Problem(workload, hardware)
        weights = price_weights(evaluate(greedy(workload, hardware)), "edp")
        seats = [seat(problem, Plan(Group((layer,)), (0,))) for layer in workload.topological]
        seats += [seat(problem, plan) for plan in plans(workload, hardware)]
        before = cut(problem, seats, rough_options(problem, seats, weights), weights)
        ratios.append(assert_better_and_legal(problem, before, weights))
    assert min(ratios) < 0.7
    assert sum(ratio < 1 for ratio in ratios) >= 5


GROUPS = [
    ("conv_chain", group("a b c", "P2 Q2"), 100, 64),
    ("conv_chain", group("a b c", "P2"), 160, 32),
    ("residual", group("a b s c", "P2"), 160, 64),
    ("separable", group("dw pw", "P4"), 120, 32),
    ("attention", group("qk av", "G2 X2", "GNPQX"), 120, 224),
    ("attention", group("qk av", "N3 X2", "GNPQX"), 120, 160),
    ("feed_forward", group("up down", "N3 X4", "GXNPQ"), 60, 32),
    ("feed_forward", group("up down", "N2 X2", "GNPQX"), 60, 64),
    ("concatenation", group("a b c", "Q2"), 100, 64),
]
"""Groups on machines where the best mapping of one layer leaves no room for the best of another."""


@pytest.mark.parametrize(("name", "one", "l2_bytes", "l1_bytes"), GROUPS, ids=str)
def test_polishing_a_group_keeps_within_what_its_layers_have_together(name, one, l2_bytes, l1_bytes):
    workload, hardware = NETWORKS[name], machine(l2_bytes=l2_bytes, l1_bytes=l1_bytes)
    problem = Problem(workload, hardware)
    weights = price_weights(evaluate(greedy(workload, hardware)), "edp")
    (plan,) = (plan for plan in plans(workload, hardware) if plan.group == one)
    seats = [seat(problem, plan)]
    seats += [seat(problem, Plan(Group((n,)), (0,))) for n in workload.topological if n not in one.layers]
    seats.sort(key=lambda s: workload.depth[s.plan.group.layers[0]])
    options = rough_options(problem, seats, weights)
    if not all(o.kept.size for o in options.values()):
        options = grouped(problem, list(options), weights, 0, {})
    assert_better_and_legal(problem, [fill(problem, s, options, weights, np.inf) for s in seats], weights)


def test_polishing_twice_changes_nothing_more_than_prices_allow():
    workload, hardware = NETWORKS["residual"], machine(l2_bytes=200)
    problem = Problem(workload, hardware)
    weights = price_weights(evaluate(greedy(workload, hardware)), "edp")
    seats = [seat(problem, Plan(Group((layer,)), (0,))) for layer in workload.topological]
    once = polish(problem, cut(problem, seats, rough_options(problem, seats, weights), weights), weights)
    assert to_schedule(problem, polish(problem, once, weights)) == to_schedule(problem, once)
