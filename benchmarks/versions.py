"""This checkout against another one: EDP and wall time of `fadiff optimize` on the paper's cells, in one run.

Run: ``python -m benchmarks.versions OTHER_CHECKOUT [--models resnet18 ...] [--hardware NAME ...] [--csv FILE]``

Every cell is searched by both, one after the other, with default options and seed 0, each in a process of its own with
an empty cache of compiled programs. Both run in this environment; OTHER_CHECKOUT is a folder with a `src` of its own.
Seconds are those of the search, compilation included, by the program's own clock: what a version does with the rest of
its budget, such as proving a bound, is not compared.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent.parent
MODELS = ("resnet18", "mobilenet_v1", "vgg16", "vgg19", "gpt3-6.7b")
MACHINES = ("gemmini-large", "gemmini-small")


class Found(NamedTuple):
    """What one search came to."""

    edp_uj_cycles: float
    seconds: float
    """Of the search, compilation included."""


def search(checkout: Path, model: str, hardware: str) -> Found:
    """Search with the code of a checkout, compilation included."""
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, "-c", "from fadiff.cli import main; main()", "optimize", model]
        settings = os.environ | {"PYTHONPATH": str(checkout / "src"), "FADIFF_CACHE_DIR": folder}
        done = subprocess.run(
            [*program, "--hardware", hardware, "--json"], env=settings, check=True, capture_output=True
        )
        told = json.loads(done.stdout)
        return Found(told["totals"]["edp_uj_cycles"], told["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--hardware", nargs="+", default=MACHINES)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    if not (arguments.other / "src" / "fadiff").is_dir():
        parser.error(f"{arguments.other} holds no src/fadiff: name another checkout of this project")
    rows: list[dict[str, float | str]] = []
    print("model          hardware               EDP       other    ratio      s  other  ratio")
    for hardware in arguments.hardware:
        for model in arguments.models:
            other, mine = search(arguments.other, model, hardware), search(HERE, model, hardware)
            edp, wall = mine.edp_uj_cycles / other.edp_uj_cycles, mine.seconds / other.seconds
            print(
                f"{model:14s} {hardware:14s} {mine.edp_uj_cycles:11.5e} {other.edp_uj_cycles:11.5e} {edp:8.5f} "
                f"{mine.seconds:6.1f} {other.seconds:6.1f} {wall:6.2f}",
                flush=True,
            )
            rows.append(
                {"model": model, "hardware": hardware, **mine._asdict()}
                | {f"other_{key}": value for key, value in other._asdict().items()}
            )
    if arguments.csv:
        with arguments.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
