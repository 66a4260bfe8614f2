"""Where a layer's operands lie, tiles of them on chip, and where its output goes.

A box is a range of each axis of an operand: of ``W[G, K, C, R, S]``, or of ``I[G, N, C, rows, columns]``, whose lines,
rows and columns, are counted with padding.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from fadiff.execute.nest import C, G, K, N, R, S, lines_read
from fadiff.execute.tensors import Floats, FloatType, Image, Span, Words, residues, resized
from fadiff.workload import Dims, Layer

Box = tuple[Span, ...]
ROWS, COLS = 3, 4
"""Axes of an input box along which windows slide."""


def box_of(tensor: str, layer: Layer, starts: Sequence[int], lens: Sequence[int]) -> Box:
    """What a block reads of W or I; of I with the rows and columns that strides leave out."""
    spans = [(starts[d], starts[d] + lens[d]) for d in ((G, K, C, R, S) if tensor == "W" else (G, N, C))]
    return (*spans, *(lines_read(layer, axis, starts, lens) for axis in (0, 1) if tensor == "I"))


class Taken(NamedTuple):
    """Values of a box, padding as zeros; how many come from the first memory, with padding (`wanted`) and without."""

    values: Floats
    wanted: int
    data: int


class Part(NamedTuple):
    """A part of an operand: the box of it that is data, how to find its words, and whether its group makes them."""

    box: Box
    look: Callable[[], Words]
    fused: bool


def weight_parts(dims: Dims, look: Callable[[], Words]) -> list[Part]:
    """W, which lies in one piece, ``[G, K, C, R, S]``."""
    return [Part(tuple((0, dims[d]) for d in (G, K, C, R, S)), look, False)]


def input_parts(dims: Dims, channels: Span, look: Callable[[], Words], lines: Image, fused: bool) -> Iterator[Part]:
    """A tensor on an input port, ``[N, channels, P', Q']``, of which `channels` among all G*C and `lines` are data.

    It is at most three parts: whole groups, and what is left of groups before and after them.
    """
    at, end = channels
    while at < end:
        (g, c), rest = divmod(at, dims.C), end - at
        groups, width = max(1, rest // dims.C) if c == 0 else 1, min(dims.C - c, rest)
        view = partial(_some_channels, look, at - channels[0], groups, width)
        yield Part(((g, g + groups), (0, dims.N), (c, c + width), *lines), view, fused)
        at += groups * width


def _some_channels(look: Callable[[], Words], first: int, groups: int, width: int) -> Words:
    words = look()[:, first : first + groups * width]
    return words.reshape(words.shape[0], groups, width, *words.shape[2:]).transpose(1, 0, 2, 3, 4)


class Operand:
    """W or I of a MAC layer where it lies: tensors laid end to end along G*C, zeros around each of them."""

    def __init__(self, parts: Sequence[Part], dtype: FloatType) -> None:
        self._parts, self._dtype = parts, dtype

    def take(self, box: Box) -> Taken:
        """Takes a box."""
        sizes = [end - first for first, end in box]
        found: Floats = np.zeros(sizes, self._dtype)
        wanted = data = 0
        for part in self._parts:
            # Ranges that do not overlap come out empty or worse.
            inside = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, part.box, strict=True)]
            g, n, c, rows, cols = [max(0, end - first) for first, end in inside]
            if not part.fused:
                wanted += g * n * c * sizes[ROWS] * sizes[COLS]
                data += g * n * c * rows * cols
            if g * c * rows * cols == 0:
                continue
            values = part.look()[_slices(inside, part.box)]
            if [g, n, c, rows, cols] == sizes:
                return Taken(values.astype(self._dtype, order="C"), wanted, data)
            found[_slices(inside, box)] = values
        return Taken(found, wanted, data)

    def most_unfused(self, groups: int, channels: int) -> int:
        """The most channels from the first memory that a tile of so many groups and channels can hold."""
        unfused = np.zeros([max(part.box[axis][1] for part in self._parts) for axis in (0, 2)], np.int64)
        for part in self._parts:
            unfused[_slices(part.box)[:3:2]] = not part.fused
        by_group = np.add.reduceat(unfused, range(0, len(unfused), groups), axis=0)
        return int(np.add.reduceat(by_group, range(0, unfused.shape[1], channels), axis=1).max())


class Tile:
    """A tile of an operand in a memory: real values, brought from where the operand lies, and how many of them.

    `wanted` counts all that were brought from the first memory, `data` those of them that are no padding.
    """

    def __init__(self, source: Operand) -> None:
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
            taken = self._source.take(box)
            self._values = taken.values
        else:
            axis = ROWS if old[ROWS] != box[ROWS] else COLS
            (first, end), fresh = box[axis], (old[axis][1], box[axis][1])
            taken = self._source.take((*box[:axis], fresh, *box[axis + 1 :]))
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
        self._collected = np.zeros((d.N, d.G, d.K, d.P, d.Q), np.int8) if layer.stored != (d.P, d.Q) else None

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

    def finish(self, box: Box) -> None:
        """Stores a box of the record that is complete now, if the vector unit collected it."""
        if self._collected is not None and all(first < end for first, end in box):
            place = _slices(box)
            self.record[place] = words = resized(self._collected[place[:3]], self._layer, *box[3:])
            self.stored += words.size


def _slices(box: Sequence[Span], around: Sequence[Span] = ((0, 0),) * 5) -> tuple[slice, ...]:
    """A box, as seen from where another one starts."""
    return tuple([slice(first - at, end - at) for (first, end), (at, _) in zip(box, around, strict=True)])
