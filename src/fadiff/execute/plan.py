"""How a group goes along: the block that each of its layers computes in each shared iteration.

The last layer, the *sink*, computes tiles of ceil(size/trips). Against the data flow, a producer stores stride * tile
of its consumer in one iteration and runs ahead of it by its *lead*, so that every consumer finds the rows it reads.
So in iteration i a layer computes rows i*tile + lead to (i+1)*tile + lead, as far as it has such rows: the shared loops
over rows and columns start below 0, and in those iterations only layers that lead have something to do. No block is
larger than a tile, and no row is computed twice.
"""

from itertools import product
from typing import NamedTuple

from fadiff.execute.nest import Block, ceil_div
from fadiff.execute.result import ExecutionError
from fadiff.execute.tensors import Span, reads_whole
from fadiff.schedule import Group
from fadiff.workload import DIMS, Dims, Edge, Workload

Indices = tuple[int, ...]
"""An index of each shared loop, in the order in which they are nested."""


class Piece(NamedTuple):
    """The part of a layer that one shared iteration computes."""

    at: Indices
    block: Block


class Pace(NamedTuple):
    """How a layer goes along a dim: size, tile and lead, of what it computes and of what it stores."""

    size: int
    tile: int
    lead: int
    stored: int
    stored_tile: int
    stored_lead: int

    def computed(self, index: int) -> Span:
        """What is computed in an iteration."""
        first, end = (min(self.size, max(0, i * self.tile + self.lead)) for i in (index, index + 1))
        return first, end

    def finished(self, index: int) -> Span:
        """What becomes complete as it is stored, and due, in an iteration."""
        complete = [self.computed(i)[1] * self.stored // self.size for i in (index - 1, index)]
        due = [i * self.stored_tile + self.stored_lead for i in (index, index + 1)]
        first, end = (max(0, min(rows)) for rows in zip(complete, due, strict=True))
        return first, end


class Plan:
    """All shared iterations of a group, with the block of each layer in each of them."""

    def __init__(self, workload: Workload, group: Group) -> None:
        self.workload, self.group = workload, group
        self.order = group.nesting
        self.paces: dict[str, dict[str, Pace]] = {}
        """By layer and shared loop."""
        for name in reversed(group.layers):
            self.paces[name] = {loop: self._pace(name, loop) for loop in self.order}
        ahead = {loop: max(ceil_div(p[loop].lead, p[loop].tile) for p in self.paces.values()) for loop in self.order}
        self.iterations = tuple(product(*(range(-ahead[loop], getattr(group.trips, loop)) for loop in self.order)))

    def index(self, at: Indices, loop: str) -> int:
        """The index of one shared loop."""
        return at[self.order.index(loop)]

    def consumers(self, name: str) -> list[Edge]:
        """Edges from a layer to others of its group."""
        return [edge for edge in self.workload.consumers[name] if edge.target in self.group.layers]

    def dims(self, name: str) -> list[int]:
        """The dim of a layer, by number, that each shared loop is a part of."""
        return [DIMS.index(self._dim(name, loop)) for loop in self.order]

    def tile(self, name: str) -> Dims:
        """What one shared iteration has of each dim of a layer."""
        tiles = {self._dim(name, loop): pace.tile for loop, pace in self.paces[name].items()}
        return self.workload[name].dims._replace(**tiles)

    def span(self, name: str, at: Indices, loop: str) -> Span:
        """What a layer computes of a shared loop's dim in an iteration."""
        return self.paces[name][loop].computed(self.index(at, loop))

    def stores(self, name: str, at: Indices) -> tuple[Span, ...]:
        """What an iteration makes of N, G and K of a layer's output, and stored rows and columns that it completes."""
        n, g, k = (self.span(name, at, loop) for loop in "NGX")
        if self.group.x_dim(name) == "C":
            k = (0, self.workload[name].dims.K)
        return n, g, k, *(self.paces[name][loop].finished(self.index(at, loop)) for loop in "PQ")

    def completes(self, name: str, at: Indices) -> bool:
        """Whether sums are complete after an iteration: those of a channel loop's consumer are after its last one."""
        return self.group.x_dim(name) != "C" or self.index(at, "X") == self.group.trips.X - 1

    def pieces(self, name: str, *, leads: bool = True) -> list[Piece]:
        """What a layer computes, iteration by iteration: its lead before the first one.

        What the model takes it to compute does not lead: its tiles in order, as if nobody had to.
        """
        paces, iterations = [self.paces[name][loop] for loop in self.order], self.iterations
        if not leads:
            paces = [pace._replace(lead=0) for pace in paces]
            iterations = product(*(range(ceil_div(pace.size, pace.tile)) for pace in paces))
        found, sizes, dims = list[Piece](), self.workload[name].dims, self.dims(name)
        for at in iterations:
            spans = [(0, size) for size in sizes]
            for dim, index, pace in zip(dims, at, paces, strict=True):
                spans[dim] = pace.computed(index)
            if all(first < end for first, end in spans):
                block = Block(tuple(first for first, _ in spans), tuple((end - first,) for first, end in spans))
                found.append(Piece(at, block))
        return found

    def read(self, edge: Edge, at: Indices, loop: str) -> tuple[int, int, int]:
        """Stored rows (P) or columns (Q) of its source that an edge reads in an iteration: (first, end, next).

        `next` is the first of them that it still reads after the iteration.
        """
        axis, size, span = "PQ".index(loop), self.paces[edge.target][loop].size, self.span(edge.target, at, loop)
        stored, (stride, low, high) = self.workload[edge.source].stored[axis], self._reach(edge, axis)
        first, following = (stride * line + low if line < size else stored for line in span)
        lines = (first, stride * (span[1] - 1) + high, following)
        first, end, following = (min(stored, max(0, line)) for line in lines)
        return first, end, following

    def _reach(self, edge: Edge, axis: int) -> tuple[int, int, int]:
        """(stride, first, end): row p of an edge's target reads rows p*stride + first to p*stride + end of its source.

        The stride is 0 where every row needs all of them.
        """
        source, target = self.workload[edge.source], self.workload[edge.target]
        if edge.port == "input" and not reads_whole(source, target):
            pad = target.pad_before(axis, source.stored[axis])
            return target.stride[axis], -pad, (target.dims[6 + axis] - 1) * target.dilation[axis] - pad + 1
        by_rows = edge.port == "addend" and source.stored == (target.dims.P, target.dims.Q)
        return (1, 0, 1) if by_rows else (0, 0, source.stored[axis])

    def _dim(self, name: str, loop: str) -> str:
        return loop if loop != "X" else self.group.x_dim(name) or "K"

    def _pace(self, name: str, loop: str) -> Pace:
        layer, trips, edges = self.workload[name], getattr(self.group.trips, loop), self.consumers(name)
        size = getattr(layer.dims, self._dim(name, loop))
        stored = layer.stored["PQ".index(loop)] if loop in "PQ" else size
        if trips == 1 or not edges or loop not in "PQ":
            # All that is complete is due.
            return Pace(size, ceil_div(size, trips), 0, stored, stored, stored)
        asked, lead = set[int](), 0
        for edge in edges:
            (stride, _, end), target = self._reach(edge, "PQ".index(loop)), self.paces[edge.target][loop]
            if stride == 0:
                raise self.error(f"{edge.target} needs all of {name} at once, so {loop} cannot be shared")
            asked.add(min(stored, stride * target.tile))
            lead = max(lead, stride * (target.lead - 1) + end)
        if len(asked) > 1:
            raise self.error(f"the consumers of {name} ask for different tiles of its {loop}: {sorted(asked)}")
        (tile,) = asked
        pace = Pace(size, ceil_div(tile * size, stored), ceil_div(lead * size, stored), stored, tile, lead)
        if pace.finished(trips - 1)[1] < stored:
            raise self.error(f"{name} would not be done with the {stored} {loop} that it stores")
        return pace

    def error(self, why: str) -> ExecutionError:
        """Why the group cannot run."""
        return ExecutionError(f"group {self.group.name}: {why}")
