"""The model against Timeloop on the rows of one machine: what is equal, and to which class each difference belongs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fadiff.cost.evaluate import evaluate
from fadiff.hardware import load_machine
from fadiff.reproduce.timeloop.counts import Cost, Model, by_model, by_timeloops_rules, timeloops_price
from fadiff.reproduce.timeloop.reference import EXTRAPOLATED, Case, Columns, Floats, Mask, Reference
from fadiff.reproduce.timeloop.walk import walked_fills
from fadiff.schedule.rules import violations

TIMELOOPS, OWN, SHIPPED = "Timeloop's rules", "the model's rules", "the shipped hardware files"
"""Accountings: Timeloop's energies and rates with its rules for sums, the same without them, and the project's own."""
HARDWARE_FILES = frozenset({"gemmini-large", "gemmini-small"})
"""Machines of the tables that the project ships under the same name, with energies of its own."""
ENERGY_ROUNDING_PJ = 0.03
"""A total of the Gemminis' table is a sum of five parts, rounded to 0.01 pJ like each of them."""
CYCLE_ROUNDING = 1.0
"""Timeloop rounds a quotient of floating-point numbers up to whole cycles, so it may land one above the exact one."""

IMAGINED, DENIED, UNEXPLAINED = "imagined overlap", "denied overlap", "unexplained"
EXPLANATIONS = {
    IMAGINED: (
        "By default Timeloop walks only the first two iterations of every loop and scales up the second. When an outer "
        "loop steps it therefore sees the tile jump from the *second* position of the inner loop, not from the last, "
        "and where that jump happens to be the step of the inner loop itself (or none at all), it takes it for one "
        "more step of the same slide. Walking every iteration by Timeloop's own rule gives the model's count."
    ),
    DENIED: (
        "Walking every iteration gives Timeloop's count: the overlap is there, and the model, whose window slides "
        "along the innermost loop alone, counts whole tiles. Two loops over one axis of the image (P and P again, or P "
        "and R) act as one where the next step of the outer goes on where the sweep of the inner ends, or begins with "
        "the tile that it ended on; and a window may overlap itself although lanes unroll its dim."
    ),
}
"""Classes of differing counts, all of them input fetched: in both Timeloop fetches less than the model."""


class Difference(NamedTuple):
    """Input words fetched into a memory, where the model and Timeloop disagree."""

    row: str
    machine: str
    memory: str
    model: float
    timeloop: float
    predicted: float
    """Timeloop's count as the walk of tiles gives it, in the row's mode."""
    every_iteration: float
    """The same with every iteration walked."""

    @property
    def kind(self) -> str:
        """Its class."""
        kinds = {self.model: IMAGINED, self.timeloop: DENIED}
        is_predicted = self.predicted == self.timeloop < self.model
        return kinds.get(self.every_iteration, UNEXPLAINED) if is_predicted else UNEXPLAINED


@dataclass(frozen=True)
class Comparison:
    """What was found on one machine."""

    reference: Reference
    columns: Columns
    """The model's counts, tiles, steps and lanes by Timeloop's rules."""
    costs: Mapping[str, Cost]
    """The model's, by accounting."""
    differences: Sequence[Difference]
    reloading: int
    """Rows on which Timeloop reloads old sums into more lanes than the model."""
    rounded: int
    """Rows on which Timeloop's latency is one cycle longer."""
    walked: int
    """Fills of I that the walk gives as Timeloop counts them, those that differ from the model's included."""
    broken_rules: int
    """How often mappings that Timeloop holds for valid break a rule of the model."""
    unexplained: Sequence[str]
    """Rows with a number that differs for a reason that no class names."""

    @property
    def name(self) -> str:
        """The machine."""
        return self.reference.machine.name

    @property
    def timeloop(self) -> Cost:
        """What Timeloop says; cycles are nan on rows with cut ends."""
        return Cost(self.reference.numbers["cycles_total"], self.reference.numbers["energy_pj"])

    @cached_property
    def accuracy(self) -> Columns:
        """``[rows]`` of every count, tile, and of steps and lanes; nan where Timeloop says nothing."""
        theirs = self.reference.numbers
        return {name: accuracy(self.columns[name], theirs[name]) for name in theirs if name in self.columns}

    def accuracy_of(self, *endings: str) -> Floats:
        """Accuracy of every number that is compared in the columns whose names end so."""
        every = np.concatenate([found for name, found in self.accuracy.items() if name.endswith(endings)])
        return every[~np.isnan(every)]

    @cached_property
    def counts(self) -> Floats:
        """Accuracy of every access count of every row."""
        return self.accuracy_of("_reads", "_fills", "_updates")

    @cached_property
    def equal(self) -> Mask:
        """``[rows]`` whether all counts, tiles, steps and lanes are exactly equal."""
        return ~np.any([found < 1 for found in self.accuracy.values()], axis=0)


def compare(reference: Reference) -> Comparison:
    """Evaluate every row and hold the result against Timeloop's."""
    model = by_model(reference)
    columns = by_timeloops_rules(reference, model)
    cost, _ = timeloops_price(reference, model, columns)
    costs = {TIMELOOPS: cost, OWN: model.cost}
    if reference.machine.name in HARDWARE_FILES:
        shipped = evaluate(replace(reference.schedule, machine=load_machine(reference.machine.name)))
        costs[SHIPPED] = Cost(shipped.layer_cycles, shipped.layer_energy_pj)

    # With the overlaps that the walk sees, nothing but rounding may be left.
    explained, differences, walked = _with_walked_fills(reference, columns)
    late_cycles, left = _left_over(reference, model, explained)
    unnamed = {difference.row for difference in differences if difference.kind == UNEXPLAINED}
    names = [case.layer.name for case in reference.cases]
    more_lanes = [columns[name] != model.columns[name] for name in columns if name.endswith(("O_reads", "O_fills"))]
    return Comparison(
        reference=reference,
        columns=columns,
        costs=costs,
        differences=differences,
        reloading=int(np.sum(np.any(more_lanes, axis=0))),
        rounded=int(np.sum(late_cycles > 0)),
        walked=walked,
        broken_rules=len(violations(reference.schedule)),
        unexplained=[name for name, differs in zip(names, left, strict=True) if differs or name in unnamed],
    )


def _with_walked_fills(reference: Reference, columns: Columns) -> tuple[Columns, list[Difference], int]:
    """The columns with fills of I as the walk of tiles gives them, what differs there, and how many it gives right.

    Lanes that are served by one read stay so: reads at the parent keeper change as the fills do.
    """
    machine, structure = reference.machine, reference.machine.structure
    explained, differences, right = dict(columns), list[Difference](), 0

    def walked(case: Case, node: int, *, every: bool) -> float:
        fills = walked_fills(machine, case.layer, case.mapping, node, every=every)
        return np.nan if fills is None else fills

    for parent, node in pairwise(structure.keepers("I")):
        k, p = structure.memories.index(node), structure.memories.index(parent)
        ours, theirs = columns[f"M{k}_I_fills"], reference.numbers[f"M{k}_I_fills"]
        found = np.array([walked(case, node, every=case.mode != EXTRAPOLATED) for case in reference.cases])
        predicted = np.where(np.isnan(found), ours, found)
        explained[f"M{k}_I_fills"] = predicted
        explained[f"M{p}_I_reads"] = np.rint(columns[f"M{p}_I_reads"] * (predicted / ours))
        right += int(np.sum(found == theirs))
        for i in np.flatnonzero(ours != theirs).tolist():
            case = reference.cases[i]
            words = float(ours[i]), float(theirs[i]), float(predicted[i]), walked(case, node, every=True)
            differences.append(Difference(case.layer.name, machine.name, machine.nodes[node].name, *words))
    return explained, differences, right


def _left_over(reference: Reference, model: Model, explained: Columns) -> tuple[Floats, Mask]:
    """By how many cycles Timeloop's latency is longer, and on which rows anything else is left to explain."""
    theirs = reference.numbers
    cost, memory_cycles = timeloops_price(reference, model, explained)
    ours = explained | memory_cycles | {"cycles_total": cost.cycles, "energy_pj": cost.energy_pj}
    rounding = dict.fromkeys((*memory_cycles, "cycles_total"), (0.0, CYCLE_ROUNDING))
    rounding["energy_pj"] = (-ENERGY_ROUNDING_PJ, ENERGY_ROUNDING_PJ)
    more = {name: np.nan_to_num(column - ours[name]) for name, column in theirs.items()}
    bounds = {name: rounding.get(name, (0.0, 0.0)) for name in theirs}
    unexplained = [(more[name] < low) | (more[name] > high) for name, (low, high) in bounds.items()]
    return more["cycles_total"], np.any(unexplained, axis=0)


def accuracy(ours: Floats, theirs: Floats) -> Floats:
    """1 - |ours - theirs| / theirs, not below 0; it is 1 only where the two whole numbers are equal."""
    share = 1.0 - np.abs(ours - theirs) / np.maximum(theirs, 1.0)
    return np.maximum(0.0, share)
