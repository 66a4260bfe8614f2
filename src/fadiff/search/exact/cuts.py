"""Cuts of a network into groups of least price, by dynamic programming over downsets; and what comes near them.

Every plan leads from the downsets that may have run before it to those that have run after it. With f(I) the least
price of what has run before a downset I, and b(J) that of what is left after J, the best schedule with a plan from I to
J costs f(I) + price + b(J): by how much that is above the best one is the plan's *regret*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.exact.assemble import Filled, fill
from fadiff.search.exact.menus import Menu, size_of
from fadiff.search.exact.sets import Downsets

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

    from fadiff.schedule import Group
    from fadiff.search.exact.conditions import Condition, Task
    from fadiff.search.exact.menus import Menus
    from fadiff.search.exact.plans import Plan
    from fadiff.search.objective import Weights


MARGIN = 0.995
"""How much of what it was before the price of a plan over the least it can be is taken to be, at other weights."""


class Cut(NamedTuple):
    """A network in groups, and what plans cost."""

    groups: list[Filled]
    total: float
    least: Float[np.ndarray, " plans"]
    """The sum of the cheapest mappings of a plan's layers, whether they fit together or not."""
    price: Float[np.ndarray, " plans"]
    """The price of mappings that fit together, as far as it was needed; else the least it can be."""


class Cuts:
    """All plans of a task as steps between downsets."""

    def __init__(self, task: Task, plans: Iterable[Plan]) -> None:
        self.task = task
        self.plans: list[Plan] = []
        self._downsets = Downsets(task.workload)
        self._number = {downset: i for i, downset in enumerate(self._downsets.all)}
        self._steps_of: dict[tuple[str, ...], list[tuple[int, int]]] = {}
        self._conditions: dict[Condition, int] = {}
        self._known: set[Group] = set()
        self._over_least: dict[int, tuple[int, float]] = {}
        """By number of the plan: how many mappings its layers had when it was last filled, and its price over the
        least."""
        self._parts: list[tuple[list[int], list[tuple[int, int, int]]]] = []
        self._seen: list[Menu | None] = []
        """The menu of each condition when prices were last asked for; what follows is of these menus."""
        self._sizes = np.zeros(0, dtype=np.int64)
        self._costs: Float[np.ndarray, "2 mappings"] = np.zeros((2, 0))
        """Energy and cycles of all their mappings, one menu after the other."""
        self._weights: Weights | None = None
        """Prices at which the plans below were filled."""
        self._filled: dict[int, Filled] = {}
        self._refused: dict[int, float] = {}
        """By number of the plan: what it is not worth, since it costs more."""
        self.add(plans)

    def add(self, plans: Iterable[Plan]) -> None:
        """Take up more plans, as far as they are new."""
        for plan in plans:
            if plan.group in self._known or not self.task.restrictions.allows(plan.group):
                continue
            self._known.add(plan.group)
            layers = plan.group.layers
            if layers not in self._steps_of:
                steps = self._downsets.steps(layers)
                self._steps_of[layers] = [(self._number[before], self._number[after]) for before, after in steps]
            mine = [self._conditions.setdefault(c, len(self._conditions)) for c in plan.conditions]
            self._parts.append((mine, [(*step, len(self.plans)) for step in self._steps_of[layers]]))
            self.plans.append(plan)
        self._held = np.concatenate([mine for mine, _ in self._parts])
        self._starts = np.cumsum([0, *(len(mine) for mine, _ in self._parts)])[:-1]
        self._repeats = np.array([self.task.layer(condition).repeat for condition in self._conditions])
        steps = np.array([step for _, mine in self._parts for step in mine], dtype=np.int64)
        self._steps: Int[np.ndarray, "3 steps"] = steps[np.argsort(steps[:, 1], kind="stable")].T
        self._ends = np.searchsorted(self._steps[1], np.arange(len(self._number) + 1))

    @property
    def conditions(self) -> list[Condition]:
        """All different conditions of the plans."""
        return list(self._conditions)

    def known(self, conditions: Collection[Condition]) -> Bool[np.ndarray, " plans"]:
        """Plans of which all conditions are among some."""
        among = np.array([condition in conditions for condition in self._conditions])
        return np.logical_and.reduceat(among[self._held], self._starts)

    def least(
        self, menus: Menus, weights: Weights, hopes: Mapping[Condition, float] = MappingProxyType({})
    ) -> Float[np.ndarray, " plans"]:
        """What a plan costs at least: its layers' cheapest mappings; infinite where one has none yet. What is hoped for
        under a condition takes the place of what is dearer."""
        self._look(menus)
        cheapest, some = np.full(len(self._seen), np.inf), self._sizes > 0
        starts = np.cumsum([0, *self._sizes[some]])[:-1]
        if some.any():
            cheapest[some] = np.minimum.reduceat(weights[0] * self._costs[0] + weights[1] * self._costs[1], starts)
        if hopes:
            hoped = np.array([hopes.get(condition, np.inf) for condition in self._conditions])
            cheapest = np.where([menu is None for menu in self._seen], np.inf, np.minimum(cheapest, hoped))
        return np.add.reduceat((cheapest * self._repeats)[self._held], self._starts)

    def _look(self, menus: Menus) -> None:
        """Take up menus that have changed; plans with other mappings must be filled again."""
        now = [menus.get(condition) for condition in self._conditions]
        changed = np.array([one is not other for one, other in zip_longest(now, self._seen)])
        if not changed.any():
            return
        self._forget(np.flatnonzero(np.logical_or.reduceat(changed[self._held], self._starts)).tolist())
        self._seen, full = now, [menu for menu in now if menu is not None and size_of(menu)]
        self._sizes = np.array([0 if menu is None else size_of(menu) for menu in now])
        costs = ([menu.energy_pj for menu in full], [menu.cycles for menu in full])
        self._costs = np.array([np.concatenate(each) for each in costs]) if full else np.zeros((2, 0))

    def _forget(self, plans: Iterable[int]) -> None:
        for number in plans:
            self._filled.pop(number, None)
            self._refused.pop(number, None)

    def _at(self, weights: Weights) -> None:
        """Forget what plans cost at other prices."""
        if weights != self._weights:
            self._weights = weights
            self._filled.clear()
            self._refused.clear()

    def fill(self, plans: Iterable[int], menus: Menus, weights: Weights) -> dict[int, Filled]:
        """By number of the plan the mappings of its layers, where there are some that fit together."""
        self._look(menus)
        self._at(weights)
        found = {number: self._fill(number, menus, weights, np.inf) for number in plans}
        return {number: one for number, one in found.items() if one is not None}

    def _fill(self, number: int, menus: Menus, weights: Weights, worth: float) -> Filled | None:
        """The same, if they cost less than the plan is worth."""
        if number not in self._filled and worth > self._refused.get(number, -np.inf):
            found = fill(self.task, self.plans[number], menus, weights, worth)
            if found is None:
                self._refused[number] = worth
            else:
                self._filled[number] = found
        found = self._filled.get(number)
        return found if found is not None and found.price < worth else None

    def cut(self, menus: Menus, weights: Weights) -> Cut:
        """The groups of least total price: best[J] = min over plans from I to J of best[I] + price.

        `menus` must hold mappings of every single layer. Plans are tried in the order of what they cost, as far as that
        is known from earlier cuts with the same mappings; else of what they cost at least, or probably do, where they
        were filled at other weights.
        """
        least = self.least(menus, weights)
        price = self._known_price(least, weights)
        expected = price.copy()
        sizes = np.add.reduceat(self._sizes[self._held], self._starts)
        for number, (mappings, ratio) in self._over_least.items():
            if sizes[number] == mappings and number not in self._filled:
                expected[number] = max(price[number], least[number] * ratio * MARGIN)
        best = np.full(len(self._number), np.inf)
        best[0] = 0.0
        last: dict[int, tuple[int, Filled]] = {}
        for end in range(1, len(best)):
            sources, _, plans = self._steps[:, self._ends[end] : self._ends[end + 1]]
            bound = best[sources] + expected[plans]
            for k in np.argsort(bound, kind="stable").tolist():
                number, before = int(plans[k]), best[sources[k]]
                if bound[k] >= best[end]:
                    break
                found = self._fill(number, menus, weights, best[end] - before)
                if found is not None and before + found.price < best[end]:
                    best[end], last[end] = before + found.price, (int(sources[k]), found)
        groups: list[Filled] = []
        if not np.isfinite(best[-1]):
            return Cut(groups, np.inf, least, least)
        end = len(best) - 1
        while end:
            end, one = last[end]
            groups.append(one)
        price = self._known_price(least, weights)
        for number in self._filled.keys() | self._refused.keys():
            self._over_least[number] = int(sizes[number]), price[number] / least[number]
        return Cut(groups[::-1], float(best[-1]), least, price)

    def _known_price(self, least: Float[np.ndarray, " plans"], weights: Weights) -> Float[np.ndarray, " plans"]:
        """The price of plans, as far as it is known, or more than it is worth; else the least it can be."""
        price = least.copy()
        self._at(weights)
        for number, worth in self._refused.items():
            price[number] = max(price[number], worth)
        for number, one in self._filled.items():
            price[number] = one.price
        return price

    def forget_prices(self) -> None:
        """Expect nothing of plans at prices that are far from those of the last cuts."""
        self._over_least.clear()

    def regret(self, price: Float[np.ndarray, " plans"], total: float) -> Float[np.ndarray, " plans"]:
        """By how much the best schedule with each plan is above a total, at some prices of plans."""
        count = len(self._number)
        before, after = np.full((2, count), np.inf)
        before[0] = after[-1] = 0.0
        source, target, plan = self._steps
        for end in range(1, count):
            mine = slice(self._ends[end], self._ends[end + 1])
            before[end] = (before[source[mine]] + price[plan[mine]]).min(initial=np.inf)
        for end in reversed(range(1, count)):
            mine = slice(self._ends[end], self._ends[end + 1])
            np.minimum.at(after, source[mine], after[end] + price[plan[mine]])
        found = np.full(len(self.plans), np.inf)
        np.minimum.at(found, plan, before[source] + price[plan] + after[target])
        return found - total
