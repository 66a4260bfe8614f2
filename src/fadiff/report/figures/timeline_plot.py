"""The timeline: what binds each layer while it runs, and what fills a memory meanwhile."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from fadiff.analysis.timeline import GroupSpan, Timeline, timeline
from fadiff.analysis.units import size_unit
from fadiff.report.figures.style import (
    CYAN,
    FAINT,
    GREEN,
    INK,
    PURPLE,
    RED,
    SMALL,
    YELLOW,
    group_tones,
    legend_above,
    new_figure,
    short_numbers,
    term_colours,
    term_handles,
)
from fadiff.workload.names import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fadiff.cost.evaluate import Evaluation

HELD: dict[tuple[str, str], tuple[str, str]] = {
    ("kept", "W"): (GREEN, "pinned weights"),
    ("kept", "I"): ("#99CC99", "kept inputs"),
    ("tile", "W"): (YELLOW, "weight tile"),
    ("tile", "I"): ("#EEDD88", "input tile"),
    ("tile", "O"): ("#DDAA77", "output tile"),
    ("waiting", "O"): (RED, "waiting sums"),
    ("buffer", "O"): (PURPLE, "buffer"),
    ("halo", "O"): (CYAN, "halo"),
}
"""What a memory holds, by kind and tensor, from the bottom up."""


def timeline_figure(evaluation: Evaluation) -> Figure:
    """Groups and layers over cycles, above what is in the memory that fuses while each of them runs."""
    times = timeline(evaluation)
    figure = new_figure(7.2, 3.6)
    strips, held = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2.2])
    _draw_strips(evaluation, times, strips)
    _draw_occupancy(times, held)
    held.set_xlim(0, times.cycles)
    held.set_xlabel("time [cycles]")
    held.xaxis.set_major_formatter(short_numbers())
    figure.draw_without_rendering()
    _name_groups(strips, times)
    return figure


def _draw_strips(evaluation: Evaluation, times: Timeline, axes: Axes) -> None:
    """One strip for the groups, one for the layers."""
    tones, colours = group_tones(evaluation.schedule), term_colours(evaluation)
    spans = [span for group in times.groups for span in group.spans]
    axes.broken_barh(
        [(group.start_cycles, group.cycles) for group in times.groups],
        (1.05, 0.9),
        facecolors=[tones[group.layers[0]] for group in times.groups],
        edgecolor="white",
        linewidth=0.6,
    )
    axes.broken_barh(
        [(span.start_cycles, span.cycles) for span in spans],
        (0.05, 0.9),
        facecolors=[colours[span.bound_by] for span in spans],
        edgecolor="white",
        linewidth=0.3,
    )
    axes.set_ylim(0, 2)
    axes.set_yticks([0.5, 1.5], ["layers", "groups"])
    axes.tick_params(axis="both", length=0, labelbottom=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    legend_above(axes, term_handles(evaluation, {span.bound_by for span in spans}))


def _draw_occupancy(times: Timeline, axes: Axes) -> None:
    """Steps of the memory in use, by what it holds, under the line of what there is."""
    spans = [span for group in times.groups for span in group.spans]
    edges = list(accumulate((span.cycles for span in spans), initial=0.0))
    bottom = np.zeros(len(spans))
    scale, unit = size_unit(times.capacity_bytes[times.shown])
    for what, (colour, kind) in HELD.items():
        parts = [[part.bytes for part in span.held[times.shown] if (part.kind, part.tensor) == what] for span in spans]
        held = np.array([sum(sizes) for sizes in parts]) / scale
        if held.any():
            axes.stairs(bottom + held, edges, baseline=bottom, fill=True, color=colour, label=kind, linewidth=0)
            bottom += held
    capacity = times.capacity_bytes[times.shown] / scale
    axes.axhline(capacity, color=INK, linewidth=1.0, linestyle="--")
    told = f"capacity {capacity:,.4g} {unit}"
    where = ("axes fraction", "data")
    axes.annotate(told, (1, capacity), (-2, 2), where, "offset points", ha="right", fontsize=SMALL)
    axes.vlines([group.start_cycles for group in times.groups[1:]], 0, capacity, color=FAINT, linewidth=0.4)
    axes.set_ylim(0, capacity * 1.12)
    axes.set_ylabel(f"{shorten(times.shown, 16)} in use [{unit}]")
    legend_above(axes)


def _name_groups(axes: Axes, times: Timeline) -> None:
    """In each group's bar the longest of its names that fits; none where none does."""
    for group in times.groups:
        ends = [[group.start_cycles, 0], [group.start_cycles + group.cycles, 0]]
        left, right = axes.transData.transform(ends)[:, 0]
        middle = group.start_cycles + group.cycles / 2
        for name in _names(group):
            label = axes.text(middle, 1.5, name, ha="center", va="center", fontsize=SMALL)
            if label.get_window_extent().width < 0.95 * (right - left):
                break
            label.remove()


def _names(group: GroupSpan) -> list[str]:
    first, last, count = shorten(group.layers[0], 16), shorten(group.layers[-1], 16), len(group.layers)
    if count == 1:
        return [first]
    trips = " ".join(f"{loop}{trips}" for loop, trips in group.trips.items())
    ends, layers = f"{first} … {last}", f"{count} layers"
    return [f"{ends} ({layers}, shared {trips})" if trips else f"{ends} ({layers})", f"{ends} ({layers})", ends, layers]
