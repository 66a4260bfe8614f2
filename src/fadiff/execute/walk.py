"""How a group walks over rows and columns: which block each layer computes in each shared iteration.

The last layer computes equal blocks. Every layer before it computes, once, what its consumers in the same iteration
need and was not there yet, so it leads by its halo: its first block is taller, the last one shorter. Where taller
blocks do not fit, warm-up iterations with negative index go before the first, in which only leads are computed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadiff.execute.buffers import Shared
from fadiff.execute.tensors import padding_before, reads_whole
from fadiff.schedule import Group
from fadiff.workload import Edge, Workload

Span = tuple[int, int]


@dataclass(frozen=True)
class Sweep:
    """Rows (axis 0) or columns (axis 1) of a group's layers over the trips of one shared loop.

    `computed[layer][i - first]` are the rows computed once iteration i is done, `stored` those after the epilogue.
    """

    first: int
    trips: int
    computed: dict[str, tuple[int, ...]]
    stored: dict[str, tuple[int, ...]]

    def computed_before(self, layer: str, index: int) -> int:
        """Rows a layer has computed when an iteration begins."""
        return self.computed[layer][index - self.first - 1] if index > self.first else 0

    def block(self, layer: str, index: int) -> Span:
        """Rows a layer computes in an iteration."""
        return self.computed_before(layer, index), self.computed[layer][index - self.first]

    def is_even(self, layer: str) -> bool:
        """Whether all blocks of a layer are of one size."""
        return len({b - a for a, b in pairwise((0, *self.computed[layer]))}) == 1

    def stored_block(self, layer: str, index: int) -> Span:
        """Rows a layer stores in an iteration."""
        ends = self.stored[layer]
        return (ends[index - self.first - 1] if index > self.first else 0), ends[index - self.first]


def sweep(workload: Workload, group: Group, axis: int, ahead: frozenset[str] = frozenset()) -> Sweep:
    """Walks one axis of a group; layers that go `ahead` compute their leads in iterations of their own.

    With a layer all layers it reads from must go ahead too. The others compute their leads in the first iteration.
    """
    trips = (group.trips.P, group.trips.Q)[axis]
    ends = [_ends(workload, group, axis, index) for index in range(trips)]
    first = 0
    while True:
        before = _ends(workload, group, axis, first - 1, ahead, ends[0])
        if not any(end.computed for end in before.values()):
            break
        ends.insert(0, before)
        first -= 1
    computed = {name: tuple(end[name].computed for end in ends) for name in group.layers}
    stored = {name: tuple(end[name].stored for end in ends) for name in group.layers}
    return Sweep(first, trips, computed, stored)


class _End(NamedTuple):
    """Rows of a layer once an iteration is done: computed ones, and complete ones after the epilogue."""

    computed: int
    stored: int


def _ends(
    workload: Workload,
    group: Group,
    axis: int,
    index: int,
    ahead: frozenset[str] = frozenset(),
    after: Mapping[str, _End] | None = None,
) -> dict[str, _End]:
    """How far each layer is once an iteration is done; in a warm-up iteration, `after` says how far after the next."""
    trips = (group.trips.P, group.trips.Q)[axis]
    ends: dict[str, _End] = {}
    for name in reversed(group.layers):
        layer = workload[name]
        size, stored_size = (layer.dims.P, layer.dims.Q)[axis], layer.stored[axis]
        consumers = [edge for edge in workload.consumers[name] if edge.target in group.layers]
        if after is not None and name not in ahead:
            ends[name] = _End(0, 0)
        elif not consumers:
            computed = max(0, (index + 1) * size // trips)
            ends[name] = _End(computed, computed * stored_size // size)
        elif index == trips - 1:
            ends[name] = _End(size, stored_size)
        else:
            needed = (rows_needed(workload, edge, axis, ends[edge.target].computed) for edge in consumers)
            block = stored_size // trips
            stored = max((index + 1) * block if after is None else max(0, after[name].stored - block), *needed)
            ends[name] = _End(-(-stored * size // stored_size), stored)
    return ends


def rows_needed(workload: Workload, edge: Edge, axis: int, computed: int) -> int:
    """Stored rows of an edge's source that its target needs so as to compute its first `computed` rows."""
    source, target = workload[edge.source], workload[edge.target]
    size = source.stored[axis]
    if computed == 0:
        return 0
    if reads_all_rows(workload, edge):
        return size
    if edge.port == "addend":
        return computed
    reach = ((target.dims.R, target.dims.S)[axis] - 1) * target.dilation[axis]
    last = (computed - 1) * target.stride[axis] + reach + 1 - padding_before(target, size, axis)
    return min(max(last, 0), size)


def rows_let_go(workload: Workload, edge: Edge, axis: int, computed: int) -> int:
    """Stored rows of an edge's source that its target needs no more once it has computed `computed` rows."""
    source, target = workload[edge.source], workload[edge.target]
    size = source.stored[axis]
    if computed >= (target.dims.P, target.dims.Q)[axis]:
        return size
    if reads_all_rows(workload, edge):
        return 0
    if edge.port == "addend":
        return computed
    return min(max(computed * target.stride[axis] - padding_before(target, size, axis), 0), size)


def reads_all_rows(workload: Workload, edge: Edge) -> bool:
    """Whether an edge's target needs all rows and columns of the source for any of its own."""
    source, target = workload[edge.source], workload[edge.target]
    if edge.port == "weight":
        return True
    if edge.port == "addend":
        return source.stored != (target.dims.P, target.dims.Q)
    return reads_whole(source, target)


class Walk:
    """All shared iterations of a group, with the block of each layer in each of them."""

    def __init__(self, workload: Workload, group: Group, rows: Sweep, cols: Sweep) -> None:
        self.group = group
        self.rows, self.cols = rows, cols
        self._workload = workload
        self.iterations = tuple(self._iterate())
        self._next = {
            name: dict(pairwise(at for at in self.iterations if self.computes(name, at))) for name in group.layers
        }

    def _iterate(self) -> Iterator[Shared]:
        ranges = {loop.lower(): range(trips) for loop, trips in self.group.trips._asdict().items()}
        ranges["p"] = range(self.rows.first, self.rows.trips)
        ranges["q"] = range(self.cols.first, self.cols.trips)
        loops = self.group.nesting.lower()
        for indices in product(*(ranges[loop] for loop in loops)):
            yield Shared(**dict(zip(loops, indices, strict=True)))

    def block(self, layer: str, at: Shared) -> tuple[Span, Span]:
        """Rows and columns a layer computes in an iteration."""
        return self.rows.block(layer, at.p), self.cols.block(layer, at.q)

    def stored_block(self, layer: str, at: Shared) -> tuple[Span, Span]:
        """Rows and columns a layer stores in an iteration."""
        return self.rows.stored_block(layer, at.p), self.cols.stored_block(layer, at.q)

    def is_even(self, layer: str) -> bool:
        """Whether a layer computes blocks of one size in all iterations."""
        return self.rows.is_even(layer) and self.cols.is_even(layer)

    def computes(self, layer: str, at: Shared) -> bool:
        """Whether a layer computes anything in an iteration."""
        return _is_block(self.block(layer, at))

    def stores(self, layer: str, at: Shared) -> bool:
        """Whether any output of a layer becomes complete; after upsampling, without computing anything perhaps."""
        return _is_block(self.stored_block(layer, at))

    def next_computing(self, layer: str, at: Shared) -> Shared | None:
        """The iteration after `at` in which a layer computes next."""
        return self._next[layer].get(at)

    def cells_wanted(self, source: str, at: Shared) -> NDArray[np.bool_]:
        """Cells of a fused tensor ``[P', Q']`` that its consumers still need once an iteration is done."""
        wanted = np.zeros(self._workload[source].stored, np.bool_)
        for edge in self._workload.consumers[source]:
            if edge.target not in self.group.layers:
                continue
            row_before = self.rows.computed_before(edge.target, at.p)
            row_after = self.rows.block(edge.target, at.p)[1]
            col_after = self.cols.block(edge.target, at.q)[1]
            this_row = rows_let_go(self._workload, edge, 0, row_before)
            next_rows = rows_let_go(self._workload, edge, 0, row_after)
            next_cols = rows_let_go(self._workload, edge, 1, col_after)
            wanted[this_row:, next_cols:] = True
            wanted[next_rows:, :] = True
        return wanted


def _is_block(block: tuple[Span, Span]) -> bool:
    (r0, r1), (c0, c1) = block
    return r0 < r1 and c0 < c1
