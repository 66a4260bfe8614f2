"""From values that moved on each leg to bits at each memory: widths, fused tensors, and finished outputs.

A fused tensor, a finished output and an addend have the width of O; a sum that of sums, in the first memory that of
spilled ones. A finished output further out than the innermost keeper of O is counted as the epilogue stores it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from fadiff.execute.legs import ARRIVING, FINISHED, LEAVING, LEAVING_FINISHED, RELOADED, Counts, Leg
from fadiff.execute.operands import Tile
from fadiff.execute.result import Access, Way
from fadiff.execute.role import Role
from fadiff.execute.traffic import Traffic
from fadiff.hardware import Machine
from fadiff.workload import Layer

Ledger = Counter[Access]
"""Bits by kind of access."""


class Bookkeeper:
    """Books what one layer moves."""

    def __init__(self, machine: Machine, layer: Layer, role: Role) -> None:
        self._machine, self._role = machine, role
        self._bits = {"W": machine.bits.W, "I": machine.bits.I}
        self._innermost = machine.structure.keepers("O")[-1]
        self._finished_bits = Fraction(layer.stored_words, layer.output_words) * machine.bits.O

    def moves(self, traffic: Traffic, counts: Counts, moved: Mapping[Leg, Tile], stored: int) -> tuple[Ledger, Ledger]:
        """Bits of all legs of a MAC layer with padding; and of the padding, which is not read.

        What `moved` to a tile takes the place of counted values, by leg; `stored` values of the output were written
        where it goes.
        """
        book, padding, bits = Ledger(), Ledger(), self._machine.bits
        for leg in traffic.legs:
            values: list[int] = counts[leg.slots].tolist()
            if leg.tensor == "O" and leg.inner == traffic.nest.macs:
                self._add(book, leg.outer, "O", "write", values[ARRIVING] * bits.sums)
                self._add(book, leg.outer, "O", "read", values[RELOADED] * bits.sums)
            elif leg.tensor == "O":
                self._outputs(book, leg.outer, leg.inner, values, stored)
            else:
                written, read, *data = values
                images = zip(leg.images, data, strict=True)
                missed = sum(self._role.images[leg.outer][image] * (read - there) for image, there in images)
                fetched = 1 - self._role.fused[leg.tensor] if leg.outer == 0 else 1
                written, read = written * fetched, read * fetched
                if leg in moved:
                    written = read = moved[leg].wanted
                    missed = read - moved[leg].data
                # Where fused tensors lie, the fused share of W or I has the width of O.
                share = self._role.fused[leg.tensor] if leg.outer == self._role.fuses else 0
                read_bits = share * bits.O + (1 - share) * self._bits[leg.tensor]
                self._add(book, leg.outer, leg.tensor, "read", read * read_bits)
                self._add(padding, leg.outer, leg.tensor, "read", missed * (bits.I if leg.outer == 0 else bits.O))
                if leg.inner != traffic.nest.macs:
                    self._add(book, leg.inner, leg.tensor, "write", written * self._bits[leg.tensor])
        return book, padding

    def addends(self, fused: int, unfused: int, computed: int, stored: int) -> Ledger:
        """Bits of an add layer: operands come in through the keepers of O, the result leaves the same way.

        So many operands are fused, and so many not.
        """
        book, bits = Ledger(), self._machine.bits
        keepers, fused, unfused = self._machine.structure.keepers("O"), fused * computed, unfused * computed
        self._add(book, 0, "O", "read", unfused * bits.O)
        self._add(book, self._role.fuses, "O", "read", fused * bits.O)
        for node in keepers[1:-1]:
            for way in ("write", "read"):
                self._add(book, node, "O", way, (unfused + fused * (node > self._role.fuses)) * bits.O)
        self._add(book, self._innermost, "O", "write", (fused + unfused) * bits.sums)
        for outer, inner in pairwise(keepers):
            self._outputs(book, outer, inner, [*[computed] * 4, 0], stored)
        return book

    def _outputs(self, book: Ledger, outer: int, inner: int, values: Sequence[int], stored: int) -> None:
        """One leg of O between two keepers.

        Where the memory that fuses is passed by, a fused tensor leaves for it, and once more on its usual way if
        somebody outside reads it too. Keepers further out see it in this case only.
        """
        bits, fuses, role = self._machine.bits, self._role.fuses, self._role
        if role.fused_output and inner <= fuses and not role.drained:
            return
        beside = role.fused_output and outer < fuses < inner
        usual = role.drained or not beside
        done = 0 if inner == self._innermost else values[LEAVING_FINISHED]
        left = (values[LEAVING] - done) * bits.sums + done * self._finished_bits
        self._add(book, inner, "O", "read", (beside + usual) * left)
        if beside:
            self._add(book, fuses, "O", "write", stored * bits.O)
        if usual:
            goes_there = outer == 0 or (role.fused_output and outer == fuses)
            sums = bits.spilled if outer == 0 else bits.sums
            arrived = stored * bits.O if goes_there else values[FINISHED] * self._finished_bits
            self._add(book, outer, "O", "write", arrived + (values[ARRIVING] - values[FINISHED]) * sums)
            self._add(book, outer, "O", "read", values[RELOADED] * sums)
            self._add(book, inner, "O", "write", values[RELOADED] * bits.sums)

    def _add(self, book: Ledger, node: int, tensor: str, way: Way, bits: Fraction | int) -> None:
        assert bits == int(bits), "values come whole"
        book[Access(self._machine.nodes[node].name, tensor, way)] += int(bits)
