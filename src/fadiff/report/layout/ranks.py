"""Ranks and lanes: longest-path layering, then lanes by barycenter sweeps that keep chains straight."""

from typing import NamedTuple

from fadiff.report.layout.graph import Graph

SWEEPS = 6
"""Orders of the lanes that are tried; the one with the fewest crossings is kept."""


class Cell(NamedTuple):
    """The place of a layer in the grid, before rows wrap."""

    rank: int
    lane: int


def cells(graph: Graph) -> dict[str, Cell]:
    """A cell for each layer: every edge leads to a higher rank, and no two layers share a cell."""
    rank = _ranks(graph)
    columns: list[list[str]] = [[] for _ in range(1 + max(rank.values()))]
    for name in graph.topological:
        columns[rank[name]].append(name)
    lane = _lanes(graph, columns, rank)
    return {name: Cell(rank[name], lane[name]) for name in graph.topological}


def _ranks(graph: Graph) -> dict[str, int]:
    """The longest path to each layer; one that reads no other layer stands right before its first reader."""
    rank: dict[str, int] = {}
    for name in graph.topological:
        rank[name] = max((rank[edge.source] + 1 for edge in graph.producers[name]), default=0)
    for name in graph.topological:
        if not graph.producers[name]:
            rank[name] = min((rank[edge.target] - 1 for edge in graph.consumers[name]), default=rank[name])
    return rank


def _lanes(graph: Graph, columns: list[list[str]], rank: dict[str, int]) -> dict[str, int]:
    """Lanes, rank by rank: a layer wants the lane of its uppermost producer.

    Where several want the same one, those with the longest way to go come first (those that have no producer, last);
    later sweeps ask where the readers stand instead.
    """
    ahead: dict[str, int] = {}
    for name in reversed(graph.topological):
        ahead[name] = max((ahead[edge.target] + 1 for edge in graph.consumers[name]), default=0)
    turn = {name: float(-ahead[name]) for name in graph.topological}
    depth = {name: i for i, name in enumerate(graph.topological)}
    best: dict[str, int] = {}
    fewest = -1
    for _ in range(SWEEPS):
        lane: dict[str, int] = {}
        for column in columns:
            wanted = {name: min((lane[e.source] for e in graph.producers[name]), default=0) for name in column}
            free = 0
            first = {name: not graph.producers[name] for name in column}
            for name in sorted(column, key=lambda n: (wanted[n], first[n], turn[n], depth[n])):
                lane[name] = max(free, wanted[name])
                free = lane[name] + 1
        crossed = _crossings(graph, rank, lane)
        if fewest < 0 or crossed < fewest:
            best, fewest = lane, crossed
        for name in graph.topological:
            readers = [lane[edge.target] for edge in graph.consumers[name]]
            turn[name] = sum(readers) / len(readers) if readers else float(lane[name])
    return best


def _crossings(graph: Graph, rank: dict[str, int], lane: dict[str, int]) -> int:
    """Pairs of tensors that cross, each in the gap before its reader, where it leaves the lane of its producer."""
    gaps: dict[int, set[tuple[int, int]]] = {}
    for edge in graph.links:
        for at in range(rank[edge.source] + 1, rank[edge.target]):
            gaps.setdefault(at, set()).add((lane[edge.source], lane[edge.source]))
        gaps.setdefault(rank[edge.target], set()).add((lane[edge.source], lane[edge.target]))
    return sum(
        (a[0] - b[0]) * (a[1] - b[1]) < 0
        for segments in gaps.values()
        for ordered in [sorted(segments)]
        for i, a in enumerate(ordered)
        for b in ordered[i + 1 :]
    )
