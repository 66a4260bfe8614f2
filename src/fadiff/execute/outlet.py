"""Where sums become outputs: through the vector unit, which applies the epilogue, to where they go."""

from collections.abc import Sequence

import numpy as np

from fadiff.execute.tensors import Floats, Span, Words, residues, resized, resizes
from fadiff.workload import Layer


class Outlet:
    """Takes a layer's sums and stores its output, ``record[N, G, K, P', Q']``; counts what is `computed` and `stored`.

    Where the epilogue pools or upsamples, the vector unit collects rows until they are complete; its storage is not
    counted.
    """

    def __init__(self, layer: Layer, record: Words) -> None:
        self.record, self.computed, self.stored = record, 0, 0
        d, self._layer = layer.dims, layer
        self._collected = np.zeros((d.N, d.G, d.K, d.P, d.Q), np.int8) if resizes(layer) else None

    def drain(self, sums: Floats, corner: tuple[int, int, int, int, int]) -> None:
        """Takes final sums ``[g, k, n, p, q]`` whose first element is ``O[g, k, n, p, q]`` = `corner`."""
        words = residues(sums).transpose(2, 0, 1, 3, 4)
        self.computed += words.size
        g, k, n, p, q = corner
        place = tuple(slice(a, a + b) for a, b in zip((n, g, k, p, q), words.shape, strict=True))
        if self._collected is not None:
            self._collected[place] = words
        else:
            self.record[place] = words
            self.stored += words.size

    def finish(self, outputs: Sequence[Span], rows: Span, cols: Span) -> None:
        """Stores rows and columns that are complete now, of ranges of N, G and K, if the vector unit collected them."""
        if self._collected is not None and rows[0] < rows[1] and cols[0] < cols[1]:
            n, g, k = (slice(*span) for span in outputs)
            words = resized(self._collected[n, g, k], self._layer, rows, cols)
            self.record[n, g, k, slice(*rows), slice(*cols)] = words
            self.stored += words.size
