"""Chains of extents as mappings: what branch and bound ends with is there, and costs what it says."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from fadiff import Dims, Group, Mapping, Schedule, Workload, load_machine
from fadiff.cost import evaluate
from fadiff.schedule.rules import violations
from fadiff.search.gradient.relaxation import settle
from fadiff.search.solver.decode import factors_of
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.place import ON_ITS_OWN
from fadiff.search.space import map_space
from search.networks import mac

LAYERS = {
    "product": mac("a", "N2048 K4096 C4096"),
    "odd product": mac("a", "N197 K768 C768"),
    "convolution": mac("a", "K64 C64 P28 Q28 R3 S3"),
}


def realised(layer, machine, extents):
    """What the mappings with some extents cost, in all useful orders."""
    space, memories = map_space(machine), len(machine.memories)
    factors = settle(factors_of(extents, machine, space), np.array(layer.dims, dtype=float)).astype(int)
    for orders in product(*space.orders):
        every = (*orders, *("GKNPQCRS",) * (memories - len(orders)))
        mapping = Mapping(tuple(Dims(*row) for row in factors.tolist()), every)
        schedule = Schedule(Workload("one", (layer,)), machine, (Group((layer.name,)),), {layer.name: mapping})
        if not violations(schedule):
            yield evaluate(schedule)


SOLVED = [*((name, chip) for name in LAYERS for chip in ("gemmini-large", "gemmini-small"))]
SOLVED += [("odd product", "nvdla-large"), ("convolution", "nvdla-large")]


@pytest.mark.parametrize(("name", "chip"), SOLVED)
def test_a_solved_layer_has_a_mapping_that_costs_what_is_proven(name, chip):
    layer, machine = replace(LAYERS[name], epilogue=()), load_machine(chip)
    weights = (1e-6, 1e-3)
    bound = LayerBound(layer, machine, (ON_ITS_OWN,))
    proven = bound.at(weights, passes=200)
    best = sorted(bound.candidates, key=lambda one: one.promise)[:6]
    assert best[0].certain
    made = [one for candidate in best for one in realised(layer, machine, candidate.extents)]
    costs = [weights[0] * one.energy_pj + weights[1] * one.cycles for one in made]
    assert min(costs) >= proven * (1 - 1e-9)
    assert min(costs) <= proven * 1.01


def test_loops_move_to_where_the_search_looks_for_them():
    machine = load_machine("gemmini-small")
    extents = [[1, 8, 4, 16, 1, 1, 1, 1]] * 4 + [[1, 1, 1, 4, 1, 1, 1, 1], [1] * 8]
    factors = factors_of(extents, machine, map_space(machine))
    names = [node.name for node in machine.nodes]
    # No tensor that the accumulator's loops could tile further in depends on N: they run at the registers.
    assert factors[names.index("registers"), 1] == 8
    assert factors[names.index("accumulator"), 1] == 1
    assert factors[:, 3].tolist() == [1, 1, 1, 4, 4, 1]
