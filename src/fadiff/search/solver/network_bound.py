r"""What any schedule of a network costs at least.

Whatever the groups, every layer has one of its places, so the (E, T) of a schedule is a sum over layers of points in
their regions: of each layer, what is proven of its energy and time in any place (:mod:`fadiff.search.solver.region`).
The least E*T of that sum bounds the EDP. It is at a corner, to which each layer gives a corner of its own region; the
layer that may lose most there is looked at again: at prices of energy and time like those at the corner, where it has
no line yet; else at those of the lines that meet there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from fadiff.hardware import Memory
from fadiff.search.solver.add_bound import AddBound
from fadiff.search.solver.layer_bound import COMPUTING, LayerBound, Term
from fadiff.search.solver.place import places
from fadiff.search.solver.region import Corner, Line, Point, apart, between, corners, sums, support, weighed

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.search.driver import Weights

FIRST_PASSES = 4
MORE_PASSES = 12
"""Walks that a layer gets at new prices, and each time that it is looked at again."""
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
    """No schedule of the network on the machine is below these."""

    edp_uj_cycles: float
    energy_pj: float
    cycles: float
    layers: tuple[LayerLoss, ...]
    """Where a gap to the schedule at hand comes from, largest loss first."""
    seconds: float

    def gap(self, evaluation: Evaluation) -> float:
        """By how much a schedule's EDP may be above the best there is: EDP / bound - 1."""
        return evaluation.edp_uj_cycles / self.edp_uj_cycles - 1


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

    def look(self, weights: Weights, passes: int) -> bool:
        """Look again at some prices; whether there was something to do."""
        before = self.bound.passes
        enough = min(weighed(point, weights) for point in self.least) * (1 - TOLERANCE)
        known = self.lines.get(weights)
        value = self.bound.at(weights, enough, passes)
        self.looks[weights] += 1
        self.lines[weights] = Line(weights, max(value, known.value if known else 0.0))
        return known is None or self.bound.passes > before


class Prover:
    """Bounds of a network, better and better; a schedule of it tells where to look."""

    def __init__(self, near: Evaluation) -> None:
        self.near = near
        workload, machine = near.schedule.workload, near.schedule.machine
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
                    LayerBound(layer, machine, possible, self._binds(i))
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

    def _binds(self, number: int) -> Term:
        """What takes the time of a layer in the schedule at hand."""
        machine, name = self.near.schedule.machine, self.near.binding[number]
        for node, memory in enumerate(machine.nodes):
            if memory.name == name and isinstance(memory, Memory):
                return (node, "both" if memory.words_per_cycle is not None else "read")
        return COMPUTING

    def run(self, budget_seconds: float, gap: float = 0.0) -> Iterator[Bound]:
        """Bounds, each at least as good as the one before, until the time is over or the gap is closed."""
        began = time.monotonic()
        until = began + budget_seconds
        a, b = 1 / self.near.energy_pj, 1 / self.near.cycles
        for kind in self.kinds:
            for ratio in FIRST_RATIOS:
                kind.look((a * ratio, b), FIRST_PASSES)
            for weights in ((a, 0.0), (0.0, b)):
                kind.look(weights, 1)
        while True:
            lowest, at = self._lowest()
            bound = self._bound(lowest, time.monotonic() - began)
            yield bound
            if bound.gap(self.near) <= gap or time.monotonic() > until or not self._improve(lowest, at):
                return

    def _lowest(self) -> tuple[Point, list[Corner]]:
        """Where E*T is least above everything proven, and the corners of the layers that it is the sum of."""
        regions = [(corners(kind.lines.values()), kind.runs) for kind in self.kinds]
        point, at = min(sums(regions), key=lambda one: one[0][0] * one[0][1])
        return point, [mine[n] for (mine, _), n in zip(regions, at, strict=True)]

    def _improve(self, lowest: Point, at: list[Corner]) -> bool:
        """Raise the lowest corner; False where nothing is left to do."""
        wanted = (1 / lowest[0], 1 / lowest[1])
        losses = [
            weighed(kind.spent, wanted) - kind.runs * weighed(corner.point, wanted)
            for kind, corner in zip(self.kinds, at, strict=True)
        ]
        for i in sorted(range(len(losses)), key=lambda i: -losses[i]):
            kind, ends = self.kinds[i], (at[i].left.weights, at[i].right.weights)
            tried = [(weights, MORE_PASSES) for weights in sorted(ends, key=kind.looks.__getitem__)]
            if apart(*ends) > CLOSE:
                soon = min(kind.looks[weights] for weights in ends) > ENOUGH_LOOKS
                tried.insert(0 if soon else 2, (between(*ends, wanted), FIRST_PASSES))
            if any(kind.look(weights, passes) for weights, passes in tried):
                return True
        return False

    def _bound(self, lowest: Point, seconds: float) -> Bound:
        weights = 1 / self.near.energy_pj, 1 / self.near.cycles
        losses = [
            LayerLoss(
                tuple(kind.names),
                weighed(kind.spent, weights),
                kind.runs * support(kind.lines.values(), weights),
            )
            for kind in self.kinds
        ]
        ends = [(corners(kind.lines.values()), kind.runs) for kind in self.kinds]
        return Bound(
            edp_uj_cycles=lowest[0] * 1e-6 * lowest[1],
            energy_pj=sum(mine[-1].point[0] * runs for mine, runs in ends),
            cycles=sum(mine[0].point[1] * runs for mine, runs in ends),
            layers=tuple(sorted(losses, key=lambda one: -one.loss)),
            seconds=seconds,
        )


def prove(
    near: Evaluation, budget_seconds: float, gap: float = 0.0, watch: Callable[[Bound], None] | None = None
) -> Bound:
    """The best bound that a time is enough for; it ends early where a schedule is proven to within a gap."""
    best: Bound | None = None
    for bound in Prover(near).run(budget_seconds, gap):
        best = bound
        if watch is not None:
            watch(bound)
    assert best is not None
    return best
