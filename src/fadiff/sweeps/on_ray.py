"""A crew on a Ray cluster: every job a task with its cores, done again where its worker dies.

Workers only search. What they find comes back to the process that asked, which alone writes files, so a cluster needs
no folder in common.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

from fadiff.errors import FadiffError, pip_install
from fadiff.sweeps.local import LostError, outcome, portable
from fadiff.sweeps.measure import Found, Job

PACKAGE = "fadiff-scheduler"
LOCAL, FOUND = "local", "auto"
"""Addresses that are none: a cluster of this computer alone, and one that Ray finds by itself."""
CONNECT_SECONDS = 5.0
RETRIES = 2
"""How often a job is done again whose worker died."""


@dataclass(frozen=True)
class OnRay:
    """A cluster, by its address, with so many cores for a job, and so many jobs at once at most."""

    address: str = LOCAL
    cores: int = 1
    at_once: int | None = None

    def each(
        self,
        todo: Sequence[Job],
        work: Callable[[Job], Found],
        kin: Callable[[Job], Hashable],
        began: Callable[[Job], None],
        lesson: Callable[[Job], Hashable],
    ) -> Iterator[tuple[Job, Found | Exception]]:
        """Jobs with what was found, or what went wrong, as they get done.

        A task has all jobs of a lesson, and tells of each when it is done. Ray decides when a task begins, and where:
        those of one kin are sent one after the other, since workers stay, and those of a computer share what they have
        compiled on its disk.
        """
        if not todo:
            return
        lessons: dict[Hashable, list[Job]] = {}
        for job in todo:
            lessons.setdefault(lesson(job), []).append(job)
        kins = {one: i for i, one in enumerate(dict.fromkeys(map(kin, todo)))}
        waiting = sorted(lessons.values(), key=lambda jobs: kins[kin(jobs[0])])[::-1]
        with self._cluster() as ray:
            _check_nodes(ray)
            does = ray.remote(num_cpus=self.cores, max_retries=RETRIES, num_returns="streaming")(_does)
            under_way: dict[Any, list[Job]] = {}
            while waiting or under_way:
                while waiting and len(under_way) < (self.at_once or len(todo)):
                    jobs = waiting.pop()
                    under_way[does.remote(work, jobs)] = [*jobs]
                tasks, _ = ray.wait(list(under_way))
                for task in tasks:
                    jobs = under_way[task]
                    found = _result(ray, next(task))
                    # Of a task that is lost, so is all that it did not tell of.
                    told = [*jobs] if isinstance(found, LostError) else [jobs[0]]
                    for job in told:
                        jobs.remove(job)
                        yield job, found
                    if not jobs:
                        del under_way[task]

    @contextmanager
    def _cluster(self) -> Generator[Any]:
        """Ray, connected to the cluster."""
        try:
            ray: Any = import_module("ray")
        except ModuleNotFoundError:
            raise FadiffError(f"a sweep on ray needs ray: run {pip_install('cluster')}") from None
        if mine := not ray.is_initialized():
            _check_address(self.address)
            cpus = self.cores * self.at_once if self.address == LOCAL and self.at_once else None
            heard = signal.getsignal(signal.SIGTERM)
            try:
                ray.init(
                    self.address, num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
                )
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                raise _no_cluster(self.address, error) from None
            signal.signal(signal.SIGTERM, heard)  # Ray ends the process at once, and what it was told to say is lost
        try:
            yield ray
        finally:
            if mine:
                ray.shutdown()


def _does(work: Callable[[Any], object], jobs: Sequence[object]) -> Iterator[object]:
    for job in jobs:
        found = outcome(work, job)
        yield portable(found) if isinstance(found, Exception) else found


def _result(ray: Any, task: object) -> Any:  # noqa: ANN401
    """What a task found; what Ray itself says of it is told in one line."""
    try:
        return ray.get(task)
    except ray.exceptions.RayError as error:
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return LostError(f"the cluster lost it ({type(error).__name__}): {said}")


def _check_address(address: str) -> None:
    """Whether anybody listens there: Ray itself would wait for minutes."""
    if address in (LOCAL, FOUND):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        raise FadiffError(f"{address!r} is no address of a Ray cluster: write HOST:PORT, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> FadiffError:
    said = next(iter(str(error).splitlines()), type(error).__name__)
    return FadiffError(f"{address}: no Ray cluster answers there ({said}): start one, or give its address")


def _check_nodes(ray: Any) -> None:  # noqa: ANN401
    """Refuse a cluster with a computer that lacks this package, or has another version of it."""
    mine = version("fadiff-scheduler")
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        there = ray.remote(num_cpus=0, scheduling_strategy=strategy(node["NodeID"], soft=False))(version)
        name = node["NodeManagerHostname"]
        try:
            found: str = ray.get(there.remote(PACKAGE))
        except ray.exceptions.RayTaskError:
            raise FadiffError(f"{name}: {PACKAGE} is not installed there: install version {mine}") from None
        if found != mine:
            raise FadiffError(f"{name}: {PACKAGE} is of version {found} there, and {mine} here: install the same")
