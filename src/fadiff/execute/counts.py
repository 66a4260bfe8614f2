"""What an execution measured: words moved per layer, and what went wrong, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Counts(NamedTuple):
    """Measured words of one layer, executed once (repeats not counted): 8-bit words, at L1 32-bit words."""

    l3_weight: int = 0
    """Words of W read from L3: parameters, or an activation on the weight port."""
    l3_input: int = 0
    """Words of I read from L3; in an add layer, addends that come from L3. Padding is generated, not read."""
    l3_output: int = 0
    """Words of the stored output written to L3."""
    l3_spill: int = 0
    """Words at L3 for unfinished sums, written and read back: `spill_words` each way for each sum."""
    l2_weight_fill: int = 0
    """Words of W written into L2 from L3."""
    l2_weight_read: int = 0
    """Words of W read from L2 into the registers."""
    l2_input_fill: int = 0
    """Words of I written into L2 from L3."""
    l2_input_read: int = 0
    """Words of I read from L2 by the array: one for all columns that share it (unrolled K)."""
    l2_output_copy: int = 0
    """Words of the stored output copied from L1 into an L2 buffer, where the tensor is fused."""
    l2_addend_read: int = 0
    """Words of fused addends read from their L2 buffers."""
    l1_update: int = 0
    """Sums written by the array, and old sums read: an element's first update reads none."""
    l1_drain: int = 0
    """Sums that leave L1: final ones, once for L3 and once for an L2 buffer, and spilled ones."""
    l1_reload: int = 0
    """Spilled sums that come back into L1."""
    l1_addend: int = 0
    """Words of addends written into L1."""
    l0_weight_fill: int = 0
    """Words of W written into registers."""
    macs: int = 0
    """Multiply-accumulates executed; each reads one register."""

    @property
    def l3(self) -> int:
        """Accesses at L3."""
        return self.l3_weight + self.l3_input + self.l3_output + self.l3_spill

    @property
    def l2(self) -> int:
        """Accesses at L2."""
        weight = self.l2_weight_fill + self.l2_weight_read
        return weight + self.l2_input_fill + self.l2_input_read + self.l2_output_copy + self.l2_addend_read

    @property
    def l1(self) -> int:
        """Accesses at L1, in 32-bit words."""
        return self.l1_update + self.l1_drain + self.l1_reload + self.l1_addend

    @property
    def l0(self) -> int:
        """Accesses at L0: register fills, and one read for each MAC."""
        return self.l0_weight_fill + self.macs


@dataclass(slots=True)
class Tally:
    """Counts while they grow; the fields of :class:`Counts`."""

    l3_weight: int = 0
    l3_input: int = 0
    l3_output: int = 0
    l3_spill: int = 0
    l2_weight_fill: int = 0
    l2_weight_read: int = 0
    l2_input_fill: int = 0
    l2_input_read: int = 0
    l2_output_copy: int = 0
    l2_addend_read: int = 0
    l1_update: int = 0
    l1_drain: int = 0
    l1_reload: int = 0
    l1_addend: int = 0
    l0_weight_fill: int = 0
    macs: int = 0

    def add(self, other: "Tally") -> None:
        """Adds another tally to this one."""
        for name in Counts._fields:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def freeze(self) -> Counts:
        """The counts so far, as a value."""
        return Counts(*(getattr(self, name) for name in Counts._fields))


class Peak(NamedTuple):
    """Most bytes in use at once while a layer ran, over all iterations of its group."""

    group: str
    layer: str
    l1_bytes: int
    l2_bytes: int


class Overflow(NamedTuple):
    """A level asked to hold more than it can. `holders` are its tenants at the worst moment, largest first."""

    group: str
    layer: str
    level: str
    needed_bytes: int
    capacity_bytes: int
    holders: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {size}" for name, size in self.holders)
        return (
            f"group {self.group}, while {self.layer} runs: {self.level} needs {self.needed_bytes} bytes, "
            f"it has {self.capacity_bytes} ({parts})"
        )


class Mismatch(NamedTuple):
    """A layer whose output differs from the direct computation; `first` is the index (n, g, k, p, q) of one."""

    layer: str
    wrong_words: int
    words: int
    first: tuple[int, ...]
    got: int
    expected: int

    def __str__(self) -> str:
        return (
            f"layer {self.layer}: {self.wrong_words} of {self.words} outputs are wrong, the first at "
            f"n,g,k,p,q = {self.first}: {self.got} instead of {self.expected}"
        )


@dataclass(frozen=True)
class Execution:
    """A schedule as it ran.

    `counts` are all words moved. `warm_up` are those of them that moved in warm-up iterations: where a group's
    producers cannot run ahead of the sink within its first iteration, they do so in iterations of their own, whose
    extra passes over the weights the cost model leaves out. So each count is at most the predicted one plus its
    warm-up part. It may be less for three reasons: padding is generated, not read; a layer in `uneven` leads its
    group's last one, so that its last blocks are shorter than the model's, or empty, and take fewer passes; and it may
    leave out rows that a stride skips between two blocks computed at once. Otherwise it equals the prediction.
    """

    counts: Mapping[str, Counts]
    warm_up: Mapping[str, Counts]
    peaks: tuple[Peak, ...]
    mismatches: tuple[Mismatch, ...]
    overflows: tuple[Overflow, ...]
    seconds: float
    uneven: frozenset[str] = frozenset()
    """Layers that lead: they do not compute equal blocks in all shared iterations."""

    @property
    def ok(self) -> bool:
        """Whether every output was right and nothing overflowed."""
        return not self.mismatches and not self.overflows
