"""Mappings that one move away from another, or two, lead to: each of them once, however many moves do.

A mapping has places that change on their own: the factors of a dim, which are settled without a look at other dims,
and the order of a memory's loops. So its neighbours are put together from the alternatives at one place, or at two;
those of a dim are found once for all mappings that have the same factors there. What fits no axis is left out, and
where factors must divide, what does not.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fadiff.search.exact.climb import stepped
from fadiff.search.exact.conditions import as_moves, steps_of_dim
from fadiff.search.space import settle
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.search.exact.conditions import Condition, Task

    Alternatives = Int[np.ndarray, "nodes found"]
    """Factors of a dim at every node; of a memory, in one row, numbers of orders."""


class Neighbours(NamedTuple):
    """A mapping, and after it others."""

    factors: Float[np.ndarray, "nodes 8 mappings"]
    order: Int[np.ndarray, "memories mappings"]


class _Way(NamedTuple):
    """How a dim may change."""

    dim: int
    size: int
    tile: int
    nodes: tuple[int, ...]
    axes: tuple[int, ...]
    lanes: tuple[int, ...]
    exact: bool


def neighbours(
    task: Task,
    condition: Condition,
    factors: Int[np.ndarray, "nodes 8"],
    order: Int[np.ndarray, " memories"],
    *,
    pairs: bool,
) -> Neighbours:
    """What the moves of a layer make of a mapping; with `pairs` any two of those that go in pairs."""
    axes, lanes = task.machine.structure.axes, tuple(axis.size for axis in task.machine.axes)
    once, twice = dict[int, "Alternatives"](), dict[int, "Alternatives"]()
    for d, size in enumerate(task.layer(condition).dims):
        if size > 1:
            way = _Way(d, size, condition.tile[d], task.space.nodes[DIMS[d]], axes, lanes, task.exact_factors)
            column = factors[:, d].astype(np.int32).tobytes()
            once[d] = _after_one_of_two(way, column) if pairs else _after_one(way, column)
            twice[d] = _after_two(way, column) if pairs else once[d]
    for memory, orders in enumerate(task.space.orders):
        if len(orders) > 1:
            once[8 + memory] = twice[8 + memory] = np.delete(np.arange(len(orders)), order[memory])[None]
    parts = [[(place, mine)] for place, mine in twice.items()]
    if pairs:
        used, limits = factors[list(axes)], np.array(lanes)[:, None]
        for (a, mine), (b, other) in combinations(once.items(), 2):
            fits = np.ones((mine.shape[1], other.shape[1]), dtype=bool)
            if b < 8 and axes:
                room = limits // np.delete(used, [a, b], axis=1).prod(axis=1, keepdims=True)
                fits = (mine[list(axes), :, None] * other[list(axes), None] <= room[..., None]).all(axis=0)
            i, j = np.nonzero(fits)
            parts.append([(a, mine[:, i]), (b, other[:, j])])
    count = 1 + sum(part[0][1].shape[1] for part in parts)
    found = Neighbours(np.empty((*factors.shape, count), task.dtype), np.empty((len(order), count), np.int32))
    found.factors[...], found.order[...] = factors[..., None], order[:, None]
    at = 1
    for part in parts:
        stop = at + part[0][1].shape[1]
        for place, mine in part:
            if place < 8:
                found.factors[:, place, at:stop] = mine
            else:
                found.order[place - 8, at:stop] = mine
        at = stop
    return found


def side_by_side(parts: Sequence[Neighbours]) -> tuple[Array, Array]:
    """Factors ``[nodes, 8, mappings, rows]`` and orders of several; where one has fewer, its first is repeated.

    In memory the mappings of a row follow each other, so that NumPy has long loops.
    """
    most = max(part.order.shape[1] for part in parts)
    found: list[np.ndarray] = []
    for values in zip(*parts, strict=True):
        every = np.empty((*values[0].shape[:-1], len(parts), most), values[0].dtype)
        for j, mine in enumerate(values):
            every[..., j, : mine.shape[-1]] = mine
            every[..., j, mine.shape[-1] :] = mine[..., :1]
        found.append(every.swapaxes(-1, -2))
    factors, order = found
    return cast("Array", factors), cast("Array", order)


@lru_cache(2**15)
def _after_one(way: _Way, column: bytes) -> Alternatives:
    """Other factors of a dim after one move."""
    before = np.frombuffer(column, np.int32)[:, None]
    return _allowed(way, _different(before, _moved(way, before, pairs=False)))


@lru_cache(2**13)
def _after_one_of_two(way: _Way, column: bytes) -> Alternatives:
    """The same after one of the moves that go in pairs."""
    before = np.frombuffer(column, np.int32)[:, None]
    return _allowed(way, _different(before, _moved(way, before, pairs=True)))


@lru_cache(2**11)
def _after_two(way: _Way, column: bytes) -> Alternatives:
    """The same after one or two of them."""
    before = np.frombuffer(column, np.int32)[:, None]
    once = _different(before, _moved(way, before, pairs=True))
    return _allowed(way, _different(before, np.concatenate([once, _moved(way, once, pairs=True)], axis=1)))


def _moved(way: _Way, columns: Alternatives, *, pairs: bool) -> Alternatives:
    """What every move of a dim makes of every one of its factors."""
    moves = as_moves(steps_of_dim(way.dim, way.size, way.nodes, way.axes, pairs).T[:, :, None])
    nodes = np.arange(len(columns))[:, None, None]
    found = stepped(cast("Array", columns[:, None].astype(np.float64)), moves, cast("Array", nodes))
    settled = settle(found, cast("Array", np.array(way.tile, np.float64)))
    return np.asarray(settled).reshape(len(columns), -1).astype(np.int32)


def _different(before: Alternatives, columns: Alternatives) -> Alternatives:
    """The different ones but for one, in the order in which they come first."""
    every = np.ascontiguousarray(np.concatenate([before, columns], axis=1).T)
    _, first = np.unique(every.view(np.dtype((np.void, every[0].nbytes))), return_index=True)
    return every[np.sort(first)[1:]].T


def _allowed(way: _Way, columns: Alternatives) -> Alternatives:
    """Those that no axis is too narrow for, and that divide where they must."""
    fits = (columns[list(way.axes)] <= np.array(way.lanes)[:, None]).all(axis=0)
    return columns[:, fits & (columns.prod(axis=0) == way.tile)] if way.exact else columns[:, fits]
