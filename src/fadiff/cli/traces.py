"""The trace of a search, for commands that show it beside a schedule."""

from pathlib import Path
from typing import TYPE_CHECKING

from fadiff.analysis.search_trace import read_trace
from fadiff.errors import FadiffError

if TYPE_CHECKING:
    from fadiff.analysis.search_trace import SearchTrace
    from fadiff.cost import Evaluation


def read_trace_of(evaluation: "Evaluation", path: Path) -> "SearchTrace":
    """The trace in a file, if it ends where the schedule is: another search tells nothing about this one."""
    trace = read_trace(path)
    last, mine = trace.best_edp_uj_cycles[-1], evaluation.edp_uj_cycles
    if abs(last - mine) > 1e-6 * mine:
        raise FadiffError(
            f"{path}: the search ends at an EDP of {last:.6g}, the schedule has {mine:.6g}: "
            "give the trace of the search that found this schedule"
        )
    return trace
