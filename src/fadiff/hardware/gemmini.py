"""The Gemmini template: rows, columns and two capacities stand for a whole machine.

.. code-block:: text

    DRAM {W,I,O} - scratchpad {W,I} - axis cols (K,G) - accumulator {O} - axis rows (C) - registers {W} - MACs

It is a short form for hardware files, and the form of the `hardware` object in schedule files of edition 1, where DRAM
is L3, the scratchpad L2, the accumulator of all columns together L1, and the registers are L0.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from fadiff.files import Strict
from fadiff.hardware.energy_model import WIDTH_BITS
from fadiff.hardware.machine import Machine, MachineError
from fadiff.hardware.machine_json import MachineKeys, stated
from fadiff.hardware.nodes_file import AS_GEMMINI, FileKeys, Filled, NodesFileModel
from fadiff.hardware.quantities import Bytes, CapacityWithUnit, Count, Energy, Rate, RateWithUnit

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
    """The dims that may unroll over each axis of the array; the Gemminis' unless named."""

    rows: RowDims = Field(default=["C"])
    cols: ColDims = Field(default=["K", "G"])


class WordsPerCycleModel(Strict):
    """Rates; at L1 those of one column, in 32-bit words. L2 feeds two words a cycle to each column of the array."""

    L3: Rate = 8.0
    L2: Rate | None = None
    L1_per_column: Rate = 2.0


class PicojoulesModel(Strict):
    """Energy of one MAC, and of one access to a word of each level (at L1 a 32-bit word)."""

    mac: Energy | None = None
    L0: Energy | None = None
    L1: Energy | None = None
    L2: Energy | None = None
    L3: Energy | None = None


class GemminiModel(MachineKeys):
    """The complete `hardware` object of a schedule file of edition 1."""

    rows: Count
    cols: Count
    l1_bytes: Bytes
    l2_bytes: Bytes
    spatial: Annotated[SpatialModel, stated("rows", "cols")]
    words_per_cycle: Annotated[WordsPerCycleModel, stated("L3", "L2", "L1_per_column")]
    pj: Annotated[PicojoulesModel, stated("mac", "L0", "L1", "L2", "L3")]
    spill_words: SpillWords = 4
    double_buffered: bool = False

    def value(self) -> Machine:
        """The machine that the object stands for."""
        return self.filled_in()[0]

    def filled_in(self) -> tuple[Machine, Filled]:
        """The machine, and how each energy that the file leaves out was found."""
        return self._nodes(self.l1_bytes, self.l2_bytes).filled_in()

    def _nodes(self, l1_bytes: int, l2_bytes: int) -> NodesFileModel:
        """The list of nodes that the template stands for."""
        if l1_bytes < self.cols:
            raise MachineError(f"l1: {l1_bytes} bytes for {self.cols} columns: each column needs room for a sum")
        rates, pj, buffers = self.words_per_cycle, self.pj, {"double_buffered": self.double_buffered}
        scratchpad = {
            "fuses": True,
            "bytes": l2_bytes,
            "words_per_cycle": 2.0 * self.cols if rates.L2 is None else rates.L2,
            "row_bits": min(WORD_BITS * self.cols, WIDTH_BITS[1]),
        }
        accumulator = {
            "bytes": l1_bytes // self.cols,
            "word_bits": SUM_BITS,
            "words_per_cycle": rates.L1_per_column,
            "row_bits": SUM_BITS,
        }
        nodes = [
            _memory("DRAM", "WIO", pj.L3, {"words_per_cycle": rates.L3}),
            _memory("scratchpad", "WI", pj.L2, scratchpad | buffers),
            {"axis": "cols", "size": self.cols, "dims": "".join(self.spatial.cols)},
            _memory("accumulator", "O", pj.L1, accumulator | buffers),
            {"axis": "rows", "size": self.rows, "dims": "".join(self.spatial.rows)},
            _memory("registers", "W", REGISTER_PJ if pj.L0 is None else pj.L0, {"bytes": 1}),
        ]
        bits = {"sums": SUM_BITS, "spilled": WORD_BITS * self.spill_words}
        machine = {key: getattr(self, key) for key in MachineKeys.model_fields}
        return NodesFileModel.model_validate(machine | {"nodes": nodes, "bits": bits, "mac_pj": pj.mac})


def _memory(name: str, keeps: str, pj: float | None, numbers: dict[str, Any]) -> dict[str, Any]:
    energies = {} if pj is None else {"read_pj": pj, "write_pj": pj}
    return {"memory": name, "keeps": keeps, **numbers, **energies}


class GemminiFileModel(GemminiModel, FileKeys):
    """A hardware file in short keys: every complete object is one, and much may be left out."""

    l1: CapacityWithUnit | None = None
    l2: CapacityWithUnit | None = None
    l1_bytes: Bytes = 0
    l2_bytes: Bytes = 0
    spatial: SpatialModel = SpatialModel()
    words_per_cycle: WordsPerCycleModel = WordsPerCycleModel()
    pj: PicojoulesModel = PicojoulesModel()
    rate: RateWithUnit | None = None
    """Of DRAM, instead of `words_per_cycle.L3`."""

    def as_nodes(self) -> NodesFileModel:
        """The file that says the same as a list of nodes."""
        l1_bytes, l2_bytes = _only_one("l1", self.l1, self.l1_bytes), _only_one("l2", self.l2, self.l2_bytes)
        nodes = self._nodes(l1_bytes, l2_bytes)
        if self.rate is not None:
            if "L3" in self.words_per_cycle.model_fields_set:
                raise MachineError("rate: words_per_cycle.L3 is given too: keep one of the two")
            dram, *others = nodes.nodes
            timed = dram.model_copy(update={"words_per_cycle": None, "rate": self.rate})
            nodes = nodes.model_copy(update={"nodes": [timed, *others]})
        return nodes

    def filled_in(self) -> tuple[Machine, Filled]:
        """The machine, and how each energy that the file leaves out was found."""
        machine, filled = self.as_nodes().filled_in()
        register = {f"registers.{key}": AS_GEMMINI for key in ("read_pj", "write_pj") if self.pj.L0 is None}
        return machine, {**filled, **register}


def _only_one(level: str, with_unit: int | None, in_bytes: int) -> int:
    """A capacity in bytes from the two keys that may state it, the second with 0 where it does not."""
    if with_unit and in_bytes:
        raise MachineError(f"{level}: {level}_bytes is given too: keep one of the two")
    if not (with_unit or in_bytes):
        raise MachineError(f"{level}: this key is missing: add it, such as {level}: 64 KB")
    return with_unit or in_bytes
