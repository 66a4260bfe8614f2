"""Mappings to climb from: full arrays, random ones, weights at home."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.space import divisors, prime_factors
from fadiff.workload import DIMS
from fadiff.workload.layer import RELEVANT

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from fadiff.search.exact.conditions import Condition, Task


class Start(NamedTuple):
    """A mapping to start from, for any condition of a layer: it is settled for the condition's tiles."""

    factors: Float[np.ndarray, "nodes 8"]
    """The first memory's make up for what the others leave."""
    order: Int[np.ndarray, " memories"]


def outermost(task: Task) -> Start:
    """A start with tiles of one value: every loop at the first memory."""
    return Start(np.ones((len(task.machine.nodes), 8)), np.zeros(len(task.machine.memories), dtype=np.int32))


def smallest(task: Task, condition: Condition) -> list[Start]:
    """Starts that fit if anything does: tiles of one value, and where something is asked of the layer, such with all
    weights at home too, in every order of the first memory's loops."""
    start = outermost(task)
    if task.restrictions.ends is None:
        return [start]
    orders = [np.concatenate([[number], start.order[1:]]) for number in range(len(task.space.orders[0]))]
    starts = start, pinned(task, condition, outermost(task))
    return [Start(one.factors, order.astype(np.int32)) for one in starts for order in orders]


def full_array(task: Task, condition: Condition) -> Start:
    """A start with the axes as full as they get, dims in the order they name them, and every loop at the first memory.

    A dim takes the fewest lanes for its number of trips; where factors must divide, as many as divide it.
    """
    return _array(task, condition, lambda dims: dims, max)


def dealt_array(task: Task, condition: Condition, random: np.random.Generator) -> Start:
    """The same with dims in a random order, of which all but the last take random numbers of lanes."""
    return _array(task, condition, random.permutation, random.choice)


def _array(
    task: Task,
    condition: Condition,
    ordered: Callable[[list[int]], Sequence[int] | Int[np.ndarray, " dims"]],
    chosen: Callable[[list[int]], int],
) -> Start:
    """A start with lanes alone: dims of an axis in an order, each but the last with one of the numbers of lanes that
    differ in their trips, and the last one with the most."""
    start, ends = outermost(task), task.restrictions.ends
    left = list(condition.tile)
    for node, axis in zip(task.machine.structure.axes, task.machine.axes, strict=True):
        lanes, dims = axis.size, [int(d) for d in ordered([d for d in map(DIMS.index, axis.dims) if left[d] > 1])]
        for d in dims:
            most = lanes if ends is None else max(1, int(min(lanes, ends.most[node, d, condition.layer])))
            if task.exact_factors:
                options = [divisor for divisor in divisors(left[d]) if divisor <= most]
            else:
                options = sorted({-(-left[d] // -(-left[d] // many)) for many in range(1, most + 1)})
            used = int(chosen(options)) if d != dims[-1] else options[-1]
            start.factors[node, d] = used
            left[d], lanes = -(-left[d] // used), lanes // used
    return start


def pinned(task: Task, condition: Condition, start: Start | None = None) -> Start:
    """A start, by default a full array, with all weights at home, the input streaming."""
    start, structure = start or full_array(task, condition), task.machine.structure
    home = structure.home("W")
    for dim in RELEVANT["W"] if home is not None else "":
        inside = [node for node in task.space.nodes[dim] if node in structure.memories and node >= (home or 0)]
        start.factors[inside[:1], DIMS.index(dim)] = condition.tile[DIMS.index(dim)]
    return start


def scattered(task: Task, condition: Condition, random: np.random.Generator, array: Start | None = None) -> Start:
    """A random start: every prime factor left over by the axes, by default of a full array, goes to a random useful
    memory."""
    start = array or full_array(task, condition)
    memories = set(task.machine.structure.memories)
    for d, dim in enumerate(DIMS):
        nodes = [node for node in task.space.nodes[dim] if node in memories]
        left = -(-condition.tile[d] // int(start.factors[:, d].prod()))
        for prime, exponent in prime_factors(left):
            for _ in range(exponent):
                start.factors[nodes[random.integers(len(nodes))], d] *= prime
    for i, orders in enumerate(task.space.orders):
        start.order[i] = random.integers(len(orders))
    return start
