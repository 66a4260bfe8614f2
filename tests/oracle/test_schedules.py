"""What is drawn for the oracle: legal factors, and enough of everything."""

from collections import Counter
from math import prod
from random import Random

import pytest

from fadiff.hardware import Axis
from fadiff.workload import DIMS
from oracle.machines import known_machines, random_machine
from oracle.nest import nest
from oracle.schedules import KINDS, draw

SEEDS = range(60)


@pytest.mark.parametrize("kind", KINDS)
def test_factors_fill_the_tile_and_none_is_idle(kind):
    for seed in SEEDS:
        schedule = draw(kind, seed)
        for name in schedule.mappings:
            found = nest(schedule, name)
            for dim in DIMS:
                outer_factor = below = extent = 1
                for factors in reversed(found.factors):
                    if factors[dim] > 1:
                        outer_factor, below = factors[dim], extent
                    extent *= factors[dim]
                assert extent >= found.tile[dim]
                assert outer_factor == -(-found.tile[dim] // below)
                assert below < found.tile[dim] or outer_factor == 1
            for node, factors in zip(schedule.machine.nodes, found.factors, strict=True):
                if isinstance(node, Axis):
                    assert prod(factors.values()) <= node.size
                    assert all(factors[dim] == 1 or dim in node.dims for dim in DIMS)


def test_about_half_of_the_layers_have_cut_ends():
    cut = Counter()
    for kind in KINDS:
        for seed in SEEDS:
            schedule = draw(kind, seed)
            for name in schedule.mappings:
                found = nest(schedule, name)
                cut[any(prod(f[dim] for f in found.factors) > found.tile[dim] for dim in DIMS)] += 1
    assert 0.2 < cut[True] / cut.total() < 0.8


def test_groups_share_every_loop():
    shared = Counter()
    for kind in KINDS:
        for seed in SEEDS:
            for group in draw(kind, seed).groups:
                if len(group.layers) > 1:
                    shared.update(loop for loop, trips in group.trips._asdict().items() if trips > 1)
    assert all(shared[loop] > 20 for loop in "GNPQX"), shared


def test_machines_are_of_many_structures():
    structures = {random_machine(Random(seed)).structure for seed in range(200)}
    assert len(structures) > 150
    assert {len(s.memories) for s in structures} == {2, 3, 4, 5, 6}
    assert {len(s.axes) for s in structures} == {0, 1, 2, 3}
    assert len(known_machines()) >= 7
