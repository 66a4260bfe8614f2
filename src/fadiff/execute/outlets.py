"""Where a layer's outputs go: to L3, into an L2 buffer, or both."""

import numpy as np

from fadiff.execute.buffers import ABSENT, Buffer, Shared
from fadiff.execute.counts import Tally
from fadiff.execute.tensors import Floats, Words, requantised, resized, resizes, shift_of
from fadiff.workload import Dims, Layer

Span = tuple[int, int]


class Outlet:
    """The way of final sums out of L1, through the vector unit that applies the epilogue.

    `record` is the stored tensor ``[N, G, K, P', Q']``: the one in L3 where the layer is drained, otherwise a copy for
    the comparison only. Where the epilogue pools or upsamples, the vector unit collects a block first; its storage is
    not counted.
    """

    def __init__(self, layer: Layer, record: Words, shared: Dims, *, drained: bool, buffer: Buffer | None) -> None:
        d = layer.dims
        self.record = record
        self.drained = drained
        self._layer = layer
        self._buffer = buffer
        self._exits = int(drained) + int(buffer is not None)
        self._shift = shift_of(layer)
        self._block = (d.G // shared.G, d.N // shared.N, d.K // shared.K)
        self._shares_channels = shared.K > 1
        self._last_x = shared.C - 1
        self._collected = np.full((d.N, d.G, d.K, d.P, d.Q), ABSENT, np.int8) if resizes(layer) else None
        self._on_chip: Words | None = None
        self._first = (0, 0, 0)

    def begin(self, at: Shared) -> None:
        """Prepares for a shared iteration."""
        g, n, k = self._block
        self._first = (at.n * n, at.g * g, at.x * k if self._shares_channels else 0)
        self._on_chip = self._buffer.words(at) if self._buffer is not None else None

    def drain(self, sums: Floats, corner: tuple[int, int, int, int, int], tally: Tally) -> None:
        """Takes final sums ``[g, k, n, p, q]`` whose first element is ``O[g, n, k, p, q]`` = `corner`."""
        tally.l1_drain += sums.size * self._exits
        words = requantised(sums, self._shift).transpose(2, 0, 1, 3, 4)
        g, n, k, p, q = corner
        dn, dg, dk, dp, dq = words.shape
        if self._collected is not None:
            self._collected[n : n + dn, g : g + dg, k : k + dk, p : p + dp, q : q + dq] = words
            return
        self._store(words, (n, g, k), (p, p + dp), (q, q + dq), tally)

    def finish(self, at: Shared, rows: Span, cols: Span, tally: Tally) -> None:
        """Stores what the vector unit collected, now that these stored rows and columns are complete."""
        if self._collected is None or at.x < self._last_x:
            return
        (g, n, k), (n0, g0, k0) = self._block, self._first
        words = resized(self._collected[n0 : n0 + n, g0 : g0 + g, k0 : k0 + k], self._layer, rows, cols)
        self._store(words, self._first, rows, cols, tally)

    def _store(self, words: Words, first: tuple[int, int, int], rows: Span, cols: Span, tally: Tally) -> None:
        (n, g, k), (dn, dg, dk, _, _) = first, words.shape
        self.record[n : n + dn, g : g + dg, k : k + dk, rows[0] : rows[1], cols[0] : cols[1]] = words
        if self.drained:
            tally.l3_output += words.size
        if self._on_chip is not None:
            n, g, k = n - self._first[0], g - self._first[1], k - self._first[2]
            self._on_chip[n : n + dn, g : g + dg, k : k + dk, rows[0] : rows[1], cols[0] : cols[1]] = words
            tally.l2_output_copy += words.size
