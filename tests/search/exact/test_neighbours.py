"""Neighbours: all that moves lead to, each mapping once, and nothing that no axis has lanes for."""

from math import prod

import numpy as np
import pytest

from fadiff.search.exact.climb import Moves, moved
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.neighbours import Neighbours, neighbours, side_by_side
from fadiff.search.exact.starts import outermost, pinned, scattered
from fadiff.search.space import settle
from search.exact.rows import GROUPS, conditions_in
from search.networks import EYERISS, FLAT, GEMMINI, NETWORKS, SIMBA, at_dram


def some_mappings(exact=False):
    """Layers in groups, each with a mapping."""
    random = np.random.default_rng(0)
    for name, one in GROUPS[::2]:
        for machine in (GEMMINI, FLAT, EYERISS, SIMBA):
            task = Task(NETWORKS[name], machine, exact_factors=exact)
            for condition in conditions_in(task, at_dram(NETWORKS[name], machine, one)).values():
                for start in (outermost(task), scattered(task, condition, random), pinned(task, condition)):
                    yield task, condition, settle(start.factors, np.array(condition.tile)), start.order


def told(factors, order, task):
    """Different mappings that all axes have lanes for."""
    both = zip(np.moveaxis(factors, -1, 0), order.T, strict=True)
    axes = list(zip(task.machine.structure.axes, task.machine.axes, strict=True))
    return {
        (one.astype(int).tobytes(), tuple(numbers.tolist()))
        for one, numbers in both
        if all(prod(one[node]) <= axis.size for node, axis in axes)
    }


def test_neighbours_are_what_single_moves_lead_to_and_each_is_there_once():
    fewer = 0
    for task, condition, factors, order in some_mappings():
        found = neighbours(task, condition, factors, order, pairs=False)
        moves = task.moves([condition], pairs=False)
        tile = np.array(condition.tile, dtype=np.float64)[:, None, None]
        every = moved(factors[:, :, None, None], order[:, None, None], moves, tile)
        assert np.array_equal(found.factors[..., 0], factors)
        assert np.array_equal(found.order[:, 0], order)
        mine = told(*found, task)
        assert mine == told(*(part[..., 0] for part in every), task)
        fits = [all(prod(one[n]) <= a.size for n, a in zip(task.machine.structure.axes, task.machine.axes, strict=True))
                for one in np.moveaxis(found.factors, -1, 0)]  # fmt: skip
        assert len(mine) == sum(fits)
        fewer += len(mine) < moves.dim.shape[0] / 2
    assert fewer > 20


def test_pairs_are_what_any_two_moves_lead_to():
    for task, condition, factors, order in list(some_mappings())[::5]:
        found = neighbours(task, condition, factors, order, pairs=True)
        moves = task.moves([condition], pairs=True)
        first, second = np.triu_indices(moves.dim.shape[0])
        tile = np.array(condition.tile, dtype=np.float64)[:, None, None]
        twice = factors[:, :, None, None], order[:, None, None]
        for chosen in (first, second):
            twice = moved(*twice, Moves(*(part[chosen] for part in moves)), tile)
        mine = told(*found, task)
        assert mine >= told(*(part[..., 0] for part in twice), task)
        assert len(mine) <= found.order.shape[1]
        again = {
            (a.tobytes(), b.tobytes()) for a, b in zip(np.moveaxis(found.factors, -1, 0), found.order.T, strict=True)
        }
        assert len(again) == found.order.shape[1]


@pytest.mark.parametrize("pairs", [False, True])
def test_where_factors_must_divide_neighbours_do(pairs):
    seen = 0
    for task, condition, factors, order in list(some_mappings(exact=True))[::5]:
        found = neighbours(task, condition, factors, order, pairs=pairs)
        assert (found.factors[..., 1:].prod(axis=0) == np.array(condition.tile)[:, None]).all()
        seen += found.order.shape[1] > 2
    assert seen > 5


def test_the_first_of_a_row_fills_up_what_it_has_fewer_of():
    numbers = np.arange(2 * 8 * 3, dtype=np.float32).reshape(2, 8, 3)
    one, other = (Neighbours(numbers + k, np.arange(3)[None] + k) for k in (0, 100))
    factors, order = side_by_side([one, Neighbours(*(part[..., :1] for part in other))])
    assert factors.shape == (2, 8, 3, 2)
    assert np.array_equal(factors[..., 0], one.factors)
    assert np.array_equal(factors[..., 1], np.repeat(other.factors[..., :1], 3, axis=-1))
    assert order[0].T.tolist() == [[0, 1, 2], [100, 100, 100]]
