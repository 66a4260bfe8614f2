"""Write the section `speed` of docs/results.md from the numbers in benchmarks/results/.

Run: ``python -m benchmarks.results``

Every table is made from a JSON file that one of the other commands wrote; the command stands above its table. The
other sections of the page are made by `fadiff reproduce`.
"""

import json
from pathlib import Path
from typing import Any

from fadiff.reproduce.experiment import with_section

ROOT = Path(__file__).resolve().parent.parent
NUMBERS = ROOT / "benchmarks" / "results"


def read(name: str) -> Any:  # noqa: ANN401  (any JSON value)
    """The numbers that a command wrote."""
    return json.loads((NUMBERS / f"{name}.json").read_text())


def speed() -> str:
    """Evaluator, descent, long chains."""
    cpu, gpu = read("throughput-cpu"), read("throughput-h200")
    rows = ["| device | restarts | steps/s | restart-steps/s | s to within 1% of best known | s of the whole search |"]
    rows.append("|---|---|---|---|---|---|")
    for name, numbers in (("CPU, 2 cores", cpu), (gpu["device"], gpu)):
        for key, row in numbers.items():
            if isinstance(row, dict):
                rows.append(
                    f"| {name} | {key.split()[0]} | {row['steps_per_second']:,.0f} "
                    f"| {row['restart_steps_per_second']:,.0f} | {row['seconds_to_within_1_percent']:.1f} "
                    f"| {row['seconds']:.1f} |"
                )
    few, many, rate = "32 restarts", "1024 restarts", "restart_steps_per_second"
    ratio, best = gpu[many][rate] / cpu[many][rate], gpu[many][rate] / cpu[few][rate]
    evaluator = "\n".join(
        f"| {row['hardware']} | {row['nodes']} | {row['layer_mappings_per_second_float32']:,.0f} "
        f"| {row['layer_mappings_per_second_float64']:,.0f} |"
        for row in read("evaluate")
    )
    chains = "\n".join(
        f"| {row['layers']} | {row['milliseconds_per_step']:.1f} | {row['search_seconds']:.0f} "
        f"| {row['peak_gigabytes']:.2f} |"
        for row in read("chain")
    )
    return f"""\
## Speed

The cost model, batched and compiled, on a batch of random ResNet-18 mappings (`python -m benchmarks.evaluate`):
layer-mappings a second, with every term of the breakdown, cut ends and all.

| machine | nodes | in 32 bits | in 64 bits |
|---|---:|---:|---:|
{evaluator}

What follows was measured with version 0.1. ResNet-18 on gemmini-large, the same command on both devices, programs
compiled (`python -m benchmarks.throughput`, on the CPU with `--steps 30`):

{chr(10).join(rows)}

With 1,024 restarts the H200 takes {ratio:,.0f} times as many restart-steps a second as the 2-core CPU, which did other
work at the same time, and {best:,.0f} times as many as the CPU with 32, where the CPU is at its best. A whole search
with the default of 32 restarts gains little, since most of it is not the descent. On both devices 32 restarts came
first, so their last two columns include compiling or loading the rest of the search.

Chains of equal 3x3 convolutions (`python -m benchmarks.chain --layers 250 1000`): a step of the descent with 16
restarts, the whole search without it, and peak memory. Equal layers share their mappings, and 250 layers came first and
compiled programs, so this is no measure of a network of 1,000 different layers.

| layers | ms a step | s of the search | GB |
|---|---|---|---|
{chains}
"""


def main() -> None:
    """Put the section into the page."""
    page = ROOT / "docs" / "results.md"
    page.write_text(with_section(page.read_text(), "speed", speed()))


if __name__ == "__main__":
    main()
