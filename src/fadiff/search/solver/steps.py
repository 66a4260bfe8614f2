"""From which cells of extents a loop, or lanes, lead to which: all of one cell, from `low` to `high`, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.solver.compiled import compiled_leaf

if TYPE_CHECKING:
    Ends = tuple[float, float]

MOST_FACTORS = 16
"""Factors tried between two cells; where more could fit, one is taken to."""


@compiled_leaf
def stays(inner: Ends, outer: Ends) -> bool:
    """Whether two cells share an extent."""
    return inner[0] <= outer[1] and inner[1] >= outer[0]


@compiled_leaf
def loops(inner: Ends, outer: Ends, end: float) -> bool:
    """Whether a loop leads from one cell to another: some multiple of an extent in the one lies in the other, or an
    end."""
    if inner[0] > outer[1]:
        return False
    least, most = max(1.0, np.ceil(outer[0] / inner[1])), np.floor(outer[1] / inner[0])
    far = most - np.ceil(outer[0] / inner[1]) >= MOST_FACTORS and most >= 1
    return outer[1] >= end or far or _multiplied(inner, outer, least, most)


@compiled_leaf
def spreads(inner: Ends, outer: Ends, end: float, fewest: float, most: float) -> bool:
    """Whether from so many to so many lanes lead from a cell below an axis to one above it; at an end lanes may be cut
    short."""
    ended = outer[1] >= end and inner[1] * most >= max(outer[0], end) and inner[0] * (fewest - 1) < outer[1]
    if ended and inner[0] <= outer[1]:
        return True
    least, last = np.ceil(outer[0] / inner[1]), np.floor(outer[1] / inner[0])
    return _multiplied(inner, outer, max(fewest, least), min(most, last))


@compiled_leaf
def _multiplied(inner: Ends, outer: Ends, least: float, most: float) -> bool:
    """Whether some extent of the inner cell, times one of some factors, lies in the outer one."""
    # Of factors and extents, those of which there are fewer are gone through.
    if most - least > inner[1] - inner[0]:
        for extent in range(int(inner[0]), int(inner[1]) + 1):
            if max(np.ceil(outer[0] / extent), least) <= min(np.floor(outer[1] / extent), most):
                return True
        return False
    for factor in range(int(least), int(most) + 1):
        if max(np.ceil(outer[0] / factor), inner[0]) <= min(np.floor(outer[1] / factor), inner[1]):
            return True
    return False
