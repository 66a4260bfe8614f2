"""Machines within an area as points of a unit cube, so that any point is one: what samplers draw from.

A number with few values takes the one its coordinate points at. The others are as far along their ranges, by ratio, as
their coordinates say, and then all multiplied by the one factor with which the machine fills the area, or where it is
not to be filled, keeps to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fadiff.hardware.space import Values
    from fadiff.search.codesign.question import Question

FACTORS = 65
"""Factors that are tried at once; again between the two around the area."""


@dataclass(frozen=True)
class Cube:
    """The machines of a question."""

    question: Question
    fills: bool = False
    """Whether machines fill the area, where there is one and less of it has no worth of its own."""

    @cached_property
    def counts(self) -> tuple[int | None, ...]:
        """How many values each coordinate can point at; None where there are too many to tell apart."""
        return tuple(number.count for number in self.question.space.numbers)

    def snapped(self, point: Sequence[float]) -> list[float]:
        """The point in the middle of those that mean the same values of numbers with few values."""
        return [
            u if count is None else (_choice(u, count) + 0.5) / count
            for u, count in zip(point, self.counts, strict=True)
        ]

    def machine(self, point: Sequence[float]) -> Values:
        """The machine of a point."""
        question, numbers = self.question, self.question.space.numbers
        low = [number.ends[0] for number in numbers]
        coarse = list(low)
        for i, (number, count, u) in enumerate(zip(numbers, self.counts, point, strict=True)):
            if count is not None and number.powers_of is not None:
                coarse[i] = number.rounded(low[i] * float(number.powers_of) ** _choice(u, count))
            elif count is not None and number.step is not None:
                coarse[i] = number.rounded(low[i] + number.step * _choice(u, count))
        coarse = question.fitted(tuple(coarse))
        free = [i for i, count in enumerate(self.counts) if count is None]
        logs = np.log(coarse)
        for i in free:
            logs[i] += point[i] * log(numbers[i].ends[1] / low[i])
        return question.fitted(question.space.rounded(np.exp(self._moved(logs, free)).tolist()))

    def _moved(self, logs: np.ndarray, free: list[int]) -> np.ndarray:
        """The machine with its free numbers multiplied by the one factor that suits the area."""
        space, limit = self.question.space, self.question.area_range_mm2[1]
        low, high = (np.log([space.numbers[i].ends[end] for i in free]) for end in (0, 1))
        fills = self.fills and self.question.fills_area
        widest = float((high - low).max(initial=0.0))
        tried = np.repeat(logs[:, None], FACTORS, axis=1)
        less, more, last = -widest, widest if fills else 0.0, 0
        for _ in range(2):
            factors = np.linspace(less, more, FACTORS)
            tried[free] = np.clip(logs[free, None] + factors, low[:, None], high[:, None])
            fits = np.asarray(space.area_mm2(tried)) <= limit
            last = int(np.flatnonzero(fits).max(initial=0))
            less, more = factors[last], factors[min(last + 1, FACTORS - 1)]
        return tried[:, last]


def _choice(u: float, count: int) -> int:
    return min(int(u * count), count - 1)
