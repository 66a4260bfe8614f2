"""Table 1: EDP of the methods on five networks and two Gemminis, each with the same seconds of wall time.

The paper compares FADiff with layer-wise gradient descent (DOSA), Bayesian optimization and a genetic algorithm, and
gives no units, so ratios are compared. Beside its columns stand the ones it lacks: how far each method is from the best
there is, and the gain over `layerwise-tuned`, a search without fusion, which is what fusion itself buys.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.reproduce.bounds import proven
from fadiff.reproduce.drawing import COLOURS, canvas
from fadiff.reproduce.experiment import markdown_table
from fadiff.reproduce.runs import Row, Run, measure, result_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fadiff.reproduce.experiment import Desk

NETWORKS = ("gpt3-6.7b", "vgg19", "vgg16", "mobilenet_v1", "resnet18")
MACHINES = ("gemmini-large", "gemmini-small")
METHODS = ("layerwise", "bayesian", "genetic", "exact", "joint", "layerwise-tuned", "descent")
BASE = "exact"
OPPONENTS = ("layerwise", "bayesian", "genetic", "layerwise-tuned", "descent")
SEEDS, BUDGET_S = (0, 1), 20.0
QUICK_NETWORKS, QUICK_SEEDS, QUICK_BUDGET_S = ("gpt3-6.7b", "mobilenet_v1", "resnet18"), (0,), 6.5
PAPER = {
    ("gpt3-6.7b", "gemmini-large"): (1.59e13, 3.67e14, 2.42e14, 1.15e13),
    ("vgg19", "gemmini-large"): (1.16e13, 3.31e14, 2.29e14, 9.62e12),
    ("vgg16", "gemmini-large"): (6.82e12, 1.82e14, 8.65e13, 6.16e12),
    ("mobilenet_v1", "gemmini-large"): (2.29e11, 1.60e13, 9.11e12, 1.67e11),
    ("resnet18", "gemmini-large"): (2.21e10, 4.03e12, 2.98e12, 2.07e10),
    ("gpt3-6.7b", "gemmini-small"): (6.14e13, 3.69e15, 2.05e15, 4.65e13),
    ("vgg19", "gemmini-small"): (1.99e13, 8.37e14, 6.41e14, 1.66e13),
    ("vgg16", "gemmini-small"): (9.70e12, 6.44e14, 4.84e14, 8.33e12),
    ("mobilenet_v1", "gemmini-small"): (1.44e12, 2.60e13, 2.53e13, 1.37e12),
    ("resnet18", "gemmini-small"): (2.23e10, 8.13e12, 9.26e12, 2.13e10),
}
"""EDP in the paper's table: DOSA, Bayesian optimization, genetic algorithm, FADiff."""
PAPER_METHODS = ("layerwise", "bayesian", "genetic")


class Cell(NamedTuple):
    """What the seeds of one method found on one network and machine."""

    edp: tuple[float, ...]
    dram_words: float
    edges_fused: float

    @property
    def mean(self) -> float:
        """Mean EDP over seeds."""
        return float(np.mean(self.edp))

    @property
    def spread(self) -> float:
        """Worst over best seed, less one."""
        return max(self.edp) / min(self.edp) - 1


Cells = dict[tuple[str, str, str], Cell]
"""By network, machine and method."""


def reproduce(desk: Desk) -> str:
    """Run every method on every cell, draw the ratios, and tell both tables."""
    networks, seeds, budget = (
        (QUICK_NETWORKS, QUICK_SEEDS, QUICK_BUDGET_S) if desk.quick else (NETWORKS, SEEDS, BUDGET_S)
    )
    methods = [method for method in METHODS if method != "descent" or not desk.quick]
    runs = [
        Run(model, hardware, method, seed, budget)
        for seed, hardware, model, method in product(seeds, MACHINES, networks, methods)
    ]
    rows = measure(desk, runs, _row, Run._fields)
    cells = _cells(rows)
    places = [(model, hardware) for hardware in MACHINES for model in networks]
    figure = _draw(desk, cells, places, methods)
    return _tell(desk, cells, places, methods, figure, f"{budget:g} s a run, seeds {', '.join(map(str, seeds))}")


def _row(run: Run) -> list[Row]:
    """What the method itself found: the greedy schedule, from which every search starts, does not count."""
    result = result_of(run)
    best = result.found or result.greedy
    return [
        {
            **run._asdict(),
            "edp_uj_cycles": best.edp_uj_cycles,
            "energy_pj": best.energy_pj,
            "cycles": best.cycles,
            "dram_words": best.memory_words(0),
            "edges_fused": len(best.schedule.fused_edges),
            "greedy_edp_uj_cycles": result.greedy.edp_uj_cycles,
            "seconds": round(result.seconds, 3),
            "stopped": result.stopped,
        }
    ]


def _cells(rows: Sequence[Row]) -> Cells:
    grouped: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((str(row["model"]), str(row["hardware"]), str(row["method"])), []).append(row)

    def mean(rows: Sequence[Row], column: str) -> float:
        return float(np.mean([float(str(row[column])) for row in rows]))

    cells = {
        key: Cell(
            tuple(float(str(row["edp_uj_cycles"])) for row in mine), mean(mine, "dram_words"), mean(mine, "edges_fused")
        )
        for key, mine in grouped.items()
    }
    for (model, hardware, _), mine in grouped.items():
        cells[model, hardware, "greedy"] = Cell((mean(mine, "greedy_edp_uj_cycles"),), 0, 0)
    return cells


def _draw(desk: Desk, cells: Cells, places: Sequence[tuple[str, str]], methods: Sequence[str]) -> str:
    """Left: what was measured, with the paper's ratio to DOSA. Right: its ratios to the other two, far away."""
    others = [method for method in methods if method != BASE]
    with canvas(8, 0.42 * len(places) + 1.4) as figure:
        panels: Sequence[Axes] = figure.subplots(1, 2, sharey=True, width_ratios=[3, 1])
        near, far = panels
        for y, (model, hardware) in enumerate(places):
            base = cells[model, hardware, BASE].mean
            for i, method in enumerate(others):
                ratios = [edp / base for edp in cells[model, hardware, method].edp]
                at = y + 0.13 * (i - (len(others) - 1) / 2)
                label = method if y == 0 else None
                near.plot(ratios, [at] * len(ratios), "o", ms=4, color=COLOURS[method], alpha=0.85, label=label)
            dosa, bo, ga, ours = PAPER[model, hardware]
            for axes, method, edp in ((near, "layerwise", dosa), (far, "bayesian", bo), (far, "genetic", ga)):
                axes.plot(edp / ours, y, marker="|", ms=13, mew=1.6, color=COLOURS[method], ls="none")
        near.plot([], [], marker="|", ms=9, mew=1.6, color="#444444", ls="none", label="the paper's ratio")
        near.axvline(1, color=COLOURS[BASE], lw=1.2, label=f"{BASE} (mean)")
        near.set_xlabel(f"EDP / mean EDP of {BASE}")
        far.set_xlabel("the paper's ratio")
        for axes, marks in ((near, (1, 1.2, 1.5, 2, 3, 4)), (far, (10, 30, 100, 300))):
            axes.set_xscale("log")
            axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
            axes.minorticks_off()
            axes.grid(visible=False, axis="y")
        names = [f"{model}, {hardware.removeprefix('gemmini-')}" for model, hardware in places]
        near.set_yticks(range(len(places)), names)
        near.invert_yaxis()
        figure.legend(loc="outside upper center", ncols=4, fontsize=8)
        return desk.draw(figure, f"EDP of each method over that of {BASE}, with the paper's ratios")


def _tell(
    desk: Desk,
    cells: Cells,
    places: Sequence[tuple[str, str]],
    methods: Sequence[str],
    figure: str,
    setting: str,
) -> str:
    def edp(model: str, hardware: str, method: str) -> str:
        cell = cells[model, hardware, method]
        return f"{cell.mean:.4g}" + (f" ±{cell.spread / 2:.1%}" if len(cell.edp) > 1 else "")

    def ratio(place: tuple[str, str], method: str) -> float:
        return cells[*place, BASE].mean / cells[*place, method].mean

    def compared(group: Sequence[tuple[str, str]], method: str) -> str:
        ours = np.mean([ratio(place, method) for place in group])
        if method not in PAPER_METHODS:
            return f"{ours:.3f}"
        column = PAPER_METHODS.index(method)
        return f"{ours:.3f} ({np.mean([PAPER[place][3] / PAPER[place][column] for place in group]):.3f})"

    def saved(place: tuple[str, str]) -> float:
        return 1 - cells[*place, BASE].dram_words / cells[*place, "layerwise-tuned"].dram_words

    shown = [*methods, "greedy"]
    edps = markdown_table(
        ["network, machine", *shown],
        [[f"{model}, {hardware}", *(edp(model, hardware, method) for method in shown)] for model, hardware in places],
    )
    groups = {", ".join(place): [place] for place in places}
    groups |= {f"mean, {machine}": [place for place in places if place[1] == machine] for machine in MACHINES}
    ratios = markdown_table(
        ["network, machine", *(f"/ {name}" for name in OPPONENTS), "DRAM saved", "edges fused"],
        [
            [
                name,
                *(compared(group, method) for method in OPPONENTS),
                f"{np.mean([saved(place) for place in group]):.1%}",
                f"{np.mean([cells[*place, BASE].edges_fused for place in group]):g}",
            ]
            for name, group in groups.items()
        ],
    )
    return f"""\
### Table 1: EDP of every method at equal budgets

```
{desk.command()}
```

Mean EDP over seeds in uJ x cycles, ± half the distance between best and worst seed; {setting}:

{edps}
{_gaps(proven(desk), cells, places, methods)}
EDP of `{BASE}` over that of each other method, in brackets the paper's ratio; what `{BASE}` saves in DRAM words
against `layerwise-tuned`, the same search without fusion; edges it fuses:

{ratios}
{figure}"""


def _gaps(
    least: dict[tuple[str, str], float], cells: Cells, places: Sequence[tuple[str, str]], methods: Sequence[str]
) -> str:
    """How far the methods are from the bounds; nothing where none are proven."""
    known = [place for place in places if place in least]
    if not known:
        return ""
    table = markdown_table(
        ("above the bound", *methods),
        [(", ".join(at), *(f"{cells[*at, method].mean / least[at] - 1:.1%}" for method in methods)) for at in known],
    )
    return f"By how much its mean EDP is above [the bound](#bounds), so above the best there is at most:\n\n{table}"
