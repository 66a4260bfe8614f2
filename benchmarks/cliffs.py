"""Sizes without small factors: the EDP of a network over one of its sizes, against a smooth trend.

Run: ``python -m benchmarks.cliffs [--series tokens ...] [--machines ...] [--budget 30s] [--csv FILE]``

Three series: a block of BERT with 190 to 210 tokens, a product whose K goes from 31,990 to 32,010, and a 3x3
convolution of 50x50 to 60x60. The trend is a parabola through the logarithms, by least squares; a cliff is a size whose
EDP is far above it.
"""

import argparse
import csv
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from fadiff import Dims, Input, Layer, Workload, load_model, optimize
from fadiff.search.optimize import parse_duration

MACHINES = ("gemmini-large", "gemmini-small", "eyeriss", "tpu-like")


def _tokens(count: int) -> Workload:
    return load_model(f"bert-base:seq={count}")


def _product(size: int) -> Workload:
    return Workload("product", (Layer("product", "mac", Dims(N=512, K=size, C=1024), (Input(None),)),))


def _image(size: int) -> Workload:
    dims = Dims(K=64, C=64, P=size, Q=size, R=3, S=3)
    return Workload("convolution", (Layer("convolution", "mac", dims, (Input(None),)),))


SERIES: dict[str, tuple[Callable[[int], Workload], range]] = {
    "tokens": (_tokens, range(190, 211)),
    "product": (_product, range(31_990, 32_011)),
    "image": (_image, range(50, 61)),
}


def measure(series: str, machine: str, budget_seconds: float) -> Iterator[dict[str, float | str]]:
    """The EDP of every size of a series."""
    build, sizes = SERIES[series]
    for size in sizes:
        found = optimize(build(size), machine, budget_seconds=budget_seconds)
        yield {
            "series": series,
            "machine": machine,
            "size": size,
            "edp_uj_cycles": found.best.edp_uj_cycles,
            "seconds": round(found.seconds, 2),
            "stopped": found.stopped,
        }


def above_trend(rows: list[dict[str, float | str]]) -> np.ndarray:
    """EDP over the trend, by size."""
    size, edp = (np.log([float(row[name]) for row in rows]) for name in ("size", "edp_uj_cycles"))
    middle = size - size.mean()
    return np.exp(edp - np.polyval(np.polyfit(middle, edp, 2), middle))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", nargs="+", choices=SERIES, default=list(SERIES))
    parser.add_argument("--machines", nargs="+", default=MACHINES)
    parser.add_argument("--budget", type=parse_duration, default=30.0)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    every: list[dict[str, float | str]] = []
    print("series   machine         worst over trend  at size  largest step  seconds a size")
    for machine in arguments.machines:
        for series in arguments.series:
            rows = list(measure(series, machine, arguments.budget))
            ratio = above_trend(rows)
            steps = np.exp(np.abs(np.diff(np.log([float(row["edp_uj_cycles"]) for row in rows]))))
            seconds = float(np.mean([float(row["seconds"]) for row in rows]))
            worst = int(ratio.argmax())
            told = f"{ratio[worst]:16.4f} {rows[worst]['size']:8} {steps.max():13.4f} {seconds:15.1f}"
            print(f"{series:8s} {machine:15s} {told}", flush=True)
            every += [row | {"over_trend": round(float(r), 5)} for row, r in zip(rows, ratio, strict=True)]
            if arguments.csv:
                with arguments.csv.open("w", newline="") as file:
                    writer = csv.DictWriter(file, fieldnames=list(every[0]))
                    writer.writeheader()
                    writer.writerows(every)


if __name__ == "__main__":
    main()
