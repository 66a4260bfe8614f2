"""Layers on their own, solved: branch and bound until none of them can be much better, or for so many walks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.driver import Status
from fadiff.search.exact.menus import distinct_starts, key_of, weighed
from fadiff.search.exact.starts import Start
from fadiff.search.solver.charges import binding_term
from fadiff.search.solver.decode import factors_of
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.place import ON_ITS_OWN

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.search.exact.conditions import Condition, Task
    from fadiff.search.exact.menus import Key, Menus
    from fadiff.search.objective import Weights

WALKS, WALKS_FOR_ENERGY = 60, 160
"""Walks through each layer on its own, on average, at most: energy alone says less of how tiles should be."""
FEWEST_WALKS = 400
"""Walks through all layers together that always are worth their time: where there are few, each gets more."""
NO_GAIN = {False: 2e-3, True: 1e-4}
"""What cannot be better by more than this share of the price is solved; less where factors divide, since walks are
short then."""
_WALKS_AT_ONCE = 10
"""Walks through a layer before the most promising mappings that they met are climbed from; later ones after twice as
many. The better the mappings that are known, the sooner the rest is proven to be no better."""
_CANDIDATES = 6
"""Chains of a layer that are climbed from at a time."""


class Unsolved:
    """Layers of one shape on their own, the best mapping of the first so far, and what is proven of all others.

    Layers that differ in their epilogues alone have nearly the same mappings, where these cost nothing: one is solved
    for all.
    """

    def __init__(
        self, task: Task, menus: Menus, alike: Sequence[Condition], runs: int, near: Evaluation, weights: Weights
    ) -> None:
        condition = alike[0]
        self.alike = alike
        self.runs = runs
        self.know(menus, weights)
        binds = binding_term(near, condition.layer)
        asked = task.restrictions.layer_asked(condition.layer)
        # Climbs of a layer on its own share no loops.
        self.bound = LayerBound(
            task.layer(condition), task.machine, (ON_ITS_OWN,), binds, task.exact_factors, asked, cut=False
        )
        self.least = self.bound.at(weights, passes=0)
        self._tried: set[Key] = set()
        self._next_climb = _WALKS_AT_ONCE

    def know(self, menus: Menus, weights: Weights) -> None:
        """Take note of the best mapping so far."""
        self.best = float(weighed(menus[self.alike[0]], weights).min())

    @property
    def loss(self) -> float:
        """What all such layers may lose."""
        return self.runs * (self.best - self.least)

    def walk(self, weights: Weights) -> bool:
        """Prove more; whether anything was left to do."""
        before = self.bound.passes
        self.least = self.bound.at(weights, self.best, _WALKS_AT_ONCE)
        return self.bound.passes > before

    def ripe(self) -> bool:
        """Whether there were so many walks that it is time to climb again."""
        if ripe := self.bound.passes >= self._next_climb:
            self._next_climb = 2 * self.bound.passes
        return ripe

    def starts(self, task: Task) -> list[Start]:
        """The most promising mappings that the proof met, and those near to where it was last, none a second time."""
        order = np.zeros(len(task.machine.memories), dtype=np.int32)
        promising = [one.extents for one in sorted(self.bound.candidates, key=lambda one: one.promise)[:_CANDIDATES]]
        met = [
            Start(factors_of(extents, task.machine, task.space), order) for extents in (*promising, *self.bound.latest)
        ]
        fresh = [one for one in distinct_starts(met) if key_of(one) not in self._tried]
        self._tried.update(map(key_of, fresh))
        return fresh


def unsolved(task: Task, menus: Menus, names: Sequence[str], near: Evaluation, weights: Weights) -> list[Unsolved]:
    """Layers by shape."""
    shapes: dict[object, dict[Condition, int]] = {}
    for name in names:
        layer, condition = task.workload[name], task.alone(name)
        if layer.is_mac:
            asked = task.restrictions.of_layer(condition.layer)
            shape = (layer.dims, layer.stride, layer.dilation, task.machine.vector_operations(layer), asked)
            runs = shapes.setdefault(shape, {})
            runs[condition] = runs.get(condition, 0) + layer.repeat
    return [Unsolved(task, menus, list(runs), sum(runs.values()), near, weights) for runs in shapes.values()]


def walk(
    found: Sequence[Unsolved], weights: Weights, most: int, no_gain: float, climb: Callable[[Unsolved], None]
) -> Iterator[Status]:
    """Walk through the layer that may lose most, until all together may lose no more than what counts as no gain, and
    climb from what the walks meet."""
    open_ = [*found]
    while open_ and sum(one.bound.passes for one in found) < most:
        if sum(one.loss for one in open_) < no_gain:
            break
        lost = max(open_, key=lambda one: one.loss)
        if not lost.walk(weights):
            open_.remove(lost)
        if lost.ripe():
            climb(lost)
        yield Status("solve", sum(one.bound.passes for one in found), most)
    for one in found:
        climb(one)
