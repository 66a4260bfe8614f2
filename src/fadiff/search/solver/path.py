"""What the cheapest way through a chain does: its extents, and where flows close on it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from fadiff.hardware import Axis
from fadiff.search.solver.grid import ONE, Cells
from fadiff.search.solver.steps import lane_steps, loop_steps

if TYPE_CHECKING:
    from fadiff.search.solver.chain import Chain, Way
    from fadiff.search.solver.closing import Closed


class Path:
    """The cheapest way to the full size, walked back."""

    def __init__(self, chain: Chain, way: Way) -> None:
        self.chain = chain
        self.way = way

    @cached_property
    def _steps(self) -> list[tuple[Way, tuple[int, ...]]]:
        """Its steps, from the cheapest end back, with the cell after each."""
        return list(_back(self.way))

    @cached_property
    def extents(self) -> dict[tuple[int, int], int]:
        """By node and dim: the cell of the extents above the node."""
        grid = self.chain.grid
        return {
            (step.node, d): grid.cells[step.node][d].low.index(step.cells[d].low[cell])
            for step, at in self._steps
            if step.node is not None
            for d, cell in enumerate(at)
        }

    @cached_property
    def cells(self) -> list[tuple[Cells, ...]]:
        """By node and dim: the extents above the node, as one cell."""
        known, found = self.extents, list[tuple[Cells, ...]]()
        for node, row in enumerate(self.chain.grid.cells):
            # Where nothing happens at a node, extents are those further out.
            here = (node, 0) in known
            found.append(tuple(cells.one(known[node, d]) for d, cells in enumerate(row)) if here else found[-1])
        return [*found, (ONE,) * 8]

    @property
    def idle(self) -> float:
        """How many more steps there are than the fewest, as a share of these."""
        counts, lanes = self.chain.flows.counts, self.chain.lanes
        axes = [(d, node) for d, node in enumerate(counts.widest_axis) if lanes.high[node, d] > 1]
        return sum(counts.idle(d, self.cells[node + 1][d], self.cells[node][d]).item() for d, node in axes)

    @cached_property
    def closings(self) -> list[Closed]:
        """The flows that close, each in one cell."""
        found: list[Closed] = []
        for step, at in self._steps:
            for flow, place, cells, kept in step.closed:
                inside = tuple(one.one(min(i, len(one) - 1)) for i, one in zip(at, cells, strict=True))
                found.append((flow, place, inside, kept))
        return found

    def early_end(self, d: int) -> int | None:
        """An extent at which a dim is certain to end, and above it others that are certain to be larger, but for the
        first memory's; None where there is none."""
        lanes, found = self.chain.lanes, inf
        for node in reversed(range(1, len(self.chain.nodes))):
            inner, outer = self.cells[node + 1][d], self.cells[node][d]
            if outer.low[0] > found:
                return int(found)
            if isinstance(self.chain.nodes[node], Axis):
                steps = lane_steps(inner, outer, inf, int(lanes.low[node, d]), int(lanes.high[node, d]))
            else:
                steps = loop_steps(inner, outer, inf)
            if not steps.allowed.any():
                found = outer.high[0]
        return None


def _back(way: Way) -> Iterator[tuple[Way, tuple[int, ...]]]:
    """The steps of the cheapest way, back from the cheapest end, with the cell after each."""
    at = [int(i) for i in np.unravel_index(way.values.argmin(), way.values.shape)]
    while way.before:
        step, way = way, way.before[0]
        if len(step.before) > 1:
            way = min(step.before, key=lambda one: one.values[tuple(at)])
        yield step, tuple(at)
        if step.grown is not None:
            d, steps, dearer = step.grown
            line = way.values[tuple(slice(None) if i == d else j for i, j in enumerate(at))]
            line = line if dearer is None else line + dearer[at[d]]
            at[d] = int(np.where(steps.allowed[at[d]], line, inf).argmin())
        if step.picked is not None:
            at = [cells[i] for cells, i in zip(step.picked, at, strict=True)]
