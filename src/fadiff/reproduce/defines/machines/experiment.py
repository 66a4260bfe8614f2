"""The experiment `defines`: networks on DeFiNES' own machines, with and without fusion, priced by both models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fadiff.reproduce.defines.machines.cell import Cell, cell_rows
from fadiff.reproduce.defines.machines.compare import comparisons
from fadiff.reproduce.defines.machines.figure import draw
from fadiff.reproduce.defines.machines.page import tell
from fadiff.reproduce.defines.machines.reference import Row, read_reference
from fadiff.reproduce.defines.tables import check_rows
from fadiff.reproduce.runs import measure

if TYPE_CHECKING:
    from fadiff.reproduce.experiment import Desk

BUDGET_S, QUICK_BUDGET_S = 60.0, 15.0
QUICK_CELLS = (("meta-proto-like-df", "fsrcnn"),)


def reproduce(desk: Desk) -> str:
    """Search every cell that is not in the file yet, draw what was found, and tell it."""
    theirs = read_reference().rows
    wanted = QUICK_CELLS if desk.quick else tuple(dict.fromkeys((row.machine, row.workload) for row in theirs))
    cells = [Cell(*cell, QUICK_BUDGET_S if desk.quick else BUDGET_S) for cell in wanted]
    rows = measure(desk, cells, cell_rows, Cell._fields)
    found = comparisons(check_rows(Row, rows, desk.file(".csv").name), theirs)
    return tell(desk, found, draw(desk, found))
