"""The numbers of a machine, one by one: capacities, rates and energies of its memories, lanes of its axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from fadiff.hardware import Axis, Memory

if TYPE_CHECKING:
    from fadiff.hardware import Machine

Kind = Literal["capacity", "lanes", "rate", "energy"]


class Number(NamedTuple):
    """A number of a machine."""

    node: str | None
    """The memory or axis that has it; None: the machine itself."""
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
    nodes = list(machine.nodes)
    at = machine.number[number.node]
    nodes[at] = replace(nodes[at], **{field: getattr(nodes[at], field) * factor for field in number.fields})
    return replace(machine, nodes=tuple(nodes))
