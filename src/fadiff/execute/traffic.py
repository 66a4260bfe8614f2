"""How many values move while a nest runs: every turn of every loop, lanes in lockstep, blocks alike looked up.

What the loops below some item move depends only on the lengths of the block they are given, on where it lies if some
of its input is padding, and on which of its sums are there already. So a block is walked once and remembered.
Counts are vectors: steps, MACs, and the slots of each leg.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from fadiff.execute.legs import ALL, Counts, Leg, Sums
from fadiff.execute.nest import REDUCED, RELEVANT, Block, C, Lanes, Loop, Nest, P, Q, R, S, ceil_div, lines_read
from fadiff.execute.plan import Piece
from fadiff.execute.role import Role

STEPS, MACS, FIRST_LEG = range(3)


class Traffic:
    """The walk over a layer's own loops."""

    def __init__(self, nest: Nest, role: Role) -> None:
        self.nest, self.legs, slot = nest, list[Leg](), FIRST_LEG
        for tensor, chain in role.chains.items():
            for outer, inner in pairwise((*chain, nest.macs)):
                self.legs.append(Leg(nest, role, tensor, outer, inner, slot))
                slot = self.legs[-1].slots.stop
        places = range(len(nest.items) + 1)
        self._at = [[leg for leg in self.legs if leg.place == item] for item in places]
        self._images = [[image for leg in self.legs if leg.place >= item for image in leg.images] for item in places]
        self._offsets = [[nest.offsets(d, items) for d in (P, Q, R, S)] for items in places]
        self._known: dict[object, Counts] = {}

    def zeros(self) -> Counts:
        """No counts yet."""
        return np.zeros(self.legs[-1].slots.stop, np.int64)

    def turns(self, item: int, block: Block, sums: Sums) -> Iterator[tuple[Block, Sums]]:
        """The blocks of all turns of a loop, with the state of their sums."""
        loop = self.nest.items[item]
        assert isinstance(loop, Loop)
        count = ceil_div(block.lens[loop.dim][0], loop.step)  # until the first lane is done: none has more to do
        for i in range(count):
            state = Sums(ALL if i else sums.held, sums.last and i == count - 1) if loop.dim in REDUCED else sums
            yield block.into(loop, i), state

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
            return self.below(item + 1, block.into(here), sums)
        total, previous = self.zeros(), None
        for now, state in self.turns(item, block, sums):
            total += self.below(item + 1, now, self._begin_turn(item, now, previous, state, total))
            previous = now
        return total

    def _begin_turn(self, item: int, block: Block, previous: Block | None, sums: Sums, out: Counts) -> Sums:
        """Carries out all transfers that stand in a loop; `previous` is the block one turn ago."""
        for leg in self._at[item]:
            sums = leg.move(block, previous if leg.slides else None, sums, out)
        return sums

    def _where(self, item: int, block: Block) -> tuple[int | None, ...]:
        """Where the input of a block starts, rows and columns, as far as padding makes a difference."""
        if not self._images[item]:
            return ()
        placed = zip(self._offsets[item], block.lens[P:], strict=True)
        reach = [0] * P + [max(at + n for at, n in zip(*lanes, strict=True) if n) for lanes in placed]
        spans = [lines_read(self.nest.layer, axis, block.starts, reach) for axis in (0, 1)]
        return tuple(
            None if all(image[axis][0] <= first and end <= image[axis][1] for image in self._images[item]) else first
            for axis, (first, end) in enumerate(spans)
        )


class SharedWalk:
    """The shared loops as one layer goes through them, piece by piece, with the transfers that stand in them.

    `dims` are the layer's dims of the shared loops, outermost first. A loop counts if the pieces differ in its index.
    """

    def __init__(self, traffic: Traffic, dims: Sequence[int], pieces: Sequence[Piece]) -> None:
        self.traffic, self.pieces = traffic, pieces
        running = [i for i in range(len(dims)) if len({piece.at[i] for piece in pieces}) > 1]
        # A shared loop over C, the channel loop of its consumer, goes on with the same sums.
        self._reduced = next((i for i in running if dims[i] == C), -1)
        self.depth: dict[Leg, int] = {}
        """By leg whose transfer stands in none of the layer's own loops: in which shared loop it does; -1: in none."""
        self._sliding = set[Leg]()
        for leg in (leg for leg in traffic.legs if leg.place == -1):
            self.depth[leg] = max((i for i in running if leg.forgets or dims[i] in RELEVANT[leg.tensor]), default=-1)
            lasts = running and leg.tensor == "I" and not leg.forgets and not traffic.nest.loops(leg.inner)
            if lasts and traffic.nest.slides(leg.inner, dims[running[-1]], -1):
                self._sliding.add(leg)

    def due(self, number: int) -> dict[Leg, Block | None]:
        """Transfers that a piece carries out, each with the block from which its window has slid."""
        before, now = self.pieces[number - 1], self.pieces[number]
        # The outermost shared loop that has gone on since the piece before.
        turned = next(i for i, at in enumerate(now.at) if at != before.at[i]) if number else -1
        due = {leg: depth for leg, depth in self.depth.items() if turned <= depth}
        return {leg: before.block if leg in self._sliding and turned == depth else None for leg, depth in due.items()}

    def begin_piece(self, number: int, out: Counts) -> Sums:
        """Carries out the transfers that are due; the sums as the layer's own loops find them."""
        index, final = (piece.at[self._reduced] for piece in (self.pieces[number], self.pieces[-1]))
        last, due = self._reduced < 0 or index == final, self.due(number)
        held = ALL if self._reduced >= 0 and index > 0 else 0
        for leg, depth in self.depth.items():
            if leg in due:
                state = Sums(held, last or self._reduced > depth)
                held = leg.move(self.pieces[number].block, due[leg], state, out).held
            elif leg.tensor == "O":
                held = ALL
        return Sums(held, last)

    def total(self) -> Counts:
        """What all pieces move."""
        out = self.traffic.zeros()
        for number, piece in enumerate(self.pieces):
            out += self.traffic.below(0, piece.block, self.begin_piece(number, out))
        return out
