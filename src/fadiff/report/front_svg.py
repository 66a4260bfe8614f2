"""A front as a picture of its own: points, and below them the line that is proven; plain SVG, the same bytes each time.

The latency goes from left to right, the energy upwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, log10
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from fadiff.analysis.front import border
from fadiff.report.figures.style import BLUE, INK, RED

if TYPE_CHECKING:
    from fadiff.analysis.front import Point
    from fadiff.search.pareto import Front

WIDTH, HEIGHT = 640.0, 420.0
LEFT, RIGHT, TOP, BOTTOM = 84.0, 24.0, 40.0, 56.0
"""Margins around the axes, in pixels."""
ROOM = 0.08
"""Share of the range of an axis that stays free on either side."""
MOST_TICKS = 6


def front_svg(front: Front) -> str:
    """The picture of a front."""
    points = [(one.cycles, one.energy_pj * 1e-6) for one in front.points]
    line = border(front)
    schedule = front.points[0].schedule
    across, up = (_Scale([*(p[i] for p in points), *(p[i] for p in line)]) for i in (0, 1))

    def at(point: Point) -> str:
        x = LEFT + across.share(point[0]) * (WIDTH - LEFT - RIGHT)
        return f"{x:.1f},{HEIGHT - BOTTOM - up.share(point[1]) * (HEIGHT - TOP - BOTTOM):.1f}"

    def parts() -> Iterator[str]:
        title = escape(f"{schedule.workload.name} on {schedule.machine.name}")
        yield f'<text x="{LEFT}" y="22" font-size="14">{title}: energy against latency</text>'
        for value in across.ticks:
            x, y = at((value, up.low)).split(",")
            yield f'<path d="M{x},{y}V{TOP}" stroke="#DDDDDD" stroke-width="0.5"/>'
            yield f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:,.10g}</text>'
        for value in up.ticks:
            x, y = at((across.low, value)).split(",")
            yield f'<path d="M{x},{y}H{WIDTH - RIGHT}" stroke="#DDDDDD" stroke-width="0.5"/>'
            yield f'<text x="{LEFT - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{value:,.10g}</text>'
        yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 14}" text-anchor="end">latency [cycles]</text>'
        yield f'<text x="{LEFT - 8}" y="{TOP - 6}" text-anchor="end">energy [µJ]</text>'
        if line:
            told = "<title>no schedule is below this line</title>"
            yield f'<path d="M{" L".join(map(at, line))}" fill="none" stroke="{RED}" stroke-width="1.5">{told}</path>'
            place = f'x="{WIDTH - RIGHT}" y="{TOP - 6}" text-anchor="end" fill="{RED}"'
            yield f"<text {place}>no schedule is below the red line</text>"
        yield f'<path d="M{" L".join(map(at, points))}" fill="none" stroke="{BLUE}" stroke-dasharray="3 3"/>'
        for number, point in enumerate(points, start=1):
            x, y = at(point).split(",")
            told = f"<title>{number}: {point[0]:,.0f} cycles, {point[1]:,.4g} µJ</title>"
            yield f'<circle cx="{x}" cy="{y}" r="4" fill="{BLUE}">{told}</circle>'
            yield f'<text x="{float(x) + 6:.1f}" y="{float(y) - 6:.1f}" font-size="10">{number}</text>'

    size = f'width="{WIDTH:g}" height="{HEIGHT:g}" viewBox="0 0 {WIDTH:g} {HEIGHT:g}"'
    # As wide as a narrow window, where it is one.
    style = f'style="max-width: 100%; height: auto" font-family="sans-serif" font-size="11" fill="{INK}"'
    inner = "\n".join(parts())
    ground = '<rect width="100%" height="100%" fill="white" stroke="none"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{ground}\n{inner}\n</svg>\n'


class _Scale:
    """An axis from a little below the least value to a little above the largest."""

    def __init__(self, values: list[float]) -> None:
        span = max(values) - min(values) or 0.1 * max(values)
        self.low, self.high = min(values) - ROOM * span, max(values) + ROOM * span

    def share(self, value: float) -> float:
        """Where a value is between the ends."""
        return (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """Round values in between."""
        rough = (self.high - self.low) / MOST_TICKS
        power = 10.0 ** floor(log10(rough))
        step = next(power * part for part in (1, 2, 5, 10) if power * part >= rough)
        first = -(-self.low // step)
        return [step * (first + i) for i in range(MOST_TICKS + 1) if step * (first + i) <= self.high]
