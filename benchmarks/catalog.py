"""Every network of the zoo on every built-in accelerator: searched, executed and reported.

Run: ``python -m benchmarks.catalog [--models ...] [--machines ...] [--budget 60s] [--jobs 1] [--csv FILE]``

Each cell is the three commands a user gives, each in a fresh process; a cell that fails is a row with what it printed
last. Cells run `--jobs` at a time: seconds can be compared only with one job on a quiet machine.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path

from fadiff.hardware import builtin_machines
from fadiff.workload.zoo import zoo_names


@dataclass(frozen=True)
class Cell:
    """One network on one accelerator."""

    model: str
    machine: str
    edp_uj_cycles: float = 0.0
    unfused_edp_uj_cycles: float = 0.0
    edges_fused: int = 0
    stopped: str = ""
    search_seconds: float = 0.0
    verify_seconds: float = 0.0
    report_seconds: float = 0.0
    failed: str = ""
    """What went wrong, or nothing."""


def run_cell(model: str, machine: str, budget: str) -> Cell:
    """Search, verify and report."""
    with tempfile.TemporaryDirectory() as folder:
        schedule, page = str(Path(folder) / "schedule.json"), str(Path(folder) / "page.html")
        try:
            printed, searched = _fadiff("optimize", model, "-H", machine, "-b", budget, "-o", schedule, "--json")
            told = json.loads(printed)
            _, verified = _fadiff("verify", schedule)
            _, reported = _fadiff("report", schedule, "-o", page)
        except subprocess.CalledProcessError as error:
            lines = (error.stderr or error.stdout or "no word").strip().splitlines()
            return Cell(model, machine, failed=f"{error.cmd[3]}: {lines[-1]}")
    return Cell(
        model,
        machine,
        edp_uj_cycles=told["totals"]["edp_uj_cycles"],
        unfused_edp_uj_cycles=told["compared_with"]["unfused"]["edp_uj_cycles"],
        edges_fused=told["edges_fused"],
        stopped=told["stopped"],
        search_seconds=round(searched, 1),
        verify_seconds=round(verified, 1),
        report_seconds=round(reported, 1),
    )


def _fadiff(*words: str) -> tuple[str, float]:
    """What a command prints, and how long it takes."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "fadiff", *words], check=True, capture_output=True, text=True)
    return done.stdout, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=zoo_names())
    parser.add_argument("--machines", nargs="+", default=builtin_machines())
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    wanted = list(product(arguments.models, arguments.machines))
    cells: list[Cell] = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for cell in pool.map(lambda pair: run_cell(*pair, arguments.budget), wanted):
            cells.append(cell)
            print(*asdict(cell).values(), flush=True)
            if arguments.csv:
                with arguments.csv.open("w", newline="") as file:
                    writer = csv.DictWriter(file, [field.name for field in fields(Cell)])
                    writer.writeheader()
                    writer.writerows(map(asdict, cells))
    sys.exit(f"{sum(bool(cell.failed) for cell in cells)} cells failed" if any(c.failed for c in cells) else 0)


if __name__ == "__main__":
    main()
