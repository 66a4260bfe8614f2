"""What somebody asks of a schedule beyond that it is legal: all constraints, and the one place that judges them.

Kinds of constraints are in :mod:`fadiff.schedule.constraint_kinds`. The search derives its space from the ends of
factors and extents, the ranks of loops and the edges that they name. Whether a schedule keeps them is decided here
alone, from the schedule (:meth:`Constraints.broken`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

from fadiff.schedule.constraint_kinds import Constraint, Keep
from fadiff.schedule.group_constraints import Together
from fadiff.schedule.rules import Examined
from fadiff.schedule.selection import REST, ConstraintError, Layers
from fadiff.workload.layer import DIMS, RELEVANT

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.schedule.ir import Schedule
    from fadiff.workload import Workload


class ImpossibleError(ConstraintError):
    """Constraints that no schedule was found to keep."""


def kept(schedule: Schedule, layers: Iterable[str] | None = None) -> tuple[Constraint, ...]:
    """Layers (names or patterns; all by default) as they are in a schedule: their mappings, and groups of which all
    layers are kept."""
    names = _named(schedule, layers)
    groups = [group for group in schedule.groups if {*group.layers} <= {*names}]
    mappings = kept_mappings(schedule, layers)
    alone = [Together(group.layers) for group in groups if len(group.layers) == 1]
    joined = [Together(group.layers, group.trips, group.loops) for group in groups if len(group.layers) > 1]
    return (*mappings, *joined, *alone)


def kept_mappings(schedule: Schedule, layers: Iterable[str] | None = None) -> tuple[Keep, ...]:
    """Mappings of layers as they are in a schedule, whatever their groups."""
    nodes, mappings = tuple(node.name for node in schedule.machine.nodes), schedule.mappings
    return tuple(Keep(name, mappings[name], nodes) for name in _named(schedule, layers) if name in mappings)


def _named(schedule: Schedule, layers: Iterable[str] | None) -> list[str]:
    """The layers of a schedule that names or patterns name; all by default."""
    wanted = Layers(tuple(layers) if layers is not None else (REST,))
    wanted.check(schedule.workload)
    return [layer.name for layer in schedule.workload.layers if layer in wanted]


@dataclass(frozen=True)
class Constraints:
    """All that is asked of a schedule.

    >>> from fadiff import load_model, load_machine, greedy
    >>> from fadiff.schedule.constraint_kinds import Factor, Unroll
    >>> asked = Constraints((Factor("scratchpad", "K", most=1), Unroll("cols", only="K")))
    >>> schedule = greedy(load_model("mobilenet_v1"), load_machine("gemmini-small"), constraints=asked)
    >>> asked.broken(schedule)
    []
    """

    given: tuple[Constraint, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.given)

    def __add__(self, more: Iterable[Constraint]) -> Constraints:
        return Constraints((*self.given, *more))

    def only(self, given: Sequence[Constraint]) -> Constraints:
        """Some of them."""
        return replace(self, given=tuple(given))

    def check(self, workload: Workload, machine: Machine) -> None:
        """Refuse what says nothing about a network on a machine: names that are not there."""
        for constraint in self.given:
            constraint.check(workload, machine)

    def broken(self, schedule: Schedule) -> list[str]:
        """What a schedule does not keep, a sentence each."""
        if not self.given:
            return []
        examined = Examined(schedule)
        return [f"{constraint}: {found}" for constraint in self.given for found in _breaks(constraint, examined)]


def _breaks(constraint: Constraint, examined: Examined) -> Iterator[str]:
    """Where a schedule breaks a constraint."""
    schedule, machine = examined.schedule, examined.machine
    for layer, mapping in examined.mapped():
        i = examined.number[layer.name]
        shared, tile = examined.shared[:, i], examined.tile[:, i]
        group = schedule.group_of[layer.name]
        first, *inner = mapping.factors
        private = [[f // round(trips) for f, trips in zip(first, shared, strict=True)], *inner]
        for node, dim, least, most, held in constraint.limits(layer, machine):
            extent = min(prod(row[dim] for row in private[node:]), round(tile[dim]))
            found = extent if held else mapping.factors[node][dim]
            if not least <= found <= most:
                name, verb = machine.nodes[node].name, "holds" if held else "has"
                yield f"in {layer.name} {name} {verb} {found} of {DIMS[dim]}"
        for memory, rank in constraint.ranks(layer, machine):
            node, order = machine.structure.memories[memory], mapping.orders[memory]
            running = [dim for dim in order if private[node][DIMS.index(dim)] > 1]
            if memory == 0 and len(group.layers) == 1:
                # Loops that it shares with nobody are loops of its first memory like others.
                running = [loop for loop in group.nesting if group.trips._asdict()[loop] > 1] + running
            outside = [(a, b) for a, b in combinations(running, 2) if rank[DIMS.index(a)] > rank[DIMS.index(b)]]
            if outside:
                yield f"in {layer.name} the loop over {outside[0][0]} is outside that over {outside[0][1]}"
        for tensor in constraint.once(layer):
            home = machine.structure.home(tensor)
            words = prod(size for dim, size in layer.dims._asdict().items() if dim in RELEVANT[tensor])
            passed = 0.0 if home is None else examined.at(examined.nest.past(tensor, home, ()), layer.name)
            if passed > words:
                yield f"in {layer.name} {passed / words:g} times"
    for edge, fused in constraint.edges(schedule.workload):
        if schedule.is_fused(edge) != fused and edge in schedule.edges:
            yield f"{edge.source} -> {edge.target} is {'not ' if fused else ''}fused"
    given = constraint.group()
    if given is not None:
        group = schedule.group_of.get(given.layers[0])
        if group is not None and not given.allows(group):
            trips = ", ".join(f"{loop} {n}" for loop, n in group.trips._asdict().items() if n > 1)
            yield f"the group of {given.layers[0]} is {group.name}{f' and shares {trips}' if trips else ''}"
