"""How a group goes along: the block that each of its layers computes in each shared iteration.

The last layer, the *sink*, computes tiles of ceil(size/trips). Against the data flow, a producer stores stride * tile
of its consumer in one iteration and runs ahead of it by its *lead*, so that every consumer finds the rows it reads.
So in iteration i a layer computes rows i*tile + lead to (i+1)*tile + lead, as far as it has such rows: the shared loops
over rows and columns start below 0, and in those iterations only layers that lead have something to do. No block is
larger than a tile, and no row is computed twice.
"""

from itertools import product
from typing import NamedTuple

from fadiff.next.execute.data import Span, reads_whole
from fadiff.next.execute.nest import Block, ceil_div
from fadiff.next.execute.result import ExecutionError
from fadiff.next.schedule import Group
from fadiff.workload import DIMS, Dims, Edge, Workload

Indices = tuple[int, ...]
"""An index of each shared loop, in the order in which they are nested."""


class Piece(NamedTuple):
    """The part of a layer that one shared iteration computes."""

    at: Indices
    block: Block


class Reach(NamedTuple):
    """What an edge reads of its source's rows (or columns): row p of the target takes p*stride - pad and `more`."""

    stride: int
    more: int
    pad: int

    def needed(self, computed: Span, stored: int) -> Span:
        """Stored rows, of so many, that computed rows read."""
        first, last = computed[0] * self.stride - self.pad, (computed[1] - 1) * self.stride - self.pad + self.more
        return min(stored, max(0, first)), min(stored, max(0, last + 1))


class Pace(NamedTuple):
    """How a layer goes along rows or columns: size, tile and lead, of computed and of stored ones."""

    size: int
    tile: int
    lead: int
    stored: int
    stored_tile: int
    stored_lead: int

    def computed(self, index: int) -> Span:
        """Rows computed in an iteration."""
        first, end = (min(self.size, max(0, i * self.tile + self.lead)) for i in (index, index + 1))
        return first, end

    def finished(self, index: int) -> Span:
        """Stored rows that become complete, and due, in an iteration."""
        first, end = (min(self._complete(i), (i + 1) * self.stored_tile + self.stored_lead) for i in (index - 1, index))
        return max(0, first), max(0, end)

    def _complete(self, index: int) -> int:
        return self.computed(index)[1] * self.stored // self.size


def reach(workload: Workload, edge: Edge, axis: int) -> Reach | None:
    """What an edge reads of rows (axis 0) or columns (axis 1); None if its target needs all of them for any."""
    source, target = workload[edge.source], workload[edge.target]
    if edge.port == "input" and not reads_whole(source, target):
        more = ((target.dims.R, target.dims.S)[axis] - 1) * target.dilation[axis]
        return Reach(target.stride[axis], more, target.pad_before(axis, source.stored[axis]))
    if edge.port == "addend" and source.stored == (target.dims.P, target.dims.Q):
        return Reach(1, 0, 0)
    return None


class Plan:
    """All shared iterations of a group, with the block of each layer in each of them."""

    def __init__(self, workload: Workload, group: Group) -> None:
        self.workload, self.group = workload, group
        self.order = group.nesting
        self._require_sharable()
        rows, cols = self._paces(0), self._paces(1)
        self.paces = {name: (rows[name], cols[name]) for name in group.layers}
        self.tile = {name: self._tile(name) for name in group.layers}
        starts = {dim: min(-ceil_div(pair[axis].lead, pair[axis].tile) for pair in self.paces.values())
                  for axis, dim in enumerate("PQ")}  # fmt: skip
        ranges = (range(starts.get(loop, 0), trips) for loop, trips in zip(self.order, self.trips, strict=True))
        self.iterations: tuple[Indices, ...] = tuple(product(*ranges))

    @property
    def trips(self) -> Indices:
        """Shared trip counts, in the order of the nesting."""
        return tuple(getattr(self.group.trips, loop) for loop in self.order)

    def index(self, at: Indices, loop: str) -> int:
        """The index of one shared loop."""
        return at[self.order.index(loop)]

    def consumers(self, name: str) -> list[Edge]:
        """Edges from a layer to others of its group."""
        return [edge for edge in self.workload.consumers[name] if edge.target in self.group.layers]

    def dims(self, name: str) -> list[int]:
        """The dim of a layer, by number, that each shared loop is a part of, in the order of the nesting."""
        x = self.group.x_dim(name) or "K"
        return [DIMS.index(x if loop == "X" else loop) for loop in self.order]

    def shared_trips(self, name: str) -> Dims:
        """Tiles of a layer along each dim: the trips of the shared loops in its mapping."""
        return Dims(*map(ceil_div, self.workload[name].dims, self.tile[name]))

    def spans(self, name: str, at: Indices) -> tuple[Span, Span]:
        """Rows and columns that a layer computes in an iteration."""
        rows, cols = self.paces[name]
        return rows.computed(self.index(at, "P")), cols.computed(self.index(at, "Q"))

    def finished(self, name: str, at: Indices) -> tuple[Span, Span]:
        """Stored rows and columns that a layer completes in an iteration."""
        rows, cols = self.paces[name]
        return rows.finished(self.index(at, "P")), cols.finished(self.index(at, "Q"))

    def outputs(self, name: str, at: Indices) -> tuple[Span, Span, Span]:
        """What an iteration makes of N, G and K of a layer's output."""
        x = self.index(at, "X") if self.group.x_dim(name) == "K" else 0
        n, g = (self._tile_span(name, DIMS.index(dim), self.index(at, dim)) for dim in "NG")
        return n, g, self._tile_span(name, DIMS.index("K"), x)

    def pieces(self, name: str) -> list[Piece]:
        """What a layer computes, iteration by iteration: its lead before the first one."""
        found: list[Piece] = []
        for at in self.iterations:
            spans = [(0, size) for size in self.workload[name].dims]
            for dim, index in zip(self.dims(name), at, strict=True):
                spans[dim] = self._tile_span(name, dim, index)
            spans[DIMS.index("P")], spans[DIMS.index("Q")] = self.spans(name, at)
            if all(first < end for first, end in spans):
                found.append(Piece(at, _block(spans)))
        return found

    def tiles(self, name: str) -> list[Piece]:
        """What the model takes a layer to compute: its tiles in order, as if nobody had to lead."""
        trips, dims = self.shared_trips(name), self.dims(name)
        found: list[Piece] = []
        for at in product(*(range(trips[dim]) for dim in dims)):
            spans = [(0, size) for size in self.workload[name].dims]
            for dim, index in zip(dims, at, strict=True):
                spans[dim] = self._tile_span(name, dim, index)
            found.append(Piece(at, _block(spans)))
        return found

    def _tile_span(self, name: str, dim: int, index: int) -> Span:
        tile, size = self.tile[name][dim], self.workload[name].dims[dim]
        return min(size, index * tile), min(size, (index + 1) * tile)

    def _tile(self, name: str) -> Dims:
        sizes, trips = self.workload[name].dims, self.group.trips
        rows, cols = self.paces[name]
        tile = sizes._replace(P=rows.tile, Q=cols.tile, G=ceil_div(sizes.G, trips.G), N=ceil_div(sizes.N, trips.N))
        x = self.group.x_dim(name)
        return tile if x is None else tile._replace(**{x: ceil_div(getattr(sizes, x), trips.X)})

    def _paces(self, axis: int) -> dict[str, Pace]:
        trips = (self.group.trips.P, self.group.trips.Q)[axis]
        found: dict[str, Pace] = {}
        for name in reversed(self.group.layers):
            layer = self.workload[name]
            size, stored = (layer.dims.P, layer.dims.Q)[axis], layer.stored[axis]
            edges = self.consumers(name)
            if trips == 1 or not edges:
                # All that is complete is due.
                found[name] = Pace(size, ceil_div(size, trips), 0, stored, stored, stored)
                continue
            asked, lead = set[int](), 0
            for edge in edges:
                reads, target = reach(self.workload, edge, axis), found[edge.target]
                if reads is None:
                    raise self._error(f"{edge.target} needs all of {name} at once, so rows and columns are not shared")
                asked.add(min(stored, reads.stride * target.tile))
                lead = max(lead, reads.stride * (target.lead - 1) + reads.more - reads.pad + 1)
            if len(asked) > 1:
                raise self._error(f"the consumers of {name} ask for different tiles of it, {sorted(asked)}")
            (tile,) = asked
            pace = Pace(size, ceil_div(tile * size, stored), ceil_div(lead * size, stored), stored, tile, lead)
            if pace.finished(trips - 1)[1] < stored:
                raise self._error(f"{name} would not be done with its {stored} stored {'rows columns'.split()[axis]}")
            found[name] = pace
        return found

    def _require_sharable(self) -> None:
        trips, layers = self.group.trips, [self.workload[name] for name in self.group.layers]
        if trips.X > 1 and len(layers) != 2:
            raise self._error("it shares X, which only a group of two layers may")
        for edge in (edge for layer in layers for edge in self.consumers(layer.name)):
            source, target = self.workload[edge.source], self.workload[edge.target]
            if not edge.fusible:
                raise self._error(f"{target.name} cannot read {source.name} on chip")
            transposed = edge.port == "weight" or (edge.port == "input" and "transpose" in source.epilogue)
            if trips.N > 1 and (transposed or source.dims.N != target.dims.N):
                raise self._error(f"it shares N, but {target.name} does not read {source.name} in parts of N")

    def _error(self, why: str) -> ExecutionError:
        return ExecutionError(f"group {self.group.name}: {why}")


def _block(spans: list[Span]) -> Block:
    return Block(tuple(first for first, _ in spans), tuple((end - first,) for first, end in spans))
