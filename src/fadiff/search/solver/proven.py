"""What is proven of a network, and where a schedule loses against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fadiff.schedule.ir import LowerBound
from fadiff.search.solver.region import Point, within

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.search.driver import Limits, Objective


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

    def gap_within(self, evaluation: Evaluation, limits: Limits, objective: Objective = "edp") -> float:
        """The same among schedules within limits; 0 where it is proven that there are no others."""
        a, b = {"edp": (1, 1), "energy": (1, 0), "latency": (0, 1)}[objective]
        found = [energy**a * time**b for energy, time in within(self.corners, limits)]
        return evaluation.energy_pj**a * evaluation.cycles**b / min(found) - 1 if found else 0.0

    def gap(self, evaluation: Evaluation, objective: Objective = "edp") -> float:
        """By how much a schedule may be above the best there is: cost / bound - 1."""
        return self.least.gaps(evaluation.energy_pj, evaluation.cycles)[objective]
