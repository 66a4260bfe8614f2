"""Sets of layers that may be groups, and the orders in which a network can be made of them, against brute force."""

from itertools import combinations
from random import Random

import pytest

from fadiff.search.exact import sets
from fadiff.search.exact.sets import Downsets, Growing
from search.exhaustive import may_be_groups, orders_of_groups
from search.networks import GEMMINI, NETWORKS, add, mac, network


def forked(seed, count=7):
    """A random network in which layers read one, two or three others."""
    random, layers = Random(seed), []
    for i in range(count):
        before = [layer.name for layer in layers]
        sources = random.sample(before, min(len(before), random.choice([1, 1, 2, 3]))) or [None]
        repeat = random.choice([1, 1, 1, 2])
        if len(sources) == 1:
            source = sources[0] if random.random() < 0.9 else (sources[0], "input", False)
            layers.append(mac(f"l{i}", "K4 C4 P4", sources[0] if sources[0] is None else source, repeat=repeat))
        else:
            layers.append(add(f"l{i}", "K4 P4", *sources, repeat=repeat))
    return network(*layers)


WORKLOADS = [*NETWORKS.values(), *map(forked, range(12))]


def grown(workload):
    growing, found = Growing(workload), []
    for layers in growing:
        found.append(layers)
        growing.grow(layers)
    return found


@pytest.mark.parametrize("number", range(len(WORKLOADS)))
def test_every_set_that_may_be_a_group_is_grown_once(number):
    workload = WORKLOADS[number]
    found = grown(workload)
    assert len(set(found)) == len(found)
    assert set(found) == set(may_be_groups(workload, GEMMINI))


def test_sets_without_gaps_come_first_and_small_ones_before_large_ones():
    workload = forked(3)
    depth = workload.depth
    ranks = [(depth[layers[-1]] - depth[layers[0]] + 1 - len(layers), len(layers)) for layers in grown(workload)]
    assert ranks == sorted(ranks)
    assert ranks[-1][0] > 0


def test_no_more_sets_are_grown_than_allowed(monkeypatch):
    monkeypatch.setattr(sets, "MOST_SETS", 2)
    assert len(grown(forked(3))) == 7 + 2


def numbered(workload, layers):
    return sum(1 << workload.depth[name] for name in layers)


@pytest.mark.parametrize("number", range(len(WORKLOADS)))
def test_a_group_leads_from_every_downset_that_it_can_follow(number):
    workload = WORKLOADS[number]
    members = may_be_groups(workload, GEMMINI)
    downsets = Downsets(workload)
    steps = orders_of_groups(workload, members)
    assert set(downsets.all) == {0} | {numbered(workload, after) for _, after, _ in steps}
    for some in members:
        wanted = {(numbered(workload, a), numbered(workload, b)) for a, b, other in steps if other == some}
        found = downsets.steps(some)
        assert len(set(found)) == len(found)
        assert set(found) == wanted


def test_where_downsets_are_too_many_fewer_layers_run_ahead(monkeypatch):
    """Eight layers side by side: 256 downsets, of which so many are left that groups can still follow each other."""
    workload = network(*(mac(f"l{i}", "K4 C4 P4") for i in range(8)))
    assert len(Downsets(workload).all) == 256
    for most, ahead in ((255, 4), (40, 1), (20, 0), (1, 0)):
        monkeypatch.setattr(sets, "MOST_DOWNSETS", most)
        downsets = Downsets(workload)
        assert downsets.ahead == ahead
        assert downsets.all[0] == 0
        assert downsets.all[-1] == 255
        for some in combinations(workload.topological, 1):
            assert downsets.steps(some)


def test_a_chain_of_a_thousand_layers_has_a_downset_after_each():
    layers = [mac(f"l{i}", "K4 C4", f"l{i - 1}" if i else None) for i in range(1000)]
    workload = network(*layers)
    downsets = Downsets(workload)
    assert len(downsets.all) == 1001
    assert downsets.steps(("l500", "l501")) == [((1 << 500) - 1, (1 << 502) - 1)]
