"""How many cells a minute a sweep does, against single runs of the command.

Run: ``python -m benchmarks.sweep [--machines 200] [--network resnet18] [--singles 3] [--alone 6] [--json FILE]``

One network on Gemminis with scratchpads and accumulators of so many sizes, by one `fadiff sweep` with all cores. Some
of the same cells are then done one at a time: by `fadiff optimize`, which proves a bound in what is left of its time,
and by the search alone in a process of its own, which is what a cell of the sweep is. Of the latter EDPs are compared.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fadiff import load_schedule
from fadiff.cost import evaluate
from fadiff.hardware import machine_to_json
from fadiff.hardware.variants import read_variant

BASE = "gemmini-large"
SCRATCHPAD, ACCUMULATOR = "l2", "l1"
ACCUMULATORS_KB = (32, 64, 96, 128)
SEARCH = (
    "import sys, fadiff; from fadiff.search.optimize import parse_duration; "
    "found = fadiff.optimize(*sys.argv[1:3], budget_seconds=parse_duration(sys.argv[4])); "
    "fadiff.save_schedule(sys.argv[3], found.schedule)"
)


def timed(*command: object) -> NDArray[np.float64]:
    """Seconds that a command takes in processes of its own, by the clock and of all cores together."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return np.array([time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime])


def sample(count: int, of: int) -> list[int]:
    """So many cells, evenly spread."""
    return np.linspace(0, of - 1, count + 2).round().astype(int)[1:-1].tolist()


def measure(network: str, sizes_kb: list[int], singles: int, alone: int, budget: str) -> dict[str, object]:
    """Cells a minute of a sweep, of the command, and of the search alone, how long a cell keeps a core busy, and what
    is found."""
    cells = [{SCRATCHPAD: f"{a} KB", ACCUMULATOR: f"{b} KB"} for a, b in product(sizes_kb, ACCUMULATORS_KB)]
    grid = {key: list(dict.fromkeys(cell[key] for cell in cells)) for key in cells[0]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = {"networks": [network], "machines": [{"base": BASE, "set": grid}], "budget": budget}
        (folder / "plan.json").write_text(json.dumps(plan))
        swept = timed("-m", "fadiff_command", "sweep", folder / "plan.json", "-o", folder / "out") / len(cells)
        with (folder / "out" / "sweep.csv").open() as file:
            swept_edp = [float(row["edp_uj_cycles"]) for row in csv.DictReader(file)]

        def machine_of(i: int) -> Path:
            path = folder / f"{i}.json"
            path.write_text(json.dumps(machine_to_json(read_variant(BASE, cells[i]).machine)))
            return path

        best = folder / "best.json"
        command = ("-m", "fadiff_command", "optimize", network, "-o", best, "--budget", budget, "-H")
        seconds = {"sweep": [swept], "search alone": list[NDArray[np.float64]]()}
        seconds["fadiff optimize"] = [timed(*command, machine_of(i)) for i in sample(singles, len(cells))]
        ratios: dict[str, float] = {}
        for i in sample(alone, len(cells)):
            seconds["search alone"].append(timed("-c", SEARCH, network, machine_of(i), best, budget))
            found = evaluate(load_schedule(best)).edp_uj_cycles
            ratios[" ".join(cells[i].values())] = round(swept_edp[i] / found, 5)
    found: dict[str, object] = {"cores": len(os.sched_getaffinity(0)), "machines": len(cells), "network": network}
    for name, of_cells in ((name, each) for name, each in seconds.items() if each):
        of_clock, of_core = np.mean(of_cells, axis=0).tolist()
        found[f"{name}: cells a minute"] = round(60 / of_clock, 2)
        found[f"{name}: core seconds a cell"] = round(of_core, 2)
        if name != "sweep":
            found[f"sweep over {name}: cells a minute"] = round(of_clock / float(swept[0]), 2)
            found[f"sweep over {name}: cells a core second"] = round(of_core / float(swept[1]), 2)
    if ratios:
        told = np.array(list(ratios.values()))
        spread = {"mean": told.mean(), "least": told.min(), "median": np.median(told), "most": told.max()}
        found["EDP of the sweep over search alone"] = {key: round(float(value), 5) for key, value in spread.items()}
        found["of each"] = ratios
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=24, help="a multiple of 4")
    parser.add_argument("--smallest", type=int, default=64, help="of the scratchpads, in KB")
    parser.add_argument("--largest", type=int, default=1024)
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--singles", type=int, default=3)
    parser.add_argument("--alone", type=int, default=6)
    parser.add_argument("--budget", default="60s", help="of a cell; more where other work shares the cores")
    parser.add_argument("--json", type=Path)
    told = parser.parse_args()
    count = told.machines // len(ACCUMULATORS_KB)
    sizes_kb = np.linspace(told.smallest, told.largest, count).round().astype(int).tolist()
    found = measure(told.network, sizes_kb, told.singles, told.alone, told.budget)
    print(json.dumps(found, indent=1))
    if told.json:
        told.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
