"""Add layers: addends stream through L1, from L3 or from the buffers of the group."""

from collections.abc import Sequence

import numpy as np

from fadiff.execute.buffers import Shared
from fadiff.execute.counts import Tally
from fadiff.execute.operands import Fused
from fadiff.execute.outlets import Outlet
from fadiff.execute.tensors import Words
from fadiff.workload import Layer

Span = tuple[int, int]


class Adder:
    """The work of one add layer. Addends in L3 are ``[N, K, P, Q]``; `batches` is the group's trip count of N."""

    def __init__(self, layer: Layer, addends: Sequence[Words | Fused], batches: int) -> None:
        d = layer.dims
        self._addends = addends
        self._shape = (d.N // batches, d.K, d.P, d.Q)

    def run(self, at: Shared, rows: Span, cols: Span, chunk: int, outlet: Outlet, tally: Tally) -> None:
        """Sums a block of rows and columns, `chunk` words at a time."""
        n, k, _, _ = self._shape
        (p, p_end), (q, q_end) = rows, cols
        blocks = [self._block(addend, at)[:, :, p:p_end, q:q_end].reshape(-1) for addend in self._addends]
        total = np.empty(blocks[0].size, np.float32)
        for first in range(0, total.size, chunk):
            part = slice(first, min(first + chunk, total.size))
            sums = np.zeros(part.stop - first, np.float32)
            for addend, block in zip(self._addends, blocks, strict=True):
                np.add(sums, block[part], out=sums)
                tally.l1_addend += sums.size
                if isinstance(addend, Fused):
                    tally.l2_addend_read += sums.size
                else:
                    tally.l3_input += sums.size
            total[part] = sums
        sums = total.reshape(n, k, p_end - p, q_end - q).transpose(1, 0, 2, 3)[None]
        outlet.drain(sums, (0, at.n * n, 0, p, q), tally)

    def _block(self, addend: Words | Fused, at: Shared) -> Words:
        n = self._shape[0]
        if isinstance(addend, Fused):
            return addend.buffer.words(at).reshape(self._shape)
        return addend[at.n * n : at.n * n + n]
