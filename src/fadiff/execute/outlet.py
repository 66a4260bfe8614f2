"""Where sums become outputs: through the vector unit, which applies the epilogue, to where they go. And add layers."""

from collections.abc import Callable, Sequence

import numpy as np

from fadiff.execute.nest import Block, K, N, P, Q
from fadiff.execute.tensors import Floats, Span, Words, residues, resized, resizes
from fadiff.workload import Layer


class Outlet:
    """Takes a layer's sums and stores its output, ``record[N, G, K, P', Q']``; `stored` counts the words.

    Where the epilogue pools or upsamples, the vector unit collects rows until they are complete; its storage is not
    counted.
    """

    def __init__(self, layer: Layer, record: Words) -> None:
        self.record, self.stored = record, 0
        d, self._layer = layer.dims, layer
        self._collected = np.zeros((d.N, d.G, d.K, d.P, d.Q), np.int8) if resizes(layer) else None

    def drain(self, sums: Floats, corner: tuple[int, int, int, int, int]) -> None:
        """Takes final sums ``[g, k, n, p, q]`` whose first element is ``O[g, k, n, p, q]`` = `corner`."""
        words = residues(sums).transpose(2, 0, 1, 3, 4)
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


class AddRun:
    """One add layer as it runs. `addends` finds each operand, ``[N, K, P, Q]``, with whether it is fused."""

    def __init__(self, addends: Sequence[tuple[Callable[[], Words], bool]], outlet: Outlet) -> None:
        self._addends, self._outlet = addends, outlet
        self.values = {True: 0, False: 0}
        """Values of operands that were fused, and that were not."""
        self.computed = 0

    def run(self, block: Block) -> None:
        """Sums one piece."""
        n, k, p, q = (slice(block.starts[d], block.starts[d] + block.lens[d][0]) for d in (N, K, P, Q))
        parts = [look()[n, k, p, q].astype(np.float32) for look, _ in self._addends]
        for part, (_, fused) in zip(parts, self._addends, strict=True):
            self.values[fused] += part.size
        sums = sum(parts[1:], parts[0])
        self.computed += sums.size
        self._outlet.drain(sums.transpose(1, 0, 2, 3)[None], (0, k.start, n.start, p.start, q.start))
