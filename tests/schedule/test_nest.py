"""Counts of the loop nest against the indices themselves, one by one."""

from itertools import pairwise
from math import ceil, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.hardware import Structure
from fadiff.schedule.arrays import Fusion, LayerArrays, MappingArrays
from fadiff.schedule.nest import ALL, SHARED, Members, Nest
from fadiff.workload import DIMS

K, R = DIMS.index("K"), DIMS.index("R")
"""A dim that a group may share, and one that it may not."""


def nest_of(structure, dim, size, tile, factors, **settings):
    """The nest of a layer with one dim larger than 1: shared tiles of it, and private factors by node."""
    one, dims, pair = np.ones(1), np.ones((8, 1)), np.ones((2, 1))

    def at_dim(value):
        values = dims.copy()
        values[dim] = value
        return values

    return Nest(
        structure,
        LayerArrays(at_dim(size), pair, pair, *[one] * 7),
        MappingArrays(np.stack([at_dim(factor) for factor in factors]), np.zeros((len(factors), 8, 1))),
        Fusion(at_dim(ceil(size / tile)), dims, at_dim(tile), *[one * 0] * 6),
        **settings,
    )


@st.composite
def cut_nests(draw, dim):
    """A machine of memories and axes, and factors of one dim that cut its ends somewhere; perhaps shared tiles."""
    memories = [True, *draw(st.lists(st.booleans(), min_size=1, max_size=5))]
    structure = Structure(
        keeps=tuple("WIO" if memory else "" for memory in memories),
        dims=tuple("".join(DIMS) for _ in memories),
        fuses=None,
    )
    size = draw(st.integers(1, 60))
    tile = draw(st.integers(1, size)) if dim == K else size
    factors = [draw(st.integers(1, 4)) for _ in memories]
    # Inner factors stop where they reach the tile, and the outermost one takes what is left: none is idle.
    below = 1
    for node in reversed(range(len(factors))):
        left = ceil(tile / below)
        factors[node] = left if node == 0 else min(factors[node], left)
        below *= factors[node]
    return structure, size, tile, factors


def indices(size, tile, factors):
    """For every index of a dim its place at each loop: the shared one, then those of all nodes."""
    below = [prod(factors[node + 1 :]) for node in range(len(factors))]
    for index in range(size):
        shared, rest = divmod(index, tile)
        places = [shared]
        for extent in below:
            place, rest = divmod(rest, extent)
            places.append(place)
        yield places


@pytest.mark.parametrize("dim", [K, R], ids=["K", "R"])
def test_a_count_is_the_number_of_combinations_that_occur(dim):
    @given(cut_nests(dim), st.data())
    def check(case, data):
        structure, size, tile, factors = case
        # Any axes; of the loops those before the first that is out, and further in any of one trip.
        inside = data.draw(st.lists(st.booleans(), min_size=len(factors) + 1, max_size=len(factors) + 1))
        loops = [0, *(memory + 1 for memory in structure.memories)]
        trips = [ceil(size / tile), *factors]
        out = next((place for place in loops if not inside[place]), len(inside))
        for place in loops:
            inside[place] &= place < out or trips[place] == 1
        expected = len(
            {tuple(p for p, yes in zip(places, inside, strict=True) if yes) for places in indices(*case[1:])}
        )
        held = Members(("drawn",), lambda loop: inside[0] if loop.node == SHARED else inside[loop.node + 1])
        axes = [axis for axis in structure.axes if inside[axis + 1]]
        nest = nest_of(structure, dim, size, tile, factors)
        assert nest.count(dim, held, axes) == expected
        # Loops in sets that only arrays know.
        traced = Members(("arrays",), lambda loop: np.array([held.holds(loop)]))
        assert nest.count(dim, traced, axes) == expected
        if tile == size:
            assert nest_of(structure, dim, size, tile, factors, alone=True).count(dim, held, axes) == expected

    check()


@given(cut_nests(K))
def test_all_combinations_are_all_indices_and_none_is_one(case):
    structure, size, tile, factors = case
    nest = nest_of(structure, K, size, tile, factors)
    assert nest.count(K, ALL, structure.axes) == size
    assert nest.count(K, Members(("none",), lambda _: False), ()) == 1
    assert nest.steps() == nest.count(K, ALL, ())


@given(cut_nests(K))
def test_steps_are_the_turns_that_somebody_takes(case):
    """Lanes run in lockstep: a step is a combination of loop indices with at least one lane at work."""
    structure, size, tile, factors = case
    temporal = [0, *(memory + 1 for memory in structure.memories)]
    turns = {tuple(places[i] for i in temporal) for places in indices(size, tile, factors)}
    assert nest_of(structure, K, size, tile, factors).steps() == len(turns)


@given(cut_nests(K))
def test_factors_that_divide_make_counts_that_are_products(case):
    structure, _, _, factors = case
    tile = prod(factors)
    nest = nest_of(structure, K, 3 * tile, tile, factors)
    for outer in structure.memories:
        above = Members(("above", outer), lambda loop, outer=outer: loop.node < outer)
        trips = 3 * prod(factors[memory] for memory in structure.memories if memory < outer)
        lanes = prod(factors[axis] for axis in structure.axes)
        assert nest.count(K, above, structure.axes) == trips * lanes


@given(cut_nests(K))
def test_what_a_memory_holds_is_never_more_than_a_tile(case):
    structure, size, tile, factors = case
    nest = nest_of(structure, K, size, tile, factors)
    held = [float(nest.held(memory, K)[0]) for memory in structure.memories]
    assert held == [min(tile, prod(factors[memory:])) for memory in structure.memories]
    assert all(outer >= inner for outer, inner in pairwise(held))


def test_the_example_of_a_thousand_on_32_lanes():
    """Size 1000 on 32 lanes inside one loop of 32: the loop runs 32 times, and 1000 lanes get work."""
    structure = Structure(("WIO", ""), ("".join(DIMS), "K"), None)
    nest = nest_of(structure, K, 1000, 1000, [32, 32])
    assert nest.count(K, ALL, ()) == 32
    assert nest.count(K, ALL, (1,)) == 1000
    assert nest.count(K, Members(("none",), lambda _: False), (1,)) == 32
