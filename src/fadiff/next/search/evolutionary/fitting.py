"""Mappings made to fit: factors move outwards, a step at a time, all layers of a population at once.

A *row* is one layer of one individual. A *place* is an axis, which may have too few lanes, or a memory below the first,
which may be overfull. A factor inside the place then moves to the next memory outside it: of the axis itself, or of the
layer that takes most of the memory, loops before lanes, the largest first. A fused producer whose sums would leave
unfinished gets its reductions inside: its loops over outputs move to the first memory, whose order ends with C, R, S.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.next.cost.model import layer_costs
from fadiff.next.schedule.arrays import MappingArrays
from fadiff.next.schedule.capacity import tiles
from fadiff.next.schedule.nest import Nest
from fadiff.next.search.space import Space, rank_table, settle
from fadiff.workload.layer import DIMS, RELEVANT, TENSORS

if TYPE_CHECKING:
    from collections.abc import Callable

    from jax import Array
    from jaxtyping import Bool, Float, Int

    from fadiff.next.hardware import MachineArrays, Structure
    from fadiff.next.schedule.arrays import Fusion, LayerArrays

LOOPS_FIRST, LARGEST_FIRST = 1e6, 1e12
"""Loops give way before lanes, and of several tensors in a memory the one that takes most."""
MUCH = 0.5
"""Of an overfull group those layers give way that take this share of what the largest takes."""
MOST = 2.0**20
"""A factor is divided by no more than this in one step."""
_OUTPUT = np.array([dim in RELEVANT["O"] for dim in DIMS])


class Frame:
    """What of a machine the programs are compiled for: its structure, where factors may be, which orders there are."""

    def __init__(self, structure: Structure, space: Space) -> None:
        self.structure = structure
        self.nodes = tuple(space.nodes[dim] for dim in DIMS)
        self.orders = space.orders
        self.places = (*structure.axes, *structure.memories[1:])

    def __hash__(self) -> int:
        return hash((self.structure, self.nodes, self.orders))

    def __eq__(self, other: object) -> bool:
        mine = (self.structure, self.nodes, self.orders)
        return isinstance(other, Frame) and mine == (other.structure, other.nodes, other.orders)

    @cached_property
    def weight(self) -> Float[np.ndarray, "nodes 8 places tensors"]:
        """How soon a factor gives way at a place whose largest tile is of a tensor; 0 where it takes no part.

        One past the last place nothing gives way.
        """
        keeps, memories = self.structure.keeps, self.structure.memories
        weight = np.zeros((len(keeps), len(DIMS), len(self.places) + 1, len(TENSORS)))
        for i, place in enumerate(self.places):
            for d, dim in enumerate(DIMS):
                if place in self.structure.axes:
                    weight[place, d, i] = dim in self.structure.dims[place]
                    continue
                part = any(dim in RELEVANT[tensor] for tensor in keeps[place])
                largest = [part * (LARGEST_FIRST if dim in RELEVANT[tensor] else 1) for tensor in TENSORS]
                for node in range(place, len(keeps)):
                    weight[node, d, i] = np.array(largest) * (LOOPS_FIRST if node in memories else 1)
        return weight

    @cached_property
    def outside(self) -> Int[np.ndarray, "places 8"]:
        """The next memory further out than a place that may have a factor of a dim."""
        memories = self.structure.memories
        return np.array(
            [[max(n for n in nodes if n in memories and n < place) for nodes in self.nodes] for place in self.places]
        )

    @cached_property
    def sums_inside(self) -> Bool[np.ndarray, "nodes 8"]:
        """Where loops over outputs stand that run inside the home of sums; where no node is useful, in the home."""
        home, memories = self.structure.keepers("O")[1], self.structure.memories
        found = np.zeros((len(self.structure.keeps), len(DIMS)), dtype=bool)
        for d, nodes in enumerate(self.nodes):
            found[min((n for n in nodes if n in memories and n >= home), default=home), d] = _OUTPUT[d]
        return found

    @cached_property
    def sums_outside(self) -> Bool[np.ndarray, "nodes 8"]:
        """Where loops over outputs stand that run outside the home of sums."""
        return self._outputs_above(self.structure.keepers("O")[1])

    @cached_property
    def cutting(self) -> Bool[np.ndarray, "nodes 8"]:
        """Where loops over outputs may cut the reductions of a fused producer."""
        return self._outputs_above(_source(self.structure) or 0)

    def _outputs_above(self, keeper: int) -> Bool[np.ndarray, "nodes 8"]:
        above = [node < keeper and bool(keeps) for node, keeps in enumerate(self.structure.keeps)]
        return np.array(above)[:, None] & _OUTPUT

    @cached_property
    def reducing(self) -> Int[np.ndarray, " orders"]:
        """For each order of the first memory's loops, one like it with C, R, S innermost."""
        last = [i for i, order in enumerate(self.orders[0]) if set(order[-3:]) == set("CRS")]
        rest = ["".join(dim for dim in order if dim not in "CRS") for order in self.orders[0]]
        return np.array([min(last, key=lambda i: (rest[i] != mine, i)) for mine in rest])


class Rows(NamedTuple):
    """Layers of individuals, each in its place in a group; the last axis of every array runs over rows."""

    layers: LayerArrays
    fusion: Fusion
    group: Int[Array, " rows"]
    """The row that stands for the layer's group."""
    live_bytes: Float[Array, " rows"]
    """Buffers in the memory that fuses while the layer runs."""
    must_hold: Float[Array, " rows"]
    """1 where sums may not reach the first memory unfinished (softmax under the channel loop)."""


class Mapped(NamedTuple):
    """A mapping of each row."""

    factors: Float[Array, "nodes 8 rows"]
    """The first memory's are private."""
    order: Int[Array, "memories rows"]
    """Number of each memory's loop order."""


class Excess(NamedTuple):
    """What of each row does not fit."""

    place: Int[Array, " rows"]
    """The first place where the layer is in the way; one past the last where there is none."""
    tensor: Int[Array, " rows"]
    """Its largest tile there."""
    load: Float[Array, " rows"]
    """What the place would hold, over what it can."""
    spills: Bool[Array, " rows"]
    """A fused producer's sums would leave unfinished."""
    fits: Bool[Array, " rows"]
    """Nothing is wrong in the layer's whole group."""


@partial(jax.jit, static_argnames=("frame",))
def begin(frame: Frame, rows: Rows, mapped: Mapped) -> Mapped:
    """Mappings of any whole factors, settled for the tiles of their rows."""
    return mapped._replace(factors=_settled(frame, rows, mapped.factors))


@partial(jax.jit, static_argnames=("frame",))
def examine(
    frame: Frame, rows: Rows, mapped: Mapped, machine: MachineArrays, room: Float[Array, " memories"]
) -> Excess:
    """Where layers do not fit; `room` are the bytes of each memory below the first."""
    nest, structure = _nest(frame, rows, mapped), frame.structure
    axes, memories = structure.axes, structure.memories[1:]
    none = jnp.zeros_like(rows.live_bytes)
    own = tiles(nest, machine)
    held = jnp.stack([jnp.stack([own.running.get((m, t), none) for t in TENSORS]) for m in memories])
    kept = jnp.stack([sum((own.kept.get((m, t), none) for t in TENSORS), own.waiting.get(m, none)) for m in memories])
    running = held.sum(axis=1)
    total = running - kept + _of_group(jax.ops.segment_sum, kept, rows)
    if structure.fuses is not None:
        total = total.at[memories.index(structure.fuses)].add(rows.live_bytes)
    over, peak = total > room[:, None], _of_group(jax.ops.segment_max, total, rows)
    # What a layer keeps is in the way of all; what it holds in passing only while it runs itself.
    taken = jnp.where(over, running, jnp.where(peak > room[:, None], kept, 0)) * _may_shrink(frame, rows, mapped)
    gives = (taken > 0) & (taken >= MUCH * _of_group(jax.ops.segment_max, taken, rows))
    lanes = [nest.spread(range(8), (axis,)) / machine.lanes[i] for i, axis in enumerate(axes)]
    load = jnp.stack([*lanes, *(peak / room[:, None]), none])
    gives = jnp.concatenate([load[: len(axes)] > 1, gives, none[None] == 0])
    largest = jnp.concatenate([0 * gives[: len(axes)], held.argmax(axis=1), 0 * gives[:1]])
    place = gives.argmax(axis=0)
    spills, lost = _unfinished(nest, rows)
    broken = over.any(axis=0) | gives[: len(axes)].any(axis=0) | spills | lost

    def at_place(values: Array) -> Array:
        return jnp.take_along_axis(values, place[None], axis=0)[0]

    fits = ~_of_group(jax.ops.segment_max, broken, rows)
    return Excess(place, at_place(largest), at_place(load), spills, fits)


@partial(jax.jit, static_argnames=("frame",))
def relieve(frame: Frame, rows: Rows, mapped: Mapped, excess: Excess) -> tuple[Mapped, Bool[Array, " rows"]]:
    """One step of each layer that is in the way; and which layers changed.

    At its place the factor of largest weight is halved, or divided by a higher power of two if it holds one and the
    load is so much; an odd one is divided by 3, or halved and rounded up. One outside the place grows by as much.
    """
    factors, order = mapped
    nodes, dims, _ = factors.shape
    weight = jnp.asarray(frame.weight, dtype=factors.dtype)[:, :, excess.place, excess.tensor] * factors
    weight = jnp.where(_loose(rows, factors) | (excess.place < len(frame.structure.axes)), weight, 0)
    weight = jnp.where(factors > 1, weight, 0)
    pick = weight.reshape(nodes * dims, -1).argmax(axis=0)
    node, dim = jnp.arange(nodes)[:, None, None], jnp.arange(dims)[:, None]
    chosen = (node == pick // dims) & (dim == pick % dims) & (weight > 0)
    factor = jnp.where(chosen, factors, 0).sum(axis=(0, 1))
    whole = factor.astype(jnp.int32)
    even = jnp.minimum(whole & -whole, 2 ** jnp.floor(jnp.log2(jnp.clip(excess.load, 2, MOST))))
    ratio = jnp.where(even > 1, even, jnp.where(whole % 3 == 0, 3, 2))
    target = jnp.asarray(frame.outside)[excess.place, pick % dims]
    gets = (node == target) & (dim == pick % dims) & (factor > 0)
    smaller = jnp.where(chosen, jnp.ceil(factor / ratio), jnp.where(gets, factors * ratio, factors))
    smaller = jnp.where(frame.cutting[:, :, None] & excess.spills, 1, smaller)
    first = jnp.where(excess.spills, jnp.asarray(frame.reducing)[order[0]], order[0])
    after = Mapped(_settled(frame, rows, smaller), order.at[0].set(first))
    return after, (after.factors != factors).any(axis=(0, 1)) | (first != order[0])


@partial(jax.jit, static_argnames=("frame",))
def price(frame: Frame, rows: Rows, mapped: Mapped, machine: MachineArrays) -> tuple[Array, Array]:
    """Energy (pJ) and cycles of every row."""
    costs = layer_costs(_nest(frame, rows, mapped), machine)
    return costs.energy_pj, costs.cycles


def _nest(frame: Frame, rows: Rows, mapped: Mapped) -> Nest:
    rank = tuple(jnp.asarray(rank_table(orders))[:, mapped.order[i]] for i, orders in enumerate(frame.orders))
    return Nest(frame.structure, rows.layers, MappingArrays(mapped.factors, rank), rows.fusion)


def _settled(frame: Frame, rows: Rows, factors: Array) -> Array:
    """Settled factors; where sums must be held, with all loops over outputs inside their home."""
    held = rows.must_hold > 0
    inside = jnp.where(held & frame.sums_inside[:, :, None], rows.fusion.tile, factors)
    return settle(jnp.where(held & frame.sums_outside[:, :, None], 1, inside), rows.fusion.tile)


def _of_group(reduce: Callable[..., Array], values: Array, rows: Rows) -> Array:
    """``[..., rows]`` what a reduction says of all layers of each row's group."""
    return reduce(values.T, rows.group, num_segments=rows.group.size)[rows.group].T


def _loose(rows: Rows, factors: Array) -> Array:
    """``[nodes, 8, rows]`` factors that may become smaller: loops over outputs whose sums must be held stay."""
    return (factors > 1) & ~((rows.must_hold > 0) & _OUTPUT[:, None])


def _may_shrink(frame: Frame, rows: Rows, mapped: Mapped) -> Array:
    """``[memories, rows]`` whether any factor of a layer takes part in a memory and may become smaller."""
    part = (frame.weight[:, :, len(frame.structure.axes) : -1] > 0).any(axis=-1)
    loose = _loose(rows, mapped.factors).astype(mapped.factors.dtype)
    return jnp.einsum("ndr,ndm->mr", loose, jnp.asarray(part, dtype=loose.dtype)) > 0


def _unfinished(nest: Nest, rows: Rows) -> tuple[Array, Array]:
    """Fused producers, and consumers of a channel loop that must hold their sums, whose sums leave unfinished."""
    most = 1.5 * rows.layers.output  # sums leave at least once each: half of that is safe from rounding in 32 bits
    source, home = _source(nest.structure), nest.structure.keepers("O")[1]
    if source is None:
        no = jnp.zeros(rows.group.shape, dtype=bool)
        return no, no
    spills = (rows.fusion.copied * rows.layers.is_mac > 0) & (nest.past("O", source, ()) > most)
    return spills, (rows.must_hold > 0) & (nest.past("O", home, ()) > most)


def _source(structure: Structure) -> int | None:
    """The memory that finished outputs leave for the one that fuses."""
    fuses = structure.fuses
    return None if fuses is None else next((m for m in structure.keepers("O") if m > fuses), None)
