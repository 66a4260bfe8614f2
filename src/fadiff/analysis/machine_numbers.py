"""The numbers of a machine, one by one: of its memories, axes, multipliers and vector unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from fadiff.hardware import Axis, Memory, Node, Vector
from fadiff.hardware.machine import VECTOR

if TYPE_CHECKING:
    from fadiff.hardware import Machine

Part = TypeVar("Part", bound=Node | Vector)
Kind = Literal["capacity", "lanes", "rate", "energy"]


class Number(NamedTuple):
    """A number of a machine."""

    node: str | None
    """The memory, axis or vector unit that has it; None: the machine itself."""
    fields: tuple[str, ...]
    """Fields of the node that it stands in: reading and writing, where they cost the same."""
    kind: Kind
    label: str
    """For people: "scratchpad capacity", "DRAM bandwidth", ..."""
    unit: str
    value: float

    @property
    def name(self) -> str:
        """As paths in a hardware file: `scratchpad.bytes`."""
        return ".".join([*([self.node] if self.node else []), "+".join(self.fields)])


def machine_numbers(machine: Machine) -> Iterator[Number]:
    """All numbers, node by node; what a machine does not limit has none."""
    for node in machine.nodes:
        if isinstance(node, Axis):
            yield Number(node.name, ("size",), "lanes", f"{node.name} size", "lanes", node.size)
            continue
        if node.bytes is not None:
            yield Number(node.name, ("bytes",), "capacity", f"{node.name} capacity", "bytes", node.bytes)
        for field in ("words_per_cycle", "read_words_per_cycle", "write_words_per_cycle"):
            if (rate := getattr(node, field)) is not None:
                label = f"{node.name} {field.removesuffix('words_per_cycle').replace('_', ' ')}bandwidth"
                yield Number(node.name, (field,), "rate", label, "words/cycle", rate)
        yield from _energies(node)
    yield Number(None, ("mac_pj",), "energy", "MAC energy", "pJ/MAC", machine.mac_pj)
    if machine.vector is not None:
        yield Number(VECTOR, ("lanes",), "rate", "vector unit rate", "operations/cycle", machine.vector.lanes)
        yield Number(VECTOR, ("pj",), "energy", "vector unit energy", "pJ/operation", machine.vector.pj)


def _energies(memory: Memory) -> Iterator[Number]:
    name = memory.name
    if memory.read_pj == memory.write_pj:
        yield Number(name, ("read_pj", "write_pj"), "energy", f"{name} energy", "pJ/word", memory.read_pj)
        return
    yield Number(name, ("read_pj",), "energy", f"{name} read energy", "pJ/word", memory.read_pj)
    yield Number(name, ("write_pj",), "energy", f"{name} write energy", "pJ/word", memory.write_pj)


def changed(machine: Machine, number: Number, factor: float) -> Machine:
    """The machine with one of its numbers multiplied."""
    if number.node is None:
        return replace(machine, mac_pj=machine.mac_pj * factor)
    if machine.vector is not None and number.node == VECTOR:
        return replace(machine, vector=_scaled(machine.vector, number, factor))
    nodes = list(machine.nodes)
    at = machine.number[number.node]
    nodes[at] = _scaled(nodes[at], number, factor)
    return replace(machine, nodes=tuple(nodes))


def _scaled(part: Part, number: Number, factor: float) -> Part:
    return replace(part, **{field: getattr(part, field) * factor for field in number.fields})
