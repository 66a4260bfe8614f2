"""How soon there is a legal schedule of a network whose layers are all different, and how good it is.

Run: ``python -m benchmarks.first [--layers 1000] [--hardware gemmini-large] [--json FILE]``

The network is a chain of 3x3 and 1x1 convolutions by turns, each with one channel more than the one before.
"""

import argparse
import json
import time
from pathlib import Path

from fadiff.cost import evaluate
from fadiff.hardware import load_machine
from fadiff.schedule.rules import violations
from fadiff.search.greedy import growing
from fadiff.workload import Dims, Input, Layer, Workload


def chain(layers: int) -> Workload:
    """So many different convolutions on 28x28 maps, one after the other."""
    names = [f"conv{i}" for i in range(layers)]
    sizes = [Dims(C=16 + i, K=17 + i, P=28, Q=28, R=3 - i % 2 * 2, S=3 - i % 2 * 2) for i in range(layers)]
    inputs = [(Input(name),) for name in (None, *names[:-1])]
    made = (Layer(name, "mac", dims, mine) for name, dims, mine in zip(names, sizes, inputs, strict=True))
    return Workload(f"different{layers}", tuple(made))


def measure(layers: int, hardware: str) -> dict[str, float]:
    """Seconds until the coarse and the greedy schedule are there, checked and priced, and their EDP."""
    workload, machine = chain(layers), load_machine(hardware)
    found: dict[str, float] = {"layers": layers}
    began = time.perf_counter()
    for name, schedule in zip(("coarse", "greedy"), growing(workload, machine), strict=False):
        assert not violations(schedule)
        found[f"{name}_edp_uj_cycles"] = evaluate(schedule).edp_uj_cycles
        found[f"{name}_seconds"] = time.perf_counter() - began
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=1000)
    parser.add_argument("--hardware", default="gemmini-large")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.layers, arguments.hardware)
    print(json.dumps(found, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
