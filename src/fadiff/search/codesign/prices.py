"""What a step of each number does to the best machine."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from fadiff.search.codesign.moves import single_moves

if TYPE_CHECKING:
    from fadiff.search.codesign.rows import Row, Rows


class Price(NamedTuple):
    """What a step of one number does to the best machine."""

    number: str
    before: float
    after: float
    score_change: float
    """Of the logarithm of what is to be least: -0.03 is 3% better."""
    area_change: float
    """Relative."""
    effort_seconds: float
    """What its schedules were searched for; 0 where those of the best machine serve."""


def prices(rows: Rows, best: Row) -> tuple[Price, ...]:
    """What each number would buy, as far as neighbours of the best machine were scored."""
    space, found = rows.question.space, list[Price]()
    for move in single_moves(space, best.values):
        row = rows.find(move.values)
        if row is not None and row.score < inf:
            i = next(i for i, value in enumerate(move.values) if value != best.values[i])
            change = row.area_mm2 / best.area_mm2 - 1
            gain, effort = row.score - best.score, row.effort_seconds
            found.append(Price(space.numbers[i].name, best.values[i], move.values[i], gain, change, effort))
    return tuple(found)
