"""One way to run many things: jobs whose rows are kept as soon as they are known, and not done twice.

A *job* is what tells a run apart from all others, *work* does it, a *crew* has many done at once, here or elsewhere.
Rows are kept after every job, by one process alone, so that whatever ends a run, what is done stays done.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from fadiff.search.optimize import ALIASES
from fadiff.sweeps.rows import Row, TextRow, as_text, read_rows, write_rows

if TYPE_CHECKING:
    from pathlib import Path

FORMER_COLUMNS = {"l3_words": "dram_words"}
"""Columns of files of earlier runs that have another name now."""
Job = TypeVar("Job", bound=Hashable)
Found = TypeVar("Found")
Key = tuple[str, ...]


class Crew(Protocol):
    """Who does jobs: processes of this computer, or of a cluster."""

    def each(
        self,
        todo: Sequence[Job],
        work: Callable[[Job], Found],
        kin: Callable[[Job], Hashable],
        began: Callable[[Job], None],
        lesson: Callable[[Job], Hashable],
    ) -> Iterator[tuple[Job, Found | Exception]]:
        """Jobs with what was found, or what went wrong, as they get done.

        Jobs of one kin share compiled programs, and those of one lesson work that is done once in each process that
        does some of them: they are best done by the same process, one after the other. `began` is called with every
        job that somebody begins, where the crew knows it.
        """
        ...


class Progress(NamedTuple):
    """Where a run stands."""

    done: int
    total: int
    running: tuple[object, ...]
    """Jobs under way, those that began first to the front."""
    last: Sequence[Row] = ()
    """Rows of the job that was done last."""


class Table(NamedTuple):
    """Where rows are kept, and which columns tell their jobs apart: fields of a job, as text."""

    path: Path
    key: Sequence[str]
    elsewhere: str = "choose another place"
    """What to do instead, where the file is damaged."""

    def name(self, job: object) -> Key:
        """The values of the key's columns."""
        return tuple(as_text(getattr(job, name)) for name in self.key)

    def kept(self) -> dict[Key, list[TextRow]]:
        """Rows of earlier runs, under the names of today."""
        kept: dict[Key, list[TextRow]] = {}
        for row in map(_renamed, read_rows(self.path, self.key, self.elsewhere)):
            kept.setdefault(tuple(row[name] for name in self.key), []).append(row)
        return kept


def measure(
    table: Table,
    jobs: Sequence[Job],
    work: Callable[[Job], Found],
    crew: Crew,
    keep: Callable[[Job, Found | Exception], Sequence[Row]],
    *,
    settled: Callable[[Job, Sequence[TextRow]], bool] = lambda job, rows: True,
    kin: Callable[[Job], Hashable] = lambda job: None,
    lesson: Callable[[Job], Hashable] = lambda job: job,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> list[TextRow]:
    """Rows of all jobs, in the order of jobs; those of earlier runs are taken from the table, if they settle the job.

    `keep` makes rows of what was found, or of what went wrong. Rows of other jobs stay in the table.
    """
    kept = table.kept()
    names = {job: table.name(job) for job in jobs}
    done = {job for job in jobs if names[job] in kept and settled(job, kept[names[job]])}
    running: dict[Job, None] = {}

    def tell(last: Sequence[Row] = ()) -> None:
        watch(Progress(len(done), len(jobs), tuple(running), last))

    def began(job: Job) -> None:
        running[job] = None
        tell()

    def write() -> None:
        order = dict.fromkeys([*names.values(), *kept])
        write_rows(table.path, [row for name in order for row in kept.get(name, ())])

    tell()
    for job, found in crew.each([job for job in jobs if job not in done], work, kin, began, lesson):
        kept[names[job]] = [{name: as_text(value) for name, value in row.items()} for row in keep(job, found)]
        running.pop(job, None)
        done.add(job)
        write()
        tell(kept[names[job]])
    return [row for job in jobs for row in kept.get(names[job], ())]


def _renamed(row: Mapping[str, str]) -> TextRow:
    """A row of an earlier run under the names of today: its columns, and its method."""
    row = {FORMER_COLUMNS.get(name, name): text for name, text in row.items()}
    return row | {"method": ALIASES.get(row["method"], row["method"])} if "method" in row else row
