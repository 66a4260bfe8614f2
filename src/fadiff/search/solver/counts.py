"""How often indices occur at lanes and loops, given the extents below them: what is known of one box of lanes.

It depends on no prices, and of each dim on its own extents alone, so that it is remembered from walk to walk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, reduce
from math import gcd, prod
from typing import TYPE_CHECKING

import numpy as np

from fadiff.schedule.nest import IMAGE_DIMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from fadiff.hardware import Machine
    from fadiff.search.solver.grid import Cells
    from fadiff.workload import Layer

    Lattice = Float[np.ndarray, "*cells"]


@dataclass(frozen=True)
class Lanes:
    """Bounds of the factors at every axis, by node and dim (1 at memories)."""

    low: Float[np.ndarray, "nodes 8"]
    high: Float[np.ndarray, "nodes 8"]

    @cached_property
    def key(self) -> bytes:
        """The same of equal bounds."""
        return self.low.tobytes() + self.high.tobytes()

    def between(self, outer: int, inner: int) -> tuple[Float[np.ndarray, " 8"], Float[np.ndarray, " 8"]]:
        """Least and most lanes of each dim on the axes between two nodes."""
        part = slice(outer + 1, inner)
        return self.low[part].prod(axis=0), self.high[part].prod(axis=0)


class Counts:
    """Counts of one layer on a machine, with lanes between bounds, over cells of extents."""

    def __init__(self, layer: Layer, machine: Machine, lanes: Lanes, ends: Sequence[float]) -> None:
        self.layer = layer
        self.structure = machine.structure
        self.lanes = lanes
        self.size = layer.dims
        self.ends = ends
        """By dim: the least extent, that of a tile, at which it may end, so that it need not be a multiple of what is
        further in; none where all factors divide."""
        self.between = cache(lanes.between)
        self.held_ends = cache(self._held_ends)
        self.count = cache(self._count)
        self.lines = cache(self._lines)
        self.idle = cache(self._idle)

    def parent(self, tensor: str, keeper: int) -> int:
        """The next keeper of a tensor further out."""
        keepers = self.structure.keepers(tensor)
        return keepers[keepers.index(keeper) - 1]

    def _held_ends(
        self, d: int, cells: Cells, outer: int, inner: int
    ) -> tuple[Float[np.ndarray, " cells"], Float[np.ndarray, " cells"]]:
        """The least extent further in than some axes, where that above them is in a cell; and the least number of such
        extents in the size.

        Extents multiply, but where a dim or a tile ends: there lanes or a loop may be cut short, and extent * lanes is
        up to twice as much; then all lanes run in every tile but its last.
        """
        low, high, size = cells.lows, cells.highs, self.size[d]
        least, most = (lanes[d] for lanes in self.between(outer, inner))
        if most == 1:
            return low, np.ceil(size / high)
        counts = np.ceil(size / np.maximum(1, np.floor(high / least)))
        past = np.clip(np.floor((2 * high - 2) / least), 1, high)
        used = [self.lanes.low[axis, d] for axis in self.structure.axes_between(outer, inner)]
        used = [lanes for lanes in used if lanes > 1]
        # All lanes of the inner axes run under every lane of the outermost but its last.
        running = (used[0] - 1) * prod(used[1:]) + 1 if used else 1
        fewer = np.maximum(np.ceil(size / past), np.floor(size / high) * running)
        ends = high >= max(2, self.ends[d])
        return np.ceil(low / most), np.where(ends, np.minimum(counts, fewer), counts)

    def _count(self, d: int, cells: Cells, place: int, keeper: int, memory: int) -> Lattice | float:
        """At least so many indices of a dim at what is above the extents, and at the lanes above a memory: the keeper
        that they are written at, or its parent, to which all lanes in between are one."""
        if self.size[d] == 1:
            return 1.0
        if memory == keeper or place < memory:
            return along(d, self.held_ends(d, cells, place, memory)[1])
        left_out = self.between(memory, place)[1][d]
        return along(d, np.ceil(self.size[d] / np.minimum(cells.highs * left_out, self.size[d])))

    @cached_property
    def fewest_steps(self) -> Float[np.ndarray, " 8"]:
        """By dim: how many of its values one lane after the other works at, at least."""
        size = np.array(self.size, dtype=np.float64)
        return np.ceil(size / np.minimum(size, self.lanes.high.prod(axis=0)))

    @cached_property
    def widest_axis(self) -> list[int]:
        """By dim: the axis that it may have most lanes of."""
        return [int(node) for node in self.lanes.high.argmax(axis=0)]

    def _idle(self, d: int, inner: Cells, outer: Cells) -> Float[np.ndarray, "outer inner"]:
        """By how much more steps than the fewest a dim takes at least, as a share of them, between extents below and
        above its widest axis: lanes that find nothing at the end of a dim still take the time of the others.

        The loops of a tile of X above the axis and x below it, and all other lanes, count to
        floor(size / X) x + min(size mod X, x) at least.
        """
        node, size = self.widest_axis[d], self.size[d]
        most = self.lanes.high[node, d]
        low = np.maximum(inner.lows, np.ceil(outer.lows[:, None] / most))
        high = np.minimum(outer.highs[:, None], inner.highs * most)
        counts = np.floor(size / high) * np.minimum(low, high) + np.minimum(size % high, low)
        others = self.lanes.high[:, d].prod() / most
        return np.maximum(np.ceil(counts / others) / self.fewest_steps[d] - 1, 0.0)

    def _lines(self, image: int, keeper: int, place: int, two: tuple[Cells, Cells]) -> tuple[Lattice, Lattice]:
        """Rows (or columns) of I that are written at a keeper, and read at its parent."""
        dims = out, kernel = IMAGE_DIMS[image]
        stride, dilation = self.layer.stride[image], self.layer.dilation[image]
        rows, taps = self.size[out], self.size[kernel]
        ranges: list[tuple[Float[np.ndarray, "*two"], Float[np.ndarray, "*two"]]] = []
        for d, cells, side in zip(dims, two, ((-1, 1), (1, -1)), strict=True):
            low, fewest = self.held_ends(d, cells, place, keeper)
            end = min(self.size[d], self.ends[d])
            most = np.maximum([_most_pieces(self.size[d], extent, end) for extent in low.astype(int).tolist()], fewest)
            ranges.append((fewest.reshape(side), most.reshape(side)))

        # Linear in each of the two counts: the least is at a corner.
        corners = [stride * (rows - n) * m + dilation * (taps - m) * n + n * m for n in ranges[0] for m in ranges[1]]
        shape = [len(two[dims.index(d)]) if d in dims else 1 for d in range(8)]
        written = reduce(np.minimum, corners).reshape(shape)
        parent = self.parent("I", keeper)
        _, lanes = self.between(parent, keeper)
        if lanes[out] == 1 or lanes[kernel] == 1:
            return written, written
        # Lanes that share tiles read at least what is different: of A rows and B taps A + B - 1.
        n, m = (self.count(d, cells, place, keeper, parent) for d, cells in zip(dims, two, strict=True))
        different = np.minimum(written, rows * m + taps * n - n * m)
        (a_least, a_most, full_rows), (b_least, b_most, full_taps) = (
            self._dealt(d, cells, place, keeper, step)
            for d, cells, step in zip(dims, two, (stride, dilation), strict=True)
        )
        ratios = a_least[:, None] / b_most, a_most[:, None] / b_least
        shared = _most_shared(*ratios, full_rows[:, None], full_taps).reshape(shape)
        return written, np.maximum(different, written * (1 - shared))

    def _dealt(
        self, d: int, cells: Cells, place: int, keeper: int, step: int
    ) -> tuple[Float[np.ndarray, " cells"], Float[np.ndarray, " cells"], Float[np.ndarray, " cells"]]:
        """Of tiles of I that close at extents in cells: how far apart those of neighbouring lanes over a dim are, at
        least and at most, where an index is so many steps; and how many lanes side by side have a full one at most."""
        low, _ = self.held_ends(d, cells, place, keeper)
        used = [self.lanes.low[axis, d] for axis in self.structure.axes_between(place, keeper)]
        used = [lanes for lanes in used if lanes > 1]
        # The last lane of an axis that is cut short has something to do.
        most = np.ceil(cells.highs / ((used[0] - 1) * prod(used[1:]))) - 1 if used else cells.highs
        parent = self.parent("I", keeper)
        full = np.floor(cells.highs / low) * (self.between(parent, place)[1][d] if place > parent else 1.0)
        return step * low, step * np.clip(most, low, cells.highs), np.minimum(full, self.between(parent, keeper)[1][d])


def along(d: int, values: Float[np.ndarray, " cells"]) -> Lattice:
    """Values by cell of a dim, beside lattices."""
    return values.reshape([-1 if d == other else 1 for other in range(8)])


def product_of(values: Sequence[Lattice | float]) -> Lattice | float:
    """The product of lattices that may lie along different dims."""
    return reduce(lambda a, b: a * b, values)


def _most_shared(
    least: Float[np.ndarray, "out kernel"],
    most: Float[np.ndarray, "out kernel"],
    rows: Float[np.ndarray, "out 1"],
    taps: Float[np.ndarray, " kernel"],
) -> Float[np.ndarray, "out kernel"]:
    """The most of I, as a share, that lanes over rows and taps find in others, too: where in lowest terms the tiles of
    neighbouring rows are a / b times as far apart as those of neighbouring taps, a tile is there again b rows and a
    taps on."""
    a, b = _lowest_terms(int(taps.max()), int(rows.max()))
    shares = np.maximum(0, 1 - b / rows[..., None]) * np.maximum(0, 1 - a / taps[:, None])
    met = (least[..., None] <= a / b * (1 + 1e-9)) & (a / b <= most[..., None] * (1 + 1e-9))
    return np.where(met, shares, 0.0).max(axis=-1, initial=0.0)


@cache
def _lowest_terms(most_a: int, most_b: int) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]:
    """Fractions a / b in lowest terms, both below some numbers."""
    pairs = [(a, b) for a in range(1, most_a) for b in range(1, most_b) if gcd(a, b) == 1]
    return np.array([a for a, _ in pairs], dtype=np.float64), np.array([b for _, b in pairs], dtype=np.float64)


@cache
def _most_pieces(size: int, extent: int, end: float) -> int:
    """Extents in a size, the last perhaps cut, where a group may cut it into tiles of at least `end` first: then each
    ends with a cut one.

    >>> _most_pieces(7, 2, 7), _most_pieces(7, 2, 1)
    (4, 5)
    """
    tiles = np.arange(max(extent, end), size + 1)
    return int((size // tiles * -(-tiles // extent) - (-(size % tiles) // extent)).max())
