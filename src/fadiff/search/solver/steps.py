"""From which cells of extents a loop, or lanes, lead to which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    from fadiff.search.solver.grid import Cells

MOST_FACTORS = 16
"""Factors tried between two cells; where more could fit, one is taken to."""


class Runs(NamedTuple):
    """Steps by cell: so many of the first cells may come before it, and some later ones."""

    longest: int
    """The most first cells that may come before one."""
    last: list[int]
    """By cell: the last of the first ones; where none may have company, the only one that may come before."""
    none: list[int]
    """Cells before which nothing may come, but for later ones."""
    later: list[tuple[int, int]]
    """Cells, and others that may come before them."""


@dataclass(frozen=True)
class Steps:
    """From which cells of a dim extents may grow to which."""

    allowed: Bool[np.ndarray, "cells before"]

    @cached_property
    def runs(self) -> Runs:
        """The same as runs of cells."""
        have = self.allowed.shape[1]
        before = [np.flatnonzero(row).tolist() for row in self.allowed]
        ahead = [have if row.all() else int(row.argmin()) for row in self.allowed]
        longest = max(ahead)
        if longest > 1:
            last = [max(0, n - 1) for n in ahead]
            none = [cell for cell, n in enumerate(ahead) if n == 0]
            later = [(cell, i) for cell, n in enumerate(ahead) for i in before[cell][n:]]
        else:
            last = [some[0] if some else 0 for some in before]
            none = [cell for cell, some in enumerate(before) if not some]
            later = [(cell, i) for cell, some in enumerate(before) for i in some[1:]]
        return Runs(longest, last, none, later)


@cache
def same_steps(inner: Cells, outer: Cells) -> Steps:
    """Which cells share an extent."""
    return Steps((inner.lows <= outer.highs[:, None]) & (inner.highs >= outer.lows[:, None]))


@cache
def loop_steps(inner: Cells, outer: Cells, end: float) -> Steps:
    """From which cells a loop leads to which: some multiple of an extent in the one lies in the other, or an end."""
    low, high = outer.lows[:, None], outer.highs[:, None]
    least, most = np.ceil(low / inner.highs), np.floor(high / inner.lows)
    found = (high >= end) | ((most - least >= MOST_FACTORS) & (most >= 1))
    factor = np.maximum(1, least + np.arange(MOST_FACTORS)[:, None, None])
    found |= ((factor <= most) & _divided_overlap(inner, low, high, factor)).any(axis=0)
    return Steps(found & (inner.lows <= high))


@cache
def lane_steps(inner: Cells, outer: Cells, end: float, fewest: int, most: int) -> Steps:
    """From which cells below an axis its lanes lead to which above it; at an end lanes may be cut short."""
    low, high = outer.lows[:, None], outer.highs[:, None]
    found = (high >= end) & (inner.highs * most >= np.maximum(low, end)) & (inner.lows * (fewest - 1) < high)
    found &= inner.lows <= high
    lanes = np.arange(fewest, most + 1, dtype=np.float64)[:, None, None]
    return Steps(found | _divided_overlap(inner, low, high, lanes).any(axis=0))


def _divided_overlap(
    inner: Cells, low: Float[np.ndarray, "outer 1"], high: Float[np.ndarray, "outer 1"], factor: np.ndarray
) -> Bool[np.ndarray, "factors outer inner"]:
    """Whether some extent of the inner cell, times each factor, lies between two ends."""
    return np.maximum(np.ceil(low / factor), inner.lows) <= np.minimum(np.floor(high / factor), inner.highs)
