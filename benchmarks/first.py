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
from fadiff.reproduce.deep import different
from fadiff.schedule.rules import violations
from fadiff.search.greedy import growing


def measure(layers: int, hardware: str) -> dict[str, float]:
    """Seconds until the coarse and the greedy schedule are there, checked and priced, and their EDP."""
    workload, machine = different(layers), load_machine(hardware)
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
