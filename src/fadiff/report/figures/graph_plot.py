"""The network as a graph: layers in the colours of their groups, tensors on chip or through the first memory."""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, Any

from fadiff.report.figures.style import (
    ALONE,
    FAINT,
    GROUP_COLOURS,
    INK,
    POINTS_PER_INCH,
    RED,
    group_tones,
    legend_above,
    new_figure,
)
from fadiff.report.layout import Box, Drawing, Node, draw, graph_of
from fadiff.workload.names import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fadiff.cost.evaluate import Evaluation

PIXELS_PER_INCH = 180.0
"""Of the layout: a layer's box is about 0.65 inches wide."""
ROOMS = (700.0, 1000.0, 1300.0, 1700.0, 2200.0, 2800.0)
"""Widths of rows that are tried, in pixels of the layout."""
NARROWEST, LEGEND_INCHES = 700.0, 0.4
"""Pixels of the layout that the legend asks for, and its height in inches."""
SHAPE = 1.7
"""Width over height that a page has room for."""
THINNEST, WIDEST = 0.5, 2.4
"""Lines, in points."""
DASHES = (2.2, 1.1)
HEAD = 7.0
"""Length of an arrow's head, in pixels of the layout."""


def graph_figure(evaluation: Evaluation) -> Figure:
    """Layers and tensors; the area under a line's width is in proportion to the words it carries."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    schedule = evaluation.schedule
    graph = graph_of(schedule)
    drawing = min((draw(graph, room) for room in ROOMS), key=lambda one: abs(log(one.width / one.height / SHAPE)))
    width = max(drawing.width, NARROWEST)
    figure = new_figure(width / PIXELS_PER_INCH, drawing.height / PIXELS_PER_INCH + LEGEND_INCHES)
    axes = figure.add_subplot()
    axes.set(xlim=(0, width), ylim=(drawing.height, 0), aspect="equal")
    axes.axis("off")
    _draw_lines(axes, drawing)
    tones = group_tones(schedule)
    for node in graph.nodes:
        _draw_node(axes, node, drawing.boxes[node.name], tones[node.name])
    handles = [
        Line2D([], [], color=INK, linewidth=1.3, label="tensor on chip"),
        Line2D(
            [], [], color=RED, linewidth=1.3, linestyle=(0, DASHES), label=f"through {schedule.machine.nodes[0].name}"
        ),
        Patch(facecolor=GROUP_COLOURS[0], edgecolor=FAINT, linewidth=0.5, label="fused group"),
        Patch(facecolor=ALONE, edgecolor=FAINT, linewidth=0.5, label="layer alone"),
    ]
    legend_above(axes, handles)
    return figure


def _draw_lines(axes: Axes, drawing: Drawing) -> None:
    from matplotlib.patches import Polygon

    most = max((line.link.words for line in drawing.lines), default=1)
    # Small tensors are drawn last, so that large ones do not hide them.
    for line in sorted(drawing.lines, key=lambda line: -line.link.words):
        colour = INK if line.link.fused else RED
        width = THINNEST + (WIDEST - THINNEST) * sqrt(line.link.words / most)
        *way, (x, y) = line.points
        xs, ys = zip(*way, (x - 0.8 * HEAD, y), strict=True)
        style = "-" if line.link.fused else (0, DASHES)
        axes.plot(xs, ys, color=colour, linewidth=width, linestyle=style, solid_joinstyle="round", zorder=1)
        half = HEAD / 2 + width / 2 * PIXELS_PER_INCH / POINTS_PER_INCH * 0.5
        axes.add_patch(
            Polygon([(x - HEAD, y - half), (x, y), (x - HEAD, y + half)], color=colour, linewidth=0, zorder=1.5)
        )


def _draw_node(axes: Axes, node: Node, box: Box, tone: str) -> None:
    from matplotlib.patches import Circle, FancyBboxPatch

    points = POINTS_PER_INCH / PIXELS_PER_INCH
    x, y = box.x + box.width / 2, box.y + box.height / 2
    edge: dict[str, Any] = {"facecolor": tone, "edgecolor": FAINT, "linewidth": 0.5, "zorder": 2}
    if box.round:
        axes.add_patch(Circle((x, y), box.width / 2, **edge))
        axes.plot([x - 6, x + 6], [y, y], color=INK, linewidth=0.7, zorder=3)
        axes.plot([x, x], [y - 6, y + 6], color=INK, linewidth=0.7, zorder=3)
        return
    axes.add_patch(FancyBboxPatch((box.x, box.y), box.width, box.height, "round,pad=0,rounding_size=6", **edge))
    axes.text(x, y - 8, shorten(node.title, 17), ha="center", va="center", fontsize=11.5 * points, zorder=3)
    axes.text(
        x, y + 10, shorten(node.about, 21), ha="center", va="center", fontsize=9.5 * points, color="#444444", zorder=3
    )
