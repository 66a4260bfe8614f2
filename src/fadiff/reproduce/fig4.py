"""Figure 4: the best EDP found against wall time, for methods that search mapping and fusion together.

A curve is what the method itself has found so far: the greedy schedule, which every search starts from, is drawn as a
line of its own and counts only for methods that take it up. Curves are drawn over the EDP that no schedule is below.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from fadiff.reproduce.bounds import proven
from fadiff.reproduce.drawing import COLOURS, canvas
from fadiff.reproduce.experiment import markdown_table
from fadiff.reproduce.runs import Row, Run, measure, result_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from fadiff.reproduce.experiment import Desk

NETWORKS, MACHINE = ("resnet18", "gpt3-6.7b"), "gemmini-large"
METHODS = ("exact", "joint", "descent", "genetic", "bayesian", "random")
SEEDS, BUDGET_S = (0,), 60.0
QUICK_SEEDS, QUICK_BUDGET_S = (0,), 18.0
TIMES = 400


def reproduce(desk: Desk) -> str:
    """Run every method, draw the curves with bands over seeds, and tell where they stand at a few times."""
    seeds, budget = (QUICK_SEEDS, QUICK_BUDGET_S) if desk.quick else (SEEDS, BUDGET_S)
    runs = [Run(model, MACHINE, method, seed, budget) for seed, model, method in product(seeds, NETWORKS, METHODS)]
    rows = measure(desk, runs, _rows, Run._fields)
    greedy = {str(row["model"]): float(str(row["greedy_edp_uj_cycles"])) for row in rows}
    times = np.geomspace(0.2, budget, TIMES)
    curves = {
        (model, method): np.array([_curve(rows, model, method, seed, times) for seed in seeds])
        for model, method in product(NETWORKS, METHODS)
    }
    figure = _draw(desk, times, curves, greedy)
    return _tell(desk, times, curves, greedy, figure, seeds)


def _rows(run: Run) -> list[Row]:
    """One row for each time the method found something better."""
    result = result_of(run)
    rows: list[Row] = []
    best = float("inf")
    for point in result.trace:
        found = point.found_edp_uj_cycles
        if found is not None and found < best:
            best = found
            rows.append(_point(run, result.greedy.edp_uj_cycles, point.seconds, found))
    return rows or [_point(run, result.greedy.edp_uj_cycles, result.seconds, None)]


def _point(run: Run, greedy: float, seconds: float, found: float | None) -> Row:
    return {
        **run._asdict(),
        "greedy_edp_uj_cycles": greedy,
        "seconds": round(seconds, 3),
        "found_edp_uj_cycles": found,
    }


def _curve(rows: Sequence[Row], model: str, method: str, seed: int, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Best EDP of one run at each time; infinite before it found anything."""
    best = np.full(times.size, np.inf)
    for row in rows:
        mine = (row["model"], row["method"], str(row["seed"])) == (model, method, str(seed))
        if mine and row["found_edp_uj_cycles"] not in ("", None):
            found = float(str(row["found_edp_uj_cycles"]))
            best[times >= float(str(row["seconds"]))] = found
    return best


Curves = dict[tuple[str, str], "NDArray[np.float64]"]


def _draw(desk: Desk, times: NDArray[np.float64], curves: Curves, greedy: dict[str, float]) -> str:
    """Above, near the bound (or, where none is proven, the best of all); below, with room for random schedules."""
    least = proven(desk)
    with canvas(8, 5.2) as figure:
        grid = figure.subplots(2, len(NETWORKS), sharex=True, height_ratios=[2, 1])
        for (upper, lower), model in zip(grid.T, NETWORKS, strict=True):
            best = least.get((model, MACHINE), min(float(curves[model, method].min()) for method in METHODS))
            for axes in (upper, lower):
                for method in METHODS:
                    _plot(axes, times, curves[model, method] / best, method)
                axes.axhline(greedy[model] / best, color=COLOURS["greedy"], lw=1, ls="--", label="greedy")
            upper.set_ylim(0.98, 1.03 * greedy[model] / best)
            upper.set_title(f"{model}, {MACHINE}", fontsize=9)
            lower.set_yscale("log")
            lower.set_xscale("log")
            marks = [mark for mark in (1, 2, 5, 10, 20, 60) if times[0] <= mark <= times[-1]]
            lower.set_xlim(1, times[-1])
            lower.set_xticks(marks, [str(mark) for mark in marks])
            lower.minorticks_off()
            lower.set_xlabel("wall time (s)")
        grid[0, 0].set_ylabel("best EDP / bound" if least else "best EDP / lowest of all")
        grid[1, 0].set_ylabel("the same, log scale")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=8)
        return desk.draw(figure, "Best EDP found against wall time: mean of the seeds, band from best to worst")


def _plot(axes: Axes, times: NDArray[np.float64], edp: NDArray[np.float64], method: str) -> None:
    """The geometric mean of the seeds, from when all have found something, and the band from best to worst."""
    known = np.isfinite(edp).all(axis=0)
    mine, colour = edp[:, known], COLOURS[method]
    axes.plot(times[known], np.exp(np.log(mine).mean(axis=0)), color=colour, lw=1.6, label=method)
    axes.fill_between(times[known], mine.min(axis=0), mine.max(axis=0), color=colour, alpha=0.2, lw=0)


def _tell(
    desk: Desk,
    times: NDArray[np.float64],
    curves: Curves,
    greedy: dict[str, float],
    figure: str,
    seeds: Sequence[int],
) -> str:
    marks = [seconds for seconds in (1, 3, 10, 30, 60) if seconds <= times[-1] + 1e-9]

    def at(edp: NDArray[np.float64], seconds: float) -> str:
        then = edp[:, np.searchsorted(times, seconds * (1 - 1e-9), side="left").clip(max=times.size - 1)]
        return f"{np.exp(np.log(then).mean()):.4g}" if np.isfinite(then).all() else "-"

    parts: list[str] = []
    for model in NETWORKS:
        rows = [[method, *(at(curves[model, method], seconds) for seconds in marks)] for method in METHODS]
        rows.append(["greedy", *[f"{greedy[model]:.4g}"] * len(marks)])
        parts.append(markdown_table([f"{model}, {MACHINE}", *(f"{seconds} s" for seconds in marks)], rows))
    return f"""\
### Figure 4: best EDP against wall time

```
{desk.command()}
```

{figure}
The best EDP (uJ x cycles) that each method itself has found by a time, as the geometric mean over its seeds
({", ".join(map(str, seeds))}); a dash where a seed has found nothing yet:

{chr(10).join(parts)}"""
