"""Layers of the zoo on their own, on every built-in accelerator: how far their schedules can be from the best there is.

Run: ``python -m benchmarks.layers [--count 8] [--machines ...] [--budget 60s] [--jobs 1] [--csv FILE]``, and
``python -m benchmarks.layers --table FILE`` for what such a file says of each accelerator.

Of all different layers of the zoo some are drawn for each accelerator, by a seed of its name, and each is a network of
one layer for the command that a user gives, in a process of its own.
"""

import argparse
import csv
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from fadiff import Input, Layer, Workload, load_model, save_workload
from fadiff.hardware import builtin_machines
from fadiff.workload.zoo import zoo_names

from .catalog import Cell, run_cells, write_cells

ASKED = 0.005
"""The gap that a single layer should have at most."""


def different_layers() -> list[tuple[str, Layer]]:
    """Every different layer with multiplications, with the name of a network that has it."""
    found: dict[object, tuple[str, Layer]] = {}
    for name in zoo_names():
        for layer in load_model(name).layers:
            if layer.is_mac:
                found.setdefault((layer.dims, layer.stride, layer.dilation), (name, layer))
    return list(found.values())


def as_network(network: str, layer: Layer) -> Workload:
    """The layer alone, with its input from outside."""
    alone = Layer(layer.name, "mac", layer.dims, (Input(None),), layer.stride, layer.dilation)
    return Workload(f"{network}_{layer.name}", (alone,))


def table(rows: Sequence[dict[str, str]]) -> str:
    """By accelerator: how many layers, how many of them near enough to the best, and the largest gap."""
    lines = [f"| accelerator | layers | gap at most {ASKED:.1%} | median | largest |", "|---|---:|---:|---:|---:|"]
    for machine in dict.fromkeys(row["machine"] for row in rows):
        gaps = sorted(float(row["gap"] or "inf") for row in rows if row["machine"] == machine)
        near = sum(gap <= ASKED for gap in gaps)
        lines.append(f"| {machine} | {len(gaps)} | {near} | {gaps[len(gaps) // 2]:.2%} | {gaps[-1]:.2%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--machines", nargs="+", default=builtin_machines())
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--table", type=Path, metavar="FILE", help="only print what a finished run says")
    arguments = parser.parse_args()
    if arguments.table:
        with arguments.table.open() as file:
            print(table(list(csv.DictReader(file))))
        return
    layers = different_layers()
    with tempfile.TemporaryDirectory() as folder:
        wanted: list[tuple[str, str]] = []
        for machine in arguments.machines:
            for network, layer in Random(machine).sample(layers, arguments.count):
                workload = as_network(network, layer)
                file = Path(folder) / f"{workload.name}.yaml"
                save_workload(file, workload)
                wanted.append((str(file), machine))
        cells: list[Cell] = []
        for cell in run_cells(wanted, arguments.budget, arguments.jobs, search_only=True):
            cells.append(cell._replace(model=Path(cell.model).stem))
            print(*cells[-1], flush=True)
            if arguments.csv:
                write_cells(arguments.csv, cells)
    sys.exit(any(cell.failed for cell in cells))


if __name__ == "__main__":
    main()
