"""How latency and energy follow Timeloop's: rank correlation and mean difference, by machine or over several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from fadiff.reproduce.timeloop.compare import Comparison
from fadiff.reproduce.timeloop.counts import QUANTITIES
from fadiff.reproduce.timeloop.reference import Floats

PAPER_ACCESS_ACCURACY = 0.96
PAPER_TAU = {"latency": 1.0, "energy": 0.7804}
PAPER_RHO = {"latency": 1.0, "energy": 0.9218}
"""What the FADiff paper reports for its own model against Timeloop."""


class Agreement(NamedTuple):
    """Kendall's tau-b and Spearman's rho over all rows, and the mean relative difference."""

    tau: float
    rho: float
    mean_difference: float


def ranks(comparisons: Sequence[Comparison], accounting: str) -> dict[str, Agreement]:
    """Latency and energy of the rows of some machines by one accounting; rows without cycles count for energy only."""
    found: dict[str, Agreement] = {}
    for number, quantity in enumerate(QUANTITIES):
        ours = np.concatenate([c.costs[accounting][number] for c in comparisons])
        theirs = np.concatenate([c.timeloop[number] for c in comparisons])
        ours, theirs = ours[~np.isnan(theirs)], theirs[~np.isnan(theirs)]
        rho: Any = stats.spearmanr(ours, theirs)
        found[quantity] = Agreement(_tau(ours, theirs), float(rho.statistic), float(np.mean(np.abs(ours / theirs - 1))))
    return found


def mean_tau_within_layers(comparisons: Sequence[Comparison], accounting: str) -> dict[str, float]:
    """Mean of tau over the sets of rows that share a layer and a machine."""
    taus: dict[str, list[float]] = {quantity: [] for quantity in QUANTITIES}
    for comparison in comparisons:
        _, layer = np.unique([case.of for case in comparison.reference.cases], return_inverse=True)
        for number, quantity in enumerate(QUANTITIES):
            ours, theirs = comparison.costs[accounting][number], comparison.timeloop[number]
            taus[quantity] += [_tau(ours[layer == i], theirs[layer == i]) for i in range(layer.max() + 1)]
    return {quantity: float(np.mean(found)) for quantity, found in taus.items()}


def _tau(ours: Floats, theirs: Floats) -> float:
    found: Any = stats.kendalltau(ours, theirs)
    return float(found.statistic)
