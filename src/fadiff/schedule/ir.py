"""The schedule as a value. The whole grammar, on one screen:

.. code-block:: text

    Schedule = workload, hardware, groups in execution order, one Mapping per MAC layer
    Group    = layers in execution order, shared trip counts, nesting of the shared loops
    Mapping  = for each dim: spatial * t0 * t1 * t2 * t3 = size;  loop orders at L1, L2, L3 (outer to inner)

A group of one layer is a layer that runs on its own; every edge inside a group is fused. Whether a schedule is
*legal* is a question for :mod:`fadiff.schedule.legality`: values here may be wrong, but never malformed.
"""

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import NamedTuple

from fadiff.errors import FadiffError
from fadiff.hardware import Hardware
from fadiff.workload import Dims, Edge, Workload

DEFAULT_ORDER = "GNPQKCRS"
"""Loop order of a level that states none."""

SHARED_LOOPS = "GNPQX"
"""Loops a group may share: three output dims, the groups of G, and the channel loop X."""


class ScheduleError(FadiffError):
    """A schedule that cannot be read as one: layers missing, orders that are no permutation."""


class Trips(NamedTuple):
    """Trip counts of a group's shared loops."""

    G: int = 1
    N: int = 1
    P: int = 1
    Q: int = 1
    X: int = 1


@dataclass(frozen=True, slots=True)
class Mapping:
    """How one MAC layer is tiled: unrolled factors, temporal factors of L0..L3, and loop orders, outer to inner."""

    spatial: Dims = Dims()
    l0: Dims = Dims()
    l1: Dims = Dims()
    l2: Dims = Dims()
    l3: Dims = Dims()
    order1: str = DEFAULT_ORDER
    order2: str = DEFAULT_ORDER
    order3: str = DEFAULT_ORDER

    def __post_init__(self) -> None:
        for level, order in ((1, self.order1), (2, self.order2), (3, self.order3)):
            if sorted(order) != sorted(DEFAULT_ORDER):
                raise ScheduleError(
                    f"order L{level} is {order!r}: it must hold each of {DEFAULT_ORDER} once, outer to inner"
                )

    def factors(self, level: int) -> Dims:
        """Temporal factors of a level, 0 to 3."""
        return (self.l0, self.l1, self.l2, self.l3)[level]

    def order(self, level: int) -> str:
        """Loop order of level 1, 2 or 3, outer to inner."""
        return (self.order1, self.order2, self.order3)[level - 1]

    def extent(self, level: int) -> Dims:
        """Extents held at a level, x_m(d) = s*t0*...*tm."""
        held = (self.spatial, *(self.factors(m) for m in range(level + 1)))
        return Dims(*map(prod, zip(*held, strict=True)))


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that run as one loop nest: shared loops outside, its layers one after the other inside.

    `loops` nests the shared loops, outer to inner; letters left out follow in the order G, N, P, Q.
    """

    layers: tuple[str, ...]
    trips: Trips = Trips()
    loops: str = "GNPQ"

    def __post_init__(self) -> None:
        name = "+".join(self.layers)
        if not self.layers:
            raise ScheduleError("a group has no layers: remove it")
        if len(set(self.loops)) != len(self.loops) or not set(self.loops) <= set(SHARED_LOOPS):
            raise ScheduleError(f"group {name}: loops is {self.loops!r}: name each of {SHARED_LOOPS} at most once")
        if self.trips.X > 1 and "X" not in self.loops:
            raise ScheduleError(f"group {name}: it shares X but loops {self.loops!r} does not say where X stands")
        if min(self.trips) < 1:
            raise ScheduleError(f"group {name}: trips are {self.trips}: each is at least 1")

    @property
    def nesting(self) -> str:
        """All five shared loops, outer to inner."""
        return self.loops + "".join(d for d in SHARED_LOOPS if d not in self.loops)

    @property
    def iterations(self) -> int:
        """Shared iterations, X included."""
        return prod(self.trips)

    @property
    def name(self) -> str:
        """The group as messages call it."""
        return "+".join(self.layers)


@dataclass(frozen=True)
class Schedule:
    """How a network runs on an accelerator."""

    workload: Workload
    hardware: Hardware
    groups: tuple[Group, ...]
    mappings: MappingOf[str, Mapping]
    made_by: MappingOf[str, str | int] = field(default_factory=dict[str, str | int])

    def __post_init__(self) -> None:
        listed = [name for group in self.groups for name in group.layers]
        known = {layer.name for layer in self.workload.layers}
        for name in listed:
            if name not in known:
                raise ScheduleError(f"groups name {name!r}, which is not a layer of workload {self.workload.name!r}")
            if listed.count(name) > 1:
                raise ScheduleError(f"groups list layer {name!r} twice: list every layer once")
        if missing := sorted(known - set(listed)):
            raise ScheduleError(f"groups leave out {', '.join(map(repr, missing))}: list every layer once")
        macs = {layer.name for layer in self.workload.layers if layer.is_mac}
        if missing := sorted(macs - set(self.mappings)):
            raise ScheduleError(f"mappings leave out {', '.join(map(repr, missing))}: every mac layer needs one")
        if extra := sorted(set(self.mappings) - macs):
            raise ScheduleError(
                f"mappings name {', '.join(map(repr, extra))}: only mac layers of the workload have one"
            )

    @cached_property
    def group_of(self) -> dict[str, Group]:
        """The group of each layer."""
        return {name: group for group in self.groups for name in group.layers}

    @cached_property
    def position(self) -> dict[str, int]:
        """Place of each layer in execution order."""
        names = (name for group in self.groups for name in group.layers)
        return {name: i for i, name in enumerate(names)}

    @cached_property
    def fused_edges(self) -> tuple[Edge, ...]:
        """Edges whose tensor stays on chip."""
        return tuple(edge for edge in self.workload.edges if self.is_fused(edge))

    def is_fused(self, edge: Edge) -> bool:
        """Whether a tensor stays on chip: both ends are in one group."""
        return edge.target in self.group_of[edge.source].layers

    def channel_loop(self, group: Group) -> tuple[str, str] | None:
        """(u, v) of the channel loop, whose X is part of u's K and v's C; None where the group shares no X."""
        return (group.layers[0], group.layers[1]) if group.trips.X > 1 and len(group.layers) == 2 else None
