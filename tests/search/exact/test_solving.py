"""Layers on their own, solved: what branch and bound meets is climbed from while it goes on."""

from fadiff import greedy, load_machine
from fadiff.cost import evaluate
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.menus import alone, climbed_from, join, key_of, weighed
from fadiff.search.exact.solving import unsolved, walk
from fadiff.search.objective import EDP
from search.networks import mac, network

PRODUCT = network(mac("a", "N2048 K12288 C4096"))
"""A layer whose best tiles no climb from a few starts comes by."""


def solved(most):
    """The layer, the walks after which it was climbed from, the starts of all climbs, and its prices after each."""
    machine = load_machine("gemmini-large")
    task, near = Task(PRODUCT, machine), evaluate(greedy(PRODUCT, machine))
    weights = EDP.weights(near)
    menus = alone(task, [task.alone("a")], weights, seed=0, starts=1)
    (one,) = unsolved(task, menus, ["a"], near, weights)
    walked, met, prices = [], [], [one.best]

    def climb(layer):
        if starts := layer.starts(task):
            walked.append(layer.bound.passes)
            met.extend(map(key_of, starts))
            found = climbed_from(task, {layer.alike[0]: starts}, weights)
            menus.update({c: join([menus[c], menu]) for c, menu in found.items()})
            layer.know(menus, weights)
            prices.append(layer.best)

    for _ in walk([one], weights, most, 1e-4 * one.best, climb):
        pass
    return one, walked, met, prices, float(weighed(menus[one.alike[0]], weights).min())


def test_better_mappings_are_known_long_before_a_layer_is_solved():
    one, walked, met, prices, best = solved(400)
    assert walked[0] < 20
    assert prices[1] < 0.999 * prices[0]
    assert prices == sorted(prices, reverse=True)
    assert one.best == best
    assert one.least <= best
    assert len(met) == len(set(met)), "no start is climbed from twice"


def test_climbs_become_rarer():
    one, *_ = solved(0)
    ripe = []
    for passes in range(200):
        one.bound.passes = passes
        if one.ripe():
            ripe.append(passes)
    assert ripe == [10, 20, 40, 80, 160]
