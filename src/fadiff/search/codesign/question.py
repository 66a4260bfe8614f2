"""What is asked: networks, a space of machines, an area, and what is to be least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log
from typing import TYPE_CHECKING, Literal

from fadiff.errors import FadiffError
from fadiff.hardware import machine_area
from fadiff.search.objective import EDP, Objective

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import Machine, Space
    from fadiff.hardware.space import Values
    from fadiff.workload import Workload

Aim = Literal["edp", "energy", "latency", "edp-area"]
AIMS: tuple[Aim, ...] = ("edp", "energy", "latency", "edp-area")


@dataclass(frozen=True)
class Question:
    """One machine of a space for one or more networks, within an area."""

    workloads: tuple[Workload, ...]
    space: Space
    area_mm2: float = inf
    """What the machine may take at most."""
    aim: Aim = "edp"
    weights: tuple[float, ...] = ()
    """How much each network counts; all the same where none are given."""

    def __post_init__(self) -> None:
        if not self.workloads:
            raise FadiffError("no network is given: name at least one")
        if len({workload.name for workload in self.workloads}) < len(self.workloads):
            raise FadiffError("a network is given twice: give it once, with a weight")
        if self.aim not in AIMS:
            raise FadiffError(f"objective {self.aim!r} is unknown: use one of {', '.join(AIMS)}")
        if self.weights and (len(self.weights) != len(self.workloads) or not all(0 < w < inf for w in self.weights)):
            raise FadiffError(f"weights are {self.weights}: give one positive number for each network")
        least = machine_area(self.space.at(self.space.smallest)).total
        if not self.area_mm2 >= least:
            told = f"no machine of {self.space.name!r} fits in {self.area_mm2:.4g} mm2"
            raise FadiffError(f"{told}, the smallest takes {least:.4g}: allow more, or widen its ranges downwards")

    @property
    def objective(self) -> Objective:
        """What a schedule on a given machine is searched for."""
        return EDP if self.aim == "edp-area" else Objective.of(self.aim)

    @property
    def fills_area(self) -> bool:
        """Whether a machine may as well take all of its area: there is a limit, and less has no worth of its own."""
        return self.area_mm2 < inf and self.aim != "edp-area"

    @cached_property
    def area_range_mm2(self) -> tuple[float, float]:
        """The area of the smallest machine, and the largest area that any may take."""
        smallest, largest = (
            machine_area(self.space.at(end)).total for end in (self.space.smallest, self.space.largest)
        )
        return smallest, min(self.area_mm2, largest)

    @property
    def shares(self) -> tuple[float, ...]:
        """The weights, so that they add up to 1."""
        given = self.weights or (1.0,) * len(self.workloads)
        return tuple(weight / sum(given) for weight in given)

    def score(self, machine: Machine, evaluations: Sequence[Evaluation]) -> float:
        """The logarithm of what is to be least: a weighted geometric mean over networks, times the area if asked."""
        found = sum(share * self.objective.score(one) for share, one in zip(self.shares, evaluations, strict=True))
        return found + (log(machine_area(machine).total) if self.aim == "edp-area" else 0.0)

    def fits(self, values: Values) -> bool:
        """Whether a machine keeps to the area; one part in a billion does not count."""
        return machine_area(self.space.at(values)).total <= self.area_mm2 * (1 + 1e-9)

    def fitted(self, values: Values) -> Values:
        """The machine shrunk until it keeps to the area: memories and rates first, all by one step at a time."""
        numbers = self.space.numbers
        free = [i for i, number in enumerate(numbers) if number.powers_of is None]
        for shrinkable in (free, list(range(len(numbers)))):
            while not self.fits(values):
                smaller = list(values)
                for i in shrinkable:
                    smaller[i] = numbers[i].next(values[i], -1) or values[i]
                if tuple(smaller) == tuple(values):
                    break
                values = tuple(smaller)
        return values if self.fits(values) else self.space.smallest
