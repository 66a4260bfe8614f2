r"""What any schedule of a network costs at least.

Whatever the groups, every layer has one of its places, so at any prices a of a pJ and b of a cycle

.. math:: a\, E + b\, T \ge \sum_{layers} repeat \cdot \min_{place, mapping} a\, energy + b\, cycles

Each pair of prices is a line that no schedule's (E, T) lies below. Where E*T is least over all points above the lines,
at a corner of them, it bounds the EDP: E*T is quasi-concave. The search for better bounds goes on at the lowest corner:
a new line through it, or more work on the layer that loses most at the lines that meet there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, log
from typing import TYPE_CHECKING, NamedTuple

from fadiff.hardware import Memory
from fadiff.search.solver.add_bound import AddBound
from fadiff.search.solver.layer_bound import COMPUTING, LayerBound, Term
from fadiff.search.solver.place import places

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.search.driver import Weights

FIRST_PASSES = 4
MORE_PASSES = 12
"""Walks that a layer gets at new prices, and each time that it is looked at again."""
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
    numbers: list[int] = field(default_factory=list[int])
    """Their places among the layers."""


@dataclass
class _Line:
    """What is proven at some prices: a*E + b*T >= the sum."""

    weights: Weights
    values: list[float]
    """By kind, all its layers and their repeats together."""
    costs: list[float]
    """The same of the schedule at hand."""

    @property
    def total(self) -> float:
        """What a*E + b*T is at least."""
        return sum(self.values)


class Prover:
    """Bounds of a network, better and better; a schedule of it tells where to look."""

    def __init__(self, near: Evaluation) -> None:
        self.near = near
        self.workload, self.machine = near.schedule.workload, near.schedule.machine
        found: dict[object, _Kind] = {}
        for i, layer in enumerate(self.workload.layers):
            possible = places(self.workload, layer, self.machine)
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
                bound = (
                    LayerBound(layer, self.machine, possible, self._binds(i))
                    if layer.is_mac
                    else AddBound(layer, self.machine, possible)
                )
                found[alike] = _Kind(bound)
            found[alike].numbers.append(i)
        self.kinds = list(found.values())
        self.lines: list[_Line] = []

    def _binds(self, number: int) -> Term:
        """What takes the time of a layer in the schedule at hand."""
        name = self.near.binding[number]
        for node, memory in enumerate(self.machine.nodes):
            if memory.name == name and isinstance(memory, Memory):
                return (node, "both" if memory.words_per_cycle is not None else "read")
        return COMPUTING

    # Lines.

    def run(self, budget_seconds: float, gap: float = 0.0) -> Iterator[Bound]:
        """Bounds, each at least as good as the one before, until the time is over or the gap is closed."""
        began = time.monotonic()
        until = began + budget_seconds
        energy_pj, cycles = self.near.energy_pj, self.near.cycles
        for weights in ((1 / energy_pj, 1 / cycles), (1 / energy_pj, 0.0), (0.0, 1 / cycles)):
            self.lines.append(self._draw(weights))
        while True:
            bound = self._bound(time.monotonic() - began)
            yield bound
            if bound.gap(self.near) <= gap or time.monotonic() > until or not self._improve():
                return

    def _draw(self, weights: Weights) -> _Line:
        line = _Line(weights, [0.0] * len(self.kinds), [self._cost(kind, weights) for kind in self.kinds])
        for i in range(len(self.kinds)):
            self._raise(line, i, FIRST_PASSES)
        return line

    def _cost(self, kind: _Kind, weights: Weights) -> float:
        """What the layers of a kind cost in the schedule at hand."""
        at = kind.numbers
        energy_pj, cycles = self.near.layer_energy_pj[at], self.near.layer_cycles[at]
        return float((weights[0] * energy_pj + weights[1] * cycles) @ self.near.repeat[at])

    def _raise(self, line: _Line, number: int, passes: int) -> bool:
        """Look again at a kind of layers; whether that was worth the time."""
        kind = self.kinds[number]
        cheapest = min(self._cost(_Kind(kind.bound, [i]), line.weights) / self.near.repeat[i] for i in kind.numbers)
        before = kind.bound.passes
        each = kind.bound.at(line.weights, cheapest * (1 - TOLERANCE), passes)
        line.values[number] = max(line.values[number], each * float(self.near.repeat[kind.numbers].sum()))
        return kind.bound.passes > before

    def _improve(self) -> bool:
        """Raise the lowest corner; False where nothing is left to do."""
        (energy_pj, cycles), left, right = min(self._corners(), key=lambda corner: corner[0][0] * corner[0][1])
        wanted = (1 / energy_pj, 1 / cycles)
        if all(_apart(line.weights, wanted) > CLOSE for line in self.lines):
            self.lines.append(self._draw(wanted))
            return True
        losses = sorted(
            ((line.costs[i] - line.values[i]) / sum(line.costs), n, i)
            for n, line in enumerate((left, right))
            for i in range(len(self.kinds))
        )
        return any(self._raise((left, right)[n], i, MORE_PASSES) for _, n, i in reversed(losses))

    def _corners(self) -> list[tuple[tuple[float, float], _Line, _Line]]:
        """Corners (E, T) of the region above all lines, with the two that meet there."""
        # From the line that bounds the time alone to that of the energy alone.
        ordered = sorted(self.lines, key=lambda line: _slope(line.weights))
        hull: list[_Line] = []
        for line in ordered:
            while len(hull) > 1 and not _below(_meet(hull[-2], line), hull[-1]):
                hull.pop()
            hull.append(line)
        return [(_meet(a, b), a, b) for a, b in pairwise(hull)]

    def _bound(self, seconds: float) -> Bound:
        by_slope = {_slope(line.weights): line for line in self.lines}
        first = self.lines[0]
        losses = [
            LayerLoss(tuple(self.workload.layers[i].name for i in kind.numbers), cost, value)
            for kind, cost, value in zip(self.kinds, first.costs, first.values, strict=True)
        ]
        return Bound(
            edp_uj_cycles=min(e * 1e-6 * t for (e, t), *_ in self._corners()),
            energy_pj=by_slope[inf].total / by_slope[inf].weights[0],
            cycles=by_slope[0.0].total / by_slope[0.0].weights[1],
            layers=tuple(sorted(losses, key=lambda one: -one.loss)),
            seconds=seconds,
        )


def _slope(weights: Weights) -> float:
    return weights[0] / weights[1] if weights[1] else inf


def _apart(one: Weights, other: Weights) -> float:
    """How much two ratios of prices differ."""
    a, b = _slope(one), _slope(other)
    return inf if min(a, b) == 0 or max(a, b) == inf else abs(log(a / b))


def _meet(one: _Line, other: _Line) -> tuple[float, float]:
    """Where two lines cross."""
    (a, b), (c, d) = one.weights, other.weights
    det = a * d - b * c
    return (one.total * d - b * other.total) / det, (a * other.total - one.total * c) / det


def _below(point: tuple[float, float], line: _Line) -> bool:
    """Whether a point lies below a line, so that the line cuts it off."""
    return line.weights[0] * point[0] + line.weights[1] * point[1] < line.total * (1 - 1e-12)


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
