"""The shape of the map space, derived from the machine: where factors may pay, which loop orders differ, which numbers
are worth trying.

A mapping's factors may be any whole numbers: :func:`settle` makes them legal, so a search only has to vary them.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.hardware import Axis, Machine, Memory, Structure
from fadiff.schedule.namespace import namespace
from fadiff.workload.layer import DIMS, RELEVANT, TENSORS

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float

    from fadiff.workload import Workload

LOOP_CLASSES = ("K", "NPQ", "CRS")
"""Dims by the tensors that they are irrelevant to (I, W, O); G is relevant to all and stands outermost."""


class Space(NamedTuple):
    """What of a machine's map space is worth searching."""

    nodes: dict[str, tuple[int, ...]]
    """By dim: the nodes at which a factor may pay, outermost first; the first memory is always among them."""
    orders: tuple[tuple[str, ...], ...]
    """By memory: the loop orders that differ, outer to inner."""


@cache
def map_space(machine: Machine) -> Space:
    """The space of a machine."""
    nodes = {dim: useful_nodes(machine, dim) for dim in DIMS}
    memories = machine.structure.memories
    loops = ["".join(dim for dim in DIMS if node in nodes[dim]) for node in memories]
    orders = tuple(useful_orders(_kept_below(machine, node), dims) for node, dims in zip(memories, loops, strict=True))
    return Space(nodes, orders)


def useful_structure(workload: Workload, machine: Machine, space: Space) -> Structure:
    """A machine's structure with only those dims at each node for which a factor may pay in some layer."""
    nodes, whole = space.nodes, looped_structure(workload, machine)
    dims = ("".join(dim for dim in DIMS if dim in mine and node in nodes[dim]) for node, mine in enumerate(whole.dims))
    return Structure(whole.keeps, tuple(dims), whole.fuses)


def looped_structure(workload: Workload, machine: Machine) -> Structure:
    """A machine's structure with only those dims of which some layer has more than one."""
    looped = {dim for d, dim in enumerate(DIMS) if any(layer.dims[d] > 1 for layer in workload.layers)}
    whole = machine.structure
    return Structure(whole.keeps, tuple("".join(filter(looped.__contains__, dims)) for dims in whole.dims), whole.fuses)


def useful_nodes(machine: Machine, dim: str) -> tuple[int, ...]:
    """Nodes that a factor of a dim can profit from.

    A loop at a memory whose next memories further in keep only tensors that the dim is irrelevant to may as well run
    there: it fills no tile, and reuse is further in. At the last memory a loop must leave room for what it would tile.
    """
    memories = machine.structure.memories
    found: list[int] = []
    for i, node in enumerate(machine.nodes):
        if isinstance(node, Axis):
            if dim in node.dims and node.size > 1:
                found.append(i)
            continue
        if i != memories[-1]:
            useful = i == 0 or any(dim in RELEVANT[t] for t in _kept_next(machine, i))
        else:
            useful = _has_room(machine, node) or all(dim not in RELEVANT[t] for t in node.keeps)
        if useful:
            found.append(i)
    return tuple(found)


def _kept_next(machine: Machine, memory: int) -> str:
    """Tensors of the next memory further in, and of those after it that keep others, with no axis between: which of
    these comes first says nothing."""
    keeps, found = machine.structure.keeps, ""
    for node in filter(memory.__lt__, machine.structure.memories):
        apart = found and (node - 1 not in machine.structure.memories or set(keeps[node]) & set(found))
        if apart:
            break
        found += "".join(keeps[node])
    return found


def _has_room(machine: Machine, memory: Memory) -> bool:
    """Whether the last memory holds more than one value of each tensor that it keeps."""
    bits = {"W": machine.bits.W, "I": machine.bits.I, "O": machine.bits.sums}
    return memory.usable_bytes * 8 > sum(bits[t] for t in memory.keeps)


def _kept_below(machine: Machine, memory: int) -> str:
    """Tensors kept further in than a memory: those to which the order of its loops matters."""
    inner = {t for node in machine.structure.memories if node > memory for t in machine.structure.keeps[node]}
    return "".join(t for t in TENSORS if t in inner)


@cache
def useful_orders(tensors: str, dims: str) -> tuple[str, ...]:
    """Orders of the loops over `dims` at a memory that differ for some of the `tensors` kept further in.

    What an order decides is, for each tensor and each set of classes of loops that run, which irrelevant ones stand
    outside the innermost relevant one and repeat it. Of orders that decide the same, and of those that are worse for
    no tensor and no set than another, one remains. Where I is kept further in its window may slide along columns or
    rows.

    >>> useful_orders("WO", "GKNPQ")
    ('GKNPQCRS',)
    """
    running = [loops for loops in LOOP_CLASSES if set(loops) & set(dims)]
    sets = [set(chosen) for size in range(1, len(running) + 1) for chosen in combinations(running, size)]

    def repeats(order: tuple[str, ...]) -> list[frozenset[str]]:
        return [_repeating(tensor, [loops for loops in order if loops in run]) for tensor in tensors for run in sets]

    kept: list[tuple[str, ...]] = []
    # Reductions inside outputs first, then the other way: of orders that decide the same the first remains.
    for order in permutations(LOOP_CLASSES):
        mine = repeats(order)
        if any(all(a <= b for a, b in zip(repeats(other), mine, strict=True)) for other in kept):
            continue
        kept = [o for o in kept if not all(a <= b for a, b in zip(mine, repeats(o), strict=True))]
        kept.append(order)
    found = ["G" + "".join(order) for order in kept]
    if "I" in tensors and {"P", "Q"} <= set(dims):
        found += [order.replace("NPQ", "NQP") for order in found]
    return tuple(found)


def _repeating(tensor: str, order: list[str]) -> frozenset[str]:
    """Classes of loops, outer to inner, that repeat a tensor: irrelevant ones outside the innermost relevant one."""
    relevant = [i for i, loops in enumerate(order) if loops[0] in RELEVANT[tensor]]
    return frozenset(order[: relevant[-1]]) - {order[i] for i in relevant} if relevant else frozenset()


def rank_table(orders: tuple[str, ...]) -> Float[np.ndarray, "8 orders"]:
    """Place of every dim's loop in each order, outermost 0."""
    return np.array([[order.index(d) for order in orders] for d in DIMS], dtype=np.float32)


def settle(factors: Float[Array, "nodes 8 *batch"], tile: Float[Array, "8 ..."]) -> Float[Array, "nodes 8 *batch"]:
    """Factors made legal for extents of `tile`: cut off where a dim is covered, the first memory takes what is left.

    From the innermost node out a factor is at most ceil(tile / extent below it), so none is idle.
    """
    xp = namespace(factors, tile)
    below, settled = xp.ones_like(factors[0]), list["Array"]()
    for node in reversed(range(factors.shape[0])):
        left = xp.ceil(tile / below)
        settled.append(left if node == 0 else xp.minimum(factors[node], left))
        below = below * settled[-1]
    return xp.stack(settled[::-1])


def divisors(number: int) -> list[int]:
    """All divisors, in increasing order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


def trip_counts(size: int) -> list[int]:
    """Numbers of trips over a dim that differ: the least for each size of a tile, in increasing order.

    >>> trip_counts(12)
    [1, 2, 3, 4, 6, 12]
    >>> trip_counts(7)
    [1, 2, 3, 4, 7]
    """
    return sorted({-(-size // -(-size // trips)) for trips in _few_or_many(size)})


def _few_or_many(size: int) -> set[int]:
    """All trip counts up to the root of a size, and those that leave tiles up to it."""
    root = int(size**0.5) + 1
    return {*range(1, root + 1), *(-(-size // tile) for tile in range(1, root + 1))}


def prime_factors(number: int) -> list[tuple[int, int]]:
    """Primes and their exponents.

    >>> prime_factors(56)
    [(2, 3), (7, 1)]
    """
    found: list[tuple[int, int]] = []
    prime = 2
    while number > 1:
        if prime * prime > number:
            prime = number
        exponent = 0
        while number % prime == 0:
            number //= prime
            exponent += 1
        if exponent:
            found.append((prime, exponent))
        prime += 1
    return found


def prime_powers(number: int, most: int) -> list[int]:
    """Prime factors of a number, and their powers up to `most` that divide it.

    >>> prime_powers(112, most=8)
    [2, 4, 8, 7]
    """
    return [
        prime**k
        for prime, exponent in prime_factors(number)
        for k in range(1, exponent + 1)
        if k == 1 or prime**k <= most
    ]
