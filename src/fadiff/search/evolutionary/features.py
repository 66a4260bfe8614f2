"""Genomes as points of the unit cube, for a model of what they cost.

Layers of the same shape share their genes. Every *distinct* layer has, in each dim of more than one trip, the logarithm
of its factor at each useful node below the first memory, over that of the size; the ranks of its loops at each memory
that has a choice of orders; and its wishes. Every edge that may be fused has its strength.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.evolutionary.genome import SHARES, STRENGTHS, WISHES, Encoding
from fadiff.search.space import rank_table
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jaxtyping import Float

    from fadiff.search.evolutionary.genome import GeneRows

_ORDERED = [DIMS.index(dim) for dim in "KNCP"]
"""Dims whose ranks tell an order: one of each class of loops, and P, which runs inside Q or outside."""


class Features:
    """The points of an encoding's genomes."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        task = encoding.task
        twin = np.array(task.twin)
        first = np.unique(twin)
        useful = [(node - 1, d) for d, dim in enumerate(DIMS) for node in task.space.nodes[dim][1:]]
        placed = [(layer, node, d) for layer in first for node, d in useful if encoding.size[layer, d] > 1]
        self._factor = tuple(np.array(placed, dtype=np.int64).reshape(-1, 3).T)
        self._log_size = np.log(encoding.size[self._factor[0], self._factor[2]])
        self.mapped = first[encoding.is_mac[first]]
        """Numbers of the distinct layers that have a mapping."""
        self._rank = {m: rank_table(orders) for m, orders in enumerate(task.space.orders) if len(orders) > 1}
        self._wish = tuple(np.argwhere(encoding.wishes & np.isin(np.arange(twin.size), first)[:, None]).T)
        self._most = np.array([*[SHARES] * (WISHES - 1), 1])[self._wish[1]]
        numbers = encoding.genes(np.arange(encoding.owner.size)[None])
        shared = [genes[0, twin].ravel() for genes in numbers[:3]]
        self._same = np.concatenate([*shared, numbers.strength[0]])
        """``[genes]`` the gene of the first layer of the same shape."""

    def __call__(self, rows: GeneRows) -> Float[np.ndarray, "individuals dims"]:
        """The points; of layers of the same shape they say what the first does."""
        genomes = self.encoding.genes(rows)
        parts = [np.log(genomes.factors[:, *self._factor]) / self._log_size]
        for memory, rank in self._rank.items():
            parts.append(rank[_ORDERED][:, genomes.order[:, self.mapped, memory]].swapaxes(0, 1) / (len(DIMS) - 1))
        parts.append(genomes.wish[:, *self._wish] / self._most)
        parts.append(genomes.strength[:, self.encoding.fusible] / (STRENGTHS - 1))
        return np.concatenate([part.reshape(len(rows), -1) for part in parts], axis=1).clip(0, 1)

    def tied(self, rows: GeneRows) -> GeneRows:
        """The genomes with all layers of a shape like the first."""
        return rows.take(self._same, axis=1)
