"""DOSA's map space on a given machine, and what the model says of a point in it.

A point gives every layer its *free* factors: those of each dim at the useful nodes below the first memory, which takes
the quotient. The first memory has one of three loop orders, the others a fixed one. Identical layers are one, counted
as often as they run. Functions of points take NumPy arrays (exact, in 64 bits) and traced JAX arrays, whole numbers or
not.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from fadiff.hardware import MachineArrays, Structure, pack_machine
from fadiff.schedule import Group, Schedule
from fadiff.schedule.arrays import Fusion, LayerArrays, MappingArrays, pack_layers, unpack_mapping
from fadiff.schedule.capacity import tiles
from fadiff.schedule.namespace import namespace
from fadiff.schedule.nest import Members, Nest, product
from fadiff.search.exact.conditions import Condition, Task
from fadiff.search.objective import EDP
from fadiff.search.space import divisors, rank_table
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax import Array
    from jaxtyping import Bool, Float, Int

    from fadiff.search.objective import Objective

    Point = Int[np.ndarray, "free starts layers"]
    Orders = Int[np.ndarray, "starts layers"]

ORDERS = ("GKCSRNQP", "GNCQPSRK", "GNQPKCSR")
"""The first memory's loops, outer to inner: weight-, input- and output-stationary. DOSA has no G; it is relevant to
every tensor."""
LAYER_STEP = 8
"""Layers are padded to a multiple of this, so that networks of similar size share a compiled program."""


class RealNest(Nest):
    """Loop nests of real factors that multiply to the sizes: a count is the product of the factors in its set."""

    def held(self, node: int, dim: int) -> Array:
        """The extent of a dim held in one instance of a memory."""
        return self.factors[node][dim] * self.below[node][dim]

    def _count(self, dim: int, inside: Members, axes: Sequence[int]) -> Array:
        member = {loop.node: inside.holds(loop) for loop in self.loops if loop.dim == dim} | dict.fromkeys(axes, True)
        nodes = [node for node in self.nodes_of(dim) if member.get(node, False) is not False]
        factors = [self.xp.where(member[node], self.factors[node][dim], 1) for node in nodes]
        return product([self.xp.ones_like(self.factors[0][dim]), *factors])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Model:
    """All that the cost of a point depends on: what programs are compiled for, and numbers."""

    structure: Structure = field(metadata={"static": True})
    free: tuple[tuple[int, int], ...] = field(metadata={"static": True})
    """Node and dim of each free factor, in the order of rounding: axes, then memories, from the inside out."""
    inner_orders: tuple[str, ...] = field(metadata={"static": True})
    """The loop order of each memory but the first."""
    layers: LayerArrays
    """One layer of each kind; `repeat` counts all that run of the kind, and is 0 for padding."""
    machine: MachineArrays
    runs: Bool[Any, "free 1 layers"]
    """Whether a free factor may differ from 1: its dim has more than one trip."""
    objective: Float[Any, " 3"]
    """a, b and s of (energy + s * latency)^a * latency^b; numbers, so that all objectives share a compiled program."""


class MapSpace(NamedTuple):
    """The points of a network on a machine."""

    task: Task
    kind: Int[np.ndarray, " layers_of_the_network"]
    """The number of each layer's kind: its place among the layers of a point."""
    mapped: dict[int, Condition]
    """The kinds of MAC layers by their number: the first layer of each, on its own."""
    exact: Model
    """The model that schedules are judged by."""
    internal: Model
    """DOSA's model, which it descends on: an unfinished sum in the first memory is as wide as an output."""
    divisors: Int[np.ndarray, "8 layers most"]
    """Divisors of every size, the largest first; padded with 0."""


def pack_mapspace(task: Task, objective: Objective = EDP) -> MapSpace:
    """Pack what the search needs."""
    workload, machine = task.workload, pack_machine(task.machine)
    first = sorted(set(task.twin))
    kind = np.searchsorted(first, task.twin)
    count = -(-len(first) // LAYER_STEP) * LAYER_STEP
    padded = np.resize(first, count)  # padding repeats the layers, none of which runs
    packed = pack_layers(workload)
    repeat = np.bincount(kind, weights=np.asarray(packed.repeat), minlength=count)
    layers = LayerArrays(*(values[..., padded] for values in packed))._replace(repeat=repeat)
    free, inner_orders = _free_factors(task), tuple(orders[0] for orders in task.space.orders[1:])
    runs = ((np.asarray(layers.size) > 1) & (np.asarray(layers.is_mac) * repeat > 0))[[d for _, d in free]][:, None]
    numbers = np.array([*objective.exponents, objective.pj_per_cycle], dtype=np.float64)
    exact = Model(task.machine.structure, free, inner_orders, layers, machine, runs, numbers)
    internal = replace(exact, machine=machine._replace(bits_spilled=machine.bits_o))
    lists = [divisors(int(size))[::-1] for size in np.asarray(layers.size).flat]
    table = np.array([*zip_longest(*lists, fillvalue=0)]).T.reshape(8, count, -1)
    named = enumerate(workload.layers[i] for i in first)
    mapped = {k: task.alone(layer.name) for k, layer in named if layer.is_mac}
    return MapSpace(task, kind, mapped, exact, internal, table)


def _free_factors(task: Task) -> tuple[tuple[int, int], ...]:
    """Nodes and dims of the free factors: useful nodes below the first memory, in the order of rounding.

    As published for Gemmini, a memory that brings W and I to the memory of sums has no loops of its own.
    """
    structure = task.machine.structure
    passing = [
        outer
        for outer, inner in pairwise(structure.memories)
        if set(structure.keeps[outer]) == {"W", "I"} and structure.keeps[inner] == "O"
    ]
    nodes = [node for node in (*structure.axes[::-1], *structure.memories[:0:-1]) if node not in passing]
    return tuple((node, d) for node in nodes for d, dim in enumerate(DIMS) if node in task.space.nodes[dim])


def every_factor(model: Model, point: Float[Any, "free *batch layers"]) -> Array:
    """``[nodes, 8, ..., layers]`` all factors of points ``[free, ..., layers]``; the first memory's are quotients."""
    xp = namespace(point)
    one = xp.ones_like(point[0])
    rows = [[one] * 8 for _ in model.structure.keeps]
    for factor, (node, d) in zip(point, model.free, strict=True):
        rows[node][d] = factor
    rows[0] = [model.layers.size[d] / product([row[d] for row in rows]) for d in range(8)]
    return xp.stack([xp.stack(row) for row in rows])


def nest_of(model: Model, factors: Array, orders: Int[Any, "*batch layers"]) -> Nest:
    """The nests of `factors` ``[nodes, 8, ..., layers]``; `orders` ``[..., layers]`` are numbers into ORDERS."""
    none, nothing = model.layers.repeat * 0, model.layers.size * 0
    unfused = Fusion(nothing + 1, nothing, model.layers.size, none, none, none, none + 1, none, none)
    first, *inner = (namespace(factors).asarray(rank_table(each)) for each in (ORDERS, *zip(model.inner_orders)))
    rank = (first[:, orders], *inner)
    return RealNest(model.structure, model.layers, MappingArrays(factors, rank), unfused, alone=True)


def loads(nest: Nest, machine: MachineArrays) -> Array:
    """``[places, ..., layers]`` shares of each axis and of each memory that a layer needs; above 1 it does not fit."""
    structure, held = nest.structure, tiles(nest, machine).running
    lanes = [nest.spread(range(8), (axis,)) / machine.lanes[i] for i, axis in enumerate(structure.axes)]
    needs = [
        sum(size for (where, _), size in held.items() if where == memory) / machine.usable_bytes[i + 1]
        for i, memory in enumerate(structure.memories[1:])
    ]
    return nest.xp.stack([*lanes, *needs])


def measure(model: Model, energy_pj: Float[Any, "*batch"], cycles: Float[Any, "*batch"]) -> Any:  # noqa: ANN401
    """The cost that is minimized, such as EDP (uJ * cycles), energy (uJ) or latency (cycles)."""
    a, b, s = model.objective
    return ((energy_pj + s * cycles) * 1e-6) ** a * cycles**b


def to_schedule(space: MapSpace, point: Int[np.ndarray, "free layers"], orders: Int[np.ndarray, " layers"]) -> Schedule:
    """The schedule of one start, brought near to what is asked of its mappings. Nothing is fused."""
    workload, asked = space.task.workload, space.task.restrictions
    whole = np.asarray(every_factor(space.exact, point.astype(np.float64)))
    by_kind = {
        k: asked.near(
            condition.layer,
            unpack_mapping(whole[:, :, k], (1,) * 8, (ORDERS[int(orders[k])], *space.exact.inner_orders)),
        )
        for k, condition in space.mapped.items()
    }
    kinds = zip(workload.layers, space.kind.tolist(), strict=True)
    mappings = {layer.name: by_kind[k] for layer, k in kinds if k in by_kind}
    return Schedule(workload, space.task.machine, tuple(Group((name,)) for name in workload.topological), mappings)
