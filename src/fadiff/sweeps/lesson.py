"""What a pioneer finds and teaches: searched once, also where several processes do the cells that learn from it."""

from __future__ import annotations

import fcntl
import pickle
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from fadiff.errors import FadiffError
from fadiff.files import write_bytes
from fadiff.search.optimize import optimize

if TYPE_CHECKING:
    from pathlib import Path

    from fadiff.search.driver import Result
    from fadiff.search.exact.lessons import Lessons
    from fadiff.sweeps.plan import Cell

SHARED = ".fadiff-lesson-"
"""Files in a sweep's folder through which its processes share what pioneers find. They are left behind only by a sweep
that is killed, and never read by the next, which deletes them first."""


class Pioneered(NamedTuple):
    """A pioneer's result, and what those who learn from it begin with; nothing where it fails."""

    found: Result | None = None
    lessons: Lessons | None = None


@lru_cache(maxsize=1)
def pioneered(pioneer: Cell, shared: Path | None) -> Pioneered:
    """What a pioneer finds and teaches. In a folder it is shared: one process searches, and the others wait for it."""
    from fadiff.search.exact.lessons import Lessons

    if shared is None or not shared.is_dir():
        return _pioneer(pioneer)
    name = sha256(f"{pioneer.stem} {pioneer.fingerprint}".encode()).hexdigest()[:16]
    file = shared / f"{SHARED}{name}"
    try:
        # The lock ends with the process that holds it, however that ends.
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if file.exists():
                result, learned = pickle.loads(file.read_bytes())
                return Pioneered(result, learned and Lessons(known=learned))
            found = _pioneer(pioneer)
            with suppress(FadiffError):  # others search it themselves then
                write_bytes(file, pickle.dumps((found.found, found.lessons and found.lessons.learned)))
            return found
    except OSError:
        return _pioneer(pioneer)


def forget(shared: Path) -> None:
    """Delete what processes shared."""
    for file in shared.glob(f"{SHARED}*"):
        file.unlink(missing_ok=True)


def _pioneer(pioneer: Cell) -> Pioneered:
    from fadiff.search.exact.lessons import Lessons

    lessons = Lessons()
    try:
        found = searched(pioneer, lessons)
    except FadiffError:
        return Pioneered()
    return Pioneered(found, lessons if lessons.learned else None)


def searched(cell: Cell, lessons: Lessons | None) -> Result:
    """The search of a cell; interrupted, it is no result."""
    found = optimize(
        cell.workload,
        cell.hardware,
        method=cell.method,
        budget_seconds=cell.budget_s,
        proof_follows=cell.bound,
        seed=cell.seed,
        objective=cell.objective,
        lessons=lessons,
    )
    if found.stopped == "interrupt":
        raise KeyboardInterrupt
    return found
