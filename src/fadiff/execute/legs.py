"""The legs of the way that a tensor takes through the memories, and what each moves for a block.

A transfer is an instruction of the nest. It stands in the innermost loop above a memory that moves the tile there, so
it is carried out on every turn of that loop, whatever a cut end has left of the tile, and the loops further in find it
there. Lanes run in lockstep, and what several of them want is read once.
"""

from functools import cache
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fadiff.execute.nest import IMAGE, REDUCED, RELEVANT, Block, Lanes, Lens, Nest, deal
from fadiff.execute.role import Role

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
    is not home of what comes from the first memory.
    """

    def __init__(self, nest: Nest, role: Role, tensor: str, outer: int, inner: int) -> None:
        self.tensor, self.outer, self.inner = tensor, outer, inner
        self.images = tuple(role.images.get(outer, ())) if tensor == "I" else ()
        self.forgets = not role.alone and (outer > 0 or inner == nest.macs)
        self.slots = RELOADED + 1 if tensor == "O" else 2 + len(self.images)
        loops, above = nest.loops(inner), nest.above(inner)
        self.place, self.slides = max((i for i, loop in loops if loop.dim in RELEVANT[tensor]), default=-1), False
        if inner == nest.macs:
            self.place = len(nest.items)
        elif tensor == "I" and loops:
            self.slides = nest.slides(inner, loops[-1][1].dim, loops[-1][0])
        self._nest, self._below = nest, nest.items[self.place + 1 : above]
        self._between = [nest.lanes(d, outer, inner) for d in range(8)]
        self._offsets = [np.array(nest.offsets(d, above)) for d in range(8)]
        # Whether one instance at the outer, and at the inner end gets all terms of a sum.
        self._whole = [all(nest.lanes(d, -1, node) == 1 for d in REDUCED) for node in (outer, inner)]
        self._lines = cache(self._count_lines)

    def operand(self, block: Block, previous: Block | None) -> tuple[int, ...]:
        """The slots of W or I; `previous` is the block one turn ago, if the window has slid since.

        Values written at the inner end, read at the outer end, and then, for each image that the operand is put
        together from, how many would be read if all of it were that image, without its padding.
        """
        written = read = 1
        for d in range(8):
            if self.tensor == "I" and d in (*IMAGE[0], *IMAGE[1]):
                continue
            lens = self._at_inner(block, d)
            if d in RELEVANT[self.tensor]:
                written, read = written * sum(lens), read * sum(lens)
            else:
                # Lanes that differ here only want the same values: they are read once.
                written, read = written * _active(lens), read * _active(lens[:: self._between[d]])
        if self.tensor == "W":
            return written, read
        rows, cols = (self._image_lines(axis, block, previous) for axis in (0, 1))
        others = (written, *(read,) * (len(rows) - 1))
        return tuple(n * r * c for n, r, c in zip(others, rows, cols, strict=True))

    def outputs(self, block: Block, sums: Sums) -> tuple[tuple[int, ...], Sums]:
        """The slots of O, and the sums as the instances at the inner end find them.

        Sums of lanes that differ in C, R, S are added on the way, and one of these lanes gets the old sum.
        """
        lens = [self._at_inner(block, d) for d in range(8)]
        values = prod(sum(lens[d]) for d in RELEVANT["O"])
        leaving = values * prod(_active(lens[d]) for d in REDUCED)
        instances = prod(_active(lens[d][:: self._between[d]]) for d in REDUCED)
        held = instances if sums.held == ALL else sums.held
        outer, inner = (sums.last and whole for whole in self._whole)
        arriving = values * instances
        return (leaving, leaving * inner, arriving, arriving * outer, values * held), Sums(held, sums.last)

    def _at_inner(self, block: Block, dim: int) -> Lens:
        """What the lanes above the inner end have of a dim when the transfer is carried out."""
        found = block.lens[dim]
        for item in self._below:
            if isinstance(item, Lanes):
                found = deal(found, item.steps[dim], item.counts[dim])
            elif item.dim == dim:
                found = deal(found, item.step)
        return found

    def _image_lines(self, axis: int, block: Block, previous: Block | None) -> tuple[int, ...]:
        (p, r), stride, dilation = IMAGE[axis], self._nest.layer.stride[axis], self._nest.layer.dilation[axis]
        first = block.starts[p] * stride + block.starts[r] * dilation
        lens, back = (self._at_inner(block, p), self._at_inner(block, r)), None
        if previous is not None and (previous.starts[p], previous.starts[r]) != (block.starts[p], block.starts[r]):
            before = previous.starts[p] * stride + previous.starts[r] * dilation
            back = (before - first, self._at_inner(previous, p), self._at_inner(previous, r))
        return self._lines(axis, *lens, back, first if self.images else 0)

    def _count_lines(
        self, axis: int, p: Lens, r: Lens, back: tuple[int, Lens, Lens] | None, first: int
    ) -> tuple[int, ...]:
        """Lines of all pairs of lanes, of P and of R, of which the first starts at `first`.

        `back` says where that one started one turn ago, against `first`, and what the lanes had then.
        """
        stride, dilation = self._nest.layer.stride[axis], self._nest.layer.dilation[axis]
        starts = self._offsets[IMAGE[axis][0]][:, None] * stride + self._offsets[IMAGE[axis][1]] * dilation + first

        def stops_of(outputs: Lens, kernel: Lens) -> NDArray[np.int64]:
            return starts + (np.array(outputs)[:, None] - 1) * stride + (np.array(kernel) - 1) * dilation + 1

        stops = stops_of(p, r)
        begins = starts if back is None else stops_of(*back[1:]) + back[0]
        active = (np.array(p) > 0)[:, None] & (np.array(r) > 0)
        told = active & ~self._shared(axis, starts, p, r)
        lines = stops - begins
        data = [np.clip(stops, *image[axis]) - np.clip(begins, *image[axis]) for image in self.images]
        return int(lines[active].sum()), *(int(part[told].sum()) for part in (lines, *data))

    def _shared(self, axis: int, starts: NDArray[np.int64], p: Lens, r: Lens) -> NDArray[np.bool_]:
        """Pairs of lanes whose tile, whole and uncut, a pair before them wants too.

        Only lanes below the outer end and below the last loop over P and R lie side by side.
        """
        nest, dims = self._nest, IMAGE[axis]
        last = max((i for i, loop in nest.loops(self.inner) if loop.dim in dims), default=-1)
        p_fan, r_fan = (nest.lanes(d, self.outer, self.inner, last) for d in dims)
        if p_fan == 1 or r_fan == 1:
            return np.zeros(starts.shape, np.bool_)
        whole_p, whole_r = (nest.held[self.inner][d] for d in dims)
        shared = (np.array(p) == whole_p)[:, None] & (np.array(r) == whole_r)
        fan = (np.arange(len(p)) // p_fan)[:, None] * len(r) + np.arange(len(r)) // r_fan
        wanted = np.stack([fan[shared], starts[shared]])
        again = np.ones(wanted.shape[1], np.bool_)
        again[np.unique(wanted, axis=1, return_index=True)[1]] = False
        shared[shared] = again
        return shared


def _active(lens: Lens) -> int:
    """Lanes that have something to do."""
    return len(lens) - lens.count(0)
