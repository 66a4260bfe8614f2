"""One MAC layer as a nest: the loops of each memory, inside those that its group shares, and lanes where an axis is."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

from fadiff.execute.result import ExecutionError
from fadiff.execute.tensors import Span
from fadiff.hardware import Axis, Machine
from fadiff.schedule import Mapping
from fadiff.workload import DIMS, Dims, Layer

G, N, K, C, P, Q, R, S = range(8)
RELEVANT = {"W": (G, K, C, R, S), "I": (G, N, C, P, Q, R, S), "O": (G, N, K, P, Q)}
REDUCED = (C, R, S)
IMAGE = ((P, R), (Q, S))
"""Rows of an input come from P and R, its columns from Q and S."""

Lens = tuple[int, ...]


def pitch(layer: Layer) -> tuple[int, ...]:
    """By dim, how many rows or columns of the input lie between neighbours."""
    return (0, 0, 0, 0, *layer.stride, *layer.dilation)


def lines_read(layer: Layer, axis: int, starts: Sequence[int], lens: Sequence[int]) -> Span:
    """Rows (axis 0) or columns (1) of the input that a block reads, with padding and what strides leave out."""
    (p, r), by = IMAGE[axis], pitch(layer)
    first = starts[p] * by[p] + starts[r] * by[r]
    return first, first + (lens[p] - 1) * by[p] + (lens[r] - 1) * by[r] + 1


def ceil_div(a: int, b: int) -> int:
    """a/b, rounded up."""
    return -(-a // b)


class Loop(NamedTuple):
    """A loop of the memory `node` over a dim; each turn gets `step` of it, the last one what is left."""

    node: int
    dim: int
    step: int


class Lanes(NamedTuple):
    """An axis: how many lanes each dim is dealt out over, and how much of it a lane gets."""

    node: int
    counts: Dims
    steps: Dims


class Block(NamedTuple):
    """A part of a layer's work: where it starts in each dim, and how much of the dim each lane has.

    Lanes are numbered over the axes passed so far, outermost first; an idle one has 0. `starts` is the first lane's.
    """

    starts: tuple[int, ...]
    lens: tuple[Lens, ...]

    def into(self, item: "Loop | Lanes", index: int = 0) -> "Block":
        """The block on one turn of a loop, or on the lanes of an axis."""
        if isinstance(item, Lanes):
            return Block(self.starts, tuple(map(deal, self.lens, item.steps, item.counts)))
        d = item.dim
        starts = (*self.starts[:d], self.starts[d] + index * item.step, *self.starts[d + 1 :])
        return Block(starts, (*self.lens[:d], deal(self.lens[d], item.step, first=index), *self.lens[d + 1 :]))


@lru_cache(maxsize=1 << 16)
def deal(lens: Lens, step: int, count: int = 1, first: int = 0) -> Lens:
    """Cuts what every lane has into steps: `count` of them, from number `first` on."""
    return tuple(min(step, max(0, length - i * step)) for length in lens for i in range(first, first + count))


@dataclass(frozen=True)
class Nest:
    """A layer's own loops and lanes, outermost first. Nodes go by their number; the MACs are the one past the last."""

    layer: Layer
    factors: tuple[Dims, ...]
    """By node; those of the first memory without the shared trips."""
    held: tuple[Dims, ...]
    """x_m, by node, the MACs too: what one instance holds of each dim when nothing is cut."""
    items: tuple[Loop | Lanes, ...]

    @property
    def macs(self) -> int:
        """The node of the MACs."""
        return len(self.factors)

    def above(self, node: int) -> int:
        """How many of the items stand above a node."""
        return sum(item.node < node for item in self.items)

    def loops(self, node: int) -> list[tuple[int, Loop]]:
        """The loops above a node, with their numbers."""
        return [(i, item) for i, item in enumerate(self.items[: self.above(node)]) if isinstance(item, Loop)]

    def first_tile(self, node: int, block: Block) -> list[int]:
        """What the first instance of a node holds of each dim, on the first turn of a block."""
        return [min(lens[0], most) for lens, most in zip(block.lens, self.held[node], strict=True)]

    def lanes(self, dim: int, outer: int, inner: int, since: int = -1) -> int:
        """Lanes that a dim is dealt out over between two nodes, behind the item `since`."""
        between = (item for item in self.items[since + 1 :] if isinstance(item, Lanes) and outer < item.node < inner)
        return prod(lanes.counts[dim] for lanes in between)

    def offsets(self, dim: int, items: int) -> Lens:
        """Where each lane starts in a dim, against the first one, below so many items."""
        found: Lens = (0,)
        for item in self.items[:items]:
            if isinstance(item, Lanes):
                found = tuple(start + i * item.steps[dim] for start in found for i in range(item.counts[dim]))
        return found

    def slides(self, node: int, dim: int, place: int) -> bool:
        """Whether the window of I in a memory slides along a loop over `dim`, the item `place`, innermost above it.

        It needs neighbours that leave no row out, and no lanes below the loop that take the same dim.
        """
        other, by = {P: R, R: P, Q: S, S: Q}.get(dim), pitch(self.layer)
        if other is None or self.lanes(dim, -1, node, place) > 1:
            return False
        return by[dim] <= (self.held[node][other] - 1) * by[other] + 1


def build_nest(layer: Layer, machine: Machine, mapping: Mapping, tile: Dims) -> Nest:
    """The nest of a layer that gets a tile in each shared iteration."""
    trips = [ceil_div(size, part) for size, part in zip(layer.dims, tile, strict=True)]
    factors = (Dims(*(f // n for f, n in zip(mapping.factors[0], trips, strict=True))), *mapping.factors[1:])
    for d, dim in enumerate(DIMS):
        if mapping.factors[0][d] % trips[d]:
            told = f"its {mapping.factors[0][d]} trips of {dim} in {machine.nodes[0].name}"
            raise ExecutionError(f"layer {layer.name}: {told} are no multiple of the {trips[d]} that its group shares")
        if (product := prod(f[d] for f in factors)) < tile[d]:
            raise ExecutionError(f"layer {layer.name}: the factors of {dim} make {product}, there are {tile[d]} to do")
    below = [Dims(*map(prod, zip(Dims(), *factors[node:], strict=True))) for node in range(len(factors) + 1)]
    held = tuple(Dims(*map(min, tile, extents)) for extents in below)
    items: list[Loop | Lanes] = []
    orders = iter(mapping.orders)
    for node, here in enumerate(machine.nodes):
        if isinstance(here, Axis):
            items += [Lanes(node, factors[node], held[node + 1])] if prod(factors[node]) > 1 else []
        else:
            loops = (Loop(node, d, held[node + 1][d]) for d in map(DIMS.index, next(orders)))
            items += [loop for loop in loops if factors[node][loop.dim] > 1]
    return Nest(layer, factors, held, tuple(items))
