"""The way of finished sums out of the array: through the vector unit, which applies the epilogue, to where they go."""

import numpy as np

from fadiff.next.execute.data import Floats, Span, Words, residues, resized, resizes
from fadiff.workload import Layer


class Outlet:
    """Takes a layer's sums and stores its output, ``record[N, G, K, P', Q']``.

    Where the epilogue pools or upsamples, the vector unit collects rows until they are complete; its storage is not
    counted. `stored` counts the words stored.
    """

    def __init__(self, layer: Layer, record: Words) -> None:
        self.record, self.stored = record, 0
        self._layer = layer
        d = layer.dims
        self._collected = np.zeros((d.N, d.G, d.K, d.P, d.Q), np.int8) if resizes(layer) else None

    def drain(self, sums: Floats, corner: tuple[int, int, int, int, int]) -> None:
        """Takes final sums ``[g, k, n, p, q]`` whose first element is ``O[g, k, n, p, q]`` = `corner`."""
        words = residues(sums).transpose(2, 0, 1, 3, 4)
        g, k, n, p, q = corner
        place = tuple(slice(a, a + b) for a, b in zip((n, g, k, p, q), words.shape, strict=True))
        if self._collected is not None:
            self._collected[place] = words
            return
        self.record[place] = words
        self.stored += words.size

    def finish(self, outputs: tuple[Span, Span, Span], rows: Span, cols: Span) -> None:
        """Stores rows and columns that are complete now, of ranges of N, G and K, if the vector unit collected them."""
        if self._collected is None or rows[0] == rows[1] or cols[0] == cols[1]:
            return
        n, g, k = (slice(*span) for span in outputs)
        words = resized(self._collected[n, g, k], self._layer, rows, cols)
        self.record[n, g, k, slice(*rows), slice(*cols)] = words
        self.stored += words.size
