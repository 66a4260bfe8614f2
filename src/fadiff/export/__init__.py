"""Schedules for other tools, and mappings from them: layer by layer, with a word on all that cannot be carried over.

>>> from fadiff import greedy, load_machine, load_model
>>> schedule = greedy(load_model("resnet18"), load_machine("gemmini-small"))
>>> exported = export(schedule, "timeloop")
>>> sorted(path for path in exported.files if "layers/conv1" in path)
['layers/conv1/mapping.yaml', 'layers/conv1/problem.yaml']
"""

from collections.abc import Callable

from fadiff.errors import FadiffError
from fadiff.export.exported import Exported, Remark
from fadiff.export.timeloop import to_timeloop
from fadiff.export.timeloop_mappings import read_mappings
from fadiff.export.zigzag import to_zigzag
from fadiff.schedule import Schedule

EXPORTERS: dict[str, Callable[[Schedule], Exported]] = {"timeloop": to_timeloop, "zigzag": to_zigzag}
"""By the name of the tool: a legal schedule to its files."""

__all__ = ["EXPORTERS", "Exported", "Remark", "export", "read_mappings"]


def export(schedule: Schedule, to: str) -> Exported:
    """A legal schedule in the files of another tool."""
    if to not in EXPORTERS:
        raise FadiffError(f"{to!r} is no tool that schedules are written for: use one of {', '.join(EXPORTERS)}")
    return EXPORTERS[to](schedule)
