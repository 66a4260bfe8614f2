"""Fused tensors on chip: L2 buffers that hold what consumers still need, and nothing else."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadiff.execute.tensors import Words

ABSENT = 85
"""What a cell reads as that is not there, because it is not yet computed or was let go: so using one shows."""


class Shared(NamedTuple):
    """One shared iteration of a group: the index of each shared loop. Rows and columns are negative in warm-up."""

    g: int
    n: int
    p: int
    q: int
    x: int


class Buffer:
    """The on-chip copy of one fused tensor.

    A *cell* is one row and column, with all words of a (G, N, X) iteration: `shape` is ``[n, g, k, P', Q']`` of one
    such iteration. Only live cells take room. Arrays span all rows and columns so that addresses stay simple; cells
    that are not live are poisoned.
    """

    def __init__(self, shape: tuple[int, int, int, int, int]) -> None:
        self.shape = shape
        self.cells = 0
        self._live: dict[tuple[int, int, int], NDArray[np.bool_]] = {}
        self._words: dict[tuple[int, int, int], Words] = {}

    @property
    def size_bytes(self) -> int:
        """Bytes of all live cells."""
        n, g, k, _, _ = self.shape
        return self.cells * n * g * k

    def reserve(self, at: Shared, rows: tuple[int, int], cols: tuple[int, int]) -> None:
        """Makes room for the cells that are about to be computed."""
        if rows[0] == rows[1] or cols[0] == cols[1]:
            return
        live = self._live.setdefault((at.g, at.n, at.x), np.zeros(self.shape[3:], np.bool_))
        block = live[rows[0] : rows[1], cols[0] : cols[1]]
        self.cells += block.size - int(np.count_nonzero(block))
        block[...] = True

    def release(self, at: Shared, wanted: NDArray[np.bool_]) -> None:
        """Lets go of all cells of this iteration's (G, N, X) that are not wanted any more."""
        key = (at.g, at.n, at.x)
        live = self._live.get(key)
        if live is None:
            return
        gone = live & ~wanted
        self.cells -= int(np.count_nonzero(gone))
        live &= wanted
        if not live.any():
            del self._live[key]
            self._words.pop(key, None)
        elif key in self._words:
            self._words[key][..., gone] = ABSENT

    def words(self, at: Shared) -> Words:
        """The words of this iteration's (G, N, X), ``[n, g, k, P', Q']``; absent cells are poisoned."""
        key = (at.g, at.n, at.x)
        if key not in self._words:
            self._words[key] = np.full(self.shape, ABSENT, np.int8)
        return self._words[key]
