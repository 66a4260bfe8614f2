"""L1 as one layer uses it: a tile of sums, spilled to L3 when another one is wanted before it is complete."""

import numpy as np

from fadiff.execute.counts import Tally
from fadiff.execute.tensors import Floats, FloatType

Key = tuple[int, ...]


class Accumulator:
    """The sums of one output tile, and those that wait in L3 for their turn.

    `sums` is None where nothing was added yet. `visits` counts the visits that added to it.
    """

    def __init__(self, dtype: FloatType, spill_words: int) -> None:
        self.sums: Floats | None = None
        self.key: Key | None = None
        self.visits = 0
        self.fresh = 0
        self._dtype = dtype
        self._spill_words = spill_words
        self._spilled: dict[Key, tuple[Floats, int]] = {}

    def want(self, key: Key, tally: Tally) -> None:
        """Makes a tile the one in L1, spilling an unfinished one and reloading this one where it was spilled."""
        self.leave(tally)
        self.key = key
        self.sums, self.visits = self._spilled.pop(key, (None, 0))
        if self.sums is not None:
            tally.l1_reload += self.sums.size
            tally.l3_spill += self.sums.size * self._spill_words

    def add(self, partial: Floats) -> None:
        """Adds the partial sums of a visit."""
        if self.sums is None:
            self.sums = np.array(partial, self._dtype)
            self.fresh += partial.size
        else:
            np.add(self.sums, partial, out=self.sums)
        self.visits += 1

    def take(self) -> Floats:
        """The complete sums; they leave L1."""
        assert self.sums is not None
        sums, self.sums, self.key = self.sums, None, None
        return sums

    def leave(self, tally: Tally) -> None:
        """Spills unfinished sums, if there are any."""
        if self.sums is not None and self.key is not None:
            self._spilled[self.key] = (self.sums, self.visits)
            tally.l1_drain += self.sums.size
            tally.l3_spill += self.sums.size * self._spill_words
        self.sums, self.key = None, None
