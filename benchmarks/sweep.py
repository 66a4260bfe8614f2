"""How many cells a minute a sweep does, against single runs of the command.

Run: ``python -m benchmarks.sweep [--machines 12] [--network resnet18] [--singles 3] [--json FILE]``

One network on Gemminis with scratchpads of so many sizes, by one `fadiff sweep` with all cores. Some of the same cells
are then done one at a time: by `fadiff optimize`, which proves a bound in what is left of its time, and by the search
alone in a process of its own, which is what a cell of the sweep is.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fadiff.hardware import machine_to_json
from fadiff.hardware.variants import read_variant

BASE, KEY = "gemmini-large", "scratchpad.bytes"
SMALLEST, LARGEST = 64, 1024
"""KB."""
SEARCH = "import sys, fadiff; fadiff.optimize(sys.argv[1], sys.argv[2])"


def timed(*command: object) -> float:
    """Seconds that a command takes in a process of its own."""
    began = time.monotonic()
    subprocess.run([sys.executable, *map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def measure(network: str, machines: int, singles: int) -> dict[str, float]:
    """Cells a minute of a sweep, of the command, and of the search alone."""
    sizes = [f"{kb} KB" for kb in np.linspace(SMALLEST, LARGEST, machines).round().astype(int)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        grid = {"base": BASE, "set": {KEY: sizes}}
        (folder / "plan.json").write_text(json.dumps({"networks": [network], "machines": [grid]}))
        swept = timed("-m", "fadiff_command", "sweep", folder / "plan.json", "-o", folder / "out")
        chosen = [sizes[i] for i in np.linspace(0, machines - 1, singles + 2).round().astype(int)[1:-1]]
        alone, searched = list[float](), list[float]()
        for i, size in enumerate(chosen):
            machine = folder / f"{i}.json"
            machine.write_text(json.dumps(machine_to_json(read_variant(BASE, {KEY: size}).machine)))
            alone.append(timed("-m", "fadiff_command", "optimize", network, "-H", machine, "-o", folder / "best.json"))
            searched.append(timed("-c", SEARCH, network, machine))
    rates = {
        "sweep": 60 * machines / swept,
        "fadiff optimize": 60 / float(np.mean(alone)),
        "search alone": 60 / float(np.mean(searched)),
    }
    return {
        "cores": len(os.sched_getaffinity(0)),
        "machines": machines,
        **{f"{name}: cells a minute": round(rate, 2) for name, rate in rates.items()},
        **{
            f"sweep over {name}": round(rates["sweep"] / rates[name], 2) for name in ("fadiff optimize", "search alone")
        },
    }


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
