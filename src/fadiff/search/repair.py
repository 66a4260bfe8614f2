"""From genomes to legal, priced schedules, a whole population in one compiled call.

1. Strengths and shared factors become legal groups (:mod:`fadiff.search.grouping`, with the decoder of the gradient
   method), and each layer gives up what its group shares (:func:`fadiff.search.options.without_shared`).
2. Factors move outwards, a prime at a time, until every layer fits: unrolled loops that the array does not take to L1,
   sums that L1 does not hold to L2, tiles that L2 does not hold to L3, in each group the layer that takes most first.
   Fused producers finish their sums: reductions go inside, or to the innermost place at L3.
3. A group that fits in no way is dissolved, and its layers run on their own, which always fits.

What comes out is what was priced: the genomes returned say exactly the schedules that the energies belong to.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import numpy as np

from fadiff.schedule import Mapping, Schedule
from fadiff.search.conditions import Problem
from fadiff.search.deadline import OutOfTimeError
from fadiff.search.driver import EXPONENTS
from fadiff.search.fitting import Fitted, fit
from fadiff.search.genome import STRENGTHS, Encoding, Genomes, join, take
from fadiff.search.gradient.candidates import SHARED, T3
from fadiff.search.gradient.problem import padded_layers
from fadiff.search.grouping import Grouping, Seats, fullest_array
from fadiff.search.options import without_shared
from fadiff.search.space import ORDER1, ORDER2, SLIDING_ORDERS3, prime_factors
from fadiff.workload import Dims

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray

    from fadiff.cost.arrays import HardwareArrays
    from fadiff.search.driver import Incumbent, Objective

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


LAYER_STEP = 16
MOST_PRIMES = 4
"""Layers are padded to a multiple, and the primes of a size to a number that few sizes exceed: networks of similar size
share a compiled program."""
MOST_PAIRS = 2**22
"""Pairs of layers, over all individuals, in one compiled call: what is in L2 together is summed over all pairs."""


class Population(NamedTuple):
    """Legal schedules of one workload, and what they cost. Shapes ``[individuals]``."""

    genomes: Genomes
    seats: IntArray
    """``[individuals, layers]``"""
    energy_pj: FloatArray
    cycles: FloatArray

    def score(self, objective: Objective) -> FloatArray:
        """The logarithm of what the search minimizes, as :func:`fadiff.search.driver.score`."""
        a, b = EXPONENTS[objective]
        return a * np.log(self.energy_pj) + b * np.log(self.cycles)


class Repair:
    """Repairs and prices genomes, `batch` of them in a compiled call (fewer where there are hundreds of layers)."""

    def __init__(self, encoding: Encoding, batch: int, deadline: float = float("inf")) -> None:
        self.encoding = encoding
        self.deadline = deadline
        self.problem = Problem(encoding.workload, encoding.hardware)
        self.grouping = Grouping(encoding, self.problem)
        self._layers = len(encoding.workload.layers)
        self._padding = -self._layers % LAYER_STEP
        self.batch = min(batch, max(1, MOST_PAIRS // (self._layers + self._padding) ** 2))
        self._numbers = (
            padded_layers(self.problem.layers, np.arange(self._layers), self._layers + self._padding),
            _with_room_to_round(self.problem.machine),
            self.problem.axes,
            self._padded(np.stack([fullest_array(self.problem, i) for i in range(self._layers)], axis=-1), 1),
            self._padded(_prime_table(encoding.size), 1),
        )
        ends = [[self.problem.number[name] for name in edge[:2]] for edge in encoding.workload.edges]
        self._ends = np.array(ends, dtype=np.int64).reshape(-1, 2).T

    def __call__(self, genomes: Genomes) -> Population:
        """Legal schedules near the genomes; raises :class:`OutOfTimeError` when the deadline passes."""
        parts: list[Population] = []
        for at in range(0, genomes.individuals, self.batch):
            if time.monotonic() > self.deadline:
                raise OutOfTimeError
            part = take(genomes, slice(at, at + self.batch))
            # Missing individuals repeat the last, so that one program serves all sizes.
            filled = take(part, np.minimum(np.arange(self.batch), part.individuals - 1))
            parts.append(_head(self._repaired(filled), part.individuals))
        return Population(
            join([part.genomes for part in parts]),
            np.concatenate([part.seats for part in parts]),
            np.concatenate([part.energy_pj for part in parts]),
            np.concatenate([part.cycles for part in parts]),
        )

    def _repaired(self, genomes: Genomes) -> Population:
        seats = self.grouping.seats(genomes)
        whole = genomes.factors.transpose(1, 2, 0, 3)
        whole = np.concatenate([whole[:T3], (whole[T3] * whole[SHARED])[None]])
        while True:
            packed = self.grouping.packed(self._padded(seats, self.grouping.vacant))
            start = self._padded(without_shared(whole, packed.shared[..., : self._layers]), 1)
            fitted: Fitted = jax.device_get(fit(start, self._padded(genomes.order, 0), packed, *self._numbers))
            broken = ~np.asarray(fitted.fits)
            if not broken.any():
                return self._population(genomes, seats, packed, fitted)
            assert np.asarray(packed.fusion.grouped)[broken].all(), "a layer on its own always fits"
            seats = self.grouping.alone(seats, broken[:, : self._layers])

    def _padded(self, values: NDArray[np.integer], fill: int) -> NDArray[np.int32]:
        """Values ``[..., layers]`` with padding layers."""
        widths = [(0, 0)] * (values.ndim - 1) + [(0, self._padding)]
        return np.pad(values, widths, constant_values=fill).astype(np.int32)

    def _population(self, genomes: Genomes, seats: IntArray, packed: Seats, fitted: Fitted) -> Population:
        """What was fitted, as genomes: layers of a group share what it shares; on their own, they keep their wish."""
        real = slice(self._layers)
        private, shared = np.asarray(fitted.private, dtype=np.int64)[..., real], packed.shared[..., real]
        alone = np.asarray(packed.fusion.grouped)[:, real] == 0
        wish = np.where(alone, genomes.factors[:, SHARED].transpose(1, 0, 2), shared)
        rest = private[T3] * shared // wish
        group = np.asarray(packed.placement.group)
        fused = group[:, self._ends[0]] == group[:, self._ends[1]]
        agrees = (genomes.strength >= STRENGTHS // 2) == fused
        repaired = Genomes(
            factors=np.concatenate([private[:T3], rest[None], wish[None]]).transpose(2, 0, 1, 3),
            order=np.asarray(fitted.order, dtype=np.int64)[:, real],
            strength=np.where(agrees, genomes.strength, STRENGTHS - 1 - genomes.strength),
            x_outside=genomes.x_outside,
        )
        energy_pj, cycles = (np.asarray(values, dtype=np.float64) for values in (fitted.energy_pj, fitted.cycles))
        return Population(repaired, seats, energy_pj, cycles)

    def schedule(self, population: Population, index: int) -> Schedule:
        """One of the schedules."""
        workload, hardware = self.encoding.workload, self.encoding.hardware
        factors = population.genomes.factors[index]
        mappings: dict[str, Mapping] = {}
        for i, layer in enumerate(workload.layers):
            if layer.is_mac:
                parts = [*factors[:T3, :, i], factors[T3, :, i] * factors[SHARED, :, i]]
                spatial, l0, l1, l2, l3 = (Dims(*(int(f) for f in part)) for part in parts)
                order3 = SLIDING_ORDERS3[int(population.genomes.order[index, i])]
                mappings[layer.name] = Mapping(spatial, l0, l1, l2, l3, ORDER1, ORDER2, order3)
        return Schedule(workload, hardware, self.grouping.groups(population.seats[index]), mappings)


def offer_best(repair: Repair, population: Population, scores: FloatArray, incumbent: Incumbent, best: float) -> float:
    """Offer the best individual if its score is below `best`; the least score so far."""
    first = int(scores.argmin())
    if scores[first] >= best:
        return best
    incumbent.offer(repair.schedule(population, first))
    return float(scores[first])


def _head(population: Population, count: int) -> Population:
    genomes, seats, energy_pj, cycles = population
    return Population(take(genomes, slice(count)), seats[:count], energy_pj[:count], cycles[:count])


def _with_room_to_round(machine: HardwareArrays) -> HardwareArrays:
    """The machine with capacities that sums in 32 bits cannot miss: up to 4 MB they are exact, above by a millionth."""

    def room(capacity: Array) -> Array:
        return cast("Array", np.where(capacity < 2**22, capacity, np.floor(capacity * (1 - 2.0**-20))))

    return machine._replace(l1_bytes=room(machine.l1_bytes), l2_bytes=room(machine.l2_bytes))


def _prime_table(size: IntArray) -> NDArray[np.int32]:
    """``[primes, 8, layers]`` the primes that divide each dim, increasing, padded with 1."""
    found = [[[prime for prime, _ in prime_factors(int(n))] for n in row] for row in size]
    most = max(MOST_PRIMES, *(len(primes) for row in found for primes in row))
    padded = [[primes + [1] * (most - len(primes)) for primes in row] for row in found]
    return np.array(padded, dtype=np.int32).transpose(2, 0, 1)
