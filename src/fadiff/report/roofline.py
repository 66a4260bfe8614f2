"""The roofline of a schedule: how much each layer computes per word of DRAM, what it attains, and what it could."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff.report.breakdown import LayerCost, breakdown, l3_words, words_at

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import Hardware


@dataclass(frozen=True)
class RooflinePoint:
    """One MAC layer, or the whole network."""

    layer: str
    group: int
    macs: int
    """Of all repeats."""
    macs_per_l3_word: float | None
    """Operational intensity; None where the layer touches no DRAM."""
    macs_per_l2_word: float | None
    attained_macs_per_cycle: float
    attainable_macs_per_cycle: float
    """min(PEs, intensity * DRAM bandwidth)."""
    mapped_macs_per_cycle: float
    """PEs that the mapping uses, s_rows*s_cols: the roof the mapping leaves (of a network: the mean over its MACs)."""
    bound_by: str
    """compute, L1, L2 or L3 (of a network: the term that binds most of its cycles)."""
    share_of_cycles: float


@dataclass(frozen=True)
class Roofline:
    """The machine's roofs and the layers under them. Add layers have no MACs and no point."""

    peak_macs_per_cycle: int
    l3_words_per_cycle: float
    l2_words_per_cycle: float
    ridge_macs_per_word: float
    """Intensity from which on the array, not DRAM, is the roof."""
    points: tuple[RooflinePoint, ...]
    """In the workload's order."""
    network: RooflinePoint
    """All layers together, sums included, named after the workload; group -1."""


def roofline(evaluation: Evaluation) -> Roofline:
    """The roofline numbers of a schedule."""
    schedule, costs = evaluation.schedule, breakdown(evaluation)
    machine = schedule.hardware
    peak, bandwidth = machine.rows * machine.cols, machine.words_per_cycle.l3
    points = tuple(
        _point(evaluation, layer, machine)
        for layer in costs.layers
        if layer.macs  # an add layer has none
    )
    macs, cycles = schedule.workload.macs, costs.totals.cycles
    l2 = sum(words_at(layer.words, "l2") * layer.repeat for layer in costs.layers)
    bound: dict[str, float] = {}
    for layer in costs.layers:
        bound[layer.bound_by] = bound.get(layer.bound_by, 0.0) + layer.cycles * layer.repeat
    network = RooflinePoint(
        layer=schedule.workload.name,
        group=-1,
        macs=macs,
        macs_per_l3_word=_ratio(macs, costs.totals.l3_words),
        macs_per_l2_word=_ratio(macs, l2),
        attained_macs_per_cycle=macs / cycles if cycles else 0.0,
        attainable_macs_per_cycle=_attainable(machine, macs, costs.totals.l3_words),
        mapped_macs_per_cycle=sum(point.mapped_macs_per_cycle * point.macs for point in points) / macs if macs else 0.0,
        bound_by=max(bound, key=lambda term: bound[term]),
        share_of_cycles=1.0,
    )
    return Roofline(peak, bandwidth, machine.words_per_cycle.l2, peak / bandwidth, points, network)


def _point(evaluation: Evaluation, layer: LayerCost, machine: Hardware) -> RooflinePoint:
    spatial = evaluation.schedule.mappings[layer.name].spatial
    in_use = spatial.C * spatial.R * spatial.S * spatial.K * spatial.G
    dram, l2 = l3_words(layer), words_at(layer.words, "l2")
    return RooflinePoint(
        layer=layer.name,
        group=layer.group,
        macs=layer.macs * layer.repeat,
        macs_per_l3_word=_ratio(layer.macs, dram),
        macs_per_l2_word=_ratio(layer.macs, l2),
        attained_macs_per_cycle=layer.macs / layer.cycles,
        attainable_macs_per_cycle=_attainable(machine, layer.macs, dram),
        mapped_macs_per_cycle=float(in_use),
        bound_by=layer.bound_by,
        share_of_cycles=layer.cycles * layer.repeat / evaluation.cycles,
    )


def _attainable(machine: Hardware, macs: int, dram_words: int) -> float:
    peak = float(machine.rows * machine.cols)
    return min(peak, macs / dram_words * machine.words_per_cycle.l3) if dram_words else peak


def _ratio(macs: int, words: int) -> float | None:
    return macs / words if words else None
