"""Cuts of a network into groups of least price, by dynamic programming over downsets; and what comes near them.

Every plan leads from the downsets that may have run before it to those that have run after it. With f(I) the least
price of what has run before a downset I, and b(J) that of what is left after J, the best schedule with a plan from I to
J costs f(I) + price + b(J): by how much that is above the best one is the plan's *regret*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.search.exact.assemble import Filled, fill
from fadiff.search.exact.menus import size_of, weighed
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
        cheapest = np.full(len(self._conditions), np.inf)
        for condition, i in self._conditions.items():
            if condition in menus:
                repeat = self.task.layer(condition).repeat
                hope = hopes.get(condition, np.inf)
                cheapest[i] = repeat * weighed(menus[condition], weights).min(initial=hope)
        return np.add.reduceat(cheapest[self._held], self._starts)

    def cut(self, menus: Menus, weights: Weights) -> Cut:
        """The groups of least total price: best[J] = min over plans from I to J of best[I] + price.

        `menus` must hold mappings of every single layer. Plans are tried in the order of what they cost at least, or
        probably do, where they were filled with the same mappings at other weights.
        """
        price = self.least(menus, weights)
        sizes = self._sizes(menus)
        expected = price.copy()
        for number, (mappings, ratio) in self._over_least.items():
            if sizes[number] == mappings:
                expected[number] *= max(1.0, ratio * MARGIN)
        filled: dict[int, Filled] = {}
        refused: dict[int, float] = {}
        best = np.full(len(self._number), np.inf)
        best[0] = 0.0
        last: dict[int, tuple[int, int]] = {}
        for end in range(1, len(best)):
            sources, _, plans = self._steps[:, self._ends[end] : self._ends[end + 1]]
            bound = best[sources] + expected[plans]
            for k in np.argsort(bound, kind="stable").tolist():
                number, before = int(plans[k]), best[sources[k]]
                if bound[k] >= best[end]:
                    break
                worth = best[end] - before
                if number not in filled and worth > refused.get(number, -np.inf):
                    found = fill(self.task, self.plans[number], menus, weights, worth)
                    if found is None:
                        refused[number] = worth
                    else:
                        filled[number] = found
                if number in filled and before + filled[number].price < best[end]:
                    best[end], last[end] = before + filled[number].price, (int(sources[k]), number)
        groups: list[Filled] = []
        if not np.isfinite(best[-1]):
            return Cut(groups, np.inf, price, price)
        end = len(best) - 1
        while end:
            end, number = last[end]
            groups.append(filled[number])
        least, price = price, price.copy()
        for number, worth in refused.items():
            price[number] = max(price[number], worth)
        for number, one in filled.items():
            price[number] = one.price
        for number in filled.keys() | refused.keys():
            self._over_least[number] = int(sizes[number]), price[number] / least[number]
        return Cut(groups[::-1], float(best[-1]), least, price)

    def forget_prices(self) -> None:
        """Expect nothing of plans at prices that are far from those of the last cuts."""
        self._over_least.clear()

    def _sizes(self, menus: Menus) -> Int[np.ndarray, " plans"]:
        """How many mappings the layers of each plan have together."""
        counts = np.array([size_of(menus[c]) if c in menus else 0 for c in self._conditions])
        return np.add.reduceat(counts[self._held], self._starts)

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
