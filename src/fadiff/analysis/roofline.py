"""The roofline of a schedule: how much each layer computes per byte of each memory, what it attains, and could."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fadiff.analysis.idle import ArrayUse, array_use
from fadiff.schedule.rules import Examined

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.hardware import Memory


FULL = 0.995
"""Shares above are told as all."""


@dataclass(frozen=True)
class Roof:
    """What one memory allows."""

    memory: str
    bytes_per_cycle: float | None
    """All instances, reads and writes together; None where nothing limits it."""


@dataclass(frozen=True)
class RooflinePoint:
    """One MAC layer, or the whole network."""

    layer: str
    macs: int
    """Of all repeats."""
    macs_per_byte: tuple[float | None, ...]
    """Operational intensity at each memory, outermost first; None where the layer does not touch it."""
    attained_macs_per_cycle: float
    attainable_macs_per_cycle: tuple[float, ...]
    """By memory: min(multipliers, MACs / the cycles that the memory needs)."""
    mapped_macs_per_cycle: float
    """Multipliers that the mapping keeps busy while it computes: the roof that the mapping leaves."""
    bound_by: str
    """compute, a memory or the vector unit (of a network: what binds most of its cycles)."""
    share_of_cycles: float
    why: str
    """A sentence: what keeps it from all multipliers."""


@dataclass(frozen=True)
class Roofline:
    """The machine's roofs, outermost memory first, and the layers under them. Add layers have no MACs and no point."""

    peak_macs_per_cycle: int
    roofs: tuple[Roof, ...]
    points: tuple[RooflinePoint, ...]
    """In the workload's order."""
    network: RooflinePoint
    """All layers together, sums included, named after the workload."""


def roofline(evaluation: Evaluation) -> Roofline:
    """The roofline numbers of a schedule."""
    workload, machine = evaluation.schedule.workload, evaluation.schedule.machine
    moved = np.array(
        [
            evaluation.words[[flow.memory == node for flow in evaluation.flows]].sum(axis=0) * memory.word_bits / 8
            for node, memory in zip(machine.structure.memories, machine.memories, strict=True)
        ]
    )

    def point(
        name: str, macs: int, terms: np.ndarray, cycles: float, moved: np.ndarray, bound_by: str, why: str
    ) -> RooflinePoint:
        steps, *by_memory = terms[: 1 + len(machine.memories)].tolist()
        return RooflinePoint(
            layer=name,
            macs=macs,
            macs_per_byte=tuple(macs / size if size else None for size in moved.tolist()),
            attained_macs_per_cycle=macs / cycles if cycles else 0.0,
            attainable_macs_per_cycle=tuple(
                min(machine.peak_macs, macs / needed) if needed else float(machine.peak_macs) for needed in by_memory
            ),
            mapped_macs_per_cycle=macs / steps if steps else 0.0,
            bound_by=bound_by,
            share_of_cycles=cycles / evaluation.cycles if evaluation.cycles else 0.0,
            why=why,
        )

    used = array_use(Examined(evaluation.schedule))

    points = tuple(
        point(
            layer.name,
            layer.macs * layer.repeat,
            evaluation.terms[:, i] * layer.repeat,
            float(evaluation.layer_cycles[i]) * layer.repeat,
            moved[:, i] * layer.repeat,
            evaluation.binding[i],
            _why(evaluation, i, used[i]),
        )
        for i, layer in enumerate(workload.layers)
        if layer.is_mac
    )
    bound = dict.fromkeys(evaluation.term_names, 0.0)
    for i, term in enumerate(evaluation.binding):
        bound[term] += float(evaluation.layer_cycles[i] * evaluation.repeat[i])
    repeat = evaluation.repeat
    most = max(bound, key=lambda term: bound[term])
    terms = evaluation.terms @ repeat
    why = _lost(evaluation.utilization, float(terms[0]) / evaluation.cycles if evaluation.cycles else 0.0)
    network = point(workload.name, workload.macs, terms, evaluation.cycles, moved @ repeat, most, why)
    roofs = tuple(
        Roof(memory.name, _bytes_per_cycle(memory, machine.instances(node)))
        for node, memory in zip(machine.structure.memories, machine.memories, strict=True)
    )
    return Roofline(machine.peak_macs, roofs, points, network)


def _why(evaluation: Evaluation, i: int, use: ArrayUse) -> str:
    """What keeps a MAC layer from all multipliers: a memory, lanes without work, or nothing."""
    told: list[str] = []
    computing = float(evaluation.terms[0, i] / evaluation.layer_cycles[i]) if evaluation.layer_cycles[i] else 1.0
    if computing < FULL:
        told.append(f"{evaluation.binding[i]} sets its time, computing takes {computing:.0%} of that")
    if use.pe_use < FULL:
        told.append(f"{1 - use.pe_use:.0%} of its lane-steps idle ({use.idle[0].sentence})")
    return "; ".join(told) or "all multipliers work all the time"


def _lost(utilization: float, computing: float) -> str:
    parts = f"{utilization:.0%} multiply, {computing - utilization:.0%} have no work, {1 - computing:.0%} wait"
    return f"of the multipliers' time {parts} for memories"


def _bytes_per_cycle(memory: Memory, instances: int) -> float | None:
    """What a memory moves at best; where reads and writes each have a rate, both at once."""
    words = memory.words_per_cycle
    if words is None and memory.read_words_per_cycle is not None and memory.write_words_per_cycle is not None:
        words = memory.read_words_per_cycle + memory.write_words_per_cycle
    return None if words is None else words * instances * memory.word_bits / 8
