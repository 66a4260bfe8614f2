"""From values that moved on each leg to bits at each memory: widths, fused tensors, and finished outputs.

A fused tensor, a finished output and an addend have the width of O; a sum that of sums, in the first memory that of
spilled ones. A finished output further out than the innermost keeper of O is counted as the epilogue stores it.
"""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from fadiff.next.execute.legs import ARRIVING, DATA, FINISHED, LEAVING, LEAVING_FINISHED, READ, RELOADED, WRITTEN
from fadiff.next.execute.result import Access, Way
from fadiff.next.execute.role import Role
from fadiff.next.execute.traffic import Counts, Traffic
from fadiff.next.hardware import Machine
from fadiff.workload import Layer

Ledger = Counter[Access]
"""Bits by kind of access."""

class Moved(NamedTuple):
    """Values that really moved on a leg: those wanted, and those of them that are data and no padding."""

    wanted: int
    data: int



class Bookkeeper:
    """Books what one layer moves."""

    def __init__(self, machine: Machine, layer: Layer, role: Role) -> None:
        self._machine, self._layer, self._role = machine, layer, role
        self._bits = {"W": machine.bits.W, "I": machine.bits.I}
        self._fused_share = {"W": Fraction(role.fused_weight), "I": role.fused_input}

    def moves(self, traffic: Traffic, counts: Counts, moved: Mapping[int, Moved], stored: int) -> Ledger:
        """Bits of all legs of a MAC layer, padding included.

        `moved` takes the place of counted values, by leg; `stored` values of the output were written where it goes.
        """
        book = Ledger()
        for number, leg in enumerate(traffic.nest.legs):
            values = [int(value) for value in counts[traffic.slot[number] : traffic.slot[number + 1]]]
            if leg.tensor == "O":
                self._outputs(book, leg.outer, leg.inner, traffic.nest.macs, values, stored)
                continue
            fetched = 1 - self._fused_share[leg.tensor] if leg.outer == 0 else Fraction(1)
            written, read = values[WRITTEN] * fetched, values[READ] * fetched
            if number in moved:
                written = read = Fraction(moved[number].wanted)
            self._add(book, leg.outer, leg.tensor, "read", read * self._read_bits(leg.tensor, leg.outer))
            if leg.inner != traffic.nest.macs:
                self._add(book, leg.inner, leg.tensor, "write", written * self._bits[leg.tensor])
        return book

    def padding(self, traffic: Traffic, counts: Counts, moved: Mapping[int, Moved]) -> Ledger:
        """Bits of padding that would have been read."""
        book = Ledger()
        for number, leg in enumerate(traffic.nest.legs):
            if leg.tensor != "I" or leg.outer not in self._role.images:
                continue
            slot = traffic.slot[number]
            read, *data = (int(value) for value in counts[slot + READ : traffic.slot[number + 1]])
            shares = self._role.images[leg.outer].values()
            missed = sum((share * (read - left) for share, left in zip(shares, data, strict=True)), Fraction(0))
            if number in moved:
                missed = Fraction(moved[number].wanted - moved[number].data)
            bits = self._machine.bits.I if leg.outer == 0 else self._machine.bits.O
            self._add(book, leg.outer, "I", "read", missed * bits)
        return book

    def addends(self, fused: int, unfused: int, computed: int, stored: int) -> Ledger:
        """Bits of an add layer: operands come in through the keepers of O, the result leaves the same way."""
        book, bits = Ledger(), self._machine.bits
        keepers, fuses = self._machine.structure.keepers("O"), self._role.fuses
        innermost, macs = keepers[-1], len(self._machine.nodes)
        self._add(book, 0, "O", "read", unfused * bits.O)
        if fuses is not None:
            self._add(book, fuses, "O", "read", fused * bits.O)
        for node in keepers[1:-1]:
            passing = unfused + (fused if fuses is not None and node > fuses else 0)
            self._add(book, node, "O", "write", passing * bits.O)
            self._add(book, node, "O", "read", passing * bits.O)
        self._add(book, innermost, "O", "write", (fused + unfused) * bits.sums)
        for outer, inner in zip(keepers, keepers[1:], strict=False):
            self._outputs(book, outer, inner, macs, [computed, computed, computed, computed, 0], stored)
        return book

    def _outputs(self, book: Ledger, outer: int, inner: int, macs: int, values: list[int], stored: int) -> None:
        """One leg of O. Where the memory that fuses is passed by, a fused tensor leaves twice if somebody outside
        reads it too; keepers further out see it in this case only."""
        bits, fuses, role = self._machine.bits, self._role.fuses, self._role
        innermost = self._machine.structure.keepers("O")[-1]
        if inner == macs:
            self._add(book, outer, "O", "write", values[ARRIVING] * bits.sums)
            self._add(book, outer, "O", "read", values[RELOADED] * bits.sums)
            return
        fused = role.fused_output and fuses is not None
        if fused and inner <= (fuses or 0) and not role.drained:
            return
        beside = fused and outer < (fuses or 0) < inner
        usual = role.drained or not beside
        shrunk = Fraction(self._layer.stored_words, self._layer.output_words) * bits.O
        sums = bits.spilled if outer == 0 else bits.sums
        done = 0 if inner == innermost else values[LEAVING_FINISHED]
        self._add(book, inner, "O", "read", (beside + usual) * ((values[LEAVING] - done) * bits.sums + done * shrunk))
        if beside:
            self._add(book, fuses or 0, "O", "write", stored * bits.O)
        if usual:
            done = stored * bits.O if outer == 0 or (fused and outer == fuses) else values[FINISHED] * shrunk
            self._add(book, outer, "O", "write", done + (values[ARRIVING] - values[FINISHED]) * sums)
            self._add(book, outer, "O", "read", values[RELOADED] * sums)
            self._add(book, inner, "O", "write", values[RELOADED] * bits.sums)

    def _read_bits(self, tensor: str, outer: int) -> Fraction:
        """Width of a value of W or I where it is read: the fused share of it has that of O in the memory that fuses."""
        if outer != self._role.fuses:
            return Fraction(self._bits[tensor])
        share = self._fused_share[tensor]
        return share * self._machine.bits.O + (1 - share) * self._bits[tensor]

    def _add(self, book: Ledger, node: int, tensor: str, way: Way, bits: Fraction | int) -> None:
        whole = int(bits)
        assert whole == bits, "values come whole"
        book[Access(self._machine.nodes[node].name, tensor, way)] += whole
