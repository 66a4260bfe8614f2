"""How many cells a minute a sweep does, against single runs of the command.

Run: ``python -m benchmarks.sweep [--machines 12] [--network resnet18] [--singles 3] [--json FILE]``

One network on Gemminis with scratchpads of so many sizes, by one `fadiff sweep` with all cores. Some of the same cells
are then done one at a time: by `fadiff optimize`, which proves a bound in what is left of its time, and by the search
alone in a process of its own, which is what a cell of the sweep is.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fadiff.hardware import machine_to_json
from fadiff.hardware.variants import read_variant

BASE, KEY = "gemmini-large", "scratchpad.bytes"
SMALLEST, LARGEST = 64, 1024
"""KB."""
SEARCH = "import sys, fadiff; fadiff.optimize(sys.argv[1], sys.argv[2])"


def timed(*command: object) -> NDArray[np.float64]:
    """Seconds that a command takes in processes of its own, by the clock and of all cores together."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return np.array([time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime])


def measure(network: str, machines: int, singles: int) -> dict[str, float]:
    """Cells a minute of a sweep, of the command, and of the search alone, and how long a cell keeps a core busy."""
    sizes = [f"{kb} KB" for kb in np.linspace(SMALLEST, LARGEST, machines).round().astype(int)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        grid = {"base": BASE, "set": {KEY: sizes}}
        (folder / "plan.json").write_text(json.dumps({"networks": [network], "machines": [grid]}))
        swept = timed("-m", "fadiff_command", "sweep", folder / "plan.json", "-o", folder / "out")
        chosen = [sizes[i] for i in np.linspace(0, machines - 1, singles + 2).round().astype(int)[1:-1]]
        seconds = {"sweep": [swept / machines], "fadiff optimize": [], "search alone": []}
        for i, size in enumerate(chosen):
            machine = folder / f"{i}.json"
            machine.write_text(json.dumps(machine_to_json(read_variant(BASE, {KEY: size}).machine)))
            command = ("-m", "fadiff_command", "optimize", network, "-H", machine, "-o", folder / "best.json")
            seconds["fadiff optimize"].append(timed(*command))
            seconds["search alone"].append(timed("-c", SEARCH, network, machine))
    found: dict[str, float] = {"cores": len(os.sched_getaffinity(0)), "machines": machines}
    clock, core = (swept / machines).tolist()
    for name, of_cells in seconds.items():
        of_clock, of_core = np.mean(of_cells, axis=0).tolist()
        found[f"{name}: cells a minute"] = round(60 / of_clock, 2)
        found[f"{name}: core seconds a cell"] = round(of_core, 2)
        if name != "sweep":
            found[f"sweep over {name}: cells a minute"] = round(of_clock / clock, 2)
            found[f"sweep over {name}: cells a core second"] = round(of_core / core, 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=12)
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--singles", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.network, arguments.machines, arguments.singles)
    print(json.dumps(found, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
