"""How often indices occur at lanes and loops, given the extents below them: what is known of one box of lanes.

Each function speaks of single cells, from `low` to `high`, and depends on no prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import gcd, inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.schedule.nest import IMAGE_DIMS, IRRELEVANT_DIMS, P, Q, R, S
from fadiff.search.solver.compiled import compiled, compiled_leaf

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jaxtyping import Bool, Float, Int

    from fadiff.hardware import Machine, Structure
    from fadiff.workload import Layer

TOP: int = np.int64(-1)  # pyright: ignore[reportAssignmentType]
"""The place above all nodes: no literal, for which functions would be compiled on their own."""
NOWHERE = -1
"""No memory."""
TENSORS = "WIO"
MOST_NOTED, MOST_TABLES = 4096, 512
"""Sizes up to which pieces are counted, and tables of them that are remembered."""
IRRELEVANT = np.array([[d in IRRELEVANT_DIMS[tensor] for d in range(8)] for tensor in TENSORS])
"""By tensor and dim."""


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


class Facts(NamedTuple):
    """What counts depend on: a layer on a machine, with lanes between bounds."""

    size: Float[np.ndarray, " 8"]
    ends: Float[np.ndarray, " 8"]
    """By dim: the least extent, that of a tile, at which it may end, so that it need not be a multiple of what is
    further in; none where all factors divide."""
    low: Float[np.ndarray, "nodes 8"]
    """The fewest lanes."""
    high: Float[np.ndarray, "nodes 8"]
    low_between: Float[np.ndarray, "outer inner 8"]
    """The fewest lanes between two nodes; the outer one's number is one more, since the place above all nodes comes
    first."""
    high_between: Float[np.ndarray, "outer inner 8"]
    image: Float[np.ndarray, "2 2"]
    """Of rows, and of columns: stride and dilation."""
    pieces: Float[np.ndarray, "4 extents"]
    """Of P, R, Q and S, by extent: how many pieces of it there are at most; 0 where that was not asked for yet."""
    flow: Int[np.ndarray, "flows 3"]
    """By flow: what flows, to which keeper, and from which: the next one further out."""
    tensor: Int[np.ndarray, "tensors 3"]
    """By tensor: whether it passes its home once, so that flows that would come again cost infinitely much; its home,
    the outermost keeper below the first memory, or NOWHERE; and the keeper that the MACs read."""
    keeps: Bool[np.ndarray, "tensors nodes"]
    bits: Float[np.ndarray, " 5"]
    """Of a value of each tensor, of a sum, and of one in the first memory."""
    outputs: float
    """Values of O as they are summed up, and as they are stored."""
    stored: float
    fuses: int
    """The memory that holds fused tensors, or NOWHERE."""
    hands_over: int
    """The memory that fused outputs come from, or NOWHERE."""


TENSOR, KEEPER, PARENT = range(3)
"""Of a flow."""
ONCE, HOME, INNERMOST = range(3)
"""Of a tensor."""
SUMS, SPILLED = 3, 4
"""Among the bits."""


def flows(structure: Structure) -> list[tuple[int, int, int]]:
    """Every flow: the number of its tensor, the keeper that it comes from, and the next one further in."""
    return [(t, *pair) for t, tensor in enumerate(TENSORS) for pair in pairwise(structure.keepers(tensor))]


def facts(layer: Layer, machine: Machine, lanes: Lanes, ends: Sequence[float], once: Collection[str] = ()) -> Facts:
    """What is known of a layer, with lanes between bounds, before its tiles are."""
    structure, bits = machine.structure, machine.bits
    keepers = [structure.keepers(tensor) for tensor in TENSORS]
    homes = [mine[1] if len(mine) > 1 else NOWHERE for mine in keepers]
    tensors = zip((tensor in once for tensor in TENSORS), homes, (mine[-1] for mine in keepers), strict=True)
    images = tuple((layer.dims[d], min(layer.dims[d], ends[d])) for dims in IMAGE_DIMS for d in dims)
    return Facts(
        np.array(layer.dims, dtype=np.float64),
        np.array(ends, dtype=np.float64),
        np.ascontiguousarray(lanes.low),
        np.ascontiguousarray(lanes.high),
        _between(lanes.low),
        _between(lanes.high),
        np.array(list(zip(layer.stride, layer.dilation, strict=True)), dtype=np.float64),
        _pieces(images),
        np.array([(tensor, inner, outer) for tensor, outer, inner in flows(structure)], dtype=np.int64),
        np.array(list(tensors), dtype=np.int64),
        np.array([[node in mine for node in range(len(machine.nodes))] for mine in keepers]),
        np.array([bits.W, bits.I, bits.O, bits.sums, bits.spilled], dtype=np.float64),
        float(layer.output_words),
        float(layer.stored_words),
        NOWHERE if structure.fuses is None else structure.fuses,
        NOWHERE if structure.hands_over is None else structure.hands_over,
    )


def _between(lanes: Float[np.ndarray, "nodes 8"]) -> Float[np.ndarray, "outer inner 8"]:
    """Lanes on the axes between any two nodes."""
    nodes = len(lanes)
    found = np.ones((nodes + 1, nodes + 1, 8))
    for first in range(nodes):
        found[first, first + 1 :] = lanes[first:].cumprod(axis=0)
    return found


@lru_cache(MOST_TABLES)
def _pieces(images: tuple[tuple[int, float], ...]) -> Float[np.ndarray, "4 extents"]:
    """Where the most pieces of some sizes are noted, as they are asked for; first the least tiles."""
    found = np.zeros((len(images), min(MOST_NOTED, max(size for size, _ in images)) + 1))
    found[:, 0] = [end for _, end in images]
    return found


@compiled_leaf
def lanes_between(lanes: Float[np.ndarray, "outer inner 8"], outer: int, inner: int, d: int) -> float:
    """Lanes of a dim on the axes between two nodes."""
    return lanes[outer + 1, inner, d]


@compiled_leaf
def lanes_used(at: Facts, d: int, outer: int, inner: int) -> tuple[float, float]:
    """Of the axes between two nodes that have lanes over a dim for certain: those of the outermost, and of all others
    together; none and one where there is none."""
    first, others = 0.0, 1.0
    for node in range(outer + 1, inner):
        if at.low[node, d] > 1:
            if first == 0:
                first = at.low[node, d]
            else:
                others *= at.low[node, d]
    return first, others


@compiled_leaf
def held_ends(at: Facts, d: int, low: float, high: float, outer: int, inner: int) -> tuple[float, float]:
    """The least extent further in than some axes, where that above them is in a cell; and the least number of such
    extents in the size.

    Extents multiply, but where a dim or a tile ends: there lanes or a loop may be cut short, and extent * lanes is
    up to twice as much; then all lanes run in every tile but its last.
    """
    size = at.size[d]
    least, most = lanes_between(at.low_between, outer, inner, d), lanes_between(at.high_between, outer, inner, d)
    if most == 1:
        return low, np.ceil(size / high)
    counts = np.ceil(size / max(1.0, np.floor(high / least)))
    if high >= max(2.0, at.ends[d]):
        past = min(max(1.0, np.floor((2 * high - 2) / least)), high)
        first, others = lanes_used(at, d, outer, inner)
        # All lanes of the inner axes run under every lane of the outermost but its last.
        running = (first - 1) * others + 1 if first > 0 else 1.0
        counts = min(counts, max(np.ceil(size / past), np.floor(size / high) * running))
    return np.ceil(low / most), counts


@compiled_leaf
def count(at: Facts, d: int, low: float, high: float, place: int, keeper: int, memory: int) -> float:
    """At least so many indices of a dim at what is above the extents, and at the lanes above a memory: the keeper
    that they are written at, or its parent, to which all lanes in between are one."""
    if at.size[d] == 1:
        return 1.0
    if memory == keeper or place < memory:
        return held_ends(at, d, low, high, place, memory)[1]
    return np.ceil(at.size[d] / min(high * lanes_between(at.high_between, memory, place, d), at.size[d]))


@compiled_leaf
def widest(at: Facts, d: int) -> int:
    """The axis that a dim may have most lanes of."""
    found = 0
    for node in range(1, len(at.high)):
        if at.high[node, d] > at.high[found, d]:
            found = node
    return found


@compiled_leaf
def fewest_steps(at: Facts, d: int) -> float:
    """How many values of a dim one lane after the other works at, at least."""
    return np.ceil(at.size[d] / min(at.size[d], lanes_between(at.high_between, TOP, len(at.high), d)))


@compiled_leaf
def idle(at: Facts, d: int, inner: tuple[float, float], outer: tuple[float, float]) -> float:
    """By how much more steps than the fewest a dim takes at least, as a share of them, between extents below and
    above its widest axis: lanes that find nothing at the end of a dim still take the time of the others.

    The loops of a tile of X above the axis and x below it, and all other lanes, count to
    floor(size / X) x + min(size mod X, x) at least.
    """
    size, most = at.size[d], at.high[widest(at, d), d]
    low, high = max(inner[0], np.ceil(outer[0] / most)), min(outer[1], inner[1] * most)
    counts = np.floor(size / high) * min(low, high) + min(size % high, low)
    others = lanes_between(at.high_between, TOP, len(at.high), d) / most
    return max(np.ceil(counts / others) / fewest_steps(at, d) - 1, 0.0)


HELD, FEWEST, MOST_PIECES, AT_PARENT, LEAST_APART, MOST_APART, FULL = range(7)
"""Of a side of tiles of I: its least extent; the least and the most number of such tiles; at least so many at the
parent; how far apart those of neighbouring lanes are, at least and at most; and how many lanes side by side have a full
one at most."""


@compiled_leaf
def side(at: Facts, image: int, kernel: int, flow: int, place: int, ends: tuple[float, float]) -> tuple[float, ...]:
    """What is known of the rows (or columns) of tiles of I, or of the kernel's taps in them, whose extents are in a
    cell."""
    keeper, parent = at.flow[flow, KEEPER], at.flow[flow, PARENT]
    d, step = (P if image == 0 else Q) + 2 * kernel, at.image[image, kernel]
    held, fewest = held_ends(at, d, ends[0], ends[1], place, keeper)
    most = max(most_pieces(at.pieces, 2 * image + kernel, at.size[d], held), fewest)
    there = count(at, d, ends[0], ends[1], place, keeper, parent)
    first, others = lanes_used(at, d, place, keeper)
    # The last lane of an axis that is cut short has something to do.
    apart = np.ceil(ends[1] / ((first - 1) * others)) - 1 if first > 0 else ends[1]
    full = np.floor(ends[1] / held) * (lanes_between(at.high_between, parent, place, d) if place > parent else 1.0)
    full = min(full, lanes_between(at.high_between, parent, keeper, d))
    return held, fewest, most, there, step * held, step * min(max(apart, held), ends[1]), full


@compiled_leaf
def lines(
    at: Facts, image: int, flow: int, out: Float[np.ndarray, " side"], kernel: Float[np.ndarray, " side"]
) -> tuple[float, float]:
    """Rows (or columns) of I that are written at a keeper, and read at its parent, by the sides of its tiles."""
    keeper, parent = at.flow[flow, KEEPER], at.flow[flow, PARENT]
    d, k = (P, R) if image == 0 else (Q, S)
    rows, taps = at.size[d], at.size[k]
    # Linear in each of the two counts: the least is at a corner.
    written = inf
    for n in (out[FEWEST], out[MOST_PIECES]):
        for m in (kernel[FEWEST], kernel[MOST_PIECES]):
            apart = at.image[image, 0] * (rows - n) * m + at.image[image, 1] * (taps - m) * n
            written = min(written, apart + n * m)
    if lanes_between(at.high_between, parent, keeper, d) == 1 or lanes_between(at.high_between, parent, keeper, k) == 1:
        return written, written
    # Lanes that share tiles read at least what is different: of A rows and B taps A + B - 1.
    n, m = out[AT_PARENT], kernel[AT_PARENT]
    different = min(written, rows * m + taps * n - n * m)
    least, most = out[LEAST_APART] / kernel[MOST_APART], out[MOST_APART] / kernel[LEAST_APART]
    return written, max(different, written * (1 - most_shared(least, most, out[FULL], kernel[FULL])))


@compiled
def most_shared(least: float, most: float, rows: float, taps: float) -> float:
    """The most of I, as a share, that lanes over rows and taps find in others, too: where in lowest terms the tiles of
    neighbouring rows are a / b times as far apart as those of neighbouring taps, a tile is there again b rows and a
    taps on."""
    found = 0.0
    for a in range(1, int(np.ceil(taps))):
        # The fewer rows on, the more is shared.
        b = max(1, int(np.ceil(a / (most * (1 + 1e-9)))))
        while b < rows and b * least <= a * (1 + 1e-9):
            if gcd(a, b) == 1:
                found = max(found, (1 - b / rows) * (1 - a / taps))
                break
            b += 1
    return found


@compiled
def most_pieces(pieces: Float[np.ndarray, "4 extents"], which: int, size: float, extent: float) -> float:
    """Extents in a size, the last perhaps cut, where a group may cut it into tiles of at least some size first: then
    each ends with a cut one. What was found before is noted; of large sizes there are no more than is said."""
    least = max(extent, pieces[which, 0])
    if size > MOST_NOTED:
        return np.floor((size + (size / least + 1) * (extent - 1)) / extent)
    at = int(extent)
    if pieces[which, at] == 0:
        found = 0.0
        for tile in range(int(least), int(size) + 1):
            found = max(found, size // tile * np.ceil(tile / extent) + np.ceil(size % tile / extent))
        pieces[which, at] = found
    return pieces[which, at]
