"""The exact search from its first step to its last."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff.search.driver import Incumbent, OutOfTimeError, Settings, Status
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.method import ExactSearch

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.workload import Workload


@dataclass(frozen=True)
class Parts:
    """The parts of the method, each of which can be left out (an ablation does)."""

    fuse: bool = True
    """Whether layers may be fused at all."""
    enumerate_plans: bool = True
    """Whether plans that no restart proposed are tried too."""
    solve: bool = True
    """Whether layers on their own are solved by branch and bound."""
    polish: bool = True
    starts: int = 64
    """Mappings that each layer climbs from when it is taken on its own."""

    def fuses(self, task: Task) -> bool:
        """Whether layers are fused."""
        return self.fuse and task.fusing is not None


WHOLE = Parts()
POLISHES = 3
"""How often groups are polished, and tried again with the mappings that this finds, at most."""
FIRST_STARTS = 4
"""Mappings that each layer climbs from before groups are first sought."""


def exact(workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent) -> Iterator[Status]:
    """The generator behind ``--method exact``: the exact search on its own."""
    known = ExactSearch(Task.of(workload, machine, settings), settings, incumbent)
    yield from steps(known)


def steps(known: ExactSearch, parts: Parts = WHOLE, then: Iterator[Status] = iter(())) -> Iterator[Status]:
    """The steps of the method from the beginning, and others after them; :class:`OutOfTimeError` at their end says what
    was left out."""
    left_out: dict[str, None] = {}

    def unless_late(some: Iterator[Status]) -> Generator[Status, None, bool]:
        """Steps, but for what there is no time for and what comes after them can do without; whether they were done."""
        try:
            yield from some
        except OutOfTimeError as early:
            if not (str(early) and known.groups):
                raise
            left_out[str(early)] = None
            return False
        return True

    def if_it_gains(some: Iterator[Status]) -> Generator[Status, None, bool]:
        """Steps, but for those that are not done since those before hardly gained; whether they were done."""

        def checked() -> Iterator[Status]:
            known.settings.check_gain(known.incumbent)
            yield from some

        return (yield from unless_late(checked()))

    plan = parts.fuses(known.task) and parts.enumerate_plans
    known.teach()
    yield from known.map(parts.starts if known.taught else min(FIRST_STARTS, parts.starts), polished=True)
    if known.incumbent.starts:
        yield from known.resume(known.incumbent.starts)
    if plan:
        yield from unless_late(_silent(known.enumerate_plans))
        yield from known.fuse("fuse")
    if not known.taught and parts.starts > FIRST_STARTS:
        yield from if_it_gains(known.map(parts.starts, polished=True))
    if parts.solve and (known.unsettled or not known.taught):
        yield from if_it_gains(known.solve())
    if plan and not known.taught:
        yield from if_it_gains(known.fuse("fuse", hopeful=True))
    if plan:
        yield from if_it_gains(known.refine())
    for _ in range(POLISHES if parts.polish else 0):
        in_time = yield from if_it_gains(known.polish())
        before = known.schedule
        if not (plan and in_time):
            break
        yield from known.fuse("fuse")
        if known.schedule == before:
            break
    yield from known.keep_limits()
    yield from if_it_gains(then)
    known.whole = not left_out
    if left_out:
        raise OutOfTimeError("; ".join(left_out))


def _silent(work: Callable[[], None]) -> Iterator[Status]:
    """Work that reports nothing, as steps."""
    work()
    yield from ()
