"""Charts of a sweep as plain SVG: what each machine costs, what a number of the machine buys, energy against latency.

Colours are those of the page's theme, and every mark has a title, which browsers show and screen readers read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

from fadiff.analysis.units import count_text
from fadiff.workload.names import shorten

WIDTH, LINE_HEIGHT, NAMES, MARGIN = 860.0, 20.0, 300.0, 40.0
"""Pixels: a chart, a line of it, the names before it, and what is free at its edges."""
PLOT_HEIGHT = 260.0
TONES = 8
"""Colours of the theme, `g0` and so on."""
NAME_CHARACTERS = 44


class Mark(NamedTuple):
    """A point of a chart."""

    x: float
    y: float
    series: str
    title: str


class Scale(NamedTuple):
    """Values to pixels, by their logarithm."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float) -> Scale:
        """A scale that has room for values, which are positive."""
        found = [*values]
        low, high = min(found), max(found)
        room = max((high / low) ** 0.05, 1.01)
        return cls(low / room, high * room, start, end)

    def at(self, value: float) -> float:
        """The pixel of a value."""
        share = log10(value / self.low) / log10(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round numbers within the scale, a few of them.

        >>> Scale(0.9, 12, 0, 100).ticks(), Scale(1.0, 1.31, 0, 100).ticks()
        ([1.0, 2.0, 5.0, 10.0], [1.0, 1.1, 1.2, 1.3])
        """
        decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        found = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
        within = [value for value in found if self.low <= value <= self.high]
        if len(within) < 3:
            step = 10.0 ** floor(log10(self.high - self.low))
            step = next(step / part for part in (1, 2, 5, 10) if (self.high - self.low) * part / step >= 3)
            first = ceil(self.low / step - 1e-9)
            within = [round(i * step, 12) for i in range(first, floor(self.high / step + 1e-9) + 1)]
        return within[:: ceil(len(within) / 8)]


def lines_chart(about: str, axis: str, marks: Sequence[Mark], names: Sequence[str]) -> str:
    """A line for each name, with marks along it; `y` of a mark is the number of its line."""
    height = LINE_HEIGHT * len(names) + 2 * MARGIN
    scale = Scale.over((mark.x for mark in marks), NAMES, WIDTH - MARGIN)
    bottom = height - MARGIN
    parts = _across(scale, MARGIN / 2, bottom, axis)
    for i, name in enumerate(names):
        y = MARGIN / 2 + LINE_HEIGHT * (i + 0.5)
        parts.append(f'<line class="row" x1="{NAMES:.1f}" x2="{WIDTH - MARGIN:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        told = f"<title>{escape(name)}</title>{escape(shorten(name, NAME_CHARACTERS))}"
        parts.append(f'<text x="{NAMES - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{told}</text>')
    placed = [mark._replace(x=scale.at(mark.x), y=MARGIN / 2 + LINE_HEIGHT * (mark.y + 0.5)) for mark in marks]
    return _svg(about, height, parts, placed)


def points_chart(
    about: str, axes: tuple[str, str], marks: Sequence[Mark], *, named: Mapping[float, str] | None = None
) -> str:
    """Points over two axes. Where values across have names, points of a series are joined, from left to right."""
    across = Scale.over((mark.x for mark in marks), 2 * MARGIN, WIDTH - MARGIN)
    up = Scale.over((mark.y for mark in marks), PLOT_HEIGHT - MARGIN, MARGIN / 2)
    parts = _across(across, up.end, up.start, axes[0], named)
    for value in up.ticks():
        y = up.at(value)
        parts.append(f'<line class="grid" x1="{across.start}" x2="{across.end}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{across.start - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{count_text(value)}</text>')
    turned = f'transform="rotate(-90)" x="{-(up.start + up.end) / 2:.1f}" y="14" text-anchor="middle"'
    parts.append(f'<text class="axis" {turned}>{escape(axes[1])}</text>')
    placed = [mark._replace(x=across.at(mark.x), y=up.at(mark.y)) for mark in marks]
    if named:
        for series in dict.fromkeys(mark.series for mark in placed):
            mine = sorted((mark.x, mark.y) for mark in placed if mark.series == series)
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in mine)
            parts.append(f'<polyline class="{tone(series, marks)}" points="{points}"/>')
    return _svg(about, PLOT_HEIGHT, parts, placed)


def tone(series: str, marks: Sequence[Mark]) -> str:
    """The class that colours a series: its number among those of a chart."""
    return f"g{list(dict.fromkeys(mark.series for mark in marks)).index(series) % TONES}"


def legend(marks: Sequence[Mark]) -> str:
    """The series of a chart with their colours; nothing for a single one."""
    names = list(dict.fromkeys(mark.series for mark in marks))
    shown = (f'<span class="key {tone(name, marks)}">{escape(name)}</span>' for name in names)
    return f'<p class="legend">{"".join(shown)}</p>' if len(names) > 1 else ""


def _across(scale: Scale, top: float, bottom: float, axis: str, named: Mapping[float, str] | None = None) -> list[str]:
    parts: list[str] = []
    for value, name in (named or {tick: count_text(tick) for tick in scale.ticks()}).items():
        x = scale.at(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 14:.1f}" text-anchor="middle">{escape(name)}</text>')
    middle = (scale.start + scale.end) / 2
    parts.append(
        f'<text class="axis" x="{middle:.1f}" y="{bottom + 30:.1f}" text-anchor="middle">{escape(axis)}</text>'
    )
    return parts


def _svg(about: str, height: float, parts: Sequence[str], placed: Sequence[Mark]) -> str:
    dots = (
        f'<circle class="{tone(mark.series, placed)}" cx="{mark.x:.1f}" cy="{mark.y:.1f}" r="4.5">'
        f"<title>{escape(mark.title)}</title></circle>"
        for mark in placed
    )
    size = f'viewBox="0 0 {WIDTH:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{escape(about)}</title>'
    return f"{head}{''.join(parts)}{''.join(dots)}</svg>"
