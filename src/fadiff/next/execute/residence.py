"""What a MAC layer's tiles take of each memory: while it runs, and until its next piece."""

from fractions import Fraction
from math import ceil, prod

from fadiff.next.execute.legs import ARRIVING, FINISHED
from fadiff.next.execute.nest import RELEVANT, Block, C, G, Leg, N
from fadiff.next.execute.operands import Inputs, input_box
from fadiff.next.execute.role import Role
from fadiff.next.execute.shared import SharedWalk
from fadiff.next.execute.traffic import Counts, Traffic
from fadiff.next.hardware import Machine

Held = dict[tuple[int, str], int]
"""Bits in one instance of a memory, by node and tensor."""


class Residence:
    """The tiles of one MAC layer. `tiles` counts what all its tiles move, for the state in which sums arrive."""

    def __init__(self, machine: Machine, role: Role, traffic: Traffic, inputs: Inputs, tiles: Counts) -> None:
        self._machine, self._role, self._nest, self._inputs = machine, role, traffic.nest, inputs
        self._legs = [leg for leg in traffic.nest.legs if leg.inner != traffic.nest.macs]
        innermost = machine.structure.keepers("O")[-1]
        # Keepers of O, but for the innermost, that see finished outputs only hold what the epilogue leaves of them.
        self._finished: set[int] = set()
        for leg, slot in zip(traffic.nest.legs, traffic.slot, strict=False):
            if leg.tensor == "O" and leg.outer != innermost and tiles[slot + ARRIVING] == tiles[slot + FINISHED]:
                self._finished.add(leg.outer)

    def running(self, block: Block) -> Held:
        """While a piece runs: the tiles of its first turn, which are the largest."""
        return {(leg.inner, leg.tensor): self._bits(leg, block) for leg in self._legs}

    def kept(self, walk: SharedWalk, number: int) -> Held:
        """When a piece is done: tiles that the next piece finds there, or the part of a window that it does."""
        found: Held = dict.fromkeys(((leg.inner, leg.tensor) for leg in self._legs), 0)
        if number + 1 < len(walk.pieces):
            turned, block, following = walk.turned(number + 1), walk.pieces[number].block, walk.pieces[number + 1].block
            for entry in walk.entries:
                leg = self._nest.legs[entry.leg]
                if turned > entry.depth:
                    found[leg.inner, leg.tensor] = self._bits(leg, block)
                elif entry.slides and turned == entry.depth:
                    found[leg.inner, leg.tensor] = self._bits(leg, block, following)
        return found

    def _bits(self, leg: Leg, block: Block, following: Block | None = None) -> int:
        """A tile; of a window, the part of it that is in the following one too."""
        bits, role = self._machine.bits, self._role
        lens = self._lens(leg, block)
        if leg.tensor == "O":
            away = role.fused_output and role.fuses is not None and leg.inner <= role.fuses
            if away and (leg.inner == role.fuses or not role.drained):
                return 0  # what is fused is in its buffer, and nowhere further out
            width = Fraction(bits.sums)
            if leg.inner in self._finished:
                width = Fraction(self._nest.layer.stored_words, self._nest.layer.output_words) * bits.O
            return ceil(prod(lens[d] for d in RELEVANT["O"]) * width)
        if leg.tensor == "W":
            return prod(lens[d] for d in RELEVANT["W"]) * bits.W
        channels = self._inputs.most_unfused(lens[G], lens[C]) if leg.outer == 0 else lens[G] * lens[C]
        box = input_box(self._nest.layer, block.starts, lens)
        lines = [end - first for first, end in box[3:]]
        if following is not None:
            after = input_box(self._nest.layer, following.starts, self._lens(leg, following))
            lines = [max(0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in zip(box[3:], after[3:], strict=True)]
        return lens[N] * channels * prod(lines) * bits.I

    def _lens(self, leg: Leg, block: Block) -> list[int]:
        return [min(lens[0], self._nest.held(leg.inner, d)) for d, lens in enumerate(block.lens)]
