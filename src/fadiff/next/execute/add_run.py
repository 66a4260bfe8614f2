"""One add layer as it runs: a stream of addends, summed in the innermost keeper of O."""

from collections.abc import Callable, Sequence

import numpy as np

from fadiff.next.execute.data import Words
from fadiff.next.execute.nest import Block, K, N, P, Q
from fadiff.next.execute.outlet import Outlet


class AddRun:
    """The execution of one add layer. `addends` finds each operand, ``[N, K, P, Q]``, with whether it is fused."""

    def __init__(self, addends: Sequence[tuple[Callable[[], Words], bool]], outlet: Outlet) -> None:
        self._addends, self._outlet = addends, outlet
        self.fused, self.unfused, self.computed = 0, 0, 0

    def run(self, block: Block) -> None:
        """Sums one piece."""
        place = tuple(slice(block.starts[d], block.starts[d] + block.lens[d][0]) for d in (N, K, P, Q))
        sums = np.zeros([s.stop - s.start for s in place], np.float32)
        for look, fused in self._addends:
            sums += look()[place]
            if fused:
                self.fused += sums.size
            else:
                self.unfused += sums.size
        self.computed += sums.size
        n, k, p, q = (block.starts[d] for d in (N, K, P, Q))
        self._outlet.drain(sums.transpose(1, 0, 2, 3)[None], (0, k, n, p, q))
