"""Energy and latency layer by layer."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from fadiff.analysis.breakdown import breakdown
from fadiff.hardware.machine import VECTOR
from fadiff.report.figures.style import (
    FAINT,
    GREY,
    INK,
    POINTS_PER_INCH,
    SMALL,
    group_tones,
    legend_above,
    memory_colour,
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
    from fadiff.hardware import Memory

NARROWEST, WIDEST = 3.5, 12.0
"""Inches: one column of a paper, and the width from which on bars get thinner instead."""
INCHES_PER_LAYER, INCHES_PER_LETTER = 0.14, 0.06
MARGIN = 0.9
"""Inches beside the bars, for their scale."""
NAME_CHARACTERS = 18


def energy_figure(evaluation: Evaluation) -> Figure:
    """Energy of every layer, by what spends it; repeats counted."""
    figure, axes = _layer_axes(evaluation, "energy [µJ]")
    macs, *flows = evaluation.energy_parts_pj * evaluation.repeat
    parts = [("MACs", GREY, macs)]
    if evaluation.vector_energy_pj.any():
        parts.append((VECTOR, FAINT, evaluation.vector_energy_pj * evaluation.repeat))
    for number, (node, memory) in reversed(list(enumerate(_memories(evaluation)))):
        here = [spent for spent, flow in zip(flows, evaluation.flows, strict=True) if flow.memory == node]
        parts.append((memory.name, memory_colour(number), np.sum(here, axis=0)))
    bottom = np.zeros(len(macs))
    for name, colour, spent in parts:
        height = spent * 1e-6
        axes.bar(range(len(macs)), height, bottom=bottom, color=colour, width=0.8, label=shorten(name, NAME_CHARACTERS))
        bottom += height
    legend_above(axes)
    return figure


def _memories(evaluation: Evaluation) -> list[tuple[int, Memory]]:
    machine = evaluation.schedule.machine
    return list(zip(machine.structure.memories, machine.memories, strict=True))


def latency_figure(evaluation: Evaluation) -> Figure:
    """Cycles of every layer, coloured by what binds it, and those that all multipliers would need; repeats counted."""
    from matplotlib.lines import Line2D

    layers, colours = breakdown(evaluation).layers, term_colours(evaluation)
    figure, axes = _layer_axes(evaluation, "latency [cycles]")
    axes.yaxis.set_major_formatter(short_numbers())
    cycles = [layer.cycles * layer.repeat for layer in layers]
    axes.bar(range(len(layers)), cycles, color=[colours[layer.bound_by] for layer in layers], width=0.8)
    peak = evaluation.schedule.machine.peak_macs
    busy = {i: layer.macs * layer.repeat / peak for i, layer in enumerate(layers) if layer.macs}
    starts = np.array(list(busy)) - 0.4
    axes.hlines(list(busy.values()), starts, starts + 0.8, color=INK, linewidth=0.9)
    handles = term_handles(evaluation, {layer.bound_by for layer in layers})
    legend_above(axes, [*handles, Line2D([], [], color=INK, linewidth=0.9, label="if all MACs were busy")])
    return figure


def _layer_axes(evaluation: Evaluation, what: str) -> tuple[Figure, Axes]:
    """Axes with a place for every layer, their names below, and a strip in the colours of the groups."""
    names = [shorten(layer.name, NAME_CHARACTERS) for layer in evaluation.schedule.workload.layers]
    width = min(WIDEST, max(NARROWEST, INCHES_PER_LAYER * len(names) + MARGIN))
    figure = new_figure(width, 2.3 + INCHES_PER_LETTER * max(map(len, names)))
    axes = figure.add_subplot()
    axes.set_ylabel(what)
    axes.grid(axis="y")
    axes.set_xlim(-0.7, len(names) - 0.3)
    every = ceil(1.25 * SMALL / ((width - MARGIN) * POINTS_PER_INCH / len(names)))
    axes.set_xticks(range(0, len(names), every), names[::every], rotation=90, fontsize=SMALL)
    axes.tick_params(axis="x", length=0, pad=8)
    numbered = {1: "layer", 2: "layer (every second is named)", 3: "layer (every third is named)"}
    axes.set_xlabel(numbered.get(every, f"layer (every {every}th is named)"))
    # Under the bars, in axes coordinates: the groups.
    tones = group_tones(evaluation.schedule)
    axes.broken_barh(
        [(place - 0.5, 1.0) for place in range(len(names))],
        (-0.035, 0.025),
        transform=axes.get_xaxis_transform(),
        facecolors=[tones[layer.name] for layer in evaluation.schedule.workload.layers],
        clip_on=False,
    )
    axes.annotate("groups", (1, -0.0225), (2, 0), "axes fraction", "offset points", va="center", fontsize=SMALL)
    return figure, axes
