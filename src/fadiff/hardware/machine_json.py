"""The complete machine as the `hardware` object of a schedule file states it, read and written.

Nothing is left to a network or a built-in file: whoever holds a schedule file has every number that its cost needs.
"""

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, PlainValidator, ValidationError
from pydantic_core import InitErrorDetails

from fadiff.files import Strict
from fadiff.hardware.machine import Axis, Bits, Machine, Memory, Node, Overlap, Vector
from fadiff.hardware.quantities import Bytes, ClockWithUnit, Count, Energy, Name, Rate, clock_mhz, clock_text

Part = TypeVar("Part", bound=Strict)


def stated(*keys: str) -> AfterValidator:
    """Refuses a part of a file that leaves one of these keys to its default."""

    def check(part: Part) -> Part:
        left_out = [key for key in keys if key not in part.model_fields_set or getattr(part, key) is None]
        if left_out:
            missing = [InitErrorDetails(type="missing", loc=(key,), input=part) for key in left_out]
            raise ValidationError.from_exception_data(type(part).__name__, missing)
        return part

    return AfterValidator(check)


class BitsModel(Strict):
    """Widths of a value; a spilled sum is as wide as any other sum unless it says so."""

    W: Count = 8
    I: Count = 8  # noqa: E741  (the tensor's name)
    O: Count = 8  # noqa: E741  (the tensor's name)
    sums: Count = 32
    spilled: Annotated[int, Field(ge=0, le=2**23)] | None = None

    def value(self) -> Bits:
        """The checked value."""
        return Bits(**{"spilled": self.sums, **self.model_dump(exclude_none=True)})


class AxisModel(Strict):
    """An array of lanes."""

    axis: Name
    size: Count
    dims: str

    def value(self) -> Axis:
        """The checked value."""
        return Axis(self.axis, self.size, self.dims)


class MemoryModel(Strict):
    """A memory with all its numbers."""

    memory: Name
    keeps: str
    fuses: bool = False
    bytes: Bytes | None = None
    word_bits: Count
    words_per_cycle: Rate | None = None
    read_words_per_cycle: Rate | None = None
    write_words_per_cycle: Rate | None = None
    read_pj: Energy
    write_pj: Energy
    double_buffered: bool = False

    def value(self) -> Memory:
        """The checked value."""
        numbers = {key: getattr(self, key) for key in MemoryModel.model_fields if key != "memory"}
        return Memory(name=self.memory, **numbers)


AnyMemory = TypeVar("AnyMemory", bound=MemoryModel)


def node_as(memory: type[AnyMemory]) -> PlainValidator:
    """Reads a node as an axis where it says so, else as this kind of memory.

    What is wrong with it keeps its own place in the file, without a word about the kind that it is not.
    """

    def read(data: object) -> AnyMemory | AxisModel:
        return (AxisModel if isinstance(data, dict) and "axis" in data else memory).model_validate(data)

    return PlainValidator(read)


class VectorModel(Strict):
    """A vector unit."""

    lanes: Count
    pj: Energy

    def value(self) -> Vector:
        """The checked value."""
        return Vector(self.lanes, self.pj)


class MachineKeys(Strict):
    """What every file says of a machine in the same way."""

    name: Name
    overlap: Overlap = "full"
    online_softmax: bool = False
    clock: ClockWithUnit | None = None
    vector: VectorModel | None = None

    def machine(self, nodes: tuple[Node, ...], mac_pj: float, bits: Bits) -> Machine:
        """The machine of these nodes and numbers."""
        clock = None if self.clock is None else clock_mhz(self.clock)
        vector = None if self.vector is None else self.vector.value()
        return Machine(self.name, nodes, mac_pj, bits, self.overlap, self.online_softmax, clock, vector)


class MachineModel(MachineKeys):
    """A machine with all its numbers."""

    bits: Annotated[BitsModel, stated("W", "I", "O", "sums")]
    mac_pj: Energy
    nodes: list[Annotated[MemoryModel | AxisModel, node_as(MemoryModel)]]

    def value(self) -> Machine:
        """The checked value."""
        return self.machine(tuple(node.value() for node in self.nodes), self.mac_pj, self.bits.value())


def machine_to_json(machine: Machine) -> dict[str, Any]:
    """A machine as plain JSON values, the inverse of reading one."""
    return {
        "name": machine.name,
        "bits": dict(vars(machine.bits)),
        "mac_pj": _plain(machine.mac_pj),
        "overlap": machine.overlap,
        "online_softmax": machine.online_softmax,
        **({} if machine.clock_mhz is None else {"clock": clock_text(machine.clock_mhz)}),
        **({} if machine.vector is None else {"vector": dict(vars(machine.vector))}),
        "nodes": [_memory(node) if isinstance(node, Memory) else _axis(node) for node in machine.nodes],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {"axis": axis.name, "size": axis.size, "dims": axis.dims}


def _memory(memory: Memory) -> dict[str, Any]:
    """A memory; rates that are not limited and flags that are not set are left out."""
    values = {"memory": memory.name, **vars(memory)}
    told = {key: values[key] for key in MemoryModel.model_fields}
    return {key: _plain(value) for key, value in told.items() if value is not None and value is not False}


def _plain(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    """A whole number without its decimal point, anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
