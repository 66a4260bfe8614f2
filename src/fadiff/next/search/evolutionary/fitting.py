"""Mappings made to fit: factors move outwards, a step at a time, in one compiled loop over a whole population.

A *row* is one layer of one individual. Where the lanes of an axis are too few, a factor of the axis moves to the next
memory outside it; where a memory is overfull, one of the factors inside it does, of the layer that takes most of it. A
fused producer whose sums would leave unfinished gets its reductions inside: its loops over outputs move to the first
memory, and its order there ends with C, R, S.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from fadiff.next.cost.model import layer_costs
from fadiff.next.schedule.arrays import MappingArrays
from fadiff.next.schedule.capacity import tiles
from fadiff.next.schedule.nest import Nest, product
from fadiff.next.search.space import rank_table, settle
from fadiff.workload.layer import DIMS, RELEVANT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax import Array
    from jaxtyping import Bool, Float, Int

    from fadiff.next.hardware import MachineArrays, Structure
    from fadiff.next.schedule.arrays import Fusion, LayerArrays

_OUTPUT = tuple(DIMS.index(d) for d in RELEVANT["O"])
_LOOPS_FIRST, _LARGEST_FIRST = 1e6, 1e12
"""Loops give way before lanes, and of several tensors the one that takes most."""
_MOST = 2.0**20
"""A factor is divided by no more than this in one step."""
_MUCH = 0.5
"""Of an overfull group those layers give way that take this share of what the largest takes."""


class Frame(NamedTuple):
    """What of a machine a program is compiled for."""

    structure: Structure
    nodes: tuple[tuple[int, ...], ...]
    """By dim: the nodes that may have a factor."""
    orders: tuple[tuple[str, ...], ...]
    """By memory: the loop orders to choose among."""

    def outside(self, node: int) -> tuple[int, ...]:
        """By dim: the next memory further out than a node that may have a factor."""
        memories = self.structure.memories
        return tuple(max(n for n in nodes if n in memories and n < node) for nodes in self.nodes)

    def inside(self, memory: int) -> tuple[int, ...]:
        """By dim: the next memory from this one inwards that may have a factor; or this one."""
        memories = self.structure.memories
        return tuple(min((n for n in nodes if n in memories and n >= memory), default=memory) for nodes in self.nodes)

    def reducing(self) -> tuple[int, ...]:
        """For each order of the first memory's loops, one like it with C, R, S innermost."""
        last = [i for i, order in enumerate(self.orders[0]) if set(order[-3:]) == set("CRS")]
        like = [order.translate(str.maketrans("", "", "CRS")) for order in self.orders[0]]
        return tuple(min(last, key=lambda i: (like[i] != mine, i)) for mine in like)


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


class Fitted(NamedTuple):
    """Mappings that fit, and what they cost."""

    factors: Float[Array, "nodes 8 rows"]
    """The first memory's are private."""
    order: Int[Array, "memories rows"]
    fits: Bool[Array, " rows"]
    """Whether all of the layer's group fits."""
    moving: Bool[Array, " rows"]
    """Whether the last round moved the layer: it may not fit yet."""
    energy_pj: Float[Array, " rows"]
    cycles: Float[Array, " rows"]


class _State(NamedTuple):
    factors: Array
    order: Array
    broken: Array
    """What the last round found wrong, before it moved anything."""
    moving: Array
    rounds: Array


@partial(jax.jit, static_argnames=("frame",))
def fit(
    frame: Frame,
    rows: Rows,
    factors: Float[Array, "nodes 8 rows"],
    order: Int[Array, "memories rows"],
    machine: MachineArrays,
    room: Float[Array, " memories"],
    max_rounds: Array,
) -> Fitted:
    """Move factors outwards until every group fits or gets no smaller, or the rounds are over; and price the result.

    `factors` may be any whole numbers; `room` are the bytes of each memory.
    """

    def advance(state: _State) -> _State:
        nest = _nest(frame, rows, state.factors, state.order)
        smaller, broken = _shrunk(frame, nest, rows, machine, room)
        spills = _unfinished(nest, rows)
        if spills is not None:
            smaller = _outputs_outside(frame, smaller, spills)
            broken = broken | spills | _lost(nest, rows)
        inside = jnp.asarray(frame.reducing())[state.order[0]]
        first = state.order[0] if spills is None else jnp.where(spills, inside, state.order[0])
        after = settle(jnp.stack(smaller), rows.fusion.tile), state.order.at[0].set(first)
        moving = (after[0] != state.factors).any(axis=(0, 1)) | (first != state.order[0])
        return _State(*after, broken, moving, state.rounds + 1)

    start = settle(_held_inside(frame, factors, rows), rows.fusion.tile)
    moving = jnp.ones(order.shape[1:], dtype=bool)
    begin = _State(start, order, moving, moving, jnp.array(0))
    final = jax.lax.while_loop(lambda state: state.moving.any() & (state.rounds < max_rounds), advance, begin)
    costs = layer_costs(_nest(frame, rows, final.factors, final.order), machine)
    fits = ~_of_group(jax.ops.segment_max, final.broken, rows)
    return Fitted(final.factors, final.order, fits, final.moving, costs.energy_pj, costs.cycles)


def _nest(frame: Frame, rows: Rows, factors: Array, order: Array) -> Nest:
    rank = tuple(jnp.asarray(rank_table(orders))[:, order[i]] for i, orders in enumerate(frame.orders))
    return Nest(frame.structure, rows.layers, MappingArrays(factors, rank), rows.fusion)


def _of_group(of: jax.ops.segment_sum, values: Array, rows: Rows) -> Array:
    """What a reduction says of all layers of each row's group."""
    return of(values, rows.group, num_segments=values.shape[-1])[rows.group]


# Sums that must be finished


def _unfinished(nest: Nest, rows: Rows) -> Array | None:
    """Fused producers that would hand over unfinished sums; None on a machine that cannot fuse."""
    fuses = nest.structure.fuses
    keeper = next((m for m in nest.structure.keepers("O") if fuses is not None and m > fuses), None)
    if keeper is None:
        return None
    # Sums that leave unfinished do so at least once each; half of that is safe from rounding in 32 bits.
    return (rows.fusion.copied > 0) & (rows.layers.is_mac > 0) & (nest.past("O", keeper, ()) > 1.5 * rows.layers.output)


def _lost(nest: Nest, rows: Rows) -> Array:
    """Consumers of a channel loop whose sums would leave, though they must be held."""
    home = nest.structure.keepers("O")[1]
    return (rows.must_hold > 0) & (nest.past("O", home, ()) > 1.5 * rows.layers.output)


def _outputs_outside(frame: Frame, factors: Sequence[Array], where: Array) -> list[Array]:
    """No loops over outputs between the first memory and the sums: they would cut a reduction further out."""
    fuses, structure = frame.structure.fuses, frame.structure
    source = next(m for m in structure.keepers("O") if fuses is not None and m > fuses)
    output = _dims(_OUTPUT)
    return [
        jnp.where(output & where, 1, mine) if 0 < node < source and node in structure.memories else mine
        for node, mine in enumerate(factors)
    ]


def _held_inside(frame: Frame, factors: Array, rows: Rows) -> Array:
    """Outputs whose sums must be held, all inside the home of sums."""
    structure = frame.structure
    home = structure.keepers("O")[1]
    inside = frame.inside(home)
    held = list(factors)
    for node in structure.memories:
        mine = [d for d in _OUTPUT if inside[d] == node]
        value = rows.fusion.tile if node >= home else jnp.ones_like(rows.fusion.tile)
        where = _dims(mine if node >= home else _OUTPUT) & (rows.must_hold > 0)
        held[node] = jnp.where(where, value, held[node])
    return jnp.stack(held)


# What does not fit


def _shrunk(
    frame: Frame, nest: Nest, rows: Rows, machine: MachineArrays, room: Array
) -> tuple[list[Array], Array]:
    """Factors after one step of each layer at each place that is overfull, and which layers are at one."""
    structure = frame.structure
    factors = list(nest.mapping.factors)
    broken = jnp.zeros_like(rows.must_hold, dtype=bool)
    for lanes, axis in zip(machine.lanes, structure.axes, strict=True):
        used = nest.spread(range(8), (axis,)) / lanes
        # Lanes are whole numbers.
        over = used > 1 + 0.5 / lanes
        weight = jnp.where(_dims([DIMS.index(d) for d in structure.dims[axis]]), factors[axis], 1)
        factors = _step(frame, factors, axis, (axis,), jnp.where(over & (weight > 1), weight, 0), used)
        broken = broken | over
    own = tiles(nest, machine)
    for i, memory in enumerate(structure.memories[1:]):
        held = {tensor: values for (where, tensor), values in own.running.items() if where == memory}
        kept = sum((values for (where, _), values in own.kept.items() if where == memory), jnp.zeros_like(broken, float))
        waiting = own.waiting.get(memory, jnp.zeros_like(kept))
        running = sum(held.values(), jnp.zeros_like(kept))
        total = running - kept - waiting + _of_group(jax.ops.segment_sum, kept + waiting, rows)
        total = total + rows.live_bytes if memory == structure.fuses else total
        over = total > room[i]
        weight = _weights(frame, factors, memory, held)
        weight = jnp.where(_dims(_OUTPUT) & (rows.must_hold > 0), 0, weight)
        # What a layer keeps is in the way of all; what it holds in passing only while it runs itself.
        anywhere = _of_group(jax.ops.segment_max, over, rows)
        taken = jnp.where(over, running, jnp.where(anywhere, kept + waiting, 0))
        taken = jnp.where((weight > 0).any(axis=0), taken, 0)
        most = (taken > 0) & (taken >= _MUCH * _of_group(jax.ops.segment_max, taken, rows))
        excess = _of_group(jax.ops.segment_max, total, rows) / room[i]
        inside = [n for n in structure.memories if n >= memory] + [n for n in structure.axes if n > memory]
        factors = _step(frame, factors, memory, inside, jnp.where(most, weight, 0), excess)
        broken = broken | over
    return factors, broken


def _weights(frame: Frame, factors: Sequence[Array], memory: int, held: dict[str, Array]) -> Array:
    """``[8, rows]`` how soon each dim gives way in a memory: loops of its largest tile first; 0 where it cannot."""
    structure = frame.structure
    looped = product([factors[n] for n in structure.memories if n >= memory])
    lanes = product([jnp.ones_like(looped), *(factors[n] for n in structure.axes if n > memory)])
    weight = jnp.where(looped > 1, looped * _LOOPS_FIRST, jnp.where(lanes > 1, lanes, 0))
    largest = jnp.stack(list(held.values())).max(axis=0)
    scale = jnp.zeros_like(weight)
    for tensor, values in held.items():
        relevant = _dims([DIMS.index(d) for d in RELEVANT[tensor]])
        scale = jnp.maximum(scale, jnp.where(relevant, jnp.where(values >= largest, _LARGEST_FIRST, 1), 0))
    return weight * scale


def _step(
    frame: Frame, factors: Sequence[Array], place: int, nodes: Sequence[int], weight: Array, excess: Array
) -> list[Array]:
    """The factors with one less inside a place, of the dim of largest weight ``[8, rows]``: its outermost loop.

    The factor is halved, or divided by a higher power of two where it holds one and so much is too much; odd ones by 3,
    or halved and rounded up.
    """
    after = list(factors)
    here = (weight == weight.max(axis=0)) & (weight > 0)
    here = here & (jnp.cumsum(here, axis=0) == 1)
    left, moved = here.any(axis=0), jnp.ones_like(excess)
    wanted = 2.0 ** jnp.floor(jnp.log2(jnp.clip(excess, 2, _MOST)))
    for node in nodes:
        factor = jnp.where(here, factors[node], 0).sum(axis=0)
        mine = left & (factor > 1)
        whole = factor.astype(jnp.int32)
        even = jnp.minimum((whole & -whole).astype(factor.dtype), wanted)
        ratio = jnp.where(even > 1, even, jnp.where(whole % 3 == 0, 3, 2))
        after[node] = jnp.where(here & mine, jnp.ceil(factor / ratio), after[node])
        moved = jnp.where(mine, ratio, moved)
        left = left & ~mine
    target = frame.outside(place)
    for node in set(target) - {0}:
        gets = here & _dims([d for d, to in enumerate(target) if to == node])
        after[node] = jnp.where(gets, after[node] * moved, after[node])
    return after


def _dims(dims: Sequence[int]) -> Array:
    """``[8, 1]`` whether a dim is one of some."""
    return jnp.array([d in dims for d in range(8)])[:, None]
