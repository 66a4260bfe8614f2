"""The roofline of a schedule: how much each layer computes per byte of each memory, what it attains, and could."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.hardware import Memory


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
        name: str, macs: int, terms: np.ndarray, cycles: float, moved: np.ndarray, bound_by: str
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
        )

    points = tuple(
        point(
            layer.name,
            layer.macs * layer.repeat,
            evaluation.terms[:, i] * layer.repeat,
            float(evaluation.layer_cycles[i]) * layer.repeat,
            moved[:, i] * layer.repeat,
            evaluation.binding[i],
        )
        for i, layer in enumerate(workload.layers)
        if layer.is_mac
    )
    bound = dict.fromkeys(evaluation.term_names, 0.0)
    for i, term in enumerate(evaluation.binding):
        bound[term] += float(evaluation.layer_cycles[i] * evaluation.repeat[i])
    repeat = evaluation.repeat
    most = max(bound, key=lambda term: bound[term])
    network = point(workload.name, workload.macs, evaluation.terms @ repeat, evaluation.cycles, moved @ repeat, most)
    roofs = tuple(
        Roof(memory.name, _bytes_per_cycle(memory, machine.instances(node)))
        for node, memory in zip(machine.structure.memories, machine.memories, strict=True)
    )
    return Roofline(machine.peak_macs, roofs, points, network)


def _bytes_per_cycle(memory: Memory, instances: int) -> float | None:
    """What a memory moves at best; where reads and writes each have a rate, both at once."""
    words = memory.words_per_cycle
    if words is None and memory.read_words_per_cycle is not None and memory.write_words_per_cycle is not None:
        words = memory.read_words_per_cycle + memory.write_words_per_cycle
    return None if words is None else words * instances * memory.word_bits / 8
