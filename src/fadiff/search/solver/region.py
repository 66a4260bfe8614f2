r"""What is proven of the energies and times that something can have: a region of the (E, T) plane above lines.

Each line says that :math:`a\, E + b\, T \ge v` at prices a of a pJ and b of a cycle. The region above several lines is
convex, and as E*T is quasi-concave, its least value there is at a corner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf, log
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fadiff.search.objective import Weights

Point = tuple[float, float]
"""Energy and time."""


class Line(NamedTuple):
    """No point lies below."""

    weights: Weights
    value: float


class Corner(NamedTuple):
    """Where two lines meet that both bound a region."""

    point: Point
    left: Line
    """The one that prices time more."""
    right: Line


def slope(weights: Weights) -> float:
    """How many cycles a pJ is worth."""
    return weights[0] / weights[1] if weights[1] else inf


def apart(one: Weights, other: Weights) -> float:
    """How much two ratios of prices differ."""
    a, b = slope(one), slope(other)
    return 0.0 if a == b else inf if min(a, b) == 0 or max(a, b) == inf else abs(log(a / b))


def weighed(point: Point, weights: Weights) -> float:
    """What a point costs."""
    return weights[0] * point[0] + weights[1] * point[1]


def corners(lines: Iterable[Line]) -> list[Corner]:
    """The corners above lines, from the least time to the least energy; both must be bounded."""
    hull: list[Line] = []
    for line in sorted(lines, key=lambda line: (slope(line.weights), -line.value / sum(line.weights))):
        if hull and slope(hull[-1].weights) == slope(line.weights):
            continue
        while len(hull) > 1 and weighed(_meet(hull[-2], line), hull[-1].weights) >= hull[-1].value * (1 - 1e-12):
            hull.pop()
        hull.append(line)
    return [Corner(_meet(a, b), a, b) for a, b in pairwise(hull)]


def within(points: Sequence[Point], most: Point) -> list[Point]:
    """Corners of a region, from the least time to the least energy, of the part of it within limits: those inside, and
    where its border passes a limit; none where it does not reach them."""
    found = [point for point in points if point[0] <= most[0] and point[1] <= most[1]]
    for before, after in pairwise(points):
        for axis in (0, 1):
            a, b = before[axis], after[axis]
            if min(a, b) < most[axis] < max(a, b):
                part = (most[axis] - a) / (b - a)
                at = before[0] + part * (after[0] - before[0]), before[1] + part * (after[1] - before[1])
                if at[1 - axis] <= most[1 - axis]:
                    found.append(at)
    return found


def raised(lines: Iterable[Line], line: Line) -> tuple[Line, ...]:
    """Lines with one more, as far as each still bounds the region."""
    meeting = corners((*lines, line))
    return (meeting[0].left, *(corner.right for corner in meeting))


def support(lines: Iterable[Line], weights: Weights) -> float:
    """What the points above lines cost at least at any prices."""
    return min(weighed(corner.point, weights) for corner in corners(lines))


def _meet(one: Line, other: Line) -> Point:
    (a, b), (c, d) = one.weights, other.weights
    det = a * d - b * c
    return (one.value * d - b * other.value) / det, (a * other.value - one.value * c) / det
