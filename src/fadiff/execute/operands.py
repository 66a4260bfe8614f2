"""Where a layer's operands come from, L3 or the buffers of its group, and how tiles of them are loaded."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fadiff.execute.buffers import Buffer, Shared
from fadiff.execute.runnable import ExecutionError
from fadiff.execute.tensors import Floats, Words, as_input, as_weight, padding_before, reads_whole
from fadiff.workload import Dims, Layer

Span = tuple[int, int]
Corner = tuple[int, int, int, int, int]


class Rect(NamedTuple):
    """A range of groups and of channels within a group: ``[g0, g1) x [c0, c1)``."""

    g0: int
    g1: int
    c0: int
    c1: int


class Given(NamedTuple):
    """The tensors in L3 that a layer reads.

    `inputs` has one for each of the layer's inputs, as it is stored or, for a network input, as its port reads it;
    None where it comes from a layer of the same group. `parameters` are W; None with a weight port or in an add layer.
    """

    inputs: tuple[Words | None, ...]
    parameters: Words | None


class Fused(NamedTuple):
    """A tensor that stays on chip: its producer and its buffer."""

    producer: Layer
    buffer: Buffer


class Part(NamedTuple):
    """One tensor on the input port: its share of the channels, and the rows and columns that are not padding."""

    channels: Span
    rects: tuple[Rect, ...]
    rows: Span
    cols: Span
    fused: Fused | None


class Stretch(NamedTuple):
    """Channels of a tile that come from L3, with the rows and columns that are not padding."""

    channels: int
    rows: Span
    cols: Span


class InputOperand:
    """The input port of a MAC layer. Rows and columns are counted with padding, ``0 <= row < H``.

    `shared` are the shared trip counts of each dim: one shared iteration sees a ``1/shared`` block of G, N and C.
    """

    def __init__(self, layer: Layer, sources: Sequence[tuple[Words | Fused, int]], shared: Dims) -> None:
        d = layer.dims
        self._layer = layer
        self._block = (d.G // shared.G, d.N // shared.N, d.C // shared.C)
        self._shares_channels = shared.C > 1
        self._parts = _parts(layer, sources)
        self._fused = tuple((part, part.fused) for part in self._parts if part.fused is not None)
        if self._fused and len(self._parts) > 1 and shared.G > 1:
            raise ExecutionError(
                f"layer {layer.name}: it shares G, but groups of its concatenated inputs are not the same groups"
            )
        self.from_l3 = len(self._fused) < len(self._parts)
        self._image = _image(layer, self._parts, sources) if self.from_l3 else None
        self._staged = np.zeros((0, 0, 0, 0, 0), np.int8)
        self._origin = (0, 0, 0, 0, 0)
        self._stretches: dict[Rect, tuple[Stretch, ...]] = {}

    def stretches(self, rect: Rect) -> tuple[Stretch, ...]:
        """What of a tile's channels comes from L3."""
        known = self._stretches.get(rect)
        if known is None:
            counted = ((part, sum(_area(rect, r) for r in part.rects)) for part in self._parts if part.fused is None)
            known = tuple(Stretch(channels, part.rows, part.cols) for part, channels in counted if channels)
            self._stretches[rect] = known
        return known

    def stage(self, at: Shared, rows: Span, cols: Span) -> None:
        """Takes a look at the buffers: fused channels of this shared iteration, padding generated around them.

        The array reads fused inputs straight out of their buffers; this only lays out what it will see there.
        """
        if not self._fused:
            return
        g, n, c = self._block
        staged = np.zeros((n, g * c, rows[1] - rows[0], cols[1] - cols[0]), np.int8)
        for part, fused in self._fused:
            words = as_input(fused.buffer.words(at), fused.producer, self._layer, n)
            r0, r1 = _overlap(rows, part.rows)
            v0, v1 = _overlap(cols, part.cols)
            channels = slice(None) if len(self._parts) == 1 else slice(*part.channels)
            staged[:, channels, r0 - rows[0] : r1 - rows[0], v0 - cols[0] : v1 - cols[0]] = words[
                :, :, r0 - part.rows[0] : r1 - part.rows[0], v0 - part.cols[0] : v1 - part.cols[0]
            ]
        self._staged = staged.reshape(n, g, c, *staged.shape[2:]).transpose(1, 0, 2, 3, 4)
        self._origin = (at.g * g, at.n * n, at.x * c if self._shares_channels else 0, rows[0], cols[0])

    def load(self, tile: Floats, corner: Corner, rows: Span, cols: Span) -> int:
        """Loads some rows and columns of a tile ``[g, n, c, h, w]`` that starts at `corner` from L3; words read."""
        if self._image is None:
            return 0
        g0, n0, c0, row0, col0 = corner
        g1, n1, c1 = g0 + tile.shape[0], n0 + tile.shape[1], c0 + tile.shape[2]
        tile[:, :, :, rows[0] - row0 : rows[1] - row0, cols[0] - col0 : cols[1] - col0] = self._image[
            g0:g1, n0:n1, c0:c1, rows[0] : rows[1], cols[0] : cols[1]
        ]
        words = 0
        for stretch in self.stretches(Rect(g0, g1, c0, c1)):
            height = min(rows[1], stretch.rows[1]) - max(rows[0], stretch.rows[0])
            width = min(cols[1], stretch.cols[1]) - max(cols[0], stretch.cols[0])
            if height > 0 and width > 0:
                words += stretch.channels * height * width
        return words * (n1 - n0)

    def look_up(self, tile: Floats, corner: Corner) -> None:
        """Puts what a tile finds in the buffers of the group into its place."""
        if not self._fused:
            return
        g, n, c, row, col = (a - b for a, b in zip(corner, self._origin, strict=True))
        dg, dn, dc, dr, dv = tile.shape
        source = self._staged[g : g + dg, n : n + dn, c : c + dc, row : row + dr, col : col + dv]
        if self._image is None:
            tile[...] = source
            return
        # A partly fused concatenation: its groups and channels are not shared, so rects apply as they are.
        for rect in (rect for part, _ in self._fused for rect in part.rects):
            g0, g1 = max(rect.g0 - corner[0], 0), min(rect.g1 - corner[0], dg)
            c0, c1 = max(rect.c0 - corner[2], 0), min(rect.c1 - corner[2], dc)
            if g0 < g1 and c0 < c1:
                tile[g0:g1, :, c0:c1] = source[g0:g1, :, c0:c1]


class WeightOperand:
    """The weights of a MAC layer, ``W[G, K, C, R, S]``: parameters or an activation in L3, or a fused one."""

    def __init__(self, layer: Layer, source: Words | Fused, shared: Dims) -> None:
        d = layer.dims
        self.from_l3 = not isinstance(source, Fused)
        self._source = source
        self._shape = (d.G // shared.G, d.K, d.C, d.R, d.S)
        self._words = source if not isinstance(source, Fused) else np.zeros((0, 0, 0, 0, 0), np.int8)
        self._first_group = 0

    def stage(self, at: Shared) -> None:
        """Takes a look at the buffer, where the weights are fused."""
        if isinstance(self._source, Fused):
            self._words = as_weight(self._source.buffer.words(at), self._source.producer, self._shape)
            self._first_group = at.g * self._shape[0]

    def tile(self, corner: Corner, size: tuple[int, int, int, int, int]) -> Words:
        """The words of a tile, where they are now."""
        g, k, c, r, s = corner
        dg, dk, dc, dr, ds = size
        g -= self._first_group
        return self._words[g : g + dg, k : k + dk, c : c + dc, r : r + dr, s : s + ds]


def _parts(layer: Layer, sources: Sequence[tuple[Words | Fused, int]]) -> tuple[Part, ...]:
    """The tensors on the input port, their channels laid end to end."""
    parts: list[Part] = []
    first = 0
    for source, channels in sources:
        if isinstance(source, Fused):
            whole = reads_whole(source.producer, layer)
            stored = (1, 1) if whole else source.producer.stored
        else:
            stored = (source.shape[2], source.shape[3])
        top, left = (padding_before(layer, stored[axis], axis) for axis in (0, 1))
        parts.append(
            Part(
                channels=(first, first + channels),
                rects=_rects(layer.dims, (first, first + channels)),
                rows=(top, min(layer.input_rows, top + stored[0])),
                cols=(left, min(layer.input_cols, left + stored[1])),
                fused=source if isinstance(source, Fused) else None,
            )
        )
        first += channels
    return tuple(parts)


def _rects(dims: Dims, channels: Span) -> tuple[Rect, ...]:
    """A range of the G*C channels as at most three rectangles of groups and channels within a group."""
    first, last = channels
    rects: list[Rect] = []
    while first < last:
        group, channel = divmod(first, dims.C)
        if channel == 0 and last - first >= dims.C:
            count = (last - first) // dims.C
            rects.append(Rect(group, group + count, 0, dims.C))
            first += count * dims.C
        else:
            end = min(dims.C, channel + last - first)
            rects.append(Rect(group, group + 1, channel, end))
            first += end - channel
    return tuple(rects)


def _overlap(a: Span, b: Span) -> Span:
    first = max(a[0], b[0])
    return first, max(first, min(a[1], b[1]))


def _area(a: Rect, b: Rect) -> int:
    groups = min(a.g1, b.g1) - max(a.g0, b.g0)
    channels = min(a.c1, b.c1) - max(a.c0, b.c0)
    return groups * channels if groups > 0 and channels > 0 else 0


def _image(layer: Layer, parts: Sequence[Part], sources: Sequence[tuple[Words | Fused, int]]) -> Words:
    """The operands that lie in L3, as the layer addresses them: ``[G, N, C, H, V]``, padding as zeros."""
    d = layer.dims
    rows, cols = layer.input_rows, layer.input_cols
    only = sources[0][0]
    if len(parts) == 1 and not isinstance(only, Fused) and only.shape[2:] == (rows, cols):
        return only.reshape(d.N, d.G, d.C, rows, cols).transpose(1, 0, 2, 3, 4)
    image = np.zeros((d.N, d.G * d.C, rows, cols), np.int8)
    for part, (source, _) in zip(parts, sources, strict=True):
        if not isinstance(source, Fused):
            (r0, r1), (v0, v1) = part.rows, part.cols
            image[:, slice(*part.channels), r0:r1, v0:v1] = source[:, :, : r1 - r0, : v1 - v0]
    return image.reshape(d.N, d.G, d.C, rows, cols).transpose(1, 0, 2, 3, 4)
