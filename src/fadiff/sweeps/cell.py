"""One cell of a sweep: a search, what it found as a row of the table, and its schedule."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from fadiff.errors import FadiffError
from fadiff.search.optimize import SEARCH_SHARE, optimize
from fadiff.sweeps.plan import KEY

if TYPE_CHECKING:
    from fadiff.schedule import Schedule
    from fadiff.search.driver import Result
    from fadiff.search.exact.lessons import Lessons
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


def search_cell(cell: Cell) -> Found:
    """Do the search, and prove a bound in what is left of the time, where the plan asks for it.

    Interrupted, it is no result. A cell that learns has its pioneer searched first, unless this process just did so.
    """
    first, lessons = (None, None) if cell.pioneer is None else _pioneered(cell.pioneer)
    found = first if first is not None and cell == cell.pioneer else _searched(cell, lessons)
    best, schedule, proven = found.best, found.schedule, dict[str, float]()
    if cell.bound and (left := cell.budget_s - found.seconds) > 0:
        from fadiff.search.solver.network_bound import bound

        found_bound = bound(schedule, budget_seconds=left, objective=cell.objective)
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


@lru_cache(maxsize=1)
def _pioneered(pioneer: Cell) -> tuple[Result | None, Lessons | None]:
    """What a pioneer finds and teaches; nothing where it fails, or the budget ends its search."""
    from fadiff.search.exact.lessons import Lessons

    lessons = Lessons()
    try:
        found = _searched(pioneer, lessons)
    except FadiffError:
        return None, None
    return found, lessons if lessons.learned else None


def _searched(cell: Cell, lessons: Lessons | None) -> Result:
    found = optimize(
        cell.workload,
        cell.hardware,
        method=cell.method,
        budget_seconds=cell.budget_s * SEARCH_SHARE if cell.bound else cell.budget_s,
        seed=cell.seed,
        objective=cell.objective,
        lessons=lessons,
    )
    if found.stopped == "interrupt":
        raise KeyboardInterrupt
    return found


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
