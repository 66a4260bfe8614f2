"""How latency and energy follow Timeloop's: rank correlation and mean difference, by machine or over several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from fadiff.next.reproduce.timeloop.compare import Comparison
from fadiff.next.reproduce.timeloop.counts import QUANTITIES
from fadiff.next.reproduce.timeloop.reference import Floats

PAPER_ACCESS_ACCURACY = 0.96
PAPER_TAU = {"latency": 1.0, "energy": 0.7804}
PAPER_RHO = {"latency": 1.0, "energy": 0.9218}
"""What the FADiff paper reports for its own model against Timeloop."""


class Agreement(NamedTuple):
    """Kendall's tau-b and Spearman's rho over all rows, the mean relative difference, and tau within layers."""

    tau: float
    rho: float
    mean_difference: float
    within: float
    """Mean of tau within the sets of rows that share a layer and a machine."""


def ranks(comparisons: Sequence[Comparison], accounting: str) -> dict[str, Agreement]:
    """Latency and energy of the rows of some machines by one accounting; rows without cycles count for energy only."""
    found: dict[str, Agreement] = {}
    for number, quantity in enumerate(QUANTITIES):
        pairs = [(c.costs[accounting][number], c.timeloop[number]) for c in comparisons]
        ours, theirs = (np.concatenate(column) for column in zip(*pairs, strict=True))
        names = [f"{c.name} {case.of}" for c in comparisons for case in c.reference.cases]
        _, layer = np.unique(names, return_inverse=True)
        said = ~np.isnan(theirs)
        found[quantity] = agreement(ours[said], theirs[said], layer[said])
    return found


def agreement(ours: Floats, theirs: Floats, layer: np.ndarray) -> Agreement:
    """`layer` numbers the layer and machine of every row; a layer whose rows are all alike has no order to follow."""
    each = [_tau(ours[layer == i], theirs[layer == i]) for i in np.unique(layer) if np.ptp(theirs[layer == i]) > 0]
    rho: Any = stats.spearmanr(ours, theirs)
    return Agreement(
        tau=_tau(ours, theirs),
        rho=float(rho.statistic),
        mean_difference=float(np.mean(np.abs(ours / theirs - 1))),
        within=float(np.mean(each)),
    )


def _tau(ours: Floats, theirs: Floats) -> float:
    found: Any = stats.kendalltau(ours, theirs)
    return float(found.statistic)
