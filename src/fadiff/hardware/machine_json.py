"""The complete machine as the `hardware` object of a schedule file states it, read and written.

Nothing is left to a network or a built-in file: whoever holds a schedule file has every number that its cost needs.
"""

from typing import Annotated, Any

from pydantic import Field, PlainValidator

from fadiff.files import Strict
from fadiff.hardware.machine import Axis, Bits, Machine, Memory, Overlap
from fadiff.hardware.quantities import Bytes, Count, Energy, Name, Rate


class BitsModel(Strict):
    """Widths of a value; a spilled sum is as wide as any other sum unless it says so."""

    W: Count
    I: Count  # noqa: E741  (the tensor's name)
    O: Count  # noqa: E741  (the tensor's name)
    sums: Count
    spilled: Annotated[int, Field(ge=0, le=2**23)] | None = None

    def value(self) -> Bits:
        """The checked value."""
        spilled = self.sums if self.spilled is None else self.spilled
        return Bits(W=self.W, I=self.I, O=self.O, sums=self.sums, spilled=spilled)


class AxisModel(Strict):
    """An array of lanes."""

    axis: Name
    size: Count
    dims: str

    def value(self) -> Axis:
        """The checked value."""
        return Axis(self.axis, self.size, self.dims)


class MemoryKeys(Strict):
    """What every file says of a memory in the same way."""

    memory: Name
    keeps: str
    fuses: bool = False
    words_per_cycle: Rate | None = None
    read_words_per_cycle: Rate | None = None
    write_words_per_cycle: Rate | None = None
    double_buffered: bool = False

    def with_numbers(self, size_bytes: int | None, word_bits: int, read_pj: float, write_pj: float) -> Memory:
        """The memory, with the numbers that files say in different ways."""
        return Memory(
            name=self.memory,
            keeps=self.keeps,
            read_pj=read_pj,
            write_pj=write_pj,
            bytes=size_bytes,
            word_bits=word_bits,
            words_per_cycle=self.words_per_cycle,
            read_words_per_cycle=self.read_words_per_cycle,
            write_words_per_cycle=self.write_words_per_cycle,
            double_buffered=self.double_buffered,
            fuses=self.fuses,
        )


class MemoryModel(MemoryKeys):
    """A memory with all its numbers."""

    bytes: Bytes | None = None
    word_bits: Count
    read_pj: Energy
    write_pj: Energy

    def value(self) -> Memory:
        """The checked value."""
        return self.with_numbers(self.bytes, self.word_bits, self.read_pj, self.write_pj)


def is_axis(node: object) -> bool:
    """Whether a node of a file is an axis, by its keys. Any other node should be a memory."""
    return isinstance(node, AxisModel) or (isinstance(node, dict) and "axis" in node)


def _node(data: object) -> MemoryModel | AxisModel:
    # What either model finds wrong keeps its own place in the file, without a word about the other one.
    return (AxisModel if is_axis(data) else MemoryModel).model_validate(data)


class MachineKeys(Strict):
    """What every file says of a machine in the same way."""

    name: Name
    overlap: Overlap = "full"
    online_softmax: bool = False


class MachineModel(MachineKeys):
    """A machine with all its numbers."""

    bits: BitsModel
    mac_pj: Energy
    nodes: list[Annotated[MemoryModel | AxisModel, PlainValidator(_node)]]

    def value(self) -> Machine:
        """The checked value."""
        return Machine(
            name=self.name,
            nodes=tuple(node.value() for node in self.nodes),
            mac_pj=self.mac_pj,
            bits=self.bits.value(),
            overlap=self.overlap,
            online_softmax=self.online_softmax,
        )


def machine_to_json(machine: Machine) -> dict[str, Any]:
    """A machine as plain JSON values, the inverse of reading one."""
    return {
        "name": machine.name,
        "bits": dict(vars(machine.bits)),
        "mac_pj": _plain(machine.mac_pj),
        "overlap": machine.overlap,
        "online_softmax": machine.online_softmax,
        "nodes": [_memory(node) if isinstance(node, Memory) else _axis(node) for node in machine.nodes],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {"axis": axis.name, "size": axis.size, "dims": axis.dims}


def _memory(memory: Memory) -> dict[str, Any]:
    """A memory; rates that are not limited and flags that are not set are left out."""
    numbers = {
        "bytes": memory.bytes,
        "word_bits": memory.word_bits,
        "words_per_cycle": memory.words_per_cycle,
        "read_words_per_cycle": memory.read_words_per_cycle,
        "write_words_per_cycle": memory.write_words_per_cycle,
        "read_pj": memory.read_pj,
        "write_pj": memory.write_pj,
    }
    return {
        "memory": memory.name,
        "keeps": memory.keeps,
        **({"fuses": True} if memory.fuses else {}),
        **{key: _plain(value) for key, value in numbers.items() if value is not None},
        **({"double_buffered": True} if memory.double_buffered else {}),
    }


def _plain(value: float) -> int | float:
    """A whole number without its decimal point."""
    return int(value) if float(value).is_integer() else value
