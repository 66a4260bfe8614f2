"""Mapping and fusion together, exactly: climbs, plans, and cuts of the whole network.

1. *Map*: every layer on its own climbs to optima of the exact model, from a few fixed and random starts.
2. *Fuse*: plans for groups with trip counts under which their buffers fit; for every layer under every plan's
   condition, mappings for less and less room; the network is *cut* into groups by dynamic programming, and prices
   follow the result until the cut stays the same.
3. *Polish*: moves in pairs on every layer, with exactly the room its group leaves.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from fadiff.search.driver import Incumbent, Settings, Status, price_weights
from fadiff.search.exact.assemble import Filled, cut, to_schedule
from fadiff.search.exact.conditions import Condition, Task
from fadiff.search.exact.menus import Hints, Menu, Start, alone, grouped, hinted, join, paired, start_from, subset
from fadiff.search.exact.plans import Plan, plans
from fadiff.search.exact.plans import alone as plan_alone
from fadiff.search.exact.polish import polish

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation

_CONDITIONS_PER_STEP = 512
_CUTS = 5
_POLISHES = 4

Steps = Generator[Status, None, None]


class ExactSearch:
    """What the exact search knows of a task: mappings by condition, plans, and the present groups."""

    def __init__(self, task: Task, settings: Settings, incumbent: Incumbent) -> None:
        self.task = task
        self.settings = settings
        self.incumbent = incumbent
        self.menus: dict[Condition, Menu] = {}
        self.singles = [plan_alone(task, name) for name in task.workload.topological]
        self.plans: list[Plan] = list(self.singles)
        self.groups: list[Filled] = []

    @property
    def best(self) -> Evaluation:
        """The incumbent."""
        assert self.incumbent.best is not None, "the driver starts from a legal schedule"
        return self.incumbent.best

    @property
    def weights(self) -> tuple[float, float]:
        """Prices of a pJ and a cycle near the incumbent."""
        return price_weights(self.best, self.settings.objective)

    def map(self, starts: int, *, polished: bool) -> Steps:
        """Layers on their own, from so many starts each."""
        singles = _conditions(self.singles)
        self.menus |= alone(self.task, singles, self.weights, self.settings.seed, starts)
        yield from self._cuts(self.singles, "map")
        if polished:
            self.menus |= paired(self.task, self.menus, self.weights)
            yield from self._cuts(self.singles, "map")

    def take_hints(self, hints: Hints) -> None:
        """Climb from mappings that somebody proposes for layers on their own."""
        for condition, more in hinted(self.task, _conditions(self.singles), self.weights, hints).items():
            self.menus[condition] = join([self.menus[condition], more])

    def enumerate_plans(self) -> None:
        """Take up every plan worth trying."""
        self.plans += plans(self.task)

    def fuse(self, phase: str, hints: Hints | None = None) -> Steps:
        """Map all conditions that are not mapped yet, and cut again whenever a part of them is."""
        hints = self.known_starts() if hints is None else hints
        todo = [condition for condition in _conditions(self.plans) if condition not in self.menus]
        for at in range(0, max(1, len(todo)), _CONDITIONS_PER_STEP):
            part = todo[at : at + _CONDITIONS_PER_STEP]
            if part:
                self.menus |= grouped(self.task, part, self.weights, self.settings.seed, hints)
            ready = [plan for plan in self.plans if all(c in self.menus for c in plan.conditions)]
            yield from self._cuts(ready, phase)

    def known_starts(self) -> dict[int, list[Start]]:
        """The best mapping of every layer on its own, as a start for its other conditions."""
        singles = _conditions(self.singles)
        return {c.layer: [start_from(self.menus[c], 0)] for c in singles if self.menus[c].price.size}

    def polish(self) -> Steps:
        """Polish until nothing changes, and remember the mappings it finds, so that later cuts can use them."""
        for turn in range(_POLISHES):
            before = to_schedule(self.task, self.groups)
            self.groups = polish(self.task, self.groups, self.weights)
            schedule = to_schedule(self.task, self.groups)
            self.incumbent.offer(schedule)
            yield Status("polish", turn + 1, _POLISHES)
            if schedule == before:
                break
        for filled in self.groups:
            for i, condition in enumerate(filled.plan.conditions):
                self.menus[condition] = join([self.menus[condition], subset(filled.chosen, [i])])

    def _cuts(self, ready: Sequence[Plan], phase: str) -> Steps:
        """Cut, reprice near the result, and cut again until nothing changes."""
        near, groups = self.best, list[Filled]()
        for turn in range(_CUTS):
            again = cut(self.task, ready, self.menus, price_weights(near, self.settings.objective))
            schedule = to_schedule(self.task, again)
            same = bool(groups) and schedule == to_schedule(self.task, groups)
            groups = again
            if same:
                break
            near = self.incumbent.offer(schedule) or near
            yield Status(phase, turn + 1, _CUTS)
        self.groups = groups


def _conditions(plans: Sequence[Plan]) -> list[Condition]:
    return list(dict.fromkeys(condition for plan in plans for condition in plan.conditions))
