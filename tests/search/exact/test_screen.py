"""Known mappings, tried as they stand under other conditions."""

import numpy as np

from fadiff.cost import evaluate
from fadiff.search import greedy
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.menus import size_of, start_from, starts_of, weighed
from fadiff.search.exact.plans import conditions_of, plans
from fadiff.search.exact.screen import MOST_KEPT, known_under, screened
from fadiff.search.exact.starts import full_array
from fadiff.search.objective import EDP
from search.networks import GEMMINI, NETWORKS, sized


def conditions_and_weights(workload, machine):
    task = Task(workload, machine)
    found = conditions_of(plan for plan in plans(task))
    return task, found, EDP.weights(evaluate(greedy(workload, machine)))


def test_what_is_kept_fits_and_gives_room_for_price():
    task, conditions, weights = conditions_and_weights(NETWORKS["conv_chain"], sized(GEMMINI, scratchpad=120))
    random = np.random.default_rng(0)
    hints = {c.layer: [full_array(task, c)] for c in conditions}
    for mine in hints.values():
        mine += [one._replace(factors=one.factors * random.integers(1, 3, one.factors.shape)) for one in mine * 8]
    menus = screened(task, conditions, hints, weights)
    assert list(menus) == conditions
    assert max(map(size_of, menus.values())) > 1
    for menu in menus.values():
        assert 1 <= size_of(menu) <= MOST_KEPT
        assert (menu.running <= np.array(task.all_room.running)[:, None]).all()
        assert (np.diff(weighed(menu, weights)) >= 0).all()
        assert (np.diff(menu.running[task.fusing]) < 0).all()


def test_a_known_mapping_costs_under_its_own_condition_what_it_costs():
    task, conditions, weights = conditions_and_weights(NETWORKS["conv_chain"], GEMMINI)
    for condition, menu in screened(task, conditions, {}, weights).items():
        again = known_under(task, [condition], {condition.layer: starts_of(menu)}, weights)[condition]
        assert weighed(again, weights)[0] == weighed(menu, weights)[0]
        assert np.array_equal(start_from(again, 0).factors, start_from(menu, 0).factors)


def test_where_no_known_mapping_fits_tiles_of_one_value_do():
    task, conditions, weights = conditions_and_weights(
        NETWORKS["conv_chain"], sized(GEMMINI, scratchpad=24, accumulator=8)
    )
    everything = {c.layer: [full_array(task, c)] for c in conditions}
    for starts in everything.values():
        starts[0].factors[-1] = 64
    assert all(size_of(menu) == 0 for menu in known_under(task, conditions, everything, weights).values())
    assert all(size_of(menu) for menu in screened(task, conditions, everything, weights).values())


def test_under_no_conditions_nothing_is_tried():
    task, _, weights = conditions_and_weights(NETWORKS["conv_chain"], GEMMINI)
    assert screened(task, [], {}, weights) == known_under(task, [], {}, weights) == {}
