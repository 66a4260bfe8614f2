"""What a report costs: CPU seconds of a network whose layers are all different, and of any schedule files.

Run: ``python -m benchmarks.report [--layers 385] [--hardware gemmini-large] [FILE ...]``

The network is a chain of 3x3 and 1x1 convolutions by turns, each with one channel more than the one before, as the
greedy method schedules it: nothing in it can be told once for several layers. The last column is how many mappings were
priced.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from fadiff.cli.report import write_report
from fadiff.cost import Evaluation, evaluate, load_schedule
from fadiff.hardware import load_machine
from fadiff.reproduce.deep import different
from fadiff.search.exact import climb
from fadiff.search.explain import climbs
from fadiff.search.greedy import greedy


def measure(evaluation: Evaluation, folder: Path) -> tuple[float, int, int]:
    """CPU seconds of a page, its bytes, and mappings priced to say why and what if (the greedy rival's not counted)."""
    priced: list[int] = []

    def counted(*given: object, **how: object) -> climb.Mapped:
        found = climb.price(*given, **how)  # pyright: ignore[reportArgumentType]
        priced.append(found.price.size)
        return found

    began = time.process_time()
    with patch.object(climbs, "price", counted):
        size_bytes = write_report(folder / "page.html", evaluation)
    return time.process_time() - began, size_bytes, sum(priced)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=385)
    parser.add_argument("--hardware", default="gemmini-large")
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()
    chain = evaluate(greedy(different(arguments.layers), load_machine(arguments.hardware)))
    print("schedule | layers | CPU s | bytes | priced", flush=True)
    with TemporaryDirectory() as folder:
        for one in (chain, *(evaluate(load_schedule(file)) for file in arguments.files)):
            seconds, size_bytes, priced = measure(one, Path(folder))
            name, layers = one.schedule.workload.name, len(one.schedule.layers)
            print(f"{name} | {layers:,} | {seconds:.1f} | {size_bytes:,} | {priced:,}", flush=True)


if __name__ == "__main__":
    main()
