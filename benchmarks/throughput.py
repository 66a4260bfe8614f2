"""How fast the descent steps on this device, and how soon a whole search is within 1% of the best known EDP.

Run: ``python -m benchmarks.throughput [--model resnet18] [--restarts 1024] [--steps 200] [--json FILE]``

The same command runs on CPU and on CUDA. Steps are timed after compilation, in one compiled call; a restart-step is one
step of one restart. The search is `fadiff optimize`'s own, with the given number of restarts.
"""

import argparse
import json
import time
from pathlib import Path

import jax

from fadiff.hardware import load_machine
from fadiff.search import gradient
from fadiff.search.driver import Settings, search
from fadiff.search.joint import joint
from fadiff.workload import load_model

ROOT = Path(__file__).resolve().parent.parent


def descent(model: str, hardware: str, restarts: int, steps: int) -> dict[str, float]:
    """Compilation seconds and steps a second of the descent."""
    settings = gradient.DescentSettings(restarts=restarts)
    problem = gradient.pack_problem(load_model(model), load_machine(hardware), settings)
    state = gradient.init(problem, settings, 0)
    began = time.perf_counter()
    state = jax.block_until_ready(gradient.step(problem, settings, state, 1))
    compiled = time.perf_counter()
    jax.block_until_ready(gradient.step(problem, settings, state, steps))
    seconds = time.perf_counter() - compiled
    return {
        "compile_seconds": compiled - began,
        "steps_per_second": steps / seconds,
        "restart_steps_per_second": steps * restarts / seconds,
    }


def whole_search(model: str, hardware: str, restarts: int, known_edp: float) -> dict[str, float | None]:
    """Seconds of a whole search, and until its incumbent was within 1% of the best known EDP."""
    found = search(load_model(model), load_machine(hardware), joint, Settings(restarts=restarts))
    near = [point.seconds for point in found.trace if point.best_edp_uj_cycles <= 1.01 * known_edp]
    return {
        "seconds": found.seconds,
        "seconds_to_within_1_percent": near[0] if near else None,
        "edp_over_best_known": found.best.edp_uj_cycles / known_edp,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--hardware", default="gemmini-large", choices=["gemmini-large", "gemmini-small"])
    parser.add_argument("--restarts", type=int, nargs="+", default=[32, 1024])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    machine = str(ROOT / "data" / f"{arguments.hardware}.json")
    cells = json.loads((ROOT / "data" / "best_known.json").read_text())["cells"]
    key = (arguments.model, arguments.hardware)
    known = next(cell["edp_uj_cycles"] for cell in cells if (cell["workload"], cell["hardware"]) == key)
    result: dict[str, object] = {"device": str(jax.devices()[0].device_kind), "model": arguments.model}
    for restarts in arguments.restarts:
        steps = descent(arguments.model, machine, restarts, arguments.steps)
        result[f"{restarts} restarts"] = steps | whole_search(arguments.model, machine, restarts, known)
        print(restarts, result[f"{restarts} restarts"], flush=True)
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
