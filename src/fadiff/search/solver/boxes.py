"""Boxes of trips, parted further for some layers than for others.

All boxes are cut out of the same few first ones, each into two at most: a tree. A layer has boxes up to where it was
parted last, its *leaves*, so those of two layers are the same, apart, or one lies within the other. Layers that are
fused agree on the smallest box that both know: if one has it in parts, on all of these together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fadiff.search.solver.sharing import halves

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fadiff.search.solver.sharing import Box


class Boxes:
    """The boxes of trips of a network, by number, and which of them each layer has."""

    def __init__(self, first: Sequence[Box], layers: Collection[str]) -> None:
        self.all = list(first)
        self._first = range(len(first))
        self._whole: list[int | None] = [None] * len(first)
        """By box: the one that it was cut out of."""
        self._halves: dict[int, tuple[int, int]] = {}
        self._parted: dict[str, set[int]] = {name: set() for name in layers}
        """By layer: boxes that it has in parts."""

    def knows(self, name: str, number: int) -> bool:
        """Whether a layer has a box, as a whole or in parts."""
        whole = self._whole[number]
        return whole is None or whole in self._parted[name]

    def leaves(self, name: str, number: int | None = None) -> Iterator[int]:
        """The smallest boxes of a layer, of all trips or in a box: one that holds it or is it, or its parts."""
        if number is None:
            for box in self._first:
                yield from self.leaves(name, box)
            return
        box = self.known(number, (name,))
        if box in self._parted[name]:
            for half in self._halves[box]:
                yield from self.leaves(name, half)
        else:
            yield box

    def known(self, number: int, names: Collection[str]) -> int:
        """The smallest box that holds one, or is it, which some layers all know."""
        while not all(self.knows(name, number) for name in names):
            whole = self._whole[number]
            assert whole is not None
            number = whole
        return number

    def around(self, number: int) -> Iterator[int]:
        """A box, and those that it was cut out of."""
        box: int | None = number
        while box is not None:
            yield box
            box = self._whole[box]

    def part(self, number: int, names: Collection[str], loop: int, after: int) -> tuple[int, int]:
        """Part a box in two for some layers that have it as a whole: as it was parted before, if it was, else up to so
        many trips of a loop and more."""
        if number not in self._halves:
            self._halves[number] = len(self.all), len(self.all) + 1
            self.all += halves(self.all[number], loop, after)
            self._whole += [number, number]
        for name in names:
            self._parted[name].add(number)
        return self._halves[number]
