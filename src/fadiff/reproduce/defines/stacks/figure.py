"""Figure 3: trends of latency and energy over the schedules of every stack, ours and DeFiNES'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fadiff.reproduce.defines.stacks.trends import (
    ENERGY,
    LATENCY,
    OVERLAPPED_LATENCY,
    Quantity,
    Trend,
    agreement,
)
from fadiff.reproduce.drawing import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from fadiff.reproduce.experiment import Desk

THEIRS, OURS, FULL = "#222222", "#0072b2", "#e69f00"
FUSED_BAND = "#eef3f7"
PANELS = ({LATENCY: OURS, OVERLAPPED_LATENCY: FULL}, {ENERGY: OURS})
LABELS = {
    LATENCY: "ours, DRAM transfers exposed",
    OVERLAPPED_LATENCY: "ours, all transfers hidden (the paper's roofline)",
    ENERGY: "ours",
}
SUFFIXES = {LATENCY: " exposed", OVERLAPPED_LATENCY: " hidden"}
GAP = 1.4
"""Room between stacks, in points."""
NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


def draw_trends(desk: Desk, trends: Sequence[Trend]) -> str:
    """Two rows of panels, latency over energy; a column for each number of layers."""
    if not trends:
        return "No stack has three priced rows, one of them fused.\n"
    trends = [_in_order(trend) for trend in trends]
    depths = sorted({trend.points[0].row.n_layers for trend in trends})
    columns = [[trend for trend in trends if trend.points[0].row.n_layers == depth] for depth in depths]
    widths = [sum(len(trend.points) + GAP for trend in column) for column in columns]
    with canvas(11, 5.9) as figure:
        grid: NDArray[np.object_] = figure.subplots(
            2, len(columns), sharex="col", sharey="row", squeeze=False, width_ratios=widths
        )
        for i, (depth, column) in enumerate(zip(depths, columns, strict=True)):
            of = NUMBERS.get(depth, str(depth))
            for axes, what, colours in zip(grid[:, i], ("latency", "energy"), PANELS, strict=True):
                _panel(axes, column, colours)
                told = ", ".join(f"{agreement(column, q).r:.2f}{SUFFIXES.get(q, '')}" for q in colours)
                axes.set_title(f"{of}-layer stacks: {what}\nr {told}", fontsize=9)
            _name_stacks(grid[1][i], column)
        for row in grid:
            row[0].set_ylabel("Z-score")
            for axes in row[1:]:
                axes.tick_params(axis="y", length=0)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=8.5)
        return desk.draw(figure, "Z-scores of latency and energy over the schedules of each stack")


def _in_order(trend: Trend) -> Trend:
    """Unfused, layer by layer, then depth-first from the smallest tile to the largest."""
    kinds = ("single_layer_dram", "layer_by_layer_fulltile", "depth_first")

    def place(i: int) -> tuple[int, int, int, str, str]:
        row = trend.points[i].row
        return kinds.index(row.schedule), row.tile_ox * row.tile_oy, row.tile_oy, row.hw, row.overlap_mode

    order = sorted(range(len(trend.points)), key=place)
    return Trend([trend.points[i] for i in order], [trend.costs[i] for i in order])


def _panel(axes: Axes, trends: Sequence[Trend], quantities: dict[Quantity, str]) -> None:
    """One line a stack; DeFiNES behind, ours in front."""
    at = 0.0
    for number, trend in enumerate(trends):
        x = at + np.arange(len(trend.points))
        fused = x[[cost.fused for cost in trend.costs]]
        first = number == 0
        for i, (quantity, colour) in enumerate(quantities.items()):
            ours, theirs = trend.z_scores(quantity)
            if i == 0:
                label = "DeFiNES" if first else None
                axes.plot(x, theirs, "-o", color=THEIRS, ms=3.6, lw=1.3, label=label, zorder=3)
            label = LABELS[quantity] if first else None
            look, width, size, order = ("--s", 1.3, 3.4, 4) if i == 0 else (":^", 0.9, 2.6, 2)
            axes.plot(x, ours, look, color=colour, lw=width, ms=size, zorder=order, label=label)
        label = "a tensor stays on chip" if first else None
        axes.axvspan(fused[0] - 0.5, fused[-1] + 0.5, color=FUSED_BAND, lw=0, zorder=0, label=label)
        at += len(trend.points) + GAP
    axes.axhline(0, color="#bbbbbb", lw=0.6, zorder=1)
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-1.2, at - GAP + 0.2)
    axes.tick_params(axis="x", length=0)


def _name_stacks(axes: Axes, trends: Sequence[Trend]) -> None:
    ticks: list[float] = []
    at = 0.0
    for trend in trends:
        ticks.append(at + (len(trend.points) - 1) / 2)
        at += len(trend.points) + GAP
    names = [trend.points[0].row.stack for trend in trends]
    axes.set_xticks(ticks, names, rotation=35, ha="right", rotation_mode="anchor", fontsize=8)
