"""The exact nest with gradients of its own: values from integers, derivatives from their logarithms.

How often a tensor passes a memory is flat where a loop has one trip: its derivative does not see that a first trip over
a relevant dim makes every loop outside count. Descent on it walks into such walls. So counts are exact, and their
logarithms' derivatives are those of a formula that agrees with them where all loops run, and rises towards the walls
elsewhere:

.. math:: \\log count \\approx \\sum_l a_l \\log t_l, \\qquad
    a_l = 1 - \\prod_{r\\ relevant,\\ inside\\ l} 1 / t_r\\quad (irrelevant\\ l)

Extents and lanes are products: the derivatives of their logarithms are 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, cast

import jax
import jax.numpy as jnp
from jax.lax import stop_gradient

from fadiff.schedule.nest import IRRELEVANT_DIMS, RELEVANT_DIMS, SHARED, Members, Nest
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax import Array

Logs = dict[tuple[int, int], "Array"]
"""Log factors ``[restarts, layers]`` by node (or `SHARED`) and dim, where they may differ from 0.

Each stands on its own: a gradient that has to be put together in one array would be computed again for each part.
"""


@jax.custom_jvp
def sloped(value: Array, like: Array) -> Array:
    """A value with the derivative of something else."""
    return value + jnp.zeros_like(like)


@sloped.defjvp
def _slope(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    return sloped(*primals), tangents[1]


def along(value: Array, log: Array) -> Array:
    """A value whose derivative is that of `log`, relative to it."""
    return sloped(value, stop_gradient(value) * log)


@dataclass(frozen=True)
class SmoothNest(Nest):
    """The nest of integers without gradients, given those of their logarithms.

    With `smooth` False the derivative of a count is that of the product of its factors.
    """

    logs: Logs = field(default_factory=dict[tuple[int, int], "Array"])
    smooth: bool = True

    def count(self, dim: int, inside: Members, axes: Sequence[int]) -> Array:
        """count(d; A) for a set of loops and of axes."""
        taking = tuple(axis for axis in axes if DIMS[dim] in self.structure.dims[axis])
        exact = super().count(dim, inside, taking)
        key = ("smooth count", dim, inside.key, taking)
        return self._once(key, lambda: along(exact, self._log_count(dim, inside, taking)))

    def held(self, node: int, dim: int) -> Array:
        """The extent of a dim held in one instance of a memory."""
        exact, inner = super().held(node, dim), [(n, dim) for n in range(node, len(self.structure.dims))]
        return self._once(("smooth extent", node, dim), lambda: along(exact, self.log_product(inner)))

    def spread(self, dims: Sequence[int], axes: Sequence[int]) -> Array:
        """Lanes in use by some dims on some axes."""
        return along(super().spread(dims, axes), self.log_product([(axis, d) for axis in axes for d in dims]))

    def _coinciding_tiles(self, image: int, axes: Sequence[int], memory: int) -> Array | None:
        tiles = super()._coinciding_tiles(image, axes, memory)
        return None if tiles is None else stop_gradient(tiles)

    def log_product(self, places: Sequence[tuple[int, int]]) -> Array:
        """Log of the product of some factors."""
        return self._added([self.logs[place] for place in places if place in self.logs])

    def _added(self, parts: list[Array]) -> Array:
        return reduce(lambda a, b: a + b, parts) if parts else jnp.zeros_like(self.factors[0][0])

    def _log_count(self, dim: int, inside: Members, axes: Sequence[int]) -> Array:
        parts = [self.logs[axis, dim] for axis in axes if (axis, dim) in self.logs]
        if self.smooth and inside.key[0] == "up":
            _, tensor, memory = cast("tuple[str, str, int]", inside.key)
            repeats = self._once(("smooth repeats", tensor, memory), lambda: self._log_repeats(tensor, memory))
            return self._added([*parts, *repeats.get(dim, ())])
        members = {loop.node: inside.holds(loop) for loop in self.loops if loop.dim == dim}
        held = [node for node, member in members.items() if member is not False and (node, dim) in self.logs]
        return self._added(parts + [jnp.where(members[node], self.logs[node, dim], 0) for node in held])

    def _log_repeats(self, tensor: str, memory: int) -> dict[int, list[Array]]:
        """By irrelevant dim the terms a_l * log t_l of how often a tensor passes a memory."""
        above = [loop for loop in self.loops_above(memory) if (loop.node, loop.dim) in self.logs]
        terms: dict[int, list[Array]] = {}
        further_in = self._added([])
        for node in sorted({loop.node for loop in above}, reverse=True):
            here = [(loop, self.logs[node, loop.dim]) for loop in above if loop.node == node]
            relevant = [(loop, log) for loop, log in here if loop.dim in RELEVANT_DIMS[tensor]]
            for loop, log in (pair for pair in here if pair[0].dim in IRRELEVANT_DIMS[tensor]):
                inside = sum((jnp.where(other.rank > loop.rank, log, 0) for other, log in relevant), further_in)
                degree = 1 - jnp.exp(-inside)
                if node == SHARED and memory != self.structure.home(tensor):
                    degree = degree + (1 - degree) * stop_gradient(self.fusion.grouped)
                terms.setdefault(loop.dim, []).append(degree * log)
            further_in = sum((log for _, log in relevant), further_in)
        return terms
