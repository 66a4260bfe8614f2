"""Constraints of groups, told by names: an edge is fused, or is not; exactly these layers are a group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff.schedule.constraint_kinds import Constraint
from fadiff.schedule.ir import SHARED_LOOPS, Group, Trips
from fadiff.schedule.selection import EVERY, ConstraintError, Layers, close_to

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.workload import Edge, Workload


@dataclass(frozen=True)
class Fuse(Constraint):
    """Tensors between two layers stay on chip, or go through the first memory."""

    source: Layers
    target: Layers = EVERY
    fused: bool = True

    def __str__(self) -> str:
        if self.target == EVERY:
            return f"the output of {self.source} {'stays on' if self.fused else 'leaves the'} chip"
        return f"{self.source} -> {self.target} is {'' if self.fused else 'not '}fused"

    def check(self, workload: Workload, machine: Machine) -> None:
        """Refuse layers that are not there, and pairs without an edge."""
        self.source.check(workload)
        self.target.check(workload)
        if not any(True for _ in self.edges(workload)):
            raise ConstraintError(f"{self}: no layer among the second reads one among the first")

    def edges(self, workload: Workload) -> Iterator[tuple[Edge, bool]]:
        """The edges between the two."""
        for edge in workload.edges:
            if workload[edge.source] in self.source and workload[edge.target] in self.target:
                yield edge, self.fused


@dataclass(frozen=True)
class Together(Constraint):
    """Exactly these layers are a group, under these shared trips and this nesting where they are given."""

    layers: tuple[str, ...]
    trips: Trips | None = None
    loops: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.layers)) < len(self.layers):
            raise ConstraintError(f"group {'+'.join(self.layers)} lists a layer twice: list every layer once")
        if len(self.layers) == 1 and self.trips is not None:
            raise ConstraintError(f"{self.layers[0]} runs on its own and shares nothing: leave its trips out")
        if self.loops is not None and self.trips is None:
            raise ConstraintError(f"group {'+'.join(self.layers)} nests loops {self.loops!r}: give its trips, too")
        # A group that cannot be one is refused where it is told.
        Group(self.layers, self.trips or Trips(), self.nesting)

    def __str__(self) -> str:
        counts = {} if self.trips is None else self.trips._asdict()
        shared = [f"{loop} {counts[loop]}" for loop in _running(self.loops or SHARED_LOOPS, self.trips or Trips())]
        told = ", ".join(shared) + (" nested in this order" if self.loops and len(shared) > 1 else "")
        if len(self.layers) == 1:
            return f"{self.layers[0]} runs on its own"
        what = f"{'+'.join(self.layers)} is a group"
        return what if self.trips is None else f"{what} that shares {told or 'nothing'}"

    @property
    def nesting(self) -> str:
        """The nesting that is given, or one that suits the trips."""
        return self.loops or ("GNPQX" if self.trips is not None and self.trips.X > 1 else "GNPQ")

    def check(self, workload: Workload, machine: Machine) -> None:
        """Refuse layers that are not there."""
        known = [layer.name for layer in workload.layers]
        for name in self.layers:
            if name not in known:
                raise ConstraintError(f"{self}: {name!r} is no layer of {workload.name}{close_to(name, known)}")

    def allows(self, group: Group) -> bool:
        """Whether a group that has these layers is the one."""
        if frozenset(group.layers) != frozenset(self.layers) or (self.trips or group.trips) != group.trips:
            return False
        return self.loops is None or _running(self.loops, group.trips) == _running(group.loops, group.trips)

    def agreed(self, other: Together) -> Together | None:
        """The group that is as both ask; None where there is none, as they differ in layers, trips or nesting."""
        if {*self.layers} != {*other.layers} or (self.trips and other.trips and self.trips != other.trips):
            return None
        trips = self.trips or other.trips
        nested = {_running(one.loops, trips) for one in (self, other) if trips is not None and one.loops is not None}
        return None if len(nested) > 1 else Together(self.layers, trips, self.loops or other.loops)

    def edges(self, workload: Workload) -> Iterator[tuple[Edge, bool]]:
        """Edges inside the group are fused, those that cross its border are not."""
        for edge in workload.edges:
            if (edge.source in self.layers) or (edge.target in self.layers):
                yield edge, edge.source in self.layers and edge.target in self.layers

    def group(self) -> Together | None:
        """The group itself."""
        return self


def _running(loops: str, trips: Trips) -> str:
    """The shared loops of more than one trip, outer to inner."""
    return "".join(loop for loop in Group(("",), trips, loops).nesting if trips._asdict()[loop] > 1)
