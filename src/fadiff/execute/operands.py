"""Where a layer's operands lie, tiles of them on chip, and where its output goes.

A box is a range of each axis of an operand: of ``W[G, K, C, R, S]``, or of ``I[G, N, C, rows, columns]``, whose lines,
rows and columns, are counted with padding.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fadiff.execute.nest import IMAGE, C, G, K, N, R, S
from fadiff.execute.tensors import Floats, FloatType, Image, Span, Words, residues, resized, resizes
from fadiff.workload import Dims, Layer

Box = tuple[Span, ...]
ROWS, COLS = 3, 4
"""Axes of an input box along which windows slide."""


def box_of(tensor: str, layer: Layer, starts: Sequence[int], lens: Sequence[int]) -> Box:
    """What a block reads of W or I; of I with the rows and columns that strides leave out."""
    spans = [(starts[d], starts[d] + lens[d]) for d in ((G, K, C, R, S) if tensor == "W" else (G, N, C))]
    if tensor == "I":
        for (p, r), stride, dilation in zip(IMAGE, layer.stride, layer.dilation, strict=True):
            first = starts[p] * stride + starts[r] * dilation
            spans.append((first, first + (lens[p] - 1) * stride + (lens[r] - 1) * dilation + 1))
    return tuple(spans)


class Taken(NamedTuple):
    """Values of a box, padding as zeros; how many come from the first memory, with padding (`wanted`) and without."""

    values: Floats
    wanted: int
    data: int


Source = Callable[[Box], Taken]
"""An operand where it lies: takes a box of it."""


def weight_source(look: Callable[[], Words], dtype: FloatType) -> Source:
    """W where `look` finds it, ``[G, K, C, R, S]``."""

    def take(box: Box) -> Taken:
        values = look()[_slices(box)].astype(dtype, order="C")
        return Taken(values, values.size, values.size)

    return take


class Part(NamedTuple):
    """One tensor on an input port: its channels among all, how to find it, ``[N, channels, P', Q']``, and its lines.

    `lines` are its rows and columns, first and end, as the layer counts them.
    """

    channels: Span
    look: Callable[[], Words]
    lines: Image
    fused: bool


class Inputs:
    """The input port of a MAC layer: tensors laid end to end along its G*C channels, zeros around each of them."""

    def __init__(self, dims: Dims, parts: Sequence[Part], dtype: FloatType) -> None:
        self._dims, self._dtype = dims, dtype
        self._parts: list[tuple[Part, Box]] = []
        for part in parts:
            self._parts += [(part, (g, (0, dims.N), c, *part.lines)) for g, c in _rectangles(dims.C, part.channels)]

    def take(self, box: Box) -> Taken:
        """Takes a box."""
        sizes = [end - first for first, end in box]
        found: Floats = np.zeros(sizes, self._dtype)
        wanted = data = 0
        for part, there in self._parts:
            # Ranges that do not overlap come out empty or worse.
            inside = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, there, strict=True)]
            g, n, c, rows, cols = [max(0, end - first) for first, end in inside]
            if not part.fused:
                wanted += g * n * c * sizes[ROWS] * sizes[COLS]
                data += g * n * c * rows * cols
            if g * c * rows * cols == 0:
                continue
            values = self._view(part, there)[_slices(inside, there)]
            if [g, n, c, rows, cols] == sizes:
                return Taken(values.astype(self._dtype, order="C"), wanted, data)
            found[_slices(inside, box)] = values
        return Taken(found, wanted, data)

    def most_unfused(self, groups: int, channels: int) -> int:
        """The most channels from the first memory that a tile of so many groups and channels can hold."""
        unfused = np.zeros((self._dims.G, self._dims.C), np.int64)
        for part, (g, _, c, _, _) in self._parts:
            unfused[slice(*g), slice(*c)] = not part.fused
        by_group = np.add.reduceat(unfused, range(0, self._dims.G, groups), axis=0)
        return int(np.add.reduceat(by_group, range(0, self._dims.C, channels), axis=1).max())

    def _view(self, part: Part, there: Box) -> Words:
        """A part, or some groups and channels of it, as ``[G, N, C, rows, columns]``."""
        (g0, g1), _, (c0, c1), _, _ = there
        first = g0 * self._dims.C + c0 - part.channels[0]
        words = part.look()[:, first : first + (g1 - g0) * (c1 - c0)]
        return words.reshape(words.shape[0], g1 - g0, c1 - c0, *words.shape[2:]).transpose(1, 0, 2, 3, 4)


class Tile:
    """A tile of an operand in a memory: real values, brought from where the operand lies, and how many of them.

    `wanted` counts all that were brought from the first memory, `data` those of them that are no padding.
    """

    def __init__(self, source: Source) -> None:
        self.box: Box | None = None
        self.wanted = self.data = 0
        self._source = source
        self._values: Floats = np.zeros((0,) * 5, np.float32)

    def bring(self, box: Box, *, slides: bool = False) -> Taken:
        """Brings a box.

        A window that slides keeps what it has of it, and is brought every row or column from its end on.
        """
        old, self.box = self.box, box
        if not slides or old is None:
            taken = self._source(box)
            self._values = taken.values
        else:
            axis = ROWS if old[ROWS] != box[ROWS] else COLS
            (first, end), fresh = box[axis], (old[axis][1], box[axis][1])
            taken = self._source((*box[:axis], fresh, *box[axis + 1 :]))
            # Of all lines that it held, and fresh ones, the last are wanted.
            lines = np.concatenate((self._values, taken.values), axis)
            self._values = lines[(slice(None),) * axis + (slice(first - end, None),)]
        self.wanted, self.data = self.wanted + taken.wanted, self.data + taken.data
        return taken

    def read(self, box: Box) -> Floats:
        """The values of a box within the tile."""
        assert self.box is not None
        return self._values if box == self.box else self._values[_slices(box, self.box)]


class Outlet:
    """Takes a layer's sums and stores its output, ``record[N, G, K, P', Q']``; counts what is `computed` and `stored`.

    Sums go through the vector unit, which applies the epilogue. Where that pools or upsamples, it collects rows until
    they are complete; its storage is not counted.
    """

    def __init__(self, layer: Layer, record: Words) -> None:
        self.record, self.computed, self.stored = record, 0, 0
        d, self._layer = layer.dims, layer
        self._collected = np.zeros((d.N, d.G, d.K, d.P, d.Q), np.int8) if resizes(layer) else None

    def drain(self, sums: Floats, corner: tuple[int, int, int, int, int]) -> None:
        """Takes final sums ``[g, k, n, p, q]`` whose first element is ``O[g, k, n, p, q]`` = `corner`."""
        words = residues(sums).transpose(2, 0, 1, 3, 4)
        self.computed += words.size
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


def _rectangles(width: int, channels: Span) -> Iterator[tuple[Span, Span]]:
    """A range of the G*C channels as at most three rectangles of groups and of channels within a group."""
    first, last = channels
    while first < last:
        group, channel = divmod(first, width)
        if channel == 0 and last - first >= width:
            count = (last - first) // width
            yield (group, group + count), (0, width)
            first += count * width
        else:
            end = min(width, channel + last - first)
            yield (group, group + 1), (channel, end)
            first += end - channel


def _slices(box: Sequence[Span], around: Sequence[Span] = ((0, 0),) * 5) -> tuple[slice, ...]:
    """A box, as seen from where another one starts."""
    return tuple([slice(first - at, end - at) for (first, end), (at, _) in zip(box, around, strict=True)])
