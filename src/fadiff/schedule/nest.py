r"""The loop nest of a layer, built once, for arrays: every loop, every extent, and how often a tensor passes a memory.

Loops stand from the outermost in: those the group shares, then those of each memory in its own order. Everything is
elementwise over trailing axes (candidates, layers), in operators that NumPy and JAX share: the same lines count exactly
in 64 bits and run traced, batched and differentiated. Which loops there can be is the machine's structure, known
before anything runs.

All traffic follows from one number. With the nodes of a dim d from the outermost in, and the extent x below each,

.. math::
    count(d; A),\ D = size(d):\quad count(D) = \begin{cases}
        \lfloor D/x \rfloor\, count(x) + count(D \bmod x) & \text{the node is in A} \\
        count(\min(D, x)) & \text{it is not}\end{cases}

is the number of different combinations of the indices of d at the nodes in A. Where factors multiply to the size it is
their product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fadiff.schedule.namespace import namespace
from fadiff.workload.layer import DIMS, RELEVANT

if TYPE_CHECKING:
    from jax import Array

    from fadiff.hardware import Structure
    from fadiff.schedule.arrays import Fusion, LayerArrays, MappingArrays

G, N, K, C, P, Q, R, S = range(8)
RELEVANT_DIMS = {tensor: tuple(DIMS.index(dim) for dim in dims) for tensor, dims in RELEVANT.items()}
IRRELEVANT_DIMS = {t: tuple(d for d in range(8) if d not in dims) for t, dims in RELEVANT_DIMS.items()}
IMAGE_DIMS = ((P, R), (Q, S))
"""Rows and columns of I: the dim of the output and the dim of the kernel that span them."""
PLAIN_DIMS = RELEVANT_DIMS | {"I": (G, N, C)}
"""Relevant dims whose sizes multiply to the values of a tensor, of I to those of a row and a column."""
SHARED = -1
"""The place of a group's shared loops, above the first node."""
SHARED_DIMS = (G, N, K, C, P, Q)
"""Dims that a group may share, K and C through the channel loop."""
_SHARED_RANKS = 5

Mask = Any
"""Whether a loop is in a set: an array of truth values, or plainly True or False."""


def product(values: Sequence[Array]) -> Array:
    """All of them multiplied."""
    return reduce(lambda a, b: a * b, values)


@dataclass(frozen=True)
class Loop:
    """A temporal loop: over which dim, at which node (or `SHARED`), how often, and where among all (0 outermost)."""

    dim: int
    node: int
    trips: Array
    rank: Array


@dataclass(frozen=True)
class Members:
    """A set of loops, with a name that stands for it wherever it is counted."""

    key: tuple[object, ...]
    holds: Callable[[Loop], Mask]


ALL = Members(("all",), lambda _: True)
"""All temporal loops."""


@dataclass(frozen=True)
class Nest:
    """The nests of layers (on the last axis) on a machine of one structure.

    `alone` promises that no layer shares loops with others: half of the work.
    """

    structure: Structure
    layers: LayerArrays
    mapping: MappingArrays
    fusion: Fusion
    alone: bool = False
    known: dict[tuple[object, ...], Any] = field(default_factory=dict[tuple[object, ...], Any], compare=False)
    """What was computed before: many flows ask for the same counts."""

    @cached_property
    def xp(self) -> Any:  # noqa: ANN401  (an array library)
        """The library that the arrays are of."""
        return namespace(self.mapping.factors, *self.fusion, *self.layers)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Every temporal loop: those shared, then those of the memories, outermost memory first."""
        shared, factors, rank = self.fusion, self.mapping.factors, self.mapping.rank
        outer = [Loop(d, SHARED, shared.shared[d], shared.shared_rank[d]) for d in SHARED_DIMS if not self.alone]
        inner = [
            Loop(d, node, factors[node][d], rank[i][d] + (_SHARED_RANKS + 8 * i))
            for i, node in enumerate(self.structure.memories)
            for d in range(8)
        ]
        return (*outer, *inner)

    def loops_above(self, memory: int) -> list[Loop]:
        """The temporal loops above a memory."""
        return [loop for loop in self.loops if loop.node < memory]

    def nodes_of(self, dim: int) -> list[int]:
        """The nodes at which a dim may have a factor, outermost first."""
        return [node for node, dims in enumerate(self.structure.dims) if DIMS[dim] in dims]

    @cached_property
    def below(self) -> list[list[Array]]:
        """``[node][dim]`` the extent below each node: the product of the factors further in."""
        factors, one = self.mapping.factors, self.xp.ones_like(self.mapping.factors[0][0])
        rows = [[one] * 8]
        for node in reversed(range(1, len(self.structure.dims))):
            dims = self.structure.dims[node]
            rows.append([factors[node][d] * rows[-1][d] if DIMS[d] in dims else rows[-1][d] for d in range(8)])
        return rows[::-1]

    def held(self, node: int, dim: int) -> Array:
        """The extent of a dim held in one instance of a memory, x_m(d): its own factor included."""
        return self._once(
            ("held", node, dim),
            lambda: self.xp.minimum(self.mapping.factors[node][dim] * self.below[node][dim], self.fusion.tile[dim]),
        )

    def spread(self, dims: Sequence[int], axes: Sequence[int]) -> Array:
        """Lanes in use by some dims on some axes."""
        factors = [self.mapping.factors[axis][d] for axis in axes for d in dims if DIMS[d] in self.structure.dims[axis]]
        return product(factors) if factors else self.xp.ones_like(self.mapping.factors[0][0])

    def _once(self, key: tuple[object, ...], make: Callable[[], Any]) -> Any:  # noqa: ANN401  (arrays)
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    # Which loops a tensor's traffic depends on.

    def last(self, tensor: str, memory: int) -> Array:
        """Rank of the innermost loop above a memory with more than one trip over a dim relevant to the tensor, or -1.

        Further in than the tensor's home nothing outlasts a shared iteration of a group of several layers: there the
        shared loops count as relevant.
        """
        return self._once(("last", tensor, memory), lambda: self._last(tensor, memory))

    def _last(self, tensor: str, memory: int) -> Array:
        last = self._innermost([loop for loop in self.loops_above(memory) if loop.dim in RELEVANT_DIMS[tensor]])
        if self.alone or memory == self.structure.home(tensor):
            return last
        return self.xp.maximum(last, self.xp.where(self.fusion.grouped >= 0.5, self.last_shared, -1))

    @property
    def last_shared(self) -> Array:
        """Rank of the innermost shared loop with more than one trip, or -1."""
        return self.innermost(0)

    def innermost(self, memory: int) -> Array:
        """Rank of the innermost loop above a memory with more than one trip, or -1."""
        return self._once(("innermost", memory), lambda: self._innermost(self.loops_above(memory)))

    def _innermost(self, loops: Sequence[Loop]) -> Array:
        xp = self.xp
        none = xp.full_like(self.mapping.factors[0][0], -1)
        return reduce(xp.maximum, [xp.where(loop.trips > 1, loop.rank, -1) for loop in loops], none)

    # Counts.

    def count(self, dim: int, inside: Members, axes: Sequence[int]) -> Array:
        """count(d; A) for a set of loops and of axes.

        With the digits q of D in the mixed radix of the extents, from the innermost node out: a node in the set makes
        count = q * full + count, one that is not makes count = full where q > 0; full is the count of a full extent.
        """
        taking = tuple(axis for axis in axes if DIMS[dim] in self.structure.dims[axis])
        return self._once(("count", dim, inside.key, taking), lambda: self._count(dim, inside, taking))

    def _count(self, dim: int, inside: Members, axes: Sequence[int]) -> Array:
        xp = self.xp
        temporal = {loop.node: inside.holds(loop) for loop in self.loops if loop.dim == dim}
        nodes = self.nodes_of(dim)
        members = [temporal.get(node, node in axes) for node in nodes]
        # Further in than all members only whether anything is left matters.
        depth = max((at + 1 for at, member in enumerate(members) if member is not False), default=0)
        full = xp.ones_like(self.mapping.factors[0][dim])
        counts = [xp.where(rests[depth] > 0, 1, 0) + 0 * full for _, rests in self.digits(dim)]
        for at in reversed(range(depth)):
            for i, (digits, _) in enumerate(self.digits(dim)):
                seen = xp.where(digits[at] > 0, full, counts[i])
                counts[i] = _choose(xp, members[at], digits[at] * full + counts[i], seen)
            full = _choose(xp, members[at], full * self.mapping.factors[nodes[at]][dim], full)
        if len(counts) == 1:
            return counts[0]
        tiles = xp.floor(self.layers.size[dim] / self.fusion.tile[dim])
        return _choose(xp, temporal[SHARED], tiles * counts[0] + counts[1], counts[0])

    def digits(self, dim: int) -> list[tuple[list[Array], list[Array]]]:
        """Of a tile, and of the last, cut one: how often the extent below each node of a dim goes into it, and what is
        left before each node and after the last."""
        return self._once(("digits", dim), lambda: self._digits(dim))

    def _digits(self, dim: int) -> list[tuple[list[Array], list[Array]]]:
        xp, size, tile = self.xp, self.layers.size[dim], self.fusion.tile[dim]
        whole_tiles = dim in SHARED_DIMS and not self.alone
        found: list[tuple[list[Array], list[Array]]] = []
        for extent in (tile, size - xp.floor(size / tile) * tile) if whole_tiles else (size,):
            digits: list[Array] = []
            rests = [extent]
            for node in self.nodes_of(dim):
                digits.append(xp.floor(rests[-1] / self.below[node][dim]))
                rests.append(rests[-1] - digits[-1] * self.below[node][dim])
            found.append((digits, rests))
        return found

    def steps(self) -> Array:
        """Compute cycles: the product over all dims of count(d; all temporal loops)."""
        return product([self.count(d, ALL, ()) for d in range(8)])

    def up(self, tensor: str, memory: int) -> Members:
        """up(T, m): the loops above a memory that are not inside `last`."""
        last = self.last(tensor, memory)
        return Members(("up", tensor, memory), lambda loop: loop.rank <= last if loop.node < memory else False)

    def past(self, tensor: str, memory: int, axes: Sequence[int]) -> Array:
        """Values of a tensor that pass a memory, with the lanes of some axes each on their own; of I those of a row and
        a column.

        .. math:: past(T, m, B) = \\prod_{d\\ relevant} size(d) \\prod_{d\\ irrelevant} count(d;\\ up(T, m), B)

        Relevant dims add up to the whole tensor, irrelevant loops outside `last` repeat it, irrelevant lanes copy it.
        """
        return self._whole(PLAIN_DIMS[tensor]) * self._repeats(tensor, self.up(tensor, memory), axes)

    def _whole(self, dims: Sequence[int]) -> Array:
        return product([self.layers.size[d] for d in dims])

    def _repeats(self, tensor: str, inside: Members, axes: Sequence[int]) -> Array:
        return product([self.count(d, inside, axes) for d in IRRELEVANT_DIMS[tensor]])

    def moved(self, tensor: str, memory: int, parent: int) -> tuple[Array, Array]:
        """Values of a tensor that pass a keeper: at all its instances, and at its parent keeper.

        Lanes between the two that want the same values are served by one read, and their sums are added on the way.
        """
        within = self.structure.axes_between(SHARED, memory)
        here, outside = (
            self.past(tensor, memory, axes) for axes in (within, self.structure.axes_between(SHARED, parent))
        )
        for image in (0, 1) if tensor == "I" else ():
            lines = self._lines(memory, image, within)
            twice = self._coinciding_tiles(image, self.structure.axes_between(parent, memory), memory)
            here = here * lines
            outside = outside * (lines if twice is None else lines - twice * self.box(memory)[image])
        return here, outside

    def used(self, tensor: str, keeper: int) -> Array:
        """Values that the MACs read from (W, I) or add to (O) the innermost keeper: each lane below takes the same."""
        axes, end = self.structure.axes_between(SHARED, keeper), len(self.structure.keeps)
        values = self._whole(PLAIN_DIMS[tensor]) * self._repeats(tensor, ALL, axes)
        for image, dims in enumerate(IMAGE_DIMS) if tensor == "I" else ():
            lines = self._whole(dims)
            twice = self._coinciding_tiles(image, self.structure.axes_between(keeper, end), end)
            values = values * (lines if twice is None else lines - twice)
        return values

    # The input: rows and columns of its tiles' boxes.

    def box(self, memory: int) -> tuple[Array, Array]:
        """Rows and columns of a tile of I in a memory, (x_m(P)-1)*stride + (x_m(R)-1)*dilation + 1."""
        layers = self.layers
        height, width = (
            (self.held(memory, out) - 1) * layers.stride[i] + (self.held(memory, kernel) - 1) * layers.dilation[i] + 1
            for i, (out, kernel) in enumerate(IMAGE_DIMS)
        )
        return height, width

    def slides(self, memory: int, loop: Loop) -> Array:
        """Whether the window of I in a memory slides along a loop: it is the innermost, and neighbours touch."""
        return self._once(("slides", memory, loop.node, loop.dim), lambda: self._slides(memory, loop))

    def _slides(self, memory: int, loop: Loop) -> Array:
        layers = self.layers
        image = next(i for i, dims in enumerate(IMAGE_DIMS) if loop.dim in dims)
        out, kernel = IMAGE_DIMS[image]
        step, other, other_step = layers.stride[image], kernel, layers.dilation[image]
        if loop.dim == kernel:
            step, other, other_step = other_step, out, step
        touches = step <= (self.held(memory, other) - 1) * other_step + 1
        here = (loop.trips > 1) & (loop.rank == self.innermost(memory)) & touches
        axes = [a for a in self.structure.axes_between(loop.node, memory) if DIMS[loop.dim] in self.structure.dims[a]]
        if axes:
            here = here & (self.spread((loop.dim,), axes) == 1)
        if loop.node == SHARED and memory != self.structure.home("I"):
            here = here & (self.fusion.grouped < 0.5)
        return here

    def _lines(self, memory: int, image: int, axes: Sequence[int]) -> Array:
        """Rows (image 0) or columns (1) of I that pass a memory: the heights of all tiles' boxes added up.

        .. math:: stride\\,(P - n_P)\\, n_R + dilation\\,(R - n_R)\\, n_P + n_P n_R

        A loop along which the window slides is left out of n: its sweep is one tall tile.
        """
        (out, kernel), layers = IMAGE_DIMS[image], self.layers
        steps = Members(("steps", memory), lambda loop: ~self.slides(memory, loop) if loop.node < memory else False)
        n_out, n_kernel = self.count(out, steps, axes), self.count(kernel, steps, axes)
        return (
            layers.stride[image] * (layers.size[out] - n_out) * n_kernel
            + layers.dilation[image] * (layers.size[kernel] - n_kernel) * n_out
            + n_out * n_kernel
        )

    def _coinciding_tiles(self, image: int, axes: Sequence[int], memory: int) -> Array | None:
        """Tiles of rows (columns) that another lane of some axes has too, above a memory (past the last: the MACs).

        Tiles of neighbouring lanes are a = x(P)*stride and b = x(R)*dilation rows apart: of lanes without loops
        over P and R between them and the memory, those b/gcd(a, b) and a/gcd(a, b) apart along P and R coincide. None
        where no machine of this structure has such lanes.
        """
        xp, dims = self.xp, IMAGE_DIMS[image]
        unrolled = [[a for a in axes if DIMS[d] in self.structure.dims[a]] for d in dims]
        if not all(unrolled):
            return None
        one = xp.ones_like(self.mapping.factors[0][0])
        x = [one if memory == len(self.structure.keeps) else self.held(memory, d) for d in dims]
        apart = [x[0] * self.layers.stride[image], x[1] * self.layers.dilation[image]]
        common = _gcd(apart[0], apart[1], xp)
        groups: list[Array] = []
        for i, d in enumerate(dims):
            lanes = one
            for axis in unrolled[i]:
                between = [loop for loop in self.loops if axis < loop.node < memory and loop.dim in dims]
                free = reduce(lambda a, b: a & b, [loop.trips <= 1 for loop in between], one > 0)
                lanes = xp.where(free, lanes * self.mapping.factors[axis][d], lanes)
            groups.append(self._coinciding_lanes(d, lanes, x[i], apart[1 - i] / common))
        return groups[0] * groups[1]

    def _coinciding_lanes(self, dim: int, lanes: Array, x: Array, distance: Array) -> Array:
        """Over all groups of lanes: the lanes in use with a full tile, less `distance` (at least 0)."""
        xp = self.xp

        def within(extent: Array) -> Array:
            full = xp.floor(extent / (lanes * x))
            rest = xp.floor((extent - full * lanes * x) / x)
            return full * xp.maximum(0, lanes - distance) + xp.maximum(0, rest - distance)

        size, tile = self.layers.size[dim], self.fusion.tile[dim]
        tiles = xp.floor(size / tile)
        return tiles * within(tile) + within(size - tiles * tile)


def _choose(xp: Any, member: Mask, inside: Array, outside: Array) -> Array:  # noqa: ANN401  (an array library)
    """One of two arrays, by whether a loop is in a set; decided at once where that is known."""
    if member is True or member is False:
        return inside if member else outside
    return xp.where(member, inside, outside)


def _gcd(a: Array, b: Array, xp: Any) -> Array:  # noqa: ANN401  (an array library)
    """The greatest common divisor, by Euclid; traced programs take as many steps as kernels of thousands of rows."""
    if xp is np:
        return cast("Array", np.gcd(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64)).astype(np.float64))
    for _ in range(16):
        a, b = xp.where(b > 0, b, a), xp.where(b > 0, xp.mod(a, xp.where(b > 0, b, 1)), 0)
    return a
