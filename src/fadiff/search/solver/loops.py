"""What is asked of the loops of a layer's memories."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.schedule.nest import G, N, P, Q

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from fadiff.hardware import Structure
    from fadiff.search.restrictions import LayerAsked
    from fadiff.search.solver.grid import Cells
    from fadiff.workload.layer import Dims

ALONE_CUTS = (G, N, P, Q)
"""Dims whose loops a layer on its own may part between shared ones and those of the first memory."""


class Trips(NamedTuple):
    """From how many to how many trips of the memories' loops are asked for."""

    least: Float[np.ndarray, "nodes 8"]
    most: Float[np.ndarray, "nodes 8"]


def any_trips(size: Dims, structure: Structure) -> Trips:
    """Where nothing is asked."""
    nodes = len(structure.keeps)
    return Trips(np.ones((nodes, 8)), np.tile(np.array(size, dtype=np.float64), (nodes, 1)))


def asked_trips(
    size: Dims,
    structure: Structure,
    asked: LayerAsked,
    tile: Sequence[Cells],
    outermost: Sequence[Cells],
    grouped: bool,
) -> Trips:
    """Of the first memory's trips, what those that a group shares leave of them: of tiles in cells that meet one."""
    found = any_trips(size, structure)
    for node, d in product(structure.memories, range(8)):
        least, most = int(asked.ends.least[node, d, 0]), float(asked.ends.most[node, d, 0])
        if node == 0 and grouped:
            low, high = tile[d].low[0], tile[d].high[0]
            met = [
                ends
                for ends in zip(outermost[d].low, outermost[d].high, strict=True)
                if ends[0] <= high and ends[1] >= low
            ]
            shared, fewest = ceil(size[d] / max(low, met[0][0])), ceil(size[d] / min(high, met[-1][1]))
            found.least[node, d], found.most[node, d] = -(-least // shared), int(min(most, size[d] * fewest) // fewest)
        else:
            found.least[node, d] = fewest_trips(size[d], least) if node == 0 and d in ALONE_CUTS else least
            found.most[node, d] = min(most, size[d])
    return found


@cache
def fewest_trips(size: int, least: int) -> int:
    """Tiles further in of a dim, the last perhaps cut, that a layer on its own has at least where the first memory's
    factor is at least so much: it may cut the dim twice, by shared trips and by its own.

    >>> fewest_trips(13, 6), fewest_trips(13, 1)
    (4, 1)
    """
    largest = 1
    for shared in range(1, least + 1):
        tile, private = -(-size // shared), -(-least // shared)
        if (shared - 1) * tile >= size:
            continue  # the last trip would find nothing
        largest = max(largest, tile if private == 1 else (tile - 1) // (private - 1))
    return -(-size // largest)
