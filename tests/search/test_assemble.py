"""From options to a schedule: the cheapest that fits, in a group and over the whole network."""

from itertools import product

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.schedule import Group
from fadiff.schedule.legality import violations
from fadiff.search.assemble import as_options, choice, cut, fill, seat, to_schedule
from fadiff.search.conditions import Problem
from fadiff.search.driver import price_weights
from fadiff.search.greedy import greedy
from fadiff.search.groups import Plan, plans
from fadiff.search.options import LITTLE_L2, THRIFT, Options, from_dram, grouped, scattered
from search.networks import MACHINE, NETWORKS, mac, machine, network
from search.rows import as_options as mappings_as_options

WEIGHTS = (1.0, 0.5)
CHAIN = network(
    mac("a", "K4 C2 P4 Q4"),
    mac("b", "K4 C4 P4 Q4 R3 S3", "a"),
    mac("c", "K4 C4 P2 Q2", "b", stride=(2, 2)),
    mac("d", "K2 C4 P2 Q2", "c"),
    mac("e", "K4 C2 P2 Q2 R3 S3", "d"),
    mac("f", "K4 C4 P2 Q2", "e"),
)


def made_up(random, count, l2_bytes, price=1.0):
    """Options that cost less the more of L2 they take, roughly."""
    used = np.floor(l2_bytes * random.random(count))
    kept = np.floor(used * random.choice([0, 1, random.random()], size=count))
    energy = price * random.random() * (1 + np.exp(-5 * used / l2_bytes) + 0.1 * random.random(count))
    cycles = energy * random.random(count)
    factors, order = np.ones((5, 8, count), dtype=np.float32), np.zeros(count, dtype=np.int64)
    return Options(factors, order, energy, cycles, kept, used - kept, np.full(count, 16.0))


def cheapest(problem, one, options, weights):
    """The least price of all combinations of options that fit."""
    least = np.inf
    mine = [options[condition] for condition in one.conditions]
    for picked in product(*(range(len(o.kept)) for o in mine)):
        chosen = [choice(o, i) for o, i in zip(mine, picked, strict=True)]
        peak = max(c.passing + live for c, live in zip(chosen, one.plan.live_bytes, strict=True))
        if sum(c.kept for c in chosen) + peak <= problem.hardware.usable_l2_bytes:
            parts = zip(chosen, one.conditions, strict=True)
            price = sum((weights[0] * c.energy_pj + weights[1] * c.cycles) * problem.repeat(k) for c, k in parts)
            least = min(least, price)
    return least


@pytest.mark.parametrize("name", NETWORKS)
def test_a_group_takes_the_cheapest_options_that_fit_together(name):
    workload, random = NETWORKS[name], np.random.default_rng(0)
    problem = Problem(workload, MACHINE)
    fitting = failing = 0
    for plan in plans(workload, MACHINE):
        one = seat(problem, plan)
        share = 1 / len(one.conditions)
        options = {c: made_up(random, int(random.integers(1, 7)), MACHINE.l2_bytes, share) for c in one.conditions}
        filled, best = fill(problem, one, options, WEIGHTS, np.inf), cheapest(problem, one, options, WEIGHTS)
        if filled is None:
            assert np.isinf(best)
            failing += 1
            continue
        fitting += 1
        assert best <= filled.price * (1 + 1e-9)
        assert filled.price <= 1.005 * best
        kept = sum(c.kept for c in filled.choices)
        peak = max(c.passing + live for c, live in zip(filled.choices, plan.live_bytes, strict=True))
        assert kept + peak <= MACHINE.usable_l2_bytes
    assert fitting


def test_a_group_that_is_not_worth_it_is_not_filled():
    problem = Problem(NETWORKS["feed_forward"], MACHINE)
    one = seat(problem, next(plans(problem.workload, MACHINE)))
    options = {c: made_up(np.random.default_rng(1), 4, MACHINE.l2_bytes) for c in one.conditions}
    price = fill(problem, one, options, WEIGHTS, np.inf).price
    assert fill(problem, one, options, WEIGHTS, price) is None
    assert fill(problem, one, options, WEIGHTS, price * 1.001).price == price


@pytest.mark.parametrize("counts", [(4, 0), (0, 4), (0, 0)])
def test_a_group_with_a_layer_that_has_no_option_is_not_filled(counts):
    problem = Problem(NETWORKS["feed_forward"], MACHINE)
    one = seat(problem, next(plans(problem.workload, MACHINE)))
    random = np.random.default_rng(1)
    options = {c: made_up(random, n, MACHINE.l2_bytes) for c, n in zip(one.conditions, counts, strict=True)}
    assert fill(problem, one, options, WEIGHTS, np.inf) is None


def ways_to_cut(count):
    """Lengths of consecutive groups."""
    if count == 0:
        yield ()
    for first in range(1, count + 1):
        for rest in ways_to_cut(count - first):
            yield (first, *rest)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("l2_bytes", [60, 200, 1024])
def test_a_cut_is_the_cheapest_of_all_ways_to_cut(l2_bytes, seed):
    hardware, random = machine(l2_bytes=l2_bytes), np.random.default_rng(seed)
    problem = Problem(CHAIN, hardware)
    seats = [seat(problem, Plan(Group((layer.name,)), (0,))) for layer in CHAIN.layers]
    seats += [seat(problem, plan) for plan in plans(CHAIN, hardware)]
    conditions = dict.fromkeys(condition for one in seats for condition in one.conditions)
    options = {c: made_up(random, int(random.integers(1, 5)), l2_bytes, 1 / 6) for c in conditions}
    prices = {}
    for one in seats:
        filled = fill(problem, one, options, WEIGHTS, np.inf)
        if filled is not None:
            layers = one.plan.group.layers
            prices[layers] = min(filled.price, prices.get(layers, np.inf))
    names = CHAIN.topological
    totals = []
    for lengths in ways_to_cut(6):
        ends = np.cumsum(lengths)
        parts = [names[end - length : end] for end, length in zip(ends, lengths, strict=True)]
        totals.append(sum(prices.get(part, np.inf) for part in parts))
    assert len(totals) == 32
    found = cut(problem, seats, options, WEIGHTS)
    assert [name for filled in found for name in filled.seat.plan.group.layers] == list(names)
    # A fill may miss the cheapest combination by a thousandth, and which one depends on what it has to beat.
    assert sum(filled.price for filled in found) == pytest.approx(min(totals), rel=2e-3)


@pytest.mark.parametrize("l2_bytes", [100, 400])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_filled_group_costs_what_the_evaluator_says(name, l2_bytes):
    workload, hardware = NETWORKS[name], machine(l2_bytes=l2_bytes)
    problem, random = Problem(workload, hardware), np.random.default_rng(0)
    weights = price_weights(evaluate(greedy(workload, hardware)), "edp")
    seats = [seat(problem, Plan(Group((layer,)), (0,))) for layer in workload.topological]
    seats += [seat(problem, plan) for plan in plans(workload, hardware)]
    conditions = list(dict.fromkeys(condition for one in seats for condition in one.conditions))
    starts = {c: [from_dram(problem, c), *(scattered(problem, c, random) for _ in range(3))] for c in conditions}
    groups = cut(problem, seats, mappings_as_options(problem, starts, weights), weights)
    schedule = to_schedule(problem, groups)
    assert violations(schedule) == []
    evaluation = evaluate(schedule)
    price = weights[0] * evaluation.energy_pj + weights[1] * evaluation.cycles
    assert sum(filled.price for filled in groups) == pytest.approx(price, rel=1e-5)


def test_options_of_a_group_trade_l2_for_price():
    workload = NETWORKS["conv_chain"]
    problem = Problem(workload, MACHINE)
    weights = price_weights(evaluate(greedy(workload, MACHINE)), "edp")
    conditions = problem.conditions(Group(tuple("abc")))
    for options in grouped(problem, conditions, weights, 0, {}).values():
        used = options.kept + options.passing
        price = weights[0] * options.energy_pj + weights[1] * options.cycles
        assert (used <= MACHINE.usable_l2_bytes).all()
        assert np.isfinite(price).all()
        rich = used[price.argmin()]
        assert used.min() <= THRIFT * rich or rich <= LITTLE_L2 * MACHINE.usable_l2_bytes


def test_a_choice_is_one_option_and_an_option_again():
    options = made_up(np.random.default_rng(0), 3, 100)
    again = as_options(choice(options, 1))
    assert all(np.array_equal(a, b[..., 1:2]) for a, b in zip(again, options, strict=True))
