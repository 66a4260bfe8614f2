"""Rows: ranks wrap like the words of a text, where few tensors cross the break and groups stay together."""

from collections.abc import Mapping, Sequence
from math import inf

from fadiff.report.layout.graph import Graph
from fadiff.report.layout.ranks import Cell

CROSSING_TENSOR = 0.15
CUT_GROUP = 0.10
LAST_ROW = 0.3
"""What a break costs, beside the square of the share of the row that it leaves empty; the last row may be shorter."""


def wrap(graph: Graph, cells: Mapping[str, Cell], widths: Sequence[float], gap: float, room: float) -> list[int]:
    """The first rank of each row, so that rows of at most `room` cost least; a rank that is wider has its own row.

    `widths` are those of the ranks, `gap` is left between them.
    """
    price = _break_prices(graph, cells, len(widths))
    best = [0.0, *[inf] * len(widths)]
    begin = [0] * (len(widths) + 1)
    for stop in range(1, len(widths) + 1):
        used = -gap
        for start in range(stop - 1, -1, -1):
            used += widths[start] + gap
            if used > room and start < stop - 1:
                break
            empty = max(0.0, 1 - used / room) ** 2
            cost = best[start] + (LAST_ROW * empty if stop == len(widths) else empty + price[stop])
            if cost < best[stop]:
                best[stop], begin[stop] = cost, start
    firsts: list[int] = []
    stop = len(widths)
    while stop:
        stop = begin[stop]
        firsts.append(stop)
    return firsts[::-1]


def _break_prices(graph: Graph, cells: Mapping[str, Cell], ranks: int) -> list[float]:
    """What it costs to begin a row at each rank: the first tensor that crosses is free."""
    crossing: list[set[str]] = [set() for _ in range(ranks)]
    cut: list[set[int]] = [set() for _ in range(ranks)]
    for link in graph.links:
        for rank in range(cells[link.source].rank + 1, cells[link.target].rank + 1):
            crossing[rank].add(link.source)
            if link.fused:
                cut[rank].add(graph.by_name[link.source].group)
    return [
        CROSSING_TENSOR * max(0, len(tensors) - 1) + CUT_GROUP * len(groups)
        for tensors, groups in zip(crossing, cut, strict=True)
    ]
