"""From genomes to legal groups: what runs together, and the condition each layer then runs under.

A *seat* is a layer's place in a group: shared trips and their nesting, what is fused, and where its buffer lives.
Seats are numbered, stand side by side in one table, and serve all individuals that take the same group.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import gcd, prod
from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import numpy as np

from fadiff.cost.arrays import Fusion, Placement
from fadiff.schedule import Group, Trips, halos
from fadiff.search.conditions import Budgets, Problem
from fadiff.search.decode import bonds, split
from fadiff.search.genome import STRENGTHS, Encoding, Genomes
from fadiff.search.gradient.candidates import SHARED, SHARED_DIMS
from fadiff.search.groups import Plan, Run
from fadiff.search.options import from_dram
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

MOST_REMEMBERED = 200_000
"""Choices of a plan that are remembered."""
_K, _C = DIMS.index("K"), DIMS.index("C")


class Seats(NamedTuple):
    """Seats as the model's arrays; the last axes are one of seats, or individuals and layers."""

    fusion: Fusion
    placement: Placement
    must_complete: Array
    """1 where partial sums may not spill."""
    x_consumer: Array
    """1 in the consumer of a channel loop."""
    slack_bytes: Array
    """Bytes by which the group's L2 may be underestimated: shares of concatenated inputs are rounded up."""

    @property
    def shared(self) -> IntArray:
        """``[8, individuals, layers]`` the part of each dim that the group shares."""
        trips, x_trips = (np.asarray(part, dtype=np.int64) for part in (self.fusion.trips, self.fusion.x_trips))
        one = np.ones_like(trips[0])
        return np.stack([trips[0], trips[1], x_trips[0], x_trips[1], trips[2], trips[3], one, one])


class Grouping:
    """The groups that genomes ask for, repaired until they are legal."""

    def __init__(self, encoding: Encoding, problem: Problem) -> None:
        self.encoding = encoding
        self.problem = problem
        workload = encoding.workload
        self._names = workload.topological
        self._at = np.array([problem.number[name] for name in self._names])
        """Layer numbers in topological order."""
        self._runs: dict[tuple[int, int], _Candidates | None] = {}
        self._chosen: dict[tuple[int, int, bytes], _Taken | None] = {}
        self._first_seat: dict[Plan, int] = {}
        self._group: list[Group | None] = [None]
        """The group of each seat."""
        self._tables = [_vacant_seat()]
        """The seats in the order of their numbers, in parts."""
        self.vacant = 0
        """The seat of a padding layer, which belongs to no group."""
        self._alone = np.array([self._seat(Plan(Group((layer.name,)), (0,))) for layer in workload.layers])

    def seats(self, genomes: Genomes) -> IntArray:
        """``[individuals, layers]`` the seat of every layer, in legal groups.

        Runs of layers held together by edges of strength are split at their weakest place until each may be a group
        whose buffers leave room for tiles; its trip counts are the legal ones nearest to the mean of what its layers
        would share.
        """
        workload = self.encoding.workload
        seats = np.tile(self._alone, (genomes.individuals, 1))
        if len(self._names) < 2:
            return seats
        bond = bonds(workload, (genomes.strength + 0.5) / STRENGTHS)
        # Of each layer, in topological order: what it would share of G, N, P, Q, of K and C, and where X would run.
        wanted = genomes.factors[:, SHARED][:, (*SHARED_DIMS, _K, _C)]
        wanted = np.concatenate([wanted, genomes.x_outside[:, None]], axis=1)[:, :, self._at].transpose(0, 2, 1)
        for i, mine in enumerate(np.ascontiguousarray(wanted, dtype=np.int32)):
            for members, taken in split(bond[i], lambda start, stop, mine=mine: self._taken(start, stop, mine)):
                seats[i, members] = taken
        return seats

    def alone(self, seats: IntArray, broken: NDArray[np.bool_]) -> IntArray:
        """The seats with some layers (whole groups) on their own."""
        return np.where(broken, self._alone, seats)

    def groups(self, seats: IntArray) -> tuple[Group, ...]:
        """The groups of one individual, in execution order; `seats` ``[layers]``."""
        numbers: list[int] = seats[self._at].tolist()
        return tuple(dict.fromkeys(group for seat in numbers if (group := self._group[seat]) is not None))

    def packed(self, seats: NDArray[np.integer]) -> Seats:
        """Seats ``[individuals, layers]`` as the model's arrays."""
        if len(self._tables) > 1:
            self._tables = [jax.tree.map(_side_by_side, *self._tables)]

        def taken(table: Array) -> NDArray[np.float32]:
            return np.asarray(table)[..., seats]

        return jax.tree.map(taken, self._tables[0])

    def _taken(self, start: int, stop: int, wanted: NDArray[np.int32]) -> _Taken | None:
        """The seats of a run in the legal plan nearest to what its layers would share; None without one.

        `wanted` ``[layers, 7]``, in topological order.
        """
        mine = wanted[start:stop]
        key = (start, stop, mine.tobytes())
        if key not in self._chosen:
            if len(self._chosen) == MOST_REMEMBERED:
                self._chosen.clear()
            if (start, stop) not in self._runs:
                run = Run(self.encoding.workload, self._names[start:stop])
                self._runs[start, stop] = _Candidates(run, self.problem) if run.may_be_group else None
            candidates = self._runs[start, stop]
            plan = None if candidates is None else candidates.nearest(mine)
            taken = None if plan is None else (self._at[start:stop], self._seat(plan) + np.arange(stop - start))
            self._chosen[key] = taken
        return self._chosen[key]

    def _seat(self, plan: Plan) -> int:
        """Number of the plan's first seat; the others follow."""
        if plan not in self._first_seat:
            self._first_seat[plan] = len(self._group)
            self._group += [plan.group] * len(plan.group.layers)
            self._tables.append(_seats(self.problem, plan.group))
        return self._first_seat[plan]


_Taken = tuple["IntArray", "IntArray"]
"""Layer numbers, and the seats they take."""


class _Candidates:
    """The plans that a run of layers may take."""

    def __init__(self, run: Run, problem: Problem) -> None:
        self.run = run
        self.problem = problem
        self.hardware = problem.hardware
        self.capacity = problem.hardware.usable_l2_bytes - 3 * len(run.names)
        """Bytes for buffers: with its smallest tiles a layer takes two words, a share of an input rounded up."""

    @cached_property
    def channel_plans(self) -> list[Plan]:
        """Those that share the channel loop."""
        if len(self.run.names) != 2:
            return []
        shared = (plan for plan in self.run.plans(self.hardware) if plan.group.trips.X > 1)
        return [plan for plan in shared if self._holds_sums(plan)]

    def _holds_sums(self, plan: Plan) -> bool:
        """Whether L1 can hold the consumer's sums over all of X, where they may not spill."""
        condition = self.problem.conditions(plan.group)[1]
        if not condition.must_complete:
            return True
        inside = condition.nesting[condition.nesting.index("X") :]
        if any(condition.trips[Trips._fields.index(loop)] > 1 for loop in inside[1:]):
            return False
        sizes = self.problem.private_sizes(condition)
        unrolled = fullest_array(self.problem, condition.layer)
        sums = [sizes[d] // gcd(sizes[d], int(unrolled[d])) for d, dim in enumerate(DIMS) if dim in "GNKPQ"]
        return 4 * self.hardware.cols * (prod(sums) + 1) <= self.hardware.usable_l1_bytes

    def nearest(self, wanted: NDArray[np.int32]) -> Plan | None:
        """The plan nearest to what the layers want; None where there is none or its buffers leave no room."""
        log_trips = np.log(wanted[:, :6]).mean(axis=0)
        plan = self.run.nearest_plan(self.hardware, log_trips[:4].tolist())
        found = [] if plan is None else [plan]
        if self.channel_plans:
            # X is a part of the first layer's K and the second one's C.
            log_x = (np.log(wanted[0, 4]) + np.log(wanted[1, 5])) / 2
            outside = bool(wanted[0, 6])
            aim = np.append(log_trips[:4], log_x)
            found += [plan for plan in self.channel_plans if plan.group.nesting.startswith("GX") == outside]
            found.sort(key=lambda plan: float(np.square(np.log(plan.group.trips) - aim).sum()))
        return next((plan for plan in found if max(plan.live_bytes) <= self.capacity), None)


def fullest_array(problem: Problem, layer: int) -> NDArray[np.int32]:
    """``[8]`` what a layer unrolls where it fills the array as far as it can."""
    (alone,) = problem.conditions(Group((problem.workload.layers[layer].name,)))
    return from_dram(problem, alone)[0].astype(np.int32)


def _seats(problem: Problem, group: Group) -> Seats:
    """The seats of a group, in its order."""
    workload, depth = problem.workload, problem.workload.depth
    conditions = problem.conditions(group)
    none = np.zeros(len(conditions), dtype=np.float32)
    rows = problem.rows(conditions, Budgets(none, none, none), (0.0, 0.0))
    inside = frozenset(group.layers)
    halo = halos(workload, [e for name in group.layers for e in workload.producers[name] if e.source in inside])
    uses = [[depth[e.target] for e in workload.consumers[name] if e.target in inside] for name in group.layers]
    consumer = [problem.number[group.layers[1]] if c.x_role == "K" else -1 for c in conditions]
    channels = [layer.dims.G * layer.dims.C for layer in map(workload.__getitem__, group.layers)]
    partly = sum(0 < c.fused_channels < whole for c, whole in zip(conditions, channels, strict=True))
    return Seats(
        fusion=rows.fusion,
        placement=Placement(
            group=_numbers([depth[group.layers[0]]] * len(conditions)),
            position=_numbers([depth[name] for name in group.layers]),
            last_use=_numbers([max([depth[name], *mine]) for name, mine in zip(group.layers, uses, strict=True)]),
            halo=_numbers([[halo.get(name, (0, 0))[axis] for name in group.layers] for axis in (0, 1)]),
            x_consumer=_numbers(consumer),
        ),
        must_complete=rows.must_complete,
        x_consumer=_numbers([c.x_role == "C" for c in conditions]),
        slack_bytes=_numbers([partly] * len(conditions)),
    )


def _vacant_seat() -> Seats:
    """The seat of nobody: no loops shared, nothing fused, nothing in memory."""
    no, one = _numbers([0]), _numbers([1])
    ranks = _numbers([[i] for i in range(len(Trips._fields))])
    return Seats(
        fusion=Fusion(_numbers([[1]] * 5), ranks, _numbers([[1], [1]]), no, no, no, no, no, no),
        placement=Placement(-one, -one, -one, _numbers([[0], [0]]), -one),
        must_complete=no,
        x_consumer=no,
        slack_bytes=no,
    )


def _side_by_side(*parts: Array) -> NDArray[np.float32]:
    return np.concatenate([np.asarray(part) for part in parts], axis=-1)


def _numbers(values: Sequence[object]) -> Array:
    return cast("Array", np.array(values, dtype=np.float32))
