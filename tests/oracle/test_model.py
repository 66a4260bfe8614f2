"""The model against the oracle: words moved, time, energy, and what is held on chip."""

import math
from collections import Counter
from functools import cache

import numpy as np
import pytest

from fadiff.cost.evaluate import evaluate
from fadiff.schedule.arrays import pack_layers, pack_schedule
from fadiff.schedule.capacity import stays, tile_values
from fadiff.schedule.nest import Nest
from fadiff.schedule.rules import violations
from oracle import bill, buffers
from oracle.schedules import KINDS, draw

SEEDS = {kind: range(150 if kind == "image_lanes" else 40) for kind in KINDS}
"""Lanes that share inputs are rarer than the rest, and their layers are quickly walked."""


@cache
def drawn(kind, seed):
    """A schedule and the bills of its layers."""
    schedule = draw(kind, seed)
    return schedule, [bill(schedule, layer.name) for layer in schedule.workload.layers]


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_says_what_the_walk_counts(kind):
    for seed in SEEDS[kind]:
        schedule, bills = drawn(kind, seed)
        assert violations(schedule) == [], seed
        said = evaluate(schedule)
        for i, (layer, found) in enumerate(zip(schedule.workload.layers, bills, strict=True)):
            where = (seed, layer.name)
            words = Counter()
            for flow, each in zip(said.flows, said.words, strict=True):
                words[schedule.machine.nodes[flow.memory].name, flow.action] += each[i]
            assert {key: words[key] for key in found.words} == pytest.approx(
                {key: float(value) for key, value in found.words.items()}, rel=1e-12
            ), where
            assert said.terms[0][i] == found.steps, where
            assert math.isclose(said.layer_energy_pj[i], found.energy_pj, rel_tol=1e-12), where
            assert math.isclose(said.layer_cycles[i], found.cycles, rel_tol=1e-12), where


@pytest.mark.parametrize("kind", KINDS)
def test_tiles_are_as_large_as_the_model_says_and_stay_when_it_says(kind):
    for seed in SEEDS[kind]:
        schedule, bills = drawn(kind, seed)
        structure, packed = schedule.machine.structure, pack_schedule(schedule)
        nest = Nest(structure, pack_layers(schedule.workload), packed.mapping, packed.fusion)
        for i, (layer, found) in enumerate(zip(schedule.workload.layers, bills, strict=True)):
            where = (seed, layer.name)
            for (tensor, name), values in found.tiles.items():
                memory = schedule.machine.number[name]
                assert np.asarray(tile_values(nest, memory, tensor))[i] == values, where
                if tensor != "O" and memory == structure.home(tensor):
                    assert bool(np.asarray(stays(nest, tensor, memory))[i]) == ((tensor, name) in found.kept), where


@pytest.mark.parametrize("kind", KINDS)
def test_buffers_are_never_fuller_than_the_model_says(kind):
    for seed in SEEDS[kind]:
        schedule = draw(kind, seed)
        placement = pack_schedule(schedule).placement
        number = {layer.name: i for i, layer in enumerate(schedule.workload.layers)}
        for group in schedule.groups:
            for name, held in buffers(schedule, group).items():
                assert held.values <= np.asarray(placement.buffer)[number[name]], (seed, name)
                if not np.asarray(placement.retained)[number[name]]:
                    alive = {place for place, other in enumerate(group.layers) if held.values_at[other]}
                    first, last = schedule.position[name], np.asarray(placement.last_use)[number[name]]
                    here = schedule.position[group.layers[0]]
                    assert all(first <= here + place <= last for place in alive), (seed, name)
