"""Sets of layers that may be groups, and in which order a network can be made of them.

A group is a set of layers with one sink that all others feed, and no path leaves it and comes back. Such sets are
grown against the flow of data, from each sink. What may have run before a group begins is a *downset*: with every
layer all of its producers. A schedule is a path through downsets, one group a step.

Layers are numbered in topological order, and a set of them is a whole number with a bit for each.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fadiff.workload import Workload

MOST_SETS = 8192
"""Sets that are grown at most: in networks of hundreds of layers groups stay shorter."""
MOST_DOWNSETS = 4096
MOST_AHEAD = (8, 4, 2, 1, 0)
"""Layers that may have run before an earlier one has; fewer where there would be too many downsets."""


class Graph:
    """Which layers follow from which."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.names = workload.topological
        depth = workload.depth
        self.producers = [_bits(depth[edge.source] for edge in workload.producers[name]) for name in self.names]
        self.consumers = [_bits(depth[edge.target] for edge in workload.consumers[name]) for name in self.names]
        self.before = [0] * len(self.names)
        """All that a layer follows from."""
        for i, direct in enumerate(self.producers):
            self.before[i] = direct
            for producer in _members(direct):
                self.before[i] |= self.before[producer]
        self.after = [0] * len(self.names)
        """All that follows from a layer."""
        for i in reversed(range(len(self.names))):
            self.after[i] = self.consumers[i]
            for consumer in _members(self.consumers[i]):
                self.after[i] |= self.after[consumer]

    def number(self, layers: Sequence[str]) -> int:
        """A set of layers as a number."""
        return _bits(self.workload.depth[name] for name in layers)

    @staticmethod
    def members(number: int) -> list[int]:
        """The numbers of the layers of a set, in topological order."""
        return _members(number)

    def layers(self, number: int) -> tuple[str, ...]:
        """The layers of a set, in topological order."""
        return tuple(self.names[i] for i in _members(number))


class Growing:
    """Sets with one sink, by size; those first that leave out no layer between their first and their last.

    A producer of a set may join it if none of its consumers outside leads back into the set. Every set with one sink
    that no path leaves and enters again is reached in this way.
    """

    def __init__(self, workload: Workload, may_become: Callable[[Sequence[str]], bool] = bool) -> None:
        """`may_become` tells whether a set, or a larger one, is asked for."""
        self.graph = Graph(workload)
        self._may_become = may_become
        self._open = [(0, 1, 1 << i) for i in range(len(self.graph.names))]
        self._met = {number for *_, number in self._open}
        can = {(edge.source, edge.target) for edge in workload.edges if self._may_fuse(edge.source, edge.target)}
        can -= {(edge.source, edge.target) for edge in workload.edges if not edge.fusible}
        depth = workload.depth
        self._fusible = [
            _bits(depth[edge.source] for edge in workload.producers[name] if (edge.source, name) in can)
            for name in self.graph.names
        ]
        """Producers that a layer may share a group with."""

    def _may_fuse(self, source: str, target: str) -> bool:
        return self.graph.workload[source].repeat == self.graph.workload[target].repeat

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Sets, from single layers on; one that was handed out and is not told to grow ends there."""
        for _ in range(MOST_SETS + len(self.graph.names)):
            if not self._open:
                return
            *_, number = heapq.heappop(self._open)
            yield self.graph.layers(number)

    def grow(self, layers: Sequence[str]) -> list[tuple[str, ...]]:
        """Let producers join a set; the new sets, which are handed out later."""
        found: list[tuple[str, ...]] = []
        graph, number = self.graph, self.graph.number(layers)
        joinable = 0
        for member in _members(number):
            joinable |= self._fusible[member]
        for producer in _members(joinable & ~number):
            outside = graph.consumers[producer] & ~number
            leads_back = any(graph.after[consumer] & number for consumer in _members(outside))
            wanted = number | 1 << producer
            # All its edges into the set are inside the group then, and so must be fusible.
            inside = _members(graph.consumers[producer] & number)
            if leads_back or wanted in self._met or not all(self._fusible[c] >> producer & 1 for c in inside):
                continue
            self._met.add(wanted)
            if not self._may_become(graph.layers(wanted)):
                continue
            size = wanted.bit_count()
            first, last = (wanted & -wanted).bit_length(), wanted.bit_length()
            heapq.heappush(self._open, (last - first + 1 - size, size, wanted))
            found.append(graph.layers(wanted))
        return found


class Downsets:
    """What may have run when a group begins or ends: all layers up to some, and a few further ones.

    As many further ones as keep their number in bounds; without any, groups are runs of neighbours.
    """

    def __init__(self, workload: Workload) -> None:
        self.graph = Graph(workload)
        self.all: list[int] = [0]
        for ahead in MOST_AHEAD:
            found = self._found(ahead)
            if found is not None:
                self.ahead, self.all = ahead, found
                break
        self._known = set(self.all)
        self._by_start: dict[int, list[int]] = {}
        for number in self.all:
            self._by_start.setdefault(_start(number), []).append(number)

    def _found(self, ahead: int) -> list[int] | None:
        """All downsets with at most so many layers ahead, smallest first; None where they are too many."""
        found, last = [0], [0]
        for _ in self.graph.names:
            next_: dict[int, None] = {}
            for number in last:
                start = _start(number)
                for i in range(start, min(len(self.graph.names), start + ahead + 64)):
                    ready = not number >> i & 1 and not self.graph.producers[i] & ~number
                    if ready and (number | 1 << i).bit_count() - _start(number | 1 << i) <= ahead:
                        next_[number | 1 << i] = None
            last = list(next_)
            found += last
            if len(found) > max(MOST_DOWNSETS, len(self.graph.names) + 1):
                return None
        return found

    def steps(self, layers: Sequence[str]) -> list[tuple[int, int]]:
        """From which downsets a group leads to which."""
        number = self.graph.number(layers)
        needed = 0
        for member in _members(number):
            needed |= self.graph.producers[member]
        needed &= ~number
        found: list[tuple[int, int]] = []
        first = _start(~number)
        for start in range(max(0, needed.bit_length() - self.ahead - 64), first + 1):
            for before in self._by_start.get(start, ()):
                if not needed & ~before and not number & before and before | number in self._known:
                    found.append((before, before | number))
        return found


def _start(number: int) -> int:
    """How many layers there are before the first that is missing."""
    return (~number & (number + 1)).bit_length() - 1


def _bits(members: Iterator[int] | Sequence[int]) -> int:
    number = 0
    for member in members:
        number |= 1 << member
    return number


def _members(number: int) -> list[int]:
    """The bits that are set, from the lowest."""
    found: list[int] = []
    while number:
        lowest = number & -number
        found.append(lowest.bit_length() - 1)
        number ^= lowest
    return found
