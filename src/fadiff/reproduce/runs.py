"""Searches to be measured: many of them, one after the other or several at a time, each done once and kept.

A run is one search with one seed and one budget. Its result is kept as a row of the experiment's CSV file as soon as it
is known, so that an experiment that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from fadiff.search.optimize import ALIASES, optimize

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

    from fadiff.reproduce.experiment import Desk
    from fadiff.search.driver import Result

FORMER_COLUMNS = {"l3_words": "dram_words"}
"""Columns of files of earlier runs that have another name now."""
Row = Mapping[str, object]
Job = TypeVar("Job")


class Run(NamedTuple):
    """One search; the fields name the columns that tell runs apart."""

    model: str
    hardware: str
    method: str
    seed: int
    budget_s: float

    def __str__(self) -> str:
        return f"{self.model} on {self.hardware}, {self.method}, seed {self.seed}"


def result_of(run: Run) -> Result:
    """Do the search. Interrupted, it is no result."""
    found = optimize(run.model, run.hardware, method=run.method, budget_seconds=run.budget_s, seed=run.seed)
    if found.stopped == "interrupt":
        raise KeyboardInterrupt
    return found


def measure(desk: Desk, jobs: Sequence[Job], work: Callable[[Job], list[Row]], key: Sequence[str]) -> list[Row]:
    """Rows of all jobs, in the order of jobs; those of earlier runs are taken from the desk.

    `key` names the columns that identify a job: its own fields, as text. What is done is kept after every job.
    """
    kept: dict[tuple[str, ...], list[Row]] = {}
    for row in map(_renamed, desk.rows(key)):
        kept.setdefault(tuple(row[name] for name in key), []).append(row)
    names = {job: _name(job, key) for job in jobs}
    todo = [job for job in jobs if names[job] not in kept]

    def rows() -> list[Row]:
        return [row for job in jobs for row in kept.get(names[job], ())]

    desk.tell(len(jobs) - len(todo), len(jobs), str(todo[0]) if todo else "done")
    for done, (job, found) in enumerate(_each(todo, work, desk.jobs), start=len(jobs) - len(todo) + 1):
        kept[names[job]] = [{name: _text(value) for name, value in row.items()} for row in found]
        desk.write_rows(rows())
        desk.tell(done, len(jobs), str(job))
    return rows()


def _renamed(row: Mapping[str, str]) -> dict[str, str]:
    """A row of an earlier run under the names of today: its columns, and its method."""
    row = {FORMER_COLUMNS.get(name, name): text for name, text in row.items()}
    return row | {"method": ALIASES.get(row["method"], row["method"])} if "method" in row else row


def _name(job: object, key: Sequence[str]) -> tuple[str, ...]:
    return tuple(_text(getattr(job, name)) for name in key)


def _text(value: object) -> str:
    """A value as the CSV file has it: floats with all their digits, nothing for None."""
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _each(todo: Sequence[Job], work: Callable[[Job], list[Row]], jobs: int) -> Iterator[tuple[Job, list[Row]]]:
    """Jobs with their rows as they get done."""
    if jobs == 1 or len(todo) < 2:
        for job in todo:
            yield job, work(job)
        return
    spawn = multiprocessing.get_context("spawn")  # JAX's threads do not survive a fork
    shares = spawn.SimpleQueue()
    for share in _shares(jobs):
        shares.put(share)
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_settle, initargs=(shares,)) as pool:
        try:
            running = {pool.submit(work, job): job for job in todo}
            for future in as_completed(running):
                yield running[future], future.result()
        except BaseException:
            # What is under way would be waited for, and thrown away.
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(multiprocessing.active_children()) - others:
                worker.kill()
                worker.join()
            raise


def _shares(jobs: int) -> list[list[int]]:
    """The cores of this process, dealt out evenly; more jobs than cores share them."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    each = max(1, len(cores) // jobs)
    return [cores[(i * each) % max(1, len(cores)) :][:each] for i in range(jobs)]


def _settle(shares: SimpleQueue[list[int]]) -> None:
    """Start a worker: its own cores, and no part in signals to all processes, which the parent handles."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if share := shares.get():
        os.sched_setaffinity(0, share)
