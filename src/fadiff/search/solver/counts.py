"""How often indices occur at lanes and loops, given the extents below them: what is known of one box of lanes.

Each function speaks of single cells, from `low` to `high`, and depends on no prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import gcd, inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.schedule.nest import IMAGE_DIMS, IRRELEVANT_DIMS, P, Q, R
from fadiff.search.solver.compiled import compiled

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


@cache
def _pieces(images: tuple[tuple[int, float], ...]) -> Float[np.ndarray, "4 extents"]:
    """Where the most pieces of some sizes are noted, as they are asked for; first the least tiles."""
    found = np.zeros((len(images), max(size for size, _ in images) + 1))
    found[:, 0] = [end for _, end in images]
    return found


@compiled
def lanes_between(lanes: Float[np.ndarray, "nodes 8"], outer: int, inner: int, d: int) -> float:
    """Lanes of a dim on the axes between two nodes."""
    found = 1.0
    for node in range(outer + 1, inner):
        found *= lanes[node, d]
    return found


@compiled
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


@compiled
def held_ends(at: Facts, d: int, low: float, high: float, outer: int, inner: int) -> tuple[float, float]:
    """The least extent further in than some axes, where that above them is in a cell; and the least number of such
    extents in the size.

    Extents multiply, but where a dim or a tile ends: there lanes or a loop may be cut short, and extent * lanes is
    up to twice as much; then all lanes run in every tile but its last.
    """
    size = at.size[d]
    least, most = lanes_between(at.low, outer, inner, d), lanes_between(at.high, outer, inner, d)
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


@compiled
def count(at: Facts, d: int, low: float, high: float, place: int, keeper: int, memory: int) -> float:
    """At least so many indices of a dim at what is above the extents, and at the lanes above a memory: the keeper
    that they are written at, or its parent, to which all lanes in between are one."""
    if at.size[d] == 1:
        return 1.0
    if memory == keeper or place < memory:
        return held_ends(at, d, low, high, place, memory)[1]
    return np.ceil(at.size[d] / min(high * lanes_between(at.high, memory, place, d), at.size[d]))


@compiled
def widest(at: Facts, d: int) -> int:
    """The axis that a dim may have most lanes of."""
    found = 0
    for node in range(1, len(at.high)):
        if at.high[node, d] > at.high[found, d]:
            found = node
    return found


@compiled
def fewest_steps(at: Facts, d: int) -> float:
    """How many values of a dim one lane after the other works at, at least."""
    return np.ceil(at.size[d] / min(at.size[d], lanes_between(at.high, TOP, len(at.high), d)))


@compiled
def idle(at: Facts, d: int, inner: tuple[float, float], outer: tuple[float, float]) -> float:
    """By how much more steps than the fewest a dim takes at least, as a share of them, between extents below and
    above its widest axis: lanes that find nothing at the end of a dim still take the time of the others.

    The loops of a tile of X above the axis and x below it, and all other lanes, count to
    floor(size / X) x + min(size mod X, x) at least.
    """
    size, most = at.size[d], at.high[widest(at, d), d]
    low, high = max(inner[0], np.ceil(outer[0] / most)), min(outer[1], inner[1] * most)
    counts = np.floor(size / high) * min(low, high) + min(size % high, low)
    others = lanes_between(at.high, TOP, len(at.high), d) / most
    return max(np.ceil(counts / others) / fewest_steps(at, d) - 1, 0.0)


@compiled
def lines(
    at: Facts, image: int, flow: int, place: int, out: tuple[float, float], kernel: tuple[float, float]
) -> tuple[float, float]:
    """Rows (or columns) of I that are written at a keeper, and read at its parent, where extents of the output's dim
    and the kernel's are in two cells."""
    keeper, parent = at.flow[flow, KEEPER], at.flow[flow, PARENT]
    d, k = (P, R) if image == 0 else (Q, R + 1)
    stride, dilation = at.image[image, 0], at.image[image, 1]
    rows, taps = at.size[d], at.size[k]
    held_rows, fewest_rows = held_ends(at, d, out[0], out[1], place, keeper)
    held_taps, fewest_taps = held_ends(at, k, kernel[0], kernel[1], place, keeper)
    most_rows = max(most_pieces(at.pieces, 2 * image, rows, held_rows), fewest_rows)
    most_taps = max(most_pieces(at.pieces, 2 * image + 1, taps, held_taps), fewest_taps)
    # Linear in each of the two counts: the least is at a corner.
    written = inf
    for n in (fewest_rows, most_rows):
        for m in (fewest_taps, most_taps):
            written = min(written, stride * (rows - n) * m + dilation * (taps - m) * n + n * m)
    row_lanes, tap_lanes = lanes_between(at.high, parent, keeper, d), lanes_between(at.high, parent, keeper, k)
    if row_lanes == 1 or tap_lanes == 1:
        return written, written
    # Lanes that share tiles read at least what is different: of A rows and B taps A + B - 1.
    n = count(at, d, out[0], out[1], place, keeper, parent)
    m = count(at, k, kernel[0], kernel[1], place, keeper, parent)
    different = min(written, rows * m + taps * n - n * m)
    a_least, a_most, full_rows = _dealt(at, d, held_rows, out[1], place, flow, stride)
    b_least, b_most, full_taps = _dealt(at, k, held_taps, kernel[1], place, flow, dilation)
    shared = most_shared(a_least / b_most, a_most / b_least, min(full_rows, row_lanes), min(full_taps, tap_lanes))
    return written, max(different, written * (1 - shared))


@compiled
def _dealt(
    at: Facts, d: int, held: float, high: float, place: int, flow: int, step: float
) -> tuple[float, float, float]:
    """Of tiles of I that close at extents in a cell: how far apart those of neighbouring lanes over a dim are, at
    least and at most, where an index is so many steps; and how many lanes side by side have a full one at most."""
    keeper, parent = at.flow[flow, KEEPER], at.flow[flow, PARENT]
    first, others = lanes_used(at, d, place, keeper)
    # The last lane of an axis that is cut short has something to do.
    most = np.ceil(high / ((first - 1) * others)) - 1 if first > 0 else high
    full = np.floor(high / held) * (lanes_between(at.high, parent, place, d) if place > parent else 1.0)
    return step * held, step * min(max(most, held), high), full


@compiled
def most_shared(least: float, most: float, rows: float, taps: float) -> float:
    """The most of I, as a share, that lanes over rows and taps find in others, too: where in lowest terms the tiles of
    neighbouring rows are a / b times as far apart as those of neighbouring taps, a tile is there again b rows and a
    taps on."""
    found = 0.0
    for a in range(1, int(np.ceil(taps))):
        for b in range(1, int(np.ceil(rows))):
            met = least <= a / b * (1 + 1e-9) and a / b <= most * (1 + 1e-9)
            if met and gcd(a, b) == 1:
                found = max(found, (1 - b / rows) * (1 - a / taps))
    return found


@compiled
def most_pieces(pieces: Float[np.ndarray, "4 extents"], which: int, size: float, extent: float) -> float:
    """Extents in a size, the last perhaps cut, where a group may cut it into tiles of at least some size first: then
    each ends with a cut one. What was found before is noted."""
    at = int(extent)
    if pieces[which, at] == 0:
        found = 0.0
        for tile in range(max(at, int(pieces[which, 0])), int(size) + 1):
            found = max(found, size // tile * np.ceil(tile / extent) + np.ceil(size % tile / extent))
        pieces[which, at] = found
    return pieces[which, at]
