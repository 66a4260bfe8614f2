"""What to hold a schedule against: the greedy heuristic, and the best schedule without fusion of a short search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fadiff.cost import Evaluation
    from fadiff.hardware import Machine
    from fadiff.schedule import Schedule
    from fadiff.search.driver import Incumbent, Settings, Status
    from fadiff.workload import Workload

STARTS = 16
"""Mappings that each layer climbs from."""


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

    found = search(schedule.workload, schedule.machine, _unfused, Settings())
    known = [found.unfused] if schedule.fused_edges else [found.unfused, evaluate(schedule)]
    return Opponents(found.greedy, min(known, key=lambda one: score(one, "edp")))


def _unfused(workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent) -> Iterator[Status]:
    """The exact search without its groups."""
    from fadiff.search.exact.conditions import Task
    from fadiff.search.exact.method import ExactSearch
    from fadiff.search.programs import stepwise

    exact = ExactSearch(Task(workload, machine, settings.deadline), settings, incumbent)
    return stepwise(exact.map(STARTS, polished=True))
