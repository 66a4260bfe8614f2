"""A crew of processes on this computer, each with its own share of the cores.

Processes stay, with what they have compiled, and a job goes to one that has done its kin before. One that dies is
replaced, and its job is tried again.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fadiff.errors import FadiffError
from fadiff.sweeps.measure import Found, Job

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

TRIES = 2
"""How often a job is begun whose process dies."""


class LostError(FadiffError):
    """A job whose process died."""


@dataclass(frozen=True)
class Local:
    """So many processes; a single one is this process itself."""

    workers: int = 1

    def each(
        self,
        todo: Sequence[Job],
        work: Callable[[Job], Found],
        kin: Callable[[Job], Hashable],
        began: Callable[[Job], None],
        lesson: Callable[[Job], Hashable],
    ) -> Iterator[tuple[Job, Found | Exception]]:
        """Jobs with what was found, or what went wrong, as they get done."""
        if self.workers == 1 or len(todo) < 2:
            for job in in_turn(todo, lesson):
                began(job)
                yield job, outcome(work, job)
            return
        share_accelerator()
        crew: list[_Worker] = []
        waiting, tries = [*todo], Counter[Job]()
        try:
            crew += [_Worker.hire(work, share) for share in shares(min(self.workers, len(todo)))]
            idle = [*crew]
            while waiting or len(idle) < len(crew):
                while idle and waiting:
                    worker = idle.pop(0)
                    job = _next(waiting, kin, lesson, worker, crew)
                    waiting.remove(job)
                    worker.begin(job, kin(job), lesson(job))
                    began(job)
                for pipe in wait([worker.pipe for worker in crew if worker not in idle]):
                    worker = next(worker for worker in crew if worker.pipe is pipe)
                    job: Job = worker.job
                    try:
                        found = worker.pipe.recv()
                    except (EOFError, OSError):
                        tries[job] += 1
                        worker.replace(work)
                        if tries[job] < TRIES:
                            idle.append(worker)
                            waiting.insert(0, job)
                            continue
                        found = LostError(
                            f"the process that worked on it died {TRIES} times ({worker.ended}): it may need more "
                            "memory, so have fewer done at once"
                        )
                    idle.append(worker)
                    yield job, found
        finally:
            # What is under way would be waited for, and thrown away.
            for worker in crew:
                worker.end()


def share_accelerator() -> None:
    """Let JAX take memory of an accelerator as it needs it, so that several processes can use one."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def outcome(work: Callable[[Job], Found], job: Job) -> Found | Exception:
    """What was found, or what went wrong."""
    try:
        return work(job)
    except Exception as error:
        return error


@dataclass(eq=False)
class _Worker:
    """A process, the job it has, and the kins it has seen."""

    process: BaseProcess
    pipe: Connection
    share: list[int]
    job: Any = None
    kins: set[Hashable] = field(default_factory=set[Hashable])
    lesson: Hashable = None
    """Of its last job."""
    ended: str = ""
    """How the last process here ended."""

    @classmethod
    def hire(cls, work: Callable[[Any], object], share: list[int]) -> _Worker:
        """Start a process."""
        return cls(*_start(work, share), share)

    def begin(self, job: object, kin: Hashable, lesson: Hashable) -> None:
        """Give it a job. Of a process that is dead, whoever waits for its answer hears."""
        self.job, self.lesson = job, lesson
        self.kins.add(kin)
        with suppress(OSError):
            self.pipe.send(job)

    def replace(self, work: Callable[[Any], object]) -> None:
        """Put a new process in the place of one that died."""
        self.end()
        self.ended = f"exit code {self.process.exitcode}"
        self.process, self.pipe = _start(work, self.share)
        self.kins, self.lesson = set(), None

    def end(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _start(work: Callable[[Any], object], share: list[int]) -> tuple[BaseProcess, Connection]:
    spawn = multiprocessing.get_context("spawn")  # JAX's threads do not survive a fork
    here, there = cast("tuple[Connection, Connection]", spawn.Pipe())
    process = spawn.Process(target=_serve, args=(there, work, share), daemon=True)
    process.start()
    there.close()
    return process, here


def _next(
    waiting: Sequence[Job],
    kin: Callable[[Job], Hashable],
    lesson: Callable[[Job], Hashable],
    worker: _Worker,
    crew: Sequence[_Worker],
) -> Job:
    """The next job of a process: of the lesson that it is at, else of one that nobody is at, and of a kin it has seen,
    else of one that nobody has, else of the largest."""
    left = Counter(map(kin, waiting))
    seen = set[Hashable]().union(*(one.kins for one in crew))
    at = {one.lesson for one in crew}

    def rank(job: Job) -> tuple[bool | int, ...]:
        mine = kin(job)
        return lesson(job) != worker.lesson, lesson(job) in at, mine not in worker.kins, mine in seen, -left[mine]

    return min(waiting, key=rank)


def in_turn(todo: Sequence[Job], lesson: Callable[[Job], Hashable]) -> list[Job]:
    """Jobs with those of one lesson next to each other."""
    turns = {one: i for i, one in enumerate(dict.fromkeys(map(lesson, todo)))}
    return sorted(todo, key=lambda job: turns[lesson(job)])


def _serve(pipe: Connection, work: Callable[[Any], object], share: list[int]) -> None:
    """What a process does: jobs, on its own cores, and no part in signals to all processes, which the parent handles.

    It does not outlive its parent, even where that is killed.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_follow_the_parent, daemon=True).start()
    if share:
        _keep_to(share)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        found = outcome(work, job)
        pipe.send(portable(found) if isinstance(found, Exception) else found)


def _keep_to(cores: list[int]) -> None:
    """Keep all threads of this process to some cores: also those that libraries began when they were imported."""
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread.name), cores)


def _follow_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def portable(error: Exception) -> Exception:
    """An error that another process can read, with a note on where it came from."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def shares(workers: int) -> list[list[int]]:
    """The cores of this process, dealt out evenly; more workers than cores share them."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    each = max(1, len(cores) // workers)
    return [cores[(i * each) % max(1, len(cores)) :][:each] for i in range(workers)]
