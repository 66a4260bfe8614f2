"""Rows of results in a CSV file: read again, written whole, and never by two at once."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fadiff.errors import FadiffError
from fadiff.files import read_text, write_text

if TYPE_CHECKING:
    from pathlib import Path

Row = Mapping[str, object]
TextRow = dict[str, str]
"""A row as the file has it."""
LEFT_BEHIND = ".fadiff-*"
"""Files that were being written when their process was killed."""


def read_rows(path: Path, columns: Sequence[str] = (), elsewhere: str = "choose another place") -> list[TextRow]:
    """Rows of an earlier run, which have these columns; none if there was none."""
    if not path.exists():
        return []
    reader = csv.DictReader(io.StringIO(read_text(path)))
    rows = list(reader)
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    broken = next((i for i, row in enumerate(rows, 2) if None in row or None in row.values()), None)
    if missing or broken is not None:
        wrong = f"column {missing[0]!r} is missing" if missing else f"line {broken} is broken"
        raise FadiffError(f"{path}: {wrong}: delete the file to start anew, or {elsewhere}")
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write the CSV file whole: the columns of all rows, empty where a row does not have one."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: as_text(value) for name, value in row.items()} for row in rows)
    write_text(path, text.getvalue())


def as_text(value: object) -> str:
    """A value as the CSV file has it: floats with all their digits, nothing for None."""
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


@contextmanager
def alone_in(folder: Path, elsewhere: str = "choose another place") -> Generator[None]:
    """Within it nobody else works in a folder, which is made where there is none.

    The folder itself is locked, by the system: the lock ends with the process, however that ends.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise FadiffError(f"{folder}: no folder can be made there ({error.strerror}): {elsewhere}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FadiffError(f"{folder}: another run works in this folder: wait for its end, or {elsewhere}") from None
        if not os.access(folder, os.W_OK):
            raise FadiffError(f"{folder}: nothing may be written there: {elsewhere}")
        for path in folder.rglob(LEFT_BEHIND):
            path.unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)
