"""How far schedules are from the best there is: search, then prove, for networks and accelerators.

Run: ``python -m benchmarks.bounds [--models ...] [--machines ...] [--method exact] [--budget 60] [--csv FILE]``

Searches and proofs get the same budget each; a proof ends early where nothing more can be proven. Seconds are wall time
of one process, searches with compilation.
"""

import argparse
import csv
import time
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path

from fadiff import optimize
from fadiff.search.solver.network_bound import prove

MODELS = ("resnet18", "mobilenet_v1", "vgg16", "vgg19", "gpt3-6.7b")
MACHINES = ("gemmini-large", "gemmini-small")


@dataclass(frozen=True)
class Cell:
    """One network on one accelerator."""

    model: str
    machine: str
    edp_uj_cycles: float
    bound_edp_uj_cycles: float
    gap: float
    energy_gap: float
    latency_gap: float
    search_seconds: float
    proof_seconds: float


def run_cell(model: str, machine: str, method: str, budget_seconds: float) -> Cell:
    """Search and prove."""
    began = time.monotonic()
    best = optimize(model, machine, method=method, budget_seconds=budget_seconds).best
    searched = time.monotonic() - began
    bound = prove(best, budget_seconds)
    return Cell(
        model,
        machine,
        edp_uj_cycles=best.edp_uj_cycles,
        bound_edp_uj_cycles=bound.least.edp_uj_cycles,
        gap=bound.gap(best),
        energy_gap=best.energy_pj / bound.least.energy_pj - 1,
        latency_gap=best.cycles / bound.least.cycles - 1,
        search_seconds=round(searched, 1),
        proof_seconds=round(bound.seconds, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--machines", nargs="+", default=MACHINES)
    parser.add_argument("--method", default="exact")
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    cells: list[Cell] = []
    print("model          machine               EDP       bound      gap   energy  latency  search  proof")
    for machine, model in product(arguments.machines, arguments.models):
        cell = run_cell(model, machine, arguments.method, arguments.budget)
        cells.append(cell)
        print(
            f"{model:14} {machine:16} {cell.edp_uj_cycles:10.5g} {cell.bound_edp_uj_cycles:11.5g} {cell.gap:8.2%} "
            f"{cell.energy_gap:8.2%} {cell.latency_gap:8.2%} {cell.search_seconds:7} {cell.proof_seconds:6}",
            flush=True,
        )
        if arguments.csv:
            with arguments.csv.open("w", newline="") as file:
                writer = csv.DictWriter(file, [field.name for field in fields(Cell)])
                writer.writeheader()
                writer.writerows(map(asdict, cells))


if __name__ == "__main__":
    main()
