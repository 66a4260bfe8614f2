"""Which machines are scored first, of many that are proposed: distinct ones, of several areas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fadiff.hardware import machine_area

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fadiff.hardware.space import Values
    from fadiff.search.codesign.question import Question

SMALLER = (0.5, 0.25)
"""Classes of area below the one that is asked for, each with a machine of its own among the first ones."""
APART = 1.25
"""From which ratio of a number on machines differ."""


def distinct(question: Question, proposed: Sequence[Values], most: int) -> list[Values]:
    """The first few that differ, and the first of each smaller class of area, so that there is a front."""
    kept = _few(question, proposed, most)
    areas = {values: machine_area(question.space.at(values)).total for values in proposed}
    for share in SMALLER:
        small = [values for values in proposed if areas[values] <= share * question.area_range_mm2[1]]
        if small and not set(small) & set(kept):
            kept.append(small[0])
    return kept


def _few(question: Question, proposed: Sequence[Values], most: int) -> list[Values]:
    """The first that differ: in numbers that have few values, or by more than a quarter in something else."""
    numbers = question.space.numbers
    kept: list[Values] = []
    for values in proposed:
        same = [
            all(
                a == b if number.powers_of is not None else max(a / b, b / a) < APART
                for number, a, b in zip(numbers, values, other, strict=True)
            )
            for other in kept
        ]
        if len(kept) < most and not any(same):
            kept.append(values)
    return kept
