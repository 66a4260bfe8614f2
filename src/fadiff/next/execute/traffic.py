"""How many values move while a nest runs: every turn of every loop, lanes in lockstep, blocks alike looked up.

What the loops below some item move depends only on the lengths of the block they are given, on where it lies if some
of its input is padding, and on which of its sums are there already. So a block is walked once and remembered.

Counts are vectors: steps, MACs, and for each leg its slots. W and I: values written at the inner end, read at the outer
end, and how many would be read without padding, once for each image the operand is put together from. O: sums that
leave the inner end, how many of these are finished, sums that arrive at the outer end, how many of these are finished,
and sums that come back because they were not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fadiff.next.execute.legs import ALL, Image, LegTraffic, Sums
from fadiff.next.execute.nest import IMAGE, REDUCED, Block, Lanes, Lens, Loop, Nest

Counts = NDArray[np.int64]
STEPS, MACS, FIRST_LEG = range(3)


class Traffic:
    """The walk over a layer's own loops. `images` are those of its input, by the memory where they lie."""

    def __init__(self, nest: Nest, images: Mapping[int, Iterable[Image]]) -> None:
        self.nest = nest
        padded = {leg: tuple(images.get(leg.outer, ())) if leg.tensor == "I" else () for leg in nest.legs}
        self.legs = [LegTraffic(nest, leg, padded[leg]) for leg in nest.legs]
        self.slot = [FIRST_LEG + sum(leg.slots for leg in self.legs[:i]) for i in range(len(self.legs) + 1)]
        self._at = [[i for i, leg in enumerate(nest.legs) if leg.place == item] for item in range(len(nest.items) + 1)]
        self._last_padded = max((leg.place for leg in nest.legs if padded[leg]), default=-1)
        self._images = [image for leg in self.legs for image in leg.images]
        self._offsets = [[nest.offsets(d, items) for d in range(8)] for items in range(len(nest.items) + 1)]
        self._known: dict[object, Counts] = {}

    def zeros(self) -> Counts:
        """No counts yet."""
        return np.zeros(self.slot[-1], np.int64)

    def turns(self, item: int, block: Block, sums: Sums) -> Iterator[tuple[Block, Sums]]:
        """The blocks of all turns of a loop, with the state of their sums."""
        loop = self.nest.items[item]
        assert isinstance(loop, Loop)
        count = block.turns(loop)
        for i in range(count):
            state = Sums(ALL if i else sums.held, sums.last and i == count - 1) if loop.dim in REDUCED else sums
            yield block.turn(loop, i), state

    def move(self, leg: int, block: Block, previous: Block | None, sums: Sums, out: Counts) -> Sums:
        """Carries out the transfer of a leg."""
        traffic, slot = self.legs[leg], self.slot[leg]
        if traffic.leg.tensor == "O":
            values, sums = traffic.outputs(block, sums)
        else:
            values = traffic.operand(block, previous)
        out[slot : slot + len(values)] += values
        return sums

    def begin_turn(self, item: int, block: Block, previous: Block | None, sums: Sums, out: Counts) -> Sums:
        """Carries out all transfers that stand in a loop; `previous` is the block one turn ago."""
        for leg in self._at[item]:
            sums = self.move(leg, block, previous if self.nest.legs[leg].slides else None, sums, out)
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
            out[STEPS], out[MACS] = 1, np.prod([sum(lens) for lens in block.lens])
            self.begin_turn(item, block, None, sums, out)
            return out
        here = self.nest.items[item]
        if isinstance(here, Lanes):
            return self.below(item + 1, block.dealt(here), sums)
        total, alike, previous, before = self.zeros(), dict[object, Counts](), None, None
        for now, state in self.turns(item, block, sums):
            key = (now.lens[here.dim], state, *self._where(item, now), before)
            if key not in alike:
                out = self.zeros()
                inner = self.begin_turn(item, now, previous, state, out)
                alike[key] = out + self.below(item + 1, now, inner)
            total += alike[key]
            previous, before = now, (now.lens[here.dim], *self._where(item, now))
        return total

    def _where(self, item: int, block: Block) -> tuple[int | None, int | None]:
        """Where the input of a block starts, rows and columns, as far as padding makes a difference."""
        if item > self._last_padded:
            return None, None
        return self._border(0, item, block), self._border(1, item, block)

    def _border(self, axis: int, item: int, block: Block) -> int | None:
        first, end = self.lines(axis, block, self._offsets[item])
        inside = all(image[axis][0] <= first and end <= image[axis][1] for image in self._images)
        return None if inside else first

    def lines(self, axis: int, block: Block, offsets: Sequence[Lens]) -> tuple[int, int]:
        """First and end of the rows or columns that a block reads."""
        layer = self.nest.layer
        first, end = 0, 1
        for d, step in zip(IMAGE[axis], (layer.stride[axis], layer.dilation[axis]), strict=True):
            first += block.starts[d] * step
            end += (max(at + n for at, n in zip(offsets[d], block.lens[d], strict=True) if n) - 1) * step
        return first, first + end
