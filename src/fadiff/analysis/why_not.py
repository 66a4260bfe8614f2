"""Why each tensor that leaves the chip does: the reason, and what fusing it would need or cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from fadiff.analysis.breakdown import breakdown
from fadiff.analysis.units import change_text, size_text
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.plans import Members
from fadiff.search.explain.merging import merged_layers
from fadiff.search.explain.reasons import Cause, Verdict, verdicts

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Group, Schedule
    from fadiff.search.driver import Objective
    from fadiff.workload import Edge

FORBIDDEN: frozenset[Cause] = frozenset({"not fusible", "no memory fuses", "incomplete", "one sink", "repeat", "order"})
"""Causes that no memory, however large, would change."""


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


def why_not(evaluation: Evaluation, objective: Objective = "edp", *, priced: bool = True) -> tuple[NotFused, ...]:
    """One entry for every edge that is not fused, in the order of the workload's edges.

    Takes seconds where many groups could be merged: without `priced` it does not try, and tells them as not searched.
    """
    schedule = evaluation.schedule
    # Where energies are 0 there is nothing to price.
    known = verdicts(evaluation, objective, priced=priced and evaluation.edp_uj_cycles > 0)
    merged = {pair: _merged(evaluation, pair[0], verdict) for pair, verdict in known.items()}
    task = Task(schedule.workload, schedule.machine, dtype=np.float64)
    pinning = {pair: None if v.cause in FORBIDDEN else _pinning_bytes(task, *pair) for pair, v in known.items()}
    found: list[NotFused] = []
    for edge in schedule.workload.edges:
        if not schedule.is_fused(edge):
            pair = schedule.group_of[edge.source], schedule.group_of[edge.target]
            found.append(_entry(evaluation, edge, known[pair], merged[pair], pinning[pair]))
    return tuple(found)


def _entry(
    evaluation: Evaluation, edge: Edge, verdict: Verdict, merged: Merged | None, pinning: int | None
) -> NotFused:
    schedule, after = evaluation.schedule, verdict.merged
    edp_change = None if after is None else after.edp_uj_cycles / evaluation.edp_uj_cycles - 1
    return NotFused(
        source=edge.source,
        target=edge.target,
        port=edge.port,
        bytes=ceil(schedule.workload[edge.source].stored_words * schedule.machine.bits.O / 8),
        cause=verdict.cause,
        detail=verdict.detail,
        sentence=_sentence(schedule, verdict, merged, edp_change, pinning),
        missing_bytes=verdict.missing_bytes,
        pinning_missing_bytes=pinning,
        edp_change=edp_change,
        merged=merged,
    )


def _merged(evaluation: Evaluation, source: Group, verdict: Verdict) -> Merged | None:
    after = verdict.merged
    if after is None:
        return None
    group = after.schedule.group_of[source.layers[0]]
    cost = breakdown(after).groups[after.schedule.groups.index(group)]
    (all_before, weights_before), (all_after, weights_after) = map(_first_memory_bytes, (evaluation, after))
    return Merged(
        layers=group.layers,
        trips=cost.trips,
        peak_bytes=cost.peak_bytes,
        saved_activation_bytes=round(all_before - weights_before - all_after + weights_after),
        refetched_weight_bytes=round(weights_after - weights_before),
        energy_change=after.energy_pj / evaluation.energy_pj - 1,
        cycles_change=after.cycles / evaluation.cycles - 1,
    )


def _first_memory_bytes(evaluation: Evaluation) -> tuple[float, float]:
    """Bytes that the first memory reads and writes for the network: of everything, and of weights."""
    moved = evaluation.words @ evaluation.repeat * (evaluation.schedule.machine.memories[0].word_bits / 8)
    here = np.array([flow.memory == 0 for flow in evaluation.flows])
    weights = np.array([flow.tensor == "W" for flow in evaluation.flows])
    return float(moved[here].sum()), float(moved[here & weights].sum())


def _pinning_bytes(task: Task, source: Group, target: Group) -> int | None:
    """What two groups lack to run as one with every weight fetched once, as far as buffers and weights go.

    Under loops over N, P or Q all weights of an iteration of G stay beside the buffers; without such loops each layer
    runs once, and its weights may pass:

    .. math:: \\min_{trips} \\max_v live_v + [N P Q > 1] \\sum |W| / G
    """
    structure = task.machine.structure
    if structure.home("W") != structure.fuses:
        return None
    run = Members(task, merged_layers(task.workload, source, target))
    layers = [task.workload[name] for name in run.names]
    weights = sum(layer.weight_words for layer in layers if not layer.has_weight_port) * task.machine.bits.W / 8
    g, n, p, q, _ = run.tiling.trips
    needed = run.live.max(axis=1) + np.where(n * p * q > 1, weights / g, 0)
    return max(0, ceil(float(needed.min()) - run.capacity))


def _sentence(
    schedule: Schedule, verdict: Verdict, merged: Merged | None, edp_change: float | None, pinning: int | None
) -> str:
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
    if refetched > 0 and pinning:
        return f"{told}; with {size_text(pinning)} more {memory.name} every weight would be fetched once"
    return told
