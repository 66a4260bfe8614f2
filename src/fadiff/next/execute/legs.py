"""What one leg of a tensor's way moves for a block: lanes in lockstep, and what several of them want read once."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from fadiff.next.execute.data import Span
from fadiff.next.execute.nest import IMAGE, REDUCED, RELEVANT, Block, Lanes, Leg, Lens, Loop, Nest, cut, deal

Image = tuple[Span, Span]
"""The rows and the columns of an operand, first and end, that are data: the others are padding."""

LEAVING, LEAVING_FINISHED, ARRIVING, FINISHED, RELOADED = range(5)
"""Slots of O."""
WRITTEN, READ, DATA = range(3)
"""Slots of W and I; from `DATA` on one for each image of I."""
ALL = -1


class Sums(NamedTuple):
    """The sums that a block adds to.

    `held` is how many instances of the keeper above, of those that differ in C, R, S only, have them already: `ALL` if
    everyone has worked on them before. `last` says that nobody will work on them again.
    """

    held: int
    last: bool


class Lines(NamedTuple):
    """Rows or columns of I that move: written, read, and read if only those that are data in each image were."""

    written: int
    read: int
    data: tuple[int, ...]


class LegTraffic:
    """One leg, with what it has found so far. `images` are those at its outer end."""

    def __init__(self, nest: Nest, leg: Leg, images: Sequence[Image]) -> None:
        self.leg, self.images, self._nest = leg, images, nest
        above = nest.above(leg.inner)
        self._below = nest.items[leg.place + 1 : above]
        self._between = [nest.lanes(d, leg.outer, leg.inner) for d in range(8)]
        self._offsets = [nest.offsets(d, above) for d in range(8)]
        self._whole = [
            all(nest.lanes(d, -1, node) == 1 for d in REDUCED) for node in (leg.outer, leg.inner)
        ]  # whether one instance gets all terms of a sum, at the outer and the inner end
        self._lens: dict[tuple[int, Lens], Lens] = {}
        self._lines: dict[object, Lines] = {}

    @property
    def slots(self) -> int:
        """Numbers that the leg counts."""
        return 5 if self.leg.tensor == "O" else DATA + len(self.images)

    def operand(self, block: Block, previous: Block | None) -> tuple[int, ...]:
        """The slots of W or I; `previous` is the block one turn ago, if the window has slid since."""
        written = read = 1
        for d in range(8):
            if self.leg.tensor == "I" and d in (*IMAGE[0], *IMAGE[1]):
                continue
            lens = self._at_inner(block, d)
            if d in RELEVANT[self.leg.tensor]:
                written, read = written * sum(lens), read * sum(lens)
            else:
                # Lanes that differ here only want the same values: they are read once.
                written, read = written * _active(lens), read * _active(lens[:: self._between[d]])
        if self.leg.tensor == "W":
            return written, read
        rows, cols = (self._image_lines(axis, block, previous) for axis in (0, 1))
        data = (read * r * c for r, c in zip(rows.data, cols.data, strict=True))
        return written * rows.written * cols.written, read * rows.read * cols.read, *data

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
        key = (dim, block.lens[dim])
        found = self._lens.get(key)
        if found is None:
            found = block.lens[dim]
            for item in self._below:
                if isinstance(item, Lanes):
                    found = deal(found, item.counts[dim], item.steps[dim])
                elif item.dim == dim:
                    found = cut(found, 0, item.step)
            self._lens[key] = found
        return found

    def _image_lines(self, axis: int, block: Block, previous: Block | None) -> Lines:
        (p, r), stride, dilation = IMAGE[axis], self._nest.layer.stride[axis], self._nest.layer.dilation[axis]
        lens = (self._at_inner(block, p), self._at_inner(block, r))
        low = first = block.starts[p] * stride + block.starts[r] * dilation
        back = None
        if previous is not None and (previous.starts[p], previous.starts[r]) != (block.starts[p], block.starts[r]):
            low = previous.starts[p] * stride + previous.starts[r] * dilation
            back = (low - first, self._at_inner(previous, p), self._at_inner(previous, r))
        end = first + (_reach(lens[0], self._offsets[p]) - 1) * stride + (_reach(lens[1], self._offsets[r]) - 1) * dilation
        padded = any(low < image[axis][0] or end >= image[axis][1] for image in self.images)
        key = (axis, lens, back, first if padded else None)
        if key not in self._lines:
            self._lines[key] = self._count_lines(axis, *lens, back, first if padded else None)
        return self._lines[key]

    def _count_lines(
        self, axis: int, p_lens: Lens, r_lens: Lens, back: tuple[int, Lens, Lens] | None, first: int | None
    ) -> Lines:
        """Rows or columns of all pairs of lanes, over P and R; `first` is where the first pair starts, if it matters."""
        stride, dilation = self._nest.layer.stride[axis], self._nest.layer.dilation[axis]
        at = [np.array(self._offsets[d]) * step for d, step in zip(IMAGE[axis], (stride, dilation), strict=True)]

        def ends(p: Lens, r: Lens) -> np.ndarray:
            return starts + (np.array(p)[:, None] - 1) * stride + (np.array(r) - 1) * dilation + 1

        starts = at[0][:, None] + at[1]
        stops = ends(p_lens, r_lens)
        begins = starts if back is None else ends(back[1], back[2]) + back[0]
        active = (np.array(p_lens) > 0)[:, None] & (np.array(r_lens) > 0)
        lines = np.where(active, stops - begins, 0)
        told = active & ~self._shared(axis, starts, p_lens, r_lens)
        read = int(lines[told].sum())
        if first is None:
            return Lines(int(lines.sum()), read, (read,) * len(self.images))
        data = [np.clip(stops + first, *i[axis]) - np.clip(begins + first, *i[axis]) for i in self.images]
        return Lines(int(lines.sum()), read, tuple(int(of_image[told].sum()) for of_image in data))

    def _shared(self, axis: int, starts: np.ndarray, p_lens: Lens, r_lens: Lens) -> np.ndarray:
        """Pairs of lanes whose whole, uncut tile another pair wants too, and before them.

        Only lanes below the last loop over P and R, and below the outer end, lie side by side.
        """
        shared = np.zeros(starts.shape, bool)
        loops = self._nest.items[: self._nest.above(self.leg.inner)]
        last = max((i for i, item in enumerate(loops) if isinstance(item, Loop) and item.dim in IMAGE[axis]), default=-1)
        p_fan, r_fan = (self._nest.lanes(d, self.leg.outer, self.leg.inner, last) for d in IMAGE[axis])
        if p_fan == 1 or r_fan == 1:
            return shared
        held = [1 if self.leg.inner == self._nest.macs else self._nest.held(self.leg.inner, d) for d in IMAGE[axis]]
        full = (np.array(p_lens) == held[0])[:, None] & (np.array(r_lens) == held[1])
        for p in range(0, len(p_lens), p_fan):
            for r in range(0, len(r_lens), r_fan):
                fan = (slice(p, p + p_fan), slice(r, r + r_fan))
                wanted = np.where(full[fan], starts[fan], -1 - np.arange(p_fan * r_fan).reshape(p_fan, r_fan))
                again = np.ones(wanted.size, bool)
                again[np.unique(wanted, return_index=True)[1]] = False
                shared[fan] = again.reshape(wanted.shape)
        return shared


def _active(lens: Lens) -> int:
    """Lanes that have something to do."""
    return len(lens) - lens.count(0)


def _reach(lens: Lens, offsets: Lens) -> int:
    """How far a block goes, from where it starts to its last lane's end."""
    return max(offset + length for offset, length in zip(offsets, lens, strict=True) if length)
