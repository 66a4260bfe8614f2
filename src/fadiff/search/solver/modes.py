r"""Neighbours agree: a linear program over the modes of all layers, below which no schedule is.

A *mode* of a layer is a place and a box of shared trips. A schedule puts every layer into one mode, and the two ends of
every tensor agree: it is fused in both or in neither, and under the same trips. So with :math:`c_{vm}` a lower bound of
layer v in mode m, any schedule costs at least

.. math:: \min_{x \ge 0} \sum c_{vm} x_{vm}, \quad \sum_m x_{vm} = 1, \quad
    \sum_{m\ fuses\ (u,v)\ in\ box} x_{um} = \sum_{m\ fuses\ (u,v)\ in\ box} x_{vm}

Two more things hold of every group: buffers with a halo are there all the time, and it has one sink. All of these are
rows of :class:`~fadiff.search.solver.program.Program`.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations, product
from math import isqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csc_array, vstack  # pyright: ignore[reportUnknownVariableType]

from fadiff.schedule.ir import SHARED_LOOPS
from fadiff.search.solver.boxes import Boxes
from fadiff.search.solver.grid import Cells
from fadiff.search.solver.place import Fused
from fadiff.search.solver.program import MOST_SECONDS, Agreed, Program
from fadiff.search.solver.rooms import LITTLE, Crowd, Rooms
from fadiff.search.solver.sharing import Box, Tilings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jaxtyping import Bool, Float

    from fadiff.schedule import Schedule
    from fadiff.schedule.group_constraints import Together
    from fadiff.search.solver.parts import Tile
    from fadiff.search.solver.place import Links, Place
    from fadiff.workload import Layer


class Mode(NamedTuple):
    """What a layer may be in a schedule."""

    layer: int
    place: int
    """Its number among the layer's places."""
    fused: Fused
    """Links around it that are fused, as far as its places tell them apart."""
    box: int | None
    """The number of the box of trips; None without a group."""
    tile: Tile


class Cut(NamedTuple):
    """A box that is to be parted for some layers, up to so many trips of a loop and more."""

    box: int
    layers: frozenset[str]
    loop: int
    after: int


class About(NamedTuple):
    """What a row says something of."""

    layers: tuple[str, ...]
    what: object = None


Entries = dict[About, list[tuple[int, float]]]
"""Coefficients of modes, by number."""


class Block(NamedTuple):
    """The modes of a layer under the trips of one box, and the room that they take."""

    modes: list[Mode]
    rooms: Rooms
    ties: Entries
    """Coefficients of what is 0."""
    sinks: Entries
    """Of what is at most 0."""


class Modes:
    """The modes of all layers of a network, and boxes of trips that they agree on; `places` are those of each layer."""

    def __init__(
        self,
        links: Links,
        places: Sequence[Sequence[tuple[Fused, Place]]],
        *,
        exact_factors: bool = False,
        given: Mapping[str, Together] = MappingProxyType({}),
    ) -> None:
        """By layer, `given` has the groups that are asked for."""
        self.links = links
        self.given = given
        self.places = places
        self.exact_factors = exact_factors
        self.tilings = Tilings(links, exact=exact_factors)
        self.tree = Boxes(self.tilings.everything, [layer.name for layer in links.workload.layers])
        self.tied = {
            layer.name: Fused().union(*(fused for fused, _ in found))
            for layer, found in zip(self.links.workload.layers, self.places, strict=True)
        }
        """By layer: the links around it that its places tell apart."""
        self._alone = [mode for i, layer in enumerate(links.workload.layers) for mode in self._on_its_own(i, layer)]
        self._blocks: dict[tuple[int, int], Block] = {}
        """By layer and box."""
        # Only where no layer is loose, every group has a last one among the modes.
        loose = any(links.loose(layer.name) for layer in links.workload.layers)
        self._everybody = Crowd() if loose else Crowd(layer.name for layer in links.workload.layers)
        self._crowds = {box: [self._everybody] if self._everybody else [] for box in range(len(self.boxes))}
        """By box: layers that are told to share room, all of which know it."""
        self._make()

    @property
    def boxes(self) -> list[Box]:
        """All boxes of trips, by number."""
        return self.tree.all

    def _make(self) -> None:
        """Modes, and what holds of every schedule: of each layer the modes add up to 1, ties are 0, limits at most."""
        layers = self.links.workload.layers
        leaves = [(i, box) for i, layer in enumerate(layers) for box in self.tree.leaves(layer.name)]
        blocks = [self._block(i, box) for i, box in leaves]
        self.modes = [*self._alone, *(mode for block in blocks for mode in block.modes)]
        self._rooms = Rooms.joined([self._room(self._alone), *(block.rooms for block in blocks)])
        self._within: dict[tuple[int, str], list[int]] = {}
        """By box and layer that knows it: modes."""
        for column, mode in enumerate(self.modes):
            for box in () if mode.box is None else self.tree.around(mode.box):
                self._within.setdefault((box, layers[mode.layer].name), []).append(column)
        self.owner = np.array([mode.layer for mode in self.modes], dtype=int)
        firsts = np.cumsum([len(self._alone), *(len(block.modes) for block in blocks)]).tolist()
        inside = [(box, first, block) for (_, box), first, block in zip(leaves, firsts, blocks, strict=False)]
        self.ties: Any = self._table([(box, first, block.ties) for box, first, block in inside])
        self._one_sink: Any = self._table([(box, first, block.sinks) for box, first, block in inside])
        self._limit()

    def _limit(self) -> None:
        """What is at most 0: that groups have one sink, and rows of crowds."""
        told = [(crowd, self._inside(box, crowd)) for box, crowds in self._crowds.items() for crowd in crowds]
        self.limits: Any = vstack([self._one_sink, self._rooms.rows(told)], format="csc")  # pyright: ignore[reportUnknownVariableType]
        self._program = Program(self.owner, len(self.links.workload.layers), self.ties, self.limits)

    def _inside(self, box: int, crowd: Crowd) -> list[int]:
        """The modes of some layers in a box."""
        return [i for name in sorted(crowd) for i in self._within.get((box, name), ())]

    def _block(self, number: int, box: int) -> Block:
        """The modes of a layer in a box, as they were found before."""
        if (number, box) not in self._blocks:
            modes = list(self._under(number, self.links.workload.layers[number], box))
            ties, sinks = _entries(self._agreements(modes)), _entries(self._sinks(modes))
            self._blocks[number, box] = Block(modes, self._room(modes), ties, sinks)
        return self._blocks[number, box]

    def _room(self, modes: Sequence[Mode]) -> Rooms:
        layers = self.links.workload.layers
        found = [(layers[m.layer], m.fused, m.tile, self.places[m.layer][m.place][1]) for m in modes]
        return Rooms(self.links.machine, found)

    def _on_its_own(self, number: int, layer: Layer) -> Iterator[Mode]:
        """The modes of a layer without a group that shares trips."""
        for i, (fused, place) in enumerate(self.places[number]):
            if not fused:
                least = [1 if place.grouped and d in place.cut else size for d, size in enumerate(layer.dims)]
                tile = tuple(Cells((low,), (size,)) for low, size in zip(least, layer.dims, strict=True))
                yield Mode(number, i, fused, None, tile)

    def _under(self, number: int, layer: Layer, box: int) -> Iterator[Mode]:
        """The modes of a layer in a group under the trips of a box."""
        for i, (fused, place) in enumerate(self.places[number]):
            trips = self._trips_of(layer, place, self.boxes[box]) if fused else None
            if trips is None:
                continue
            least = dict(zip(SHARED_LOOPS, (low for low, _ in trips), strict=True))
            # Where no weights come again, there is nothing to keep.
            if place.keeps and least["N"] == least["P"] == least["Q"] == 1:
                continue
            if place.sums_stay is not None and least["X"] == 1:
                continue
            if (tile := self.tilings.tile(layer, fused, place, trips)) is not None:
                yield Mode(number, i, fused, box, tile)

    def _trips_of(self, layer: Layer, place: Place, box: Box) -> Box | None:
        """The trips of a box that a layer in a group may have: where trips are given, these alone."""
        group = self.given.get(layer.name)
        if group is None or group.trips is None:
            return box
        shared = [loop for loop in group.nesting if group.trips._asdict()[loop] > 1]
        if place.keeps and group.loops is not None and shared and shared[-1] in "GX":
            return None  # the innermost loop brings other weights every time
        return tuple((trips, trips) for trips in group.trips) if _holds(box, group.trips) else None

    def _agreements(self, modes: Sequence[Mode]) -> Iterator[tuple[About, int, float]]:
        """Of each fused link, the layer that makes the tensor agrees with the one that reads it, and with those
        that it passes, also on whether a channel loop's sums stay: equations."""
        layers = self.links.workload.layers
        for column, mode in enumerate(modes):
            name, stay = layers[mode.layer].name, self.places[mode.layer][mode.place][1].sums_stay
            for link in mode.fused:
                source, target = link
                others = (target, *self.links.passed[link]) if name == source else (name,)
                for other in others:
                    if link in self.tied[source] and link in self.tied[other]:
                        yield About((source, other), (target, stay)), column, 1.0 if name == source else -1.0

    def _sinks(self, modes: Sequence[Mode]) -> Iterator[tuple[About, int, float]]:
        """A group has one sink: of two consumers of a tensor, neither of which comes after the other, both feed others:
        at most 0. Only of consumers that are not loose."""
        layers = self.links.workload.layers
        for column, mode in enumerate(modes):
            name = layers[mode.layer].name
            read = [target for source, target in mode.fused if source == name]
            for one, other in permutations(read, 2):
                if not self.links.ordered(one, other) and not self.links.loose(one):
                    yield About((name, one, other)), column, 1.0
            for source, target in mode.fused:
                if target == name and any(made == name for made, _ in mode.fused):
                    for sibling in self.links.readers(source):
                        if not self.links.ordered(name, sibling):
                            yield About((source, name, sibling)), column, -1.0

    def _table(self, entries: Sequence[tuple[int, int, Entries]]) -> Any:  # noqa: ANN401  (a sparse array)
        """Rows of coefficients of modes, by box and what they are about: entries of the modes of a box, by the number
        of the first one, count in the smallest box that all layers know which they are about."""
        row_of: dict[tuple[int, About], int] = {}
        known = cache(self.tree.known)
        found = [
            (row_of.setdefault((known(box, about.layers), about), len(row_of)), first + column, value)
            for box, first, mine in entries
            for about, at in mine.items()
            for column, value in at
        ]
        rows, columns, values = zip(*found, strict=True) if found else ((), (), ())
        return csc_array((values, (rows, columns)), shape=(len(row_of), len(self.modes)))

    def agree(self, cost: Float[np.ndarray, " modes"], seconds: float = MOST_SECONDS) -> Agreed:
        """The cheapest modes under which neighbours agree; `cost` is that of all runs of a layer, inf if impossible."""
        return self._program.agree(cost, seconds)

    def shares(self, possible: Bool[np.ndarray, " modes"]) -> Float[np.ndarray, " modes"] | None:
        """How much of each layer is in each of some modes where neighbours agree as far as they can; None where it is
        certain that they cannot."""
        return self._program.shares(possible)

    def disagreements(self, meant: Sequence[tuple[Mode, Tile]]) -> list[Cut]:
        """Boxes in which two ends of a fused link mean different trips, by the tiles of their cheapest mappings, and
        where each is to be parted for the layers that are fused in it; for a layer that means trips of a box which are
        not among those of its neighbour's smaller one, as it was parted for that one."""
        layers, found = self.links.workload.layers, list[Cut]()
        together = self._together(meant)
        # Of several modes of a layer in one box the first counts, which most of it is in.
        mine: dict[str, dict[int, tuple[Mode, Tile]]] = {}
        for mode, tile in meant:
            if mode.box is not None:
                mine.setdefault(layers[mode.layer].name, {}).setdefault(mode.box, (mode, tile))
        done = set[tuple[int, str]]()
        for link in self.links.passed:
            ends = [[end for end in mine.get(name, {}).values() if link in end[0].fused] for name in link]
            for pair in product(*ends):
                numbers = [mode.box for mode, _ in pair if mode.box is not None]
                outer, inner = min(numbers), max(numbers)
                if outer not in self.tree.around(inner):
                    continue
                names = together[outer, next(name for name, n in zip(link, numbers, strict=True) if n == outer)]
                if not done.isdisjoint((outer, name) for name in names):
                    continue
                for loop, (low, high) in enumerate(self.boxes[outer]):
                    if low == high:
                        continue
                    trips = [self._trips(mode, tile, loop) for mode, tile in pair]
                    last, next_ = min(most for _, most in trips), max(least for least, _ in trips)
                    if last < next_:
                        found.append(Cut(outer, names, loop, max(last, isqrt(last * (next_ - 1)))))
                        done.update((outer, name) for name in names)
                        break
        return found

    def around(self, meant: Sequence[tuple[Mode, Tile]]) -> list[Cut]:
        """Boxes that hold more trips than those that fused layers mean, and where to part them from the others: room is
        shared out by what all trips of a box need."""
        layers, found, together = self.links.workload.layers, list[Cut](), self._together(meant)
        done = set[tuple[int, str]]()
        for mode, tile in meant:
            if mode.box is None or (mode.box, layers[mode.layer].name) in done:
                continue
            for loop, (low, high) in enumerate(self.boxes[mode.box]):
                least, most = self._trips(mode, tile, loop)
                if low < least or most < high:
                    names = together[mode.box, layers[mode.layer].name]
                    found.append(Cut(mode.box, names, loop, most if most < high else least - 1))
                    done.update((mode.box, name) for name in names)
                    break
        return found

    def _together(self, meant: Sequence[tuple[Mode, Tile]]) -> dict[tuple[int, str], frozenset[str]]:
        """By box and layer: layers of the same box that it is fused with, in the modes that are meant, or that are with
        one of these."""
        layers, found = self.links.workload.layers, dict[tuple[int, str], frozenset[str]]()
        for mode, _ in meant:
            if mode.box is None:
                continue
            ends = {layers[mode.layer].name, *(name for link in mode.fused for name in link)}
            ends = {name for name in ends if mode.box in self.tree.leaves(name, mode.box)}
            joined = frozenset(ends).union(*(found.get((mode.box, name), ()) for name in ends))
            found |= dict.fromkeys(((mode.box, name) for name in joined), joined)
        return found

    def _trips(self, mode: Mode, tile: Tile, loop: int) -> tuple[int, int]:
        """From how many to how many trips of a loop a mode's tile can have."""
        assert mode.box is not None
        layer = self.links.workload.layers[mode.layer]
        d = self.tilings.dim(layer, mode.fused, SHARED_LOOPS[loop])
        return self.tilings.trips(layer, mode.fused, self.boxes[mode.box], loop, tile[d])

    def part(self, cuts: Sequence[Cut]) -> None:
        """Part boxes of trips in two for some layers."""
        for box, names, loop, after in cuts:
            shared = [names, *(crowd for crowd in self._crowds.get(box, ()) if crowd < names)]
            for half in self.tree.part(box, names, loop, after):
                there = self._crowds.setdefault(half, [])
                there += [crowd for crowd in shared if crowd not in there and self._everybody]
        self._make()

    def crowd(self, share: Float[np.ndarray, " modes"]) -> bool:
        """Tell layers that take more room in a box than there is in the groups that have any of them, by so much of
        each layer in each mode, that they share it; whether there were any."""
        found = False
        boxes = [self.modes[i].box for i in np.flatnonzero(share > LITTLE).tolist()] if self._everybody else []
        for box in dict.fromkeys(one for one in boxes if one is not None):
            inside, there = self._inside(box, self._everybody), np.zeros(len(self.modes))
            there[inside] = share[inside]
            crowds = self._rooms.crowded(there, self.links.workload.topological)
            if new := [crowd for crowd in crowds if crowd not in self._crowds[box]]:
                self._crowds[box] = [*self._crowds[box], *new]
                found = True
        if found:
            self._limit()
        return found

    def of_schedule(self, schedule: Schedule) -> list[list[int]]:
        """The modes that each layer of a schedule may be in, whatever it keeps."""
        found: list[list[int]] = [[] for _ in self.links.workload.layers]
        groups = {name: frozenset(group.layers) for group in schedule.groups for name in group.layers}
        names = [layer.name for layer in self.links.workload.layers]
        fused = [frozenset(link for link in self.tied[name] if groups[name].issuperset(link)) for name in names]
        for column, mode in enumerate(self.modes):
            trips = schedule.group_of[names[mode.layer]].trips
            if mode.fused == fused[mode.layer] and self.holds(mode.box, trips):
                found[mode.layer].append(column)
        return found

    def holds(self, number: int | None, trips: Sequence[int]) -> bool:
        """Whether trips are in a box."""
        return number is None or _holds(self.boxes[number], trips)


def _entries(found: Iterable[tuple[About, int, float]]) -> Entries:
    """Coefficients by what they are about."""
    entries: Entries = {}
    for about, column, value in found:
        entries.setdefault(about, []).append((column, value))
    return entries


def _holds(box: Box, trips: Sequence[int]) -> bool:
    """Whether trips are in a box."""
    return all(low <= t <= high for t, (low, high) in zip(trips, box, strict=True))
