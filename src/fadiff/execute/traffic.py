"""How many values move while a nest runs: every turn of every loop, lanes in lockstep, blocks alike looked up.

What the loops below some item move depends only on the lengths of the block they are given, on where it lies if some
of its input is padding, and on which of its sums are there already. So a block is walked once and remembered.
Counts are vectors: steps, MACs, and the slots of each leg.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadiff.execute.legs import ALL, Leg, Sums
from fadiff.execute.nest import IMAGE, REDUCED, RELEVANT, Block, C, Lanes, Loop, Nest, ceil_div
from fadiff.execute.plan import Piece
from fadiff.execute.role import Role

Counts = NDArray[np.int64]
STEPS, MACS, FIRST_LEG = range(3)


class Traffic:
    """The walk over a layer's own loops."""

    def __init__(self, nest: Nest, role: Role) -> None:
        self.nest = nest
        chains = {tensor: pairwise((*chain, nest.macs)) for tensor, chain in role.chains.items()}
        self.legs = [Leg(nest, role, tensor, *ends) for tensor, chain in chains.items() for ends in chain]
        self.slot = [FIRST_LEG + sum(leg.slots for leg in self.legs[:i]) for i in range(len(self.legs) + 1)]
        self._at = [[i for i, leg in enumerate(self.legs) if leg.place == item] for item in range(len(nest.items) + 1)]
        self._images = [image for leg in self.legs for image in leg.images]
        self._last_padded = max((leg.place for leg in self.legs if leg.images), default=-1)
        self._offsets = [[nest.offsets(d, items) for d in range(8)] for items in range(len(nest.items) + 1)]
        self._known: dict[object, Counts] = {}

    def zeros(self) -> Counts:
        """No counts yet."""
        return np.zeros(self.slot[-1], np.int64)

    def turns(self, item: int, block: Block, sums: Sums) -> Iterator[tuple[Block, Sums]]:
        """The blocks of all turns of a loop, with the state of their sums."""
        loop = self.nest.items[item]
        assert isinstance(loop, Loop)
        count = ceil_div(block.lens[loop.dim][0], loop.step)  # until the first lane is done: none has more to do
        for i in range(count):
            state = Sums(ALL if i else sums.held, sums.last and i == count - 1) if loop.dim in REDUCED else sums
            yield block.turn(loop, i), state

    def move(self, leg: int, block: Block, previous: Block | None, sums: Sums, out: Counts) -> Sums:
        """Carries out the transfer of a leg; `previous` is the block from which its window has slid."""
        if self.legs[leg].tensor == "O":
            values, sums = self.legs[leg].outputs(block, sums)
        else:
            values = self.legs[leg].operand(block, previous)
        out[self.slot[leg] : self.slot[leg + 1]] += values
        return sums

    def below(self, item: int, block: Block, sums: Sums) -> Counts:
        """Everything from an item inwards."""
        key = (item, block.lens, *self._where(item, block), sums)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._walk(item, block, sums)
        return found

    def _walk(self, item: int, block: Block, sums: Sums) -> Counts:
        if item == len(self.nest.items):
            out = self.zeros()
            out[STEPS], out[MACS] = 1, prod(map(sum, block.lens))
            self._begin_turn(item, block, None, sums, out)
            return out
        here = self.nest.items[item]
        if isinstance(here, Lanes):
            return self.below(item + 1, block.dealt(here), sums)
        total, previous = self.zeros(), None
        for now, state in self.turns(item, block, sums):
            total += self.below(item + 1, now, self._begin_turn(item, now, previous, state, total))
            previous = now
        return total

    def _begin_turn(self, item: int, block: Block, previous: Block | None, sums: Sums, out: Counts) -> Sums:
        """Carries out all transfers that stand in a loop; `previous` is the block one turn ago."""
        for leg in self._at[item]:
            sums = self.move(leg, block, previous if self.legs[leg].slides else None, sums, out)
        return sums

    def _where(self, item: int, block: Block) -> tuple[int | None, ...]:
        """Where the input of a block starts, rows and columns, as far as padding makes a difference."""
        layer, found = self.nest.layer, list[int | None]([None, None])
        for axis, dims in enumerate(IMAGE if item <= self._last_padded else ()):
            first, length = 0, 1
            for d, step in zip(dims, (layer.stride[axis], layer.dilation[axis]), strict=True):
                first += block.starts[d] * step
                reach = max(at + n for at, n in zip(self._offsets[item][d], block.lens[d], strict=True) if n)
                length += (reach - 1) * step
            if not all(image[axis][0] <= first and first + length <= image[axis][1] for image in self._images):
                found[axis] = first
        return tuple(found)


class Entry(NamedTuple):
    """A leg whose transfer stands in the shared loop number `depth`, or outside of all of them (-1)."""

    leg: int
    depth: int
    slides: bool


class SharedWalk:
    """The shared loops as one layer goes through them, piece by piece, with the transfers that stand in them.

    `dims` are the layer's dims of the shared loops, outermost first. A loop counts if the pieces differ in its index.
    """

    def __init__(self, traffic: Traffic, dims: Sequence[int], pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.traffic, self._dims = traffic, dims
        self._running = [i for i in range(len(dims)) if len({piece.at[i] for piece in pieces}) > 1]
        # A shared loop over C, the channel loop of its consumer, goes on with the same sums.
        self._reduced = next((i for i in self._running if dims[i] == C), None)
        self.entries = [self._entry(i, leg) for i, leg in enumerate(traffic.legs) if leg.place == -1]

    def _entry(self, number: int, leg: Leg) -> Entry:
        depth = max((i for i in self._running if leg.forgets or self._dims[i] in RELEVANT[leg.tensor]), default=-1)
        along, nest = self._dims[self._running[-1]] if self._running else C, self.traffic.nest
        lasts = leg.tensor == "I" and not leg.forgets and not nest.loops(leg.inner)
        return Entry(number, depth, lasts and nest.slides(leg.inner, along, -1))

    def due(self, number: int) -> Iterator[tuple[Entry, Block | None]]:
        """Transfers that a piece carries out, each with the block from which its window has slid."""
        before, now = self.pieces[number - 1], self.pieces[number]
        # The outermost shared loop that has gone on since the piece before.
        turned = next(i for i, at in enumerate(now.at) if at != before.at[i]) if number else -1
        for entry in self.entries:
            if turned <= entry.depth:
                yield entry, before.block if entry.slides and turned == entry.depth else None

    def begin_piece(self, number: int, out: Counts) -> Sums:
        """Carries out the transfers that are due; the sums as the layer's own loops find them."""
        index, final = (piece.at[self._reduced or 0] for piece in (self.pieces[number], self.pieces[-1]))
        goes_on, last = self._reduced is not None and index > 0, self._reduced is None or index == final
        held, due = ALL if goes_on else 0, {entry.leg: previous for entry, previous in self.due(number)}
        for entry in self.entries:
            if entry.leg in due:
                stay = self._reduced is not None and self._reduced > entry.depth
                state = Sums(held, last or stay)
                held = self.traffic.move(entry.leg, self.pieces[number].block, due[entry.leg], state, out).held
            elif self.traffic.legs[entry.leg].tensor == "O":
                held = ALL
        return Sums(held, last)

    def total(self) -> Counts:
        """What all pieces move."""
        out = self.traffic.zeros()
        for number, piece in enumerate(self.pieces):
            out += self.traffic.below(0, piece.block, self.begin_piece(number, out))
        return out
