"""Which machines are scored first, of many that are proposed: distinct ones, of several arrays and areas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fadiff.hardware import machine_area

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fadiff.hardware.space import Values
    from fadiff.search.codesign.descent import Candidate
    from fadiff.search.codesign.question import Question

SMALLER = (0.5, 0.25)
"""Classes of area below the one that is asked for, each with a machine of its own among the first ones."""
APART = 1.25
"""From which ratio of a number on machines differ."""
ARRAYS_WITHIN = 0.4
"""Logarithm of how far behind an array's best relaxed score may be for it to be scored: memories descend well, but
between arrays the relaxed ranking errs by a third."""


def arrays_first(question: Question, found: Sequence[Candidate]) -> list[Values]:
    """Machines that a descent found, the best first: before the others the best of each array, as long as it is not far
    behind."""
    lanes = [i for i, number in enumerate(question.space.numbers) if number.unit == "lanes"]
    near = [one for one in found if one.relaxed_score < found[0].relaxed_score + ARRAYS_WITHIN]
    firsts = {tuple(one.values[i] for i in lanes): one.values for one in reversed(near)}
    return sorted((one.values for one in found), key=lambda values: values not in firsts.values())


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
