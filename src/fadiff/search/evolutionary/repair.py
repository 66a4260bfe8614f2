"""From genomes to legal, priced schedules, a whole population in one compiled call.

1. Strengths and wishes become legal groups (:mod:`fadiff.search.evolutionary.grouping`), and factors are settled
   for the tiles that layers get in them.
2. Factors move outwards until every group fits (:mod:`fadiff.search.evolutionary.fitting`).
3. A group that fits in no way is dissolved, and its layers run on their own, which always fits.

What comes out is what was priced: the genomes returned say exactly the schedules that the energies belong to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import numpy as np

from fadiff.schedule import Mapping, Schedule
from fadiff.schedule.arrays import MappingArrays, unpack_mapping
from fadiff.schedule.nest import Nest
from fadiff.search import clock
from fadiff.search.driver import OutOfTimeError
from fadiff.search.evolutionary.fitting import Fitted, Frame, Mapped, Rows, fit
from fadiff.search.evolutionary.genome import STRENGTHS, Encoding
from fadiff.search.evolutionary.grouping import Grouping
from fadiff.search.exact.conditions import Task
from fadiff.search.restrictions import keeps, project
from fadiff.search.space import rank_table
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Bool, Float, Int

    from fadiff.hardware import Machine
    from fadiff.search.driver import Incumbent, Settings
    from fadiff.search.evolutionary.genome import GeneRows
    from fadiff.search.objective import Objective
    from fadiff.workload import Workload

NOT_KEPT = 1e6
"""Schedules that are not as asked cost so much more: any other is better."""
ROWS = 2048
"""Layers, of all individuals, in one compiled call: one size, so that networks share a program."""


class Population(NamedTuple):
    """Legal schedules of one workload, and what they cost."""

    rows: GeneRows
    seats: Int[np.ndarray, "individuals layers"]
    energy_pj: Float[np.ndarray, " individuals"]
    cycles: Float[np.ndarray, " individuals"]

    def score(self, objective: Objective) -> Float[np.ndarray, " individuals"]:
        """The logarithm of what the search minimizes."""
        return objective.log_value(self.energy_pj, self.cycles, np.log)


class Repair:
    """Repairs and prices genomes of one encoding, as many in a compiled call as its rows hold."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.task = encoding.task
        self.grouping = Grouping(encoding)
        space = self.task.space
        self._frame = Frame(self.task.machine.structure, tuple(space.nodes[dim] for dim in DIMS), space.orders)
        self._repeat = np.array([layer.repeat for layer in self.task.workload.layers])
        self._rows = max(ROWS, self._repeat.size)
        self._chunk = self._rows // self._repeat.size
        self._room = np.array(self.task.all_room.running, dtype=np.float32)
        self._ends = self.task.restrictions.ends

    def __call__(self, rows: GeneRows) -> Population:
        """Legal schedules near the genomes; raises :class:`OutOfTimeError` when the task's deadline passes.

        Individuals are fitted in chunks of one size. After a few rounds those that still move are gathered into new
        chunks, and so are those with a group that fits in no way, which is dissolved.
        """
        repaired, genomes = rows.copy(), self.encoding.genes(rows)
        factors, order, _, strength = self.encoding.genes(repaired)
        seats = self.grouping.seats(genomes)
        left, cost = np.arange(len(rows)), np.zeros((2, *seats.shape))
        while left.size:
            again: list[Int[np.ndarray, " some"]] = []
            for chunk in np.split(left, range(self._chunk, left.size, self._chunk)):
                if clock.monotonic() > self.task.deadline:
                    raise OutOfTimeError
                found = self._fitted(factors[chunk], order[chunk], seats[chunk])
                moving = found.moving.any(axis=1)
                broken = ~found.fits & ~moving[:, None]
                alone = np.where(broken, self.grouping.alone, seats[chunk])
                assert (alone != seats[chunk])[broken].all(), "a layer on its own always fits"
                # Layers of a dissolved group begin again with what their genome says.
                factors[chunk] = np.where(broken[..., None, None], genomes.factors[chunk], found.factors[:, :, 1:])
                order[chunk] = np.where(broken[..., None], genomes.order[chunk], found.order)
                seats[chunk], cost[:, chunk] = alone, (found.energy_pj, found.cycles)
                again.append(chunk[moving | broken.any(axis=1)])
            left = np.concatenate(again)
        # Strengths say what is fused.
        group = self.grouping.rows(seats).group.reshape(seats.shape)
        agrees = (strength >= STRENGTHS // 2) == np.equal(*(group[:, end] for end in self.encoding.ends))
        strength[:] = np.where(agrees, strength, STRENGTHS - 1 - strength)
        total = cost @ self._repeat
        if self.task.restrictions.constraints:
            total = np.where(self._kept(factors, order, seats), total, NOT_KEPT * total)
        return Population(repaired, seats, *total)

    def _kept(
        self,
        factors: Int[np.ndarray, "individuals layers nodes 8"],
        order: Int[np.ndarray, "individuals layers memories"],
        seats: Int[np.ndarray, "individuals layers"],
    ) -> Bool[np.ndarray, " individuals"]:
        """Which schedules are as asked."""
        allowed = self.grouping.allowed(seats)
        if self._ends is None:
            return allowed
        rows, structure = self.grouping.rows(seats), self.task.machine.structure
        inner = factors.transpose(2, 3, 0, 1).reshape(-1, 8, seats.size).astype(np.float64)
        whole = np.concatenate([np.ceil(np.asarray(rows.fusion.tile) / inner.prod(axis=0))[None], inner])
        number = order.transpose(2, 0, 1).reshape(-1, seats.size)
        rank = tuple(rank_table(orders)[:, number[i]] for i, orders in enumerate(self.task.space.orders))
        mapping = MappingArrays(cast("Array", whole), cast("tuple[Array, ...]", rank))
        nest = Nest(structure, rows.layers, mapping, rows.fusion)
        kept = np.asarray(keeps(self._ends.of(self._layer_of(seats)), nest, cast("Array", number)))
        return allowed & (kept.reshape(seats.shape) | ~self.encoding.is_mac).all(axis=1)

    def _layer_of(self, seats: Int[np.ndarray, "individuals layers"]) -> list[int]:
        """The layer of each row."""
        return [*range(seats.shape[1])] * len(seats)

    def _fitted(
        self,
        factors: Int[np.ndarray, "individuals layers nodes 8"],
        order: Int[np.ndarray, "individuals layers memories"],
        seats: Int[np.ndarray, "individuals layers"],
    ) -> Fitted:
        """A few rounds for a chunk of individuals; shapes are ``[individuals, layers, ...]``."""
        every, count = np.arange(self._rows), seats.size
        inner = factors.transpose(2, 3, 0, 1).reshape(-1, 8, count).astype(np.float32)
        whole = np.concatenate([np.ones_like(inner[:1]), inner])
        number, fusion = order.transpose(2, 0, 1).reshape(-1, count).astype(np.int32), self.grouping.rows(seats).fusion
        if self._ends is not None:
            ends = self._ends.of(self._layer_of(seats))
            near, number = project(whole, number, ends, fusion.tile, fusion.shared, self.task.machine)
            whole = np.where(self.encoding.is_mac[self._layer_of(seats)], near, 1).astype(np.float32)
        mapped = Mapped(whole, number.astype(np.int32))
        # Missing rows repeat the first, each as a group of its own.
        filled = np.where(every < count, every, 0)

        def pad(values: Float[np.ndarray, "... rows"]) -> Float[np.ndarray, "... rows"]:
            return values[..., filled]

        def shaped(values: Float[np.ndarray, "... rows"]) -> Float[np.ndarray, "individuals layers ..."]:
            mine = np.moveaxis(values[..., :count], -1, 0)
            return mine.reshape(*seats.shape, *mine.shape[1:])

        rows: Rows = jax.tree.map(pad, self.grouping.rows(seats))
        rows = rows._replace(group=np.where(every < count, rows.group, every))
        fitted = fit(self._frame, rows, jax.tree.map(pad, mapped), self.task.numbers, self._room, self.task.deadline)
        return jax.tree.map(shaped, fitted)

    def schedule(self, population: Population, index: int) -> Schedule:
        """One of the schedules."""
        genomes, seats = self.encoding.genes(population.rows), population.seats[index]
        mappings: dict[str, Mapping] = {}
        for i, layer in enumerate(self.task.workload.layers):
            if layer.is_mac:
                condition = self.grouping.condition(int(seats[i]))
                inner = genomes.factors[index, i]
                below = inner.prod(axis=0)
                first = [-(-tile // int(b)) for tile, b in zip(condition.tile, below, strict=True)]
                orders = [orders[int(genomes.order[index, i, m])] for m, orders in enumerate(self.task.space.orders)]
                mappings[layer.name] = unpack_mapping(np.vstack([first, inner]), self.task.shared(condition), orders)
        return Schedule(self.task.workload, self.task.machine, self.grouping.groups(seats), mappings)


class Judge:
    """Repairs and prices the genomes of a search, and offers every schedule that is better than all before."""

    def __init__(self, workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent) -> None:
        self.encoding = Encoding(Task.of(workload, machine, settings))
        self.repair = Repair(self.encoding)
        self.objective = settings.objective
        self.incumbent = incumbent
        self.best = np.inf
        """The least score so far."""

    def __call__(self, rows: GeneRows) -> tuple[GeneRows, Float[np.ndarray, " individuals"]]:
        """The repaired genomes and their scores."""
        population = self.repair(rows)
        scores = population.score(self.objective)
        if scores.min() < self.best:
            self.best = float(scores.min())
            self.incumbent.offer(self.repair.schedule(population, int(scores.argmin())))
        return population.rows, scores
