"""Layers under conditions: what a mapping depends on besides the layer itself.

A condition is a layer's place in a group: shared trips and their nesting, which of its tensors are fused, and its
role in a channel loop. Identical layers under identical conditions share one search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import numpy as np

from fadiff.cost.arrays import Fusion, HardwareArrays, LayerArrays, pack_hardware, pack_layers
from fadiff.schedule import Group, Trips
from fadiff.search.climb import Moves, Rows
from fadiff.search.space import prime_powers, useful_slots
from fadiff.workload import DIMS, Layer, Workload

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray

    from fadiff.hardware import Hardware

    FloatArray = NDArray[np.float32]


class Condition(NamedTuple):
    """A layer (its number stands for all identical ones) and its place in a group."""

    layer: int
    trips: Trips
    nesting: str
    x_role: str
    """K in the producer of a channel loop, C in its consumer, else empty."""
    fused_channels: int
    fused_weight: bool
    fused_addends: int
    drained: bool
    copied: bool
    grouped: bool
    must_complete: bool
    """Partial sums may not spill."""


class Problem:
    """A workload on an accelerator, packed for search in 32-bit numbers."""

    def __init__(self, workload: Workload, hardware: Hardware, deadline: float = float("inf")) -> None:
        self.workload = workload
        self.hardware = hardware
        self.deadline = deadline
        """When to give up, on the clock of `time.monotonic`."""
        self.layers: LayerArrays = jax.tree.map(_narrow, pack_layers(workload))
        self.machine: HardwareArrays = jax.tree.map(_narrow, pack_hardware(hardware))
        self.number = {layer.name: i for i, layer in enumerate(workload.layers)}
        first: dict[tuple[object, ...], int] = {}
        self.twin = [first.setdefault(_shape(layer), i) for i, layer in enumerate(workload.layers)]
        self.axes = np.array(
            [[d in dims for d in DIMS] for dims in (hardware.spatial_rows, hardware.spatial_cols)], dtype=np.float32
        )
        self.steps = [_steps(layer, hardware) for layer in workload.layers]
        self.move_width = bucket(1 + max(map(len, self.steps)), MOVE_WIDTHS)

    def conditions(self, group: Group) -> tuple[Condition, ...]:
        """The condition of each layer of a group; a layer in a group of its own is not fused."""
        inside = frozenset(group.layers)
        softmax = any("softmax" in self.workload[member].epilogue for member in group.layers)
        nesting = group.nesting
        return tuple(self._condition(name, group, nesting, inside, softmax) for name in group.layers)

    def _condition(self, name: str, group: Group, nesting: str, inside: frozenset[str], softmax: bool) -> Condition:
        arriving = [edge for edge in self.workload.producers[name] if edge.source in inside]
        leaving = self.workload.consumers[name]
        copied = any(edge.target in inside for edge in leaving)
        role = ("K" if group.layers[0] == name else "C") if group.trips.X > 1 else ""
        return Condition(
            layer=self.twin[self.number[name]],
            trips=group.trips,
            nesting=nesting,
            x_role=role,
            fused_channels=sum(edge.channels for edge in arriving),
            fused_weight=any(edge.port == "weight" for edge in arriving),
            fused_addends=sum(edge.port == "addend" for edge in arriving),
            drained=not leaving or any(edge.target not in inside for edge in leaving),
            copied=copied,
            grouped=len(inside) > 1,
            must_complete=copied or (role == "C" and softmax),
        )

    def repeat(self, condition: Condition) -> int:
        """How often the layer runs."""
        return self.workload.layers[condition.layer].repeat

    def private_sizes(self, condition: Condition) -> list[int]:
        """What is left of each dim for the layer's own loops, inside the shared ones."""
        trips = condition.trips
        shared = {"G": trips.G, "N": trips.N, "P": trips.P, "Q": trips.Q}
        if condition.x_role:
            shared[condition.x_role] = trips.X
        dims = self.workload.layers[condition.layer].dims
        return [size // shared.get(dim, 1) for dim, size in zip(DIMS, dims, strict=True)]

    def rows(self, conditions: Sequence[Condition], budgets: Budgets, weights: tuple[float, float]) -> Rows:
        """Conditions as rows for :func:`fadiff.search.climb.climb`; `weights` price a pJ and a cycle."""
        layer = np.array([c.layer for c in conditions])
        columns = [np.array(values, dtype=np.float32) for values in zip(*(c[4:] for c in conditions), strict=True)]
        fused_channels, fused_weight, fused_addends, drained, copied, grouped, must_complete = columns
        x = np.array([[c.trips.X if c.x_role == role else 1 for c in conditions] for role in "KC"], dtype=np.float32)
        count = len(conditions)
        energy_weight, cycles_weight = weights
        return Rows(
            layers=LayerArrays(*(cast("Array", np.asarray(field)[..., layer]) for field in self.layers)),
            fusion=Fusion(
                trips=_columns(c.trips for c in conditions),
                trip_rank=_columns([c.nesting.index(d) for d in Trips._fields] for c in conditions),
                x_trips=cast("Array", x),
                fused_channels=cast("Array", fused_channels),
                fused_weight=cast("Array", fused_weight),
                fused_addends=cast("Array", fused_addends),
                drained=cast("Array", drained),
                copied=cast("Array", copied),
                grouped=cast("Array", grouped),
            ),
            l2_budget=cast("Array", budgets.l2_bytes),
            kept_budget=cast("Array", budgets.kept_bytes),
            l1_budget=cast("Array", budgets.l1_bytes),
            must_complete=cast("Array", must_complete),
            energy_weight=cast("Array", np.full(count, energy_weight, dtype=np.float32)),
            cycles_weight=cast("Array", np.full(count, cycles_weight, dtype=np.float32)),
            # All of L2 costs a thousandth of the network: enough to prefer the smaller of two equal tiles.
            l2_weight=cast("Array", np.full(count, 1e-3 / self.hardware.usable_l2_bytes, dtype=np.float32)),
        )

    def moves(self, conditions: Sequence[Condition]) -> Moves:
        """The moves of each row, padded with moves that change nothing: at least one, and to one of a few widths."""
        table = np.zeros((4, self.move_width, len(conditions)), dtype=np.float32)
        table[3] = 1
        for i, condition in enumerate(conditions):
            mine = self.steps[condition.layer]
            table[:, : len(mine), i] = mine.T
        return Moves(*(cast("Array", part) for part in table))


class Budgets(NamedTuple):
    """Bytes each row may take, ``[rows]``: of L2 while it runs, of L2 while others run, of L1."""

    l2_bytes: FloatArray
    kept_bytes: FloatArray
    l1_bytes: FloatArray


LARGEST_STEP = 8
"""Powers of primes up to here move in one step."""
MOVE_WIDTHS = (64, 96, 128, 192, 256, 384, 512)
"""Moves of a row in one compiled program: few widths, so that networks of similar size share programs."""


def bucket(count: int, sizes: Sequence[int]) -> int:
    """The smallest size that holds `count` (or `count` itself beyond the last)."""
    return next((size for size in sizes if size >= count), count)


def _steps(layer: Layer, hardware: Hardware) -> NDArray[np.float32]:
    """``[moves, 4]`` dim, source, target, factor."""
    if not layer.is_mac:
        return np.zeros((0, 4), dtype=np.float32)
    steps: list[tuple[int, int, int, int]] = []
    for d, dim in enumerate(DIMS):
        slots = useful_slots(dim, hardware)
        steps += [
            (d, a, b, f) for f in prime_powers(layer.dims[d], LARGEST_STEP) for a in slots for b in slots if a != b
        ]
    return np.array(steps, dtype=np.float32).reshape(-1, 4)


def _shape(layer: Layer) -> tuple[object, ...]:
    """What two layers must share to be the same to the model."""
    return (layer.kind, layer.dims, layer.stride, layer.dilation, layer.stored, layer.repeat, len(layer.inputs))


def _narrow(values: Array) -> Array:
    array = np.asarray(values)
    return cast("Array", array.astype(np.float32) if array.dtype == np.float64 else array)


def _columns(rows: Iterable[Iterable[int]]) -> Array:
    return cast("Array", np.array([tuple(row) for row in rows], dtype=np.float32).T)
