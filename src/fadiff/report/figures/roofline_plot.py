"""The roofline: what each layer attains against what the first memory and the multipliers allow."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fadiff.analysis.roofline import Roofline, RooflinePoint, roofline
from fadiff.report.figures.style import (
    FAINT,
    INK,
    POINTS_PER_INCH,
    SMALL,
    legend_above,
    new_figure,
    term_colours,
    term_handles,
)
from fadiff.workload.names import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import BboxBase

    from fadiff.cost.evaluate import Evaluation

MOST_LABELS = 12
"""Spots that are named: those that take most of the time, where there is room."""
SMALLEST, LARGEST, STAR = 12.0, 500.0, 90.0
"""Areas of points of no time, of points of all of it, and of the star, in square points."""


def roofline_figure(evaluation: Evaluation) -> Figure:
    """MACs per cycle against MACs per byte of the first memory; areas of points are shares of the time."""
    from matplotlib.lines import Line2D

    numbers, first = roofline(evaluation), evaluation.schedule.machine.nodes[0].name
    figure = new_figure(4.8, 3.4)
    axes = figure.add_subplot()
    low, high = _limits(numbers)
    untouched = any(point.macs_per_byte[0] is None for point in numbers.points)
    right = high * 2 if untouched else high
    roof, rate = numbers.peak_macs_per_cycle, numbers.roofs[0].bytes_per_cycle
    slowest = min((point.attained_macs_per_cycle for point in numbers.points), default=1.0)
    slope = [] if rate is None else [(low, low * rate), (roof / rate, roof)]
    xs, ys = zip(*(slope or [(low, roof)]), (right, roof), strict=True)
    axes.set(xscale="log", yscale="log", xlim=(low, right))
    axes.set_ylim(min(slowest, *ys) / 2, roof * 2.5)
    axes.set(xlabel=f"operational intensity [MACs per byte of {shorten(first, 16)}]")
    axes.set(ylabel="performance [MACs per cycle]")
    axes.grid(which="major")
    axes.plot(xs, ys, color=INK, linewidth=1.1, zorder=2)
    peak = f"{roof:,} multipliers"
    told = axes.annotate(peak, (right, roof), (-2, 9), "data", "offset points", ha="right", fontsize=SMALL)
    if untouched:
        axes.axvline(high, color=FAINT, linewidth=0.6, linestyle=":")
        below = axes.get_ylim()[0]
        axes.annotate("none", (_beyond(high), below), (0, 3), "data", "offset points", ha="center", fontsize=SMALL)
    spots, colours = _spots(numbers, high), term_colours(evaluation)
    for spot in spots:
        axes.scatter(
            *spot.place,
            s=spot.area,
            color=colours[spot.bound_by],
            alpha=0.8,
            edgecolor="white",
            linewidth=0.5,
            zorder=3,
        )
    intensity = numbers.network.macs_per_byte[0]
    mean = (intensity, numbers.network.attained_macs_per_cycle) if intensity else None
    if mean:
        axes.scatter(*mean, marker="*", s=STAR, color=INK, zorder=4)
    handles = term_handles(evaluation, {point.bound_by for point in numbers.points})
    legend_above(axes, [*handles, Line2D([], [], marker="*", markersize=7, linestyle="", color=INK, label="network")])
    figure.draw_without_rendering()
    marks = [(spot.place, spot.area) for spot in spots] + ([(mean, STAR)] if mean else [])
    covered = [told.get_window_extent(), *_along_roof(axes, xs, ys), *(_around(axes, *mark) for mark in marks)]
    _name_spots(axes, spots, covered)
    return figure


class _Spot(NamedTuple):
    """Layers that stand at the same place and are bound by the same term."""

    place: tuple[float, float]
    bound_by: str
    names: tuple[str, ...]
    share: float

    @property
    def area(self) -> float:
        return SMALLEST + (LARGEST - SMALLEST) * self.share

    @property
    def label(self) -> str:
        others = len(self.names) - 1
        return shorten(self.names[0], 16) + (f" +{others}" if others else "")


def _limits(numbers: Roofline) -> tuple[float, float]:
    rate = numbers.roofs[0].bytes_per_cycle
    known = [point.macs_per_byte[0] for point in numbers.points if point.macs_per_byte[0] is not None]
    known.append(1.0 if rate is None else numbers.peak_macs_per_cycle / rate)
    return min(known) / 2, max(known) * 2


def _beyond(high: float) -> float:
    """Where layers stand that do not touch the memory: right of all others."""
    return high * sqrt(2)


def _spots(numbers: Roofline, high: float) -> list[_Spot]:
    """Points by place, to a percent, the largest first so that small ones lie on top."""
    together: dict[tuple[int, int, str], list[RooflinePoint]] = {}
    for point in numbers.points:
        x = point.macs_per_byte[0] or _beyond(high)
        key = round(100 * np.log(x)), round(100 * np.log(point.attained_macs_per_cycle)), point.bound_by
        together.setdefault(key, []).append(point)
    spots: list[_Spot] = []
    for (*_, bound_by), points in together.items():
        most = max(points, key=lambda point: point.share_of_cycles)
        place = most.macs_per_byte[0] or _beyond(high), most.attained_macs_per_cycle
        names = (most.layer, *(point.layer for point in points if point is not most))
        spots.append(_Spot(place, bound_by, names, sum(point.share_of_cycles for point in points)))
    return sorted(spots, key=lambda spot: -spot.share)


def _along_roof(axes: Axes, xs: Sequence[float], ys: Sequence[float]) -> list[BboxBase]:
    """Small boxes along the roof, which names shall not cover."""
    from matplotlib.transforms import Bbox

    corners = axes.transData.transform(np.column_stack([xs, ys]))
    lengths = [0.0, *np.cumsum(np.hypot(*np.diff(corners, axis=0).T))]
    steps = np.arange(0, lengths[-1], 4)
    pixels = np.column_stack([np.interp(steps, lengths, corners[:, axis]) for axis in (0, 1)])
    return [Bbox.from_extents(x - 2, y - 2, x + 2, y + 2) for x, y in pixels]


def _around(axes: Axes, place: tuple[float, float], area: float) -> BboxBase:
    """The square, in pixels, around a mark of an area in square points."""
    from matplotlib.transforms import Bbox

    figure = axes.get_figure(root=True)
    assert figure is not None, "axes are made by a figure"
    radius = sqrt(area) / 2 * figure.dpi / POINTS_PER_INCH
    x, y = axes.transData.transform(place)
    return Bbox.from_extents(x - radius, y - radius, x + radius, y + radius)


def _name_spots(axes: Axes, spots: list[_Spot], covered: list[BboxBase]) -> None:
    """Names beside the largest spots, where they cover no other name, no mark and no line."""
    inside = axes.get_window_extent()
    for spot in spots[:MOST_LABELS]:
        reach = sqrt(spot.area) / 2 + 2
        for dx, dy, ha, va in (
            (reach, 0.0, "left", "center"),
            (-reach, 0.0, "right", "center"),
            (0.0, -reach, "center", "top"),
            (0.0, reach, "center", "bottom"),
            (0.7 * reach, -0.7 * reach, "left", "top"),
            (-0.7 * reach, 0.7 * reach, "right", "bottom"),
        ):
            where: dict[str, Any] = {"ha": ha, "va": va, "fontsize": SMALL - 0.5}
            label = axes.annotate(spot.label, spot.place, (dx, dy), "data", "offset points", **where)
            box = label.get_window_extent()
            if inside.x0 <= box.x0 and box.x1 <= inside.x1 and not any(box.overlaps(other) for other in covered):
                covered.append(box)
                break
            label.remove()
