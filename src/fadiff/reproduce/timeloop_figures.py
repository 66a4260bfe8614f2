"""The comparison with Timeloop in two figures: where counts are equal, and how latency and energy follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.patches import Rectangle

from fadiff.reproduce.drawing import canvas
from fadiff.reproduce.timeloop_agreement import GROUPS, PAPER_TAU, Validation
from fadiff.reproduce.timeloop_costs import OURS, QUANTITIES, TIMELOOPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from fadiff.reproduce.experiment import Desk
    from fadiff.reproduce.timeloop import Floats, Mask

EQUAL, UNEQUAL, INK, FAINT = "#eef3f7", "#f3c066", "#222222", "#8a97a3"
PANELS = {TIMELOOPS: "Timeloop's accounting", OURS: "our accounting"}
UNITS = dict(zip(QUANTITIES, ("cycles", "pJ"), strict=True))
TURNS = 16


class Family(NamedTuple):
    """Kinds of operators that share a mark; colours and shapes tell families apart, each on its own."""

    name: str
    op_types: frozenset[str]
    marker: str
    colour: str


FAMILIES = (
    Family(
        "convolution",
        frozenset({"conv3x3_s1", "conv3x3_s2", "conv5x5_s1", "conv5x5_s2", "conv7x7_s1", "conv7x7_s2"}),
        "o",
        "#0072b2",
    ),
    Family("1x1 convolution", frozenset({"pointwise", "conv1x1_s2"}), "^", "#e69f00"),
    Family("large kernel", frozenset({"largekernel_dense"}), "s", "#009e73"),
    Family("depthwise", frozenset({"depthwise", "depthwise_per_channel", "largekernel_dw"}), "D", "#cc79a7"),
    Family("matrix product", frozenset({"gemm_fc", "gemm_transformer"}), "v", "#444444"),
)


def draw_accuracy(desk: Desk, validation: Validation) -> str:
    """Accuracy of the counts of each level and tensor by kind of operator, as a map."""
    kinds: list[tuple[str, Mask]] = [(str(op), validation.op_types == op) for op in np.unique(validation.op_types)]
    kinds.append(("all", np.ones(validation.rows, dtype=bool)))
    with canvas(7.5, 0.3 * len(kinds) + 0.7) as figure:
        axes: Axes = figure.subplots()
        for y, (_, of) in enumerate(kinds):
            for x, group in enumerate(GROUPS):
                _cell(axes, x, y, *validation.group_accuracy(group, of))
        axes.set_xlim(-0.5, len(GROUPS) - 0.5)
        axes.set_ylim(len(kinds) - 0.5, -0.5)
        axes.set_xticks(range(len(GROUPS)), GROUPS)
        axes.set_yticks(range(len(kinds)), [f"{name}  ({np.sum(of):,})" for name, of in kinds])
        axes.xaxis.tick_top()
        axes.axhline(len(kinds) - 1.5, color=INK, lw=0.8)
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        return desk.draw(
            figure,
            "Mean accuracy of access counts and tile sizes by kind of operator, level and tensor",
            "accuracy",
        )


def _cell(axes: Axes, x: int, y: int, mean: float, unequal: int) -> None:
    axes.add_patch(Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, color=UNEQUAL if unequal else EQUAL, lw=0))
    text = f"{mean:.2%} ({unequal})" if unequal else "100%"
    axes.text(x, y, text, ha="center", va="center", fontsize=7.5, color=INK if unequal else FAINT)


def draw_scatter(desk: Desk, validation: Validation) -> str:
    """Latency and energy of every row, the model's against Timeloop's, with tau."""
    with canvas(7.5, 7.1) as figure:
        grid: Sequence[Sequence[Axes]] = figure.subplots(len(PANELS), len(QUANTITIES))
        for number, (quantity, unit) in enumerate(UNITS.items()):
            theirs = validation.timeloop[number]
            ours = {accounting: validation.costs[accounting][number] for accounting in PANELS}
            everything = np.concatenate([theirs, *ours.values()])
            limits = float(everything.min()) / 1.6, float(everything.max()) * 1.6
            for panels, (accounting, title) in zip(grid, PANELS.items(), strict=True):
                axes = panels[number]
                _scatter(axes, validation.op_types, theirs, ours[accounting], limits)
                axes.set_title(f"{quantity}, {title}", fontsize=9)
                axes.set_xlabel(f"Timeloop ({unit})")
                axes.set_ylabel(f"the model ({unit})")
                tau = validation.ranks[accounting][quantity].tau
                note = f"tau {tau:.4f}\nthe paper's model: {PAPER_TAU[quantity]:.4f}"
                plain = {"facecolor": "white", "linewidth": 0, "pad": 1.5}
                axes.text(0.04, 0.96, note, transform=axes.transAxes, va="top", color=INK, bbox=plain)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper center", ncols=len(labels), fontsize=8.5, markerscale=1.8,
            columnspacing=1.5, handletextpad=0.2,
        )  # fmt: skip
        return desk.draw(
            figure,
            f"Latency and energy of {validation.rows:,} mappings, the model's against Timeloop's: on the diagonal with "
            "Timeloop's accounting, around and mostly above it with ours",
            "scatter",
        )


def _scatter(axes: Axes, op_types: NDArray[np.str_], theirs: Floats, ours: Floats, limits: tuple[float, float]) -> None:
    axes.plot(limits, limits, color=FAINT, lw=0.8, zorder=1)
    # A few rows of every family at a time, so that none lies on top of all others; as pixels, because ten thousand
    # marks make a slow SVG file.
    turn = np.arange(len(op_types)) % TURNS
    for i in range(TURNS):
        for name, kinds, marker, colour in FAMILIES:
            of = np.isin(op_types, sorted(kinds)) & (turn == i)
            axes.plot(
                theirs[of], ours[of], marker, ms=2.8, mew=0.6, mec=colour, mfc="none", rasterized=True,
                label=None if i else name,
            )  # fmt: skip
    decades = [10.0**power for power in range(math.ceil(math.log10(limits[0])), math.ceil(math.log10(limits[1])), 2)]
    axes.set(xscale="log", yscale="log", xlim=limits, ylim=limits, xticks=decades, yticks=decades, aspect="equal")
    axes.minorticks_off()
