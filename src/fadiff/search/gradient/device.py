"""How many restarts a device runs at once, and how many are worth it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fadiff.search.gradient.problem import Problem
    from fadiff.search.gradient.settings import DescentSettings

AT_ONCE_ON_CORES = 128
"""Twice as many take twice as long on a processor's cores, and twice the memory."""
AT_ONCE = 4096
"""On an H200 a step of so many takes two to seven times as long as one of 32."""
BYTES_PER_CANDIDATE = 32
"""What a restart takes for each candidate of each table: 25 to 28 bytes, on networks of 30 to 200 layers."""
MEMORY_SHARE = 0.5
"""Of an accelerator's memory, what a descent takes at most: the search has programs of its own there."""


class Restarts(NamedTuple):
    """How many descents run."""

    usual: int
    """Where nobody says how many."""
    at_once: int
    """In one batch at most; the rest runs in further rounds."""


def restarts_on(device: Any, problem: Problem, settings: DescentSettings) -> Restarts:  # noqa: ANN401  (untyped in JAX)
    """Restarts on a device of JAX: on cores those of the settings, on an accelerator as many as its memory holds, up
    to :data:`AT_ONCE`."""
    if device.platform == "cpu":
        return Restarts(settings.restarts, AT_ONCE_ON_CORES)
    memory: dict[str, int] = device.memory_stats() or {}
    needed = BYTES_PER_CANDIDATE * sum(table.bar.size for table in problem.arrays.tables)
    room = int(MEMORY_SHARE * memory["bytes_limit"] / needed) if "bytes_limit" in memory else AT_ONCE
    at_once = max(settings.restarts, min(AT_ONCE, room))
    return Restarts(at_once, at_once)
