"""What each part of the method buys: the same search with one part left out or changed.

Run: ``python -m benchmarks.ablation [--cells resnet18/gemmini-large ...] [--only NAME ...] [--markdown FILE]``

*whole method* rows change the search as users run it. *descent alone* rows take away everything that could make up for
a bad descent (the enumerated groups and all random starts), so that what is left stands on the proposals of the
restarts: their mappings, their sigmas and their trip counts. Each row is the EDP over that of the whole method on the
same cell and seed, and the share of restarts whose last proposal kept every rule as it stood.
"""

import argparse
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fadiff.hardware import load_hardware
from fadiff.search import gradient
from fadiff.search.compile_cache import keep_compiled_programs
from fadiff.search.driver import Settings, search
from fadiff.search.joint import JointOptions, joint
from fadiff.workload import load_model

CELLS = ("resnet18/gemmini-large", "mobilenet_v1/gemmini-small", "bert-base/gemmini-large")
WHOLE = JointOptions()
DESCENT = gradient.DescentOptions()
ALONE = JointOptions(enumerate_plans=False, starts=2)


def _descent(**changes: object) -> JointOptions:
    return replace(ALONE, descent=replace(DESCENT, **changes))


VARIANTS: dict[str, JointOptions] = {
    "whole method": WHOLE,
    "whole method, no descent": replace(WHOLE, descent=None),
    "whole method, groups from sigma only": replace(WHOLE, enumerate_plans=False),
    "whole method, no fusion": replace(WHOLE, fuse=False, descent=replace(DESCENT, fuse=False)),
    "whole method, no polish": replace(WHOLE, polish=False),
    "neither descent nor enumerated groups": replace(ALONE, descent=None),
    "descent alone": ALONE,
    "descent alone, no polish": replace(ALONE, polish=False),
    "descent alone, divisors per slot (paper)": _descent(choice="divisors"),
    "descent alone, linear distance (paper)": _descent(distance="linear"),
    "descent alone, EDP instead of its log (paper)": _descent(log_objective=False),
    "descent alone, squared penalties (paper)": _descent(hinge="squared"),
    "descent alone, no straight-through": _descent(straight_through=False),
    "descent alone, exact gradient of the model": _descent(gradient="exact"),
    "descent alone, best order instead of a soft one": _descent(orders="best"),
    "descent alone, no Gumbel noise": _descent(noise_start=0.0),
    "descent alone, no annealing": _descent(tau_start=0.5, tau_end=0.5),
    "descent alone, lambda fixed": _descent(lambda_start=3.0, lambda_end=3.0),
    "descent alone, no capacity penalty": _descent(p_mem=0.0),
    "descent alone, no alignment penalty": _descent(p_align=0.0),
    "descent alone, no spatial penalty": _descent(p_spatial=0.0),
    "descent alone, no validity penalty": _descent(p_valid=0.0),
}


@dataclass(frozen=True)
class Row:
    """One variant on one cell."""

    variant: str
    cell: str
    edp_uj_cycles: float
    legal_share: float | None
    seconds: float


def run(variant: str, cell: str, seed: int) -> Row:
    """One search to its end."""
    model, hardware = cell.split("/")
    found = search(
        load_model(model), load_hardware(hardware), partial(joint, options=VARIANTS[variant]), Settings(seed=seed)
    )
    shares = [point.legal_share for point in found.trace if point.legal_share is not None]
    return Row(variant, cell, found.best.edp_uj_cycles, shares[-1] if shares else None, found.seconds)


def table(rows: list[Row]) -> str:
    """EDP over the whole method's, by variant and cell, as Markdown."""
    cells = list(dict.fromkeys(row.cell for row in rows))
    base = {row.cell: row.edp_uj_cycles for row in rows if row.variant == "whole method"}
    lines = ["| variant | " + " | ".join(cells) + " |", "|---|" + "---|" * len(cells)]
    for variant in dict.fromkeys(row.variant for row in rows):
        told: list[str] = []
        for cell in cells:
            row = next(row for row in rows if (row.variant, row.cell) == (variant, cell))
            legal = "" if row.legal_share is None else f", {row.legal_share:.0%} legal"
            told.append(f"{row.edp_uj_cycles / base[cell]:.4f}{legal}")
        lines.append(f"| {variant} | " + " | ".join(told) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=CELLS)
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), help="variants (the whole method always runs)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    keep_compiled_programs()
    rows: list[Row] = []
    for variant in dict.fromkeys(["whole method", *arguments.only]):
        for cell in arguments.cells:
            rows.append(run(variant, cell, arguments.seed))
            print(rows[-1], flush=True)
    print(table(rows))
    if arguments.markdown:
        arguments.markdown.write_text(table(rows))


if __name__ == "__main__":
    main()
