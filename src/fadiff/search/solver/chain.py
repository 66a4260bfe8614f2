"""Which chains of extents a layer may have: the steps of a walk through them, from the MACs out.

A mapping is a chain of extents, one vector per node, that grows from 1 at the MACs to the layer's size. Walking
outwards, a flow (T, m) is *open* while only loops irrelevant to T have run above its keeper m; what it costs follows
from the extents at which it closes (:mod:`fadiff.search.solver.closing`). At a memory either no loop runs; or only
loops of one class (NPQ, K or CRS: those irrelevant to W, I or O), and that tensor stays open; or loops of one class run
innermost, then others, and the tensor closes in between. Every other open flow closes before the first loop; I closes
after it, where its window may slide. For each set of open flows the cheapest way to each vector of extents is kept: a
dynamic program, exact but for the relaxations named in docs/solver.md.

Its steps depend on no number: they are written down once per kind of machine and layer, as a program on lattices, and
:mod:`fadiff.search.solver.walk` goes through them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.schedule.nest import IRRELEVANT_DIMS, RELEVANT_DIMS, P, Q, R, S
from fadiff.search.solver.closing import CLOSING_DIMS, Flow
from fadiff.search.solver.counts import TENSORS, TOP, flows
from fadiff.search.solver.nestings import Nesting, inner, nestings
from fadiff.search.solver.prices import I, W
from fadiff.search.solver.prices import O as OUTPUT

if TYPE_CHECKING:
    from jaxtyping import Int

    from fadiff.hardware import Structure
    from fadiff.schedule.constraint_kinds import Ranks

Open = frozenset[Flow]
"""Flows whose reuse goes on."""
MOST_PROGRAMS = 1024
"""Programs that are remembered."""

FLOW, PLACE, KEPT = 8, 9, 10
"""Of a price."""
# What a step does: its kind, the lattice that it makes, and the one it is made of; then by kind.
STAY, LOOP, SPREAD = 0, 1, 2
"""Along a dim, to a node's extents: without a loop; over a loop; over lanes."""
PAY = 3
"""Flows close: their prices, from the first to the last of those listed."""
LEAST = 4
"""Cell by cell the cheapest of some lattices, listed."""
SLIDE = 5
"""The same where no lanes over a dim lie between a node and the keepers of some flows, listed."""
OPEN = 6
"""Only cells that fit in a memory, and from which less than enough is left for some flows, listed."""
PICK = 7
"""Lattices, listed in pairs with what they become, without the cells of a memory to which no way leads."""


class Options(NamedTuple):
    """What a program depends on: who keeps what, and what is known of the mapping."""

    structure: Structure
    running: tuple[int, ...]
    """Dims of more than one value."""
    ranks: tuple[tuple[Ranks, ...], ...]
    """Orders of loops that are asked for, by memory."""
    keeps: bool | None
    """Whether weights stay in their home over shared iterations; None where that is left open."""
    slides: bool | None
    """Whether the window of I slides along a shared loop; likewise."""
    holds: bool | None
    """Whether sums stay in their home over iterations of a channel loop; likewise."""


class Program(NamedTuple):
    """The steps of a walk."""

    steps: Int[np.ndarray, "steps 7"]
    listed: Int[np.ndarray, " listed"]
    prices: Int[np.ndarray, "prices 11"]
    """By dim: the row of extents at which a flow closes; then the flow, at the loops of which node, and whether it is
    kept over shared iterations."""
    after: Int[np.ndarray, " lattices"]
    """The node whose extents a lattice is of, where all its loops or lanes are done; -1 of all others."""
    nodes: int
    last: int
    """The lattice of the full size."""


def picked_row(nodes: int, node: int) -> int:
    """The row of a memory's extents without those to which no way leads; before come the nodes' own."""
    return nodes + node


def row_at_macs(nodes: int) -> int:
    """The row of extents of 1."""
    return 2 * nodes


def row_of_whole(nodes: int) -> int:
    """The row of the full size."""
    return 2 * nodes + 1


class _Way(NamedTuple):
    lattice: int
    rows: tuple[int, ...]
    """By dim: the row of its extents."""


@lru_cache(MOST_PROGRAMS)
def program(options: Options) -> Program:
    """The steps of a walk to the full size."""
    return _Writer(options).written()


class _Writer:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.structure = options.structure
        self.nodes = len(self.structure.keeps)
        self.running = options.running
        self.flows = flows(self.structure)
        self.steps: list[list[int]] = []
        self.listed: list[int] = []
        self.prices: dict[tuple[Flow, int, bool, tuple[int, ...]], tuple[int, tuple[int, ...]]] = {}
        """By what decides them: their numbers, and their rows."""
        self.after: list[int] = [-1]

    def written(self) -> Program:
        states: dict[Open, _Way] = {frozenset(): _Way(0, (row_at_macs(self.nodes),) * 8)}
        for node in reversed(range(self.nodes)):
            states = self._above(states, node)
        last = self._finish(states)
        prices = [(*rows, flow, place, kept) for (flow, place, kept, _), (_, rows) in self.prices.items()]
        return Program(
            np.array(self.steps, dtype=np.int64),
            np.array([*self.listed, 0], dtype=np.int64),
            np.array(prices, dtype=np.int64),
            np.array(self.after, dtype=np.int64),
            self.nodes,
            last.lattice,
        )

    # Steps.

    def _step(self, kind: int, of: int, rows: tuple[int, ...], more: Sequence[int] = (), after: int = -1) -> _Way:
        self.after.append(after)
        to = len(self.after) - 1
        self.steps.append([kind, to, of, *more, *[0] * (4 - len(more))])
        return _Way(to, rows)

    def _list(self, numbers: Iterable[int]) -> tuple[int, int]:
        first = len(self.listed)
        self.listed += numbers
        return first, len(self.listed)

    def _moved(self, way: _Way, kind: int, dims: Iterable[int], node: int) -> _Way:
        for d in dims:
            if d in self.running:
                way = self._step(kind, way.lattice, (*way.rows[:d], node, *way.rows[d + 1 :]), (d, node))
        return way

    def _cheapest(self, ways: Sequence[_Way], after: int = -1) -> _Way:
        if len(ways) == 1 and after < 0:
            return ways[0]
        return self._step(LEAST, 0, ways[0].rows, self._list(way.lattice for way in ways), after)

    def _close(self, way: _Way, closing: Iterable[Flow], place: int) -> _Way:
        """After some flows have closed."""
        return self._paid(way, [(flow, way.rows, False) for flow in sorted(closing)], place)

    def _paid(self, way: _Way, closed: Sequence[tuple[Flow, tuple[int, ...], bool]], place: int) -> _Way:
        if not closed:
            return way
        numbers: list[int] = []
        for flow, rows, kept in closed:
            key = flow, place, kept, tuple(rows[d] for d in CLOSING_DIMS[self.flows[flow][0]])
            number, _ = self.prices.setdefault(key, (len(self.prices), rows))
            numbers.append(number)
        return self._step(PAY, way.lattice, way.rows, self._list(numbers))

    # Nodes.

    def _above(self, states: dict[Open, _Way], node: int) -> dict[Open, _Way]:
        """After the loops or lanes of a node."""
        if not self.structure.keeps[node]:
            return {key: self._spread(way, node) for key, way in states.items()}
        states = self._loops(states, node)
        return self._opened(states, node) if node > 0 else states

    def _spread(self, way: _Way, node: int) -> _Way:
        """Extents above an axis: the lanes times those below, or the size."""
        for d in range(8):
            way = self._moved(way, SPREAD, (d,), node)
        return self._cheapest([way], node)

    def _opened(self, states: dict[Open, _Way], node: int) -> dict[Open, _Way]:
        """After the flows to a memory have begun: only cells that fit in it and from which less than enough is left."""
        opened = {flow for flow, (_, _, keeper) in enumerate(self.flows) if keeper == node}
        to_come = {flow for flow, (_, _, keeper) in enumerate(self.flows) if keeper < node}
        found: dict[Open, _Way] = {}
        for key, way in states.items():
            left = self._list(sorted({*to_come, *key, *opened}))
            found[key | opened] = self._step(OPEN, way.lattice, way.rows, (node, *left))
        picked = {key: self._new(way, node) for key, way in found.items()}
        pairs = [number for key in found for number in (found[key].lattice, picked[key].lattice)]
        self.steps.append([PICK, 0, 0, node, *self._list(pairs), 0])
        return picked

    def _new(self, way: _Way, node: int) -> _Way:
        self.after.append(node)
        rows = tuple(picked_row(self.nodes, node) if d in self.running else row for d, row in enumerate(way.rows))
        return _Way(len(self.after) - 1, rows)

    def _finish(self, states: dict[Open, _Way]) -> _Way:
        """The cheapest way to the full size, over the loops that a group shares.

        Of what is open in its home, the tensor to which the innermost shared loops are irrelevant is kept over them;
        the others come again, and the window of I may slide. What is open further in outlasts no shared iteration.
        """
        ends: list[_Way] = []
        for key, way in states.items():
            homes = {self.flows[flow][0] for flow in key if self._at_home(flow)}
            options = {tensor if tensor in homes else None for tensor in range(3)}
            if self.options.keeps is not None:
                options = options & {W} if self.options.keeps else (options - {W}) | {None}
            if self.options.holds is not None:
                options = options & {OUTPUT} if self.options.holds else (options - {OUTPUT}) | {None}
            for kept in sorted(options, key=lambda tensor: -1 if tensor is None else tensor):
                end = way
                for flow in sorted(key):
                    end = self._end(end, flow, kept=self.flows[flow][0] == kept)
                ends.append(end)
        return self._cheapest(ends)

    def _at_home(self, flow: Flow) -> bool:
        tensor, _, keeper = self.flows[flow]
        return keeper == self.structure.home(TENSORS[tensor])

    def _end(self, way: _Way, flow: Flow, *, kept: bool) -> _Way:
        """After a flow that is open below all shared loops has closed among them."""
        if not self._at_home(flow):
            return self._close(way, (flow,), TOP)
        tensor = self.flows[flow][0]
        swept: list[tuple[int, ...]] = [IRRELEVANT_DIMS[TENSORS[tensor]] if kept else ()]
        if tensor == I and not kept and self.options.slides is not False:
            # The window may slide along the innermost shared loop.
            swept += [(d,) for d in (P, Q) if d in self.running]
        ends: list[_Way] = []
        for over in swept:
            rows = tuple(row_of_whole(self.nodes) if d in over else row for d, row in enumerate(way.rows))
            ends.append(self._paid(way, [(flow, rows, kept)], TOP))
        return self._cheapest(ends)

    # Loops.

    def _loops(self, states: dict[Open, _Way], node: int) -> dict[Open, _Way]:
        """The loops of a memory, above everything further in."""
        found = {key: [self._moved(way, STAY, range(8), node)] for key, way in states.items() if key}
        ranks = self.options.ranks[self.structure.memories.index(node)] if self.options.ranks else ()
        for tensor, letter in enumerate(TENSORS):
            rest = RELEVANT_DIMS[letter]
            # What is not open does not close: then no order matters.
            free, closing = Nesting(IRRELEVANT_DIMS[letter], rest), nestings(letter, ranks, self.running)
            ends: dict[Nesting, list[_Way]] = {}
            for nesting in dict.fromkeys((free, *closing)):
                for mine, barred, way in self._first_loops(states, tensor, node, nesting.inside, ranks):
                    if mine and nesting == free:
                        found.setdefault(mine, []).append(self._moved(way, STAY, rest, node))
                    if nesting in closing if mine else nesting == free:
                        outside = tuple(d for d in nesting.outside if d not in barred)
                        ends.setdefault(Nesting(nesting.inside, outside), []).append(self._close(way, mine, node))
            for (inside, outside), ways in ends.items():
                left = (d for d in range(8) if d not in inside and d not in outside)
                way = self._moved(self._moved(self._cheapest(ways), LOOP, outside, node), STAY, left, node)
                found.setdefault(frozenset(), []).append(way)
        return {key: self._cheapest(ways, node if node == 0 else -1) for key, ways in found.items()}

    def _first_loops(
        self, states: dict[Open, _Way], tensor: int, node: int, loops: tuple[int, ...], ranks: tuple[Ranks, ...]
    ) -> Iterator[tuple[Open, tuple[int, ...], _Way]]:
        """After the innermost loops, irrelevant to one tensor, which close the flows of all others: by those of its own
        flows that were open, and by dims that have no loop there since the window slides along an innermost one. Ways
        that go on alike are one from there."""
        alike: dict[tuple[Open, Open], list[_Way]] = {}
        for key, way in states.items():
            if tensor in _innermost({self.flows[flow][0] for flow in key}):
                mine = frozenset(flow for flow in key if self.flows[flow][0] == tensor)
                inputs = frozenset(flow for flow in key - mine if self.flows[flow][0] == I)
                alike.setdefault((mine, inputs), []).append(self._close(way, key - mine - inputs, node))
        image = [d for d in loops if d in (P, Q, R, S)]
        begun: dict[tuple[Open, tuple[int, ...]], list[_Way]] = {}
        plain: dict[Open, list[_Way]] = {}
        for (mine, inputs), ways in alike.items():
            way = self._cheapest(ways)
            plain.setdefault(mine, []).append(self._close(way, inputs, node))
            for slid in image if inputs else ():
                if slid in self.running:
                    barred = inner(slid, ranks)
                    here = self._step(SLIDE, way.lattice, way.rows, (slid, node, *self._list(sorted(inputs))))
                    swept = self._close(self._moved(here, LOOP, [slid], node), inputs, node)
                    others = [d for d in image if d != slid]
                    begun.setdefault((mine, barred), []).append(self._moved_but(swept, others, node, barred))
        for mine, ways in plain.items():
            grown = self._moved(self._cheapest(ways), LOOP, image, node)
            begun[mine, ()] = [grown, *begun.get((mine, ()), ())]
        for (mine, barred), ways in begun.items():
            others = [d for d in loops if d not in image]
            yield mine, barred, self._moved_but(self._cheapest(ways), others, node, barred)

    def _moved_but(self, way: _Way, dims: Sequence[int], node: int, barred: Sequence[int]) -> _Way:
        """A loop over each of some dims, but for those that have none."""
        way = self._moved(way, LOOP, [d for d in dims if d not in barred], node)
        return self._moved(way, STAY, [d for d in dims if d in barred], node)


def _innermost(tensors: set[int]) -> set[int]:
    """Whose irrelevant loops may run innermost where some are open; those of others only to let the window of I
    slide."""
    return tensors | {W, OUTPUT} if I in tensors else tensors or {OUTPUT}
