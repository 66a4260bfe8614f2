"""Why each tensor that goes through DRAM does: the reason, and what fusing it would need or cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fadiff.report.breakdown import breakdown
from fadiff.report.units import change_text, size_text
from fadiff.search.groups import Run
from fadiff.search.reasons import Cause, Verdict, merged_layers, verdicts

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import Hardware
    from fadiff.schedule import Group
    from fadiff.search.driver import Objective
    from fadiff.workload import Edge, Workload

FORBIDDEN: frozenset[Cause] = frozenset({"not fusible", "one sink", "repeat", "order"})
"""Causes that no memory, however large, would change."""


@dataclass(frozen=True)
class Merged:
    """The network with the edge's two groups merged, as well as a short search can; its prices are exact."""

    layers: tuple[str, ...]
    trips: dict[str, int]
    """Shared trip counts above 1, outer to inner."""
    peak_l2_bytes: int
    saved_activation_words: int
    """DRAM words of activations (inputs, outputs, spilled sums) that fusion would save; negative: that it would add."""
    refetched_weight_words: int
    """DRAM words on weight ports that it would fetch on top; negative: that it would save."""
    energy_change: float
    """Of the whole network, relative: 0.02 is 2% more."""
    cycles_change: float
    edp_change: float


@dataclass(frozen=True)
class NotFused:
    """An edge whose tensor goes through DRAM."""

    source: str
    target: str
    port: str
    words: int
    """Of the tensor, once, repeats not counted."""
    cause: Cause
    """not fusible, capacity, alignment, whole tensor, one sink, repeat, order, no gain, or not searched."""
    detail: str
    """The reason as the search tells it: a clause without full stop."""
    sentence: str
    """Reason, need and cost in one sentence for people."""
    needs_l2_bytes: int | None
    """L2 that is missing at least, where the buffers alone do not fit; else None."""
    pinning_needs_l2_bytes: int | None
    """L2 that is missing to fuse and fetch every weight once (0: it is there); None where fusion is forbidden."""
    merged: Merged | None
    """None where the groups may not be merged, or nothing was found that fits."""


def why_not(evaluation: Evaluation, objective: Objective = "edp") -> tuple[NotFused, ...]:
    """One entry for every edge that is not fused, in the order of the workload's edges.

    Loads JAX, and compiles the search's program where it is not in the cache; else it takes a second or two.
    """
    schedule = evaluation.schedule
    # Where energies are 0 there is nothing to price.
    known = verdicts(evaluation, objective, priced=evaluation.edp_uj_cycles > 0)
    merged = {pair: _merged(evaluation, pair[0], verdict) for pair, verdict in known.items()}
    pinning = {
        pair: None if verdict.cause in FORBIDDEN else _pinning_bytes(schedule.workload, schedule.hardware, *pair)
        for pair, verdict in known.items()
    }
    found: list[NotFused] = []
    for edge in schedule.workload.edges:
        if schedule.is_fused(edge):
            continue
        pair = schedule.group_of[edge.source], schedule.group_of[edge.target]
        found.append(_entry(schedule.workload, edge, known[pair], merged[pair], pinning[pair]))
    return tuple(found)


def _entry(workload: Workload, edge: Edge, verdict: Verdict, merged: Merged | None, pinning: int | None) -> NotFused:
    return NotFused(
        source=edge.source,
        target=edge.target,
        port=edge.port,
        words=workload[edge.source].stored_words,
        cause=verdict.cause,
        detail=verdict.detail,
        sentence=_sentence(verdict, merged, pinning),
        needs_l2_bytes=verdict.missing_l2_bytes,
        pinning_needs_l2_bytes=pinning,
        merged=merged,
    )


def _merged(evaluation: Evaluation, source: Group, verdict: Verdict) -> Merged | None:
    after = verdict.merged
    if after is None:
        return None
    group = after.schedule.group_of[source.layers[0]]
    cost = breakdown(after).groups[after.schedule.groups.index(group)]
    weights = _weight_words(after) - _weight_words(evaluation)
    return Merged(
        layers=group.layers,
        trips=cost.trips,
        peak_l2_bytes=cost.peak_l2_bytes,
        saved_activation_words=round(evaluation.l3_words - after.l3_words) + weights,
        refetched_weight_words=weights,
        energy_change=after.energy_pj / evaluation.energy_pj - 1,
        cycles_change=after.cycles / evaluation.cycles - 1,
        edp_change=after.edp_uj_cycles / evaluation.edp_uj_cycles - 1,
    )


def _weight_words(evaluation: Evaluation) -> int:
    """DRAM words on weight ports, repeats counted."""
    return round(float(np.sum(np.asarray(evaluation.layers.traffic.l3_weight) * evaluation.repeat)))


def _pinning_bytes(workload: Workload, machine: Hardware, source: Group, target: Group) -> int:
    """L2 that two groups lack to run as one with every weight fetched once, as far as buffers and weights go.

    Under loops over N, P or Q all weights of an iteration of G stay beside the buffers; without such loops each layer
    runs once, and its weights may pass:

    .. math:: \\min_{trips} \\max_v live_v + [N P Q > 1] \\sum |W| / G
    """
    run = Run(workload, merged_layers(workload, source, target))
    weights = sum(layer.weight_words for layer in run.segment if not layer.has_weight_port)
    g, n, p, q, _ = run.trips
    needed = run.live.max(axis=1) + np.where(n * p * q > 1, weights // g, 0)
    return max(0, int(needed.min()) - machine.usable_l2_bytes)


def _sentence(verdict: Verdict, merged: Merged | None, pinning: int | None) -> str:
    if verdict.missing_l2_bytes is not None:
        return f"needs {size_text(verdict.missing_l2_bytes)} more L2: {verdict.detail}"
    if merged is None:
        return verdict.detail
    saved, refetched = merged.saved_activation_words, merged.refetched_weight_words
    parts = [f"would {'save' if saved >= 0 else 'add'} {size_text(abs(saved))} of activations"]
    if refetched:
        joint = "but" if (saved >= 0) == (refetched > 0) else "and"
        parts.append(f"{joint} {'refetch' if refetched > 0 else 'save'} {size_text(abs(refetched))} of weights")
    told = f"{' '.join(parts)} (DRAM): EDP {change_text(merged.edp_change)}"
    told += f" (energy {change_text(merged.energy_change)}, latency {change_text(merged.cycles_change)})"
    if verdict.cause == "not searched":
        return f"{told}, which a longer search may take"
    if refetched > 0 and pinning:
        return f"{told}; with {size_text(pinning)} more L2 every weight would be fetched once"
    return told
