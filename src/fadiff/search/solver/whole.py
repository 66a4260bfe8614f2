"""What a group costs at least where its layers and its trips are known: all that is left to choose are mappings.

Buffers follow from layers and trips alone. While a layer runs, they and the weights that others keep leave it so much
room. What is kept is not known: branch and bound over which layers keep their weights, each with the least that a
mapping costs in the room that is left.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import floor, inf, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.schedule.arrays import buffer_values
from fadiff.schedule.ir import SHARED_LOOPS
from fadiff.schedule.nest import IMAGE_DIMS, RELEVANT_DIMS, C, G, N
from fadiff.schedule.tiling import IMAGE, group_tiling, inner_edges, shared_dim
from fadiff.search.solver.grid import Cells
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.parts import row_of
from fadiff.search.solver.rooms import usable_bytes
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Float

    from fadiff.schedule.tiling import Tiling
    from fadiff.search.driver import Weights
    from fadiff.search.solver.add_bound import AddBound
    from fadiff.search.solver.modes import Modes
    from fadiff.search.solver.parts import Tile, Wanted
    from fadiff.search.solver.place import Fused, Place
    from fadiff.workload import Layer

    Bounds = Sequence[LayerBound | AddBound]

MOST_TRIPS = 4096
"""Combinations of trips in a box up to which each is looked at."""
WALKS_AT_ONCE = 4
"""Walks through a layer before others of its group are looked at."""
PARTS_OF_ROOM = 32
"""Parts of a memory to which rooms are rounded up at first."""
LEVELS = 3
"""How much of its group a layer is told, from its own buffers to all that is there."""
MOST_CHOICES = 256
"""Choices of layers that keep their weights which are told apart."""


class Option(NamedTuple):
    """A place of a layer."""

    place: int
    """Its number."""
    slides: bool | None = None
    """Whether the layer's window slides along a shared loop; None where it has nothing to slide over."""
    kept: tuple[tuple[int, float], ...] = ()
    """Bytes in memories, by node, that the layer keeps while others run."""


class Seat(NamedTuple):
    """A layer in a group whose trips are known."""

    layer: int
    tile: Tile
    live_bytes: float
    """Buffers in the memory that fuses while it runs, at least."""
    options: tuple[Option, ...]


class Wholes:
    """The groups of a network with all their trips, and what each costs at least; `bounds` are those of each layer."""

    def __init__(self, modes: Modes, bounds: Bounds) -> None:
        self._modes = modes
        self._bounds = bounds
        self._links = modes.links
        self._machine, self._workload = modes.links.machine, modes.links.workload
        self._number = {layer.name: i for i, layer in enumerate(self._workload.layers)}
        self._narrow: dict[tuple[object, ...], LayerBound] = {}
        """Bounds of layers with less room."""
        structure = self._machine.structure
        self._home, self._fuses = structure.home("W"), structure.fuses
        self._sums_home = structure.home("O")

    def alone(self, name: str) -> tuple[Seat, ...]:
        """A layer on its own."""
        layer = self._workload[name]
        tile = tuple(Cells((size,), (size,)) for size in layer.dims)
        return (Seat(self._number[name], tile, 0.0, (Option(0),)),)

    # Trips.

    def seats(self, layers: Sequence[str], box: int) -> list[tuple[Seat, ...]] | None:
        """A group under each of the trips of a box that it may have; None where they are too many."""
        fused = inner_edges(self._workload, layers)
        ends = zip(SHARED_LOOPS, self._modes.boxes[box], strict=True)
        counts = [self._counts(layers, loop, *trips) for loop, trips in ends]
        if prod(map(len, counts)) > MOST_TRIPS:
            return None
        trips = np.array(list(product(*counts)), dtype=np.int64).reshape(-1, 5).T
        tiling = group_tiling(self._workload, layers, fused, trips)
        chosen = tiling.aligned
        given = self._modes.given.get(layers[0])
        if given is not None and given.trips is not None:
            chosen = chosen & (trips == np.array(given.trips)[:, None]).all(axis=0)
        if self._modes.exact_factors:
            for name, tiles in tiling.tile.items():
                for dim, tile in tiles.items():
                    chosen = chosen & (self._workload[name].dims._asdict()[dim] % tile == 0)
        tiling = tiling.only(chosen)
        live = self._live(layers, tiling)
        places = [self._places(name, layers) for name in layers]
        return [
            tuple(
                self._seat(name, layers, tiling, i, float(live[name][i]), mine)
                for name, mine in zip(layers, places, strict=True)
            )
            for i in range(tiling.trips.shape[1])
        ]

    def _counts(self, layers: Sequence[str], loop: str, low: int, high: int) -> list[int]:
        """Trips of a loop that its last layer may have."""
        size = self._workload[layers[-1]].dims[DIMS.index(shared_dim(loop, first=False))]
        counts = range(low, min(high, size) + 1)
        if self._modes.exact_factors:
            return [count for count in counts if size % count == 0]
        return [count for count in counts if (count - 1) * -(-size // count) < size]

    def _places(self, name: str, layers: Sequence[str]) -> list[tuple[int, Place]]:
        """The places that a layer may have in a group."""
        fused: Fused = frozenset(link for link in self._modes.tied[name] if {*layers}.issuperset(link))
        found = enumerate(self._modes.places[self._number[name]])
        return [(i, place) for i, (links, place) in found if links == fused]

    def _seat(
        self, name: str, layers: Sequence[str], tiling: Tiling, i: int, live: float, places: Sequence[tuple[int, Place]]
    ) -> Seat:
        layer, first = self._workload[name], name == layers[0]
        tile = list(layer.dims)
        for loop, count in zip(SHARED_LOOPS, tiling.trips[:, i].tolist(), strict=True):
            dim = shared_dim(loop, first=first)
            if count > 1:
                tile[DIMS.index(dim)] = int(tiling.tile[name][dim][i])
        trips = dict(zip(SHARED_LOOPS, tiling.trips[:, i].tolist(), strict=True))
        options: list[Option] = []
        softmax = trips["X"] > 1 and any("softmax" in self._workload[one].epilogue for one in layers)
        for number, place in places:
            if place.keeps and (softmax or trips["N"] == trips["P"] == trips["Q"] == 1):
                continue
            # What waits beside the producer is told by the consumer.
            if (place.sums_stay is None) is (trips["X"] > 1) or place.sums is not None:
                continue
            if softmax and not first and not place.holds:
                continue
            kept = dict[int, float]()
            if place.holds and self._sums_home is not None:
                kept[self._sums_home] = self._held("O", self._sums_home, tile, self._machine.bits.sums)
            if place.keeps and self._home is not None:
                kept[self._home] = self._held("W", self._home, tile, self._machine.bits.W)
            if not self._may_slide(layer, place, trips):
                options.append(Option(number, kept=tuple(kept.items())))
                continue
            options.append(Option(number, slides=False, kept=tuple(kept.items())))
            assert self._fuses is not None
            box = [
                (tile[out] - 1) * layer.stride[image] + (tile[kernel] - 1) * layer.dilation[image] + 1
                for image, (out, kernel) in enumerate(IMAGE_DIMS)
            ]
            values = prod([tile[G], tile[N], tile[C], *box]) * (1 - place.role.fused_input)
            kept[self._fuses] = kept.get(self._fuses, 0.0) + values * self._machine.bits.I / 8
            options.append(Option(number, slides=True, kept=tuple(kept.items())))
        return Seat(self._number[name], tuple(Cells((size,), (size,)) for size in tile), live, tuple(options))

    def _held(self, tensor: str, home: int, tile: Sequence[int], bits: int) -> float:
        """Bytes of all of a layer's weights or sums in an instance of their home, at least."""
        return prod(tile[d] for d in RELEVANT_DIMS[tensor]) * bits / 8 / self._machine.instances(home)

    def _may_slide(self, layer: Layer, place: Place, trips: Mapping[str, int]) -> bool:
        """Whether a window may slide over an input that is fetched, and its tiles overlap."""
        overlaps = any(
            trips[loop] > 1 and stride < reach + 1
            for loop, stride, reach in zip(IMAGE, layer.stride, layer.reach, strict=True)
        )
        return layer.is_mac and place.role.fused_input < 1 and overlaps

    def _live(self, layers: Sequence[str], tiling: Tiling) -> dict[str, Float[np.ndarray, " candidates"]]:
        """Bytes of the buffers that are live while each layer runs, in whatever order the group's layers run, and with
        its loops nested in the way that makes them least."""
        found = {name: np.zeros(tiling.trips.shape[1]) for name in layers}
        for name in tiling.stored_tile:
            layer = self._workload[name]
            sizes = layer.dims._asdict() | tiling.tile[name]
            values, outlasts = buffer_values(
                np.array(layer.stored, dtype=np.float64)[:, None],
                np.stack(tiling.stored_tile[name]).astype(np.float64),
                np.array([ahead.halo for ahead in tiling.ahead[name]], dtype=np.float64)[:, None],
                tiling.trips[[SHARED_LOOPS.index("P"), SHARED_LOOPS.index("Q")]],
                np.ones(1),
                np.asarray(sizes["G"] * sizes["N"] * sizes["K"]),
            )
            readers = {edge.target for edge in self._workload.consumers[name]}.intersection(layers)
            for other in layers:
                begun = other == name or self._links.follows(name, other)
                needed = other == name or any(other == r or self._links.follows(other, r) for r in readers)
                live = np.where(np.asarray(outlasts) | (begun and needed), np.asarray(values), 0.0)
                found[other] = found[other] + live * self._machine.bits.O / 8
        return found

    # Costs.

    def rough(self, seats: Sequence[Seat], weights: Weights) -> float:
        """What a group costs, by what is known of its layers beside their own buffers."""
        return _Choice(self, seats, weights, 0, (None,) * len(seats)).value

    def term(self, seat: Seat, option: Option, beside: Mapping[int, float], weights: Weights, level: int) -> _Term:
        """A layer in a place beside buffers and what others keep.

        At level 0 beside its own buffers only; at level 1 its room is rounded up, so that many groups share what is
        found out of it.
        """
        bound, runs = self._bounds[seat.layer], self._workload.layers[seat.layer].repeat
        _, place = self._modes.places[seat.layer][option.place]
        wanted = bound.numbers[place], seat.tile
        taken = {node: bytes_ for node, bytes_ in beside.items() if bytes_} if level else {}
        if level and self._fuses is not None:
            taken[self._fuses] = taken.get(self._fuses, 0.0) + seat.live_bytes
        if not isinstance(bound, LayerBound):
            full = any(bytes_ > usable_bytes(self._machine, node) + 1e-6 for node, bytes_ in taken.items())
            return _Term(bound, wanted, runs, option, inf if full else _value(bound, wanted, weights))
        if level == 1:
            for node, bytes_ in taken.items():
                part = usable_bytes(self._machine, node) / PARTS_OF_ROOM
                taken[node] = floor(bytes_ / part) * part
        if level:
            key = id(bound), *wanted, option.slides, *sorted(taken.items())
            if key not in self._narrow:
                told = replace(place, waiting=(), made=None, slides=option.slides)
                told = replace(told, taken=tuple(sorted(taken.items())))
                self._narrow[key] = bound.within(weights, wanted, told)
            bound, wanted = self._narrow[key], (0, seat.tile)
        return _Term(bound, wanted, runs, option, _value(bound, wanted, weights))

    def least(
        self, seats: Sequence[Seat], weights: Weights, enough: float, walks: int, level: int
    ) -> tuple[float, bool]:
        """A lower bound of a group, and whether more walks could raise it; it ends where it reaches enough."""
        first = _Choice(self, seats, weights, level, (None,) * len(seats))
        tried, open_ = 1, [(first.value, 0, first)]
        while True:
            value, _, choice = open_[0]
            if value >= enough:
                return value, False
            if choice.undecided is not None and len(open_) < MOST_CHOICES:
                heapq.heappop(open_)
                for option in seats[choice.undecided].options:
                    kept = (*choice.kept[: choice.undecided], option, *choice.kept[choice.undecided + 1 :])
                    next_ = _Choice(self, seats, weights, level, kept)
                    heapq.heappush(open_, (next_.value, tried, next_))
                    tried += 1
                continue
            if walks <= 0:
                return value, True
            walked = choice.walk(enough - value)
            again = _Choice(self, seats, weights, level, choice.kept)
            if walked is None and again.value <= value:
                return value, False
            walks -= walked or 0
            heapq.heapreplace(open_, (again.value, tried, again))
            tried += 1


class _Term(NamedTuple):
    """What a layer costs in a group."""

    bound: LayerBound | AddBound
    wanted: Wanted
    runs: int
    option: Option
    value: float
    """Of one run, at least."""


def _value(bound: LayerBound | AddBound, wanted: Wanted, weights: Weights) -> float:
    return float(bound.least(weights, np.array([row_of(wanted)], dtype=np.float64))[0])


class _Choice:
    """What a group costs where it is decided of some layers in which places they are."""

    def __init__(
        self, wholes: Wholes, seats: Sequence[Seat], weights: Weights, level: int, kept: tuple[Option | None, ...]
    ) -> None:
        self.kept = kept
        self.weights = weights
        self.undecided: int | None = None
        """A layer that would rather keep something than not, which takes room from others."""
        together = dict[int, float]()
        for option in kept:
            for node, bytes_ in () if option is None else option.kept:
                together[node] = together.get(node, 0.0) + bytes_
        self._terms: list[_Term] = []
        most = 0.0
        for i, (seat, decided) in enumerate(zip(seats, kept, strict=True)):
            mine = dict(() if decided is None else decided.kept)
            beside = {node: bytes_ - mine.get(node, 0.0) for node, bytes_ in together.items()}
            options = seat.options if decided is None else (decided,)
            terms = [wholes.term(seat, option, beside, weights, level) for option in options]
            self._terms.append(min(terms, key=lambda term: term.value))
            size = sum(bytes_ for _, bytes_ in self._terms[i].option.kept)
            if level and decided is None and size > most:
                self.undecided, most = i, size
        self.value = sum(term.runs * term.value for term in self._terms)

    def walk(self, open_: float) -> int | None:
        """Look at the cheapest places of all layers; how many walks that took, None where nothing was left to do."""
        walked: int | None = None
        for term in self._terms:
            if isinstance(term.bound, LayerBound):
                passes, enough = term.bound.passes, term.value + open_ / term.runs
                if term.bound.lift(self.weights, term.wanted, enough, WALKS_AT_ONCE):
                    walked = (walked or 0) + term.bound.passes - passes
        return walked
