"""Group by group: what schedules cost at least that are made of groups which may still pay.

Modes of layers agree with their neighbours only, and room is shared out once for a whole box of trips. Where little is
left to prove, few groups are left that a better schedule could have (:mod:`fadiff.search.solver.groups`). They are
priced one by one, those first that the cheapest cover of the network is made of: by their trips, then by what their
layers may keep together (:mod:`fadiff.search.solver.whole`), until no cover is below the price that is to be proven, or
nothing is left to look at.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from fadiff.search.solver.groups import Groups, cheapest_cover
from fadiff.search.solver.whole import LEVELS, Wholes

if TYPE_CHECKING:
    from collections.abc import Callable

    from fadiff.search.driver import Weights
    from fadiff.search.solver.modes import Modes
    from fadiff.search.solver.program import Agreed
    from fadiff.search.solver.whole import Bounds, Seat

MOST_GROUPS = 4000
"""Groups that are priced one by one at most."""
WALKS = 24
"""Walks through the layers of a group before the cheapest cover is sought again."""


class _Priced(NamedTuple):
    """A group with what it costs above the least of its layers."""

    slack: float
    number: int
    """So that no two are equal."""
    layers: tuple[str, ...]
    box: int | None
    seats: tuple[Seat, ...] | None
    """Where its trips are known."""
    level: int = 0
    """How much its layers are told of it; all levels are done where nothing is left to find out."""


class Covers:
    """Schedules of a network as covers by groups; `bounds` are those of each layer."""

    def __init__(self, modes: Modes, bounds: Bounds) -> None:
        self._modes = modes
        self._wholes = Wholes(modes, bounds)
        names = modes.links.workload.topological
        self._bit = {name: 1 << i for i, name in enumerate(names)}
        self._layer = {layer.name: i for i, layer in enumerate(modes.links.workload.layers)}

    def least(self, agreed: Agreed, weights: Weights, target: float, stop: Callable[[], bool]) -> float:
        """What all schedules cost at least, up to a target; 0 where there are too many groups to tell."""
        self._least, self._weights, self._count = agreed.least, weights, 0
        base = float(agreed.least.sum())
        budget = target - base
        listed = list(islice(Groups(self._modes, agreed.reduced, agreed.least).within(budget), MOST_GROUPS + 1))
        if len(listed) > MOST_GROUPS:
            return 0.0
        self._by_set: dict[int, list[_Priced]] = {}
        for layers, box, slack in listed:
            seats = None if box is not None else self._wholes.alone(layers[0])
            self._take(_Priced(slack, 0, layers, box, seats), budget)
        while True:
            cheapest = {group: mine[0].slack for group, mine in self._by_set.items()}
            cover = cheapest_cover(len(self._bit), cheapest, budget)
            if cover is None:
                return 0.0
            if not cover:
                return target
            slack = sum(cheapest[group] for group in cover)
            open_ = [group for group in cover if self._by_set[group][0].level < LEVELS]
            if not open_ or stop():
                return base + slack
            for group in open_:
                self._price(group, budget - slack, budget)

    def _take(self, one: _Priced, budget: float) -> None:
        """A group, if it may still pay."""
        if one.slack <= budget:
            self._count += 1
            mine = self._by_set.setdefault(sum(self._bit[name] for name in one.layers), [])
            heapq.heappush(mine, one._replace(number=self._count))

    def _price(self, group: int, open_: float, budget: float) -> None:
        """Find out more of the cheapest group with some layers."""
        mine = self._by_set[group]
        one = heapq.heappop(mine)
        free = sum(float(self._least[self._layer[name]]) for name in one.layers)
        if one.seats is None:
            assert one.box is not None
            found = self._wholes.seats(one.layers, one.box)
            if found is None:
                self._take(one._replace(level=LEVELS), budget)
            for seats in found or ():
                slack = self._wholes.rough(seats, self._weights) - free
                self._take(one._replace(slack=max(one.slack, slack), seats=seats), budget)
        else:
            enough = free + one.slack + open_ * (1 + 1e-6)
            value, more = self._wholes.least(one.seats, self._weights, enough, WALKS, one.level)
            level = one.level if more or value >= enough else one.level + 1
            self._take(one._replace(slack=max(one.slack, min(value, enough) - free), level=level), budget)
        if not mine:
            del self._by_set[group]
