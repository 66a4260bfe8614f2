"""Mappings made to fit: factors move outwards, a step at a time, all layers of a population at once.

A *row* is one layer of one individual. A *place* is an axis, which may have too few lanes, or a memory below the first,
which may be overfull. A factor inside the place then moves to the next memory outside it: of the axis itself, or of the
layer that takes most of the memory, loops before lanes, the largest first. A fused producer whose sums would leave
unfinished gets its reductions inside: its loops over outputs move to the first memory, whose order ends with C, R, S.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.cost.model import layer_costs
from fadiff.schedule.arrays import MappingArrays
from fadiff.schedule.capacity import tiles
from fadiff.schedule.namespace import namespace
from fadiff.schedule.nest import Nest
from fadiff.search.programs import compile_in_time
from fadiff.search.space import rank_table, settle
from fadiff.workload.layer import DIMS, RELEVANT, TENSORS

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Bool, Float, Int

    from fadiff.hardware import MachineArrays, Structure
    from fadiff.schedule.arrays import Fusion, LayerArrays

LOOPS_FIRST, LARGEST_FIRST = 1e6, 1e12
"""Loops give way before lanes, and of several tensors in a memory the one that takes most."""
MUCH = 0.5
"""Of an overfull group those layers give way that take this share of what the largest takes."""
MOST = 2.0**20
"""A factor is divided by no more than this in one step."""
ROUNDS = 8
"""Rounds of one call: after a few of them most layers fit."""
_OUTPUT = np.array([dim in RELEVANT["O"] for dim in DIMS])


@dataclass(frozen=True)
class Frame:
    """What of a machine the programs are compiled for."""

    structure: Structure
    nodes: tuple[tuple[int, ...], ...]
    """By dim: where factors may pay."""
    orders: tuple[tuple[str, ...], ...]
    """By memory: the loop orders to choose among."""

    @property
    def places(self) -> tuple[int, ...]:
        """The axes, then the memories below the first."""
        return (*self.structure.axes, *self.structure.memories[1:])

    @cached_property
    def weight(self) -> Float[np.ndarray, "nodes 8 places tensors"]:
        """How soon a factor gives way at a place whose largest tile is of a tensor; 0 where it takes no part.

        One past the last place nothing gives way.
        """
        keeps, memories = self.structure.keeps, self.structure.memories
        weight = np.zeros((len(keeps), len(DIMS), len(self.places) + 1, len(TENSORS)), dtype=np.float32)
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
        """The next memory further out than a place that may have a factor of a dim; one past the last, the first."""
        memories = self.structure.memories
        return np.array(
            [
                [max((n for n in nodes if n in memories and n < place), default=0) for nodes in self.nodes]
                for place in (*self.places, 0)
            ]
        )

    @cached_property
    def sums_inside(self) -> Bool[np.ndarray, "nodes 8"]:
        """Where loops over outputs stand that run inside the home of sums; where no node is useful, in the home."""
        home, memories = self.structure.home("O") or 0, self.structure.memories
        found = np.zeros((len(self.structure.keeps), len(DIMS)), dtype=bool)
        for d, nodes in enumerate(self.nodes):
            found[min((n for n in nodes if n in memories and n >= home), default=home), d] = _OUTPUT[d]
        return found

    def sums_outside(self, keeper: int | None) -> Bool[np.ndarray, "nodes 8 1"]:
        """Where loops over outputs stand that run outside a keeper of sums."""
        above = [node < (keeper or 0) and bool(keeps) for node, keeps in enumerate(self.structure.keeps)]
        return (np.array(above)[:, None] & _OUTPUT)[:, :, None]

    @cached_property
    def reducing(self) -> Int[np.ndarray, " orders"]:
        """For each order of the first memory's loops, one like it with C, R, S innermost."""
        last = [i for i, order in enumerate(self.orders[0]) if set(order[-3:]) == set("CRS")]
        rest = ["".join(dim for dim in order if dim not in "CRS") for order in self.orders[0]]
        return np.array([min(last, key=lambda i: (rest[i] != mine, i)) for mine in rest])


class Rows(NamedTuple):
    """Layers of individuals, each in its place in a group, as arrays of JAX or NumPy; the last axis runs over rows."""

    layers: LayerArrays
    fusion: Fusion
    group: Int[Any, " rows"]
    """The row that stands for the layer's group."""
    live_bytes: Float[Any, " rows"]
    """Buffers in the memory that fuses while the layer runs."""
    must_hold: Float[Any, " rows"]
    """1 where sums may not reach the first memory unfinished (softmax under the channel loop)."""
    least: Float[Any, "nodes 8 rows"] | None = None
    """Factors below which none may shrink; None where any may."""


class Mapped(NamedTuple):
    """A mapping of each row."""

    factors: Float[Any, "nodes 8 rows"]
    """The first memory's are private."""
    order: Int[Any, "memories rows"]
    """Number of each memory's loop order."""


class Fitted(NamedTuple):
    """Mappings after some rounds, with what the model says of them."""

    factors: Float[Any, "nodes 8 rows"]
    order: Int[Any, "memories rows"]
    fits: Bool[Any, " rows"]
    """Whether all of the layer's group fits."""
    moving: Bool[Any, " rows"]
    """Whether the last round changed the mapping: then it may fit after some more."""
    energy_pj: Float[Any, " rows"]
    cycles: Float[Any, " rows"]


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


def fit(
    frame: Frame,
    rows: Rows,
    mapped: Mapped,
    machine: MachineArrays,
    room: Float[Any, " memories"],
    deadline: float = inf,
) -> Fitted:
    """Settle mappings of any whole factors, and make them smaller until they fit or get no smaller, for a few rounds.

    `room` are the bytes of each memory below the first. One program for a whole round would compute again, for every
    factor, what is wrong with its layer. Raises :class:`~fadiff.search.driver.OutOfTimeError` where a program cannot be
    compiled before the deadline.
    """

    def run(program: Any, *args: Any) -> Any:  # noqa: ANN401  (JAX leaves its programs untyped)
        compile_in_time("repairing schedules", deadline, len(frame.structure.dims), program, *args)
        return program(*args)

    now = mapped._replace(factors=_settled(frame, rows, mapped.factors))
    fits = moving = np.zeros(0, dtype=bool)
    for _ in range(ROUNDS):
        excess: Excess = run(examine, frame, rows, now, machine, room)
        now, moving = run(relieve, frame, rows, now, excess)
        fits = excess.fits
        if not np.asarray(moving).any():
            break
    energy_pj, cycles = run(price, frame, rows, now, machine)
    return jax.device_get(Fitted(now.factors, now.order, fits, moving, energy_pj, cycles))


@partial(jax.jit, static_argnames=("frame",))
def examine(
    frame: Frame, rows: Rows, mapped: Mapped, machine: MachineArrays, room: Float[Array, " memories"]
) -> Excess:
    """Where layers do not fit; `room` are the bytes of each memory below the first."""
    nest, structure, xp = _nest(frame, rows, mapped), frame.structure, namespace(mapped.factors)
    axes, memories = structure.axes, structure.memories[1:]
    own, none = tiles(nest, machine), cast("Array", xp.zeros_like(rows.live_bytes))
    held = xp.stack([xp.stack([own.running.get((m, t), none) for t in TENSORS]) for m in memories])
    kept = xp.stack([sum((own.kept.get((m, t), none) for t in TENSORS), own.waiting.get(m, none)) for m in memories])
    buffers = xp.stack([rows.live_bytes if m == structure.fuses else none for m in memories])
    running = held.sum(axis=1)
    total = running - kept + _of_group("add", kept, rows) + buffers
    over, peak = total > room[:, None], _of_group("max", total, rows)
    # What a layer keeps is in the way of all; what it holds in passing only while it runs itself.
    taken = xp.where(over, running, xp.where(peak > room[:, None], kept, 0)) * _may_shrink(frame, rows, mapped)
    gives = (taken > 0) & (taken >= MUCH * _of_group("max", taken, rows))
    lanes = [nest.spread(range(8), (axis,)) / machine.lanes[i] for i, axis in enumerate(axes)]
    load = xp.stack([*lanes, *(peak / room[:, None]), none])
    crowded = load[: len(axes)] > 1
    place = xp.concat([crowded, gives, none[None] == 0]).argmax(axis=0)
    largest = xp.concat([0 * crowded, held.argmax(axis=1), 0 * over[:1]])
    spills, lost = _unfinished(nest, rows)
    broken = over.any(axis=0) | crowded.any(axis=0) | spills | lost

    def at_place(values: Array) -> Array:
        return xp.take_along_axis(values, place[None], axis=0)[0]

    fits = _of_group("max", xp.where(broken, 1.0, 0.0), rows) == 0
    return Excess(place, at_place(largest), at_place(load), spills, fits)


@partial(jax.jit, static_argnames=("frame",))
def relieve(frame: Frame, rows: Rows, mapped: Mapped, excess: Excess) -> tuple[Mapped, Bool[Array, " rows"]]:
    """One step of each layer that is in the way; and which layers changed.

    At its place the factor of largest weight is halved, or divided by a higher power of two if it holds one and the
    load is so much; an odd one is divided by 3, or halved and rounded up. One outside the place grows by as much.
    """
    factors, order = mapped
    xp, (nodes, dims, _) = namespace(factors), factors.shape
    weight = xp.asarray(frame.weight)[:, :, excess.place, excess.tensor] * factors
    weight = xp.where(_loose(rows, factors) | ((excess.place < len(frame.structure.axes)) & (factors > 1)), weight, 0)
    pick = weight.reshape(nodes * dims, -1).argmax(axis=0)
    node, dim = xp.arange(nodes)[:, None, None], xp.arange(dims)[:, None]
    chosen = (node == pick // dims) & (dim == pick % dims) & (weight > 0)
    factor = xp.where(chosen, factors, 0).sum(axis=(0, 1))
    whole = factor.astype(xp.int32)
    even = xp.minimum(whole & -whole, 2 ** xp.floor(xp.log2(xp.clip(excess.load, 2, MOST))))
    ratio = xp.where(even > 1, even, xp.where(whole % 3 == 0, 3, 2))
    target = xp.asarray(frame.outside)[excess.place, pick % dims]
    gets = (node == target) & (dim == pick % dims) & (factor > 0)
    shrunk = xp.maximum(xp.ceil(factor / ratio), 1 if rows.least is None else rows.least)
    smaller = xp.where(chosen, shrunk, xp.where(gets, factors * ratio, factors))
    smaller = xp.where(frame.sums_outside(frame.structure.hands_over) & excess.spills, 1, smaller)
    first = xp.where(excess.spills, xp.asarray(frame.reducing)[order[0]], order[0])
    after = Mapped(_settled(frame, rows, smaller), xp.concat([first[None], order[1:]]))
    return after, (after.factors != factors).any(axis=(0, 1)) | (first != order[0])


@partial(jax.jit, static_argnames=("frame",))
def price(frame: Frame, rows: Rows, mapped: Mapped, machine: MachineArrays) -> tuple[Array, Array]:
    """Energy (pJ) and cycles of every row."""
    costs = layer_costs(_nest(frame, rows, mapped), machine)
    return costs.energy_pj, costs.cycles


def _nest(frame: Frame, rows: Rows, mapped: Mapped) -> Nest:
    xp = namespace(mapped.factors)
    rank = tuple(xp.asarray(rank_table(orders))[:, mapped.order[i]] for i, orders in enumerate(frame.orders))
    return Nest(frame.structure, rows.layers, MappingArrays(mapped.factors, rank), rows.fusion)


def _settled(frame: Frame, rows: Rows, factors: Array) -> Array:
    """Settled factors; where sums must be held, with all loops over outputs inside their home."""
    xp, held = namespace(factors), rows.must_hold > 0
    inside = xp.where(held & frame.sums_inside[:, :, None], rows.fusion.tile, factors)
    return settle(xp.where(held & frame.sums_outside(frame.structure.home("O")), 1, inside), rows.fusion.tile)


def _of_group(how: Literal["add", "max"], values: Array, rows: Rows) -> Array:
    """``[..., rows]`` the sum or the largest of values, none negative, over all layers of each row's group."""
    if namespace(values) is np:
        every, reduce = np.zeros(values.shape), cast("Any", np.add if how == "add" else np.maximum)
        reduce.at(every, (..., rows.group), values)
        return cast("Array", every[..., rows.group])
    return getattr(jnp.zeros_like(values).at[..., rows.group], how)(values)[..., rows.group]


def _loose(rows: Rows, factors: Array) -> Array:
    """``[nodes, 8, rows]`` factors that may become smaller: loops over outputs whose sums must be held stay."""
    return (factors > (1 if rows.least is None else rows.least)) & ~((rows.must_hold > 0) & _OUTPUT[:, None])


def _may_shrink(frame: Frame, rows: Rows, mapped: Mapped) -> Array:
    """``[memories, rows]`` whether any factor of a layer takes part in a memory and may become smaller."""
    xp = namespace(mapped.factors)
    part = (frame.weight[:, :, len(frame.structure.axes) : -1] > 0).any(axis=-1)
    return xp.einsum("ndr,ndm->mr", _loose(rows, mapped.factors) * 1.0, xp.asarray(part * 1.0)) > 0


def _unfinished(nest: Nest, rows: Rows) -> tuple[Array, Array]:
    """Fused producers, and consumers of a channel loop that must hold their sums, whose sums leave unfinished."""
    most = 1.5 * rows.layers.output  # sums leave at least once each: half of that is safe from rounding in 32 bits

    def leave(keeper: int | None, must_end: Array) -> Array:
        return must_end < 0 if keeper is None else (must_end > 0) & (nest.past("O", keeper, ()) > most)

    spills = leave(nest.structure.hands_over, rows.fusion.copied * rows.layers.is_mac)
    return spills, leave(nest.structure.home("O"), rows.must_hold)
