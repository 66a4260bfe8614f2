"""The roofline: what each layer attains against what DRAM and the array allow."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fadiff.next.report.figures.style import (
    FAINT,
    INK,
    POINTS_PER_INCH,
    SMALL,
    TERM_COLOURS,
    legend_above,
    new_figure,
    term_handles,
)
from fadiff.next.report.labels import shorten
from fadiff.next.analysis.roofline import Roofline, RooflinePoint, roofline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import BboxBase

    from fadiff.next.cost.evaluate import Evaluation

MOST_LABELS = 12
"""Spots that are named: those that take most of the time, where there is room."""
SMALLEST, LARGEST, STAR = 12.0, 500.0, 90.0
"""Areas of points of no time, of points of all of it, and of the star, in square points."""


def roofline_figure(evaluation: Evaluation) -> Figure:
    """MACs per cycle against MACs per DRAM word; areas of points are shares of the time."""
    from matplotlib.lines import Line2D

    numbers = roofline(evaluation)
    figure = new_figure(4.8, 3.4)
    axes = figure.add_subplot()
    low, high = _limits(numbers)
    on_chip = any(point.macs_per_l3_word is None for point in numbers.points)
    right = high * 2 if on_chip else high
    roof = numbers.peak_macs_per_cycle
    slowest = min((point.attained_macs_per_cycle for point in numbers.points), default=1.0)
    axes.set(xscale="log", yscale="log", xlim=(low, right))
    axes.set_ylim(min(slowest, low * numbers.l3_words_per_cycle) / 2, roof * 2.5)
    axes.set(xlabel="operational intensity [MACs per DRAM word]", ylabel="performance [MACs per cycle]")
    axes.grid(which="major")
    corners = [low, numbers.ridge_macs_per_word, right], [low * numbers.l3_words_per_cycle, roof, roof]
    axes.plot(*corners, color=INK, linewidth=1.1, zorder=2)
    told = axes.annotate(f"{roof:,} PEs", (right, roof), (-2, 9), "data", "offset points", ha="right", fontsize=SMALL)
    if on_chip:
        axes.axvline(high, color=FAINT, linewidth=0.6, linestyle=":")
        below = axes.get_ylim()[0]
        axes.annotate("no DRAM", (_beyond(high), below), (0, 3), "data", "offset points", ha="center", fontsize=SMALL)
    spots = _spots(numbers, high)
    for spot in spots:
        colour = TERM_COLOURS[spot.bound_by]
        axes.scatter(*spot.place, s=spot.area, color=colour, alpha=0.8, edgecolor="white", linewidth=0.5, zorder=3)
    network = numbers.network
    if network.macs_per_l3_word:
        mean = (network.macs_per_l3_word, network.attained_macs_per_cycle)
        axes.scatter(*mean, marker="*", s=STAR, color=INK, zorder=4)
    handles = term_handles({point.bound_by for point in numbers.points})
    legend_above(axes, [*handles, Line2D([], [], marker="*", markersize=7, linestyle="", color=INK, label="network")])
    figure.draw_without_rendering()
    covered = [told.get_window_extent(), *_along_roof(axes, *corners)]
    if network.macs_per_l3_word:
        covered.append(_around(axes, (network.macs_per_l3_word, network.attained_macs_per_cycle), STAR))
    covered += [_around(axes, spot.place, spot.area) for spot in spots]
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
    known = [point.macs_per_l3_word for point in numbers.points if point.macs_per_l3_word is not None]
    return min([*known, numbers.ridge_macs_per_word]) / 2, max([*known, numbers.ridge_macs_per_word]) * 2


def _beyond(high: float) -> float:
    """Where layers stand that touch no DRAM: right of all others."""
    return high * sqrt(2)


def _spots(numbers: Roofline, high: float) -> list[_Spot]:
    """Points by place, to a percent, the largest first so that small ones lie on top."""
    together: dict[tuple[int, int, str], list[RooflinePoint]] = {}
    for point in numbers.points:
        x = point.macs_per_l3_word or _beyond(high)
        key = round(100 * np.log(x)), round(100 * np.log(point.attained_macs_per_cycle)), point.bound_by
        together.setdefault(key, []).append(point)
    spots: list[_Spot] = []
    for (*_, bound_by), points in together.items():
        most = max(points, key=lambda point: point.share_of_cycles)
        place = most.macs_per_l3_word or _beyond(high), most.attained_macs_per_cycle
        names = (most.layer, *(point.layer for point in points if point is not most))
        spots.append(_Spot(place, bound_by, names, sum(point.share_of_cycles for point in points)))
    return sorted(spots, key=lambda spot: -spot.share)


def _along_roof(axes: Axes, xs: list[float], ys: list[float]) -> list[BboxBase]:
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
