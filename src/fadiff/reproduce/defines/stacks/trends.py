"""Trends over the rows of a stack, the model's against DeFiNES': Z-scores, and how well they correlate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fadiff.reproduce.defines.stacks.describe import Reason
from fadiff.reproduce.defines.stacks.reference import Row

Floats = NDArray[np.float64]

FEWEST_ROWS = 3
"""A trend of two rows has a correlation of 1 or -1, whatever they say."""


class Cost(NamedTuple):
    """What the model says of a row's schedule."""

    cycles: float
    """DRAM transfers do not hide behind work."""
    overlapped_cycles: float
    """All transfers hide: the paper's roofline."""
    energy_pj: float
    dram_words: float
    fused: bool
    """Whether a tensor stays on chip."""


@dataclass(frozen=True)
class Point:
    """A row of the table, and its cost or the reason why it has none."""

    row: Row
    reason: Reason | None
    cost: Cost | None


@dataclass(frozen=True)
class Quantity:
    """What is compared: the model's number of a schedule, and DeFiNES' of a row."""

    name: str
    ours: Callable[[Cost], float]
    theirs: Callable[[Row], float]


LATENCY = Quantity("latency", lambda cost: cost.cycles, lambda row: row.latency_cycles)
OVERLAPPED_LATENCY = Quantity(
    "latency, full overlap", lambda cost: cost.overlapped_cycles, lambda row: row.latency_cycles
)
ENERGY = Quantity("energy", lambda cost: cost.energy_pj, lambda row: row.energy_pj)
QUANTITIES = (LATENCY, OVERLAPPED_LATENCY, ENERGY)

SELECTIONS: dict[str, Callable[[Row, Cost], bool]] = {
    "every row": lambda row, cost: True,
    "rows of the machine that can fuse": lambda row, cost: row.hw == "df",
    "rows that keep a tensor on chip": lambda row, cost: cost.fused,
    "depth-first rows": lambda row, cost: row.schedule == "depth_first",
}


class Trend(NamedTuple):
    """Rows of one stack, mapped by one criterion, in the order of the table."""

    points: list[Point]
    costs: list[Cost]

    def ours(self, quantity: Quantity) -> Floats:
        """``[rows]`` the model's numbers."""
        return np.array([quantity.ours(cost) for cost in self.costs], dtype=np.float64)

    def theirs(self, quantity: Quantity) -> Floats:
        """``[rows]`` DeFiNES' numbers."""
        return np.array([quantity.theirs(point.row) for point in self.points], dtype=np.float64)

    def z_scores(self, quantity: Quantity) -> tuple[Floats, Floats]:
        """``[rows]`` each, the model's and DeFiNES'."""
        return z_scores(self.ours(quantity)), z_scores(self.theirs(quantity))


def find_trends(points: Iterable[Point], selection: str = "every row") -> list[Trend]:
    """The trends among points: those of a few rows, at least one of them fused."""
    found: dict[tuple[str, str], Trend] = {}
    for point in points:
        if point.cost is not None and SELECTIONS[selection](point.row, point.cost):
            trend = found.setdefault((point.row.stack, point.row.criterion), Trend([], []))
            trend.points.append(point)
            trend.costs.append(point.cost)
    return [t for t in found.values() if len(t.costs) >= FEWEST_ROWS and any(cost.fused for cost in t.costs)]


def scopes(trends: Sequence[Trend]) -> dict[str, list[Trend]]:
    """Trends by number of layers, all of them, and by stack."""
    rows = [trend.points[0].row for trend in trends]
    found: dict[str, list[Trend]] = {}
    for depth in sorted({row.n_layers for row in rows}):
        found[f"{depth} layers"] = [trend for trend, row in zip(trends, rows, strict=True) if row.n_layers == depth]
    found["all"] = list(trends)
    for trend, row in zip(trends, rows, strict=True):
        found.setdefault(row.stack, []).append(trend)
    return found


def z_scores(values: Floats) -> Floats:
    """Distances from the mean in standard deviations (of the population); all 0 where all values are equal."""
    spread = values.std()
    return (values - values.mean()) / spread if spread > 1e-9 * np.abs(values).max() else np.zeros_like(values)


class Agreement(NamedTuple):
    """How well trends agree: over Z-scores, Pearson's r, Spearman's rho and Kendall's tau-b.

    They are not numbers where all Z-scores of one side are equal.
    """

    stacks: int
    rows: int
    r: float
    rho: float
    tau: float


def agreement(trends: Sequence[Trend], quantity: Quantity) -> Agreement:
    """Agreement over the Z-scores of all trends together, each trend with its own mean and deviation."""
    pairs = [trend.z_scores(quantity) for trend in trends]
    stacks = len({trend.points[0].row.stack for trend in trends})
    if not pairs:
        return Agreement(0, 0, np.nan, np.nan, np.nan)
    ours, theirs = (np.concatenate(side) for side in zip(*pairs, strict=True))
    if not ours.any() or not theirs.any():
        return Agreement(stacks, ours.size, np.nan, np.nan, np.nan)
    found: list[Any] = [stats.pearsonr(ours, theirs), stats.spearmanr(ours, theirs), stats.kendalltau(ours, theirs)]
    return Agreement(stacks, ours.size, *(float(one.statistic) for one in found))
