r"""What any mapping of a layer costs at least, energy and time priced: branch and bound over chains of extents.

The time of a layer is the largest of several terms, so for any shares :math:`\lambda \ge 0` that add up to 1

.. math:: a\, energy + b\, cycles \ge a\, energy + b \sum_k \lambda_k term_k

and the right side is a sum of flows, which a walk through the extents of the layer minimizes
(:mod:`fadiff.search.solver.chain`). The space is parted into boxes of lanes, and where two different mappings share the
cheapest point of view, into ranges of extents. The box with the lowest bound is looked at again: its cells are split,
its shares of time moved, or it is parted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil, inf
from typing import TYPE_CHECKING

import numpy as np

from fadiff.hardware import Memory
from fadiff.search.solver.chain import Options, program
from fadiff.search.solver.charges import Charges
from fadiff.search.solver.closing import floor
from fadiff.search.solver.counts import Facts, facts
from fadiff.search.solver.fitting import may_stay
from fadiff.search.solver.grid import Cells, Grid, first_grid
from fadiff.search.solver.lanes import all_lanes, split_lanes
from fadiff.search.solver.loops import ALONE_CUTS, Trips, any_trips, asked_trips
from fadiff.search.solver.parts import (
    COMPUTING,
    VECTORS,
    Candidate,
    Known,
    Part,
    Rows,
    Seen,
    Shares,
    Term,
    Tile,
    Wanted,
)
from fadiff.search.solver.path import Path, cheapest_path
from fadiff.search.solver.place import Place
from fadiff.search.solver.prices import UNKNOWN, Prices
from fadiff.search.solver.reach import Tiles
from fadiff.search.solver.region import Line, apart, raised, support
from fadiff.search.solver.splitting import Better, part_between, split_ends, split_sums, split_tile
from fadiff.search.solver.time_shares import better_shares

if TYPE_CHECKING:
    from jaxtyping import Float

    from fadiff.hardware import Machine
    from fadiff.search.objective import Weights
    from fadiff.search.restrictions import LayerAsked
    from fadiff.search.solver.decode import Extents
    from fadiff.workload import Layer

SAFE = 1e-9
"""All bounds are lowered by so much, relatively: more than rounding can do to them."""
MOST_CUTS = 12
FEW_CUTS = 4
"""Chains that shares of time are found from at most, and at least before the space is parted between two of them."""
WIDE_LANES = 8.0
"""Lanes of a dim are walked through at once where they differ by so much at most: one walk tells of many boxes."""
MOST_FACTS = 64
"""Boxes of lanes of which facts are remembered."""
MOST_CELLS = 24
"""Cells of a dim at a node that are looked at in one walk, before extents are parted."""
SLACK_BYTES = 1e-6
"""Bytes that rounding may take from a memory."""
LATEST = 8
"""Chains that are remembered whatever is known of their extents."""
NEAR = {False: 1e-3, True: 2e-4}
"""How much of a bound may be lost because time is shared out; less where factors divide, since walks are short then."""
SAME_SHARE = 1e-4
"""A share of time that changes by less than this does not change."""


@dataclass
class LayerBound:
    """Lower bounds of one layer in the places that it may have, at any prices of energy and time."""

    layer: Layer
    machine: Machine
    places: tuple[Place, ...]
    binds: Term = COMPUTING
    """What probably takes the time: all of it is charged to this term first."""
    exact: bool = False
    """Whether factors must divide: then no tile is cut at its end."""
    asked: LayerAsked | None = None
    """What is asked of the layer's mapping."""
    cut: bool = True
    """Whether loops that a layer on its own shares with nobody may cut its tiles."""
    passes: int = 0
    """Walks so far."""
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    """Chains whose extents are known, as they were found."""
    latest: deque[Extents] = field(default_factory=partial(deque["Extents"], maxlen=LATEST))
    """The least extents on the chains that were found last."""
    _framed: tuple[Part, Prices] | None = None
    _known: dict[Weights, Known] = field(default_factory=dict["Weights", Known])
    _facts: dict[tuple[bytes, tuple[float, ...]], Facts] = field(
        default_factory=dict[tuple[bytes, tuple[float, ...]], Facts]
    )
    """Of lanes, and the least extents at which tiles may end."""

    @cached_property
    def _charges(self) -> Charges:
        return Charges(self.layer, self.machine)

    @cached_property
    def numbers(self) -> dict[Place, int]:
        """The numbers of its places."""
        return {place: number for number, place in enumerate(self.places)}

    def at(self, weights: Weights, enough: float = inf, passes: int = 100) -> float:
        """A lower bound of energy and cycles, weighed, of one run of the layer in any place.

        It stops where it reaches `enough`, after so many more walks, or where it cannot be improved.
        """
        stop, known = self.passes + passes, self.known(weights)
        lowest = int(known.value.argmin())
        while self.passes < stop and known.value[lowest] < enough:
            if not self.look(weights, lowest, enough):
                break
            lowest = int(known.value.argmin())
        return min(known.value[lowest].item(), enough) * (1 - SAFE)

    def known(self, weights: Weights) -> Known:
        """All mappings in parts; at new prices those of the nearest ones, with what is proven of each."""
        if weights not in self._known:
            nearest = min(self._known, key=lambda known: apart(known, weights), default=None)
            if nearest is None:
                whole = list(self._whole())
                parts = [part for part, _ in whole]
                values = [support(part.lines, weights) if possible else inf for part, possible in whole]
            else:
                # What is impossible is so at any prices.
                known = self._known[nearest]
                parts = [replace(part, settled=False, floored=False) for part in known.parts]
                values = [
                    support(part.lines, weights) if value < inf else inf
                    for part, value in zip(parts, known.value.tolist(), strict=True)
                ]
            self._known[weights] = Known(parts, values)
        return self._known[weights]

    def within(self, weights: Weights, wanted: Wanted, place: Place) -> LayerBound:
        """Bounds of the layer in one place with some tile, and no more room than there was: all that is known holds."""
        known, found = (
            self.known(weights),
            LayerBound(self.layer, self.machine, (place,), self.binds, self.exact, self.asked),
        )
        met = known.meets(wanted)
        parts: list[Part] = []
        for part in (known.parts[i] for i in met):
            ends = zip(part.tile, wanted[1], strict=True)
            tile = tuple(Cells((max(a.low[0], b.low[0]),), (min(a.high[0], b.high[0]),)) for a, b in ends)
            parts.append(replace(part, place=0, tile=tile, settled=False, floored=False, cuts=()))
        found._known[weights] = Known(parts, known.value[met].tolist())
        return found

    def lowest(self, weights: Weights, wanted: Wanted) -> int | None:
        """The number of the part of least bound that has tiles of interest; None where there is none."""
        return self.known(weights).lowest(wanted)

    def barren(self, wanted: Wanted) -> bool:
        """Whether it is certain at once that no mapping has tiles of interest, whatever its lanes."""
        number, tile = wanted
        part, possible = next(whole for whole in self._whole() if whole[0].place == number)
        if not possible:
            return True
        ends = {(0, d): part.grid.cells[0][d].within(at.low[0], at.high[-1]) for d, at in enumerate(tile)}
        part = replace(part, tile=tile, grid=part.grid.replaced(ends))
        prices = self._prices(part, (1.0, 0.0), part.shares)
        if prices.room.min() < -SLACK_BYTES or not self._meets(part):
            return True
        return self._cheapest(part, prices).cost == inf

    def lift(self, weights: Weights, wanted: Wanted, enough: float, passes: int) -> bool:
        """Look at mappings with tiles of interest until none costs less than enough, or for so many walks; whether
        there was anything to look at."""
        stop, known, found = self.passes + passes, self.known(weights), False
        while self.passes < stop and (lowest := self.lowest(weights, wanted)) is not None:
            if known.value[lowest] >= enough or not self.look(weights, lowest, enough):
                break
            found = True
        return found

    def least(self, weights: Weights, wanted: Rows) -> Float[np.ndarray, " wanted"]:
        """Lower bounds of one run in places, with tiles of interest; inf where there are no mappings."""
        return self.known(weights).least(wanted) * (1 - SAFE)

    def look(self, weights: Weights, number: int, enough: float) -> bool:
        """Look at a part again: what it becomes takes its place. False where it cannot be improved."""
        known = self._known[weights]
        part, before = known.parts[number], known.value[number].item()
        if part.settled:
            return False
        if not part.floored:
            # Often that is enough, and no walk is needed.
            part, floor = replace(part, floored=True), self._floor(part, weights)
            known.replace(number, [part], [max(before, floor)])
            if floor > before:
                return True
        value, better = self._look(part, weights, enough)
        value = max(value, before)
        found: list[Part] = []
        values: list[float] = []
        for one, least in better or [(replace(part, settled=True), value)]:
            same = one.lanes is part.lanes and one.tile is part.tile
            values.append(max(value, least))
            lines = raised(part.lines, Line(weights, values[-1])) if values[-1] < inf else part.lines
            found.append(replace(one, lines=lines, floored=same))
        known.replace(number, found, values)
        return True

    def _whole(self) -> Iterator[tuple[Part, bool]]:
        """All mappings, by place, and whether there can be any."""
        size = self.layer.dims
        grid = self._within(first_grid(size, len(self.machine.nodes), exact=self.exact))
        for number, place in enumerate(self.places):
            cut = place.cut if place.grouped else ()
            tile = tuple(Cells((1 if d in cut else size[d],), (size[d],)) for d in range(8))
            part = Part(
                number,
                tile,
                all_lanes(self.layer, self.machine, None if self.asked is None else self.asked.ends),
                grid,
                {self.binds: 1.0},
                tuple(Cells((1 if self.cut and d in ALONE_CUTS else size[d],), (size[d],)) for d in range(8)),
            )
            # Time is charged to what takes it in the schedule; what is certain to take most counts in floors alone.
            part = replace(part, shares={self._certain_term(part): 0.0} | {self.binds: 1.0})
            floors = [Line(prices, self._floor(part, prices)) for prices in ((1.0, 0.0), (0.0, 1.0))]
            possible = floors[0].value < inf
            yield replace(part, lines=tuple(floors)) if possible else part, possible

    def _certain_term(self, part: Part) -> Term:
        """What is certain to take most time, whatever the mapping."""
        at = self._at(part)
        floors = {term: floor(at, self._prices(part, (0.0, 1.0), {term: 1.0})) for term in self._charges.terms}
        return max(floors, key=floors.__getitem__)

    def _within(self, grid: Grid) -> Grid:
        """A grid with the extents that are asked for, and those that the first memory's factors leave at most."""
        if self.asked is None:
            return grid
        ends = self.asked.ends
        found: dict[tuple[int, int], Cells] = {}
        for node in range(len(grid.cells)):
            for d, size in enumerate(self.layer.dims):
                least, most = ends.least_held[node, d, 0], ends.most_held[node, d, 0]
                # A factor is at most the extent that it leads to.
                least = max(least, *ends.least[max(1, node) :, d, 0].tolist())
                least = max(least, ceil(size / ends.most[0, d, 0]) if node == 1 else 1)
                found[node, d] = grid.cells[node][d].within(least, most)
        return grid.replaced(found)

    def _at(self, part: Part) -> Facts:
        # A dim is cut where it ends, or where the tile of a shared iteration does.
        ends = (inf,) * 8 if self.exact else tuple(cell.low[0] for cell in self._ends(part))
        key = part.lanes.key, ends
        if key not in self._facts:
            if len(self._facts) >= MOST_FACTS:
                self._facts.clear()
            once = () if self.asked is None else self.asked.once
            self._facts[key] = facts(self.layer, self.machine, part.lanes, ends, once)
        return self._facts[key]

    def _floor(self, part: Part, weights: Weights) -> float:
        """What a part costs before anything is known of its tiles."""
        terms = {COMPUTING, self.binds, VECTORS if self._charges.vector_cycles else COMPUTING, *part.shares}
        return max(floor(self._at(part), self._prices(part, weights, {term: 1.0})) for term in terms)

    def _look(self, part: Part, weights: Weights, enough: float) -> tuple[float, Better]:
        """A bound of a part, and the parts to look at in its place, with what is known of each: none where it cannot be
        improved."""
        if halves := self._split_lanes(part, WIDE_LANES):
            return 0.0, halves
        prices = self._prices(part, weights, part.shares)
        if prices.room.min() < -SLACK_BYTES or (prices.keeps == 1 and not may_stay(self._at(part), prices)):
            return inf, ()
        if not self._meets(part):
            return inf, ()
        path = self._cheapest(part, prices, enough)
        if not (value := path.cost) < enough:
            return enough, [(part, enough)]
        alone = not self.exact and not self.places[part.place].grouped
        if halves := (alone and split_ends(part, path)) or split_sums(part, path):
            return value, [(half, value) for half in halves]
        wide = {at: cell for at, cell in path.extents.items() if part.grid.cells[at[0]][at[1]].wide(cell)}
        if wide and part.grid.most > MOST_CELLS:
            return value, [(replace(part, grid=half, cuts=()), value) for half in part.grid.halves()]
        grid = part.grid.split(wide)
        if tiles := split_tile(part, path, 2.0, enough):
            # In the part of the cheapest tile, the cells that this walk led through would be cut next.
            *others, (cheapest, least) = tiles
            return value, [*others, (replace(cheapest, grid=grid), least)]
        if halves := self._split_lanes(part, 2.0):
            return value, halves
        terms = {term: path.total(self._prices(part, (0.0, 1.0), {term: 1.0})) for term in self._charges.terms}
        seen = Seen(path.total(self._prices(part, (1.0, 0.0), {})), terms, path.extents)
        slack = self._charges.time(terms) - sum(share * terms[term] for term, share in part.shares.items())
        finer = replace(part, grid=grid, cuts=())
        self.latest.append(path.least)
        if not wide:
            self._remember(part, seen, path.least, weights)
        if slack * weights[1] > NEAR[self.exact] * value:
            cuts = (*part.cuts, seen)[-MOST_CUTS:]
            # One chain tells what takes the time; between several, shares are moved halfway.
            same = not wide and all(cut.extents == seen.extents for cut in cuts)
            shares = better_shares(self._charges, cuts, weights, {} if same else part.shares)
            if wide:
                return value, [(replace(finer, shares=shares), value)]
            if len(part.cuts) < FEW_CUTS or all(cut.extents != seen.extents for cut in part.cuts):
                return value, [(replace(part, shares=shares, cuts=cuts), value)]
            if (grids := part_between(part.grid, cuts)) is not None:
                return value, [(replace(part, grid=grid, shares=shares, cuts=()), value) for grid in grids]
            if any(abs(share - part.shares.get(term, 0.0)) > SAME_SHARE for term, share in shares.items()):
                return value, [(replace(part, shares=shares, cuts=cuts), value)]
        if wide:
            return value, [(finer, value)]
        return value, split_tile(part, path, 1.0, enough) or self._split_lanes(part, 1.0)

    def _meets(self, part: Part) -> bool:
        """Whether the extents of a part's grid make tiles that are in it."""
        return all(cells.meets(at) for cells, at in zip(part.grid.cells[0], part.tile, strict=True))

    def _cheapest(self, part: Part, prices: Prices, enough: float = inf) -> Path:
        """The cheapest way through the extents of a part."""
        self.passes += 1
        place = self.places[part.place]
        ranks = () if self.asked is None else self.asked.ranks
        options = Options(self.machine.structure, self._running, ranks, place.keeps, place.slides, place.holds)
        low, high, most = np.array(
            [
                [cell.low[0] for cell in part.tile],
                [cell.high[0] for cell in part.tile],
                [cell.high[0] for cell in self._ends(part)],
            ],
            dtype=np.float64,
        )
        tiles = Tiles(low, high, most)
        return cheapest_path(self._at(part), prices, program(options), part.grid, tiles, self._trips(part), enough)

    @cached_property
    def _running(self) -> tuple[int, ...]:
        return tuple(d for d, size in enumerate(self.layer.dims) if size > 1)

    def _trips(self, part: Part) -> Trips:
        """From how many to how many trips of the memories' loops are asked for."""
        structure = self.machine.structure
        if self.asked is None:
            return any_trips(self.layer.dims, structure)
        grouped = self.places[part.place].grouped
        return asked_trips(self.layer.dims, structure, self.asked, part.tile, part.grid.cells[0], grouped)

    def _ends(self, part: Part) -> Tile:
        """The extents at which tiles end."""
        return part.tile if self.places[part.place].grouped else part.ends

    def _remember(self, part: Part, seen: Seen, extents: Extents, weights: Weights) -> None:
        cost = weights[0] * seen.energy_pj + weights[1] * self._charges.time(seen.terms)
        self.candidates.append(Candidate(bool((part.lanes.low == part.lanes.high).all()), cost, extents))

    def _split_lanes(self, part: Part, wider: float) -> Better:
        """A part in two boxes of lanes; none where all are known well enough."""
        found = split_lanes(part.lanes, self.machine, self.layer, wider)
        return [(replace(part, lanes=lanes, cuts=()), 0.0) for lanes in found or ()]

    def _prices(self, part: Part, weights: Weights, shares: Shares) -> Prices:
        """What everything costs, a share of the time charged to every term."""
        charged, paid, frame = self._charges.of(part.lanes), self._charges.weighed(weights, shares), self._frame(part)
        read, write, fuses = paid @ charged.read, paid @ charged.write, self.machine.structure.fuses
        if fuses is not None and self.places[part.place].loose:
            read[: fuses + 1] = write[: fuses + 1] = 0.0
        idle = weights[1] * shares.get(COMPUTING, 0.0) * charged.idle
        return frame._replace(fixed=float(paid @ charged.fixed), idle=idle, read=read, write=write)

    def _frame(self, part: Part) -> Prices:
        """What is so at any prices; of the part that was asked for last it is remembered."""
        if self._framed is None or self._framed[0] is not part:
            layer, machine, place = self.layer, self.machine, self.places[part.place]
            room, none = np.full(len(machine.nodes), inf), np.zeros(len(machine.nodes))
            for node, memory in enumerate(machine.nodes):
                room[node] = memory.usable_bytes if isinstance(memory, Memory) else inf
            fuses, home = machine.structure.fuses, machine.structure.home("O")
            if fuses is not None and place.loose:
                room[: fuses + 1] = inf
            elif fuses is not None:
                room[fuses] -= place.least_bytes(part.tile, layer.dims, machine.bits.O)
            if place.sums is not None and home is not None:
                room[home] -= place.sums.least_bytes(part.tile, machine.bits.sums)
            for node, bytes_ in place.taken:
                room[node] -= bytes_
            trips = [ceil(size / cell.high[0]) for size, cell in zip(layer.dims, part.tile, strict=True)]
            tile = [cell.low[0] for cell in part.tile]
            keeps, finished = _known(place.keeps), part.finished_at(len(machine.nodes))
            both = np.array([trips, tile], dtype=np.float64)
            self._framed = part, Prices(0.0, 0.0, none, none, room, place.role, both[0], both[1], keeps, finished)
        return self._framed[1]


def _known(true: bool | None) -> int:
    return UNKNOWN if true is None else int(true)
