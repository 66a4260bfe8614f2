"""Layers under conditions: what a mapping depends on besides the layer itself.

A condition is a layer's place in a group: the tiles and the nesting of its shared loops, and which of its tensors are
fused. Identical layers under identical conditions share one search.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fadiff.hardware import MachineArrays, pack_machine
from fadiff.schedule import Group
from fadiff.schedule.arrays import Fusion, LayerArrays, pack_layers
from fadiff.schedule.constraints import Constraints
from fadiff.schedule.tiling import shared_dim
from fadiff.search.driver import Settings
from fadiff.search.exact.climb import Moves, Rows
from fadiff.search.restrictions import Restrictions
from fadiff.search.space import Space, looped_structure, prime_powers, useful_structure
from fadiff.search.trees import each
from fadiff.workload import DIMS, Layer, Workload

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float

    from fadiff.hardware import Machine
    from fadiff.search.objective import Charges, Weights

    Bytes = Float[np.ndarray, "memories layers"]

LARGEST_STEP = 8
"""Powers of primes up to here move in one step."""
STRETCHES = (1.5, 1.25, 0.8, 0.67)
"""A factor may change by so much in one step, rounded down, and the first memory's makes up for it."""
FEW_NODES = 4
"""Up to so many useful nodes of a dim, factors move between any two of them."""


class Condition(NamedTuple):
    """A layer (its number stands for all identical ones) and its place in a group."""

    layer: int
    tile: tuple[int, ...]
    """Extent of each dim in one shared iteration; its size where it is not shared."""
    rank: tuple[int, ...]
    """Nesting of the shared loops by dim, outermost 0."""
    # From here on as :class:`~fadiff.schedule.arrays.Fusion` has them.
    fused_channels: int
    fused_weight: bool
    fused_addends: int
    drained: bool
    copied: bool
    grouped: bool
    must_hold: bool
    """Sums may not reach the first memory unfinished."""


class Room(NamedTuple):
    """Bytes in each memory below the first: for a layer's tiles while it runs, and for what it keeps."""

    running: tuple[float, ...]
    kept: tuple[float, ...]


def room_left(there: Room, total: Bytes, running: Bytes, kept: Bytes, me: int) -> Room:
    """What the other layers of its group leave to layer v (`me`); `total` is all that is there while a layer runs.

    .. math:: running = there - (total_v - running_v), \\qquad kept = there - \\max_{u \\neq v} (total_u - kept_v)
    """
    elsewhere = (np.delete(total, me, axis=1) - kept[:, [me]]).max(axis=1, initial=0)
    return Room(tuple(there.running - total[:, me] + running[:, me]), tuple(there.kept - elsewhere))


class Task:
    """A workload on a machine, packed for search in 32-bit numbers, or in those of `dtype`."""

    def __init__(
        self,
        workload: Workload,
        machine: Machine,
        deadline: float = float("inf"),
        dtype: type = np.float32,
        *,
        exact_factors: bool = False,
        constraints: Constraints = Constraints(),
        charges: Charges = (),
    ) -> None:
        self.workload = workload
        self.exact_factors = exact_factors
        """Whether factors must divide what they cut."""
        self.charges = charges
        """What an objective adds to the energy of layers."""
        self.machine = machine
        self.restrictions = Restrictions(workload, machine, constraints)
        """What is asked of mappings and groups."""
        self.space = self.restrictions.space
        self.structure = useful_structure(workload, machine, self.space)
        self.looped_structure = looped_structure(workload, machine)
        self.sought = np.array([[node in self.space.nodes[dim] for dim in DIMS] for node in range(len(machine.nodes))])
        """``[nodes, 8]`` where factors are sought."""
        self.deadline = deadline
        """When to give up, on the clock of `fadiff.search.clock`."""
        self.dtype = dtype
        self.layers: LayerArrays = each(self._array, pack_layers(workload))
        self.numbers: MachineArrays = each(self._array, pack_machine(machine))
        self.number = {layer.name: i for i, layer in enumerate(workload.layers)}
        # Of layers that are the same to the model the first stands for all.
        alike = [(x.kind, x.dims, x.stride, x.dilation, x.stored, x.repeat, len(x.inputs)) for x in workload.layers]
        work = map(machine.vector_operations, workload.layers)
        asked = map(self.restrictions.of_layer, range(len(workload.layers)))
        first: dict[object, int] = {}
        self.twin = [first.setdefault(shape, i) for i, shape in enumerate(zip(alike, work, asked, strict=True))]
        # In 32 bits the last of very many bytes cannot be told apart: they are left free.
        margin = 1 if dtype is np.float64 else 1 - 2**-22
        usable = tuple(m.usable_bytes * (margin if m.usable_bytes > 2**22 else 1) for m in machine.memories[1:])
        self.all_room = Room(usable, usable)
        structure, memories = machine.structure, machine.structure.memories[1:]
        self.fusing = None if structure.fuses is None else memories.index(structure.fuses)
        """The memory that fuses, by its place among those below the first."""
        self.homes = tuple(i for i, node in enumerate(memories) if node in map(structure.home, "WI"))
        """The homes of W and I, likewise: a group shares their room."""
        # All of a home costs a thousandth of the network: enough to prefer the smaller of two equal tiles.
        self._byte_weight = [1e-3 / room if i in self.homes else 0.0 for i, room in enumerate(usable)]

    @classmethod
    def of(cls, workload: Workload, machine: Machine, settings: Settings) -> Task:
        """The task of a search that is told so much."""
        return cls(
            workload,
            machine,
            settings.deadline,
            exact_factors=settings.exact_factors,
            charges=settings.objective.charges,
            constraints=settings.constraints,
        )

    @cached_property
    def steps(self) -> dict[bool, dict[int, Float[np.ndarray, "moves 7"]]]:
        """The moves of every layer that stands for others, those that go in pairs under True."""
        first = dict.fromkeys(self.twin)
        return {
            pairs: {i: _steps(self.workload.layers[i], self.machine, self.space, pairs) for i in first}
            for pairs in (False, True)
        }

    @cached_property
    def widths(self) -> dict[bool, int]:
        """Moves of a row, likewise, with one that changes nothing: one width for all layers."""
        return {pairs: 1 + max(map(len, rows.values())) for pairs, rows in self.steps.items()}

    def conditions(self, group: Group, tiles: Sequence[MappingOf[str, int]]) -> tuple[Condition, ...]:
        """The condition of each layer of a group, given the tiles of the dims it shares."""
        inside = frozenset(group.layers)
        found: list[Condition] = []
        for name in group.layers:
            arriving = [edge for edge in self.workload.producers[name] if edge.source in inside]
            leaving = [edge.target in inside for edge in self.workload.consumers[name]]
            condition = Condition(
                layer=self.twin[self.number[name]],
                tile=tuple(self.workload[name].dims),
                rank=(0,) * 8,
                fused_channels=sum(edge.channels for edge in arriving),
                fused_weight=any(edge.port == "weight" for edge in arriving),
                fused_addends=sum(edge.port == "addend" for edge in arriving),
                drained=not leaving or not all(leaving),
                copied=any(leaving),
                grouped=len(inside) > 1,
                must_hold=False,
            )
            found.append(condition)
        return self.tiled(group, found, tiles)

    def tiled(
        self, group: Group, uncut: Sequence[Condition], tiles: Sequence[MappingOf[str, int]]
    ) -> tuple[Condition, ...]:
        """The conditions of a group's layers under its trips, given those without any."""
        softmax = group.trips.X > 1 and any("softmax" in self.workload[name].epilogue for name in group.layers)
        nesting = group.nesting
        shared = [(loop, nesting.index(loop)) for loop, trips in group.trips._asdict().items() if trips > 1]
        if not shared:
            return tuple(uncut)
        places = [
            {dim: (DIMS.index(dim), place) for loop, place in shared if (dim := shared_dim(loop, first=first))}
            for first in (True, False)
        ]
        ranks = [tuple(dict(mine.values()).get(d, 0) for d in range(8)) for mine in places]
        found: list[Condition] = []
        for i, (condition, mine) in enumerate(zip(uncut, tiles, strict=True)):
            tile, later = list(condition.tile), i > 0
            for dim, (d, _) in places[later].items():
                tile[d] = mine[dim]
            must_hold = softmax and i == len(uncut) - 1
            found.append(Condition(condition.layer, tuple(tile), ranks[later], *condition[3:9], must_hold))
        return tuple(found)

    def alone(self, name: str) -> Condition:
        """The condition of a layer on its own."""
        return self.conditions(Group((name,)), ({},))[0]

    def layer(self, condition: Condition) -> Layer:
        """The layer that a condition is of."""
        return self.workload.layers[condition.layer]

    def shared(self, condition: Condition) -> list[int]:
        """Trips of the shared loops by dim, ceil(size/tile)."""
        return [-(-size // tile) for size, tile in zip(self.layer(condition).dims, condition.tile, strict=True)]

    def rows(self, conditions: Sequence[Condition], rooms: Sequence[Room], weights: Weights) -> Rows:
        """Conditions as rows for :func:`~fadiff.search.exact.climb.climb`."""
        layer = np.array([c.layer for c in conditions])
        shared = [self.shared(c) for c in conditions]
        _, tile, rank, *fused, must_hold = zip(*conditions, strict=True)
        count = len(conditions)
        return Rows(
            layers=LayerArrays(*(cast("Array", np.asarray(field)[..., layer]) for field in self.layers)),
            fusion=Fusion(*map(self._array, (*map(np.transpose, (shared, rank, tile)), *fused))),
            running_room=self._array(np.transpose([room.running for room in rooms])),
            kept_room=self._array(np.transpose([room.kept for room in rooms])),
            must_hold=self._array(must_hold),
            energy_weight=self._array([weights[0]] * count),
            cycles_weight=self._array([weights[1]] * count),
            byte_weight=self._array(np.transpose([self._byte_weight] * count)),
            exact=self._array([self.exact_factors] * count),
            ends=None if self.restrictions.ends is None else self.restrictions.ends.of(layer.tolist(), self.dtype),
        )

    def _array(self, values: object) -> Array:
        return cast("Array", np.asarray(values, dtype=self.dtype, order="C"))

    def moves(self, conditions: Sequence[Condition], *, pairs: bool) -> Moves:
        """The moves of each row, padded with moves that change nothing: at least one."""
        table = np.tile(np.array(NO_MOVE)[:, None, None], (1, self.widths[pairs], len(conditions)))
        for i, condition in enumerate(conditions):
            mine = self.steps[pairs][condition.layer]
            table[:, : len(mine), i] = mine.T
        return as_moves(table)


Step = tuple[int, int, int, float, int, int, int]
"""A move of one row: the fields of :class:`~fadiff.search.exact.climb.Moves`."""
NO_MOVE: Step = (0, -1, -1, 1.0, 0, -1, 0)


def as_moves(table: Float[np.ndarray, "7 moves rows"]) -> Moves:
    """Moves from a table of their fields; all but what multiplies and adds are whole."""
    types = (np.float32 if name in ("ratio", "more") else np.int32 for name in Moves._fields)
    return Moves(*(cast("Array", part.astype(kind)) for part, kind in zip(table, types, strict=True)))


def _steps(layer: Layer, machine: Machine, space: Space, pairs: bool) -> Float[np.ndarray, "moves 7"]:
    """The moves of a layer, as rows of :class:`~fadiff.search.exact.climb.Moves`; fewer where they go in pairs.

    Primes of a size and their powers move between two nodes; a factor grows or shrinks by one, and the first memory's
    makes up for it; a memory's loops run in another order.
    """
    if not layer.is_mac:
        return np.zeros((0, 7))
    axes, long = machine.structure.axes, [d for d, size in enumerate(layer.dims) if size > 1]
    steps = [steps_of_dim(d, layer.dims[d], space.nodes[DIMS[d]], axes, pairs) for d in long]
    return np.concatenate([*steps, np.array(order_moves(space)).reshape(-1, 7)])


@lru_cache(4096)
def steps_of_dim(
    d: int, size: int, nodes: tuple[int, ...], axes: tuple[int, ...], pairs: bool
) -> Float[np.ndarray, "moves 7"]:
    """The moves of a layer's factors of one dim."""
    primes = prime_powers(size, 1 if pairs else LARGEST_STEP)
    # A size without small primes moves by 2 and 3 too.
    ratios = sorted({*primes, 2, 3} if max(primes) > LARGEST_STEP else primes)
    steps: list[Step] = [(d, a, b, ratio, 0, -1, 0) for ratio in ratios for a, b in _ways(axes, nodes)]
    steps += [(d, -1, node, 1, more, -1, 0) for node in nodes[1:] for more in (1, -1)]
    steps += [(d, -1, node, ratio, 0, -1, 0) for node in nodes[1:] for ratio in STRETCHES if not pairs]
    return np.array(steps).reshape(-1, 7)


@cache
def _ways(axes: tuple[int, ...], nodes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Pairs of nodes between which factors move: all of a few; of many those next to each other, at the first memory,
    or at an axis. Two moves make up for the others."""
    near = [(a, b) for i, a in enumerate(nodes) for j, b in enumerate(nodes) if abs(i - j) == 1]
    far = [(a, b) for a, b in permutations(nodes, 2) if len(nodes) <= FEW_NODES or a in axes or b in axes or not a * b]
    return list(dict.fromkeys(near + far))


def order_moves(space: Space) -> list[Step]:
    """A move to every loop order of every memory that has a choice."""
    choices = [(memory, i) for memory, orders in enumerate(space.orders) for i in range(len(orders)) if len(orders) > 1]
    return [(0, -1, -1, 1, 0, memory, order) for memory, order in choices]
