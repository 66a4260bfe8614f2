"""Runs of experiments: one search with one seed and one budget, whose rows are kept in the experiment's CSV file."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from fadiff.reproduce.experiment import ELSEWHERE
from fadiff.search.optimize import optimize
from fadiff.sweeps import measure as engine
from fadiff.sweeps.local import Local

if TYPE_CHECKING:
    from fadiff.reproduce.experiment import Desk
    from fadiff.search.driver import Result
    from fadiff.sweeps.measure import Progress
    from fadiff.sweeps.rows import Row, TextRow
    from fadiff.workload import Workload

Job = TypeVar("Job", bound=Hashable)


class Run(NamedTuple):
    """One search; the fields name the columns that tell runs apart."""

    model: str
    hardware: str
    method: str
    seed: int
    budget_s: float

    def __str__(self) -> str:
        return f"{self.model} on {self.hardware}, {self.method}, seed {self.seed}"


def result_of(run: Run, model: Workload | str = "") -> Result:
    """Do the search, of another network than the one that is named if it is given. Interrupted, it is no result."""
    found = optimize(model or run.model, run.hardware, method=run.method, budget_seconds=run.budget_s, seed=run.seed)
    if found.stopped == "interrupt":
        raise KeyboardInterrupt
    return found


def measure(
    desk: Desk,
    jobs: Sequence[Job],
    work: Callable[[Job], list[Row]],
    key: Sequence[str],
    kin: Callable[[Job], Hashable] = lambda job: None,
) -> list[TextRow]:
    """Rows of all jobs, in the order of jobs; `key` names the columns that tell jobs apart. An error ends it.

    Jobs of one kin share compiled programs: a process keeps to them.
    """

    def tell(progress: Progress) -> None:
        desk.tell(progress.done, progress.total, str(progress.running[0]) if progress.running else "")

    table = engine.Table(desk.file(".csv"), key, ELSEWHERE)
    return engine.measure(table, jobs, work, Local(desk.jobs), _rows, kin=kin, watch=tell)


def _rows(job: object, found: list[Row] | Exception) -> list[Row]:
    if isinstance(found, Exception):
        raise found
    return found
