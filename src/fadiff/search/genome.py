"""Schedules as arrays of integers, many at once: what the baseline methods vary.

A genome says of every layer where each prime factor of each dim goes, in which order its L3 loops run, and of every
edge how strongly it holds its two layers together. Besides the slots of a mapping there is one more, SHARED: the part
of the L3 factor that the layer would share with its fusion group, as in the relaxation of
:mod:`fadiff.search.gradient`. Any genome can be repaired into a legal schedule (:mod:`fadiff.search.repair`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.schedule import Mapping, Schedule
from fadiff.search.gradient.candidates import SHARED, SHARED_DIMS, SLOTS
from fadiff.search.gradient.problem import is_fusible
from fadiff.search.groups import Run
from fadiff.search.space import SLIDING_ORDERS3, T3, prime_factors, useful_slots
from fadiff.workload import DIMS, Layer, Workload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fadiff.hardware import Hardware

    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]

STRENGTHS = 8
"""An edge of strength 4 to 7 is to be fused. Where a group cannot be, it is split at the weakest of its edges."""
_K, _C = DIMS.index("K"), DIMS.index("C")


class Genomes(NamedTuple):
    """A population; layers and edges are numbered as the workload lists them."""

    factors: IntArray
    """``[individuals, 6, 8, layers]`` spatial, t0, t1, t2, private t3, shared t3; a dim's six multiply to its size.

    An add layer has no mapping: its factors only say which part of N, P, Q it would share.
    """
    order: IntArray
    """``[individuals, layers]`` index into :data:`fadiff.search.space.SLIDING_ORDERS3`; 0 for add layers."""
    strength: IntArray
    """``[individuals, edges]`` 0 to 7."""
    x_outside: IntArray
    """``[individuals, layers]`` in the producer of a channel loop: 1 where X runs outside N, P, Q, else inside."""

    @property
    def individuals(self) -> int:
        """How many there are."""
        return len(self.factors)


def take(genomes: Genomes, index: slice | IntArray | Sequence[int]) -> Genomes:
    """Some of the individuals."""
    return Genomes(*(genes[index] for genes in genomes))


def join(parts: Sequence[Genomes]) -> Genomes:
    """Individuals one after the other."""
    return Genomes(*(np.concatenate(genes) for genes in zip(*parts, strict=True)))


class Encoding:
    """Which genomes there are for a workload on an accelerator."""

    def __init__(self, workload: Workload, hardware: Hardware) -> None:
        self.workload = workload
        self.hardware = hardware
        count = len(workload.layers)
        number = {layer.name: i for i, layer in enumerate(workload.layers)}
        self.is_mac = np.array([layer.is_mac for layer in workload.layers])
        """``[layers]``"""
        may_fuse = [is_fusible(workload, edge) for edge in workload.edges]
        self.fusible = np.array(may_fuse, dtype=bool)
        """``[edges]`` edges that may ever be fused; the strength of the others is 0."""
        self.x_producer = np.zeros(count, dtype=bool)
        """``[layers]`` layers that may share the channel loop with the next one."""
        x_consumer = np.zeros(count, dtype=bool)
        for pair in pairwise(workload.topological):
            if any(plan.group.trips.X > 1 for plan in Run(workload, pair).plans(hardware)):
                self.x_producer[number[pair[0]]] = x_consumer[number[pair[1]]] = True
        self.slots = np.zeros((SLOTS, len(DIMS), count), dtype=bool)
        """``[6, 8, layers]`` slots that a factor of the dim may take."""
        for i, layer in enumerate(workload.layers):
            for d, dim in enumerate(DIMS):
                self.slots[list(useful_slots(dim, hardware)) if layer.is_mac else [T3], d, i] = True
        joined = {name for edge, fuse in zip(workload.edges, may_fuse, strict=True) if fuse for name in edge[:2]}
        for i in (number[name] for name in joined):
            self.slots[SHARED, list(SHARED_DIMS), i] = True
        self.slots[SHARED, _K, self.x_producer] = True
        self.slots[SHARED, _C, x_consumer] = True
        self.size = np.array([layer.dims if layer.is_mac else _tiled(layer) for layer in workload.layers]).T
        """``[8, layers]`` what the factors of a dim multiply to; 1 for the channels of an add layer, which has none."""
        found = [
            (d, i, prime)
            for d in range(len(DIMS))
            for i in range(count)
            for prime, exponent in prime_factors(int(self.size[d, i]))
            for _ in range(exponent)
        ]
        self.dim, self.layer, self.prime = np.array(found, dtype=np.int64).reshape(-1, 3).T
        """``[primes]`` every prime factor of every dim of every layer, as often as it divides."""

        self.owner = np.concatenate(
            [
                np.tile(np.arange(count), SLOTS * len(DIMS) + 1),
                [number[edge.target] for edge in workload.edges],
                np.arange(count),
            ]
        ).astype(np.int64)
        """``[genes]`` of a row of :meth:`flat`: the layer that a gene belongs to; an edge belongs to its consumer."""

    def random(self, random: np.random.Generator, count: int) -> Genomes:
        """Individuals with every prime in a slot, every order and every strength drawn uniformly."""
        factors = np.ones((count, *self.slots.shape), dtype=np.int64)
        allowed = self.slots[:, self.dim, self.layer]
        chosen = np.where(allowed, random.random((count, *allowed.shape)), -1.0).argmax(axis=1)
        cells = np.flatnonzero(np.diff(self.dim * len(self.workload.layers) + self.layer, prepend=-1))
        if cells.size:
            dims, layers = self.dim[cells], self.layer[cells]
            for slot in range(SLOTS):
                placed = np.where(chosen == slot, self.prime, 1)
                factors[:, slot, dims, layers] = np.multiply.reduceat(placed, cells, axis=1)
        return Genomes(
            factors=factors,
            order=random.integers(len(SLIDING_ORDERS3), size=(count, self.is_mac.size)) * self.is_mac,
            strength=random.integers(STRENGTHS, size=(count, self.fusible.size)) * self.fusible,
            x_outside=random.integers(2, size=(count, self.is_mac.size)) * self.x_producer,
        )

    def of_schedule(self, schedule: Schedule) -> Genomes:
        """The genome of a schedule whose mappings use the slots and orders of :mod:`fadiff.search.space`."""
        columns: list[IntArray] = []
        orders: list[int] = []
        for i, layer in enumerate(self.workload.layers):
            group = schedule.group_of[layer.name]
            mapping = schedule.mappings.get(layer.name)
            shared = np.ones(len(DIMS), dtype=np.int64)
            shared[list(SHARED_DIMS)] = group.trips[:4]
            if (pair := schedule.channel_loop(group)) is not None:
                shared[_K if layer.name == pair[0] else _C] = group.trips.X
            if mapping is None:
                mapping = Mapping(l3=type(layer.dims)(*(int(size) for size in self.size[:, i])))
            l3 = np.array(mapping.l3)
            columns.append(np.array([mapping.spatial, mapping.l0, mapping.l1, mapping.l2, l3 // shared, shared]))
            orders.append(SLIDING_ORDERS3.index(mapping.order3) if layer.is_mac else 0)
        outside = [schedule.group_of[layer.name].nesting.startswith("GX") for layer in self.workload.layers]
        fused = np.array([schedule.is_fused(edge) for edge in self.workload.edges], dtype=np.int64)
        return Genomes(
            factors=np.stack(columns, axis=-1)[None].astype(np.int64),
            order=np.array(orders)[None],
            strength=np.where(fused, STRENGTHS - 1, 0)[None],
            x_outside=np.array(outside, dtype=np.int64)[None] * self.x_producer,
        )

    def flat(self, genomes: Genomes) -> IntArray:
        """``[individuals, genes]`` all genes of an individual in one row."""
        return np.concatenate([genes.reshape(genomes.individuals, -1) for genes in genomes], axis=1)

    def shaped(self, rows: IntArray) -> Genomes:
        """The inverse of :meth:`flat`."""
        count = len(self.workload.layers)
        shapes = (self.slots.shape, (count,), (self.fusible.size,), (count,))
        ends = np.cumsum([prod(shape) for shape in shapes])[:-1]
        parts = np.split(rows, ends, axis=1)
        return Genomes(*(part.reshape(len(rows), *shape) for part, shape in zip(parts, shapes, strict=True)))


def _tiled(layer: Layer) -> tuple[int, ...]:
    """The dims of an add layer that a group may share; 1 for the others."""
    return tuple(size if d in SHARED_DIMS else 1 for d, size in enumerate(layer.dims))
