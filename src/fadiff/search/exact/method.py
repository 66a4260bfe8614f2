"""Mapping and fusion together, exactly: climbs, plans, and cuts of the whole network.

1. *Map*: every layer on its own climbs to optima of the exact model, from a few fixed and random starts; then it is
   *solved*: branch and bound over chains of extents (:mod:`fadiff.search.solver`) until no mapping can be better, and
   climbs from what that finds.
2. *Fuse*: plans for groups with trip counts under which their buffers fit; for every layer under every plan's
   condition, mappings for less and less room; the network is *cut* into groups by dynamic programming, and prices
   follow the result until the cut stays the same.
3. *Polish*: moves in pairs on every layer, with exactly the room its group leaves.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import exp
from typing import TYPE_CHECKING

import numpy as np

from fadiff.cost import evaluate
from fadiff.search.driver import Incumbent, Settings, Status, Weights, price_weights
from fadiff.search.exact.assemble import Filled, cut, polish, to_schedule
from fadiff.search.exact.conditions import Condition, Task
from fadiff.search.exact.every import every_mapping
from fadiff.search.exact.menus import (
    Hints,
    Menus,
    Start,
    alone,
    climbed_from,
    grouped,
    join,
    size_of,
    starts_of,
    subset,
    weighed,
)
from fadiff.search.exact.plans import Plan, conditions_of, plans
from fadiff.search.exact.plans import alone as plan_alone
from fadiff.search.solver.decode import factors_of
from fadiff.search.solver.layer_bound import LayerBound, binding_term
from fadiff.search.solver.place import ON_ITS_OWN

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.schedule import Schedule

_CONDITIONS_PER_STEP = 512
_CUTS = 5
_POLISHES = 4
_WALKS = {"edp": 60, "energy": 160, "latency": 60}
"""Walks through each layer on its own, on average, at most: energy alone says less of how tiles should be."""
_WALKS_AT_ONCE = 10
_CANDIDATES = 6
"""Chains of a layer that are climbed from."""
_BISECTIONS = 14
_MOST_STRESS = 16.0
"""Cuts that seek the price at which limits are kept, up to this logarithm of what the objective says."""
_NO_GAIN = 1e-3
"""Layers that cannot be better by more than this share of their cost are solved."""

Steps = Generator[Status, None, None]


class _Unsolved:
    """Layers of one shape on their own, the best mapping of the first so far, and what is proven of all others.

    Layers that differ in their epilogues alone have nearly the same mappings: one is solved for all.
    """

    def __init__(self, known: ExactSearch, alike: Sequence[Condition], weights: Weights) -> None:
        task, condition = known.task, alike[0]
        self.alike = alike
        numbers = {one.layer for one in alike}
        self.runs = sum(
            layer.repeat for layer, twin in zip(task.workload.layers, task.twin, strict=True) if twin in numbers
        )
        self.best = float(weighed(known.menus[condition], weights).min())
        binds = binding_term(known.best, condition.layer)
        self.bound = LayerBound(task.layer(condition), task.machine, (ON_ITS_OWN,), binds)
        self.least = self.bound.at(weights, passes=0)

    @property
    def cost(self) -> float:
        """What all such layers cost."""
        return self.runs * self.best

    @property
    def loss(self) -> float:
        """What they may lose."""
        return self.runs * (self.best - self.least)

    def walk(self, weights: Weights) -> bool:
        """Prove more; whether anything was left to do."""
        before = self.bound.passes
        self.least = self.bound.at(weights, self.best, _WALKS_AT_ONCE)
        return self.bound.passes > before

    def starts(self, task: Task) -> list[Start]:
        """The most promising mappings that the proof met."""
        order = np.zeros(len(task.machine.memories), dtype=np.int32)
        chosen = sorted(self.bound.candidates, key=lambda one: one.promise)[:_CANDIDATES]
        return [Start(factors_of(one.extents, task.machine, task.space), order) for one in chosen]


class ExactSearch:
    """What the exact search knows of a task: mappings by condition, plans, and the present groups."""

    def __init__(self, task: Task, settings: Settings, incumbent: Incumbent) -> None:
        self.task = task
        self.settings = settings
        self.incumbent = incumbent
        self.menus: Menus = {}
        self.singles = [plan_alone(task, name) for name in task.workload.topological]
        self.plans: list[Plan] = list(self.singles)
        self.groups: list[Filled] = []

    @property
    def best(self) -> Evaluation:
        """The incumbent."""
        assert self.incumbent.best is not None, "the driver starts from a legal schedule"
        return self.incumbent.best

    @property
    def weights(self) -> Weights:
        """Prices of a pJ and a cycle near the incumbent."""
        return self._weights(self.best)

    def _weights(self, near: Evaluation) -> Weights:
        energy, time = price_weights(near, self.settings.objective)
        return energy * self.incumbent.stress[0], time * self.incumbent.stress[1]

    @property
    def schedule(self) -> Schedule:
        """The present groups as a schedule."""
        return to_schedule(self.task, self.groups)

    def map(self, starts: int, *, polished: bool) -> Steps:
        """Layers on their own, from so many starts each."""
        self.menus |= alone(self.task, conditions_of(self.singles), self.weights, self.settings.seed, starts)
        yield from self._cuts(self.singles, "map")
        if polished:
            found = {condition: starts_of(menu) for condition, menu in self.menus.items()}
            self.menus |= climbed_from(self.task, found, self.weights, pairs=True)
            yield from self._cuts(self.singles, "map")

    def solve(self) -> Steps:
        """Layers on their own, those first that may still become much better, as long as all of them may."""
        task, weights = self.task, self.weights
        shapes: dict[object, list[Condition]] = {}
        for condition in dict.fromkeys(conditions_of(self.singles)):
            layer = task.layer(condition)
            if layer.is_mac:
                shapes.setdefault((layer.dims, layer.stride, layer.dilation), []).append(condition)
        open_ = [_Unsolved(self, alike, weights) for alike in shapes.values()]
        most, found = _WALKS[self.settings.objective] * len(open_), [*open_]
        while open_ and sum(one.bound.passes for one in found) < most:
            lost = max(open_, key=lambda one: one.loss)
            if sum(one.loss for one in open_) < _NO_GAIN * sum(one.cost for one in found):
                break
            if not lost.walk(weights):
                open_.remove(lost)
            yield Status("solve", sum(one.bound.passes for one in found), most)
        self.take_hints({condition.layer: one.starts(task) for one in found for condition in one.alike})
        yield from self._cuts(self.singles, "solve")

    def take_hints(self, hints: Hints) -> None:
        """Climb from mappings that somebody proposes for layers on their own."""
        starts = {c: hints[c.layer] for c in conditions_of(self.singles) if hints.get(c.layer)}
        for condition, more in climbed_from(self.task, starts, self.weights).items():
            self.menus[condition] = join([self.menus[condition], more])

    def enumerate_plans(self) -> None:
        """Take up every plan worth trying."""
        self.plans += plans(self.task)

    def fuse(self, phase: str, hints: Hints | None = None) -> Steps:
        """Map all conditions that are not mapped yet, and cut again whenever a part of them is."""
        hints = self.known_starts() if hints is None else hints
        todo = [condition for condition in conditions_of(self.plans) if condition not in self.menus]
        for at in range(0, max(1, len(todo)), _CONDITIONS_PER_STEP):
            part = todo[at : at + _CONDITIONS_PER_STEP]
            if part:
                self.menus |= grouped(self.task, part, self.weights, self.settings.seed, hints)
                self._enumerate(part)
            ready = [plan for plan in self.plans if all(c in self.menus for c in plan.conditions)]
            yield from self._cuts(ready, phase)

    def _enumerate(self, conditions: Sequence[Condition]) -> None:
        """Of small layers, take all mappings worth having."""
        for condition in conditions:
            if (every := every_mapping(self.task, condition, self.weights)) is not None:
                self.menus[condition] = join([self.menus[condition], every])

    def known_starts(self) -> Hints:
        """The mappings of every layer on its own, the best first, as starts for its other conditions."""
        return {c.layer: starts_of(self.menus[c]) for c in conditions_of(self.singles)}

    def polish(self) -> Steps:
        """Polish until nothing changes, and remember the mappings it finds, so that later cuts can use them."""
        for turn in range(_POLISHES):
            before = self.schedule
            self.groups = polish(self.task, self.groups, self.weights)
            self.incumbent.offer(self.schedule)
            yield Status("polish", turn + 1, _POLISHES)
            if self.schedule == before:
                break
        for filled in self.groups:
            for i, condition in enumerate(filled.plan.conditions):
                self.menus[condition] = join([self.menus[condition], subset(filled.chosen, [i])])

    def keep_limits(self) -> Steps:
        """Where what the objective asks for is over a limit, let what is limited cost more, until it is within.

        Mappings that were climbed to at other prices are climbed from again, and the price is sought once more.
        """
        if not self.settings.limits.excess(evaluate(self.schedule)):
            return
        ready = [plan for plan in self.plans if all(condition in self.menus for condition in plan.conditions)]
        yield from self._stress(ready)
        used = dict.fromkeys(conditions_of([*self.singles, *(filled.plan for filled in self.groups)]))
        self._climb_again([condition for condition in used if self.task.layer(condition).is_mac])
        yield from self._stress(ready)
        yield from self.polish()

    def _stress(self, ready: Sequence[Plan]) -> Steps:
        """The least price of what is over its limit at which a cut of the network is within it, by bisection."""
        near, limits = evaluate(self.schedule), self.settings.limits
        limited = 0 if near.energy_pj / limits.energy_pj > near.cycles / limits.cycles else 1
        low, high = 0.0, _MOST_STRESS
        self.incumbent.stress = (1.0, 1.0)
        base = self._weights(near)
        for turn in range(_BISECTIONS):
            middle = (low + high) / 2 if turn else high
            stress = [1.0, 1.0]
            stress[limited] = exp(middle)
            self.groups = cut(self.task, ready, self.menus, (base[0] * stress[0], base[1] * stress[1]))
            found = self.incumbent.offer(self.schedule)
            if found is not None and not limits.excess(found):
                high = middle
            elif turn:
                low = middle
            yield Status("limits", turn + 1, _BISECTIONS)
        stress = [1.0, 1.0]
        stress[limited] = exp(high)
        self.incumbent.stress = stress[0], stress[1]

    def _climb_again(self, conditions: Sequence[Condition]) -> None:
        """Climb from the mappings of some conditions at the present prices."""
        starts = {c: starts_of(self.menus[c]) for c in conditions if size_of(self.menus[c])}
        for condition, more in climbed_from(self.task, starts, self.weights).items():
            self.menus[condition] = join([self.menus[condition], more])

    def _cuts(self, ready: Sequence[Plan], phase: str) -> Steps:
        """Cut, reprice near the result, and cut again until nothing changes."""
        near, before = self.best, None
        for turn in range(_CUTS):
            self.groups = cut(self.task, ready, self.menus, self._weights(near))
            if self.schedule == before:
                break
            before = self.schedule
            near = self.incumbent.offer(before) or near
            yield Status(phase, turn + 1, _CUTS)
