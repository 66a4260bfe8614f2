"""Every network of the zoo on every built-in accelerator: searched, proven, executed and reported.

Run: ``python -m benchmarks.catalog [--models ...] [--machines ...] [--budget 60s] [--jobs 1] [--csv FILE]``, and
``python -m benchmarks.catalog --table FILE`` for the gaps in such a file as a table. With ``--above 0.01`` cells that
are proven to 1% in the file of an earlier run are kept, and only the others are measured.

Each cell is the three commands a user gives, each in a fresh process that finds nothing compiled but what proofs need
(compiled once for an installation); with `--search-only` the first of them alone. A cell that fails is a row with what
it printed last. What is left of the budget after the search proves the gap. Cells run `--jobs` at a time, each with its
own share of the cores.
"""

import argparse
import csv
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

from fadiff.hardware import builtin_machines
from fadiff.sweeps.local import shares
from fadiff.workload.zoo import zoo_names


class Cell(NamedTuple):
    """One network on one accelerator."""

    model: str
    machine: str
    edp_uj_cycles: float = 0.0
    bound_edp_uj_cycles: float | None = None
    gap: float | None = None
    """How far the EDP is above the best there is, at most; None if nothing was proven."""
    unfused_edp_uj_cycles: float = 0.0
    edges_fused: int = 0
    stopped: str = ""
    search_seconds: float = 0.0
    verify_seconds: float = 0.0
    report_seconds: float = 0.0
    failed: str = ""
    """What went wrong, or nothing."""


def run_cell(model: str, machine: str, budget: str, cores: list[int], search_only: bool) -> Cell:
    """Search, verify and report, on some of the cores."""
    verified = reported = 0.0
    with tempfile.TemporaryDirectory() as folder:
        schedule, page = str(Path(folder) / "schedule.json"), str(Path(folder) / "page.html")
        try:
            printed, _ = _fadiff(cores, "optimize", model, "-H", machine, "-b", budget, "-o", schedule, "--json")
            told = json.loads(printed)
            if not search_only:
                _, verified = _fadiff(cores, "verify", schedule)
                _, reported = _fadiff(cores, "report", schedule, "-o", page)
        except subprocess.CalledProcessError as error:
            lines = (error.stderr or error.stdout or "no word").strip().splitlines()
            return Cell(model, machine, failed=f"{error.cmd[3]}: {lines[-1]}")
    return Cell(
        model,
        machine,
        edp_uj_cycles=told["totals"]["edp_uj_cycles"],
        bound_edp_uj_cycles=told["bound"] and told["bound"]["edp_uj_cycles"],
        gap=told["gap"],
        unfused_edp_uj_cycles=told["compared_with"]["unfused"]["edp_uj_cycles"],
        edges_fused=told["edges_fused"],
        stopped=told["stopped"],
        search_seconds=round(told["seconds"], 1),
        verify_seconds=round(verified, 1),
        report_seconds=round(reported, 1),
    )


def _fadiff(cores: list[int], *words: str) -> tuple[str, float]:
    """What a command prints, and how long it takes."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "fadiff_command", *words],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"FADIFF_CACHE_DIR": ""},
        preexec_fn=lambda: os.sched_setaffinity(0, cores) if cores else None,
    )
    return done.stdout, time.monotonic() - began


def run_cells(wanted: Sequence[tuple[str, str]], budget: str, jobs: int, *, search_only: bool) -> Iterator[Cell]:
    """All cells, so many at a time, each with its own share of the cores."""
    free: queue.Queue[list[int]] = queue.Queue()
    for share in shares(jobs):
        free.put(share)

    def run(pair: tuple[str, str]) -> Cell:
        share = free.get()
        try:
            return run_cell(*pair, budget, share, search_only)
        finally:
            free.put(share)

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(run, wanted)


def write_cells(path: Path, cells: Sequence[Cell]) -> None:
    """The cells as a table."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Cell._fields)
        writer.writerows(cells)


def read_cells(path: Path, above: float) -> dict[tuple[str, str], Cell]:
    """Cells of an earlier run whose gap is no larger, as they are written there."""
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if float(row["gap"] or "inf") <= above]
    return {(row["model"], row["machine"]): Cell(**row) for row in rows}


def table(rows: list[dict[str, str]]) -> str:
    """Gaps by network and accelerator; a dash where nothing was proven, a star where the budget ended the search."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    cells = {(row["machine"], row["model"]): row for row in rows}
    lines = [["accelerator", *models], ["---", *["---:"] * len(models)]]
    for machine in dict.fromkeys(row["machine"] for row in rows):
        mine = [cells[machine, model] for model in models]
        gaps = [f"{float(row['gap']):.1%}" if row["gap"] else "-" for row in mine]
        ended = ["*" if row["stopped"] == "budget" else "" for row in mine]
        lines.append([machine, *map("".join, zip(gaps, ended, strict=True))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=zoo_names())
    parser.add_argument("--machines", nargs="+", default=builtin_machines())
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--search-only", action="store_true", help="without executing and reporting the schedules")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--above", type=float, metavar="GAP", help="only cells that the CSV file has no smaller gap of")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only print the gaps of a finished run")
    arguments = parser.parse_args()
    if arguments.table:
        with arguments.table.open() as file:
            print(table(list(csv.DictReader(file))))
        return
    every = list(product(arguments.models, arguments.machines))
    kept = {} if arguments.above is None else read_cells(arguments.csv, arguments.above)
    wanted = [pair for pair in every if pair not in kept]
    cells: list[Cell] = []
    for cell in run_cells(wanted, arguments.budget, arguments.jobs, search_only=arguments.search_only):
        cells.append(cell)
        print(*cell, flush=True)
        if arguments.csv:
            known = kept | {(one.model, one.machine): one for one in cells}
            write_cells(arguments.csv, [known[pair] for pair in every if pair in known])
    sys.exit(f"{sum(bool(cell.failed) for cell in cells)} cells failed" if any(c.failed for c in cells) else 0)


if __name__ == "__main__":
    main()
