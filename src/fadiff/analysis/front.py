"""What there is to say about a front: the numbers of its points, and the line that is proven below them."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fadiff.search.pareto import Front

Point = tuple[float, float]
"""Cycles and uJ."""
Row = dict[str, str | int | float | None]


def front_rows(front: Front) -> list[Row]:
    """The numbers of each point, from the fastest on."""
    rows: list[Row] = []
    for number, point in enumerate(front.points, start=1):
        low, high = front.prices(point) or (None, None)
        rows.append(
            {
                "point": number,
                "file": f"point-{number:02}.schedule.json",
                **point.stated().model_dump(),
                "gap": front.gap(point),
                "cheapest_from_pj_per_cycle": low,
                "cheapest_to_pj_per_cycle": None if high == inf else high,
                "edges_fused": len(point.schedule.fused_edges),
            }
        )
    return rows


def border(front: Front) -> list[Point]:
    """The proven line, as far as the points reach; empty where nothing is proven.

    Above its first corner it runs straight up, behind its last one to the right.
    """
    if front.bound is None:
        return []
    corners = [(cycles, energy_pj * 1e-6) for energy_pj, cycles in front.bound.corners]
    slowest, dearest = front.points[-1].cycles, front.points[0].energy_pj * 1e-6
    # Both ends of it are clipped in the same way: one of them is seen with the axes changed.
    line = _clipped([*corners, (max(slowest, corners[-1][0]), corners[-1][1])], slowest)
    turned = [(y, x) for x, y in reversed([(line[0][0], max(dearest, line[0][1])), *line])]
    return [(x, y) for y, x in reversed(_clipped(turned, dearest))]


def _clipped(line: list[Point], most: float) -> list[Point]:
    """A line that goes to the right, up to a place; its first point stays."""
    found = line[:1]
    for (x0, y0), (x1, y1) in pairwise(line):
        if x0 < most:
            share = 1.0 if x1 <= most else (most - x0) / (x1 - x0)
            found.append((x0 + share * (x1 - x0), y0 + share * (y1 - y0)))
    return found
