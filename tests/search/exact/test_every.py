"""Every mapping of a small layer: all there are, and none that another undercuts."""

import numpy as np
import pytest

from fadiff.schedule import Group
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.every import LARGEST_TILE, coverings, every_mapping
from fadiff.search.exact.menus import size_of, weighed
from search.exhaustive import all_nodes
from search.exhaustive import every_mapping as oracle
from search.networks import GEMMINI, mac, network, sized

MACHINE = sized(GEMMINI, rows=2, cols=2, accumulator=16, scratchpad=24)
WEIGHTS = (1.0, 100.0)


@pytest.mark.parametrize("shape", ["N4 K4 C4", "K3 C2 P5 R3", "G4 P5 R3"])
def test_the_best_mapping_of_a_small_layer_is_among_them(shape):
    workload = network(mac("a", shape))
    task = Task(workload, MACHINE)
    menu = every_mapping(task, task.alone("a"), WEIGHTS)
    assert menu is not None
    best = oracle(workload, MACHINE, Group(("a",)), "a", all_nodes(MACHINE)).best(WEIGHTS)
    assert weighed(menu, WEIGHTS).min() == pytest.approx(best, rel=1e-6)


def test_none_is_dearer_and_larger_than_another():
    task = Task(network(mac("a", "N4 K4 C4")), MACHINE)
    menu = every_mapping(task, task.alone("a"), WEIGHTS)
    assert menu is not None
    assert size_of(menu) > 1
    price, held = weighed(menu, WEIGHTS), np.concatenate([menu.running, menu.kept, menu.waiting])
    for i in range(size_of(menu)):
        others = np.arange(size_of(menu)) != i
        assert not ((price[others] <= price[i]) & (held[:, others] <= held[:, [i]]).all(axis=0)).any()


def test_large_layers_are_left_to_climbs():
    task = Task(network(mac("a", f"N{LARGEST_TILE} K2")), MACHINE)
    assert every_mapping(task, task.alone("a"), WEIGHTS) is None


def test_coverings_cover_and_are_not_idle():
    for factors in coverings(7, 3):
        assert np.prod(factors) >= 7
        outermost = next((i for i, factor in enumerate(factors) if factor > 1), 0)
        assert np.prod(factors[outermost + 1 :]) < 7
