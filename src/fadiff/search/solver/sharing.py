"""Shared trip counts in boxes, and which tiles a layer of a group can have under them.

All layers of a group share the same trips. The tiles of its last layer follow from them, those of the others from
their consumers' tiles (:mod:`fadiff.schedule.tiling`). Which layers come after one in its group is not known here, so
a number of trips leaves a range of tiles.
"""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from fadiff.schedule.ir import SHARED_LOOPS
from fadiff.schedule.tiling import IMAGE, shared_dim
from fadiff.search.solver.grid import Cells
from fadiff.search.solver.place import sharable
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from jaxtyping import Float

    from fadiff.search.solver.place import Fused, Links, Place
    from fadiff.workload import Layer

Box = tuple[tuple[int, int], ...]
"""Trips of the shared loops G, N, P, Q and X, each from so many to so many."""
Range = tuple["Float[np.ndarray, ' trips']", "Float[np.ndarray, ' trips']"]
"""By number of trips: the least and the largest tile, inf and 0 where there is none."""


def halves(box: Box, loop: int, after: int | None = None) -> tuple[Box, Box]:
    """A box in two: up to so many trips of a loop, near the geometric mean unless stated, and more."""
    low, high = box[loop]
    middle = min(isqrt(low * high), high - 1) if after is None else after
    first, second = ((*box[:loop], ends, *box[loop + 1 :]) for ends in ((low, middle), (middle + 1, high)))
    return first, second


class Tilings:
    """The tiles that the layers of a network can have in groups."""

    def __init__(self, links: Links, *, exact: bool = False) -> None:
        """With `exact`, trips must divide what they cut."""
        self.workload = workload = links.workload
        self._exact = exact
        self._links = {
            (edge.source, edge.target): (sharable(workload, links.machine, edge), edge.port)
            for edge in workload.edges
            if (edge.source, edge.target) in links.passed
        }
        self._targets = {layer.name: [b for a, b in self._links if a == layer.name] for layer in workload.layers}
        self._any: dict[tuple[str, str], Range] = {}
        self._known: dict[tuple[str, str, frozenset[str]], Range] = {}
        self._trips = {loop: np.arange(1, most + 1, dtype=np.float64) for loop, most in self._most_trips().items()}
        for name in reversed(workload.topological):
            for loop in IMAGE:
                ranges = [self._ends(name, loop)]
                ranges += [self._asked(name, c, loop) for c in self._targets[name] if loop in self._links[name, c][0]]
                self._any[name, loop] = _joined(ranges)

    def _most_trips(self) -> dict[str, int]:
        """Of each loop, what any layer could share."""
        sizes = {d: max(layer.dims[i] for layer in self.workload.layers) for i, d in enumerate(DIMS)}
        channels = [self.workload[name].dims.C for (_, name), (loops, _) in self._links.items() if "X" in loops]
        return {loop: max(channels, default=1) if loop == "X" else sizes[loop] for loop in SHARED_LOOPS}

    @property
    def everything(self) -> list[Box]:
        """All trips that groups may share, in boxes that part one trip of a loop from more."""
        boxes: list[Box] = [()]
        for loop in SHARED_LOOPS:
            most = len(self._trips[loop])
            ends = [(1, 1), (2, most)] if most > 1 else [(1, 1)]
            boxes = [(*box, end) for box in boxes for end in ends]
        return boxes

    def tile(self, layer: Layer, fused: Fused, place: Place, box: Box) -> tuple[Cells, ...] | None:
        """The tiles of a layer in a place under some trips, by dim; None where there are none."""
        found = [Cells((size,), (size,)) for size in layer.dims]
        for loop, (low, high) in zip(SHARED_LOOPS, box, strict=True):
            if high == 1:
                continue
            d = self.dim(layer, fused, loop)
            least, most = (tiles[low - 1 : high] for tiles in self._tiles(layer, fused, loop))
            if d not in place.cut or not np.isfinite(least).any():
                return None
            found[d] = Cells((int(least.min()),), (int(most.max()),))
        return tuple(found)

    def dim(self, layer: Layer, fused: Fused, loop: str) -> int:
        """The dim of a layer that a shared loop is a part of."""
        return DIMS.index(shared_dim(loop, first=bool(self._inside(layer, fused))))

    def trips(self, layer: Layer, fused: Fused, box: Box, number: int, tile: Cells) -> tuple[int, int]:
        """From how many to how many trips of a loop of the box a layer's tile can be in a cell."""
        low, high = box[number]
        least, most = self._tiles(layer, fused, SHARED_LOOPS[number])
        found = np.flatnonzero((least <= tile.high[0]) & (most >= tile.low[0])) + 1
        found = found[(found >= low) & (found <= high)]
        return (int(found[0]), int(found[-1])) if found.size else (low, high)

    def _tiles(self, layer: Layer, fused: Fused, loop: str) -> Range:
        """The tiles of a layer by number of trips; all consumers of a group ask for the same."""
        consumers = self._inside(layer, fused)
        key = layer.name, loop, consumers
        if key not in self._known:
            if loop not in IMAGE:
                ranges = [self._even(layer.dims[self.dim(layer, fused, loop)], loop)]
            elif consumers:
                ranges = [self._asked(layer.name, name, loop) for name in sorted(consumers)]
            else:
                ranges = [self._ends(layer.name, loop)]
            least, most = np.max([low for low, _ in ranges], axis=0), np.min([high for _, high in ranges], axis=0)
            there = least <= most
            self._known[key] = np.where(there, least, np.inf), np.where(there, most, 0.0)
        return self._known[key]

    def _inside(self, layer: Layer, fused: Fused) -> frozenset[str]:
        """Consumers in a layer's group."""
        return frozenset(name for name in self._targets[layer.name] if (layer.name, name) in fused)

    def _even(self, size: int, loop: str) -> Range:
        """Tiles of ceil(size/trips)."""
        trips = self._trips[loop]
        tile = np.ceil(size / trips)
        there = tile * trips == size if self._exact else (trips - 1) * tile < size
        return np.where(there, tile, np.inf), np.where(there, tile, 0.0)

    def _ends(self, name: str, loop: str) -> Range:
        """Tiles of the last layer of a group."""
        return self._even(self.workload[name].dims[DIMS.index(loop)], loop)

    def _asked(self, name: str, consumer: str, loop: str) -> Range:
        """Tiles of a layer that follow from those of a consumer: ceil(min(P', stride * tile) * P/P')."""
        layer, axis = self.workload[name], IMAGE.index(loop)
        stride = self.workload[consumer].stride[axis] if self._links[name, consumer][1] == "input" else 1
        computed, stored = layer.dims[DIMS.index(loop)], layer.stored[axis]
        least, most = self._any[consumer, loop]
        there = most > 0
        low, high = (
            np.ceil(np.minimum(stored, stride * np.where(there, t, 1)) * computed / stored) for t in (least, most)
        )
        return np.where(there, low, np.inf), np.where(there, high, 0.0)


def _joined(ranges: list[Range]) -> Range:
    return np.min([low for low, _ in ranges], axis=0), np.max([high for _, high in ranges], axis=0)
