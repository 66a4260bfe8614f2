"""A hardware file as a list of nodes: what a block diagram says, with units, and energies only where they are known.

Every complete `hardware` object of a schedule file is such a file too. What a file leaves out is filled in:

- energy of the first memory: 12.5 pJ a bit (100 pJ a byte), and of a multiplication: 0.5608 pJ, as DOSA published them;
- energy of any other memory: from the bytes of one instance and the width of its rows
  (:mod:`fadiff.hardware.energy_model`), the same for reading and writing;
- where only one of reading and writing has an energy, the other has the same.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, PlainValidator

from fadiff.hardware.energy_model import row_bits, word_pj
from fadiff.hardware.machine import Axis, Machine, Memory
from fadiff.hardware.machine_json import AxisModel, BitsModel, MachineKeys, MemoryKeys, is_axis
from fadiff.hardware.quantities import Capacity, Count, Energy

MAC_PJ = 0.5608
FIRST_MEMORY_PJ_PER_BIT = 12.5

# Energies from the network keep this many decimals, so that every computer calculates with the same numbers although
# its mathematical library may round the network's last bits in its own way.
NETWORK_PJ_DECIMALS = 6

# How an energy that a file leaves out was found.
FROM_CAPACITY = "from the capacity"
FROM_BITS = f"{FIRST_MEMORY_PJ_PER_BIT} pJ a bit"
AS_GEMMINI = "as on Gemmini"

Filled = Mapping[str, str]
"""How each energy that a file leaves out was found, by its place: `mac_pj`, `scratchpad.read_pj`."""


class BitsFileModel(BitsModel):
    """Widths of a value; 8 bits and sums of 32 unless the file says otherwise."""

    W: Count = 8
    I: Count = 8  # noqa: E741  (the tensor's name)
    O: Count = 8  # noqa: E741  (the tensor's name)
    sums: Count = 32


class MemoryFileModel(MemoryKeys):
    """A memory whose energies may be left out; `row_bits` is the width of a physical row, where it is known."""

    bytes: Capacity | None = None
    word_bits: Count = 8
    row_bits: Count | None = None
    read_pj: Energy | None = None
    write_pj: Energy | None = None

    def value(self) -> tuple[Memory, Filled]:
        """The memory, and how its energies were found."""
        if self.read_pj is not None:
            pj, how = self.read_pj, "as reading"
        elif self.write_pj is not None:
            pj, how = self.write_pj, "as writing"
        elif self.bytes is None:
            pj, how = FIRST_MEMORY_PJ_PER_BIT * self.word_bits, FROM_BITS
        else:
            pj, how = self._network_pj(self.bytes), FROM_CAPACITY
        read_pj = pj if self.read_pj is None else self.read_pj
        write_pj = pj if self.write_pj is None else self.write_pj
        left_out = [key for key in ("read_pj", "write_pj") if getattr(self, key) is None]
        memory = self.with_numbers(self.bytes, self.word_bits, read_pj, write_pj)
        return memory, {f"{self.memory}.{key}": how for key in left_out}

    def _network_pj(self, size_bytes: int) -> float:
        rates = (self.words_per_cycle, self.read_words_per_cycle, self.write_words_per_cycle)
        width = row_bits(self.word_bits, *rates) if self.row_bits is None else float(self.row_bits)
        return round(float(word_pj(float(size_bytes), float(self.word_bits), width)), NETWORK_PJ_DECIMALS)


def _node(data: object) -> MemoryFileModel | AxisModel:
    return (AxisModel if is_axis(data) else MemoryFileModel).model_validate(data)


class FileKeys(MachineKeys):
    """What a hardware file may say about itself: one line, where it comes from, and what to know about it."""

    description: str = ""
    source: str = ""
    notes: list[str] = Field(default=[])


class NodesFileModel(FileKeys):
    """A machine as a list of nodes, from the outermost memory to the multipliers."""

    nodes: list[Annotated[MemoryFileModel | AxisModel, PlainValidator(_node)]]
    bits: BitsFileModel = BitsFileModel()
    mac_pj: Energy | None = None

    def value(self) -> tuple[Machine, Filled]:
        """The machine, and how each energy that the file leaves out was found."""
        nodes: list[Memory | Axis] = []
        filled = {"mac_pj": AS_GEMMINI} if self.mac_pj is None else {}
        for node in self.nodes:
            if isinstance(node, AxisModel):
                nodes.append(node.value())
            else:
                memory, how = node.value()
                nodes.append(memory)
                filled |= how
        machine = Machine(
            name=self.name,
            nodes=tuple(nodes),
            mac_pj=MAC_PJ if self.mac_pj is None else self.mac_pj,
            bits=self.bits.value(),
            overlap=self.overlap,
            online_softmax=self.online_softmax,
        )
        return machine, filled
