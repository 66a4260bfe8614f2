"""Layers on their own, solved: branch and bound until none of them can be much better, or for so many walks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.driver import Status
from fadiff.search.exact.menus import weighed
from fadiff.search.exact.starts import Start
from fadiff.search.solver.decode import factors_of
from fadiff.search.solver.layer_bound import LayerBound, binding_term
from fadiff.search.solver.place import ON_ITS_OWN

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.search.exact.conditions import Condition, Task
    from fadiff.search.exact.menus import Menus
    from fadiff.search.objective import Weights

WALKS, WALKS_FOR_ENERGY = 60, 160
"""Walks through each layer on its own, on average, at most: energy alone says less of how tiles should be."""
FEWEST_WALKS = 400
"""Walks through all layers together that always are worth their time: where there are few, each gets more."""
NO_GAIN = {False: 1e-3, True: 1e-4}
"""What cannot be better by more than this share of the price is solved; less where factors divide, since walks are
short then."""
_WALKS_AT_ONCE = 10
_CANDIDATES = 6
"""Chains of a layer that are climbed from."""


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
        self.best = float(weighed(menus[condition], weights).min())
        binds = binding_term(near, condition.layer)
        asked = task.restrictions.layer_asked(condition.layer)
        # Climbs of a layer on its own share no loops.
        self.bound = LayerBound(
            task.layer(condition), task.machine, (ON_ITS_OWN,), binds, task.exact_factors, asked, cut=False
        )
        self.least = self.bound.at(weights, passes=0)

    @property
    def loss(self) -> float:
        """What all such layers may lose."""
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


def walk(found: Sequence[Unsolved], weights: Weights, most: int, no_gain: float) -> Iterator[Status]:
    """Walk through the layer that may lose most, until all together may lose no more than what counts as no gain."""
    open_ = [*found]
    while open_ and sum(one.bound.passes for one in found) < most:
        if sum(one.loss for one in open_) < no_gain:
            break
        lost = max(open_, key=lambda one: one.loss)
        if not lost.walk(weights):
            open_.remove(lost)
        yield Status("solve", sum(one.bound.passes for one in found), most)
