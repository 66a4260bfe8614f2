"""Latency and energy over Timeloop's, of every row, as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fadiff.reproduce.drawing import canvas
from fadiff.reproduce.timeloop.compare import OWN, TIMELOOPS, Comparison
from fadiff.reproduce.timeloop.counts import QUANTITIES
from fadiff.reproduce.timeloop.ranks import ranks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from fadiff.reproduce.experiment import Desk
    from fadiff.reproduce.timeloop.reference import Floats
    from fadiff.workload import Layer

UNITS = dict(zip(QUANTITIES, ("cycles", "pJ"), strict=True))
TURNS = 16


MARKS = {
    "convolution": ("o", "#0072b2"),
    "1x1 convolution": ("^", "#e69f00"),
    "depthwise or grouped": ("D", "#cc79a7"),
    "matrix product": ("v", "#444444"),
}
"""Shape and colour of a family of layers: each tells families apart on its own."""


def family(layer: Layer) -> str:
    """The mark of a layer."""
    if layer.dims.P * layer.dims.Q == 1:
        return "matrix product"
    if layer.dims.G > 1:
        return "depthwise or grouped"
    return "convolution" if layer.dims.R * layer.dims.S > 1 else "1x1 convolution"


def draw_ratios(desk: Desk, comparisons: Sequence[Comparison]) -> str:
    """Latency and energy of every row as a multiple of Timeloop's, with tau."""
    families = np.array([family(case.layer) for c in comparisons for case in c.reference.cases])
    with canvas(7.5, 5.6) as figure:
        grid: Sequence[Sequence[Axes]] = figure.subplots(2, len(QUANTITIES), sharex="col", sharey="col")
        for number, (quantity, unit) in enumerate(UNITS.items()):
            theirs = np.concatenate([c.timeloop[number] for c in comparisons])
            for panels, accounting in zip(grid, (TIMELOOPS, OWN), strict=True):
                axes, ours = panels[number], np.concatenate([c.costs[accounting][number] for c in comparisons])
                _scatter(axes, families, theirs, ours / theirs)
                tau = ranks(comparisons, accounting)[quantity].tau
                axes.set_title(f"{quantity}, {accounting}: tau {tau:.4f}", fontsize=9)
                axes.set(xscale="log", ylabel="the model / Timeloop")
            grid[-1][number].set_xlabel(f"Timeloop ({unit})")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=8.5, markerscale=1.8)
        return desk.draw(
            figure,
            f"Latency and energy of {len(families):,} mappings over Timeloop's: almost all the same with Timeloop's "
            "rules for sums, a little apart with the model's own",
            "ratios",
        )


def _scatter(axes: Axes, families: NDArray[np.str_], theirs: Floats, ratio: Floats) -> None:
    # A few rows of every family at a time, so that none lies on top of all others; as pixels, because ten thousand
    # marks make a slow SVG file.
    turn = np.arange(len(families)) % TURNS
    for i in range(TURNS):
        for name, (marker, colour) in MARKS.items():
            of, label = (families == name) & (turn == i), None if i else name
            (line,) = axes.plot(theirs[of], ratio[of], marker, ms=2.8, mew=0.6, mfc="none", label=label)
            line.set(markeredgecolor=colour, rasterized=True)
