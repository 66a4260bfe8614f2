"""Quality of the search on a grid of networks and accelerators, against the best values known and a floor.

Run: ``python -m benchmarks.cells [--models ...] [--hardware ...] [--seeds 0 1 2] [--budget 60s] [--markdown FILE]``

Each cell is one `fadiff.optimize` call in a fresh process, so that its seconds count imports and compilation; with
`--cold` the compilation cache is empty, too. `best known` and `unfused known` are the reference values in
`data/best_known.json`, found by a plain search in minutes; the floor counts compulsory traffic only, and no legal
schedule can pass it. Networks without reference values are compared with their own best unfused schedule.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("resnet18", "mobilenet_v1", "vgg16", "vgg19", "gpt3-6.7b")
MACHINES = ("data/gemmini-large.json", "data/gemmini-small.json")


@dataclass(frozen=True)
class Cell:
    """One run."""

    model: str
    hardware: str
    seed: int
    edp_uj_cycles: float
    unfused_edp_uj_cycles: float
    fused_edges: int
    seconds: float
    stopped: str


def reference() -> dict[tuple[str, str], dict[str, float]]:
    """Best known, best known unfused, and the floor, by network and accelerator."""
    cells = json.loads((ROOT / "data" / "best_known.json").read_text())["cells"]
    return {(cell["workload"], cell["hardware"]): cell for cell in cells}


def run_cell(model: str, hardware: str, seed: int, budget: str, cold: bool) -> Cell:
    """One `fadiff optimize` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "schedule.json"
        environment = os.environ | ({"FADIFF_CACHE_DIR": folder} if cold else {})
        command = [sys.executable, "-m", "fadiff", "optimize", model, "--hardware", _machine(hardware)]
        command += ["--seed", str(seed), "--budget", budget, "-o", str(output), "--json"]
        began = time.monotonic()
        printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        seconds = time.monotonic() - began
    told = json.loads(printed.stdout)
    return Cell(
        model=model,
        hardware=Path(hardware).stem if hardware in MACHINES else f"{hardware} (built-in)",
        seed=seed,
        edp_uj_cycles=told["totals"]["edp_uj_cycles"],
        unfused_edp_uj_cycles=told["compared_with"]["unfused"]["edp_uj_cycles"],
        fused_edges=told["edges_fused"],
        seconds=seconds,
        stopped=told["stopped"],
    )


def _machine(hardware: str) -> str:
    """A file of the repository, or a built-in name."""
    return str(ROOT / hardware) if (ROOT / hardware).exists() else hardware


def table(cells: list[Cell]) -> str:
    """The runs as a Markdown table."""
    known = reference()
    lines = [
        "| network | accelerator | seed | EDP (uJ*cycles) | / best known | / unfused known | / own unfused | / floor "
        "| edges fused | s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        ref = known.get((cell.model, cell.hardware))
        ratios = [
            f"{cell.edp_uj_cycles / ref[key]:.4f}" if ref else "-"
            for key in ("edp_uj_cycles", "unfused_edp_uj_cycles", "floor_edp_uj_cycles")
        ]
        own = f"{cell.edp_uj_cycles / cell.unfused_edp_uj_cycles:.4f}"
        lines.append(
            f"| {cell.model} | {cell.hardware} | {cell.seed} | {cell.edp_uj_cycles:.6g} | {ratios[0]} | {ratios[1]} "
            f"| {own} | {ratios[2]} | {cell.fused_edges} | {cell.seconds:.1f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--hardware", nargs="+", default=MACHINES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--cold", action="store_true", help="an empty compilation cache for every run")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    cells: list[Cell] = []
    for hardware in arguments.hardware:
        for model in arguments.models:
            for seed in arguments.seeds:
                cells.append(run_cell(model, hardware, seed, arguments.budget, arguments.cold))
                print(table(cells[-1:]).splitlines()[-1], flush=True)
    if arguments.markdown:
        arguments.markdown.write_text(table(cells))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")


if __name__ == "__main__":
    main()
