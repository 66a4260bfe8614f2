"""How the search grows with the number of layers: chains of equal 3x3 convolutions.

Run: ``python -m benchmarks.chain [--layers 125 250 500 1000] [--json FILE]``

Each length runs in a process of its own, so that its peak memory is its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import jax

from fadiff.hardware import load_machine
from fadiff.search import gradient
from fadiff.search.driver import Settings, search
from fadiff.search.exact.steps import exact
from fadiff.workload import Dims, Input, Layer, Workload

STEPS = 20


def chain(layers: int) -> Workload:
    """A chain of 3x3 convolutions of 64 channels on 28x28 maps."""
    dims = Dims(K=64, C=64, P=28, Q=28, R=3, S=3)
    names = [f"conv{i}" for i in range(layers)]
    inputs = [(Input(name),) for name in (None, *names[:-1])]
    return Workload(f"chain{layers}", tuple(Layer(n, "mac", dims, i) for n, i in zip(names, inputs, strict=True)))


def measure(layers: int) -> dict[str, float]:
    """Time of a step of the descent, time of a search without it, and peak memory."""
    workload, machine = chain(layers), load_machine("gemmini-large")
    settings = gradient.DescentSettings(restarts=16)
    problem = gradient.pack_problem(workload, machine, settings)
    state = jax.block_until_ready(gradient.step(problem, settings, gradient.init(problem, settings, 0), 1))
    began = time.perf_counter()
    jax.block_until_ready(gradient.step(problem, settings, state, STEPS))
    seconds = time.perf_counter() - began
    found = search(workload, machine, exact, Settings())
    return {
        "layers": layers,
        "milliseconds_per_step": 1000 * seconds / STEPS,
        "search_seconds": found.seconds,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=[125, 250, 500, 1000])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if len(arguments.layers) == 1:
        print(json.dumps(measure(arguments.layers[0])))
        return
    rows = []
    for layers in arguments.layers:
        command = [sys.executable, "-m", "benchmarks.chain", "--layers", str(layers)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(printed.splitlines()[-1]))
        print(rows[-1], flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
