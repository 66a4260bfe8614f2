"""The kinds of constraints, told by names; they read as numbers once they meet a network and a machine.

.. code-block:: text

    of mappings : Factor, Extent, Unroll, Order, Once, Keep    for the layers that a selection holds
    of groups   : Fuse, Together                               in :mod:`fadiff.schedule.group_constraints`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from fadiff.hardware import Axis, Memory
from fadiff.schedule.ir import Mapping
from fadiff.schedule.selection import EVERY, REST, ConstraintError, Layers, close_to
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.schedule.group_constraints import Together
    from fadiff.workload import Edge, Layer, Workload


class Limit(NamedTuple):
    """Two ends of a number of a mapping: the factor of a dim at a node or, where `held`, the extent that one instance
    of a memory holds of it. The first memory's factor is that of the file, with the trips that a group shares."""

    node: int
    dim: int
    least: int = 1
    most: float = inf
    held: bool = False


Ranks = tuple[int, ...]
"""By dim: of two loops that run, the one of lower rank stands outside; equal ranks say nothing."""
FREE: Ranks = (0,) * 8


class Constraint:
    """What is asked. Each kind says one or more of these; the others say nothing."""

    def check(self, workload: Workload, machine: Machine) -> None:
        """Refuse names that the network or the machine does not have."""

    def limits(self, layer: Layer, machine: Machine) -> Iterator[Limit]:
        """Ends of the numbers of a layer's mapping."""
        return iter(())

    def ranks(self, layer: Layer, machine: Machine) -> Iterator[tuple[int, Ranks]]:
        """By memory, by its place among the memories: where its loops stand."""
        return iter(())

    def once(self, layer: Layer) -> str:
        """Tensors of a layer (of W, O) that pass their home once."""
        return ""

    def edges(self, workload: Workload) -> Iterator[tuple[Edge, bool]]:
        """Edges that are fused, or are not."""
        return iter(())

    def group(self) -> Together | None:
        """A group that is given."""
        return None


@dataclass(frozen=True)
class _Number(Constraint):
    """A number of mappings between two ends: fixed where both are the same."""

    node: str
    dim: str
    least: int = 1
    most: int | None = None
    layers: Layers = EVERY

    def __post_init__(self) -> None:
        _check_ends(self.dim, self.least, self.most)


@dataclass(frozen=True)
class Factor(_Number):
    """The factor of a dim at a node."""

    def __str__(self) -> str:
        return f"{self.layers}: {self.dim} at {self.node} is {_told(self.least, self.most)}"

    def check(self, workload: Workload, machine: Machine) -> None:
        """Refuse names that are not there, and a dim that an axis does not take."""
        _check_mapped(self.layers, workload)
        node = machine.nodes[_node(self.node, machine)]
        if isinstance(node, Axis) and self.dim not in node.dims and self.least > 1:
            raise ConstraintError(f"{self}: {self.node} takes only {node.dims}")

    def limits(self, layer: Layer, machine: Machine) -> Iterator[Limit]:
        """The factor's ends."""
        if layer in self.layers:
            yield Limit(_node(self.node, machine), DIMS.index(self.dim), self.least, self.most or inf)


@dataclass(frozen=True)
class Extent(_Number):
    """What one instance of a memory holds of a dim: the product of the factors there and further in, at most the size
    of the dim (in a group: of its tile)."""

    def __str__(self) -> str:
        return f"{self.layers}: {self.node} holds {_told(self.least, self.most)} of {self.dim}"

    def check(self, workload: Workload, machine: Machine) -> None:
        """Refuse names that are not there, and the first memory, which holds everything."""
        _check_mapped(self.layers, workload)
        if _memory(self.node, machine) == 0:
            raise ConstraintError(f"{self}: {self.node} holds everything: name a memory further in")

    def limits(self, layer: Layer, machine: Machine) -> Iterator[Limit]:
        """The extent's ends."""
        if layer in self.layers:
            node = machine.structure.memories[_memory(self.node, machine)]
            yield Limit(node, DIMS.index(self.dim), self.least, self.most or inf, held=True)


@dataclass(frozen=True)
class Unroll(Constraint):
    """Which dims an axis may unroll: only some, or all but some."""

    axis: str
    only: str | None = None
    never: str = ""
    layers: Layers = EVERY

    def __post_init__(self) -> None:
        for dim in (self.only or "") + self.never:
            _check_dim(dim)

    def __str__(self) -> str:
        what = f"never {', '.join(self.never)}" if self.only is None else f"only {', '.join(self.only) or 'nothing'}"
        return f"{self.layers}: {self.axis} unrolls {what}"

    def check(self, workload: Workload, machine: Machine) -> None:
        """Refuse names that are not there."""
        _check_mapped(self.layers, workload)
        node = machine.nodes[_node(self.axis, machine)]
        if not isinstance(node, Axis):
            told = ", ".join(axis.name for axis in machine.axes) or "none"
            raise ConstraintError(f"{self}: {self.axis} is a memory: the axes of {machine.name} are {told}")
        if missing := [dim for dim in self.only or "" if dim not in node.dims]:
            raise ConstraintError(f"{self}: {self.axis} takes only {node.dims}, not {', '.join(missing)}")

    def limits(self, layer: Layer, machine: Machine) -> Iterator[Limit]:
        """One lane of every other dim."""
        if layer in self.layers:
            for d, dim in enumerate(DIMS):
                if dim in self.never or (self.only is not None and dim not in self.only):
                    yield Limit(_node(self.axis, machine), d, most=1)


@dataclass(frozen=True)
class Order(Constraint):
    """How the loops at a memory nest, outer to inner: letters in their order, some in brackets in any order, and `*`
    where all others stand, in any order: ``K*(CRS)`` has K outermost, and C, R, S innermost."""

    memory: str
    order: str
    layers: Layers = EVERY

    def __post_init__(self) -> None:
        parse_order(self.order)

    def __str__(self) -> str:
        return f"{self.layers}: loops at {self.memory} nest as {self.order}"

    def check(self, workload: Workload, machine: Machine) -> None:
        """Refuse names that are not there."""
        _check_mapped(self.layers, workload)
        _memory(self.memory, machine)

    def ranks(self, layer: Layer, machine: Machine) -> Iterator[tuple[int, Ranks]]:
        """The ranks of the memory's loops."""
        if layer in self.layers:
            yield _memory(self.memory, machine), parse_order(self.order)


@dataclass(frozen=True)
class Once(Constraint):
    """Weights (W) come from the first memory once, whatever the layer's group shares: they stay in their home as long
    as they are needed. Sums (O) go there once, finished."""

    tensor: str
    layers: Layers = EVERY

    def __post_init__(self) -> None:
        if self.tensor not in ("W", "O"):
            raise ConstraintError(f"tensor {self.tensor!r} passes once or not: say W (weights) or O (sums)")

    def __str__(self) -> str:
        return f"{self.layers}: " + ("weights are fetched once" if self.tensor == "W" else "sums leave finished")

    def check(self, workload: Workload, machine: Machine) -> None:
        """Refuse layers that are not there, and a machine without a home."""
        _check_mapped(self.layers, workload)
        if machine.structure.home(self.tensor) is None:
            raise ConstraintError(f"{self}: no memory of {machine.name} below {machine.nodes[0].name} keeps W")

    def once(self, layer: Layer) -> str:
        """The tensor."""
        return self.tensor if layer in self.layers else ""


@dataclass(frozen=True)
class Keep(Constraint):
    """A layer has the mapping that it has elsewhere."""

    layer: str
    mapping: Mapping
    nodes: tuple[str, ...]
    """The nodes of the machine that the mapping is for."""

    def nested(self, order: str | None) -> Keep:
        """The same with another order of the first memory's loops, if one is given."""
        orders = self.mapping.orders if order is None else (order, *self.mapping.orders[1:])
        return replace(self, mapping=replace(self.mapping, orders=orders))

    def __str__(self) -> str:
        return f"{self.layer} is kept as it is"

    def check(self, workload: Workload, machine: Machine) -> None:
        """Refuse a layer that is not there, or another machine's mapping."""
        Layers((self.layer,)).check(workload)
        if self.nodes != tuple(node.name for node in machine.nodes):
            told = f"its mapping is for a machine of {', '.join(self.nodes)}, and {machine.name} has other nodes"
            raise ConstraintError(f"{self}: {told}: start from that schedule with --start instead")

    def limits(self, layer: Layer, machine: Machine) -> Iterator[Limit]:
        """Every factor."""
        if layer.name == self.layer:
            for node, factors in enumerate(self.mapping.factors):
                yield from (Limit(node, d, factor, factor) for d, factor in enumerate(factors))

    def ranks(self, layer: Layer, machine: Machine) -> Iterator[tuple[int, Ranks]]:
        """Every order."""
        if layer.name == self.layer:
            for memory, order in enumerate(self.mapping.orders):
                yield memory, tuple(map(order.index, DIMS))


def parse_order(text: str) -> Ranks:
    """The rank of every dim in an order such as ``K*(CRS)``, outer to inner.

    >>> parse_order("K*(CRS)")
    (1, 1, 0, 2, 1, 1, 2, 2)
    """
    parts: list[str] = []
    rest = text
    while rest:
        if rest[0] == "(":
            inside, closed, rest = rest[1:].partition(")")
            if not closed:
                raise ConstraintError(f"order {text!r} has a bracket that is not closed: write for example K*(CRS)")
            parts.append(inside)
        else:
            parts.append(rest[0])
            rest = rest[1:]
    named = "".join(part for part in parts if part != REST)
    for dim in named:
        _check_dim(dim)
    if len(set(named)) < len(named) or parts.count(REST) > 1:
        raise ConstraintError(f"order {text!r} names a loop twice: name each at most once, and one * for the others")
    left = "".join(dim for dim in DIMS if dim not in named)
    if left and REST not in parts:
        raise ConstraintError(f"order {text!r} does not say where {', '.join(left)} stand: put a * for them")
    rank = {dim: i for i, part in enumerate(parts) for dim in (left if part == REST else part)}
    return tuple(rank[dim] for dim in DIMS)


def _check_mapped(layers: Layers, workload: Workload) -> None:
    """Refuse layers that are not there, or none of which has a mapping."""
    layers.check(workload)
    if not any(layer.is_mac and layer in layers for layer in workload.layers):
        raise ConstraintError(f"{layers}: only mac layers have a mapping, and none is among them")


def _check_ends(dim: str, least: int, most: int | None) -> None:
    _check_dim(dim)
    if least < 1 or (most is not None and most < 1):
        raise ConstraintError(f"{dim} is {_told(least, most)}: it is always 1 or more")
    if most is not None and most < least:
        raise ConstraintError(f"{dim} is at least {least} and at most {most}: no number is")


def _check_dim(dim: str) -> None:
    if dim not in DIMS:
        raise ConstraintError(f"{dim!r} is no loop: use one of {', '.join(DIMS)}")


def _told(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least}"
    return f"{least}" if least == most else f"at most {most}" if least == 1 else f"{least} to {most}"


def _node(name: str, machine: Machine) -> int:
    if name not in machine.number:
        known = [node.name for node in machine.nodes]
        told = ", ".join(known)
        raise ConstraintError(f"{name!r} is no node of {machine.name}{close_to(name, known)}: its nodes are {told}")
    return machine.number[name]


def _memory(name: str, machine: Machine) -> int:
    """A memory by its place among the memories."""
    memories = [memory.name for memory in machine.memories]
    if not isinstance(machine.nodes[_node(name, machine)], Memory):
        raise ConstraintError(f"{name!r} is an axis of {machine.name}: its memories are {', '.join(memories)}")
    return memories.index(name)
