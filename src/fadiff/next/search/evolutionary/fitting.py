"""Mappings made to fit: factors move outwards, a step at a time, all layers of a population at once.

A *row* is one layer of one individual. A *place* is an axis, which may have too few lanes, or a memory below the first,
which may be overfull. A factor inside the place then moves to the next memory outside it: of the axis itself, or of the
layer that takes most of the memory, loops before lanes, the largest first. A fused producer whose sums would leave
unfinished gets its reductions inside: its loops over outputs move to the first memory, whose order ends with C, R, S.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, cast

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
_OUTPUT = np.array([[dim in RELEVANT["O"]] for dim in DIMS])


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
        """How soon a factor gives way at a place whose largest tile is of a tensor; 0 where it takes no part."""
        keeps, memories = self.structure.keeps, self.structure.memories
        weight = np.zeros((len(keeps), len(DIMS), len(self.places), len(TENSORS)))
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
            found[min((n for n in nodes if n in memories and n >= home), default=home), d] = _OUTPUT[d, 0]
        return found

    def above(self, keeper: int) -> Bool[np.ndarray, "nodes 1"]:
        """Memories above a keeper."""
        return np.array([[node < keeper and bool(keeps)] for node, keeps in enumerate(self.structure.keeps)])

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


class Step(NamedTuple):
    """What one round found, and what it did about it."""

    mapped: Mapped
    fits: Bool[Array, " rows"]
    """Whether all of the layer's group fitted before the round."""
    moving: Bool[Array, " rows"]
    """Whether the round changed the layer's mapping."""


@partial(jax.jit, static_argnames=("frame",))
def begin(frame: Frame, rows: Rows, mapped: Mapped) -> Mapped:
    """Mappings of any whole factors, settled for the tiles of their rows."""
    return mapped._replace(factors=_settled(frame, rows, mapped.factors))


@partial(jax.jit, static_argnames=("frame",))
def advance(frame: Frame, rows: Rows, mapped: Mapped, machine: MachineArrays, room: Float[Array, " memories"]) -> Step:
    """One round: every layer that is in the way somewhere makes one factor smaller. `room` are bytes of each memory."""
    nest = _nest(frame, rows, mapped)
    factors, broken = _shrunk(frame, nest, rows, machine, room)
    order = mapped.order
    structure, fuses = frame.structure, frame.structure.fuses
    keeper = next((m for m in structure.keepers("O") if fuses is not None and m > fuses), None)
    if keeper is not None:
        # Sums that leave unfinished do so at least once each; half of that is safe from rounding in 32 bits.
        most = 1.5 * rows.layers.output
        spills = (rows.fusion.copied * rows.layers.is_mac > 0) & (nest.past("O", keeper, ()) > most)
        spills = jax.lax.optimization_barrier(spills)
        factors = jnp.where((frame.above(keeper) & _OUTPUT.T)[:, :, None] & spills, 1, factors)
        order = order.at[0].set(jnp.where(spills, jnp.asarray(frame.reducing)[order[0]], order[0]))
        lost = (rows.must_hold > 0) & (nest.past("O", structure.keepers("O")[1], ()) > most)
        broken = broken | spills | lost
    after = Mapped(_settled(frame, rows, factors), order)
    moving = (after.factors != mapped.factors).any(axis=(0, 1)) | (order != mapped.order).any(axis=0)
    return Step(after, ~_of_group(jax.ops.segment_max, broken, rows), moving)


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
    held, inside = rows.must_hold > 0, jnp.asarray(frame.sums_inside)[:, :, None]
    above = frame.above(frame.structure.keepers("O")[1]) & _OUTPUT.T
    factors = jnp.where(held & above[:, :, None], 1, jnp.where(held & inside, rows.fusion.tile, factors))
    return settle(factors, rows.fusion.tile)


def _of_group(reduce: Callable[..., Array], values: Array, rows: Rows) -> Array:
    """``[..., rows]`` what a reduction says of all layers of each row's group."""
    return cast("Array", reduce(values.T, rows.group, num_segments=rows.group.size)[rows.group].T)


def _shrunk(frame: Frame, nest: Nest, rows: Rows, machine: MachineArrays, room: Array) -> tuple[Array, Array]:
    """Factors after one step of each layer at the first place where it is in the way; and who is at an overfull one."""
    factors, structure = nest.mapping.factors, frame.structure
    axes, memories = structure.axes, structure.memories[1:]
    none = jnp.zeros_like(rows.live_bytes)
    own = tiles(nest, machine)
    held = jnp.stack([jnp.stack([own.running.get((m, t), none) for t in TENSORS]) for m in memories])
    kept = jnp.stack([sum((own.kept.get((m, t), none) for t in TENSORS), own.waiting.get(m, none)) for m in memories])
    running = held.sum(axis=1)
    total = running - kept + _of_group(jax.ops.segment_sum, kept, rows)
    if structure.fuses is not None:
        total = total.at[memories.index(structure.fuses)].add(rows.live_bytes)
    over = total > room[:, None]
    largest = jnp.concatenate([jnp.zeros((len(axes), none.size), dtype=jnp.int32), held.argmax(axis=1)])

    lanes = [nest.spread(range(8), (a,)) / machine.lanes[i] for i, a in enumerate(axes)]
    load = jnp.stack([*lanes, *(_of_group(jax.ops.segment_max, total, rows) / room[:, None])])
    # Loops over outputs whose sums must be held stay where they are.
    loose = (factors > 1) & ~((rows.must_hold > 0) & _OUTPUT)
    part = jnp.asarray(frame.weight[:, :, len(axes) :].max(axis=-1) > 0, dtype=factors.dtype)
    can = jnp.einsum("ndr,ndm->mr", loose.astype(factors.dtype), part) > 0
    # What a layer keeps is in the way of all; what it holds in passing only while it runs itself.
    taken = jnp.where(over, running, jnp.where(load[len(axes) :] > 1, kept, 0)) * can
    gives = (taken > 0) & (taken >= MUCH * _of_group(jax.ops.segment_max, taken, rows))
    gives = jnp.concatenate([load[: len(axes)] > 1, gives])
    place = gives.argmax(axis=0)

    def at_place(values: Array) -> Array:
        return jnp.take_along_axis(values, place[None], axis=0)[0]

    excess, tensor, some, place = jax.lax.optimization_barrier((at_place(load), at_place(largest), gives.any(axis=0), place))
    weight = jnp.asarray(frame.weight, dtype=factors.dtype)[:, :, place, tensor] * factors
    weight = jnp.where((loose | (place < len(axes)) & (factors > 1)) & some, weight, 0)
    after = _less(frame, factors, weight, place, excess)
    return after, over.any(axis=0) | gives[: len(axes)].any(axis=0)


def _less(frame: Frame, factors: Array, weight: Array, place: Array, load: Array) -> Array:
    """The factor of largest weight ``[nodes, 8, rows]`` made smaller, and one outside the place larger.

    It is halved, or divided by a higher power of two if it holds one and the load of the place is so much; an odd one is
    divided by 3, or halved and rounded up.
    """
    nodes, dims, _ = factors.shape
    pick = weight.reshape(nodes * dims, -1).argmax(axis=0)
    node, dim = jnp.arange(nodes)[:, None, None], jnp.arange(dims)[:, None]
    chosen = (node == pick // dims) & (dim == pick % dims) & (weight > 0)
    factor = jnp.where(chosen, factors, 0).sum(axis=(0, 1))
    whole = factor.astype(jnp.int32)
    even = jnp.minimum(whole & -whole, 2 ** jnp.floor(jnp.log2(jnp.clip(load, 2, MOST))))
    ratio = jnp.where(even > 1, even, jnp.where(whole % 3 == 0, 3, 2))
    ratio, factor, pick = jax.lax.optimization_barrier((ratio, factor, pick))
    target = jnp.asarray(frame.outside)[place, pick % dims]
    gets = (node == target) & (dim == pick % dims) & (factor > 0)
    return jnp.where(chosen, jnp.ceil(factor / ratio), jnp.where(gets, factors * ratio, factors))
