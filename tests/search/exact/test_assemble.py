"""From menus to a schedule: the cheapest that fits, in a group and over the whole network."""

from dataclasses import replace
from itertools import product
from math import ceil
from random import Random

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.hardware import pack_machine
from fadiff.schedule import rules
from fadiff.schedule.capacity import needs
from fadiff.schedule.rules import violations
from fadiff.search import greedy
from fadiff.search.exact import assemble
from fadiff.search.exact.assemble import fill, fits, to_schedule
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.cuts import Cuts
from fadiff.search.exact.menus import Menu, join, size_of, subset
from fadiff.search.exact.plans import Plan, alone, plans
from fadiff.search.objective import EDP
from search.exact.rows import GROUPS, conditions_in, drawn, made_up, priced, rough_menus
from search.exhaustive import buffer_bytes
from search.networks import EYERISS, FLAT, GEMMINI, NETWORKS, SIMBA, sized

WEIGHTS = (1.0, 0.5)


def menus_for(random, task, plan, most=6):
    """Made-up mappings of a plan's layers; those of the second layer of a channel loop wait."""
    menus = {}
    for i, condition in enumerate(plan.conditions):
        waits = i == 1 and plan.group.trips.X > 1
        menus[condition] = made_up(random, task, int(random.integers(1, most + 1)), 1 / len(plan.conditions), waits)
    return menus


def fit_together(task, plan, chosen) -> bool:
    """By the book: in every memory, at every step."""
    for memory, usable in enumerate(task.all_room.running):
        for step in range(size_of(chosen)):
            held = chosen.running[memory, step]
            held += sum(kept for i, kept in enumerate(chosen.kept[memory]) if i != step)
            held += plan.live_bytes[step] if memory == task.fusing else 0
            held += sum(chosen.waiting[memory, 1:]) if step == 0 else 0
            if held > usable:
                return False
    return True


def cheapest(task, plan, menus) -> float:
    """The least price of all combinations that fit together."""
    least = np.inf
    mine = [menus[condition] for condition in plan.conditions]
    for picked in product(*(range(size_of(menu)) for menu in mine)):
        chosen = join([subset(menu, [i]) for menu, i in zip(mine, picked, strict=True)])
        if fit_together(task, plan, chosen):
            repeats = [task.layer(condition).repeat for condition in plan.conditions]
            paid = WEIGHTS[0] * chosen.energy_pj + WEIGHTS[1] * chosen.cycles
            least = min(least, float(np.dot(paid, repeats)))
    return least


def some_plans(task, most=40):
    """Plans of a network, not too many."""
    found = list(plans(task))
    return found[:: 1 + len(found) // most]


@pytest.mark.parametrize("machine", [GEMMINI, FLAT, EYERISS, SIMBA], ids=lambda machine: machine.name)
def test_a_group_takes_the_cheapest_mappings_that_fit_together(machine):
    """In every memory: on two of these machines weights and inputs have homes of their own."""
    random = np.random.default_rng(0)
    fitting = failing = 0
    for workload in NETWORKS.values():
        task = Task(workload, machine)
        for plan in some_plans(task):
            menus = menus_for(random, task, plan)
            filled, best = fill(task, plan, menus, WEIGHTS, np.inf), cheapest(task, plan, menus)
            if filled is None:
                assert np.isinf(best)
                failing += 1
                continue
            fitting += 1
            assert fit_together(task, plan, filled.chosen)
            assert filled.price == pytest.approx(best, rel=1e-3)
    assert fitting > 50
    assert failing > 5


@pytest.mark.parametrize("machine", [EYERISS, SIMBA], ids=lambda machine: machine.name)
def test_of_many_combinations_one_that_fits_is_mostly_found(machine, monkeypatch):
    """Where weights overfill a home of their own, and there are too many combinations to try them all."""
    monkeypatch.setattr(assemble, "MOST_COMBINATIONS", 0)
    random, ratios = np.random.default_rng(0), []
    for name in ("conv_chain", "residual", "attention", "concatenation"):
        task = Task(NETWORKS[name], machine)
        for plan in (plan for plan in plans(task) if len(plan.conditions) > 2):
            menus = menus_for(random, task, plan)
            filled, best = fill(task, plan, menus, WEIGHTS, np.inf), cheapest(task, plan, menus)
            assert filled is None or fit_together(task, plan, filled.chosen)
            if np.isfinite(best):
                ratios.append(np.inf if filled is None else filled.price / best)
    assert min(ratios) > 1 - 1e-9
    assert np.mean(np.array(ratios) < 1.1) > 0.7


def test_a_group_that_is_not_worth_it_is_not_filled():
    task, random = Task(NETWORKS["residual"], GEMMINI), np.random.default_rng(1)
    for plan in some_plans(task, 10):
        menus = menus_for(random, task, plan)
        filled = fill(task, plan, menus, WEIGHTS, np.inf)
        if filled is not None:
            assert fill(task, plan, menus, WEIGHTS, filled.price) is None
            assert fill(task, plan, menus, WEIGHTS, filled.price * 1.001).price == filled.price


@pytest.mark.parametrize("counts", [(4, 0), (0, 4), (0, 0)])
def test_a_group_with_a_layer_that_has_no_mapping_is_not_filled(counts):
    task = Task(NETWORKS["feed_forward"], GEMMINI)
    plan, random = next(plans(task)), np.random.default_rng(0)
    menus = {c: made_up(random, task, count) for c, count in zip(plan.conditions, counts, strict=True)}
    assert fill(task, plan, menus, WEIGHTS, np.inf) is None


# Whether mappings fit together is what the rule *fits* says.


def as_menu(task, schedule, one):
    """The mappings of a group's layers, one each; sums hold nothing."""
    names = list(conditions_in(task, schedule))
    found = priced(task, schedule, [task.all_room] * len(names), WEIGHTS)
    nothing = Menu(*(np.zeros_like(values[..., :1]) for values in found))
    return join([subset(found, [names.index(n)]) if n in names else nothing for n in one.layers])


@pytest.mark.parametrize("machine", [GEMMINI, FLAT, EYERISS, SIMBA], ids=lambda machine: machine.name)
def test_mappings_fit_together_where_the_rule_says_so(machine):
    random = Random(0)
    fitting = failing = 0
    for name, one in GROUPS:
        for _ in range(3):
            schedule = drawn(random, name, machine, one)
            examined = rules.Examined(schedule)
            need = needs(examined.nest, examined.placement, pack_machine(machine)).total
            mine = [examined.number[n] for n in one.layers]
            # Each memory has exactly what the group needs at its fullest, one of them perhaps a little less.
            sizes = {machine.nodes[m].name: max(1, ceil(np.asarray(b)[mine].max())) for m, b in need.items()}
            lacking = random.choice([*sizes, None, None])
            if lacking is not None:
                sizes[lacking] = max(1, sizes[lacking] - 1)
            small = replace(schedule, machine=sized(machine, **sizes))
            task = Task(schedule.workload, small.machine, dtype=np.float64)
            conditions = tuple(conditions_in(task, small).get(n) for n in one.layers)
            plan = Plan(one, conditions, tuple(buffer_bytes(schedule.workload, small.machine, one)))
            expected = not [v for v in rules.fits(rules.Examined(small)) if v.layers == one.layers]
            assert fits(task, plan, as_menu(task, small, one)) == expected
            fitting, failing = fitting + expected, failing + (not expected)
    assert min(fitting, failing) > 10


# Real mappings.


@pytest.mark.parametrize(
    "machine", [GEMMINI, sized(GEMMINI, scratchpad=100), FLAT, EYERISS, SIMBA], ids=lambda m: m.name
)
def test_a_filled_group_is_legal_and_costs_what_the_evaluator_says(machine):
    random, fused = np.random.default_rng(0), 0
    for workload in NETWORKS.values():
        task = Task(workload, machine)
        weights = EDP.weights(evaluate(greedy(workload, machine)))
        every = [*(alone(task, name) for name in workload.topological), *some_plans(task)]
        groups = Cuts(task, every).cut(rough_menus(task, every, random), weights).groups
        schedule = to_schedule(task, groups)
        assert violations(schedule) == []
        evaluation = evaluate(schedule)
        paid = weights[0] * evaluation.energy_pj + weights[1] * evaluation.cycles
        assert sum(filled.price for filled in groups) == pytest.approx(paid, rel=1e-9)
        fused += len(schedule.fused_edges)
    assert fused
