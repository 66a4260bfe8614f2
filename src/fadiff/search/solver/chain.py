"""What a layer costs at least: a shortest path through the extents of its tiles, from the MACs out.

A mapping is a chain of extents, one vector per node, that grows from 1 at the MACs to the layer's size. Walking
outwards, a flow (T, m) is *open* while only loops irrelevant to T have run above its keeper m; what it costs follows
from the extents at which it closes (:mod:`fadiff.search.solver.closing`). At a memory either no loop runs; or only
loops of one class (NPQ, K or CRS: those irrelevant to W, I or O), and that tensor stays open; or loops of one class run
innermost, then others, and the tensor closes in between. Every other open flow closes before the first loop; I closes
after it, where its window may slide. For each set of open flows the cheapest way to each vector of extents is kept: a
dynamic program, exact but for the relaxations named in docs/solver.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property, reduce
from math import ceil, inf, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.hardware import Axis, Memory
from fadiff.schedule.nest import IRRELEVANT_DIMS, G, N, P, Q, R, S
from fadiff.search.solver.closing import CLOSING_DIMS, TOP, Closed, Closing, Flow, Prices
from fadiff.search.solver.grid import ONE, Cells
from fadiff.search.solver.nestings import Nesting, inner, nestings
from fadiff.search.solver.steps import Steps, lane_steps, loop_steps, same_steps

if TYPE_CHECKING:
    from jaxtyping import Float

    from fadiff.schedule.constraint_kinds import Ranks
    from fadiff.search.restrictions import LayerAsked
    from fadiff.search.solver.grid import Grid

    Lattice = Float[np.ndarray, "*cells"]

ALONE_CUTS = (G, N, P, Q)
"""Dims whose loops a layer on its own may part between shared ones and those of the first memory."""
Open = frozenset[Flow]
"""Flows whose reuse goes on."""


class Way(NamedTuple):
    """Values of a lattice and how they came about, so that the cheapest way can be walked back."""

    values: Lattice
    cells: tuple[Cells, ...]
    """The extents of each dim."""
    before: tuple[Way, ...] = ()
    """Where they came from: several where the cheapest was taken, cell by cell."""
    grown: tuple[int, Steps, Lattice | None] | None = None
    """The dim along which extents grew, from which cells to which, and what each step costs, if anything."""
    closed: tuple[Closed, ...] = ()
    """The flows that were added."""
    node: int | None = None
    """The node whose extents these are, where all its loops or lanes are done."""
    picked: tuple[list[int], ...] | None = None
    """By dim: the cells that were kept of those before."""


class Chain:
    """The cheapest chains of one layer at some prices, as far as they cost less than `enough`.

    The extents in one iteration of the loops that a group shares are in `tile`; further in none is above `most`.
    """

    def __init__(
        self,
        flows: Closing,
        grid: Grid,
        prices: Prices,
        tile: Sequence[Cells],
        most: Sequence[int],
        enough: float = inf,
        asked: LayerAsked | None = None,
        *,
        grouped: bool = True,
    ) -> None:
        """Of what is asked of the mapping, the factors of memories and the orders of their loops count here; `grouped`
        says whether others may share its loops."""
        self.flows = flows
        self.asked = asked
        self.grouped = grouped
        self.nodes = flows.machine.nodes
        self.structure = flows.structure
        self.lanes = flows.lanes
        self.size = flows.size
        self.grid = grid
        self.prices = prices
        self.enough = enough
        self.rows = self._rows(tile, most)
        self.tile = [
            (max(at.low[0], cells.low[0]), min(at.high[-1], cells.high[-1]))
            for at, cells in zip(tile, self.rows[0], strict=True)
        ]
        """By dim: from which extent to which it may be in one shared iteration."""
        self._prices: dict[tuple[Flow, int, bool, tuple[Cells, ...]], Lattice | float] = {}

    def _rows(self, tile: Sequence[Cells], most: Sequence[int]) -> list[tuple[Cells, ...]]:
        """By node: the cells of the grid that meet the tile and can fit, further in no larger ones than further out."""
        outermost = zip(self.grid.cells[0], tile, strict=True)
        rows = [tuple(cells.only(np.flatnonzero(same_steps(cells, at).allowed[0]).tolist()) for cells, at in outermost)]
        for node in range(1, len(self.nodes)):
            row = [
                cells.first(max(1, sum(low <= min(outer.high[-1], end) for low in cells.low)))
                for cells, outer, end in zip(self.grid.cells[node], rows[-1], most, strict=True)
            ]
            if isinstance(self.nodes[node], Memory):
                row = self.flows.fitting(node, row, self.prices)
            rows.append(tuple(row))
        return rows

    def cheapest(self) -> Way | None:
        """The cheapest ways to the full size; None where none costs less than enough."""
        start = Way(np.full([1] * 8, self.flows.at_macs(self.prices)), (ONE,) * 8)
        states: dict[Open, Way] = {frozenset(): start}
        for node in reversed(range(len(self.nodes))):
            states = self._above(states, node)
        return self._finish(states) if states else None

    def _above(self, states: dict[Open, Way], node: int) -> dict[Open, Way]:
        """After the loops or lanes of a node."""
        if isinstance(self.nodes[node], Axis):
            return {key: self._spread(way, node) for key, way in states.items()}
        states = self._loops(states, node)
        return self._opened(states, node) if node > 0 else states

    def _opened(self, states: dict[Open, Way], node: int) -> dict[Open, Way]:
        """After the flows to a memory have begun: only cells that fit in it and from which less than enough is left."""
        full = self.flows.too_large(node, self.rows[node], self.prices)
        opened = {(tensor, node) for tensor in self.structure.keeps[node]}
        to_come = [flow for flow in self.flows.all if flow[1] < node]
        found: dict[Open, Way] = {}
        for key, way in states.items():
            left = sum(self._least[flow] for flow in (*to_come, *key, *opened))
            values = np.where(full | (way.values >= self.enough - left), inf, way.values)
            if values.min() < inf:
                found[key | opened] = Way(values, way.cells, (way,), node=node)
        return _without_empty(found)

    @cached_property
    def _least(self) -> dict[Flow, float]:
        """What each flow costs whatever the way."""
        return {flow: self.flows.least(flow, self.prices) for flow in self.flows.all}

    def _finish(self, states: dict[Open, Way]) -> Way | None:
        """The cheapest way to the full size, over the loops that a group shares.

        Of what is open in its home, the tensor to which the innermost shared loops are irrelevant is kept over them;
        the others come again, and the window of I may slide. What is open further in outlasts no shared iteration.
        """
        ends: list[Way] = []
        for key, way in states.items():
            homes = {tensor for tensor, keeper in key if keeper == self.structure.home(tensor)}
            options = {tensor if tensor in homes else "" for tensor in "WIO"}
            if self.prices.keeps is not None:
                options = options & {"W"} if self.prices.keeps else (options - {"W"}) | {""}
            if self.prices.holds is not None:
                options = options & {"O"} if self.prices.holds else (options - {"O"}) | {""}
            for kept in sorted(options):
                end = way
                for flow in sorted(key):
                    end = self._end(end, flow, kept=flow[0] == kept)
                ends.append(end)
        return _cheapest(ends) if ends else None

    def _end(self, way: Way, flow: Flow, *, kept: bool) -> Way:
        """After a flow that is open below all shared loops has closed among them."""
        if flow[1] != self.structure.home(flow[0]):
            return self._close(way, (flow,), TOP)
        swept: list[tuple[int, ...]] = [IRRELEVANT_DIMS[flow[0]] if kept else ()]
        if flow[0] == "I" and not kept and self.prices.slides is not False:
            # The window may slide along the innermost shared loop.
            swept += [(d,) for d in (P, Q) if len(way.cells[d]) > 1 or way.cells[d] != self.flows.whole[d]]
        ends: list[Way] = []
        for over in swept:
            cells = tuple(self.flows.whole[d] if d in over else way.cells[d] for d in range(8))
            ends.append(self._paid(way, [(flow, TOP, cells, kept)]))
        return _cheapest(ends)

    def _close(self, way: Way, flows: Iterable[Flow], place: int) -> Way:
        """After some flows have closed."""
        closed = [(flow, place, way.cells, False) for flow in sorted(flows)]
        return self._paid(way, closed) if closed else way

    def _paid(self, way: Way, closed: Sequence[Closed]) -> Way:
        # Each price is along few dims, so they are added up before they are added to all cells.
        price = reduce(np.add, map(self._price, closed))
        return Way(way.values + price, way.cells, (way,), closed=tuple(closed))

    def _price(self, closed: Closed) -> Lattice | float:
        """What a flow costs, as it was found before."""
        flow, place, cells, kept = closed
        key = flow, place, kept, tuple(cells[d] for d in CLOSING_DIMS[flow[0]])
        if key not in self._prices:
            self._prices[key] = self.flows.price(flow, place, cells, self.prices, kept=kept)
        return self._prices[key]

    def _spread(self, way: Way, node: int) -> Way:
        """Extents above an axis: the lanes times those below, or the size."""
        wanted, ends = self.rows[node], self.flows.counts.ends
        for d in range(8):
            fewest, most = int(self.lanes.low[node, d]), int(self.lanes.high[node, d])
            if most > 1:
                steps = lane_steps(way.cells[d], wanted[d], ends[d], fewest, most)
                way = _moved(way, d, wanted[d], steps, self._idle(d, node, way.cells[d], wanted[d]))
            else:
                way = self._fixed(way, (d,), node)
        return way._replace(node=node)

    def _idle(self, d: int, node: int, inner: Cells, outer: Cells) -> Lattice | None:
        """What the lanes of an axis cost that idle where a dim ends; None where nothing is certain."""
        counts = self.flows.counts
        if self.prices.idle <= 0 or node != counts.widest_axis[d]:
            return None
        found = counts.idle(d, inner, outer)
        return self.prices.idle * found if found.any() else None

    def _fixed(self, way: Way, dims: Iterable[int], node: int) -> Way:
        """No loop over some dims: extents stay."""
        for d in dims:
            wanted, (fewest, most) = self.rows[node][d], self._asked(node, d)
            if fewest > 1 or most < 1:
                way = _moved(way, d, wanted, Steps(np.zeros((len(wanted), len(way.cells[d])), dtype=bool)))
            elif wanted != way.cells[d]:
                way = _moved(way, d, wanted, same_steps(way.cells[d], wanted))
        return way

    def _asked(self, node: int, d: int) -> tuple[int, int]:
        """From how many to how many trips of a memory's loop over a dim are asked for; of the first memory's, what the
        trips that a group shares leave of them."""
        if self.asked is None or isinstance(self.nodes[node], Axis):
            return 1, self.size[d]
        size, ends = self.size[d], self.asked.ends
        least, most = int(ends.least[node, d, 0]), float(ends.most[node, d, 0])
        if node > 0:
            return least, int(min(most, size))
        if not self.grouped:
            return fewest_trips(size, least) if d in ALONE_CUTS else least, int(min(most, size))
        shared, fewest = (ceil(size / extent) for extent in self.tile[d])
        return -(-least // shared), int(min(most, size * fewest) // fewest)

    def _grown(self, way: Way, dims: Iterable[int], node: int) -> Way:
        """A loop over each of some dims: a multiple of the extent further in, or the size."""
        for d in dims:
            if self.size[d] > 1:
                wanted, asked = self.rows[node][d], self._asked(node, d)
                if asked == (1, self.size[d]):
                    steps = loop_steps(way.cells[d], wanted, self.flows.counts.ends[d])
                else:
                    steps = lane_steps(way.cells[d], wanted, self.flows.counts.ends[d], *asked)
                way = _moved(way, d, wanted, steps)
        return way

    def _loops(self, states: dict[Open, Way], node: int) -> dict[Open, Way]:
        """The loops of a memory, above everything further in."""
        found = {key: [self._fixed(way, range(8), node)] for key, way in states.items() if key}
        ranks = () if self.asked is None else self.asked.ranks[self.structure.memories.index(node)]
        running = tuple(d for d in range(8) if self.size[d] > 1)
        for tensor in "WIO":
            rest = tuple(d for d in range(8) if d not in IRRELEVANT_DIMS[tensor])
            # What is not open does not close: then no order matters.
            free, closing = Nesting(IRRELEVANT_DIMS[tensor], rest), nestings(tensor, ranks, running)
            ends: dict[Nesting, list[Way]] = {}
            for nesting in dict.fromkeys((free, *closing)):
                for mine, barred, way in self._first_loops(states, tensor, node, nesting.inside, ranks):
                    if mine and nesting == free:
                        found.setdefault(mine, []).append(self._fixed(way, rest, node))
                    if nesting in closing if mine else nesting == free:
                        outside = tuple(d for d in nesting.outside if d not in barred)
                        ends.setdefault(Nesting(nesting.inside, outside), []).append(self._close(way, mine, node))
            for (inside, outside), ways in ends.items():
                left = (d for d in range(8) if d not in inside and d not in outside)
                way = self._fixed(self._grown(_cheapest(ways), outside, node), left, node)
                found.setdefault(frozenset(), []).append(way)
        return {key: _cheapest(ways)._replace(node=node) for key, ways in found.items()}

    def _first_loops(
        self, states: dict[Open, Way], tensor: str, node: int, loops: tuple[int, ...], ranks: tuple[Ranks, ...]
    ) -> Iterator[tuple[Open, tuple[int, ...], Way]]:
        """After the innermost loops, irrelevant to one tensor, which close the flows of all others: by those of its own
        flows that were open, and by dims that have no loop there since the window slides along an innermost one. Ways
        that go on alike are one from there."""
        alike: dict[tuple[Open, Open], list[Way]] = {}
        for key, way in states.items():
            if tensor in _innermost({of for of, _ in key}):
                mine = frozenset(flow for flow in key if flow[0] == tensor)
                inputs = frozenset(flow for flow in key - mine if flow[0] == "I")
                alike.setdefault((mine, inputs), []).append(self._close(way, key - mine - inputs, node))
        image = [d for d in loops if d in (P, Q, R, S)]
        begun: dict[tuple[Open, tuple[int, ...]], list[Way]] = {}
        plain: dict[Open, list[Way]] = {}
        for (mine, inputs), ways in alike.items():
            way = _cheapest(ways)
            plain.setdefault(mine, []).append(self._close(way, inputs, node))
            for slid in image if inputs else ():
                between = all(self.flows.between(node, keeper)[0][slid] == 1 for _, keeper in inputs)
                if between and self.size[slid] > 1:
                    barred = inner(slid, ranks)
                    swept = self._close(self._grown(way, [slid], node), inputs, node)
                    others = [d for d in image if d != slid]
                    begun.setdefault((mine, barred), []).append(self._grown_but(swept, others, node, barred))
        for mine, ways in plain.items():
            grown = self._grown(_cheapest(ways), image, node)
            begun[mine, ()] = [grown, *begun.get((mine, ()), ())]
        for (mine, barred), ways in begun.items():
            others = [d for d in loops if d not in image]
            yield mine, barred, self._grown_but(_cheapest(ways), others, node, barred)

    def _grown_but(self, way: Way, dims: Sequence[int], node: int, barred: Sequence[int]) -> Way:
        """A loop over each of some dims, but for those that have none."""
        way = self._grown(way, [d for d in dims if d not in barred], node)
        return self._fixed(way, [d for d in dims if d in barred], node)


@cache
def fewest_trips(size: int, least: int) -> int:
    """Tiles further in of a dim, the last perhaps cut, that a layer on its own has at least where the first memory's
    factor is at least so much: it may cut the dim twice, by shared trips and by its own.

    >>> fewest_trips(13, 6), fewest_trips(13, 1)
    (4, 1)
    """
    largest = 1
    for shared in range(1, least + 1):
        tile, private = -(-size // shared), -(-least // shared)
        if (shared - 1) * tile >= size:
            continue  # the last trip would find nothing
        largest = max(largest, tile if private == 1 else (tile - 1) // (private - 1))
    return -(-size // largest)


def _innermost(tensors: set[str]) -> set[str]:
    """Whose irrelevant loops may run innermost where some are open; those of others only to let the window of I
    slide."""
    return tensors | {"W", "O"} if "I" in tensors else tensors or {"O"}


def _cheapest(ways: Sequence[Way]) -> Way:
    if len(ways) == 1:
        return ways[0]
    return Way(reduce(np.minimum, [way.values for way in ways]), ways[0].cells, tuple(ways))


def _without_empty(states: dict[Open, Way]) -> dict[Open, Way]:
    """Without the cells of each dim to which no way leads."""
    if not states:
        return states
    reached = reduce(np.minimum, [way.values for way in states.values()]) < inf
    picked = tuple(np.flatnonzero(reached.any(axis=tuple({*range(8)} - {d}))).tolist() for d in range(8))
    if [len(kept) for kept in picked] == list(reached.shape):
        return states
    gapless = all(kept[-1] - kept[0] == len(kept) - 1 for kept in picked)
    where = tuple(slice(kept[0], kept[-1] + 1) for kept in picked) if gapless else np.ix_(*picked)
    cells = tuple(one.only(kept) for one, kept in zip(next(iter(states.values())).cells, picked, strict=True))
    return {key: Way(way.values[where], cells, (way,), picked=picked) for key, way in states.items()}


def _moved(way: Way, d: int, wanted: Cells, steps: Steps, dearer: Lattice | None = None) -> Way:
    """The cheapest of the cells that may come before each cell of a dim, with what the step costs."""
    cells = (*way.cells[:d], wanted, *way.cells[d + 1 :])
    shape = way.values.shape
    have = shape[d]
    # Three axes: the dim's own, and all before and after it as one each.
    lines = np.ascontiguousarray(way.values).reshape(prod(shape[:d]), have, -1)
    if dearer is not None:
        moved, price = np.full((lines.shape[0], len(wanted), lines.shape[2]), inf), np.where(steps.allowed, dearer, inf)
        for before in range(have):
            np.minimum(moved, lines[:, [before]] + price[:, [before]], out=moved)
    elif have == 1:
        moved = np.where(steps.allowed, lines, inf)
    else:
        runs = steps.runs
        if runs.longest > 1:
            # The cheapest so far; numpy's own accumulate is many times slower.
            least = np.empty((lines.shape[0], runs.longest, lines.shape[2]))
            least[:, 0] = lines[:, 0]
            for i in range(1, runs.longest):
                np.minimum(least[:, i - 1], lines[:, i], out=least[:, i])
            moved = least.take(runs.last, axis=1)
        else:
            moved = lines.take(runs.last, axis=1)
        if runs.none:
            moved[:, runs.none] = inf
        for cell, i in runs.later:
            np.minimum(moved[:, cell], lines[:, i], out=moved[:, cell])
    return Way(moved.reshape(*shape[:d], len(wanted), *shape[d + 1 :]), cells, (way,), (d, steps, dearer))
