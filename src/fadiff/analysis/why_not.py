"""Why each tensor that leaves the chip does: the reason, and what fusing it would need or cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from fadiff.analysis.breakdown import shared_trips
from fadiff.analysis.occupancy import needed_bytes
from fadiff.analysis.units import change_text, size_text
from fadiff.schedule.constraints import Constraints
from fadiff.schedule.rules import Examined
from fadiff.search.explain.merging import Pair, merged_layers
from fadiff.search.explain.reasons import Cause, Verdict, alike_pairs, verdicts
from fadiff.search.objective import EDP, Objective

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Schedule
    from fadiff.workload import Edge


@dataclass(frozen=True)
class Merged:
    """The network with the edge's two groups merged, as well as a short search can; its prices are exact."""

    layers: tuple[str, ...]
    trips: dict[str, int]
    """Shared trip counts above 1, outer to inner."""
    peak_bytes: dict[str, float]
    """The fullest that the group makes each memory below the first."""
    saved_activation_bytes: int
    """Bytes of activations (inputs, outputs, spilled sums) that fusion would save at the first memory; negative: that
    it would add."""
    refetched_weight_bytes: int
    """Bytes on weight ports that it would fetch there on top; negative: that it would save."""
    energy_change: float
    """Of the whole network, relative: 0.02 is 2% more."""
    cycles_change: float


@dataclass(frozen=True)
class NotFused:
    """An edge whose tensor leaves the chip."""

    source: str
    target: str
    port: str
    bytes: int
    """Of the tensor, once, repeats not counted."""
    cause: Cause
    detail: str
    """The reason as the search tells it: a clause without full stop."""
    sentence: str
    """Reason, need and cost in one sentence for people."""
    missing_bytes: int | None
    """What the memory that fuses lacks at least, where the buffers alone do not fit; else None."""
    pinning_missing_bytes: int | None
    """What it lacks to fuse and fetch every weight once (0: it is there); None where fusion is forbidden, or weights
    have another home."""
    edp_change: float | None
    """Of the whole network with the two groups merged; None where they may not be, or nothing that fits was found."""
    merged: Merged | None
    alike: int
    """Number of the first entry that is the same but for names; its own where none before is."""


def why_not(
    evaluation: Evaluation,
    objective: Objective | str = EDP,
    *,
    priced: bool = True,
    constraints: Constraints = Constraints(),
) -> tuple[NotFused, ...]:
    """One entry for every edge that is not fused, in the order of the workload's edges.

    Takes seconds where many groups could be merged: without `priced` it does not try, and tells them as not searched.
    """
    schedule = evaluation.schedule
    # Where energies are 0 there is nothing to price.
    priced = priced and evaluation.edp_uj_cycles > 0
    known = verdicts(evaluation, objective, priced=priced, constraints=constraints)
    alike = alike_pairs(schedule)
    told: dict[Pair, Merged | None] = {}
    first: dict[object, int] = {}
    found: list[NotFused] = []
    for edge in schedule.workload.edges:
        if schedule.is_fused(edge):
            continue
        pair = schedule.group_of[edge.source], schedule.group_of[edge.target]
        like, verdict = alike[pair], known[pair]
        if like not in told:
            told[like] = _merged(evaluation, verdict)
        if (merged := told[like]) is not None:
            merged = replace(merged, layers=merged_layers(schedule.workload, *pair))
        kind = like, pair[0].layers.index(edge.source), pair[1].layers.index(edge.target), edge.port
        number = first.setdefault(kind, len(found))
        found.append(_entry(evaluation, edge, verdict, merged, number))
    return tuple(found)


def _entry(evaluation: Evaluation, edge: Edge, verdict: Verdict, merged: Merged | None, alike: int) -> NotFused:
    schedule = evaluation.schedule
    edp_change = None if merged is None else (1 + merged.energy_change) * (1 + merged.cycles_change) - 1
    return NotFused(
        source=edge.source,
        target=edge.target,
        port=edge.port,
        bytes=ceil(schedule.workload[edge.source].stored_words * schedule.machine.bits.O / 8),
        cause=verdict.cause,
        detail=verdict.detail,
        sentence=_sentence(schedule, verdict, merged, edp_change),
        missing_bytes=verdict.missing_bytes,
        pinning_missing_bytes=verdict.pinning_missing_bytes,
        edp_change=edp_change,
        merged=merged,
        alike=alike,
    )


def _merged(evaluation: Evaluation, verdict: Verdict) -> Merged | None:
    if verdict.merger is None:
        return None
    apart, together = verdict.merger
    (group,) = together.schedule.groups
    (all_before, weights_before), (all_after, weights_after) = map(_first_memory_bytes, (apart, together))
    energy_pj, cycles = verdict.merger.changed(evaluation)
    return Merged(
        layers=group.layers,
        trips=shared_trips(group),
        peak_bytes={memory: float(held.max()) for memory, held in needed_bytes(Examined(together.schedule)).items()},
        saved_activation_bytes=round(all_before - weights_before - all_after + weights_after),
        refetched_weight_bytes=round(weights_after - weights_before),
        energy_change=energy_pj / evaluation.energy_pj - 1,
        cycles_change=cycles / evaluation.cycles - 1,
    )


def _first_memory_bytes(evaluation: Evaluation) -> tuple[float, float]:
    """Bytes that the first memory reads and writes: of everything, and of weights."""
    moved = evaluation.words @ evaluation.repeat * (evaluation.schedule.machine.memories[0].word_bits / 8)
    here = np.array([flow.memory == 0 for flow in evaluation.flows])
    weights = np.array([flow.tensor == "W" for flow in evaluation.flows])
    return float(moved[here].sum()), float(moved[here & weights].sum())


def _sentence(schedule: Schedule, verdict: Verdict, merged: Merged | None, edp_change: float | None) -> str:
    memory = schedule.machine.fused_in()
    if verdict.missing_bytes is not None and memory is not None:
        return f"needs {size_text(verdict.missing_bytes)} more {memory.name}: {verdict.detail}"
    if merged is None or edp_change is None or memory is None:
        return verdict.detail
    saved, refetched = merged.saved_activation_bytes, merged.refetched_weight_bytes
    parts = [f"would {'save' if saved >= 0 else 'add'} {size_text(abs(saved))} of activations"]
    if refetched:
        joint = "but" if (saved >= 0) == (refetched > 0) else "and"
        parts.append(f"{joint} {'refetch' if refetched > 0 else 'save'} {size_text(abs(refetched))} of weights")
    told = f"{' '.join(parts)} ({schedule.machine.nodes[0].name}): EDP {change_text(edp_change)}"
    told += f" (energy {change_text(merged.energy_change)}, latency {change_text(merged.cycles_change)})"
    if verdict.cause == "not searched":
        return f"{told}, which a longer search may take"
    if refetched > 0 and (pinning := verdict.pinning_missing_bytes):
        return f"{told}; with {size_text(pinning)} more {memory.name} every weight would be fetched once"
    return told
