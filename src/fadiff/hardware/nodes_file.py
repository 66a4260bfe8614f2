"""A hardware file as a list of nodes: what a block diagram says, with units, and energies only where they are known.

Every complete `hardware` object of a schedule file is such a file too. What a file leaves out is filled in:

- energy of the first memory: 12.5 pJ a bit (100 pJ a byte), and of a multiplication: 0.5608 pJ, as DOSA published them;
- energy of any other memory: from the bytes of one instance and the width of its rows
  (:mod:`fadiff.hardware.energy_model`), the same for reading and writing;
- where only one of reading and writing has an energy, the other has the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, PlainValidator, TypeAdapter

from fadiff.files import Strict
from fadiff.hardware.energy_model import LinearEnergy, network_pj, row_bits
from fadiff.hardware.machine import Machine, MachineError, Memory, Node
from fadiff.hardware.machine_json import AxisModel, BitsModel, MachineKeys, MemoryModel, node_as
from fadiff.hardware.quantities import Capacity, Count, Energy, RateWithUnit, bytes_per_second, clock_mhz
from fadiff.hardware.sram_network import CAPACITY_BYTES, is_extrapolated

MAC_PJ = 0.5608
ENERGIES: tuple[Literal["read_pj"], Literal["write_pj"]] = ("read_pj", "write_pj")
FIRST_MEMORY_PJ_PER_BIT = 12.5

# How an energy that a file leaves out was found.
FROM_CAPACITY = "from the capacity"
TABLE_TEXT = f"{CAPACITY_BYTES[0] // 1024} KB to {CAPACITY_BYTES[1] // 1024**2} MB"
EXTRAPOLATED = f"from the capacity, extrapolated beyond the table's {TABLE_TEXT}"
FROM_BITS = f"{FIRST_MEMORY_PJ_PER_BIT} pJ a bit"
AS_GEMMINI = "as on Gemmini"

Filled = Mapping[str, str]
"""How each energy that a file leaves out was found, by its place: `mac_pj`, `scratchpad.read_pj`."""


class LawModel(Strict):
    """An energy that grows with the capacity: `{base: 0.5, per_kb: 0.025}`, in pJ a word."""

    base: Energy = 0.0
    per_kb: Energy


def _energy(data: object) -> float | LinearEnergy:
    """A number, or a law where the file has keys."""
    if isinstance(data, dict):
        law = LawModel.model_validate(data)
        return LinearEnergy(law.base, law.per_kb)
    return _NUMBER.validate_python(data)


_NUMBER: TypeAdapter[float] = TypeAdapter(Energy)
EnergyOrLaw = Annotated[float | LinearEnergy, PlainValidator(_energy)]


class MemoryFileModel(MemoryModel):
    """A memory whose energies may be left out; `row_bits` is the width of a physical row, where it is known."""

    bytes: Capacity | None = None
    word_bits: Count = 8
    row_bits: Count | None = None
    rate: RateWithUnit | None = None
    read_rate: RateWithUnit | None = None
    write_rate: RateWithUnit | None = None
    read_pj: EnergyOrLaw = 0.0  # pyright: ignore[reportIncompatibleVariableOverride]  (a number once it is filled in)
    write_pj: EnergyOrLaw = 0.0  # pyright: ignore[reportIncompatibleVariableOverride]

    def filled_in(self) -> tuple[Memory, Filled]:
        """The memory, and how the energies that the file leaves out were found; rates are in words per cycle."""
        stated = {key: self._stated_pj(key) for key in ENERGIES if key in self.model_fields_set}
        if "read_pj" in stated:
            pj, how = stated["read_pj"], "as reading"
        elif "write_pj" in stated:
            pj, how = stated["write_pj"], "as writing"
        elif self.bytes is None:
            pj, how = FIRST_MEMORY_PJ_PER_BIT * self.word_bits, FROM_BITS
        else:
            pj, how = self._network_pj(self.bytes), EXTRAPOLATED if is_extrapolated(self.bytes) else FROM_CAPACITY
        left_out = [key for key in ENERGIES if key not in stated]
        memory = replace(self.value(), **dict.fromkeys(left_out, pj), **stated)
        return memory, {f"{self.memory}.{key}": how for key in left_out}

    def law(self, key: str) -> LinearEnergy | None:
        """The law of an energy, where the file states one for it, or for the other way that it leaves out."""
        other = next(one for one in ENERGIES if one != key)
        stated = getattr(self, key if key in self.model_fields_set else other)
        return stated if isinstance(stated, LinearEnergy) else None

    def _stated_pj(self, key: str) -> float:
        energy: float | LinearEnergy = getattr(self, key)
        if not isinstance(energy, LinearEnergy):
            return energy
        if self.bytes is None:
            raise MachineError(f"{self.memory}: {key} grows with bytes, and it has none: give it a number")
        return energy.pj(self.bytes)

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
