"""Co-design against other searches over the same machines, in the same time: the best EDP found against time.

All run in one driver with one budget and one way to score a machine; they differ in who proposes machines. Before a run
what it needs is compiled, so that none pays for what another finds in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from itertools import product
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.files import parse
from fadiff.hardware.space_file import space_of
from fadiff.reproduce.codesign.runs import design_of
from fadiff.reproduce.drawing import COLOURS, canvas
from fadiff.reproduce.experiment import markdown_table, wrapped
from fadiff.reproduce.runs import measure
from fadiff.search.codesign import CodesignSettings, Question
from fadiff.search.codesign.samplers import SAMPLERS
from fadiff.search.codesign.settings import PROPOSALS
from fadiff.workload import load_model

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from fadiff.hardware import Space
    from fadiff.reproduce.experiment import Desk
    from fadiff.search.codesign import Design
    from fadiff.sweeps.rows import Row, TextRow

    Curve = NDArray[np.float64]

NETWORKS, SPACES = ("resnet18", "mobilenet_v1", "vgg16", "bert-base"), ("gemmini", "seven")
AREA_MM2 = 2.0
SEEDS, BUDGET_S = (0, 1, 2), 40.0
QUICK_NETWORKS, QUICK_SPACES = NETWORKS[:1], SPACES[:1]
QUICK_SEEDS, QUICK_BUDGET_S = (0,), 15.0
MARKS = (0.25, 0.5, 1.0)
"""Shares of the budget after which the tables tell where all stand."""
TIMES = 400


class Cell(NamedTuple):
    """One search; the fields name the columns that tell runs apart."""

    network: str
    space: str
    proposals: str
    seed: int
    budget_s: float

    def __str__(self) -> str:
        return f"{self.network} in {self.space}, {self.proposals}, seed {self.seed}"


def read_study_space(name: str) -> Space:
    """A space of the study."""
    file = f"{name}.yaml"
    text = resources.files("fadiff.reproduce.codesign").joinpath("data", file).read_text(encoding="utf-8")
    return space_of(parse(text, file), file)


def reproduce(desk: Desk) -> str:
    """Run every search, draw what each has found by when, and tell where they stand."""
    seeds, budget = (QUICK_SEEDS, QUICK_BUDGET_S) if desk.quick else (SEEDS, BUDGET_S)
    places = list(product(*((QUICK_NETWORKS, QUICK_SPACES) if desk.quick else (NETWORKS, SPACES))))
    absent = {name: str(one.missing) for name, one in SAMPLERS.items() if one.missing is not None}
    who = [name for name in PROPOSALS if name not in absent]
    cells = [Cell(*place, one, seed, budget) for seed, place, one in product(seeds, places, who)]
    rows = measure(desk, cells, _rows, Cell._fields, kin=lambda cell: (cell.network, cell.space))
    return tell(desk, rows, [name for name in who if any(row["proposals"] == name for row in rows)], absent)


def tell(desk: Desk, rows: Sequence[TextRow], who: Sequence[str], absent: dict[str, str]) -> str:
    """The section: a figure, and a table for each space."""
    budget = max(float(row["budget_s"]) for row in rows)
    times = np.geomspace(budget / 100, budget * 1.2, TIMES)
    curves = _curves(rows, times)
    places = list(dict.fromkeys((network, space) for network, space, _ in curves))
    figure = _draw(desk, times, budget, curves, places, who)
    seeds = sorted({int(row["seed"]) for row in rows})
    left_out = [f"`{name}` is left out, since {package} is not installed." for name, package in absent.items()]
    about = _ABOUT.format(area=AREA_MM2, budget=budget, seeds=", ".join(map(str, seeds)))
    who_is_who = "\n".join(f"- `{name}`: {PROPOSALS[name]}" for name in who)
    tables = "\n".join(_table(curves, times, budget, place, who) for place in places)
    return f"""\
### Co-design against other searches over machines

```
{desk.command()}
```

{wrapped(" ".join([about, *left_out]))}

{who_is_who}

{figure}
{tables}
{_means(curves, times, budget, places, who)}"""


_ABOUT = (
    "One network at a time, on at most {area:g} mm2; {budget:g} s of a core a run, seeds {seeds}. Time is what the "
    "process had of its cores, not that of a clock on the wall, so waiting for cores that other work keeps busy does "
    "not count. All searches run in one driver, with the same short searches for the schedules of a machine, and end "
    "by shrinking the memories of the "
    "best machine to what they hold, and one longer search. What they need is compiled before. Told is the best EDP "
    "that each has found by a time over the least that any run found for that network, as geometric mean over the "
    "seeds; a dash where a seed has nothing yet."
)


def _rows(cell: Cell) -> list[Row]:
    """One row for each time that the search had something better."""
    question = Question((load_model(cell.network),), read_study_space(cell.space), AREA_MM2)
    settings = CodesignSettings(cell.budget_s, cell.seed, cell.proposals)
    return _points(cell, design_of(question, settings))


def _points(cell: Cell, design: Design) -> list[Row]:
    best, (workload,) = inf, design.question.workloads
    points: list[Row] = []
    for row in design.rows:
        if row.score < best and row.area_mm2 <= AREA_MM2 * (1 + 1e-9):
            best = row.score
            numbers = zip(design.question.space.numbers, row.values, strict=True)
            points.append(
                {
                    **cell._asdict(),
                    "seconds": round(row.seconds, 2),
                    "edp_uj_cycles": row.costs[workload.name]["edp_uj_cycles"],
                    "machines": row.number + 1,
                    "area_mm2": row.area_mm2,
                    "machine": " ".join(f"{number.name}={value:g}" for number, value in numbers),
                }
            )
    return points


Place = tuple[str, str]
Curves = dict[tuple[str, str, str], "Curve"]
"""``[seeds, times]`` best EDP of a network in a space, by who proposes."""


def _curves(rows: Sequence[TextRow], times: Curve) -> Curves:
    runs: dict[tuple[str, str, str], dict[str, Curve]] = {}
    for row in rows:
        run = runs.setdefault((row["network"], row["space"], row["proposals"]), {})
        best = run.setdefault(row["seed"], np.full(times.size, inf))
        best[times >= float(row["seconds"])] = float(row["edp_uj_cycles"])
    found = {key: np.array([*run.values()]) for key, run in runs.items()}
    for network, space in {key[:2] for key in found}:
        mine = [key for key in found if key[:2] == (network, space)]
        least = min(float(found[key].min()) for key in mine)
        for key in mine:
            found[key] = found[key] / least
    return found


def _draw(desk: Desk, times: Curve, budget: float, curves: Curves, places: Sequence[Place], who: Sequence[str]) -> str:
    """A panel for each network and space: mean of the seeds, and the band from best to worst."""
    columns = next(count for count in (4, 3, 2, 1) if len(places) % count == 0)
    marks = [share * budget for share in (0.1, *MARKS)]
    with canvas(max(4.0, 2.6 * columns), 2.9 * -(-len(places) // columns)) as figure:
        panels = figure.subplots(-(-len(places) // columns), columns, sharex=True, squeeze=False)
        for axes, place in zip(panels.flat, places, strict=False):
            for name in who:
                if (*place, name) in curves:
                    _plot(axes, times, curves[(*place, name)], name)
            axes.set_title(", ".join(place), fontsize=9)
            axes.set_xscale("log")
            axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
            axes.minorticks_off()
            axes.set_ylim(0.99, 1.6)
        for axes in panels[-1]:
            axes.set_xlabel("time of a core (s)")
        for axes in panels[:, 0]:
            axes.set_ylabel("best EDP / least of all")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=8)
        return desk.draw(figure, "Best EDP of a machine with its schedule against time, by who proposes machines")


def _plot(axes: Axes, times: Curve, edp: Curve, name: str) -> None:
    known = np.isfinite(edp).all(axis=0)
    mine, colour = edp[:, known], COLOURS[name]
    axes.plot(times[known], np.exp(np.log(mine).mean(axis=0)), color=colour, lw=1.6, label=name)
    axes.fill_between(times[known], mine.min(axis=0), mine.max(axis=0), color=colour, alpha=0.1, lw=0)


def _at(times: Curve, edp: Curve, seconds: float) -> float:
    """The geometric mean of the seeds at a time."""
    then = edp[:, np.searchsorted(times, seconds, side="right") - 1]
    return float(np.exp(np.log(then).mean()))


def _cell(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "-"


def _table(curves: Curves, times: Curve, budget: float, place: Place, who: Sequence[str]) -> str:
    marks = [share * budget for share in MARKS]
    columns = (", ".join(place), *(f"{seconds:g} s" for seconds in marks), "at the end", "worst seed")
    rows = [
        [name, *(_cell(_at(times, mine, t)) for t in (*marks, inf)), _cell(float(mine[:, -1].max()))]
        for name in who
        if (mine := curves.get((*place, name))) is not None
    ]
    return markdown_table(columns, rows)


def _means(curves: Curves, times: Curve, budget: float, places: Sequence[Place], who: Sequence[str]) -> str:
    """All networks and spaces together, where a search was run in all of them."""
    marks = [*(share * budget for share in MARKS), inf]
    rows = [
        [name, *(_cell(float(np.exp(np.mean([np.log(_at(times, one, t)) for one in mine])))) for t in marks)]
        for name in who
        if len(mine := [curves[(*place, name)] for place in places if (*place, name) in curves]) == len(places)
    ]
    columns = ("all, geometric mean", *(f"{seconds:g} s" for seconds in marks[:-1]), "at the end")
    return markdown_table(columns, rows)
