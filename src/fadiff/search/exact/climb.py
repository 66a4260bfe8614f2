"""Exact coordinate moves on many mappings at once: what factors and loop orders become, and what that costs.

A *row* is one layer under one condition (its place in a group, and the room it has in every memory) with one starting
mapping. All moves of many rows are priced in one call of the cost model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from fadiff.cost.model import layer_costs
from fadiff.schedule.arrays import Fusion, LayerArrays, MappingArrays
from fadiff.schedule.capacity import tiles
from fadiff.schedule.namespace import namespace
from fadiff.schedule.nest import Nest
from fadiff.search.objective import charged_pj
from fadiff.search.restrictions import Ends, keeps
from fadiff.search.space import rank_table, settle

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.hardware import MachineArrays, Structure
    from fadiff.search.objective import Charges

Orders = tuple[tuple[str, ...], ...]
"""By memory: the loop orders to choose among."""


class Rows(NamedTuple):
    """Layers under conditions; the last axis of every array runs over rows, memories are those below the first."""

    layers: LayerArrays
    fusion: Fusion
    running_room: Float[Array, "memories rows"]
    """Bytes that the row's tiles may take while it runs."""
    kept_room: Float[Array, "memories rows"]
    """Bytes that its tiles may take while other layers of its group run."""
    must_hold: Float[Array, " rows"]
    """1 where sums may not reach the first memory unfinished (softmax under the channel loop)."""
    energy_weight: Float[Array, " rows"]
    cycles_weight: Float[Array, " rows"]
    """price = energy_weight * energy + cycles_weight * cycles, times the layer's repeat."""
    byte_weight: Float[Array, "memories rows"]
    """Price of a byte: breaks ties in favour of small tiles."""
    exact: Float[Array, " rows"]
    """1 where factors must divide what they cut."""
    ends: Ends | None
    """What is asked of mappings; None where nothing is."""


class Moves(NamedTuple):
    """Moves of each row; nodes are numbered as in the machine, -1 is none."""

    dim: Int[Array, "moves rows"]
    source: Int[Array, "moves rows"]
    """The node that gives: its factor becomes ceil(factor / ratio)."""
    target: Int[Array, "moves rows"]
    """The node that takes: its factor becomes factor * ratio + more, rounded down."""
    ratio: Float[Array, "moves rows"]
    more: Float[Array, "moves rows"]
    memory: Int[Array, "moves rows"]
    """The memory (by its place among the memories) whose loop order changes."""
    order: Int[Array, "moves rows"]
    """Number of the new order."""


class Mapped(NamedTuple):
    """Mappings with what the model says of them, as arrays of JAX or NumPy; the last axis runs over rows."""

    factors: Float[Any, "nodes 8 rows"]
    """The first memory's are private."""
    order: Int[Any, "memories rows"]
    """Number of each memory's loop order."""
    price: Float[Any, " rows"]
    """Infinite where nothing fits."""
    energy_pj: Float[Any, " rows"]
    cycles: Float[Any, " rows"]
    running: Float[Any, "memories rows"]
    """Bytes in each memory below the first while the layer runs."""
    kept: Float[Any, "memories rows"]
    """Of these, what stays while other layers of its group run."""
    waiting: Float[Any, "memories rows"]
    """Sums that wait for the next iteration of a channel loop."""


def price(
    structure: Structure,
    orders: Orders,
    rows: Rows,
    factors: Array,
    order: Array,
    machine: MachineArrays,
    *,
    alone: bool = False,
    charges: Charges = (),
) -> Mapped:
    """Price mappings ``[nodes, 8, ..., rows]`` in orders ``[memories, ..., rows]``; with `alone` none shares loops.

    Energies are with the charges of an objective.
    """
    xp = namespace(factors)
    mapping = MappingArrays(factors, tuple(_ranks(choices, order[i]) for i, choices in enumerate(orders)))
    nest = Nest(structure, rows.layers, mapping, rows.fusion, alone=alone)
    costs = layer_costs(nest, machine)
    energy_pj = charged_pj(costs, charges, xp)
    held = tiles(nest, machine)
    memories = structure.memories[1:]
    zero = xp.zeros_like(costs.cycles)
    running = [sum((b for (m, _), b in held.running.items() if m == memory), zero) for memory in memories]
    kept = [sum((b for (m, _), b in held.kept.items() if m == memory), zero) for memory in memories]
    waiting = [held.waiting.get(memory, zero) for memory in memories]
    fits = zero == 0
    for i in range(len(memories)):
        fits = fits & (running[i] <= rows.running_room[i]) & (kept[i] <= rows.kept_room[i])
    for lanes, axis in zip(machine.lanes, structure.axes, strict=True):
        fits = fits & (nest.spread(range(8), (axis,)) <= lanes + 0.5)
    # Sums that leave unfinished do so at least once each; half of that is safe from rounding in 32 bits.
    for keeper, must in ((structure.hands_over, rows.fusion.copied), (structure.home("O"), rows.must_hold)):
        if keeper is not None and not alone:
            fits = fits & ~((must > 0) & (nest.past("O", keeper, ()) > 1.5 * rows.layers.output))
    tile = rows.fusion.tile.reshape(8, *([1] * (factors.ndim - 3)), -1)
    fits = fits & ((rows.exact < 1) | (factors.prod(axis=0) == tile).all(axis=0))
    if rows.ends is not None:
        fits = fits & keeps(rows.ends, nest, order)
    weighed = rows.energy_weight * energy_pj + rows.cycles_weight * costs.cycles
    small = sum(weight * taken for weight, taken in zip(rows.byte_weight, running, strict=True))
    return Mapped(
        factors=factors,
        order=order,
        price=xp.where(fits, weighed * rows.layers.repeat + small, xp.inf),
        energy_pj=energy_pj,
        cycles=costs.cycles,
        running=xp.stack(running),
        kept=xp.stack(kept),
        waiting=xp.stack(waiting),
    )


def _ranks(orders: tuple[str, ...], chosen: Array) -> Array:
    """``[8, ..., rows]`` ranks of the chosen order of a memory's loops."""
    xp = namespace(chosen)
    table = xp.asarray(rank_table(orders))
    if len(orders) == 1:
        return table.reshape(8, *([1] * chosen.ndim))
    return xp.moveaxis(table.T[chosen], -1, 0)


def moved(factors: Array, order: Array, moves: Moves, tile: Array) -> tuple[Array, Array]:
    """Mappings ``[nodes, 8, ..., rows]`` after each move, ``[nodes, 8, moves, rows]``, settled as those before were."""
    xp = namespace(factors)
    turned = _turned(order, moves)
    dims, nodes = xp.arange(8)[:, None, None], xp.arange(factors.shape[0])[:, None, None]
    if xp is not np or factors.shape[2] > 1:
        here = (moves.dim == dims)[None]
        return settle(xp.where(here, stepped(factors, moves, nodes[..., None]), factors), tile), turned
    # A move changes one dim: in NumPy an eighth of the work, where a compiler would have saved the rest.
    return _with_dim(factors, moves.dim, _dim_moved(factors, moves, tile)[1]), turned


def changed(factors: Array, order: Array, moves: Moves, tile: Array) -> tuple[Array, Array]:
    """Mappings ``[nodes, 8, 1, rows]`` after those moves that change something, and the first that does not, in NumPy.

    They stand in the order of the moves, followed by others that change nothing up to the most that a row has. Each row
    needs a move that changes nothing.
    """
    before, after = _dim_moved(factors, moves, tile)
    turned = _turned(order, moves)
    differs = (after != before).any(axis=0) | (turned != order).any(axis=0)
    differs[differs.argmin(axis=0), np.arange(differs.shape[1])] = True
    first = np.argsort(~differs, axis=0, kind="stable")[: differs.sum(axis=0).max()]

    def taken(values: Array) -> Array:
        return namespace(values).take_along_axis(values, first[(None,) * (values.ndim - 2)], axis=-2)

    return _with_dim(factors, taken(moves.dim), taken(after)), taken(turned)


def _turned(order: Array, moves: Moves) -> Array:
    """Orders ``[memories, moves, rows]`` after each move."""
    xp = namespace(order)
    return xp.where(xp.arange(order.shape[0])[:, None, None] == moves.memory, moves.order, order)


def _dim_moved(factors: Array, moves: Moves, tile: Array) -> tuple[Array, Array]:
    """Factors ``[nodes, moves, rows]`` of the dim that each move changes in ``[nodes, 8, 1, rows]``: before, and after
    it, in NumPy."""
    xp = namespace(factors)
    rows, nodes = xp.arange(factors.shape[-1]), xp.arange(factors.shape[0])[:, None, None]
    before = factors[:, moves.dim, 0, rows]
    return before, settle(stepped(before, moves, nodes), tile[moves.dim, 0, rows])


def _with_dim(factors: Array, dim: Array, mine: Array) -> Array:
    """Factors ``[nodes, 8, 1, rows]`` with those of one dim, ``[nodes, moves, rows]``, replaced in each move."""
    found = np.repeat(factors, dim.shape[0], axis=2)
    found[:, dim, np.arange(dim.shape[0])[:, None], np.arange(dim.shape[1])] = mine
    return cast("Array", found)


def stepped(factors: Array, moves: Moves, nodes: Array) -> Array:
    """Factors ``[nodes, ..., moves, rows]`` after what each move does at its nodes."""
    xp = namespace(factors)
    grown = xp.maximum(1, xp.floor(factors * moves.ratio + moves.more))
    return xp.where(
        nodes == moves.source, xp.ceil(factors / moves.ratio), xp.where(nodes == moves.target, grown, factors)
    )


def best_of(tried: Mapped) -> Mapped:
    """The cheapest of the mappings ``[..., moves, rows]`` of each row."""
    xp, chosen = namespace(tried.price), tried.price.argmin(axis=0)

    def take(values: Array) -> Array:
        return xp.take_along_axis(values, chosen[(None,) * (values.ndim - 1)], axis=values.ndim - 2)[..., 0, :]

    return Mapped(*map(take, tried))
