"""What an execution measured, as plain values.

Every count of words comes with what it differs by from the model's accounting, and why:

- *padding*: zeros around an image are made where the tensor lies, in the first memory or in the one that fuses, and not
  read there. The model counts them as read. Further in they are written and read like data, here and there. The
  executor counts how much of every box that it fetches is padding.
- *lead*: in a group, a layer that runs ahead of the last one computes its rows in other pieces than the tiles that the
  model counts: the first ones are made before the first iteration, so there may be one piece more, and the last one is
  shorter. The executor carries out the transfers of both: this is the difference between all tiles and all pieces.

So for every count the model's number is ``words + padding + lead``, word for word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fadiff.errors import FadiffError

Way = Literal["read", "write"]


class ExecutionError(FadiffError):
    """A schedule whose loops cannot be walked, told in one sentence."""


class Access(NamedTuple):
    """One kind of access: which memory (by name), which tensor, read or written. Addends are O."""

    memory: str
    tensor: str
    way: Way


class Count(NamedTuple):
    """Accesses of one kind in one execution of a layer, in bits: values of several widths add up without rounding."""

    word_bits: int
    """Width of a word of the memory."""
    bits: int
    """What moved."""
    padding_bits: int = 0
    """What the model counts more because padding was not read."""
    lead_bits: int = 0
    """What the model counts more, or less, because the layer led its group."""

    @property
    def accounted_bits(self) -> int:
        """What the model must say."""
        return self.bits + self.padding_bits + self.lead_bits

    @property
    def words(self) -> float:
        """What moved, in words of the memory."""
        return self.bits / self.word_bits


@dataclass(frozen=True)
class LayerRun:
    """One execution of a layer; repeats are not counted."""

    counts: Mapping[Access, Count]
    macs: int
    steps: int
    """Steps of the array, all lanes at once."""
    lead_steps: int
    """Steps that the model counts more, or less, because the layer led its group."""
    instances: Mapping[str, int]
    """The most instances of each memory that a tile keeps busy at a time."""


class Peak(NamedTuple):
    """The most that one instance of a memory held at once while a layer ran, over all iterations of its group."""

    layer: str
    memory: str
    bits: int

    @property
    def bytes(self) -> float:
        """In bytes."""
        return self.bits / 8


class Overflow(NamedTuple):
    """A memory asked to hold more than it can. `holders` are its tenants at the worst moment, largest first."""

    group: str
    layer: str
    memory: str
    needed_bits: int
    capacity_bytes: float
    holders: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {bits / 8:g}" for name, bits in self.holders)
        return (
            f"group {self.group}, while {self.layer} runs: {self.memory} needs {self.needed_bits / 8:g} bytes, "
            f"it has {self.capacity_bytes:g} ({parts})"
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


class Absence(NamedTuple):
    """A layer that reads rows or columns of a fused tensor that are not on chip: not yet made, or let go."""

    layer: str
    source: str
    cells: int

    def __str__(self) -> str:
        return f"layer {self.layer}: it reads {self.cells} places of {self.source} that are not on chip at that time"


@dataclass(frozen=True)
class Execution:
    """A schedule as it ran."""

    layers: Mapping[str, LayerRun]
    peaks: tuple[Peak, ...]
    overflows: tuple[Overflow, ...]
    mismatches: tuple[Mismatch, ...]
    absences: tuple[Absence, ...]
    seconds: float

    @property
    def exact(self) -> bool:
        """Whether every output is that of a direct computation, made of data that were there."""
        return not self.mismatches and not self.absences

    @property
    def fits(self) -> bool:
        """Whether no memory was ever asked to hold more than it can."""
        return not self.overflows
