"""Genomes as points of the unit cube, for a model of what they cost.

Layers of the same shape share their genes. Every *distinct* layer has, in each dim of more than one trip, the logarithm
of its factor at each useful node below the first memory, over that of the size; the ranks of its loops at each memory
that has a choice of orders; and its wishes. Every edge that may be fused has its strength.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fadiff.search.evolutionary.genome import SHARES, STRENGTHS, WISHES, Encoding, Genomes
from fadiff.search.space import rank_table
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jaxtyping import Float

_ORDERED = [DIMS.index(dim) for dim in "KNCP"]
"""Dims whose ranks tell an order: one of each class of loops, and P, which runs inside Q or outside."""


class Features:
    """The points of an encoding's genomes."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        task = encoding.task
        self._twin = np.array(task.twin)
        first = np.unique(self._twin)
        useful = [(node - 1, d) for d, dim in enumerate(DIMS) for node in task.space.nodes[dim][1:]]
        placed = [(layer, node, d) for layer in first for node, d in useful if encoding.size[layer, d] > 1]
        self._factor = tuple(np.array(placed, dtype=np.int64).reshape(-1, 3).T)
        self._log_size = np.log(encoding.size[self._factor[0], self._factor[2]])
        self.mapped = first[encoding.is_mac[first]]
        """Numbers of the distinct layers that have a mapping."""
        self._rank = {m: rank_table(orders) for m, orders in enumerate(task.space.orders) if len(orders) > 1}
        self._wish = tuple(np.argwhere(encoding.wishes & np.isin(np.arange(len(self._twin)), first)[:, None]).T)
        self._most = np.array([*[SHARES] * (WISHES - 1), 1])[self._wish[1]]

    def __call__(self, genomes: Genomes) -> Float[np.ndarray, "individuals dims"]:
        """The points; of layers of the same shape they say what the first does."""
        count = genomes.individuals
        parts = [np.log(genomes.factors[:, *self._factor]) / self._log_size]
        for memory, rank in self._rank.items():
            parts.append(rank[_ORDERED][:, genomes.order[:, self.mapped, memory]].swapaxes(0, 1) / (len(DIMS) - 1))
        parts.append(genomes.wish[:, *self._wish] / self._most)
        parts.append(genomes.strength[:, self.encoding.fusible] / (STRENGTHS - 1))
        return np.concatenate([part.reshape(count, -1) for part in parts], axis=1).clip(0, 1)

    def tied(self, genomes: Genomes) -> Genomes:
        """The genomes with all layers of a shape like the first."""
        factors, order, wish = (genes[:, self._twin] for genes in genomes[:3])
        return Genomes(factors, order, wish, genomes.strength)
