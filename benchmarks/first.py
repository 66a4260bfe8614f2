"""How soon there is a legal schedule of a network whose layers are all different, how good it is, and what a search and
a proof make of it in their time.

Run: ``python -m benchmarks.first [--layers 1000] [--hardware gemmini-large] [--budget 120s] [--json FILE]``

The network is a chain of 3x3 and 1x1 convolutions by turns, each with one channel more than the one before. The budget
is kept by the time of cores.
"""

import argparse
import json
import resource
import time
from pathlib import Path

from fadiff import optimize
from fadiff.cost import evaluate
from fadiff.hardware import load_machine
from fadiff.reproduce.deep import different
from fadiff.schedule.rules import violations
from fadiff.search import clock
from fadiff.search.greedy import growing
from fadiff.search.optimize import parse_duration
from fadiff.search.solver.network_bound import prove


def measure(layers: int, hardware: str, budget_seconds: float) -> dict[str, float]:
    """Seconds until the coarse and the greedy schedule are there, checked and priced, and their EDP; that of a search,
    how far it can be from the best, and peak memory."""
    workload, machine = different(layers), load_machine(hardware)
    found: dict[str, float] = {"layers": layers}
    began = time.perf_counter()
    for name, schedule in zip(("coarse", "greedy"), growing(workload, machine), strict=False):
        assert not violations(schedule)
        found[f"{name}_edp_uj_cycles"] = evaluate(schedule).edp_uj_cycles
        found[f"{name}_seconds"] = time.perf_counter() - began
    with clock.of_cores():
        result = optimize(workload, machine, budget_seconds=budget_seconds, proof_follows=True)
        proven = prove(result.best, budget_seconds - result.seconds)
    found["searched_edp_uj_cycles"] = result.best.edp_uj_cycles
    found["gap"] = proven.gap(result.best)
    found["peak_gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=1000)
    parser.add_argument("--hardware", default="gemmini-large")
    parser.add_argument("--budget", type=parse_duration, default=120.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = measure(arguments.layers, arguments.hardware, arguments.budget)
    print(json.dumps(found, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
