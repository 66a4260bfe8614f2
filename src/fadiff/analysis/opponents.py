"""What to hold a schedule against: the greedy heuristic, and the best schedule without fusion of a short search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Schedule


@dataclass(frozen=True)
class Opponents:
    """Two schedules of the same layers on the same machine, each of them told once and repeated as often as it runs."""

    greedy: Evaluation
    """Each layer on its own, mapped by a heuristic."""
    unfused: Evaluation
    """Each layer on its own, mapped by the moves that map fused layers too."""


def opponents(schedule: Schedule) -> Opponents:
    """Find both in a few seconds. A schedule that fuses nothing is its own opponent where none is better."""
    from fadiff.cost import evaluate
    from fadiff.search.explain.unfused import distinct_layers, unfused
    from fadiff.search.greedy import greedy

    heuristic = evaluate(greedy(distinct_layers(schedule.workload), schedule.machine))
    known = [unfused(heuristic, schedule)] if heuristic.edp_uj_cycles else [heuristic]
    known += [] if schedule.fused_edges else [evaluate(schedule)]
    return Opponents(heuristic, min(known, key=lambda one: one.edp_uj_cycles))
