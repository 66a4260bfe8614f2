"""What each part of the method buys: the same search with one part left out or changed, measured against the bound.

*whole method* rows change the search as users run it. *descent alone* rows take away everything that could make up for
a bad descent (the enumerated groups and all random starts), so that what is left stands on the proposals of the
restarts: their mappings, their sigmas and their trip counts. Searches run to their end, without a budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.hardware import load_machine
from fadiff.reproduce.bounds import proven
from fadiff.reproduce.drawing import COLOURS, canvas
from fadiff.reproduce.experiment import markdown_table
from fadiff.reproduce.runs import Row, measure
from fadiff.search import gradient
from fadiff.search.driver import Incumbent, Settings, Status, search
from fadiff.search.joint import ALONE, WITHOUT_FUSION, JointSettings, joint
from fadiff.search.programs import search_programs
from fadiff.workload import load_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fadiff.hardware import Machine
    from fadiff.reproduce.experiment import Desk
    from fadiff.workload import Workload

CELLS = ("resnet18/gemmini-large", "mobilenet_v1/gemmini-small", "gpt3-6.7b/gemmini-large", "vgg16/gemmini-small")
SEEDS = (0,)
WHOLE = JointSettings()
DESCENT = gradient.DescentSettings()


def _descent(**changes: object) -> JointSettings:
    return replace(ALONE, descent=replace(DESCENT, **changes))


def _weighing(**weights: float) -> JointSettings:
    """With other weights of the penalties of the descent."""
    return replace(ALONE, descent=DESCENT.weighing(**weights))


VARIANTS: dict[str, JointSettings] = {
    "whole method": WHOLE,
    "whole method, no descent": replace(WHOLE, descent=None),
    "whole method, groups from sigma only": replace(WHOLE, enumerate_plans=False),
    "whole method, no fusion": WITHOUT_FUSION,
    "whole method, no polish": replace(WHOLE, polish=False),
    "neither descent nor enumerated groups": replace(ALONE, descent=None),
    "descent alone": ALONE,
    "descent alone, no polish": replace(ALONE, polish=False),
    "descent alone, a number for each slot (paper)": _descent(choice="integers"),
    "descent alone, linear distance (paper)": _descent(distance="linear"),
    "descent alone, EDP instead of its log (paper)": _descent(log_objective=False),
    "descent alone, linear penalties": _descent(hinge="linear"),
    "descent alone, no straight-through": _descent(straight_through=False),
    "descent alone, gradient of the product of factors": _descent(gradient="product"),
    "descent alone, best order instead of a drawn one": _descent(orders="best"),
    "descent alone, no Gumbel noise": _descent(noise_start=0.0),
    "descent alone, no annealing": _descent(tau_start=0.5, tau_end=0.5),
    "descent alone, lambda fixed": _descent(lambda_start=3.0, lambda_end=3.0),
    "descent alone, no capacity penalty": _weighing(mem=0.0),
    "descent alone, weak alignment penalty": _weighing(align=0.1),
    "descent alone, alignment penalty (paper)": _weighing(align=1.0),
    "descent alone, no spatial penalty": _weighing(spatial=0.0),
    "descent alone, no validity penalty": _weighing(valid=0.0),
}
QUICK_CELLS, QUICK_SEEDS, QUICK_VARIANTS = CELLS[:1], (0,), tuple(VARIANTS)[:7]


class Trial(NamedTuple):
    """One variant on one cell with one seed."""

    variant: str
    cell: str
    seed: int

    def __str__(self) -> str:
        return f"{self.variant} on {self.cell}, seed {self.seed}"


def reproduce(desk: Desk) -> str:
    """Search with every variant, draw and tell the EDP over the bound."""
    cells, seeds, variants = (
        (QUICK_CELLS, QUICK_SEEDS, QUICK_VARIANTS) if desk.quick else (CELLS, SEEDS, tuple(VARIANTS))
    )
    trials = [Trial(variant, cell, seed) for seed, variant, cell in product(seeds, variants, cells)]
    rows = measure(desk, trials, _row, Trial._fields)
    gaps = _gaps(desk, rows)
    figure = _draw(desk, gaps, cells, variants)
    return f"""\
### What each part of the method buys

```
{desk.command()}
```

EDP over [the bound](#bounds) of its network and machine, or, where none is proven, over the lowest of all variants:
the mean over seeds ({", ".join(map(str, seeds))}), in brackets the lowest and highest where they differ. After it, the
share of restarts whose last proposal kept every rule before decoding.

{_table(rows, gaps, cells, variants)}
{figure}"""


def _row(trial: Trial) -> list[Row]:
    """One search to its end."""
    model, hardware = trial.cell.rsplit("/", 1)

    def method(workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent) -> Iterator[Status]:
        return joint(workload, machine, settings, incumbent, VARIANTS[trial.variant])

    with search_programs():
        found = search(load_model(model), load_machine(hardware), method, Settings(seed=trial.seed))
    if found.stopped == "interrupt":
        raise KeyboardInterrupt
    shares = [point.legal_share for point in found.trace if point.legal_share is not None]
    row: Row = {
        **trial._asdict(),
        "edp_uj_cycles": found.best.edp_uj_cycles,
        "legal_share": shares[-1] if shares else None,
        "seconds": round(found.seconds, 3),
    }
    return [row]


Ratios = dict[tuple[str, str], list[float]]
"""By variant and cell, one for each seed."""


def _gaps(desk: Desk, rows: Sequence[Row]) -> Ratios:
    """EDP over what no schedule is below, or over the lowest that was found."""
    edp: Ratios = {}
    for row in rows:
        edp.setdefault((str(row["variant"]), str(row["cell"])), []).append(float(str(row["edp_uj_cycles"])))
    lowest: dict[str, float] = {}
    for (_, cell), values in edp.items():
        lowest[cell] = min(*values, lowest.get(cell, np.inf))
    lowest |= {"/".join(place): least for place, least in proven(desk).items()}
    return {(variant, cell): [value / lowest[cell] for value in values] for (variant, cell), values in edp.items()}


def _table(rows: Sequence[Row], gaps: Ratios, cells: Sequence[str], variants: Sequence[str]) -> str:
    def told(variant: str, cell: str) -> str:
        ratios = gaps[variant, cell]
        shares = [
            float(str(row["legal_share"]))
            for row in rows
            if (row["variant"], row["cell"]) == (variant, cell) and row["legal_share"] not in ("", None)
        ]
        spread = f" ({min(ratios):.3f}-{max(ratios):.3f})" if max(ratios) - min(ratios) > 5e-4 else ""
        return f"{np.mean(ratios):.3f}{spread}" + (f", {np.mean(shares):.0%}" if shares else "")

    return markdown_table(
        ["variant", *cells], [[variant, *(told(variant, cell) for cell in cells)] for variant in variants]
    )


def _draw(desk: Desk, gaps: Ratios, cells: Sequence[str], variants: Sequence[str]) -> str:
    markers = "osD^"
    colours = [COLOURS[name] for name in ("joint", "genetic", "layerwise", "layerwise-tuned")]
    with canvas(7.5, 0.24 * len(variants) + 1.4) as figure:
        axes: Axes = figure.subplots()
        for i, cell in enumerate(cells):
            for y, variant in enumerate(variants):
                ratios = gaps[variant, cell]
                at = y + 0.13 * (i - (len(cells) - 1) / 2)
                axes.plot(
                    ratios, [at] * len(ratios), markers[i], ms=3.5, color=colours[i], alpha=0.8,
                    label=cell if y == 0 else None,
                )  # fmt: skip
        axes.axvline(1, color="#444444", lw=0.8)
        axes.set_yticks(range(len(variants)), variants, fontsize=7.5)
        axes.invert_yaxis()
        axes.set_xlabel("EDP / bound (or lowest of all)")
        figure.legend(loc="outside upper center", ncols=2, fontsize=7.5)
        return desk.draw(figure, "EDP of each variant over the bound, one mark a seed")
