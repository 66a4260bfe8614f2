"""The accelerator as a value: a PE array under a four-level memory hierarchy (L3, L2, L1, L0)."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from fadiff.errors import FadiffError

Overlap = Literal["full", "none"]


class HardwareError(FadiffError):
    """An accelerator that does not make sense, told in one sentence."""


class WordsPerCycle(NamedTuple):
    """Bandwidths. L1 serves each array column in use; L0 is unlimited."""

    l3: float = 8.0
    l2: float = 64.0
    l1_per_column: float = 2.0


class Picojoules(NamedTuple):
    """Energy of one MAC, and of one access to a word of each level (at L1 a 32-bit word)."""

    mac: float
    l0: float
    l1: float
    l2: float
    l3: float


@dataclass(frozen=True)
class Hardware:
    """An accelerator of ``rows x cols`` PEs, an accumulator (L1), a scratchpad (L2) and DRAM (L3).

    `spatial_rows` and `spatial_cols` name the dims that may unroll over array rows and columns.
    """

    name: str
    rows: int
    cols: int
    l1_bytes: int
    l2_bytes: int
    pj: Picojoules
    words_per_cycle: WordsPerCycle = field(default_factory=WordsPerCycle)
    spatial_rows: tuple[str, ...] = ("C",)
    spatial_cols: tuple[str, ...] = ("K", "G")
    spill_words: int = 4
    double_buffered: bool = False
    online_softmax: bool = False
    overlap: Overlap = "full"

    def __post_init__(self) -> None:
        for what, value in (
            ("rows", self.rows),
            ("cols", self.cols),
            ("l1_bytes", self.l1_bytes),
            ("l2_bytes", self.l2_bytes),
            *((f"words_per_cycle.{k}", v) for k, v in self.words_per_cycle._asdict().items()),
        ):
            if not 0 < value < float("inf"):
                raise HardwareError(f"hardware {self.name!r}: {what} is {value}: it must be positive and finite")
        for what, value in (("spill_words", self.spill_words), *self.pj._asdict().items()):
            if not 0 <= value < float("inf"):
                raise HardwareError(f"hardware {self.name!r}: {what} is {value}: it must not be negative")
        for axis, dims, allowed in (
            ("rows", self.spatial_rows, "CRS"),
            ("cols", self.spatial_cols, "KG"),
        ):
            for dim in dims:
                if len(dim) != 1 or dim not in allowed:
                    raise HardwareError(
                        f"hardware {self.name!r}: array {axis} cannot unroll {dim!r}: choose among {', '.join(allowed)}"
                    )
        if self.overlap not in ("full", "none"):
            raise HardwareError(f"hardware {self.name!r}: overlap is {self.overlap!r}: say full or none")

    @property
    def usable_l1_bytes(self) -> int:
        """L1 capacity a schedule may fill: half of it where transfers are double-buffered."""
        return self.l1_bytes // 2 if self.double_buffered else self.l1_bytes

    @property
    def usable_l2_bytes(self) -> int:
        """L2 capacity a schedule may fill: half of it where transfers are double-buffered."""
        return self.l2_bytes // 2 if self.double_buffered else self.l2_bytes
