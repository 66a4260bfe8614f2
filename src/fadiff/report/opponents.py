"""What to hold a schedule against: the greedy heuristic, and the best schedule without fusion of a short search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Schedule


@dataclass(frozen=True)
class Opponents:
    """Two schedules of the same network on the same machine."""

    greedy: Evaluation
    """Each layer on its own, mapped by a heuristic."""
    unfused: Evaluation
    """Each layer on its own, mapped by the search that maps fused layers too."""


def opponents(schedule: Schedule) -> Opponents:
    """Find both. Takes seconds; loads JAX. A schedule that fuses nothing is its own opponent where none is better."""
    from fadiff.cost import evaluate
    from fadiff.search.driver import Settings, score, search
    from fadiff.search.joint import JointOptions, joint
    from fadiff.search.programs import search_programs

    method = partial(joint, options=JointOptions(descent=None, fuse=False))
    with search_programs():
        found = search(schedule.workload, schedule.hardware, method, Settings())
    known = [found.unfused] if schedule.fused_edges else [found.unfused, evaluate(schedule)]
    return Opponents(found.greedy, min(known, key=lambda one: score(one, "edp")))
