"""What is proven of a network, and where a schedule loses against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fadiff.schedule.ir import LowerBound
from fadiff.search.objective import EDP, Objective
from fadiff.search.solver.region import Point, within

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.search.driver import Limits


class LayerLoss(NamedTuple):
    """What one layer, or several of the same shape, contribute to a gap; E and T weighed as at the schedule."""

    layers: tuple[str, ...]
    cost: float
    """Their share of E/E* + T/T*, which is 2 in all."""
    bound: float

    @property
    def loss(self) -> float:
        """The share of the sum that is not proven."""
        return self.cost - self.bound


@dataclass(frozen=True)
class Bound:
    """What is proven of every schedule of a network on a machine, and where a schedule loses against it."""

    least: LowerBound
    layers: tuple[LayerLoss, ...]
    """Where a gap to the schedule at hand comes from, largest loss first."""
    seconds: float
    corners: tuple[Point, ...]
    """No schedule is below the lines between these energies and times, from the least time to the least energy."""

    def gap_within(self, evaluation: Evaluation, limits: Limits, objective: Objective | str = EDP) -> float:
        """The same among schedules within limits; 0 where it is proven that there are no others."""
        return Objective.of(objective).gap(evaluation, within(self.corners, limits))

    def gap(self, evaluation: Evaluation, objective: Objective | str = EDP) -> float:
        """By how much a schedule may be above the best there is: cost / bound - 1."""
        return Objective.of(objective).gap(evaluation, self.corners)
