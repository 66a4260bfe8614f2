r"""What any schedule of a network costs at least.

Whatever the groups, every layer has one of its places, so the (E, T) of a schedule is a sum over layers of points in
their regions: of each layer, what is proven of its energy and time in any place (:mod:`fadiff.search.solver.region`).
The least E*T of that sum bounds the EDP. Layers are looked at first at the schedule's own prices of energy and time.
The sum is least at a corner, to which each layer gives a corner of its region; the layer that may lose most
there is looked at again, at the prices of the two lines that meet there, and after many looks at prices between them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from fadiff.cost import evaluate
from fadiff.schedule.ir import LowerBound
from fadiff.search.driver import check_energies
from fadiff.search.solver.add_bound import AddBound
from fadiff.search.solver.layer_bound import LayerBound, binding_term
from fadiff.search.solver.place import places
from fadiff.search.solver.region import Line, Point, Region, apart, between, corners, sums, support, weighed

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Schedule
    from fadiff.search.driver import Objective, Weights

FIRST_PASSES = 4
MORE_PASSES = 12
AT_FIRST = 48
"""Walks that a layer gets at new prices, each time that it is looked at again, and first of all at the prices of the
schedule."""
FIRST_RATIOS = (1.0, 4.0, 0.25, 16.0, 1 / 16)
"""Prices of a pJ at first, as multiples of what balances energy and time at the schedule: the further away, the less
has to be proven, (1 + r)^2 / 4r times less."""
ENOUGH_LOOKS = 16
"""Between two lines another is drawn after so many looks at each."""
CLOSE = 0.02
"""Prices whose ratio differs by less need no line between them."""
TOLERANCE = 2e-4
"""A layer's bound is good enough where it is so close to what the layer costs in the schedule at hand."""


class LayerLoss(NamedTuple):
    """What one layer, or several of the same shape, contribute to a gap; E and T weighed as at the schedule."""

    layers: tuple[str, ...]
    cost: float
    """Their share of E/E* + T/T*, which is 2 in all."""
    bound: float

    @property
    def loss(self) -> float:
        """The share of the sum that is not proven."""
        return self.cost - self.bound


@dataclass(frozen=True)
class Bound:
    """What is proven of every schedule of a network on a machine, and where a schedule loses against it."""

    least: LowerBound
    layers: tuple[LayerLoss, ...]
    """Where a gap to the schedule at hand comes from, largest loss first."""
    seconds: float

    def gap(self, evaluation: Evaluation, objective: Objective = "edp") -> float:
        """By how much a schedule may be above the best there is: cost / bound - 1."""
        return self.least.gaps(evaluation.energy_pj, evaluation.cycles)[objective]


@dataclass
class _Kind:
    """Layers that are the same to the bound."""

    bound: LayerBound | AddBound
    names: list[str] = field(default_factory=list[str])
    runs: float = 0.0
    """How often layers of this kind run."""
    spent: Point = (0.0, 0.0)
    """What all their runs take in the schedule at hand."""
    least: list[Point] = field(default_factory=list[Point])
    """What one run of each takes there."""
    lines: dict[Weights, Line] = field(default_factory=dict["Weights", Line])
    """What is proven of one run."""
    looks: Counter[Weights] = field(default_factory=Counter["Weights"])
    """How often it was looked at some prices."""

    def look(self, weights: Weights, passes: int, deadline: float = inf) -> bool:
        """Look again at some prices; whether there was something to do."""
        before = self.bound.passes
        enough = min(weighed(point, weights) for point in self.least) * (1 - TOLERANCE)
        known = self.lines.get(weights)
        value = self.bound.at(weights, enough, passes, deadline)
        self.looks[weights] += 1
        self.lines[weights] = Line(weights, max(value, known.value if known else 0.0))
        return known is None or self.bound.passes > before


def _effort(kind: _Kind, wanted: Weights, weights: Weights) -> float:
    """How late a line is looked at again: the further its prices are, and the more often it was looked at."""
    return (CLOSE + apart(weights, wanted)) * (1 + kind.looks[weights])


class Prover:
    """Bounds of a network, better and better; a schedule of it tells where to look."""

    def __init__(self, near: Evaluation, objective: Objective = "edp") -> None:
        self.near = near
        self.objective: Objective = objective
        workload, machine = near.schedule.workload, near.schedule.machine
        check_energies(machine)
        found: dict[object, _Kind] = {}
        for i, layer in enumerate(workload.layers):
            possible = places(workload, layer, machine)
            alike = (
                layer.kind,
                layer.dims,
                layer.stride,
                layer.dilation,
                layer.stored,
                len(layer.inputs),
                repr(possible),
            )
            if alike not in found:
                found[alike] = _Kind(
                    LayerBound(layer, machine, possible, binding_term(near, i))
                    if layer.is_mac
                    else AddBound(layer, machine, possible)
                )
            kind, runs = found[alike], float(near.repeat[i])
            once = float(near.layer_energy_pj[i]), float(near.layer_cycles[i])
            kind.names.append(layer.name)
            kind.least.append(once)
            kind.runs += runs
            kind.spent = kind.spent[0] + runs * once[0], kind.spent[1] + runs * once[1]
        self.kinds = list(found.values())

    def run(self, budget_seconds: float, gap: float = 0.0, walks: int | None = None) -> Iterator[Bound]:
        """Bounds, each at least as good as the one before, until the time is over or the gap is closed, or as soon as
        layers were walked through so often: so many times each on average."""
        began = time.monotonic()
        until = began + budget_seconds
        a, b = 1 / self.near.energy_pj, 1 / self.near.cycles
        prices = [*((a * ratio, b) for ratio in FIRST_RATIOS), (a, 0.0), (0.0, b)]
        for kind in self.kinds:
            for weights in prices:
                kind.look(weights, 0)
        tangent = {"edp": (a, b), "energy": (a, 0.0), "latency": (0.0, b)}[self.objective]
        fresh = sorted(self.kinds, key=lambda kind: weighed(kind.spent, (a, b)))
        while True:
            regions = [(corners(kind.lines.values()), kind.runs) for kind in self.kinds]
            lowest, at = min(sums(regions), key=lambda one: one[0][0] * one[0][1])
            bound = self._bound(regions, lowest, time.monotonic() - began)
            yield bound
            walked = sum(kind.bound.passes for kind in self.kinds)
            over = time.monotonic() > until or (walks is not None and walked >= walks * len(self.kinds))
            if over or bound.gap(self.near, self.objective) <= gap:
                return
            if fresh:
                # First of all, what each kind costs at the schedule's own prices.
                fresh.pop().look(tangent, AT_FIRST, until)
                continue
            if self.objective == "edp":
                wanted = (1 / lowest[0], 1 / lowest[1])
                meeting = [(mine[n].left, mine[n].right) for (mine, _), n in zip(regions, at, strict=True)]
            else:
                wanted = (1.0, 0.0) if self.objective == "energy" else (0.0, 1.0)
                meeting = [(mine[-1].right if wanted[0] else mine[0].left,) for mine, _ in regions]
            if not self._improve(wanted, meeting, until):
                return

    def _improve(self, wanted: Weights, meeting: Sequence[Sequence[Line]], deadline: float) -> bool:
        """Raise the corner of each kind where some of its lines meet; False where nothing is left to do."""
        losses: list[tuple[float, int, list[Weights]]] = []
        for i, (kind, lines) in enumerate(zip(self.kinds, meeting, strict=True)):
            # The line that is near in price comes first; what was looked at often gains less each time.
            ends = sorted((line.weights for line in lines), key=partial(_effort, kind, wanted))
            lost = weighed(kind.spent, wanted) - kind.runs * support(kind.lines.values(), wanted)
            losses.append((lost / (1 + kind.looks[ends[0]]), i, ends))
        for _, i, ends in sorted(losses, key=lambda one: -one[0]):
            kind = self.kinds[i]
            tried = [(weights, MORE_PASSES) for weights in ends]
            if apart(ends[0], ends[-1]) > CLOSE:
                soon = min(kind.looks[weights] for weights in ends) > ENOUGH_LOOKS
                tried.insert(0 if soon else len(ends), (between(ends[0], ends[-1], wanted), FIRST_PASSES))
            if any(kind.look(weights, passes, deadline) for weights, passes in tried):
                return True
        return False

    def _bound(self, regions: Sequence[Region], lowest: Point, seconds: float) -> Bound:
        weights = 1 / self.near.energy_pj, 1 / self.near.cycles
        losses = [
            LayerLoss(
                tuple(kind.names), weighed(kind.spent, weights), kind.runs * support(kind.lines.values(), weights)
            )
            for kind in self.kinds
        ]
        return Bound(
            least=LowerBound(
                energy_pj=sum(mine[-1].point[0] * runs for mine, runs in regions),
                cycles=sum(mine[0].point[1] * runs for mine, runs in regions),
                edp_uj_cycles=lowest[0] * 1e-6 * lowest[1],
            ),
            layers=tuple(sorted(losses, key=lambda one: -one.loss)),
            seconds=seconds,
        )


def prove(
    near: Evaluation,
    budget_seconds: float,
    objective: Objective = "edp",
    gap: float = 0.0,
    walks: int | None = None,
    watch: Callable[[Bound], None] | None = None,
) -> Bound:
    """The best bound that a time, or so many walks a layer, are enough for; it ends early where a schedule is proven to
    within a gap. Interrupted, it is the best so far."""
    best: Bound | None = None
    try:
        for bound in Prover(near, objective).run(budget_seconds, gap, walks):
            best = bound
            if watch is not None:
                watch(bound)
    except KeyboardInterrupt:
        if best is None:
            raise
    assert best is not None
    return best


def bound(
    schedule: Schedule, *, budget_seconds: float = 60.0, objective: Objective = "edp", gap: float = 1e-3
) -> Bound:
    """What no schedule of the same network on the same machine costs less than; the schedule says where to look."""
    return prove(evaluate(schedule), budget_seconds, objective, gap)
