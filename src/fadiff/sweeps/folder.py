"""A sweep in a folder: its table, its schedules, and how it goes on where it stopped."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fadiff.cost import save_schedule
from fadiff.files import write_bytes
from fadiff.sweeps.cell import TEXTS, Found, cell_row, search_cell, sentence
from fadiff.sweeps.lesson import forget
from fadiff.sweeps.local import Local
from fadiff.sweeps.measure import Crew, Progress, Table, measure
from fadiff.sweeps.plan import KEY, Cell, read_plan
from fadiff.sweeps.rows import Row, TextRow, alone_in

TABLE, PARQUET, SCHEDULES = "sweep.csv", "sweep.parquet", "schedules"
ELSEWHERE = "choose another folder"
TypedRow = dict[str, str | int | float | None]


def sweep(
    plan: Path | str | Mapping[str, Any],
    into: Path | str,
    crew: Crew | int = 1,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> list[TypedRow]:
    """Search every cell of a plan that is not done yet, and keep the table and the schedules in a folder.

    The rows of the plan's cells are the result. A cell that fails has a row that says why, in `error`, and is tried
    again by the next sweep. `crew` does the searches: so many processes of this computer, or a crew of
    ``fadiff.sweeps``.

    >>> import tempfile
    >>> machines = {"base": "gemmini-large", "set": {"l2": ["64 KB", "128 KB"]}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = sweep({"networks": "mobilenet_v1:size=32", "machines": machines, "methods": "greedy"}, folder)
    >>> [(row["l2"], row["edp_uj_cycles"] > 0, row["error"]) for row in rows]
    [(65536, True, ''), (131072, True, '')]
    """
    into, cells = Path(into), read_plan(plan)
    with alone_in(into, ELSEWHERE):
        (into / SCHEDULES).mkdir(exist_ok=True)

        def keep(cell: Cell, found: Found | Exception) -> Sequence[Row]:
            if isinstance(found, Exception):
                return [cell_row(cell, {}, error=sentence(found))]
            file = f"{SCHEDULES}/{cell.stem}.schedule.json"
            save_schedule(into / file, found.schedule)
            return [cell_row(cell, found.results, file)]

        crew = Local(crew) if isinstance(crew, int) else crew
        several = isinstance(crew, Local) and crew.workers > 1
        try:
            found = measure(
                Table(into / TABLE, KEY, ELSEWHERE),
                cells,
                partial(search_cell, shared=into.resolve()) if several else search_cell,
                crew,
                keep,
                settled=partial(_settled, into),
                kin=lambda cell: cell.kin,
                lesson=lambda cell: cell.lesson,
                watch=watch,
            )
        finally:
            forget(into)
        columns = dict.fromkeys(name for row in found for name in row)
        rows = [{name: _value(name, row.get(name, "")) for name in columns} for row in found]
        _write_parquet(into / PARQUET, rows)
        return rows


def _settled(into: Path, cell: Cell, rows: Sequence[TextRow]) -> bool:
    """Whether rows are those of this very cell, not of one that failed, and have their schedules."""
    return all(
        row.get("fingerprint") == cell.fingerprint
        and not row.get("error")
        and (into / row.get("schedule", "")).is_file()
        for row in rows
    )


def _value(column: str, text: str) -> str | int | float | None:
    """What a text of the table stands for: a number, where the column has some."""
    if column in TEXTS:
        return text
    if not text:
        return None
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _write_parquet(path: Path, rows: Sequence[TypedRow]) -> None:
    """The table as a Parquet file, where Polars or PyArrow is installed."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    data = io.BytesIO()
    if find_spec("polars") is not None:
        import_module("polars").DataFrame(columns, strict=False).write_parquet(data)
    elif find_spec("pyarrow") is not None:
        import_module("pyarrow.parquet").write_table(import_module("pyarrow").table(columns), data)
    else:
        return
    write_bytes(path, data.getvalue())
