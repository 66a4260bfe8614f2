"""One cell of a sweep: a search, what it found as a row of the table, and its schedule."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from fadiff.errors import FadiffError
from fadiff.sweeps.lesson import pioneered, searched
from fadiff.sweeps.plan import KEY

if TYPE_CHECKING:
    from pathlib import Path

    from fadiff.schedule import Schedule
    from fadiff.sweeps.plan import Cell
    from fadiff.sweeps.rows import Row

RESULTS = (
    "edp_uj_cycles",
    "energy_pj",
    "cycles",
    "bound_edp_uj_cycles",
    "gap",
    "greedy_edp_uj_cycles",
    "unfused_edp_uj_cycles",
    "edges_fused",
    "groups",
    "seconds",
    "stopped",
    "left_out",
    "learned_from",
)
"""Columns of what was found."""
TEXTS = frozenset(
    (
        "network", "machine", "method", "objective", "stopped", "left_out", "learned_from", "schedule", "error",
        "fingerprint", "version",
    )
)  # fmt: skip
"""Columns that hold no numbers."""


class Found(NamedTuple):
    """What a search found."""

    results: Row
    schedule: Schedule


def search_cell(cell: Cell, shared: Path | None = None) -> Found:
    """Do the search, and prove a bound in what is left of the time, where the plan asks for it.

    Interrupted, it is no result. A cell that learns has its pioneer searched first, unless this process just did so, or
    another one with which it shares a folder.
    """
    first, lessons = (None, None) if cell.pioneer is None else pioneered(cell.pioneer, shared)
    found = first if first is not None and cell == cell.pioneer else searched(cell, lessons)
    best, schedule, proven = found.best, found.schedule, dict[str, float]()
    if cell.bound and (left := cell.budget_s - found.seconds) > 0:
        from fadiff.search.solver.network_bound import NEAR_GAP, bound

        found_bound = bound(schedule, budget_seconds=left, objective=cell.objective, near_enough=NEAR_GAP)
        schedule = replace(schedule, bound=found_bound.least)
        proven = {"bound_edp_uj_cycles": found_bound.least.edp_uj_cycles, "gap": found_bound.gap(best)}
    told = {
        "edp_uj_cycles": best.edp_uj_cycles,
        "energy_pj": best.energy_pj,
        "cycles": best.cycles,
        **proven,
        "greedy_edp_uj_cycles": found.greedy.edp_uj_cycles,
        "unfused_edp_uj_cycles": found.unfused.edp_uj_cycles,
        "edges_fused": len(schedule.fused_edges),
        "groups": len(schedule.groups),
        "seconds": round(found.seconds, 3),
        "stopped": found.stopped,
        "left_out": found.left_out,
        "learned_from": cell.pioneer.machine if lessons and cell.pioneer and cell != cell.pioneer else "",
    }
    return Found(told, schedule)


def cell_row(cell: Cell, results: Row, schedule_file: str = "", error: str = "") -> Row:
    """The row of a cell: what tells it apart, what was set, what was found, and what went wrong."""
    return {
        **{name: getattr(cell, name) for name in KEY},
        **dict(cell.values),
        **{name: results.get(name) for name in RESULTS},
        "schedule": schedule_file,
        "error": error,
        "fingerprint": cell.fingerprint,
        "version": version("fadiff-scheduler"),
    }


def sentence(error: Exception) -> str:
    """What went wrong, in one line."""
    said = " ".join(str(error).split())
    return said if isinstance(error, FadiffError) else f"{type(error).__name__}: {said}".removesuffix(": ")
