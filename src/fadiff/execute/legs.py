"""The legs of the way that a tensor takes through the memories, and what each moves for a block.

A transfer is an instruction of the nest. It stands in the innermost loop above a memory that moves the tile there, so
it is carried out on every turn of that loop, whatever a cut end has left of the tile, and the loops further in find it
there. Lanes run in lockstep, and what several of them want is read once.
"""

from functools import cache, reduce
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadiff.execute.nest import IMAGE, REDUCED, RELEVANT, Block, Lens, Nest, P, Q, R, S, pitch
from fadiff.execute.role import Role

Counts = NDArray[np.int64]
LEAVING, LEAVING_FINISHED, ARRIVING, FINISHED, RELOADED = range(5)
"""Slots of O: sums that leave the inner end, those of them that are finished, sums that arrive at the outer end, those
of them that are finished, and sums that come back because they were not."""
ALL = -1


class Sums(NamedTuple):
    """The sums that a block adds to.

    `held` is how many instances of the keeper above, of those that differ in C, R, S only, have them already: `ALL` if
    everyone has worked on them before. `last` says that nobody will work on them again.
    """

    held: int
    last: bool


class Leg:
    """One leg of a tensor's way: between a memory, or the MACs, and the next keeper of the tensor outwards.

    `place` is the number of the item, a loop, in which the transfer stands: -1 if none of the layer's own loops moves
    the tile, past the last item for the MACs, which want new values on every step. A window that `slides` along the
    loop is brought what it did not hold one turn ago, and every row or column in between. `images` are those parts of
    an input with padding that lie at the outer end. A leg `forgets` if other layers use its inner end in between: it
    is not home of what comes from the first memory. Its counts are the `slots` of a vector, from `slot` on.
    """

    def __init__(self, nest: Nest, role: Role, tensor: str, outer: int, inner: int, slot: int) -> None:
        self.tensor, self.outer, self.inner = tensor, outer, inner
        self.images = tuple(role.images.get(outer, ())) if tensor == "I" else ()
        self.forgets = not role.alone and (outer > 0 or inner == nest.macs)
        self.slots = slice(slot, slot + (RELOADED + 1 if tensor == "O" else 2 + len(self.images)))
        loops, above = nest.loops(inner), nest.above(inner)
        self.place, self.slides = max((i for i, loop in loops if loop.dim in RELEVANT[tensor]), default=-1), False
        if inner == nest.macs:
            self.place = len(nest.items)
        elif tensor == "I" and loops:
            self.slides = nest.slides(inner, loops[-1][1].dim, loops[-1][0])
        self._nest, self._below = nest, nest.items[self.place + 1 : above]
        self._own = [d for d in RELEVANT[tensor] if tensor != "I" or d not in (P, Q, R, S)]
        # Lanes that differ in other dims only want the same values, or add to the same sums: these pass once.
        self._copies = [(d, nest.lanes(d, outer, inner)) for d in range(8) if d not in RELEVANT[tensor]]
        self._offsets = [nest.offsets(d, above) for d in range(8)]
        # Whether one instance at the outer, and at the inner end gets all terms of a sum.
        self._whole = [all(nest.lanes(d, -1, node) == 1 for d in REDUCED) for node in (outer, inner)]
        self._lines = cache(self._count_lines)

    def move(self, block: Block, previous: Block | None, sums: Sums, out: Counts) -> Sums:
        """Carries out the transfer: counts it in `out`, and tells the sums as the instances at the inner end find them.

        `previous` is the block one turn ago, if the window has slid since. Slots of W and I: values written at the
        inner end, read at the outer end, and then, for each image that the operand is put together from, how many would
        be read if all of it were that image, without its padding.
        """
        here = reduce(Block.into, self._below, block)
        values = prod(sum(here.lens[d]) for d in self._own)
        inner = prod(_active(here.lens[d]) for d, _ in self._copies)
        outer = prod(_active(here.lens[d][::between]) for d, between in self._copies)
        if self.tensor == "O":
            # One of the lanes whose sums are added on the way gets the old sum.
            sums = Sums(outer if sums.held == ALL else sums.held, sums.last)
            arrives, leaves = (sums.last and whole for whole in self._whole)
            moved = [inner, inner * leaves, outer, outer * arrives, sums.held]
        elif self.tensor == "W":
            moved = [inner, outer]
        else:
            before = previous and reduce(Block.into, self._below, previous)
            written, *read = (r * c for r, c in zip(*(self._image_lines(i, here, before) for i in (0, 1)), strict=True))
            moved = [inner * written, *(outer * lines for lines in read)]
        out[self.slots] += [values * n for n in moved]
        return sums

    def _image_lines(self, axis: int, block: Block, previous: Block | None) -> tuple[int, ...]:
        (p, r), by, back = IMAGE[axis], pitch(self._nest.layer), None
        if previous is not None and (previous.starts[p], previous.starts[r]) != (block.starts[p], block.starts[r]):
            slid = [(block.starts[d] - previous.starts[d]) * by[d] for d in (p, r)]
            back = (sum(slid), previous.lens[p], previous.lens[r])
        first = block.starts[p] * by[p] + block.starts[r] * by[r] if self.images else 0
        return self._lines(axis, block.lens[p], block.lens[r], back, first)

    def _count_lines(
        self, axis: int, p: Lens, r: Lens, back: tuple[int, Lens, Lens] | None, first: int
    ) -> tuple[int, ...]:
        """Lines of all pairs of lanes, of P and of R, of which the first starts at `first`.

        `back` says how far the window has slid in one turn, and what the lanes had before.
        """
        stride, dilation = (pitch(self._nest.layer)[d] for d in IMAGE[axis])

        def pairs(outputs: Lens, kernel: Lens) -> NDArray[np.int64]:
            return np.add.outer(np.array(outputs) * stride, np.array(kernel) * dilation)

        starts = pairs(*(self._offsets[d] for d in IMAGE[axis])) + first
        ends = starts + 1 - stride - dilation  # of boxes, before what the lanes have is added
        stops = ends + pairs(p, r)
        begins = starts if back is None else ends + pairs(*back[1:]) - back[0]
        active = np.logical_and.outer(p, r)
        told = active & ~self._shared(axis, starts, p, r)
        lines = stops - begins
        data = [np.clip(stops, *image[axis]) - np.clip(begins, *image[axis]) for image in self.images]
        return int(lines[active].sum()), *(int(part[told].sum()) for part in (lines, *data))

    def _shared(self, axis: int, starts: NDArray[np.int64], p: Lens, r: Lens) -> NDArray[np.bool_]:
        """Pairs of lanes whose tile, whole and uncut, a pair before them wants too.

        Only lanes below the outer end and below the last loop over P and R lie side by side.
        """
        nest, dims, shared = self._nest, IMAGE[axis], np.zeros(starts.shape, np.bool_)
        last = max((i for i, loop in nest.loops(self.inner) if loop.dim in dims), default=-1)
        p_fan, r_fan = (nest.lanes(d, self.outer, self.inner, last) for d in dims)
        if p_fan > 1 and r_fan > 1:
            whole, seen = tuple(nest.held[self.inner][d] for d in dims), set[tuple[int, int, int]]()
            for i, j in product(range(len(p)), range(len(r))):
                if (p[i], r[j]) == whole:
                    tile = (i // p_fan, j // r_fan, int(starts[i, j]))
                    shared[i, j] = tile in seen
                    seen.add(tile)
        return shared


def _active(lens: Lens) -> int:
    """Lanes that have something to do."""
    return len(lens) - lens.count(0)
