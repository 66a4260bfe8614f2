r"""Neighbours agree: a linear program over the modes of all layers, below which no schedule is.

A *mode* of a layer is a place and a box of shared trips. A schedule puts every layer into one mode, and the two ends of
every tensor agree: it is fused in both or in neither, and under the same trips. So with :math:`c_{vm}` a lower bound of
layer v in mode m, any schedule costs at least

.. math:: \min_{x \ge 0} \sum c_{vm} x_{vm}, \quad \sum_m x_{vm} = 1, \quad
    \sum_{m\ fuses\ (u,v)\ in\ box} x_{um} = \sum_{m\ fuses\ (u,v)\ in\ box} x_{vm}

Two more things hold of every group: buffers with a halo are there all the time, and it has one sink. For any prices y
of all these statements (not negative for inequalities) a schedule costs at least :math:`\sum_v \min_m (c_{vm} - (A^T
y)_{vm})`. That sum is what is claimed, with the prices that the solver returns: it holds however well it was solved.
"""

from __future__ import annotations

from itertools import permutations
from math import isqrt
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linprog  # pyright: ignore[reportUnknownVariableType]
from scipy.sparse import block_diag, csc_array, eye_array, hstack, vstack  # pyright: ignore[reportUnknownVariableType]

from fadiff.schedule.ir import SHARED_LOOPS
from fadiff.search.solver.grid import Cells
from fadiff.search.solver.place import Fused
from fadiff.search.solver.rooms import Crowd, Rooms
from fadiff.search.solver.sharing import Box, Tilings, halves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jaxtyping import Bool, Float

    from fadiff.schedule import Schedule
    from fadiff.schedule.group_constraints import Together
    from fadiff.search.solver.parts import Tile
    from fadiff.search.solver.place import Links, Place
    from fadiff.workload import Layer


CERTAIN = 1e-6
"""Of a layer, more is in no mode than rounding could make up."""


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


class Agreed(NamedTuple):
    """What the program says."""

    share: Float[np.ndarray, " modes"]
    """How much of a layer is in each of its modes."""
    cost: Float[np.ndarray, " modes"]
    reduced: Float[np.ndarray, " modes"]
    """Costs after the prices of what holds of schedules."""
    least: Float[np.ndarray, " layers"]
    """Of these, the least of each layer: their sum is the bound."""


class Block(NamedTuple):
    """Modes under the trips of one box, and what holds of them."""

    modes: list[Mode]
    """With no number of the box yet."""
    ties: Any
    """Rows that are 0."""
    limits: Any
    """Rows that are at most 0, but for those of rooms."""
    rooms: Rooms
    crowds: dict[Crowd, Any]
    """Rows of rooms, each at most 0, by the layers that share them."""


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
        self.boxes = self.tilings.everything
        self.tied = {
            layer.name: Fused().union(*(fused for fused, _ in found))
            for layer, found in zip(self.links.workload.layers, self.places, strict=True)
        }
        """By layer: the links around it that its places tell apart."""
        self._alone = [mode for i, layer in enumerate(links.workload.layers) for mode in self._on_its_own(i, layer)]
        self._none: Any = csc_array((0, len(self._alone)))
        self._blocks: dict[Box, Block] = {}
        # Only where no layer is loose, every group has a last one among the modes.
        loose = any(links.loose(layer.name) for layer in links.workload.layers)
        everybody = frozenset(layer.name for layer in links.workload.layers)
        self._crowds: dict[Box, list[Crowd]] = {box: [] if loose else [everybody] for box in self.boxes}
        """By box: layers that are told to share room."""
        self._make()

    def _make(self) -> None:
        """Modes, and what holds of every schedule: of each layer the modes add up to 1, ties are 0, limits at most."""
        layers, blocks = len(self.links.workload.layers), [self._block(box) for box in self.boxes]
        in_boxes = [mode._replace(box=number) for number, block in enumerate(blocks) for mode in block.modes]
        self.modes = [*self._alone, *in_boxes]
        self.owner = np.array([mode.layer for mode in self.modes], dtype=int)
        each = np.ones(len(self.modes)), (self.owner, np.arange(len(self.modes)))
        self.sums: Any = csc_array(each, shape=(layers, len(self.modes)))
        self.ties: Any = block_diag([self._none, *(block.ties for block in blocks)], format="csc")
        self._limit()

    def _limit(self) -> None:
        """What is at most 0: of the modes of each box, what of all boxes, and rows of crowds."""
        found: list[Any] = [self._none]
        for box in self.boxes:
            block = self._blocks[box]
            for crowd in self._crowds[box]:
                if crowd not in block.crowds:
                    block.crowds[crowd] = block.rooms.rows(crowd)
            found.append(vstack([block.limits, *(block.crowds[crowd] for crowd in self._crowds[box])]))
        self.limits: Any = block_diag(found, format="csc")

    def _block(self, box: Box) -> Block:
        """The modes of a box, as they were found before."""
        if box not in self._blocks:
            layers = self.links.workload.layers
            modes = [mode for i, layer in enumerate(layers) for mode in self._under(i, layer, box)]
            ties, limits = (_table(found, len(modes)) for found in (self._agreements(modes), self._sinks(modes)))
            found = [(layers[m.layer], m.fused, m.tile, self.places[m.layer][m.place][1]) for m in modes]
            self._blocks[box] = Block(modes, ties, limits, Rooms(self.links.machine, found), {})
        return self._blocks[box]

    def _on_its_own(self, number: int, layer: Layer) -> Iterator[Mode]:
        """The modes of a layer without a group that shares trips."""
        for i, (fused, place) in enumerate(self.places[number]):
            if not fused:
                least = [1 if place.grouped and d in place.cut else size for d, size in enumerate(layer.dims)]
                tile = tuple(Cells((low,), (size,)) for low, size in zip(least, layer.dims, strict=True))
                yield Mode(number, i, fused, None, tile)

    def _under(self, number: int, layer: Layer, box: Box) -> Iterator[Mode]:
        """The modes of a layer in a group under the trips of a box."""
        for i, (fused, place) in enumerate(self.places[number]):
            trips = self._trips_of(layer, place, box) if fused else None
            if trips is None:
                continue
            least = dict(zip(SHARED_LOOPS, (low for low, _ in trips), strict=True))
            # Where no weights come again, there is nothing to keep.
            if place.keeps and least["N"] == least["P"] == least["Q"] == 1:
                continue
            if place.sums_stay is not None and least["X"] == 1:
                continue
            if (tile := self.tilings.tile(layer, fused, place, trips)) is not None:
                yield Mode(number, i, fused, 0, tile)

    def _trips_of(self, layer: Layer, place: Place, box: Box) -> Box | None:
        """The trips of a box that a layer in a group may have: where trips are given, these alone."""
        group = self.given.get(layer.name)
        if group is None or group.trips is None:
            return box
        shared = [loop for loop in group.nesting if group.trips._asdict()[loop] > 1]
        if place.keeps and group.loops is not None and shared and shared[-1] in "GX":
            return None  # the innermost loop brings other weights every time
        return tuple((trips, trips) for trips in group.trips) if _holds(box, group.trips) else None

    def _agreements(self, modes: Sequence[Mode]) -> Iterator[tuple[object, int, float]]:
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
                        yield (link, other, stay), column, 1.0 if name == source else -1.0

    def _sinks(self, modes: Sequence[Mode]) -> Iterator[tuple[object, int, float]]:
        """A group has one sink: of two consumers of a tensor, neither of which comes after the other, both feed others:
        at most 0. Only of consumers that are not loose."""
        layers = self.links.workload.layers
        for column, mode in enumerate(modes):
            name = layers[mode.layer].name
            read = [target for source, target in mode.fused if source == name]
            for one, other in permutations(read, 2):
                if not self.links.ordered(one, other) and not self.links.loose(one):
                    yield (name, one, other), column, 1.0
            for source, target in mode.fused:
                if target == name and any(made == name for made, _ in mode.fused):
                    for sibling in self.links.readers(source):
                        if not self.links.ordered(name, sibling):
                            yield (source, name, sibling), column, -1.0

    def agree(self, cost: Float[np.ndarray, " modes"]) -> Agreed:
        """The cheapest modes under which neighbours agree; `cost` is that of all runs of a layer, inf if impossible."""
        possible = np.isfinite(cost)
        layers = len(self.links.workload.layers)
        scale = float(cost[possible].max())
        equations: Any = vstack([self.sums, self.ties], format="csc")  # pyright: ignore[reportUnknownVariableType]
        solved: Any = linprog(  # pyright: ignore[reportUnknownVariableType]
            cost[possible] / scale,
            A_eq=equations[:, possible],
            b_eq=np.append(np.ones(layers), np.zeros(self.ties.shape[0])),
            A_ub=self.limits[:, possible],
            b_ub=np.zeros(self.limits.shape[0]),
            method="highs",
        )
        share, reduced = np.zeros(len(cost)), cost
        if solved.x is not None:
            share[possible] = solved.x
            prices = np.asarray(solved.eqlin.marginals)[layers:] * scale
            of_limits = np.minimum(solved.ineqlin.marginals, 0) * scale
            reduced = cost - self.ties.T @ prices - self.limits.T @ of_limits
        least = np.full(layers, np.inf)
        np.minimum.at(least, self.owner, reduced)
        return Agreed(share, cost, reduced, least)

    def shares(self, possible: Bool[np.ndarray, " modes"]) -> Float[np.ndarray, " modes"] | None:
        """How much of each layer is in each of some modes where neighbours agree as far as they can; None where it is
        certain that they cannot, by the statement in :mod:`fadiff.search.solver.contradiction`."""
        layers = len(self.links.workload.layers)
        count = int(possible.sum())
        none = (eye_array(layers), csc_array((self.ties.shape[0], layers)), csc_array((self.limits.shape[0], layers)))
        parts = zip((self.sums, self.ties, self.limits), none, strict=True)
        rows: list[Any] = [hstack([part[:, possible], other]) for part, other in parts]
        solved: Any = linprog(  # pyright: ignore[reportUnknownVariableType]
            np.append(np.zeros(count), np.ones(layers)),
            A_eq=vstack(rows[:2], format="csc"),
            b_eq=np.append(np.ones(layers), np.zeros(self.ties.shape[0])),
            A_ub=rows[2],
            b_ub=np.zeros(self.limits.shape[0]),
            method="highs",
        )
        share = np.zeros(len(possible))
        if solved.x is not None:
            share[possible] = solved.x[:count]
            prices = np.asarray(solved.eqlin.marginals)[layers:]
            of_limits = np.minimum(solved.ineqlin.marginals, 0)
            reduced = -(self.ties.T @ prices) - self.limits.T @ of_limits
            least = np.ones(layers)
            np.minimum.at(least, self.owner[possible], reduced[possible])
            if least.sum() > CERTAIN:
                return None
        return share

    def disagreements(self, meant: Sequence[tuple[Mode, Tile]]) -> dict[int, tuple[int, int]]:
        """Boxes in which two ends of a fused link mean different trips, by the tiles of their cheapest mappings: at
        which loop, and after how many trips, each is to be parted."""
        layers, found = self.links.workload.layers, dict[int, tuple[int, int]]()
        # Of several modes of a layer in one box the first counts, which most of it is in.
        by_name = {(layers[mode.layer].name, mode.box): (mode, tile) for mode, tile in reversed(meant)}
        for first, second in self.links.passed:
            for number, box in enumerate(self.boxes):
                ends = [by_name[name, number] for name in (first, second) if (name, number) in by_name]
                if len(ends) < 2 or number in found or not all((first, second) in mode.fused for mode, _ in ends):
                    continue
                for loop, (low, high) in enumerate(box):
                    if low == high:
                        continue
                    trips = [self._trips(mode, tile, number, loop) for mode, tile in ends]
                    last, next_ = min(most for _, most in trips), max(least for least, _ in trips)
                    if last < next_:
                        found[number] = loop, max(last, isqrt(last * (next_ - 1)))
                        break
        return found

    def around(self, meant: Sequence[tuple[Mode, Tile]]) -> dict[int, tuple[int, int]]:
        """Boxes that hold more trips than those that fused layers mean, and where to part them from the others: room is
        shared out by what all trips of a box need."""
        found = dict[int, tuple[int, int]]()
        for mode, tile in meant:
            for loop, (low, high) in enumerate(() if mode.box is None or mode.box in found else self.boxes[mode.box]):
                assert mode.box is not None
                least, most = self._trips(mode, tile, mode.box, loop)
                if low < least or most < high:
                    found[mode.box] = loop, most if most < high else least - 1
                    break
        return found

    def _trips(self, mode: Mode, tile: Tile, number: int, loop: int) -> tuple[int, int]:
        """From how many to how many trips of a loop a mode's tile can have."""
        layer = self.links.workload.layers[mode.layer]
        d = self.tilings.dim(layer, mode.fused, SHARED_LOOPS[loop])
        return self.tilings.trips(layer, mode.fused, self.boxes[number], loop, tile[d])

    def part(self, cuts: Mapping[int, tuple[int, int]]) -> None:
        """Part boxes of trips in two, each up to so many trips of a loop and more."""
        for number in sorted(cuts, reverse=True):
            whole, parts = self.boxes[number], halves(self.boxes[number], *cuts[number])
            self.boxes[number : number + 1] = parts
            self._crowds |= dict.fromkeys(parts, self._crowds.pop(whole))
            self._blocks.pop(whole)
        self._make()

    def crowd(self, share: Float[np.ndarray, " modes"]) -> bool:
        """Tell layers that take more room in a box than there is in the groups that have any of them, by so much of
        each layer in each mode, that they share it; whether there were any."""
        first, found = len(self._alone), False
        for box in self.boxes:
            block = self._blocks[box]
            part, first = share[first : first + len(block.modes)], first + len(block.modes)
            crowds = block.rooms.crowded(part, self.links.workload.topological) if self._crowds[box] else []
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


def _table(entries: Iterable[tuple[object, int, float]], columns: int) -> Any:  # noqa: ANN401  (a sparse array)
    """Rows of coefficients, by any key, of modes."""
    row_of: dict[object, int] = {}
    found = [(row_of.setdefault(key, len(row_of)), column, value) for key, column, value in entries]
    rows, places, values = zip(*found, strict=True) if found else ((), (), ())
    return csc_array((values, (rows, places)), shape=(len(row_of), columns))


def _holds(box: Box, trips: Sequence[int]) -> bool:
    """Whether trips are in a box."""
    return all(low <= t <= high for t, (low, high) in zip(trips, box, strict=True))
