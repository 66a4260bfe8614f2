"""How well the model agrees with Timeloop: accuracy of counts, and rank correlation of latency and energy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fadiff.reproduce.timeloop import Energies, Floats, Mask, Reference
from fadiff.reproduce.timeloop_costs import QUANTITIES, Cost, accountings, shipped_hardware, timeloop_cost
from fadiff.reproduce.timeloop_counts import COUNTS, SIZES, evaluate, fits, timeloop_columns
from fadiff.reproduce.timeloop_differences import EXPLANATIONS, Difference, find_differences, with_extra_reuse

GROUPS = {**COUNTS, "tiles": SIZES}
"""Counts by level and tensor, and tile sizes."""
ENERGY_ROUNDING_PJ = 0.03
"""The table's total is a sum of five parts, rounded to 0.01 pJ like each of them."""
CYCLE_ROUNDING = 1.0
"""Timeloop rounds a quotient of floating-point numbers up to whole cycles, so it may land one above the exact one."""

PAPER_ACCESS_ACCURACY = 0.96
PAPER_TAU = {"latency": 1.0, "energy": 0.7804}
PAPER_RHO = {"latency": 1.0, "energy": 0.9218}
"""What the FADiff paper reports for its own model against Timeloop."""


class Agreement(NamedTuple):
    """How well one quantity follows Timeloop's: over all rows, and over the rows of each layer on each machine."""

    tau: float
    rho: float
    within_tau_mean: float
    within_tau_min: float
    within_rho_mean: float
    within_rho_min: float
    mean_relative_error: float


@dataclass(frozen=True)
class Validation:
    """What the comparison found."""

    reference: Reference
    """The rows compared."""
    left_out: int
    """Rows whose registers hold more than the model's one weight."""
    layers: int
    """Pairs of a layer and a machine."""
    counts: Mapping[str, Floats]
    """``[rows]`` the model's counts and tile sizes, by Timeloop's column."""
    timeloop: Cost
    costs: Mapping[str, Cost]
    """The model's, by accounting."""
    ranks: Mapping[str, Mapping[str, Agreement]]
    """By accounting, then quantity."""
    differences: Sequence[Difference]
    rounded_cycles: int
    """Rows whose latency differs by up to one cycle."""
    spilling: int
    """Rows whose partial sums leave L1 unfinished."""
    unfit: int
    """Rows that Timeloop holds for valid and the model's capacity rule refuses."""
    unexplained: Sequence[str]
    """Rows whose counts, sizes, cycles or energy differ for a reason that no class names."""

    @property
    def rows(self) -> int:
        """Rows compared."""
        return len(self.reference)

    @cached_property
    def op_types(self) -> NDArray[np.str_]:
        """``[rows]`` kinds of operators."""
        return self.reference.text("op_type")

    @cached_property
    def accuracy(self) -> dict[str, Floats]:
        """``[rows]`` of every count and tile size."""
        return {name: accuracy(ours, self.reference.numbers(name)) for name, ours in self.counts.items()}

    @cached_property
    def access_accuracy(self) -> float:
        """Mean over rows and counts of 1 - |ours - theirs| / theirs."""
        return float(np.mean([self.accuracy[name] for names in COUNTS.values() for name in names]))

    @cached_property
    def equal(self) -> Mask:
        """``[rows]`` whether all counts and tile sizes are exactly equal."""
        return np.all([column == 1 for column in self.accuracy.values()], axis=0)

    @property
    def class_sizes(self) -> dict[str, int]:
        """Rows of each class whose counts differ."""
        return {kind: sum(d.kind == kind for d in self.differences) for kind in EXPLANATIONS}

    def group_accuracy(self, group: str, of: Mask) -> tuple[float, int]:
        """Mean accuracy of one of `GROUPS` over some rows, and on how many of them it is not exactly equal."""
        values = np.array([self.accuracy[name][of] for name in GROUPS[group]])
        return float(np.mean(values)), int(np.sum(np.any(values != 1, axis=0)))


def validate(reference: Reference, energies: Energies) -> Validation:
    """Evaluate every row that fits the model, in one batch, and hold the result against Timeloop's."""
    fitting = reference.text("l0_entries") == "1"
    rows = reference.where(fitting)
    batch = evaluate(rows)
    theirs = Cost(rows.numbers("cycles_total"), rows.numbers("energy_total_pJ"))
    costs = accountings(batch, energies)
    _, layer = np.unique(np.stack([rows.text("layer"), rows.text("config")]), axis=1, return_inverse=True)

    # With the reuse that the classes predict, nothing but rounding may be left.
    explained = with_extra_reuse(batch)
    differs = np.any([words != rows.numbers(name) for name, words in timeloop_columns(explained).items()], axis=0)
    cost = timeloop_cost(explained, energies)
    late_cycles, more_pj = theirs.cycles - cost.cycles, np.abs(theirs.energy_pj - cost.energy_pj)
    unexplained = differs | (late_cycles < 0) | (late_cycles > CYCLE_ROUNDING) | (more_pj > ENERGY_ROUNDING_PJ)

    return Validation(
        reference=rows,
        left_out=int(np.sum(~fitting)),
        layers=int(layer.max()) + 1,
        counts=timeloop_columns(batch),
        timeloop=theirs,
        costs=costs,
        ranks={
            name: {what: agreement(a, b, layer) for what, a, b in zip(QUANTITIES, ours, theirs, strict=True)}
            for name, ours in costs.items()
        },
        differences=find_differences(batch),
        rounded_cycles=int(np.sum(late_cycles > 0)),
        spilling=int(np.sum(np.asarray(batch.tiles.spills) > 0)),
        unfit=int(np.sum(~fits(batch, shipped_hardware(rows)))),
        unexplained=[str(name) for name in rows.text("id")[unexplained]],
    )


def accuracy(ours: Floats, theirs: Floats) -> Floats:
    """1 - |ours - theirs| / theirs, not below 0; it is 1 only where the two whole numbers are equal."""
    return np.maximum(0.0, 1.0 - np.abs(ours - theirs) / np.maximum(theirs, 1.0))


def agreement(ours: Floats, theirs: Floats, layer: NDArray[np.int64]) -> Agreement:
    """Kendall's tau-b and Spearman's rho; `layer` numbers the layer and machine of every row."""
    within = [(ours[layer == i], theirs[layer == i]) for i in range(layer.max() + 1)]
    taus, rhos = [_tau(*pair) for pair in within], [_rho(*pair) for pair in within]
    return Agreement(
        tau=_tau(ours, theirs),
        rho=_rho(ours, theirs),
        within_tau_mean=float(np.mean(taus)),
        within_tau_min=min(taus),
        within_rho_mean=float(np.mean(rhos)),
        within_rho_min=min(rhos),
        mean_relative_error=float(np.mean(np.abs(ours / theirs - 1))),
    )


def _tau(a: Floats, b: Floats) -> float:
    found: Any = stats.kendalltau(a, b)
    return float(found.statistic)


def _rho(a: Floats, b: Floats) -> float:
    found: Any = stats.spearmanr(a, b)
    return float(found.statistic)
