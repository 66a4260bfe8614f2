"""Transfers that stand in the loops a group shares: which of them each piece of a layer carries out."""

from collections.abc import Sequence
from typing import NamedTuple

from fadiff.next.execute.legs import ALL, Sums
from fadiff.next.execute.nest import RELEVANT, C, Loop
from fadiff.next.execute.plan import Indices, Piece
from fadiff.next.execute.traffic import Counts, Traffic


class Entry(NamedTuple):
    """A leg whose transfer stands in the shared loop number `depth`, or outside of all of them (-1)."""

    leg: int
    depth: int
    slides: bool


class SharedWalk:
    """The shared loops as one layer goes through them, piece by piece.

    `dims` are the layer's dims of the shared loops, outermost first; `forgets` the legs whose inner end other layers
    use in between, so that nothing is left there. A loop counts if the pieces differ in its index.
    """

    def __init__(self, traffic: Traffic, dims: Sequence[int], pieces: Sequence[Piece], forgets: frozenset[int]) -> None:
        self.pieces = pieces
        self._traffic = traffic
        counts = [len({piece.at[i] for piece in pieces}) for i in range(len(dims))]
        self._running = [i for i, count in enumerate(counts) if count > 1]
        self._dims = dims
        # A shared loop over C, the channel loop of its consumer, goes on with the same sums.
        self._reduced = next((i for i in self._running if dims[i] == C), None)
        self._last = max((piece.at[self._reduced] for piece in pieces), default=0) if self._reduced is not None else 0
        self.entries = [self._entry(i, i in forgets) for i, leg in enumerate(traffic.nest.legs) if leg.place == -1]

    def turned(self, number: int) -> int:
        """The outermost shared loop that has gone on since the piece before: -1 for the first piece."""
        if number == 0:
            return -1
        pairs = zip(self.pieces[number - 1].at, self.pieces[number].at, strict=True)
        return next(i for i, (before, now) in enumerate(pairs) if before != now)

    def begin_piece(self, number: int, out: Counts) -> tuple[Sums, list[Entry]]:
        """Carries out the transfers that are due; the sums as the layer's own loops find them, and what was due."""
        turned, block = self.turned(number), self.pieces[number].block
        index = self.pieces[number].at[self._reduced] if self._reduced is not None else 0
        last = self._reduced is None or index == self._last
        sums = Sums(ALL if index else 0, last)
        due: list[Entry] = []
        for entry in self.entries:
            if turned <= entry.depth:
                due.append(entry)
                stays = self._reduced is not None and self._reduced > entry.depth
                state = Sums(sums.held, last or stays)
                sums = self._traffic.move(entry.leg, block, self.slid_from(number, entry), state, out)
            elif self._traffic.nest.legs[entry.leg].tensor == "O":
                sums = Sums(ALL, last)
        return Sums(sums.held, last), due

    def slid_from(self, number: int, entry: Entry) -> "Block | None":
        """The block from which the window has slid to this piece, if it has."""
        return self.pieces[number - 1].block if entry.slides and self.turned(number) == entry.depth else None

    def total(self) -> Counts:
        """What all pieces move."""
        out = self._traffic.zeros()
        for number, piece in enumerate(self.pieces):
            sums, _ = self.begin_piece(number, out)
            out += self._traffic.below(0, piece.block, sums)
        return out

    def _entry(self, number: int, forgets: bool) -> Entry:
        nest = self._traffic.nest
        leg = nest.legs[number]
        moving = [i for i in self._running if forgets or self._dims[i] in RELEVANT[leg.tensor]]
        depth = max(moving, default=-1)
        own = any(isinstance(item, Loop) for item in nest.items[: nest.above(leg.inner)])
        slides = (
            leg.tensor == "I"
            and not (own or forgets)
            and bool(self._running)
            and nest.slides(leg.inner, self._dims[self._running[-1]], -1)
        )
        return Entry(number, depth, slides)
