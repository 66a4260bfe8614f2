"""What a picture of a network shows: a box for every layer, or, of very many layers, boxes for many of them.

Equal blocks that follow each other are drawn once, with one box for all that come again. If that leaves too many boxes,
neighbours in execution order share one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from fadiff.report.labels import shape
from fadiff.schedule.folding import group_kinds
from fadiff.workload.names import shorten

if TYPE_CHECKING:
    from fadiff.schedule import Schedule

MOST_NODES = 400
"""Boxes of a picture: with more of them none could be read."""
LONGEST_PERIOD, FEWEST_TURNS = 64, 3
"""Groups of a block at most, and how often it must come to be drawn once."""
NAME_LENGTH = 10
"""Signs of a name that is one of two in a box."""


class Node(NamedTuple):
    """A box: a layer, or several that are neighbours in execution order."""

    layers: tuple[str, ...]
    title: str
    about: str
    is_sum: bool
    group: int
    """Of its first layer."""

    @property
    def name(self) -> str:
        """Its first layer."""
        return self.layers[0]


class Link(NamedTuple):
    """A line: a tensor, or all of those between the same two boxes."""

    source: str
    """The name of a node."""
    target: str
    fused: bool
    words: int
    """Of the largest tensor."""
    edges: tuple[int, ...]
    """Numbers of the workload's edges."""


@dataclass(frozen=True)
class Graph:
    """Boxes and lines."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    topological: tuple[str, ...]
    """Names of the nodes, each after those it reads."""

    @cached_property
    def producers(self) -> dict[str, list[Link]]:
        """Lines that arrive at each node."""
        arriving: dict[str, list[Link]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            arriving[link.target].append(link)
        return arriving

    @cached_property
    def consumers(self) -> dict[str, list[Link]]:
        """Lines that leave each node."""
        leaving: dict[str, list[Link]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            leaving[link.source].append(link)
        return leaving

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """The nodes by their names."""
        return {node.name: node for node in self.nodes}


def graph_of(schedule: Schedule, most: int = MOST_NODES) -> Graph:
    """The graph of a schedule's network: of all layers, where there are not more than `most`."""
    workload = schedule.workload
    number = {name: i for i, group in enumerate(schedule.groups) for name in group.layers}
    if len(workload.layers) <= most:
        nodes = tuple(_single(schedule, layer.name, number[layer.name]) for layer in workload.layers)
        links = tuple(
            Link(edge.source, edge.target, schedule.is_fused(edge), workload[edge.source].stored_words, (i,))
            for i, edge in enumerate(workload.edges)
        )
        return Graph(nodes, links, workload.topological)
    nodes = tuple(_few(list(_folded(schedule)), most))
    return Graph(nodes, _links(schedule, nodes), tuple(node.name for node in nodes))


def _links(schedule: Schedule, nodes: Sequence[Node]) -> tuple[Link, ...]:
    """The tensors between different nodes; those between the same two that are kept on chip alike make one line."""
    node_of = {name: node.name for node in nodes for name in node.layers}
    found: dict[tuple[str, str, bool], Link] = {}
    for i, edge in enumerate(schedule.workload.edges):
        ends = node_of[edge.source], node_of[edge.target]
        if ends[0] == ends[1]:
            continue
        key = *ends, schedule.is_fused(edge)
        before = found.get(key, Link(*key, 0, ()))
        words = max(before.words, schedule.workload[edge.source].stored_words)
        found[key] = Link(*key, words, (*before.edges, i))
    return tuple(found.values())


def _folded(schedule: Schedule) -> Iterator[Node]:
    """Nodes in execution order: of blocks that come again and again, the first, and one for all others."""
    kinds, at = group_kinds(schedule), 0
    while at < len(kinds):
        period, turns = _repetition(kinds, at)
        for i in range(at, at + period):
            yield from (_single(schedule, name, i) for name in schedule.groups[i].layers)
        if turns > 1:
            rest = range(at + period, at + period * turns)
            names = tuple(name for i in rest for name in schedule.groups[i].layers)
            each = len(names) // (turns - 1)
            block = "1 layer" if each == 1 else f"{each} layers"
            yield Node(names, f"the same {turns - 1:,}×", f"{block} each, {len(names):,}", False, rest[0])
        at += period * turns


def _repetition(kinds: Sequence[int], at: int) -> tuple[int, int]:
    """How many groups from here on make the block that, repeated, covers most, and how often it comes."""
    best = 1, 1
    for period in range(1, min(LONGEST_PERIOD, (len(kinds) - at) // FEWEST_TURNS) + 1):
        stop = at + period
        while stop < len(kinds) and kinds[stop] == kinds[stop - period]:
            stop += 1
        turns = (stop - at) // period
        if turns >= FEWEST_TURNS and period * turns > best[0] * best[1]:
            best = period, turns
    return best


def _few(nodes: Sequence[Node], most: int) -> Iterator[Node]:
    """At most so many nodes, neighbours together."""
    size = -(-len(nodes) // most)
    for at in range(0, len(nodes), size):
        part = nodes[at : at + size]
        if len(part) == 1:
            yield part[0]
            continue
        names = tuple(name for node in part for name in node.layers)
        ends = (shorten(name, NAME_LENGTH) for name in (names[0], names[-1]))
        yield Node(names, " – ".join(ends), f"{len(names):,} layers", False, part[0].group)


def _single(schedule: Schedule, name: str, group: int) -> Node:
    layer = schedule.workload[name]
    about = shape(layer) + (f" ×{layer.repeat}" if layer.repeat > 1 else "")
    return Node((name,), name, about, not layer.is_mac, group)
