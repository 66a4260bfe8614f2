"""A crew on a Ray cluster: every job a task with its cores, done again where its worker dies.

Workers only search. What they find comes back to the process that asked, which alone writes files, so a cluster needs
no folder in common.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
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
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How a client of gRPC, in which Ray speaks, begins: the preface of HTTP/2, and no settings of its own."""
SETTINGS = b"\x04"
"""What it is answered with, after three bytes of a length."""
RETRIES = 2
"""How often a job is done again whose worker died."""
WORDS = {"CPU": "cores", "GPU": "GPUs"}
"""What Ray counts, for people."""


@dataclass(frozen=True)
class OnRay:
    """A cluster, by its address, with so many cores for a job, and so many jobs at once at most."""

    address: str = LOCAL
    cores: int = 1
    at_once: int | None = None
    gpus: float = 0.0
    """Of a job; a part of one is shared."""

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
            _check_room(ray, {"CPU": self.cores, "GPU": self.gpus})
            _check_nodes(ray)
            does = ray.remote(num_cpus=self.cores, num_gpus=self.gpus, max_retries=RETRIES, num_returns="streaming")(
                _does
            )
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
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what Ray logs is no sentence for people
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
        with socket.create_connection((host, int(port)), CONNECT_SECONDS) as there:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                there.settimeout(CONNECT_SECONDS)
                there.sendall(HELLO)
                with there.makefile("rb") as answer:
                    if answer.read(4)[3:] != SETTINGS:
                        raise OSError("something else does")
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from None


def _no_cluster(address: str, error: Exception) -> FadiffError:
    said = next(iter(str(error).splitlines()), type(error).__name__)
    return FadiffError(
        f"{address}: no Ray cluster answers there ({said}): start one, or give its address, and its token if it has one"
    )


def _check_room(ray: Any, asked: Mapping[str, float]) -> None:  # noqa: ANN401
    """Refuse a cluster in which no computer has room for a single job: Ray would wait for one."""
    nodes: list[Mapping[str, float]] = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(all(node.get(kind, 0) >= count for kind, count in asked.items()) for node in nodes):
        return
    largest = {kind: max((node.get(kind, 0) for node in nodes), default=0) for kind in asked}
    told = " and ".join(f"{count:g} {WORDS[kind]}" for kind, count in asked.items() if count)
    has = " and ".join(f"{count:g} {WORDS[kind]}" for kind, count in largest.items())
    raise FadiffError(f"no computer of the cluster has {told} for a cell, at most {has}: ask for fewer")


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
