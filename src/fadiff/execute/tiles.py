"""A tile in L2 and the visits of the array to it: one visit computes one L1 tile in a single matrix product."""

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fadiff.execute.tensors import Floats, FloatType, Words
from fadiff.schedule import Mapping
from fadiff.workload import DIMS, Dims, Layer

WEIGHT_DIMS = "GKCRS"
INPUT_DIMS = "GNCPQRS"
OUTPUT_DIMS = "GNKPQ"


def chunk_count(length: int, nominal: int, count: int) -> int:
    """Chunks a length is cut into where the mapping has `count` of `nominal`: longer ones instead of more."""
    return min(count, -(-length // nominal))


def chunk_bounds(length: int, chunks: int) -> list[int]:
    """Where each chunk starts, and the end: chunks as equal as can be."""
    return [i * length // chunks for i in range(chunks + 1)]


def longest(length: int, chunks: int) -> int:
    """The longest of so many chunks of a length."""
    return -(-length // chunks)


def window_extent(outputs: int, kernel: int, stride: int, dilation: int) -> int:
    """Input rows (or columns) that so many output rows and kernel rows take."""
    return (outputs - 1) * stride + (kernel - 1) * dilation + 1


def weight_sequence(order: str, trips: Dims) -> tuple[int, bool]:
    """(changes, returns): walks loops, outer to inner, and watches which weights are wanted.

    `changes` counts the steps of the walk at which they change; `returns` says whether the last weights are the first
    ones again, so that a next walk over the same tile starts without a change.
    """
    wanted = np.zeros(1, np.int64)
    for dim in order:
        count = trips[DIMS.index(dim)]
        if dim in WEIGHT_DIMS:
            wanted = (wanted[:, None] * count + np.arange(count)).ravel()
        else:
            wanted = np.repeat(wanted, count)
    return int(np.count_nonzero(np.diff(wanted))), bool(wanted[0] == wanted[-1])


class Place(NamedTuple):
    """An L1 tile of outputs inside the L2 tile: first index and extent of each output dim."""

    g: int
    n: int
    k: int
    p: int
    q: int
    dg: int
    dn: int
    dk: int
    dp: int
    dq: int


class Visit(NamedTuple):
    """One pass of the array over one L1 tile.

    `output` and `weight` say which output and which weights, as numbers within the L2 tile. The product is
    ``weights [g, k, crs] @ operand [g, crs, npq]`` (without g where it is 1); where `operand` is not a plain part of
    the tile, `window` is copied into `scratch`, the same memory as `operand`, first.
    """

    output: int
    weight: int
    weights: Floats
    window: Floats
    scratch: Floats | None
    operand: Floats
    product: Floats
    macs: int
    changes: int
    returns: bool


class WeightTile:
    """The weights of one L2 tile, blocked so that the weights of each visit lie together."""

    def __init__(self, mapping: Mapping, dtype: FloatType) -> None:
        x1, t2 = mapping.extent(1), mapping.l2
        self.size = _weight_dims(mapping.extent(2))
        outer, inner = _weight_dims(t2), _weight_dims(x1)
        self._blocks = np.zeros((*outer, *inner), dtype)
        # Axes as the words arrive: (outer, inner) of each dim in turn.
        self._arriving = self._blocks.transpose(0, 5, 1, 6, 2, 7, 3, 8, 4, 9)
        g, k, c, r, s = inner
        matrix = (k, c * r * s) if g == 1 else (g, k, c * r * s)
        self.matrices = list(self._blocks.reshape(-1, *matrix))

    @property
    def words(self) -> int:
        """Words of W in the tile."""
        return self._blocks.size

    def fill(self, words: Words) -> None:
        """Takes in a tile ``[g, k, c, r, s]``."""
        self._arriving[...] = words.reshape(self._arriving.shape)


class InputTile:
    """The input of one L2 tile of `rows` x `cols` output rows and columns, and all visits to it in order."""

    def __init__(self, layer: Layer, mapping: Mapping, weights: WeightTile, rows: int, cols: int) -> None:
        self._layer, self._mapping = layer, mapping
        x2, x1, t2 = mapping.extent(2), mapping.extent(1), mapping.l2
        height = window_extent(rows, x2.R, layer.stride[0], layer.dilation[0])
        width = window_extent(cols, x2.S, layer.stride[1], layer.dilation[1])
        self.words = np.zeros((x2.G, x2.N, x2.C, height, width), weights.matrices[0].dtype)
        self._row_bounds = chunk_bounds(rows, chunk_count(rows, x1.P, t2.P))
        self._col_bounds = chunk_bounds(cols, chunk_count(cols, x1.Q, t2.Q))
        self._trips = t2._replace(P=len(self._row_bounds) - 1, Q=len(self._col_bounds) - 1)
        self.places: list[Place] = []
        self._shared: dict[tuple[int, ...], Floats] = {}
        self._windows: dict[tuple[int, ...], tuple[Floats, Floats | None, Floats]] = {}
        self._sequences: dict[tuple[int, int], tuple[int, bool]] = {}
        self.visits = self._list_visits(weights)

    def _list_visits(self, weights: WeightTile) -> list[Visit]:
        outputs: dict[Place, int] = {}
        visits: list[Visit] = []
        order = self._mapping.order2
        for indices in product(*(range(self._trips[DIMS.index(dim)]) for dim in order)):
            at = Dims(**dict(zip(order, indices, strict=True)))
            place = self._place(at)
            output = outputs.setdefault(place, len(outputs))
            weight = 0
            for index, trips in zip(_weight_dims(at), _weight_dims(self._trips), strict=True):
                weight = weight * trips + index
            window, scratch, operand = self._window(at, place)
            matrix = weights.matrices[weight]
            sums = (*matrix.shape[:-1], operand.shape[-1])
            changes, returns = self._sequence(place)
            visits.append(
                Visit(
                    output=output,
                    weight=weight,
                    weights=matrix,
                    window=window,
                    scratch=scratch,
                    operand=operand,
                    product=self._scratch(sums),
                    macs=matrix.size * operand.shape[-1],
                    changes=changes,
                    returns=returns,
                )
            )
        self.places = list(outputs)
        return visits

    def _place(self, at: Dims) -> Place:
        x1 = self._mapping.extent(1)
        p, q = self._row_bounds[at.P], self._col_bounds[at.Q]
        dp, dq = self._row_bounds[at.P + 1] - p, self._col_bounds[at.Q + 1] - q
        return Place(at.G * x1.G, at.N * x1.N, at.K * x1.K, p, q, x1.G, x1.N, x1.K, dp, dq)

    def _window(self, at: Dims, place: Place) -> tuple[Floats, Floats | None, Floats]:
        """(window, scratch, operand): the inputs of a visit, as ``[g, c, r, s, n, p, q]`` and as matrix."""
        key = (*place[:2], *place[3:], at.C, at.R, at.S)
        if key not in self._windows:
            (stride_p, stride_q), (dilation_r, dilation_s) = self._layer.stride, self._layer.dilation
            x1 = self._mapping.extent(1)
            row = place.p * stride_p + at.R * x1.R * dilation_r
            col = place.q * stride_q + at.S * x1.S * dilation_s
            corner = self.words[place.g :, place.n :, at.C * x1.C :, row:, col:]
            g, n, c, h, w = corner.strides
            window = as_strided(
                corner,
                (place.dg, x1.C, x1.R, x1.S, place.dn, place.dp, place.dq),
                (g, c, h * dilation_r, w * dilation_s, n, h * stride_p, w * stride_q),
            )
            shape = (x1.C * x1.R * x1.S, place.dn * place.dp * place.dq)
            if place.dg > 1:
                shape = (place.dg, *shape)
            operand = window.reshape(shape)
            scratch = None
            if not (np.may_share_memory(operand, self.words) and _multiplies_fast(operand)):
                scratch = self._scratch(window.shape)
                operand = scratch.reshape(shape)
            self._windows[key] = (window, scratch, operand)
        return self._windows[key]

    def _scratch(self, shape: tuple[int, ...]) -> Floats:
        """Working memory of a visit; visits of one shape share it."""
        if shape not in self._shared:
            self._shared[shape] = np.empty(shape, self.words.dtype)
        return self._shared[shape]

    def _sequence(self, place: Place) -> tuple[int, bool]:
        """Changes of the registers' weights within a visit, from its L1 loops."""
        key = (place.dp, place.dq)
        if key not in self._sequences:
            t1, t0 = self._mapping.l1, self._mapping.l0
            steps = t1._replace(
                P=chunk_count(place.dp, t0.P, t1.P),
                Q=chunk_count(place.dq, t0.Q, t1.Q),
            )
            self._sequences[key] = weight_sequence(self._mapping.order1, steps)
        return self._sequences[key]


def _weight_dims(dims: Dims) -> tuple[int, int, int, int, int]:
    return (dims.G, dims.K, dims.C, dims.R, dims.S)


def _multiplies_fast(matrix: Floats) -> bool:
    """Whether a matrix, or each of a stack, lies in memory such that it multiplies at full speed."""
    rows, cols = matrix.shape[-2:]
    down, across = matrix.strides[-2:]
    item = matrix.itemsize
    return (across == item and down >= cols * item) or (down == item and across >= rows * item)
