"""The priced schedule files that tests read: 40 of edition 2 on seven kinds of machines, 36 of edition 1."""

from pathlib import Path

from fadiff.schedule import Schedule
from fadiff.schedule.file import read_schedule

SECOND = Path(__file__).parent / "schedules2"
FIRST = Path(__file__).parent / "data" / "schedules"
SECOND_FILES = sorted(SECOND.glob("*.json"))
FIRST_FILES = sorted(FIRST.rglob("*.json"))
FILES = [*SECOND_FILES, *FIRST_FILES]


def second(name: str) -> Schedule:
    """A schedule of edition 2."""
    return read_schedule(SECOND / f"{name}.json")[0]


def first(name: str) -> Schedule:
    """A small schedule of edition 1, upgraded."""
    return read_schedule(FIRST / "small" / f"{name}.json")[0]
