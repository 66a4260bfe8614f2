"""What an execution measured, as plain values.

Every count comes with what the model counts otherwise, and why:

- *padding*: zeros around an image are made where the tensor lies, in the first memory or in the one that fuses, and not
  read there. The model counts them as read. (Further in they are written and read like data, here and there.) The
  executor counts how much of every box that it fetches is padding.
- *lead*: in a group, a layer that runs ahead of the last one computes its rows in other pieces than the tiles that the
  model counts: its lead is made before the first iteration, so there may be one piece more, and the last ones are
  shorter. The executor counts what the pieces move as they are made; this is what all tiles would move, less what all
  pieces should.

So for every count the model's number is what moved, plus padding, plus lead: word for word.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fadiff.errors import FadiffError

Way = Literal["read", "write"]


class ExecutionError(FadiffError):
    """A schedule that cannot run: loops that cannot be walked, data that are not there. Told in one sentence."""


class Access(NamedTuple):
    """One kind of access: to which memory (by name), of which tensor, read or written. Addends are O."""

    memory: str
    tensor: str
    way: Way


class Count(NamedTuple):
    """Accesses of one kind in one execution of a layer, in bits: so values of all widths add up without rounding."""

    word_bits: int
    """Width of a word of the memory."""
    bits: int
    """What moved."""
    padding_bits: int = 0
    """What the model counts more because padding was not read."""
    lead_bits: int = 0
    """What the model counts more, or less, because the layer led its group."""

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


class Peak(NamedTuple):
    """The most that one instance of a memory held at once while a layer ran; who held it then, largest first."""

    layer: str
    memory: str
    bits: int
    capacity_bytes: float
    holders: tuple[tuple[str, int], ...]

    @property
    def overflows(self) -> bool:
        """Whether the memory cannot hold so much."""
        return self.bits > 8 * self.capacity_bytes

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {bits / 8:g}" for name, bits in self.holders)
        need = f"{self.memory} needs {self.bits / 8:g} bytes, it has {self.capacity_bytes:g}"
        return f"while {self.layer} runs {need} ({parts})"


class Mismatch(NamedTuple):
    """A layer whose output differs from the direct computation; `first` is the index (n, g, k, p, q) of one."""

    layer: str
    wrong_words: int
    words: int
    first: tuple[int, ...]
    got: int
    expected: int

    def __str__(self) -> str:
        wrong = f"{self.wrong_words} of {self.words} outputs are wrong, the first at n,g,k,p,q = {self.first}"
        return f"layer {self.layer}: {wrong}: {self.got} instead of {self.expected}"


@dataclass(frozen=True)
class Execution:
    """A schedule as it ran."""

    layers: Mapping[str, LayerRun]
    peaks: tuple[Peak, ...]
    mismatches: tuple[Mismatch, ...]
    seconds: float

    @property
    def exact(self) -> bool:
        """Whether every output is that of a direct computation."""
        return not self.mismatches

    @property
    def overflows(self) -> tuple[Peak, ...]:
        """Where a memory was asked to hold more than it can."""
        return tuple(peak for peak in self.peaks if peak.overflows)
