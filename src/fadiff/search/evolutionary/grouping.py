"""From genomes to legal groups: what runs together, and the condition each layer then runs under.

A *seat* is a layer's place in a plan. Seats are numbered, stand side by side in one table, and serve all individuals
that take the same plan.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from fadiff.search import clock
from fadiff.search.driver import OutOfTimeError
from fadiff.search.evolutionary.fitting import Rows
from fadiff.search.evolutionary.genome import SHARES, STRENGTHS, Encoding, Genomes
from fadiff.search.exact.plans import Members, Plan, alone, bonds, split

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from fadiff.schedule import Group
    from fadiff.search.exact.conditions import Condition

    Taken = tuple[int, Int[np.ndarray, " layers"]]
    """Where a run of layers starts, and their seats."""

MOST_REMEMBERED = 200_000
"""Choices of a plan that are remembered."""


class Grouping:
    """The groups that genomes ask for, made legal."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.task = encoding.task
        workload = self.task.workload
        self._names = workload.topological
        self._at = np.array([self.task.number[name] for name in self._names])
        """Layer numbers in topological order."""
        self._run, self._seat = cache(self._new_run), cache(self._new_seats)
        self._nearest_seats = lru_cache(MOST_REMEMBERED)(self._seats_of_nearest)
        self._seats: list[tuple[Plan, int]] = []
        """By seat: the plan, and the layer's place in it."""
        self._tables: list[Rows] = []
        """The seats in the order of their numbers, in parts."""
        self.alone = np.array([self._seat(alone(self.task, layer.name))[0] for layer in workload.layers])
        """``[layers]`` the seat of each layer on its own."""

    def seats(self, genomes: Genomes) -> Int[np.ndarray, "individuals layers"]:
        """The seat of every layer; raises :class:`OutOfTimeError` when the task's deadline passes.

        Runs of layers held together by edges of strength are split at their weakest place until each may be a group
        whose buffers fit; its trip counts are the legal ones nearest to what its layers wish on average.
        """
        seats = np.tile(self.alone, (len(genomes.strength), 1))
        bond = bonds(self.task.workload, np.where(self.encoding.required, STRENGTHS, genomes.strength))
        wish = genomes.wish[:, self._at]
        for i in np.flatnonzero((bond >= STRENGTHS // 2).any(axis=1)):
            if clock.monotonic() > self.task.deadline:
                raise OutOfTimeError
            for start, taken in split(bond[i], STRENGTHS // 2, partial(self._taken, wish[i])):
                seats[i, self._at[start : start + taken.size]] = taken
        return seats

    def _taken(self, wishes: Int[np.ndarray, "layers wishes"], start: int, stop: int) -> Taken | None:
        """The seats of a run in the legal plan nearest to what its layers wish on average; None without one."""
        return self._nearest_seats(start, stop, tuple(np.rint(wishes[start:stop].mean(axis=0)).tolist()))

    def _seats_of_nearest(self, start: int, stop: int, wish: tuple[float, ...]) -> Taken | None:
        """Those of the plan whose trips are nearest to shares of the last layer's loops; X is a part of its C."""
        run, channel_plans = self._run(start, stop)
        sizes = self.task.workload[run.names[-1]].dims
        wanted = np.array(wish[:-1]) / SHARES * np.log([sizes.G, sizes.N, sizes.P, sizes.Q, sizes.C])
        plan = run.nearest_plan(wanted[:4].tolist())
        found = [plan] if plan is not None else []
        found += [one for one in channel_plans if one.group.nesting.startswith("GX") == bool(wish[-1])]
        nearest = min(found, key=lambda one: np.square(np.log(one.group.trips) - wanted).sum(), default=None)
        return None if nearest is None else (start, self._seat(nearest))

    def _new_run(self, start: int, stop: int) -> tuple[Members, list[Plan]]:
        """A run, and its plans with a channel loop."""
        run = Members(self.task, self._names[start:stop])
        shared = map(run.plan, run.chosen()) if stop - start == 2 else ()
        return run, [plan for plan in shared if plan.group.trips.X > 1]

    def condition(self, seat: int) -> Condition:
        """The condition of a seat."""
        plan, turn = self._seats[seat]
        return plan.conditions[turn]

    def allowed(self, seats: Int[np.ndarray, "individuals layers"]) -> Bool[np.ndarray, " individuals"]:
        """Whether all groups are such as are asked for."""
        allows = np.array([self.task.restrictions.allows(plan.group) for plan, _ in self._seats])
        return np.asarray(allows[seats].all(axis=1))

    def groups(self, seats: Int[np.ndarray, " layers"]) -> tuple[Group, ...]:
        """The groups of one individual, in execution order."""
        taken: list[int] = seats[self._at].tolist()
        return tuple(dict.fromkeys(self._seats[seat][0].group for seat in taken))

    def rows(self, seats: Int[np.ndarray, "individuals layers"]) -> Rows:
        """Individuals as rows, layer by layer; a row's group is the row of its first layer."""
        if len(self._tables) > 1:
            self._tables = [jax.tree.map(_side_by_side, *self._tables)]

        def taken(table: Float[np.ndarray, "... seats"]) -> Float[np.ndarray, "... rows"]:
            return table[..., seats.ravel()]

        rows: Rows = jax.tree.map(taken, self._tables[0])
        individual = np.repeat(np.arange(len(seats)), seats.shape[1])
        return rows._replace(group=(rows.group + individual * seats.shape[1]).astype(np.int32))

    def _new_seats(self, plan: Plan) -> Int[np.ndarray, " layers"]:
        """Seats for a plan."""
        count = len(plan.conditions)
        self._seats += [(plan, turn) for turn in range(count)]
        packed = self.task.rows(plan.conditions, [self.task.all_room] * count, (0.0, 0.0))
        first = np.full(count, self.task.number[plan.group.layers[0]])
        live = np.array(plan.live_bytes, dtype=np.float32)
        least = None if packed.ends is None else packed.ends.least
        self._tables.append(Rows(packed.layers, packed.fusion, first, live, packed.must_hold, least))
        return np.arange(count) + len(self._seats) - count


def _side_by_side(*parts: Float[np.ndarray, "... seats"]) -> Float[np.ndarray, "... seats"]:
    return np.concatenate(parts, axis=-1)
