"""Mapping and fusion together, exactly: climbs, plans, and cuts of the whole network.

1. *Map*: every layer on its own climbs to optima of the exact model, from a few fixed and random starts; then it is
   *solved*: branch and bound over chains of extents (:mod:`fadiff.search.solver`) until no mapping can be better, and
   climbs from what that finds.
2. *Fuse*: plans for groups with trip counts under which their buffers fit; for every layer under every plan's
   condition a mapping with all room there is; under the conditions of plans that may then still pay, others for less
   and less room. The network is *cut* into groups by dynamic programming, and prices follow the result until the cut
   stays the same.
3. *Refine*: plans that come near are polished, too, and of their layers all trip counts are tried.
4. *Polish*: moves in pairs on every layer, with exactly the room its group leaves.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import takewhile
from math import exp
from typing import TYPE_CHECKING

import numpy as np

from fadiff.cost import evaluate
from fadiff.search.driver import Incumbent, OutOfTimeError, Settings, Status
from fadiff.search.exact.asked import asked_plans
from fadiff.search.exact.assemble import Filled, fill, polish, to_schedule
from fadiff.search.exact.conditions import Condition, Task
from fadiff.search.exact.cuts import Cut, Cuts
from fadiff.search.exact.every import every_mapping
from fadiff.search.exact.lessons import Lessons, recalled
from fadiff.search.exact.menus import (
    Hints,
    Menus,
    Row,
    Start,
    alone,
    cheapest,
    climbed_from,
    distinct,
    grouped,
    join,
    outermost,
    roomy,
    size_of,
    start_of,
    started,
    starts_in,
    starts_of,
    subset,
    thriftier,
    weighed,
)
from fadiff.search.exact.plans import WIDEST_GAP_OF_ALL, Members, conditions_of, plan_for, plans
from fadiff.search.exact.plans import alone as plan_alone
from fadiff.search.objective import ENERGY, Objective, Weights
from fadiff.search.solver.decode import factors_of
from fadiff.search.solver.layer_bound import LayerBound, binding_term
from fadiff.search.solver.place import ON_ITS_OWN

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.schedule import Schedule

_CONDITIONS_PER_STEP = 512
_CUTS = 5
_PLANS_AT_ONCE = 128
"""Plans whose layers get mappings for less room before the network is cut again."""
_ROUNDS = 6
_NEAR = 0.01
_NEAR_PLANS = 32
"""Plans that are refined: whose schedules are dearer by this share of the price at most, and how many of them."""
_REFINEMENTS = 3
_POLISHES = 4
_WALKS, _WALKS_FOR_ENERGY = 60, 160
"""Walks through each layer on its own, on average, at most: energy alone says less of how tiles should be."""
_WALKS_AT_ONCE = 10
_CANDIDATES = 6
"""Chains of a layer that are climbed from."""
_BISECTIONS = 14
_MOST_STRESS = 16.0
"""Cuts that seek the price at which limits are kept, up to this logarithm of what the objective says."""
_NO_GAIN = {False: 1e-3, True: 1e-4}
"""Layers that cannot be better by more than this share of their cost are solved; less where factors divide, since walks
are short then."""

Steps = Generator[Status, None, None]


class _Unsolved:
    """Layers of one shape on their own, the best mapping of the first so far, and what is proven of all others.

    Layers that differ in their epilogues alone have nearly the same mappings, where these cost nothing: one is solved
    for all.
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
        asked = task.restrictions.layer_asked(condition.layer)
        self.bound = LayerBound(task.layer(condition), task.machine, (ON_ITS_OWN,), binds, task.exact_factors, asked)
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


def _distinct(starts: Sequence[Start]) -> list[Start]:
    return list({(one.factors.tobytes(), one.order.tobytes()): one for one in starts}.values())


class ExactSearch:
    """What the exact search knows of a task: mappings by condition, plans, and the present groups."""

    def __init__(self, task: Task, settings: Settings, incumbent: Incumbent) -> None:
        self.task = task
        self.settings = settings
        self.incumbent = incumbent
        self.menus: Menus = {}
        alone = [plan_alone(task, name) for name in task.workload.topological]
        self.singles = [plan for plan in alone if task.restrictions.allows(plan.group)]
        self.asked = asked_plans(task)
        """Plans of groups that must be."""
        self.cuts = Cuts(task, [*self.singles, *self.asked])
        self.groups: list[Filled] = []
        self._last: Cut | None = None
        self._thrifty: set[Condition] = set()
        """Conditions with mappings for less room."""
        self._given: Menus = {}
        """Mappings of groups that the search started from."""
        self._widened: set[tuple[str, ...]] = set()
        """Layers of which all trip counts were tried as a group."""
        given = settings.lessons
        self.lessons = given if given is not None and given.suit(task) else Lessons()
        self.learned = self.lessons.learned
        """What is known from a machine alike; None where nothing is."""

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
        energy, time = self.settings.objective.weights(near)
        return energy * self.incumbent.stress[0], time * self.incumbent.stress[1]

    @property
    def schedule(self) -> Schedule:
        """The present groups as a schedule."""
        return to_schedule(self.task, self.groups)

    def map(self, starts: int, *, polished: bool) -> Steps:
        """Layers on their own, from so many starts each."""
        new = self._recall(conditions_of(self.singles))
        self.take_hints({c.layer: [cheapest(self.menus[c], self.weights)] for c in self.menus})
        self.menus |= alone(self.task, new, self.weights, self.settings.seed, starts)
        if self.task.restrictions.constraints:
            hints = starts_in(self.task, self.best.schedule)
            self.take_hints(hints)
            self.menus |= grouped(self.task, conditions_of(self.asked), self.weights, self.settings.seed, hints)
        self._thrifty |= {*self.menus}
        yield from self._cut("map")
        if polished and self.learned is None:
            found = {condition: starts_of(menu) for condition, menu in self.menus.items()}
            self.menus |= climbed_from(self.task, found, self.weights, pairs=True)
            yield from self._cut("map")

    def resume(self, schedules: Sequence[Schedule]) -> Steps:
        """Climb from the mappings of schedules that somebody had, and take up their groups with these mappings."""
        task = self.task
        hints: dict[int, list[Start]] = {}
        rows: dict[Condition, Row] = {}
        for schedule in schedules:
            starts = {name: start_of(task, mapping) for name, mapping in schedule.mappings.items()}
            for name, start in starts.items():
                hints.setdefault(task.twin[task.number[name]], []).append(start)
            fused = (plan_for(task, group) for group in schedule.groups if len(group.layers) > 1)
            for plan in (plan for plan in fused if plan is not None):
                self.cuts.add([plan])
                for name, condition in zip(plan.group.layers, plan.conditions, strict=True):
                    rows[condition] = Row(condition, starts.get(name, outermost(task)), task.all_room)
        self.take_hints({twin: _distinct(mine) for twin, mine in hints.items()})
        for condition, row in rows.items():
            self._given[condition] = started(task, [row], self.weights)
        yield from self._cut("start")

    def solve(self) -> Steps:
        """Layers on their own, those first that may still become much better, as long as all of them may."""
        task, weights = self.task, self.weights
        shapes: dict[object, list[Condition]] = {}
        for condition in dict.fromkeys(conditions_of(self.singles)):
            layer = task.layer(condition)
            if layer.is_mac:
                asked = task.restrictions.of_layer(condition.layer)
                shape = (layer.dims, layer.stride, layer.dilation, task.machine.vector_operations(layer), asked)
                shapes.setdefault(shape, []).append(condition)
        open_ = [_Unsolved(self, alike, weights) for alike in shapes.values()]
        walks = _WALKS_FOR_ENERGY if self.settings.objective.prices == ENERGY.prices else _WALKS
        most, found = walks * len(open_), [*open_]
        while open_ and sum(one.bound.passes for one in found) < most:
            lost = max(open_, key=lambda one: one.loss)
            if sum(one.loss for one in open_) < _NO_GAIN[task.exact_factors] * sum(one.cost for one in found):
                break
            if not lost.walk(weights):
                open_.remove(lost)
            yield Status("solve", sum(one.bound.passes for one in found), most)
        self.take_hints({condition.layer: one.starts(task) for one in found for condition in one.alike})
        yield from self._cut("solve")

    def take_hints(self, hints: Hints) -> None:
        """Climb from mappings that somebody proposes for layers on their own."""
        starts = {c: hints[c.layer] for c in conditions_of(self.singles) if hints.get(c.layer)}
        for condition, more in climbed_from(self.task, starts, self.weights).items():
            self.menus[condition] = join([self.menus[condition], more])

    def enumerate_plans(self) -> None:
        """Take up every plan worth trying, those of small groups first, in half of the time that is left at most.

        Where a search on a machine alike ended with plans that fit here, these too.
        """
        if self.learned is not None and self.task.fusing is not None:
            room = self.task.all_room.running[self.task.fusing]
            self.cuts.add([plan for plan in self.learned.plans if max(plan.live_bytes) <= room])
        stop = time.monotonic() + self.settings.seconds_left / 2
        self.cuts.add(takewhile(lambda _: time.monotonic() < stop, plans(self.task, self.lessons.sets)))
        if time.monotonic() >= stop:
            raise OutOfTimeError("large groups were left out: listing them takes half of the time that was left")

    def fuse(self, phase: str, hints: Hints | None = None) -> Steps:
        """Map all conditions that are not mapped yet, and cut again whenever a part of them is."""
        hints = self.known_starts() if hints is None else hints
        todo = self._recall([condition for condition in self.cuts.conditions if condition not in self.menus])
        for at in range(0, max(1, len(todo)), _CONDITIONS_PER_STEP):
            part = todo[at : at + _CONDITIONS_PER_STEP]
            if part:
                self.menus |= roomy(self.task, part, self.weights, self.settings.seed, hints)
                self._enumerate(part)
                for condition in (condition for condition in part if condition in self._given):
                    self.menus[condition] = join([self.menus[condition], self._given[condition]])
            yield from self._cut(phase)
            yield from self._make_room(phase, hints)

    def _make_room(self, phase: str, hints: Hints) -> Steps:
        """Map layers for less room under the conditions of plans that may make the schedule better."""
        for _ in range(_ROUNDS):
            chosen = [self.cuts.plans[i] for i in self._promising(done=False)[:_PLANS_AT_ONCE]]
            found = {c: self.menus[c] for c in conditions_of(chosen) if c not in self._thrifty}
            if not found:
                return
            self.menus |= thriftier(self.task, found, self.weights, self.settings.seed, hints)
            self._thrifty |= {*found}
            yield from self._cut(phase)

    def _promising(self, *, done: bool) -> list[int]:
        """Plans that would make the schedule better if their layers fitted together as they are cheapest, the best
        first: of those with mappings for less room, or of the others."""
        assert self._last is not None, "there was a cut"
        known = self.cuts.known(self._thrifty)
        price = self._last.least if done else np.where(known, self._last.price, self._last.least)
        regret = self.cuts.regret(price, self._last.total)
        return [i for i in np.argsort(regret, kind="stable").tolist() if regret[i] < 0 and known[i] == done]

    def _near(self) -> list[Filled]:
        """Plans with mappings that make a schedule nearly as good as the best one, the best first."""
        assert self._last is not None, "there was a cut"
        price, filled = self._last.price.copy(), dict[int, Filled]()
        for i in self._promising(done=True)[: 4 * _NEAR_PLANS]:
            found = fill(self.task, self.cuts.plans[i], self.menus, self._weights(self.best), np.inf)
            price[i] = np.inf if found is None else found.price
            if found is not None and len(found.plan.conditions) > 1:
                filled[i] = found
        regret = self.cuts.regret(price, self._last.total)
        near = sorted((i for i in filled if regret[i] < _NEAR * self._last.total), key=lambda i: regret[i])
        return [filled[i] for i in near[:_NEAR_PLANS]]

    def refine(self) -> Steps:
        """Improve plans that come near the best ones, and try all trip counts of their layers.

        Once is enough where a search on a machine alike did so before.
        """
        for _ in range(_REFINEMENTS if self.learned is None else 1):
            before, near = self.best, self._near()
            sets = [one.plan.group.layers for one in near if one.plan.group.layers not in self._widened]
            self._widened |= {*sets}
            members = [self._members(layers) for layers in dict.fromkeys(sets)]
            self.cuts.add([one.plan(sharing) for one in members for sharing in one.every()])
            yield from self.fuse("refine")
            near = polish(self.task, self._near(), self.weights, pairs=False)
            self._remember(near)
            yield from self._cut("refine")
            if self.best is before and not sets:
                break

    def _members(self, layers: tuple[str, ...]) -> Members:
        """Layers as a group that may have any trip counts."""
        known = self.lessons.widened.get(layers)
        found = Members(self.task, layers, WIDEST_GAP_OF_ALL) if known is None else known.on(self.task)
        self.lessons.widened[layers] = found
        return found

    def _recall(self, conditions: Sequence[Condition]) -> list[Condition]:
        """Price mappings that are known from a machine alike; the conditions of which none fits here."""
        found = {} if self.learned is None else recalled(self.learned, self.task, conditions, self.weights)
        self.menus |= {c: join([menu, self._given[c]]) if c in self._given else menu for c, menu in found.items()}
        if self.learned is not None:
            self._thrifty |= self.learned.thrifty & found.keys()
        return [condition for condition in conditions if condition not in found]

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
        self._remember(self.groups)

    def _remember(self, groups: Sequence[Filled]) -> None:
        """Put the mappings of groups on the menus."""
        for filled in groups:
            for i, condition in enumerate(filled.plan.conditions):
                self.menus[condition] = join([self.menus[condition], subset(filled.chosen, [i])])

    def teach(self) -> None:
        """Leave what was found out to searches on machines alike, if any follow."""
        if self.lessons is self.settings.lessons:
            self.lessons.learn(self.menus, self._thrifty, [filled.plan for filled in self.groups])

    def keep_limits(self) -> Steps:
        """Where what the objective asks for is over a limit, let what is limited cost more, until it is within.

        Mappings that were climbed to at other prices are climbed from again, and the price is sought once more.
        """
        if not self.settings.limits.excess(evaluate(self.schedule)):
            return
        yield from self._stress()
        self._climb_again()
        yield from self._stress()
        yield from self.polish()

    def _stress(self) -> Steps:
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
            self.groups = self.cuts.cut(self.menus, (base[0] * stress[0], base[1] * stress[1])).groups
            found = self.incumbent.offer(self.schedule)
            if found is not None and not limits.excess(found):
                high = middle
            elif turn:
                low = middle
            yield Status("limits", turn + 1, _BISECTIONS)
        stress = [1.0, 1.0]
        stress[limited] = exp(high)
        self.incumbent.stress = stress[0], stress[1]

    def turn_to(self, objective: Objective, incumbent: Incumbent) -> Steps:
        """Go on with all that is known at the prices of another objective, from another incumbent."""
        self.settings, self.incumbent = replace(self.settings, objective=objective), incumbent
        self.cuts.forget_prices()
        yield from self._cut("turn")
        self._climb_again()
        self._enumerate([condition for condition in self.cuts.conditions if condition in self.menus])
        self.menus = {condition: distinct(menu) for condition, menu in self.menus.items()}
        yield from self._cut("turn")

    def _climb_again(self) -> None:
        """Climb from the mappings of all layers on their own and of the present groups, at the present prices."""
        used = conditions_of([*self.singles, *(filled.plan for filled in self.groups)])
        mapped = [condition for condition in used if self.task.layer(condition).is_mac]
        starts = {c: starts_of(self.menus[c]) for c in mapped if size_of(self.menus[c])}
        for condition, more in climbed_from(self.task, starts, self.weights).items():
            self.menus[condition] = join([self.menus[condition], more])

    def _cut(self, phase: str) -> Steps:
        """Cut, reprice near the result, and cut again until nothing changes."""
        near, before = self.best, None
        for turn in range(_CUTS):
            self._last = self.cuts.cut(self.menus, self._weights(near))
            if not self._last.groups:
                raise OutOfTimeError("nothing better was sought: what is asked is too tight to climb in")
            self.groups = self._last.groups
            if self.schedule == before:
                break
            before = self.schedule
            near = self.incumbent.offer(before) or near
            yield Status(phase, turn + 1, _CUTS)
