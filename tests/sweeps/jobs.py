"""Jobs for tests of crews: work that processes can import."""

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

from fadiff.errors import FadiffError


class Job(NamedTuple):
    """A letter, a folder to leave traces in, and how long to take."""

    letter: str
    folder: str = ""
    seconds: float = 0.0


def who(job: Job) -> tuple[int, set[int]]:
    """The process that does it, and the cores of all its threads."""
    threads = [int(thread.name) for thread in Path("/proc/self/task").iterdir()]
    return os.getpid(), set[int]().union(*map(os.sched_getaffinity, threads))


def slow(job: Job) -> str:
    """Leave a trace when it begins, and one when it ends."""
    Path(job.folder, f"{job.letter}-{os.getpid()}").touch()
    time.sleep(job.seconds)
    Path(job.folder, f"{job.letter}-done").touch()
    return job.letter


def slow_at_first(job: Job) -> str:
    """Leave a trace when it begins. Who begins it first takes its time, who does it again does not."""
    again = list(Path(job.folder).glob(f"{job.letter}-*"))
    Path(job.folder, f"{job.letter}-{os.getpid()}").touch()
    time.sleep(0 if again else job.seconds)
    return job.letter


def dies_once(job: Job) -> str:
    """The process of the job `b` is killed when it first does it."""
    trace = Path(job.folder, "died")
    if job.letter == "b" and not trace.exists():
        trace.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return job.letter


def always_dies(job: Job) -> str:
    """The process of the job `b` is killed whenever it does it."""
    if job.letter == "b":
        os.kill(os.getpid(), signal.SIGKILL)
    return job.letter


class AwkwardError(Exception):
    """An error that cannot be sent as it is."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def fails(job: Job) -> str:
    match job.letter:
        case "b":
            raise FadiffError("b will not do")
        case "c":
            raise AwkwardError(1, 2)
        case _:
            return job.letter
