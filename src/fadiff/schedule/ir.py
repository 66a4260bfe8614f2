"""The schedule as a value. The whole grammar, on one screen:

.. code-block:: text

    Schedule = workload, machine, groups in execution order, one Mapping per MAC layer
    Group    = layers in execution order, shared trip counts, nesting of the shared loops
    Mapping  = for each node of the machine a factor of every dim; for each memory a loop order (outer to inner)

A group of one layer is a layer that runs on its own; every edge inside a group is fused. Whether a schedule is
*legal* is a question for :mod:`fadiff.schedule.rules`: values here may be wrong, but never malformed.
"""

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import NamedTuple

from fadiff.errors import FadiffError
from fadiff.hardware import Machine
from fadiff.schedule.asked import Asked
from fadiff.workload import Dims, Edge, Layer, Workload

DEFAULT_ORDER = "GNPQKCRS"
"""Loop order of a memory that states none."""

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
class LowerBound:
    """What no schedule of a network on a machine costs less than; each number holds on its own."""

    energy_pj: float
    cycles: float
    edp_uj_cycles: float
    exact_factors: bool = False
    """Whether only schedules are meant whose factors divide what they cut."""
    among: tuple[str, ...] = ()
    """Constraints that the schedules meant keep, a sentence each."""

    @property
    def meant(self) -> str:
        """The schedules that it speaks of."""
        exact = "schedule with exact factors" if self.exact_factors else "schedule"
        return f"{exact} that keeps the constraints" if self.among else exact

    def gaps(self, energy_pj: float, cycles: float) -> dict[str, float]:
        """By how much a schedule may be above the best there is in each measure: cost / bound - 1."""
        edp_uj_cycles = energy_pj * 1e-6 * cycles
        return {
            "edp": edp_uj_cycles / self.edp_uj_cycles - 1,
            "energy": energy_pj / self.energy_pj - 1,
            "latency": cycles / self.cycles - 1,
        }


@dataclass(frozen=True, slots=True)
class Mapping:
    """How one MAC layer is tiled: factors of every node, temporal at a memory and spatial at an axis, and loop orders.

    The first memory's factors include the trips that the layer's group shares.
    """

    factors: tuple[Dims, ...]
    """One per node of the machine, outermost first."""
    orders: tuple[str, ...]
    """One per memory of the machine, outermost first; outer to inner."""

    def __post_init__(self) -> None:
        for order in self.orders:
            if sorted(order) != sorted(DEFAULT_ORDER):
                raise ScheduleError(f"order {order!r} must hold each of {DEFAULT_ORDER} once, outer to inner")

    @classmethod
    def of(
        cls, machine: Machine, factors: MappingOf[str, Dims], orders: MappingOf[str, str] | None = None
    ) -> "Mapping":
        """A mapping from factors by node name and orders by memory name; what is left out is 1, or in any order."""
        orders = orders or {}
        memories = [memory.name for memory in machine.memories]
        for name in factors:
            if name not in machine.number:
                told = ", ".join(node.name for node in machine.nodes)
                raise ScheduleError(f"{name!r} is no node of {machine.name}: its nodes are {told}")
        for name in orders:
            if name not in memories:
                raise ScheduleError(f"{name!r} is no memory of {machine.name}: its memories are {', '.join(memories)}")
        return cls(
            tuple(factors.get(node.name, Dims()) for node in machine.nodes),
            tuple(orders.get(name, DEFAULT_ORDER) for name in memories),
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that run as one loop nest: shared loops outside, its layers one after the other inside.

    `loops` nests the shared loops, outer to inner; letters left out follow in the order G, N, P, Q.
    """

    layers: tuple[str, ...]
    trips: Trips = Trips()
    loops: str = "GNPQ"

    def __post_init__(self) -> None:
        if not self.layers:
            raise ScheduleError("a group has no layers: remove it")
        if len(set(self.loops)) != len(self.loops) or not set(self.loops) <= set(SHARED_LOOPS):
            raise ScheduleError(f"group {self.name}: loops is {self.loops!r}: name each of {SHARED_LOOPS} at most once")
        if self.trips.X > 1 and "X" not in self.loops:
            raise ScheduleError(f"group {self.name}: it shares X but loops {self.loops!r} does not say where X stands")
        if min(self.trips) < 1:
            raise ScheduleError(f"group {self.name}: trips are {self.trips}: each is at least 1")

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

    def x_dim(self, layer: str) -> str | None:
        """The dim of a layer that the channel loop is a part of: K in its producer, C in its consumer."""
        if self.trips.X == 1:
            return None
        return "K" if layer == self.layers[0] else "C"


@dataclass(frozen=True)
class Schedule:
    """How a network runs on a machine."""

    workload: Workload
    machine: Machine
    groups: tuple[Group, ...]
    mappings: MappingOf[str, Mapping]
    made_by: MappingOf[str, str | int] = field(default_factory=dict[str, str | int])
    bound: LowerBound | None = field(default=None, compare=False)
    """What is proven of every schedule of the workload on the machine."""
    asked: Asked | None = field(default=None, compare=False)
    """The constraints under which it was made, if there were any."""
    is_excerpt: bool = False
    """Whether the groups are only some of those that run the workload: the other layers run elsewhere."""

    def __post_init__(self) -> None:
        listed = [name for group in self.groups for name in group.layers]
        for name in listed:
            if name not in self.workload:
                raise ScheduleError(f"groups name {name!r}, which is not a layer of workload {self.workload.name!r}")
        if len(set(listed)) < len(listed):
            twice = next(name for name in listed if listed.count(name) > 1)
            raise ScheduleError(f"groups list layer {twice!r} twice: list every layer once")
        if not self.is_excerpt and (missing := sorted({layer.name for layer in self.workload.layers} - set(listed))):
            raise ScheduleError(f"groups leave out {', '.join(map(repr, missing))}: list every layer once")
        macs = {layer.name for layer in self.layers if layer.is_mac}
        if missing := sorted(macs - set(self.mappings)):
            raise ScheduleError(f"mappings leave out {', '.join(map(repr, missing))}: every mac layer needs one")
        if extra := sorted(set(self.mappings) - macs):
            raise ScheduleError(
                f"mappings name {', '.join(map(repr, extra))}: only mac layers of the workload have one"
            )
        nodes, memories = len(self.machine.nodes), len(self.machine.memories)
        for name, mapping in self.mappings.items():
            if (len(mapping.factors), len(mapping.orders)) != (nodes, memories):
                raise ScheduleError(
                    f"the mapping of {name!r} is for a machine of {len(mapping.factors)} nodes and "
                    f"{len(mapping.orders)} memories; {self.machine.name} has {nodes} and {memories}"
                )

    def excerpt(self, groups: Sequence[Group], mappings: MappingOf[str, Mapping] | None = None) -> "Schedule":
        """Some groups of the schedule, or others of its layers, perhaps with other mappings: priced beside all others.

        What a layer costs depends on its group, and on whether a layer of another one reads its output: so all of it
        is there but the cost of the other groups.
        """
        given = self.mappings if mappings is None else mappings
        mine = {name: given[name] for group in groups for name in group.layers if name in given}
        return replace(self, groups=tuple(groups), mappings=mine, bound=None, is_excerpt=True)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that the groups run, in the workload's order."""
        if not self.is_excerpt:
            return self.workload.layers
        return tuple(self.workload[name] for name in sorted(self.group_of, key=self.workload.number.__getitem__))

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """The edges of the workload at these layers."""
        if not self.is_excerpt:
            return self.workload.edges
        ends = self.workload.producers, self.workload.consumers
        # A layer may read a tensor twice, over edges that are equal.
        return tuple({id(e): e for layer in self.layers for edges in ends for e in edges[layer.name]}.values())

    @cached_property
    def group_of(self) -> dict[str, Group]:
        """The group of each layer."""
        return {name: group for group in self.groups for name in group.layers}

    @cached_property
    def position(self) -> dict[str, int]:
        """Place of each layer in execution order."""
        names = (name for group in self.groups for name in group.layers)
        return {name: i for i, name in enumerate(names)}

    @property
    def exact_factors(self) -> bool:
        """Whether all factors divide what they cut, so that no tile is cut at its end."""
        covered = {name: [prod(dim) for dim in zip(*m.factors, strict=True)] for name, m in self.mappings.items()}
        return all(list(self.workload[name].dims) == sizes for name, sizes in covered.items())

    @cached_property
    def fused_edges(self) -> tuple[Edge, ...]:
        """Edges whose tensor stays on chip."""
        return tuple(edge for edge in self.edges if self.is_fused(edge))

    def is_fused(self, edge: Edge) -> bool:
        """Whether a tensor stays on chip: both ends are in one group."""
        group = self.group_of.get(edge.source)
        return group is not None and group is self.group_of.get(edge.target)
