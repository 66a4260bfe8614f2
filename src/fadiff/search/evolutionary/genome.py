"""Schedules as arrays of integers, many at once: what the baseline methods vary.

A genome says of every layer which factor each dim has at each useful node below the first memory, in which order each
memory's loops run, and which share of each loop the layer would share with its group; and of every edge how strongly it
holds its two layers together. Factors are any whole numbers: they are settled for the tiles that the layer gets, and
the first memory takes what they leave. So any genome can be repaired into a legal schedule
(:mod:`fadiff.search.evolutionary.repair`).
"""

from __future__ import annotations

from itertools import count
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.schedule.ir import SHARED_LOOPS
from fadiff.search.space import prime_factors
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jaxtyping import Int

    from fadiff.schedule import Schedule
    from fadiff.search.exact.conditions import Task

    GeneRows = Int[np.ndarray, "individuals genes"]

STRENGTHS = 8
"""An edge of strength 4 to 7 is to be fused. Where a group cannot be, it is split at the weakest of its edges."""
SHARES = 8
"""A wish of s is to share size^(s/8) trips of a loop."""
WISHES = len(SHARED_LOOPS) + 1
"""What a layer would share of G, N, P, Q and of the channel loop X; and 1 where X should run outside N, P, Q."""
LARGEST_PRIME = 7
"""A size with larger primes is drawn as the next number without: its last tiles are cut."""


class Genomes(NamedTuple):
    """A population by kind of gene; layers and edges are numbered as the workload lists them, nodes as the machine."""

    factors: Int[np.ndarray, "individuals layers nodes 8"]
    """Of the nodes below the first memory; 1 in add layers."""
    order: Int[np.ndarray, "individuals layers memories"]
    """Number of each memory's loop order."""
    wish: Int[np.ndarray, "individuals layers wishes"]
    strength: Int[np.ndarray, "individuals edges"]


class Encoding:
    """Which genomes there are for a workload on a machine: rows of genes, :meth:`genes` tells what they mean."""

    def __init__(self, task: Task) -> None:
        self.task = task
        workload, layers, nodes = task.workload, len(task.workload.layers), len(task.machine.nodes)
        memories, edges = len(task.machine.memories), len(task.workload.edges)
        self._shapes = [(layers, nodes - 1, len(DIMS)), (layers, memories), (layers, WISHES), (edges,)]
        self._ends = np.cumsum([prod(shape) for shape in self._shapes])
        self.is_mac = np.array([layer.is_mac for layer in workload.layers])
        """``[layers]``"""
        self.size = np.array([layer.dims if layer.is_mac else (1,) * 8 for layer in workload.layers])
        """``[layers, 8]`` what a mapping covers; 1 in add layers, which have none."""
        self.orders = np.array([len(orders) for orders in task.space.orders])
        """``[memories]`` how many loop orders there are."""
        shared = [(*(layer.dims._asdict()[loop] for loop in "GNPQ"), max(layer.dims[2:4])) for layer in workload.layers]
        self.loop_size = np.array(shared)
        """``[layers, 5]`` trips that there are to share of G, N, P, Q, X."""
        fuses = task.machine.structure.hands_over is not None
        alike = [workload[edge.source].repeat == workload[edge.target].repeat for edge in workload.edges]
        asked = task.restrictions
        barred = [(edge.source, edge.target) in asked.barred or not edge.fusible for edge in workload.edges]
        self.fusible = fuses & ~np.array(barred, dtype=bool) & np.array(alike, bool)
        """``[edges]`` edges that may ever be fused; the strength of the others is 0."""
        self.required = np.array([(edge.source, edge.target) in asked.required for edge in workload.edges], dtype=bool)
        """``[edges]`` edges that must be fused, whatever their strength."""
        ends = [[task.number[name] for name in edge[:2]] for edge in workload.edges]
        self.ends = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        """``[2, edges]`` the producer and the consumer of each edge."""
        joined = np.isin(np.arange(layers), self.ends[:, self.fusible])[:, None]
        self.wishes = joined & (self.loop_size > 1)[:, [*range(len(SHARED_LOOPS)), -1]]
        """``[layers, wishes]`` whether a wish may have an effect; the others are 0."""
        self.owner = np.concatenate([np.repeat(np.arange(layers), prod(shape[1:])) for shape in self._shapes[:-1]])
        self.owner = np.append(self.owner, self.ends[1])
        """``[genes]`` the layer that a gene belongs to; an edge belongs to its consumer."""
        primes = [
            (*place, prime)
            for place, size in np.ndenumerate(self.size)
            for prime, exponent in prime_factors(_smooth(int(size)))
            for _ in range(exponent)
        ]
        self._primes = np.array(primes, dtype=np.int64).reshape(-1, 3).T
        """Layer, dim and prime: each of a size, or of the next number without large primes, as often as it divides."""
        self._allowed = np.array([np.isin(np.arange(nodes), task.space.nodes[dim]) for dim in DIMS])
        """``[8, nodes]``"""

    def genes(self, rows: GeneRows) -> Genomes:
        """Views of rows by kind of gene: what is written to them is written to the rows."""
        parts = np.split(rows, self._ends[:-1], axis=1)
        return Genomes(*(part.reshape(len(rows), *shape) for part, shape in zip(parts, self._shapes, strict=True)))

    def random(self, random: np.random.Generator, count: int) -> GeneRows:
        """Individuals with every prime at a useful node, every order, wish and strength drawn uniformly."""
        layer, dim, prime = self._primes
        allowed = self._allowed[dim]
        node = np.where(allowed, random.random((count, *allowed.shape)), -1.0).argmax(axis=-1)
        factors = np.ones((count, len(self.is_mac), allowed.shape[1], len(DIMS)), dtype=np.int64)
        np.multiply.at(factors, (np.arange(count)[:, None], layer, node, dim), prime)
        order = random.integers(self.orders, size=(count, *self._shapes[1])) * self.is_mac[:, None]
        wish = self.random_wishes(random, (count, len(self.is_mac)))
        strength = random.integers(STRENGTHS, size=(count, self.fusible.size)) * self.fusible
        return np.concatenate([x.reshape(count, -1) for x in (factors[:, :, 1:], order, wish, strength)], axis=1)

    def random_wishes(
        self, random: np.random.Generator, drawn: tuple[int, int]
    ) -> Int[np.ndarray, "individuals layers wishes"]:
        """Wishes drawn uniformly for individuals and layers; with 1 for layers, all of an individual wish the same."""
        return random.integers([*[SHARES + 1] * len(SHARED_LOOPS), 2], size=(*drawn, WISHES)) * self.wishes

    def of_schedule(self, schedule: Schedule) -> GeneRows:
        """The genome of a schedule without shared loops whose mappings are of the task's nodes and orders."""
        row = np.zeros((1, self._ends[-1]), dtype=np.int64)
        factors, order, _, strength = self.genes(row)
        factors[:] = 1
        strength[0] = [(STRENGTHS - 1) * schedule.is_fused(edge) for edge in self.task.workload.edges]
        for i, layer in enumerate(self.task.workload.layers):
            if layer.is_mac:
                mapping = schedule.mappings[layer.name]
                factors[0, i] = mapping.factors[1:]
                chosen = zip(mapping.orders, self.task.space.orders, strict=True)
                order[0, i] = [orders.index(mine) for mine, orders in chosen]
        return row


def _smooth(size: int) -> int:
    """The least number from `size` on without large primes.

    >>> _smooth(112), _smooth(197)
    (112, 200)
    """
    return next(n for n in count(size) if all(prime <= LARGEST_PRIME for prime, _ in prime_factors(n)))
