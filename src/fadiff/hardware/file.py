"""Hardware files: a built-in name, or YAML or JSON in the form of a schedule file's `hardware` object.

A file of its own may say less than that object: capacities with units, and energies and bandwidths only where they
differ from the defaults.
"""

import re
from difflib import get_close_matches
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeFloat, PositiveFloat

from fadiff.files import FileError, Strict, parse, read_text, validate
from fadiff.hardware.energy_model import l1_pj, l2_pj
from fadiff.hardware.machine import Hardware, HardwareError, Overlap, Picojoules, WordsPerCycle

MAC_PJ = 0.5608
L0_PJ = 0.48746
L3_PJ = 100.0
L3_WORDS_PER_CYCLE = 8.0
L1_WORDS_PER_CYCLE_PER_COLUMN = 2.0

# Energies from the network keep this many decimals, so that every machine computes with the same numbers although
# its mathematical library may round the network's last bits in its own way.
NETWORK_PJ_DECIMALS = 6

CAPACITY_PATTERN = re.compile(r"(-?[0-9]{1,12}(?:\.[0-9]{1,12})?) *([A-Za-z]+)")
BYTES_PER_UNIT = {"B": 1, "KB": 1024, "kB": 1024, "KiB": 1024, "MB": 1024**2, "MiB": 1024**2}
SUFFIXES = (".yaml", ".yml", ".json")


def _whole_bytes(text: object) -> int:
    found = CAPACITY_PATTERN.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or found[2] not in BYTES_PER_UNIT:
        raise ValueError("write a capacity as a number and a unit (B, KB, KiB, MB or MiB), such as 64 KB")
    size = Fraction(found[1]) * BYTES_PER_UNIT[found[2]]
    if size.denominator != 1:
        raise ValueError("write a capacity that comes to whole bytes (1 KB is 1024)")
    return int(size)


def _each_once(dims: list[str]) -> list[str]:
    if len(set(dims)) != len(dims):
        raise ValueError("name each dim once")
    return dims


# Upper bounds are far beyond any chip; they keep products of these numbers within floating point.
Count = Annotated[int, Field(gt=0, le=2**20)]
Bytes = Annotated[int, Field(gt=0, le=2**40)]
Capacity = Annotated[Bytes, BeforeValidator(_whole_bytes)]
Rate = PositiveFloat
Energy = NonNegativeFloat
SpillWords = Annotated[int, Field(ge=0, le=2**20)]
Name = Annotated[str, Field(min_length=1)]
RowDims = Annotated[list[Literal["C", "R", "S"]], AfterValidator(_each_once)]
ColDims = Annotated[list[Literal["K", "G"]], AfterValidator(_each_once)]


class SpatialModel(Strict):
    """The dims that may unroll over each axis of the array."""

    rows: RowDims
    cols: ColDims


class WordsPerCycleModel(Strict):
    """Bandwidths."""

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


class HardwareModel(Strict):
    """An accelerator as a schedule file states it: complete, with nothing left to a network or a built-in file."""

    name: Name
    rows: Count
    cols: Count
    l1_bytes: Bytes
    l2_bytes: Bytes
    spatial: SpatialModel
    words_per_cycle: WordsPerCycleModel
    pj: PicojoulesModel
    spill_words: SpillWords = 4
    double_buffered: bool = False
    online_softmax: bool = False
    overlap: Overlap = "full"

    def value(self) -> Hardware:
        """The checked value."""
        rates, pj = self.words_per_cycle, self.pj
        return Hardware(
            name=self.name,
            rows=self.rows,
            cols=self.cols,
            l1_bytes=self.l1_bytes,
            l2_bytes=self.l2_bytes,
            pj=Picojoules(mac=pj.mac, l0=pj.L0, l1=pj.L1, l2=pj.L2, l3=pj.L3),
            words_per_cycle=WordsPerCycle(l3=rates.L3, l2=rates.L2, l1_per_column=rates.L1_per_column),
            spatial_rows=tuple(self.spatial.rows),
            spatial_cols=tuple(self.spatial.cols),
            spill_words=self.spill_words,
            double_buffered=self.double_buffered,
            online_softmax=self.online_softmax,
            overlap=self.overlap,
        )


class SpatialFileModel(SpatialModel):
    """As above; an axis not named takes the Gemminis' dims."""

    rows: RowDims = Field(default=["C"])
    cols: ColDims = Field(default=["K", "G"])


class WordsPerCycleFileModel(Strict):
    """Bandwidths; where L2's is not given it feeds two words a cycle to each column of the array."""

    L3: Rate = L3_WORDS_PER_CYCLE
    L2: Rate | None = None
    L1_per_column: Rate = L1_WORDS_PER_CYCLE_PER_COLUMN


class PicojoulesFileModel(Strict):
    """Energies; where those of L1 and L2 are not given the capacity -> energy network finds them."""

    mac: Energy = MAC_PJ
    L0: Energy = L0_PJ
    L1: Energy | None = None
    L2: Energy | None = None
    L3: Energy = L3_PJ


class HardwareFileModel(Strict):
    """An accelerator as a file of its own states it: every `HardwareModel` is one, and much may be left out."""

    name: Name
    rows: Count
    cols: Count
    l1: Capacity | None = None
    l2: Capacity | None = None
    l1_bytes: Bytes | None = None
    l2_bytes: Bytes | None = None
    spatial: SpatialFileModel = SpatialFileModel()
    words_per_cycle: WordsPerCycleFileModel = WordsPerCycleFileModel()
    pj: PicojoulesFileModel = PicojoulesFileModel()
    spill_words: SpillWords = 4
    double_buffered: bool = False
    online_softmax: bool = False
    overlap: Overlap = "full"

    def complete(self) -> HardwareModel:
        """The same accelerator with everything said."""
        l1_bytes = _only_one("l1", self.l1, self.l1_bytes)
        l2_bytes = _only_one("l2", self.l2, self.l2_bytes)
        rates, pj = self.words_per_cycle, self.pj
        return HardwareModel(
            name=self.name,
            rows=self.rows,
            cols=self.cols,
            l1_bytes=l1_bytes,
            l2_bytes=l2_bytes,
            spatial=SpatialModel(rows=self.spatial.rows, cols=self.spatial.cols),
            words_per_cycle=WordsPerCycleModel(
                L3=rates.L3,
                L2=2.0 * self.cols if rates.L2 is None else rates.L2,
                L1_per_column=rates.L1_per_column,
            ),
            pj=PicojoulesModel(
                mac=pj.mac,
                L0=pj.L0,
                L1=round(float(l1_pj(float(l1_bytes), self.cols)), NETWORK_PJ_DECIMALS) if pj.L1 is None else pj.L1,
                L2=round(float(l2_pj(float(l2_bytes), self.cols)), NETWORK_PJ_DECIMALS) if pj.L2 is None else pj.L2,
                L3=pj.L3,
            ),
            spill_words=self.spill_words,
            double_buffered=self.double_buffered,
            online_softmax=self.online_softmax,
            overlap=self.overlap,
        )


def _only_one(level: str, with_unit: int | None, in_bytes: int | None) -> int:
    """A capacity in bytes from the two keys that may state it."""
    if with_unit is not None and in_bytes is not None:
        raise HardwareError(f"{level}: {level}_bytes is given too: keep one of the two")
    capacity = with_unit if in_bytes is None else in_bytes
    if capacity is None:
        raise HardwareError(f"{level}: this key is missing: add it, such as {level}: 64 KB")
    return capacity


def builtin_hardware() -> tuple[str, ...]:
    """The names of the accelerators that come with the package."""
    shipped = resources.files("fadiff.hardware").joinpath("builtin").iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in shipped if file.name.endswith(".yaml")))


def load_hardware(name_or_path: str) -> Hardware:
    """An accelerator by its built-in name, or from a YAML or JSON file.

    >>> load_hardware("gemmini-large").l2_bytes
    524288
    """
    known = builtin_hardware()
    if name_or_path in known:
        shipped = resources.files("fadiff.hardware").joinpath("builtin", f"{name_or_path}.yaml")
        text = shipped.read_text(encoding="utf-8")
    elif name_or_path.lower().endswith(SUFFIXES):
        text = read_text(Path(name_or_path))
    else:
        close = get_close_matches(name_or_path, known, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise FileError(
            f"{name_or_path}: no built-in hardware has this name{hint}: "
            f"choose {', '.join(known)}, or a file that ends in {', '.join(SUFFIXES)}"
        )
    model = validate(HardwareFileModel, parse(text, name_or_path), name_or_path)
    try:
        return model.complete().value()
    except HardwareError as error:
        raise FileError(f"{name_or_path}: {error}") from None


def hardware_to_json(hardware: Hardware) -> dict[str, Any]:
    """An accelerator as plain JSON values, every key stated, the inverse of reading one."""
    rates, pj = hardware.words_per_cycle, hardware.pj
    return {
        "name": hardware.name,
        "rows": hardware.rows,
        "cols": hardware.cols,
        "l1_bytes": hardware.l1_bytes,
        "l2_bytes": hardware.l2_bytes,
        "spatial": {"rows": list(hardware.spatial_rows), "cols": list(hardware.spatial_cols)},
        "words_per_cycle": {
            "L3": _plain(rates.l3),
            "L2": _plain(rates.l2),
            "L1_per_column": _plain(rates.l1_per_column),
        },
        "pj": {
            "mac": _plain(pj.mac),
            "L0": _plain(pj.l0),
            "L1": _plain(pj.l1),
            "L2": _plain(pj.l2),
            "L3": _plain(pj.l3),
        },
        "spill_words": hardware.spill_words,
        "double_buffered": hardware.double_buffered,
        "online_softmax": hardware.online_softmax,
        "overlap": hardware.overlap,
    }


def _plain(value: float) -> int | float:
    """A whole number without its decimal point."""
    return int(value) if float(value).is_integer() else value
