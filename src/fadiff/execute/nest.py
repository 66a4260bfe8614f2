"""One MAC layer's own loops: private L3 loops, L2 loops and the array's visits, with tiles moving as they ask.

A tile is loaded when the one wanted is not the one there. So how often tiles are refilled is nowhere computed: it
happens.
"""

from collections.abc import Callable
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from fadiff.execute.accumulator import Accumulator
from fadiff.execute.buffers import Shared
from fadiff.execute.counts import Tally
from fadiff.execute.geometry import Geometry
from fadiff.execute.loader import Loader, split_runs
from fadiff.execute.operands import InputOperand, WeightOperand
from fadiff.execute.outlets import Outlet
from fadiff.execute.tensors import exact_dtype
from fadiff.execute.tiles import (
    INPUT_DIMS,
    OUTPUT_DIMS,
    WEIGHT_DIMS,
    InputTile,
    WeightTile,
    chunk_bounds,
    chunk_count,
    window_extent,
)
from fadiff.workload import DIMS, Dims

Span = tuple[int, int]
TICK_MACS = 1 << 30
"""Progress is reported about this often."""


class _Turn(NamedTuple):
    """One iteration of the private L3 loops: its indices, and numbers of the tiles it wants.

    `follows` says that only the innermost loop moved, by one, since the turn before.
    """

    at: Dims
    weight: int
    input: int
    output: int
    follows: bool


class _Plan(NamedTuple):
    """The private loops over a block of so many rows and columns: the tiles they use, and the turns in order."""

    row_bounds: list[int]
    col_bounds: list[int]
    tiles: list[list[InputTile]]
    turns: list[_Turn]


class _Loaded(NamedTuple):
    """An input tile in L2: for which block and turn, where it starts (g, n, c, row, column), and what is in it."""

    block: tuple[int, int, int, int]
    number: int
    tile: InputTile
    corner: tuple[int, int, int, int, int]
    rows: list[Span]
    cols: list[Span]


class Nest:
    """The private loops of a layer, with what it has in L2, in L1 and in the registers."""

    def __init__(
        self,
        geometry: Geometry,
        inputs: InputOperand,
        weights: WeightOperand,
        *,
        spill_words: int,
        keeps_registers: bool,
    ) -> None:
        """`keeps_registers`: no other layer takes the array between two shared iterations."""
        layer, mapping, s = geometry.layer, geometry.mapping, geometry.mapping.spatial
        d, x1, t2, t3 = layer.dims, mapping.extent(1), mapping.l2, mapping.l3
        self.geometry = geometry
        self._layer = layer
        self._inputs, self._weights = inputs, weights
        self._keeps_registers = keeps_registers
        self._x2 = x2 = mapping.extent(2)
        innermost = geometry.loops[-1:]
        self._row_loader = Loader(x2.P, x2.R, layer.stride[0], layer.dilation[0], t3.R if innermost == "R" else 1)
        self._col_loader = Loader(x2.Q, x2.S, layer.stride[1], layer.dilation[1], t3.S if innermost == "S" else 1)
        self._array_rows, self._array_cols, self._broadcast = s.C * s.R * s.S, s.K * s.G, s.K
        self._visits_per_sum = t2.C * t2.R * t2.S * t3.C * t3.R * t3.S
        self._weight_tile = WeightTile(mapping, exact_dtype(x1.C * x1.R * x1.S))
        self._accumulator = Accumulator(exact_dtype(d.C * d.R * d.S), spill_words)
        self._input_tiles: dict[Span, InputTile] = {}
        self._plans: dict[Span, _Plan] = {}
        self._loaded_weight: tuple[int, int, int] | None = None
        self._loaded_input: _Loaded | None = None
        self._register: tuple[int, int, int, int] | None = None

    def run(
        self, at: Shared, rows: Span, cols: Span, outlet: Outlet, tally: Tally, tick: Callable[[int], None]
    ) -> None:
        """Computes a block of rows and columns in one shared iteration."""
        plan = self._plan(rows[1] - rows[0], cols[1] - cols[0])
        self._stage(at, rows, cols)
        accumulator = self._accumulator
        accumulator.fresh = 0
        macs = changes = ticked = 0
        for turn in plan.turns:
            weight = (at.g, at.x, turn.weight)
            if weight != self._loaded_weight:
                self._load_weight(at, turn, tally)
                self._loaded_weight = weight
            row = rows[0] + plan.row_bounds[turn.at.P]
            col = cols[0] + plan.col_bounds[turn.at.Q]
            tile = plan.tiles[turn.at.P][turn.at.Q]
            self._want_input(at, turn, tile, row, col, tally)
            for visit in tile.visits:
                key = (at.g, at.n, at.p, at.q, turn.output, visit.output)
                if key != accumulator.key:
                    accumulator.want(key, tally)
                register = (*weight, visit.weight)
                changes += visit.changes + (register != self._register)
                self._register = register if visit.returns else None
                if visit.scratch is not None:
                    np.copyto(visit.scratch, visit.window)
                np.matmul(visit.weights, visit.operand, out=visit.product)
                macs += visit.macs
                accumulator.add(visit.product)
                if accumulator.visits == self._visits_per_sum:
                    self._drain(at, turn, tile, visit.output, row, col, outlet, tally)
            if macs - ticked >= TICK_MACS:
                tick(macs - ticked)
                ticked = macs
        tick(macs - ticked)
        updates = macs // self._array_rows
        tally.macs += macs
        tally.l2_input_read += macs // self._broadcast
        tally.l1_update += 2 * updates - accumulator.fresh
        tally.l2_weight_read += changes * self._array_rows * self._array_cols
        tally.l0_weight_fill += changes * self._array_rows * self._array_cols

    def finish(self, at: Shared, then: Shared | None, tally: Tally) -> None:
        """Ends a shared iteration: drops the tiles that are not kept until `then`, and spills unfinished sums."""
        if not self.geometry.keeps_weight(at, then):
            self._loaded_weight = None
        if not (self._inputs.from_l3 and self.geometry.keeps_input(at, then)):
            self._loaded_input = None
        if not self.geometry.keeps_sums(at, then):
            self._accumulator.leave(tally)
        if not self._keeps_registers:
            self._register = None

    def _stage(self, at: Shared, rows: Span, cols: Span) -> None:
        """Looks up what the block needs of the group's buffers."""
        (stride_p, stride_q), (dilation_r, dilation_s) = self._layer.stride, self._layer.dilation
        d = self._layer.dims
        top, left = rows[0] * stride_p, cols[0] * stride_q
        height = window_extent(rows[1] - rows[0], d.R, stride_p, dilation_r)
        width = window_extent(cols[1] - cols[0], d.S, stride_q, dilation_s)
        self._inputs.stage(at, (top, top + height), (left, left + width))
        self._weights.stage(at)

    def _load_weight(self, at: Shared, turn: _Turn, tally: Tally) -> None:
        block, x2, i = self.geometry.block, self._x2, turn.at
        k, c = self._channel_blocks(at)
        corner = (at.g * block.G + i.G * x2.G, k + i.K * x2.K, c + i.C * x2.C, i.R * x2.R, i.S * x2.S)
        self._weight_tile.fill(self._weights.tile(corner, self._weight_tile.size))
        if self._weights.from_l3:
            tally.l3_weight += self._weight_tile.words
            tally.l2_weight_fill += self._weight_tile.words

    def _want_input(self, at: Shared, turn: _Turn, tile: InputTile, row: int, col: int, tally: Tally) -> None:
        """Loads the input tile of a turn whose first output is at (row, col), unless it is there.

        Where the innermost L3 loop moves a window by one step, only what the step uncovers is loaded.
        """
        there = self._loaded_input
        block = (at.g, at.n, at.p, at.q)
        if there is not None and there.block == block and there.number == turn.input:
            return
        layer, sizes, x2, i = self._layer, self.geometry.block, self._x2, turn.at
        _, c = self._channel_blocks(at)
        height, width = tile.words.shape[3:]
        corner = (
            at.g * sizes.G + i.G * x2.G,
            at.n * sizes.N + i.N * x2.N,
            c + i.C * x2.C,
            row * layer.stride[0] + i.R * x2.R * layer.dilation[0],
            col * layer.stride[1] + i.S * x2.S * layer.dilation[1],
        )
        rows = self._row_loader.runs(corner[3], height)
        cols = self._col_loader.runs(corner[4], width)
        loaded = _Loaded(block, turn.input, tile, corner, rows, cols)
        if there is not None and self._inputs.from_l3 and (turn.follows or there.block != block):
            rows, cols = self._slide(there, loaded)
        words = sum(self._inputs.load(tile.words, corner, *run) for run in product(rows, cols))
        self._inputs.look_up(tile.words, corner)
        tally.l3_input += words
        tally.l2_input_fill += words
        self._loaded_input = loaded

    def _slide(self, there: _Loaded, wanted: _Loaded) -> tuple[list[Span], list[Span]]:
        """Keeps what the tile wanted shares with the one there; the rows and columns that are left to load."""
        rows, cols = wanted.rows, wanted.cols
        if self.geometry.slides_rows:
            kept, rows = split_runs(rows, there.rows)
            new, old = wanted.corner[3], there.corner[3]
            for r0, r1 in kept:
                wanted.tile.words[:, :, :, r0 - new : r1 - new] = there.tile.words[:, :, :, r0 - old : r1 - old]
        elif self.geometry.slides_cols:
            kept, cols = split_runs(cols, there.cols)
            new, old = wanted.corner[4], there.corner[4]
            for c0, c1 in kept:
                wanted.tile.words[..., c0 - new : c1 - new] = there.tile.words[..., c0 - old : c1 - old]
        return rows, cols

    def _drain(
        self,
        at: Shared,
        turn: _Turn,
        tile: InputTile,
        output: int,
        row: int,
        col: int,
        outlet: Outlet,
        tally: Tally,
    ) -> None:
        """Sends the complete sums of a tile on their way."""
        place, block, x2, i = tile.places[output], self.geometry.block, self._x2, turn.at
        k, _ = self._channel_blocks(at)
        corner = (
            at.g * block.G + i.G * x2.G + place.g,
            at.n * block.N + i.N * x2.N + place.n,
            k + i.K * x2.K + place.k,
            row + place.p,
            col + place.q,
        )
        sums = self._accumulator.take()
        outlet.drain(sums.reshape(place.dg, place.dk, place.dn, place.dp, place.dq), corner, tally)

    def _channel_blocks(self, at: Shared) -> tuple[int, int]:
        """First output and first input channel of a shared iteration: X walks over one of the two."""
        shared, block = self.geometry.shared, self.geometry.block
        return (at.x * block.K if shared.K > 1 else 0), (at.x * block.C if shared.C > 1 else 0)

    def _plan(self, rows: int, cols: int) -> _Plan:
        if (rows, cols) not in self._plans:
            private, x2 = self.geometry.private, self._x2
            row_bounds = chunk_bounds(rows, chunk_count(rows, x2.P, private.P))
            col_bounds = chunk_bounds(cols, chunk_count(cols, x2.Q, private.Q))
            tiles = [
                [self._input_tile(r1 - r0, c1 - c0) for c0, c1 in pairwise(col_bounds)]
                for r0, r1 in pairwise(row_bounds)
            ]
            trips = private._replace(P=len(row_bounds) - 1, Q=len(col_bounds) - 1)
            self._plans[rows, cols] = _Plan(row_bounds, col_bounds, tiles, self._turns(trips))
        return self._plans[rows, cols]

    def _turns(self, trips: Dims) -> list[_Turn]:
        loops = self.geometry.loops
        turns: list[_Turn] = []
        for indices in product(*(range(trips[DIMS.index(dim)]) for dim in loops)):
            at = Dims(*(0,) * len(DIMS))._replace(**dict(zip(loops, indices, strict=True)))
            weight, taken, output = (_number(at, trips, dims) for dims in (WEIGHT_DIMS, INPUT_DIMS, OUTPUT_DIMS))
            turns.append(_Turn(at, weight, taken, output, follows=bool(indices) and indices[-1] > 0))
        return turns

    def _input_tile(self, rows: int, cols: int) -> InputTile:
        if (rows, cols) not in self._input_tiles:
            self._input_tiles[rows, cols] = InputTile(self._layer, self.geometry.mapping, self._weight_tile, rows, cols)
        return self._input_tiles[rows, cols]


def _number(at: Dims, trips: Dims, dims: str) -> int:
    """Loop indices of some dims as one number."""
    number = 0
    for dim in dims:
        place = DIMS.index(dim)
        number = number * trips[place] + at[place]
    return number
