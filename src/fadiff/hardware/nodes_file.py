"""A hardware file as a list of nodes: what a block diagram says, with units, and energies only where they are known.

Every complete `hardware` object of a schedule file is such a file too. What a file leaves out is filled in:

- energy of the first memory: 12.5 pJ a bit (100 pJ a byte), and of a multiplication: 0.5608 pJ, as DOSA published them;
- energy of any other memory: from the bytes of one instance and the width of its rows
  (:mod:`fadiff.hardware.energy_model`), the same for reading and writing;
- where only one of reading and writing has an energy, the other has the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Self

from pydantic import Field

from fadiff.hardware.energy_model import network_pj, row_bits
from fadiff.hardware.machine import Machine, MachineError, Memory, Node
from fadiff.hardware.machine_json import AxisModel, BitsModel, MachineKeys, MemoryModel, node_as
from fadiff.hardware.quantities import Capacity, Count, Energy, RateWithUnit, bytes_per_second, clock_mhz
from fadiff.hardware.sram_network import CAPACITY_BYTES, is_extrapolated

MAC_PJ = 0.5608
FIRST_MEMORY_PJ_PER_BIT = 12.5

# How an energy that a file leaves out was found.
FROM_CAPACITY = "from the capacity"
TABLE_TEXT = f"{CAPACITY_BYTES[0] // 1024} KB to {CAPACITY_BYTES[1] // 1024**2} MB"
EXTRAPOLATED = f"from the capacity, extrapolated beyond the table's {TABLE_TEXT}"
FROM_BITS = f"{FIRST_MEMORY_PJ_PER_BIT} pJ a bit"
AS_GEMMINI = "as on Gemmini"

Filled = Mapping[str, str]
"""How each energy that a file leaves out was found, by its place: `mac_pj`, `scratchpad.read_pj`."""


class MemoryFileModel(MemoryModel):
    """A memory whose energies may be left out; `row_bits` is the width of a physical row, where it is known."""

    bytes: Capacity | None = None
    word_bits: Count = 8
    row_bits: Count | None = None
    rate: RateWithUnit | None = None
    read_rate: RateWithUnit | None = None
    write_rate: RateWithUnit | None = None
    read_pj: Energy = 0.0
    write_pj: Energy = 0.0

    def filled_in(self) -> tuple[Memory, Filled]:
        """The memory, and how the energies that the file leaves out were found; rates are in words per cycle."""
        if "read_pj" in self.model_fields_set:
            pj, how = self.read_pj, "as reading"
        elif "write_pj" in self.model_fields_set:
            pj, how = self.write_pj, "as writing"
        elif self.bytes is None:
            pj, how = FIRST_MEMORY_PJ_PER_BIT * self.word_bits, FROM_BITS
        else:
            pj, how = self._network_pj(self.bytes), EXTRAPOLATED if is_extrapolated(self.bytes) else FROM_CAPACITY
        left_out = [key for key in ("read_pj", "write_pj") if key not in self.model_fields_set]
        memory = replace(self.value(), **dict.fromkeys(left_out, pj))
        return memory, {f"{self.memory}.{key}": how for key in left_out}

    def at_clock(self, clock: str | None) -> Self:
        """The same memory with rates in words per cycle."""
        rates = {
            f"{way}words_per_cycle": (f"{way}rate", getattr(self, f"{way}rate")) for way in ("", "read_", "write_")
        }
        words: dict[str, float] = {}
        for key, (said, rate) in rates.items():
            if rate is None:
                continue
            if getattr(self, key) is not None:
                raise MachineError(f"{self.memory} has {said} and {key}: keep one of the two")
            if clock is None:
                raise MachineError(
                    f"{self.memory}: {said} is {rate}, which takes a clock to be words per cycle: add one to the "
                    f"machine, such as clock: 800 MHz, or say {key}"
                )
            words[key] = bytes_per_second(rate) * 8 / self.word_bits / (clock_mhz(clock) * 1e6)
        return self.model_copy(update=words)

    def _network_pj(self, size_bytes: int) -> float:
        rates = (self.words_per_cycle, self.read_words_per_cycle, self.write_words_per_cycle)
        width = row_bits(self.word_bits, *rates) if self.row_bits is None else float(self.row_bits)
        return network_pj(size_bytes, self.word_bits, width)


class FileKeys(MachineKeys):
    """What a hardware file may say about itself: one line, where it comes from, and what to know about it."""

    description: str = ""
    source: str = ""
    notes: list[str] = Field(default=[])


class NodesFileModel(FileKeys):
    """A machine as a list of nodes, from the outermost memory to the multipliers."""

    nodes: list[Annotated[MemoryFileModel | AxisModel, node_as(MemoryFileModel)]]
    bits: BitsModel = BitsModel()
    mac_pj: Energy | None = None

    def filled_in(self) -> tuple[Machine, Filled]:
        """The machine, and how each energy that the file leaves out was found."""
        nodes: list[Node] = []
        filled = {"mac_pj": AS_GEMMINI} if self.mac_pj is None else {}
        for node in self.nodes:
            if isinstance(node, AxisModel):
                nodes.append(node.value())
            else:
                memory, how = node.at_clock(self.clock).filled_in()
                nodes.append(memory)
                filled |= how
        mac_pj = MAC_PJ if self.mac_pj is None else self.mac_pj
        return self.machine(tuple(nodes), mac_pj, self.bits.value()), filled
