"""One MAC layer as it runs: real tiles in its outer loops, one product for each turn of them.

Values move from the first memory into the homes of W and I, if there is no axis above them, on the turns on which the
nest says so. What the loops further in do with a tile is counted as traffic of index ranges. The product of a turn is
computed at once, from the values in the tiles.
"""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fadiff.execute.legs import Leg, Sums
from fadiff.execute.nest import Block, Lanes, P, Q
from fadiff.execute.operands import Operand, Outlet, Tile, box_of
from fadiff.execute.tensors import Floats
from fadiff.execute.traffic import SharedWalk
from fadiff.workload import Layer

TURNS = 1 << 13
"""Turns of a layer's outer loops that are always walked with real tiles."""
TURN_MACS = 1 << 20
"""More turns than that are walked too if each does so much work."""
MATRIX_VALUES = 1 << 24
"""Values of an input laid out as a matrix, at a time."""


class MacRun:
    """The execution of one MAC layer, piece by piece."""

    def __init__(self, walk: SharedWalk, weights: Operand, inputs: Operand, outlet: Outlet) -> None:
        self.walk, self.counts, self._outlet = walk, walk.traffic.zeros(), outlet
        self._nest, self._layer = walk.traffic.nest, walk.traffic.nest.layer
        legs = [leg for leg in walk.traffic.legs if leg.inner != self._nest.macs]
        homes = [leg for leg in legs if leg.tensor in "WI" and leg.outer == 0]
        self._depth = self._walked([leg.inner for leg in homes])
        self._tiles = {"W": Tile(weights), "I": Tile(inputs)}
        self.moved = {leg: self._tiles[leg.tensor] for leg in homes if self._nest.above(leg.inner) <= self._depth}
        """By leg, tiles whose values really move."""
        self._unwalked = set("WI") - {leg.tensor for leg in self.moved}
        self._sums: dict[tuple[int, ...], Floats] = {}

    def _walked(self, homes: list[int]) -> int:
        """How many of the outer loops are walked turn by turn: those above homes, if they turn few enough times."""
        turns, depth = len(self.walk.pieces), 0
        for item in self._nest.items[: max(map(self._nest.above, (1, *homes)))]:
            if isinstance(item, Lanes):
                break
            turns *= self._nest.factors[item.node][item.dim]
            if turns > max(TURNS, self._layer.macs // TURN_MACS):
                break
            depth += 1
        return depth

    def run(self, number: int) -> None:
        """Computes one piece."""
        block = self.walk.pieces[number].block
        for tensor in self._unwalked:
            self._tiles[tensor].box = None
        sums = self.walk.begin_piece(number, self.counts)
        self.counts += self.walk.traffic.below(0, block, sums)
        for leg, previous in self.walk.due(number).items():
            self._bring(leg, block, slides=previous is not None)
        self._turn(0, block, sums)

    def _turn(self, item: int, block: Block, sums: Sums) -> None:
        """The walked loops from an item inwards."""
        if item == self._depth:
            self._multiply(block, sums.last)
            return
        previous = None
        for now, state in self.walk.traffic.turns(item, block, sums):
            for leg in self.moved:
                if leg.place == item:
                    self._bring(leg, now, slides=leg.slides and previous is not None)
            self._turn(item + 1, now, state)
            previous = now

    def _bring(self, leg: Leg, block: Block, *, slides: bool) -> None:
        """Carries out the transfer of a leg, if it is one on which values really move."""
        if leg in self.moved:
            held = self._nest.first_tile(leg.inner, block)
            self.moved[leg].bring(box_of(leg.tensor, self._layer, block.starts, held), slides=slides)

    def _multiply(self, block: Block, last: bool) -> None:
        """The product of a block, from the tiles in the homes, or from where an operand lies if that is not walked."""
        lens = [lens[0] for lens in block.lens]
        boxes = {tensor: box_of(tensor, self._layer, block.starts, lens) for tensor in self._tiles}
        for tensor in self._unwalked:
            if self._tiles[tensor].box != boxes[tensor]:
                self._tiles[tensor].bring(boxes[tensor])
        weights, inputs = (self._tiles[tensor].read(boxes[tensor]) for tensor in "WI")
        sums = product(self._layer, weights, inputs, lens[P], lens[Q])
        g, n, k, _, p, q, _, _ = block.starts
        corner = (g, k, n, p, q)
        if corner in self._sums:
            sums += self._sums.pop(corner)
        if last:
            self._outlet.drain(sums, corner)
        else:
            self._sums[corner] = sums


def product(layer: Layer, weights: Floats, inputs: Floats, p: int, q: int) -> Floats:
    """Sums ``[g, k, n, p, q]`` of weights ``[g, k, c, r, s]`` and inputs ``[g, n, c, rows, columns]``."""
    (g, k, c, r, s), n = weights.shape, inputs.shape[1]
    if p * q * r * s == 1:
        return (weights[..., 0, 0] @ inputs[..., 0, 0].transpose(0, 2, 1)).reshape(g, k, n, 1, 1)
    if r * s * n == 1 and inputs.shape[3:] == (p, q):
        return (weights[..., 0, 0] @ inputs.reshape(g, c, p * q)).reshape(g, k, n, p, q)
    by_g, by_n, by_c, by_row, by_col = inputs.strides
    (stride_p, stride_q), (dilation_r, dilation_s) = layer.stride, layer.dilation
    window = as_strided(
        inputs,
        (g, c, r, s, n, p, q),
        (by_g, by_c, by_row * dilation_r, by_col * dilation_s, by_n, by_row * stride_p, by_col * stride_q),
        writeable=False,
    )
    sums: Floats = np.zeros((g, k, n, p, q), weights.dtype)
    images = max(1, MATRIX_VALUES // (g * r * s * p * q))
    for at in range(0, n, images):
        some = window[:, :, :, :, at : at + images]
        channels = max(1, MATRIX_VALUES // (g * r * s * some.shape[4] * p * q))
        for first in range(0, c, channels):
            columns = some[:, first : first + channels].reshape(g, -1, some.shape[4] * p * q)
            found = weights[:, :, first : first + channels].reshape(g, k, -1) @ columns
            sums[:, :, at : at + images] += found.reshape(g, k, -1, p, q)
    return sums
