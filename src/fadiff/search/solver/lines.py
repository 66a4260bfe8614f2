"""Lines in the (E, T) plane that no schedule is below, how high they may become, and which one is to be raised next."""

from __future__ import annotations

from functools import partial
from math import copysign, exp, sqrt
from typing import TYPE_CHECKING

from fadiff.search.objective import EDP
from fadiff.search.solver.layer_bound import SAFE
from fadiff.search.solver.region import Line, apart, slope, weighed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fadiff.cost import Evaluation
    from fadiff.search.objective import Objective, Weights
    from fadiff.search.solver.region import Corner

SPACING = 0.35
"""Lines are looked at where the logarithm of the ratio of their prices is so near to the one wanted."""
STEP = 0.05
"""New lines are so far apart: where two meet that touch the curve of an EDP, it is (STEP^2)/16 less."""
TOLERANCE = 3e-4
"""A line is good enough where it is so close to the schedule at hand."""
PROVEN = 1e-4
"""An EDP that is proven to within this share is as good as proven."""


class Lines:
    """What is proven of a network at each of some prices, where a schedule says what is worth proving."""

    def __init__(self, near: Evaluation, objective: Objective, stress: Weights) -> None:
        """By `stress` a pJ and a cycle count more than the objective says, because of limits."""
        self.near = near
        self.objective = objective
        self.stress = stress
        self.drawn: dict[Weights, Line] = {}

    @property
    def own(self) -> Weights:
        """Prices at which the schedule costs 2: those of the objective, but for the stress of limits; for one of energy
        or latency alone both the same."""
        priced = EDP if self.objective.one_sided and not self.limited else self.objective
        energy, time = priced.weights(self.near)
        energy, time = energy * self.stress[0], time * self.stress[1]
        half = weighed((self.near.energy_pj, self.near.cycles), (energy, time)) / 2
        return energy / half, time / half

    @property
    def limited(self) -> bool:
        """Whether limits are kept."""
        return self.stress != (1.0, 1.0)

    def next_(self, meeting: Sequence[Corner], done: set[Weights]) -> Weights | None:
        """The prices at which to look: of the lines that meet where the objective is least; None where all is done."""
        if self.limited:
            return None if self.own in done else self.own
        if (prices := self.objective.prices) is not None:
            only = min(self.drawn, key=partial(apart, prices))
            return None if only in done else only
        lowest = self.objective.lowest(corner.point for corner in meeting)
        wanted = self.objective.slope(lowest)
        # A line that is as good as the bound will soon be is not what the bound waits for.
        open_ = 1 - self.objective.ratio(lowest, (self.near.energy_pj, self.near.cycles))
        closest = min(self.drawn, key=partial(apart, wanted))
        for worst in (max(TOLERANCE, open_ / 4), TOLERANCE):
            useful = [weights for weights in self.drawn if weights not in done and self.loss(weights) > worst]
            near = min(useful, key=partial(apart, wanted), default=None)
            if near is not None and apart(near, wanted) < SPACING:
                return near
            # Between lines that are nearer to each other little is lost.
            further = exp(copysign(max(0.0, STEP - apart(closest, wanted)), slope(wanted) - slope(closest)))
            between = wanted[0] * further, wanted[1]
            if min(apart(weights, between) for weights in self.drawn) > STEP / 2:
                return between
        return near

    def loss(self, weights: Weights) -> float:
        """By how much of its cost the schedule may be too dear at some prices."""
        return 1 - self.drawn[weights].value / weighed((self.near.energy_pj, self.near.cycles), weights)

    def raise_(self, weights: Weights, value: float) -> bool:
        """Draw a line; whether it is above that at the same prices."""
        higher = weights not in self.drawn or value * (1 - SAFE) > self.drawn[weights].value
        if higher:
            self.drawn[weights] = Line(weights, value * (1 - SAFE))
        return higher

    def target(self, weights: Weights) -> float:
        """What a line is worth at most: that of the schedule, or of the EDP that is to be proven, which no point costs
        less than where a E = b T."""
        energy_pj, cycles = self.near.energy_pj, self.near.cycles
        if self.objective != EDP or self.limited:
            return weighed((energy_pj, cycles), weights)
        return 2 * sqrt(weights[0] * energy_pj * weights[1] * cycles) * (1 - PROVEN / 2)
