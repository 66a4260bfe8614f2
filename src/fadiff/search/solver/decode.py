"""From chains of extents to mappings: factors by node, at nodes where the search looks for them."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from jaxtyping import Float

    from fadiff.hardware import Machine
    from fadiff.search.space import Space

Extents = Sequence[Sequence[int]]
"""By node and dim: the extent of a tile above the node."""


def factors_of(extents: Extents, machine: Machine, space: Space) -> Float[np.ndarray, "nodes 8"]:
    """The factors whose tiles have some extents: each node's is the extent above it over that below, rounded up.

    A chain may loop at a memory where others do as well without: a loop that no useful node of its dim has moves to the
    next one further in, whose loops are below all others; or further out, where there is none.
    """
    nodes = len(machine.nodes)
    factors = np.ones((nodes, 8))
    for d in range(8):
        below = 1
        for node in reversed(range(nodes)):
            factors[node, d] = max(1, ceil(extents[node][d] / below))
            below *= int(factors[node, d])
        useful = [node for node in space.nodes[DIMS[d]] if node in machine.structure.memories]
        for node in machine.structure.memories:
            if factors[node, d] > 1 and node not in useful:
                target = next((other for other in useful if other > node), useful[-1])
                factors[target, d] *= factors[node, d]
                factors[node, d] = 1
    return factors
