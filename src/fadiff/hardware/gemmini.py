"""The Gemmini template: rows, columns and two capacities stand for a whole machine.

.. code-block:: text

    DRAM {W,I,O} - scratchpad {W,I} - axis cols (K,G) - accumulator {O} - axis rows (C) - registers {W} - MACs

It is a short form for hardware files, and the form of the `hardware` object in schedule files of edition 1, where DRAM
is L3, the scratchpad L2, the accumulator of all columns together L1, and the registers are L0.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from fadiff.files import Strict
from fadiff.hardware.energy_model import WIDTH_BITS
from fadiff.hardware.machine import Machine, MachineError
from fadiff.hardware.machine_json import AxisModel, MachineKeys
from fadiff.hardware.nodes_file import (
    AS_GEMMINI,
    BitsFileModel,
    FileKeys,
    Filled,
    MemoryFileModel,
    NodesFileModel,
)
from fadiff.hardware.quantities import Bytes, CapacityWithUnit, Count, Energy, Rate

WORD_BITS = 8
SUM_BITS = 32
REGISTER_PJ = 0.48746
"""Energy of a weight in the register of a PE, where a file does not say it: DOSA's number for Gemmini."""


def _each_once(dims: list[str]) -> list[str]:
    if len(set(dims)) != len(dims):
        raise ValueError("name each dim once")
    return dims


SpillWords = Annotated[int, Field(ge=0, le=2**20)]
RowDims = Annotated[list[Literal["C", "R", "S"]], AfterValidator(_each_once)]
ColDims = Annotated[list[Literal["K", "G"]], AfterValidator(_each_once)]


class SpatialModel(Strict):
    """The dims that may unroll over each axis of the array."""

    rows: RowDims
    cols: ColDims


class WordsPerCycleModel(Strict):
    """Rates; at L1 those of one column, in 32-bit words."""

    L3: Rate
    L2: Rate
    L1_per_column: Rate


class PicojoulesModel(Strict):
    """Energy of one MAC, and of one access to a word of each level (at L1 a 32-bit word)."""

    mac: Energy
    L0: Energy
    L1: Energy
    L2: Energy
    L3: Energy


class SpatialFileModel(SpatialModel):
    """As above; an axis not named takes the Gemminis' dims."""

    rows: RowDims = Field(default=["C"])
    cols: ColDims = Field(default=["K", "G"])


class WordsPerCycleFileModel(Strict):
    """Rates; where L2's is not given it feeds two words a cycle to each column of the array."""

    L3: Rate = 8.0
    L2: Rate | None = None
    L1_per_column: Rate = 2.0


class PicojoulesFileModel(Strict):
    """Energies; all may be left out."""

    mac: Energy | None = None
    L0: Energy | None = None
    L1: Energy | None = None
    L2: Energy | None = None
    L3: Energy | None = None


class TemplateKeys(MachineKeys):
    """What both forms of the template say in the same way."""

    rows: Count
    cols: Count
    spill_words: SpillWords = 4
    double_buffered: bool = False


class GemminiModel(TemplateKeys):
    """The complete `hardware` object of a schedule file of edition 1."""

    l1_bytes: Bytes
    l2_bytes: Bytes
    spatial: SpatialModel
    words_per_cycle: WordsPerCycleModel
    pj: PicojoulesModel

    def value(self) -> Machine:
        """The machine that the object stands for."""
        rates = WordsPerCycleFileModel(**self.words_per_cycle.model_dump())
        pj = PicojoulesFileModel(**self.pj.model_dump())
        return _nodes(self, self.l1_bytes, self.l2_bytes, self.spatial, rates, pj).value()[0]


class GemminiFileModel(TemplateKeys, FileKeys):
    """A hardware file in short keys: every complete object is one, and much may be left out."""

    l1: CapacityWithUnit | None = None
    l2: CapacityWithUnit | None = None
    l1_bytes: Bytes | None = None
    l2_bytes: Bytes | None = None
    spatial: SpatialFileModel = SpatialFileModel()
    words_per_cycle: WordsPerCycleFileModel = WordsPerCycleFileModel()
    pj: PicojoulesFileModel = PicojoulesFileModel()

    def value(self) -> tuple[Machine, Filled]:
        """The machine, and how each energy that the file leaves out was found."""
        l1_bytes = _only_one("l1", self.l1, self.l1_bytes)
        l2_bytes = _only_one("l2", self.l2, self.l2_bytes)
        machine, filled = _nodes(self, l1_bytes, l2_bytes, self.spatial, self.words_per_cycle, self.pj).value()
        register = {f"registers.{key}": AS_GEMMINI for key in ("read_pj", "write_pj") if self.pj.L0 is None}
        return machine, {**filled, **register}


def _only_one(level: str, with_unit: int | None, in_bytes: int | None) -> int:
    """A capacity in bytes from the two keys that may state it."""
    if with_unit is not None and in_bytes is not None:
        raise MachineError(f"{level}: {level}_bytes is given too: keep one of the two")
    capacity = with_unit if in_bytes is None else in_bytes
    if capacity is None:
        raise MachineError(f"{level}: this key is missing: add it, such as {level}: 64 KB")
    return capacity


def _nodes(
    template: TemplateKeys,
    l1_bytes: int,
    l2_bytes: int,
    spatial: SpatialModel,
    rates: WordsPerCycleFileModel,
    pj: PicojoulesFileModel,
) -> NodesFileModel:
    """The template as the list of nodes that it stands for."""
    if l1_bytes < template.cols:
        raise MachineError(f"l1: {l1_bytes} bytes for {template.cols} columns: each column needs room for a sum")
    dram = MemoryFileModel(memory="DRAM", keeps="WIO", words_per_cycle=rates.L3, read_pj=pj.L3, write_pj=pj.L3)
    scratchpad = MemoryFileModel(
        memory="scratchpad",
        keeps="WI",
        fuses=True,
        bytes=l2_bytes,
        words_per_cycle=2.0 * template.cols if rates.L2 is None else rates.L2,
        row_bits=min(WORD_BITS * template.cols, WIDTH_BITS[1]),
        read_pj=pj.L2,
        write_pj=pj.L2,
        double_buffered=template.double_buffered,
    )
    accumulator = MemoryFileModel(
        memory="accumulator",
        keeps="O",
        bytes=l1_bytes // template.cols,
        word_bits=SUM_BITS,
        words_per_cycle=rates.L1_per_column,
        row_bits=SUM_BITS,
        read_pj=pj.L1,
        write_pj=pj.L1,
        double_buffered=template.double_buffered,
    )
    register_pj = REGISTER_PJ if pj.L0 is None else pj.L0
    registers = MemoryFileModel(memory="registers", keeps="W", bytes=1, read_pj=register_pj, write_pj=register_pj)
    return NodesFileModel(
        name=template.name,
        overlap=template.overlap,
        online_softmax=template.online_softmax,
        bits=BitsFileModel(sums=SUM_BITS, spilled=WORD_BITS * template.spill_words),
        mac_pj=pj.mac,
        nodes=[
            dram,
            scratchpad,
            AxisModel(axis="cols", size=template.cols, dims="".join(spatial.cols)),
            accumulator,
            AxisModel(axis="rows", size=template.rows, dims="".join(spatial.rows)),
            registers,
        ],
    )
