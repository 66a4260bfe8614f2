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
from itertools import groupby
from typing import TYPE_CHECKING, Any

from fadiff.schedule.coinciding import coinciding_tiles
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
    """A set of loops, with a name that stands for it wherever it is counted.

    Of the loops over one dim, from the outermost in, it holds those before the first that it does not hold, and
    further in at most loops of one trip, which count nothing.
    """

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
    def factors(self) -> list[list[Array]]:
        """``[node][dim]`` the factors, taken apart once."""
        return [[row[d] for d in range(8)] for row in self.mapping.factors]

    @cached_property
    def size(self) -> list[Array]:
        """``[dim]`` the sizes, likewise."""
        return [self.layers.size[d] for d in range(8)]

    @cached_property
    def tile(self) -> list[Array]:
        """``[dim]`` the tiles in one shared iteration, likewise."""
        return [self.fusion.tile[d] for d in range(8)]

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Every temporal loop: those shared, then those of the memories, outermost memory first."""
        shared, factors, rank = self.fusion, self.factors, self.mapping.rank
        outer = [Loop(d, SHARED, shared.shared[d], shared.shared_rank[d]) for d in SHARED_DIMS if not self.alone]
        inner = [
            Loop(d, node, factors[node][d], rank[i][d] + (_SHARED_RANKS + 8 * i))
            for i, node in enumerate(self.structure.memories)
            for d in range(8)
            if DIMS[d] in self.structure.dims[node]
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
        factors, one = self.factors, self.xp.ones_like(self.factors[0][0])
        rows = [[one] * 8]
        for node in reversed(range(1, len(self.structure.dims))):
            dims = self.structure.dims[node]
            rows.append([factors[node][d] * rows[-1][d] if DIMS[d] in dims else rows[-1][d] for d in range(8)])
        return rows[::-1]

    def held(self, node: int, dim: int) -> Array:
        """The extent of a dim held in one instance of a memory, x_m(d): its own factor included."""
        return self._once(
            ("held", node, dim),
            lambda: self.xp.minimum(self.factors[node][dim] * self.below[node][dim], self.tile[dim]),
        )

    def spread(self, dims: Sequence[int], axes: Sequence[int]) -> Array:
        """Lanes in use by some dims on some axes."""
        factors = [self.factors[axis][d] for axis in axes for d in dims if DIMS[d] in self.structure.dims[axis]]
        return product(factors) if factors else self.xp.ones_like(self.factors[0][0])

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
        last = self.innermost(memory, RELEVANT_DIMS[tensor])
        if self.alone or memory == self.structure.home(tensor):
            return last
        return self.xp.maximum(last, self.xp.where(self.fusion.grouped >= 0.5, self.last_shared, -1))

    @property
    def last_shared(self) -> Array:
        """Rank of the innermost shared loop with more than one trip, or -1."""
        return self.innermost(0)

    def innermost(self, memory: int, dims: tuple[int, ...] = tuple(range(8))) -> Array:
        """Rank of the innermost loop above a memory with more than one trip over one of some dims, or -1."""
        return self._once(("innermost", memory, dims), lambda: self._innermost(memory, dims))

    def _innermost(self, memory: int, dims: tuple[int, ...]) -> Array:
        xp = self.xp
        parent = max((node for node in self.structure.memories if node < memory), default=SHARED)
        none = xp.full_like(self.factors[0][0], -1)
        further_out = none if parent == SHARED else self.innermost(parent, dims)
        here = [loop for loop in self.loops if loop.node == parent and loop.dim in dims]
        return reduce(xp.maximum, [self._running_rank(loop) for loop in here], further_out)

    def _running_rank(self, loop: Loop) -> Array:
        """The rank of a loop where it has more than one trip, else -1."""
        return self._once(("running", loop.node, loop.dim), lambda: self.xp.where(loop.trips > 1, loop.rank, -1))

    # Counts.

    def count(self, dim: int, inside: Members, axes: Sequence[int]) -> Array:
        """count(d; A) for a set of loops and of axes.

        As a set holds the outermost loops over a dim, every count is one of few, which many sets share.
        """
        taking = tuple(axis for axis in axes if DIMS[dim] in self.structure.dims[axis])
        return self._once(("count", dim, inside.key, taking), lambda: self._count(dim, inside, taking))

    def _count(self, dim: int, inside: Members, axes: tuple[int, ...]) -> Array:
        members = [inside.holds(loop) for loop in self.loops if loop.dim == dim]
        most = next((i for i, member in enumerate(members) if member is False), len(members))
        count = self._count_first(dim, most, axes)
        for i in reversed(range(most)):
            if members[i] is not True:
                count = self.xp.where(members[i], count, self._count_first(dim, i, axes))
        return count

    def _count_first(self, dim: int, loops: int, axes: tuple[int, ...]) -> Array:
        """count(d; A) for the outermost so many loops over a dim, and some axes."""
        return self._once(("count first", dim, loops, axes), lambda: self._make_count(dim, loops, axes))

    def _make_count(self, dim: int, loops: int, axes: tuple[int, ...]) -> Array:
        xp, size, tile = self.xp, self.size[dim], self.tile[dim]
        taken = [loop.node for loop in self.loops if loop.dim == dim][:loops]
        # Neighbours in the set are as one node, and so are neighbours outside of it.
        runs = [(member, list(nodes)) for member, nodes in groupby(self.nodes_of(dim), {*taken, *axes}.__contains__)]
        whole = self._count_runs(dim, runs, size if self.alone else tile)
        if SHARED not in taken:
            return whole
        tiles = xp.floor(size / tile)
        return tiles * whole + self._count_runs(dim, runs, size - tiles * tile)

    def _count_runs(self, dim: int, runs: Sequence[tuple[bool, list[int]]], extent: Array) -> Array:
        """count(D), D = `extent`, over nodes in runs of such that are in the set and such that are not."""
        xp = self.xp
        if not any(member for member, _ in runs):
            return xp.minimum(extent, 1) * xp.ones_like(self.factors[0][dim])
        (member, nodes), *inner = runs
        below = self.below[nodes[-1]][dim]
        if not member:
            return self._count_runs(dim, inner, xp.minimum(extent, below))
        counted = [node for inside, further_in in inner if inside for node in further_in]
        if not counted:
            return xp.ceil(extent / below)
        trips = xp.floor(extent / below)
        full = product([self.factors[node][dim] for node in counted])
        return trips * full + self._count_runs(dim, inner, extent - trips * below)

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
        return product([self.size[d] for d in dims])

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
            layers.stride[image] * (self.size[out] - n_out) * n_kernel
            + layers.dilation[image] * (self.size[kernel] - n_kernel) * n_out
            + n_out * n_kernel
        )

    def _coinciding_tiles(self, image: int, axes: Sequence[int], memory: int) -> Array | None:
        """Tiles of rows (columns) that another lane of some axes has too, above a memory (past the last: the MACs);
        None where no machine of this structure has such lanes."""
        return coinciding_tiles(self, image, IMAGE_DIMS[image], axes, memory)
