"""Mapping and fusion together, exactly: climbs, plans, and cuts of the whole network.

1. *Map*: every layer on its own climbs to optima of the exact model, from a few starts.
2. *Fuse*: plans for groups with trip counts under which their buffers fit. Under every plan's conditions the mappings
   of layers on their own are tried as they stand; under the conditions of plans that may then make the schedule better,
   climbs start from the best of them, with all room there is and with less and less. The network is *cut* into groups
   by dynamic programming, and prices follow the result until the cut stays the same.
3. *Map* again from more starts, and *solve*: branch and bound over chains of extents (:mod:`fadiff.search.solver`) of
   layers that are not fused. What these find is tried in groups again.
4. *Refine*: plans that come near are polished, too, and of their layers all trip counts are tried.
5. *Polish*: moves in pairs on every layer, with exactly the room its group leaves.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import takewhile
from math import exp
from typing import TYPE_CHECKING

import numpy as np

from fadiff.cost import evaluate
from fadiff.search import clock
from fadiff.search.driver import Incumbent, OutOfTimeError, Settings, Status
from fadiff.search.exact.asked import asked_plans
from fadiff.search.exact.assemble import Filled, fill, polish, to_schedule
from fadiff.search.exact.conditions import Condition, Task
from fadiff.search.exact.cuts import Cut, Cuts
from fadiff.search.exact.every import every_mapping
from fadiff.search.exact.lessons import Learned, Lessons, outgrown, recalled
from fadiff.search.exact.menus import (
    Hints,
    Key,
    Menus,
    Row,
    alone,
    best_few,
    cheapest,
    climbed_from,
    distinct,
    distinct_starts,
    grouped,
    improved,
    join,
    key_of,
    roomy,
    size_of,
    start_from,
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
from fadiff.search.exact.screen import known_under, screened
from fadiff.search.exact.solving import FEWEST_WALKS, NO_GAIN, WALKS, WALKS_FOR_ENERGY, Unsolved, unsolved, walk
from fadiff.search.exact.starts import Start, outermost
from fadiff.search.objective import ENERGY, Objective, Weights

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.schedule import Schedule

_CUTS = 5
_PLANS_AT_ONCE = 128
"""Plans whose layers get mappings for less room before the network is cut again."""
_ROUNDS, _ROUNDS_OF_TAUGHT = 6, 2
_MARGIN = 0.02
"""Conditions of plans are climbed in that may be dearer by this share of the price, at the prices of known mappings."""
_NEAR = 0.01
_NEAR_PLANS, _NEAREST_PLANS = 32, 4
"""Plans that are refined: whose schedules are dearer by this share of the price at most, and how many of them; and how
many by moves in pairs."""
_REFINEMENTS = 3
_POLISHES = 4
_BISECTIONS = 14
_MOST_STRESS = 16.0
"""Cuts that seek the price at which limits are kept, up to this logarithm of what the objective says."""
Steps = Generator[Status, None, None]


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
        self._climbed: set[Condition] = set()
        """Conditions whose best mapping was climbed from."""
        self._tried: dict[int, set[Key]] = {}
        """By layer: mappings that were tried under all conditions."""
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
        self.whole = False
        """Whether all that the method does was done."""
        if self.learned is not None:
            self._tried = {number: {*keys} for number, keys in self.learned.tried.items()}
        self.unsettled: list[Condition] | None = None
        """Layers on their own, but for those of which the best mapping is known from a machine alike; None before it is
        known which."""
        self._offered: tuple[Schedule, Evaluation | None] | None = None
        """The last schedule that a cut led to."""

    @property
    def taught(self) -> bool:
        """Whether a search on a machine alike ran to its end: what it did need not be done again."""
        return self.learned is not None and self.learned.whole

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
        """Layers on their own, from so many starts each and from the incumbent's mappings; `polished`, the best of each
        go on by moves in pairs.

        What is known from a machine alike takes their place, where it has room here, and is climbed from once.
        """
        hints = None if self.task.restrictions.constraints else starts_in(self.task, self.best.schedule)
        if self.unsettled is None:
            if self.learned is not None:
                # Prices near it are those that count in the end.
                self.incumbent.offer(replace(self.learned.schedule, machine=self.task.machine))
            singles = conditions_of(self.singles)
            self._recall(singles)
            self.take_hints({c.layer: [cheapest(self.menus[c], self.weights)] for c in self.menus})
            self.unsettled = [one for one in singles if not (self.taught and one in self._climbed)]
        self._take(alone(self.task, self.unsettled, self.weights, self.settings.seed, starts, hints))
        mapped = {*conditions_of(self.singles)}
        if self.task.restrictions.constraints:
            hints = starts_in(self.task, self.best.schedule)
            self.take_hints(hints)
            asked = conditions_of(self.asked)
            self.menus |= grouped(self.task, asked, self.weights, self.settings.seed, hints)
            mapped |= {*asked}
        self._thrifty |= mapped
        self._climbed |= mapped
        yield from self._cut("map")
        if polished:
            best = {c: starts_of(best_few(self.menus[c], self.weights)) for c in self.unsettled}
            self._take(climbed_from(self.task, best, self.weights, pairs=True))
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
        self.take_hints({twin: distinct_starts(mine) for twin, mine in hints.items()})
        for condition, row in rows.items():
            self._given[condition] = started(task, [row], self.weights)
        yield from self._cut("start")

    def solve(self) -> Steps:
        """Layers that are on their own and not settled, those first that may still become much better, as long as all
        of them may."""
        price = sum(one.price for one in self.groups)
        alone = [one.plan for one in self.groups if len(one.plan.group.layers) == 1]
        unsettled = conditions_of(self.singles) if self.unsettled is None else self.unsettled
        lonely = [plan.group.layers[0] for plan in alone if plan.conditions[0] in unsettled]
        weights = self.weights
        found = unsolved(self.task, self.menus, lonely, self.best, weights)
        walks = (WALKS_FOR_ENERGY if self.settings.objective.prices == ENERGY.prices else WALKS) * len(found)

        def climb(one: Unsolved) -> None:
            if starts := one.starts(self.task):
                self.take_hints({condition.layer: starts for condition in one.alike})
                one.know(self.menus, weights)

        yield from walk(found, weights, max(walks, FEWEST_WALKS), NO_GAIN[self.task.exact_factors] * price, climb)
        self._offer_unfused()
        yield from self._cut("solve")

    def _offer_unfused(self) -> None:
        """Offer the best mappings of all layers on their own: what fusion is measured against."""
        found = [fill(self.task, plan, self.menus, self.weights, np.inf) for plan in self.singles]
        if len(one_by_one := [one for one in found if one is not None]) == len(self.task.workload.layers):
            self.incumbent.offer(to_schedule(self.task, one_by_one))

    def take_hints(self, hints: Hints) -> None:
        """Climb from mappings that somebody proposes for layers on their own."""
        starts = {c: hints[c.layer] for c in conditions_of(self.singles) if hints.get(c.layer)}
        self._take(climbed_from(self.task, starts, self.weights))

    def enumerate_plans(self) -> None:
        """Take up every plan worth trying, those of small groups first, in half of the time that is left at most.

        Where a search on a machine alike ended with plans that fit here, these too.
        """
        if self.learned is not None and self.task.fusing is not None:
            room = self.task.all_room.running[self.task.fusing]
            self.cuts.add([plan for plan in self.learned.plans if max(plan.live_bytes) <= room])
        stop = clock.monotonic() + self.settings.seconds_left / 2
        self.cuts.add(takewhile(lambda _: clock.monotonic() < stop, plans(self.task, self.lessons.sets)))
        if clock.monotonic() >= stop:
            raise OutOfTimeError("large groups were left out: listing them takes half of the time that was left")

    def fuse(self, phase: str, hints: Hints | None = None, *, hopeful: bool = False) -> Steps:
        """Try known mappings under all conditions, and climb under those of plans that may make the schedule better.

        What is hopeful climbs under more conditions: a layer should cost no more in a group than on its own.
        """
        self._screen(self.known_starts() if hints is None else hints)
        yield from self._cut(phase)
        yield from self._climb(phase, hopeful=hopeful)
        yield from self._make_room(phase)

    def _screen(self, hints: Hints) -> None:
        """Try mappings under all conditions under which they were not tried yet."""
        task, weights = self.task, self.weights
        new = self._recall([condition for condition in self.cuts.conditions if condition not in self.menus])
        tried = {number: self._tried.setdefault(number, set()) for number in hints}
        fresh = {number: [one for one in mine if key_of(one) not in tried[number]] for number, mine in hints.items()}
        old = [c for c in self.menus if c.grouped and fresh.get(c.layer)]
        for condition, menu in known_under(task, old, fresh, weights).items():
            least = weighed(self.menus[condition], weights).min(initial=np.inf)
            if weighed(menu, weights).min(initial=np.inf) < least * (1 - NO_GAIN[True]):
                self._take({condition: menu})
                self._climbed.discard(condition)
                self._thrifty.discard(condition)
        for number, mine in fresh.items():
            tried[number].update(map(key_of, mine))
        known = {number: (*mine, *hints.get(number, ())) for number, mine in self.known_starts().items()}
        self.menus |= screened(task, new, known, weights)
        self._enumerate(new)
        self._take({c: self._given[c] for c in new if c in self._given})
        fixed = {c for c in new if not task.layer(c).is_mac or not size_of(self.menus[c])}
        self._climbed |= fixed
        self._thrifty |= fixed

    def _climb(self, phase: str, *, hopeful: bool) -> Steps:
        """Climb from the best mappings under the conditions of plans that may make the schedule better.

        Where these are dearer than is hoped for, they are far from what a climb can end at: then from other starts.
        """
        for _ in range(_ROUNDS):
            assert self._last is not None, "there was a cut"
            weights = self.weights
            hopes = self._hopes(weights) if hopeful else {}
            regret = self.cuts.regret(self.cuts.least(self.menus, weights, hopes), self._last.total)
            known = self.cuts.known(self._climbed)
            worth = (regret < _MARGIN * self._last.total) & ~known
            ranked: list[int] = np.argsort(regret, kind="stable").tolist()
            chosen = [self.cuts.plans[i] for i in ranked if worth[i]][:_PLANS_AT_ONCE]
            todo = {c: self.menus[c] for c in conditions_of(chosen) if c not in self._climbed}
            if not todo:
                return
            dear = [c for c, menu in todo.items() if weighed(menu, weights).min(initial=np.inf) > hopes.get(c, np.inf)]
            self._take(roomy(self.task, dear, weights, self.settings.seed, self.known_starts()))
            self._take(improved(self.task, {c: todo[c] for c in todo if c not in dear}, weights))
            self._climbed |= {*todo}
            yield from self._cut(phase)

    def _hopes(self, weights: Weights) -> dict[Condition, float]:
        """Under conditions that were not climbed in, what the layer costs on its own."""
        own = {c.layer: float(weighed(self.menus[c], weights).min(initial=np.inf)) for c in conditions_of(self.singles)}
        return {c: own[c.layer] for c in self.cuts.conditions if c not in self._climbed and c.layer in own}

    def _take(self, found: Menus) -> None:
        """Put mappings on the menus of their conditions."""
        for condition, menu in found.items():
            self.menus[condition] = join([self.menus[condition], menu]) if condition in self.menus else menu

    def _make_room(self, phase: str) -> Steps:
        """Map layers for less room under the conditions of plans that may make the schedule better.

        What is known from a machine alike leaves less to find: fewer rounds, and no more climbs with all the room.
        """
        for _ in range(_ROUNDS_OF_TAUGHT if self.taught else _ROUNDS):
            chosen = [self.cuts.plans[i] for i in self._promising()[:_PLANS_AT_ONCE]]
            todo = [c for c in conditions_of(chosen) if c not in self._thrifty]
            if not todo:
                return
            told = self.weights, self.settings.seed, self.known_starts()
            if not self.taught:
                self._take(roomy(self.task, todo, *told))
            found = thriftier(self.task, {c: self.menus[c] for c in todo}, *told)
            self.menus |= {condition: distinct(menu) for condition, menu in found.items()}
            self._thrifty |= {*todo}
            self._climbed |= {*todo}
            yield from self._cut(phase)

    def _promising(self) -> list[int]:
        """Plans without mappings for less room that would make the schedule better if their layers fitted together as
        they are cheapest, the best first."""
        assert self._last is not None, "there was a cut"
        known = self.cuts.known(self._thrifty)
        regret = self.cuts.regret(np.where(known, self._last.price, self._last.least), self._last.total)
        return [i for i in np.argsort(regret, kind="stable").tolist() if regret[i] < 0 and not known[i]]

    def _near(self) -> list[Filled]:
        """Plans with mappings that make a schedule nearly as good as the best one, the best first."""
        assert self._last is not None, "there was a cut"
        most, price = _NEAR * self._last.total, self._last.price.copy()
        regret = self.cuts.regret(self._last.least, self._last.total)
        ranked: list[int] = np.argsort(regret, kind="stable").tolist()
        tried = [i for i in ranked if regret[i] < most][: 4 * _NEAR_PLANS]
        filled = self.cuts.fill(tried, self.menus, self._weights(self.best))
        for i in tried:
            price[i] = filled[i].price if i in filled else np.inf
        regret = self.cuts.regret(price, self._last.total)
        near = sorted(
            (i for i in filled if regret[i] < most and len(filled[i].plan.conditions) > 1), key=lambda i: regret[i]
        )
        return [filled[i] for i in near[:_NEAR_PLANS]]

    def _hopeful_sets(self) -> list[tuple[str, ...]]:
        """Layers that as a group would make the schedule better if they fitted together as they are cheapest under some
        trip counts, the best first: under others they may fit."""
        assert self._last is not None, "there was a cut"
        regret = self.cuts.regret(self._last.least, self._last.total)
        ranked: list[int] = np.argsort(regret, kind="stable").tolist()
        better = (self.cuts.plans[i] for i in takewhile(lambda i: regret[i] < 0, ranked))
        return [*dict.fromkeys(plan.group.layers for plan in better if len(plan.conditions) > 1)][:_NEAR_PLANS]

    def refine(self) -> Steps:
        """Improve plans that come near the best ones, and try all trip counts of their layers.

        Once is enough where a search on a machine alike did so before.
        """
        for _ in range(1 if self.taught else _REFINEMENTS):
            before, near = self.best, self._near()
            nearest = [one.plan.group.layers for one in near]
            sets = [
                layers for layers in dict.fromkeys([*nearest, *self._hopeful_sets()]) if layers not in self._widened
            ]
            self._widened |= {*sets}
            members = [self._members(layers) for layers in sets]
            self.cuts.add([one.plan(sharing) for one in members for sharing in one.every()])
            yield from self.fuse("refine")
            near = polish(self.task, self._near(), self.weights, pairs=False)
            self._remember(near)
            yield from self._cut("refine")
            if self.best is before and not sets:
                break
        if not self.taught:
            self._remember(polish(self.task, self._near()[:_NEAREST_PLANS], self.weights))
            yield from self._cut("refine")

    def _members(self, layers: tuple[str, ...]) -> Members:
        """Layers as a group that may have any trip counts."""
        known = self.lessons.widened.get(layers)
        found = Members(self.task, layers, WIDEST_GAP_OF_ALL) if known is None else known.on(self.task)
        self.lessons.widened[layers] = found
        return found

    def _recall(self, conditions: Sequence[Condition]) -> list[Condition]:
        """Price mappings that are known from a machine alike; the conditions of which none fits here."""
        if self.learned is None:
            return [*conditions]
        found = recalled(self.learned, self.task, conditions, self.weights)
        self._take(found)
        self._take({c: self._given[c] for c in found if c in self._given})
        settled = {c for c in found if not outgrown(self.learned, self.task, c, self.weights)}
        self._climbed |= self.learned.climbed & settled
        self._thrifty |= self.learned.thrifty & settled
        return [condition for condition in conditions if condition not in found]

    def _enumerate(self, conditions: Sequence[Condition]) -> None:
        """Of small layers, take all mappings worth having."""
        for condition in conditions:
            if (every := every_mapping(self.task, condition, self.weights)) is not None:
                self.menus[condition] = join([self.menus[condition], every])

    def known_starts(self) -> Hints:
        """The best mappings of every layer on its own, and those of the present groups, as starts."""
        found = {c.layer: starts_of(best_few(self.menus[c], self.weights)) for c in conditions_of(self.singles)}
        for filled in self.groups:
            for i, condition in enumerate(filled.plan.conditions):
                found.setdefault(condition.layer, []).append(start_from(filled.chosen, i))
        return {number: distinct_starts(mine) for number, mine in found.items()}

    def polish(self) -> Steps:
        """Polish until nothing changes, and remember the mappings it finds, so that later cuts can use them."""
        for turn in range(_POLISHES):
            before = self.schedule
            self.groups = polish(self.task, self.groups, self.weights, pairs=not self.taught)
            self.incumbent.offer(self.schedule)
            yield Status("polish", turn + 1, _POLISHES)
            if self.schedule == before:
                break
        self._remember(self.groups)

    def _remember(self, groups: Sequence[Filled]) -> None:
        """Put the mappings of groups on the menus."""
        for filled in groups:
            for i, condition in enumerate(filled.plan.conditions):
                self._take({condition: subset(filled.chosen, [i])})

    def teach(self) -> None:
        """Let searches on machines alike, if any follow, begin with what this one will have found out when it ends."""
        if self.lessons is self.settings.lessons and self.learned is None:
            self.lessons.teach = self._found_out

    def _found_out(self) -> Learned | None:
        if not self.groups:
            return None
        found = {condition: distinct(menu) for condition, menu in self.menus.items() if size_of(menu)}
        tried = {number: frozenset(keys) for number, keys in self._tried.items()}
        plans = tuple(filled.plan for filled in self.groups)
        return Learned(
            found, frozenset(self._climbed), frozenset(self._thrifty), tried, plans, self.best.schedule, self.whole
        )

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
        self._offered = None
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
        self._take(climbed_from(self.task, starts, self.weights))

    def _cut(self, phase: str) -> Steps:
        """Cut, reprice near the result, and cut again until nothing changes."""
        near, before, weights = self.best, None, None
        for turn in range(_CUTS):
            if weights == (weights := self._weights(near)):
                break
            self._last = self.cuts.cut(self.menus, weights)
            if not self._last.groups:
                raise OutOfTimeError("nothing better was sought: what is asked is too tight to climb in")
            self.groups = self._last.groups
            schedule = self.schedule
            if schedule == before:
                break
            before = schedule
            near = self._offer(schedule) or near
            yield Status(phase, turn + 1, _CUTS)

    def _offer(self, schedule: Schedule) -> Evaluation | None:
        """Offer a schedule to the incumbent, unless it is the one before."""
        if self._offered is None or self._offered[0] != schedule:
            self._offered = schedule, self.incumbent.offer(schedule)
        return self._offered[1]
