"""From genomes to legal groups: what runs together, and the condition each layer then runs under.

A *seat* is a layer's place in a plan. Seats are numbered, stand side by side in one table, and serve all individuals
that take the same plan.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from fadiff.search.deadline import OutOfTimeError
from fadiff.search.evolutionary.fitting import Rows
from fadiff.search.evolutionary.genome import SHARES, STRENGTHS, Encoding, Genomes
from fadiff.search.exact.plans import Plan, Run, alone, bonds, split

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from fadiff.schedule import Group
    from fadiff.search.exact.conditions import Condition

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
        self._runs: dict[tuple[int, int], tuple[Run, list[Plan]]] = {}
        self._chosen: dict[tuple[int, int, bytes], tuple[int, Int[np.ndarray, " layers"]] | None] = {}
        self._first_seat: dict[Plan, int] = {}
        self._seats: list[tuple[Plan, int]] = []
        """By seat: the plan, and the layer's place in it."""
        self._tables: list[Rows] = []
        """The seats in the order of their numbers, in parts."""
        self._alone = np.array([self._seat(alone(self.task, layer.name))[0] for layer in workload.layers])

    def seats(self, genomes: Genomes) -> Int[np.ndarray, "individuals layers"]:
        """The seat of every layer; raises :class:`OutOfTimeError` when the task's deadline passes.

        Runs of layers held together by edges of strength are split at their weakest place until each may be a group
        whose buffers fit; its trip counts are the legal ones nearest to what its layers wish on average.
        """
        seats = np.tile(self._alone, (len(genomes.strength), 1))
        bond = bonds(self.task.workload, genomes.strength)
        wish = genomes.wish[:, self._at]
        for i in np.flatnonzero((bond >= STRENGTHS // 2).any(axis=1)):
            if time.monotonic() > self.task.deadline:
                raise OutOfTimeError
            for start, taken in split(bond[i], STRENGTHS // 2, partial(self._taken, wish[i])):
                seats[i, self._at[start : start + taken.size]] = taken
        return seats

    def _taken(
        self, wishes: Int[np.ndarray, "layers wishes"], start: int, stop: int
    ) -> tuple[int, Int[np.ndarray, " layers"]] | None:
        """Where a run starts and its seats in the legal plan nearest to what its layers wish; None without one."""
        wish = np.rint(wishes[start:stop].mean(axis=0))
        key = (start, stop, wish.tobytes())
        if key not in self._chosen:
            if len(self._chosen) == MOST_REMEMBERED:
                self._chosen.clear()
            plan = self._nearest(start, stop, wish)
            self._chosen[key] = None if plan is None else (start, self._seat(plan))
        return self._chosen[key]

    def _nearest(self, start: int, stop: int, wish: Float[np.ndarray, " wishes"]) -> Plan | None:
        """The plan of a run whose trips are nearest to shares of its last layer's loops; X is a part of its C."""
        names = self._names[start:stop]
        if (start, stop) not in self._runs:
            run = Run(self.task, names)
            shared = map(run.plan, run.chosen()) if len(names) == 2 else ()
            self._runs[start, stop] = run, [plan for plan in shared if plan.group.trips.X > 1]
        run, channel_plans = self._runs[start, stop]
        sizes = self.task.workload[names[-1]].dims
        wanted = wish[:-1] / SHARES * np.log([sizes.G, sizes.N, sizes.P, sizes.Q, sizes.C])
        plan = run.nearest_plan(wanted[:4].tolist())
        found = [plan] if plan is not None else []
        found += [one for one in channel_plans if one.group.nesting.startswith("GX") == bool(wish[-1])]
        return min(found, key=lambda one: np.square(np.log(one.group.trips) - wanted).sum(), default=None)

    def alone(
        self, seats: Int[np.ndarray, "individuals layers"], broken: Bool[np.ndarray, "individuals layers"]
    ) -> Int[np.ndarray, "individuals layers"]:
        """The seats with some layers (whole groups) on their own."""
        return np.where(broken, self._alone, seats)

    def condition(self, seat: int) -> Condition:
        """The condition of a seat."""
        plan, turn = self._seats[seat]
        return plan.conditions[turn]

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

    def _seat(self, plan: Plan) -> Int[np.ndarray, " layers"]:
        """The seats of a plan."""
        count = len(plan.conditions)
        if plan not in self._first_seat:
            self._first_seat[plan] = len(self._seats)
            self._seats += [(plan, turn) for turn in range(count)]
            packed = self.task.rows(plan.conditions, [self.task.all_room] * count, (0.0, 0.0))
            first = np.full(count, self.task.number[plan.group.layers[0]])
            live = np.array(plan.live_bytes, dtype=np.float32)
            self._tables.append(Rows(packed.layers, packed.fusion, first, live, packed.must_hold))
        return self._first_seat[plan] + np.arange(count)


def _side_by_side(*parts: Float[np.ndarray, "... seats"]) -> Float[np.ndarray, "... seats"]:
    return np.concatenate(parts, axis=-1)
