"""A front for papers: energy against latency, and below it the line that is proven."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fadiff.analysis.front import border
from fadiff.report.figures.style import BLUE, RED, SMALL, legend_above, new_figure, short_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fadiff.search.pareto import Front


def front_figure(front: Front) -> Figure:
    """The points by number, and the proven line."""
    figure = new_figure(4.8, 3.2)
    axes = figure.add_subplot()
    points = [(one.cycles, one.energy_pj * 1e-6) for one in front.points]
    axes.plot(*zip(*points, strict=True), color=BLUE, marker="o", markersize=4, linestyle=":", label="schedules")
    for number, point in enumerate(points, start=1):
        axes.annotate(str(number), point, xytext=(3, 3), textcoords="offset points", fontsize=SMALL)
    if line := border(front):
        axes.plot(*zip(*line, strict=True), color=RED, linewidth=1.2, label="no schedule is below")
    axes.set(xlabel="latency [cycles]", ylabel="energy [µJ]")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(short_numbers())
    axes.grid(which="major")
    legend_above(axes)
    return figure
