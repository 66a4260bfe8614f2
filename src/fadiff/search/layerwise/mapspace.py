"""DOSA's map space on a fixed machine, and what the model says of a point in it.

A point gives every layer its spatial factors, t0 and t1, ``[3, 8, ..., layers]``. L3 takes the quotient, the
scratchpad has no loops of its own (t2 = 1), the accumulator's loop order is fixed, and L3 has one of three orders.
Identical layers are one, counted as often as they run. Functions of points take NumPy arrays (exact, in 64 bits) and
traced JAX arrays, whole numbers or not.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fadiff.cost.arrays import Fusion, HardwareArrays, LayerArrays, MappingArrays, pack_hardware, pack_layers
from fadiff.cost.model import LayerCosts, layer_costs
from fadiff.cost.namespace import namespace
from fadiff.cost.traffic import C, G, K, R, S
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.search.space import divisors
from fadiff.workload import DIMS, Dims, Workload

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray

    from fadiff.hardware import Hardware
    from fadiff.search.driver import Objective

    IntArray = NDArray[np.int64]
    FloatArray = NDArray[np.float64]

SPATIAL, T0, T1 = range(3)
ORDER1 = "GKSRCNQP"
"""The accumulator's loops, outer to inner."""
ORDERS3 = ("GKCSRNQP", "GNCQPSRK", "GNQPKCSR")
"""L3 loops, outer to inner: weight-, input- and output-stationary. DOSA has no G; it is relevant to every tensor."""
EXPONENTS: dict[Objective, tuple[float, float]] = {"edp": (1, 1), "energy": (1, 0), "latency": (0, 1)}
"""What is minimized is energy^a * latency^b."""
LAYER_STEP = 8
"""Layers are padded to a multiple of this, so that networks of similar size share a compiled program."""


def _array(values: object) -> Array:
    return cast("Array", values)


def _ranks(order: str) -> list[float]:
    return [float(order.index(dim)) for dim in DIMS]


_RANKS1 = np.array(_ranks(ORDER1))
_ONE, _NONE = _array(np.ones((5, 1, 1))), _array(np.zeros((1, 1)))
# Constants, no arguments of the compiled program: so its compiler drops all that fusion would add to the cost.
_UNFUSED = Fusion(
    trips=_ONE, trip_rank=_array(np.arange(5.0)[:, None, None]), x_trips=_ONE[:2], fused_channels=_NONE,
    fused_weight=_NONE, fused_addends=_NONE, drained=_ONE[0], copied=_NONE, grouped=_NONE,
)  # fmt: skip


class Model(NamedTuple):
    """All that the cost of a point depends on."""

    layers: LayerArrays
    """One layer of each kind; `repeat` counts all that run of the kind, and is 0 for padding."""
    hardware: HardwareArrays
    free: Array
    """``[3, 8, 1, layers]`` whether a factor may differ from 1."""
    exponents: Array
    """``[2]`` the objective; a number, so that all objectives share a compiled program."""


class MapSpace(NamedTuple):
    """The points of a network on a machine."""

    workload: Workload
    hardware: Hardware
    kind: IntArray
    """``[layers of the network]`` the number of each layer's kind: its place among the layers of a point."""
    exact: Model
    """The model that schedules are judged by."""
    internal: Model
    """DOSA's model, which it descends on: one word size at L3."""
    divisors: IntArray
    """``[8, layers, most]`` divisors of every size, the largest first; padded with 0."""

    @property
    def kinds(self) -> list[tuple[int, str]]:
        """Number and name of the first layer of each kind of MAC layers."""
        firsts: list[int] = np.unique(self.kind, return_index=True)[1].tolist()
        named = ((k, self.workload.layers[i]) for k, i in enumerate(firsts))
        return [(k, layer.name) for k, layer in named if layer.is_mac]


def pack_mapspace(
    workload: Workload, hardware: Hardware, objective: Objective = "edp", spill_words: float = 1.0
) -> MapSpace:
    """Pack what the search needs; to DOSA's model a sum that leaves L1 unfinished is `spill_words` words."""
    shapes = [(one.kind, one.dims, one.stride, one.dilation, one.stored, len(one.inputs)) for one in workload.layers]
    number = {shape: i for i, shape in enumerate(dict.fromkeys(shapes))}
    kind = np.array([number[shape] for shape in shapes])
    firsts = np.unique(kind, return_index=True)[1]
    count = -(-len(firsts) // LAYER_STEP) * LAYER_STEP
    # Padding repeats the layers, none of which runs.
    padded = np.resize(firsts, count)
    packed = pack_layers(workload)
    repeat = np.bincount(kind, weights=np.asarray(packed.repeat), minlength=count)
    layers = LayerArrays(*(values[..., padded] for values in packed))._replace(repeat=_array(repeat))
    machine = pack_hardware(hardware)
    unrolls = hardware.spatial_rows + hardware.spatial_cols
    allowed = np.array([[dim in unrolls, dim in "NPQ", True] for dim in DIMS]).T[:, :, None]
    free = allowed & (np.asarray(layers.size) > 1) & np.asarray(layers.is_mac) & (repeat > 0)
    exact = Model(layers, machine, _array(free[:, :, None]), _array(np.array(EXPONENTS[objective])))
    internal = exact._replace(hardware=machine._replace(spill_words=_array(np.float64(spill_words))))
    lists = [[divisors(workload.layers[i].dims[d])[::-1] for i in padded] for d in range(8)]
    most = max(len(each) for row in lists for each in row)
    table = np.array([[each + [0] * (most - len(each)) for each in row] for row in lists])
    return MapSpace(workload, hardware, kind, exact, internal, table)


def ranks3(orders: IntArray) -> Array:
    """``[8, ..., layers]`` places of the loops at L3; `orders` ``[..., layers]`` are numbers into ORDERS3."""
    return _array(np.array([_ranks(order) for order in ORDERS3]).T[:, orders])


def with_quotients(model: Model, point: Array) -> Array:
    """``[4, 8, ..., layers]`` the factors s, t0, t1, and t3 = size / (s*t0*t1)."""
    size = model.layers.size.reshape(8, *([1] * (point.ndim - 3)), -1)
    return namespace(point).concat([point, (size / (point[0] * point[1] * point[2]))[None]])


def costs_of(model: Model, factors: Array, ranks: Array) -> LayerCosts:
    """The model's word on `factors` ``[4, 8, ..., layers]``, with loops at L3 nested as :func:`ranks3` says."""
    spatial, t0, t1, t3 = factors
    xp = namespace(factors)
    # Without loops at L2 their order is without effect.
    inner = xp.broadcast_to(_RANKS1.reshape(8, *([1] * (ranks.ndim - 1))), ranks.shape)
    mapping = MappingArrays(
        spatial=spatial,
        temporal=xp.stack([t0, t1, xp.ones_like(t1), t3]),
        rank=xp.stack([inner, inner, ranks]),
    )
    return layer_costs(model.layers, mapping, _UNFUSED, model.hardware)


def loads(model: Model, factors: Array, costs: LayerCosts) -> Array:
    """``[4, ..., layers]`` shares of array rows, array columns, L1, L2 that a layer needs; above 1 it does not fit."""
    machine, spatial = model.hardware, factors[SPATIAL]
    rows, columns = spatial[C] * spatial[R] * spatial[S], spatial[K] * spatial[G]
    l1_bytes = 4 * costs.tiles.output1 * machine.cols / columns
    l2_bytes = costs.tiles.weight2 + costs.tiles.input2
    return namespace(factors).stack(
        [rows / machine.rows, columns / machine.cols, l1_bytes / machine.l1_bytes, l2_bytes / machine.l2_bytes]
    )


def measure(model: Model, energy_pj: Array, cycles: Array) -> Array:
    """The cost that is minimized: EDP (uJ * cycles), energy (uJ) or latency (cycles)."""
    return (energy_pj * 1e-6) ** model.exponents[0] * cycles ** model.exponents[1]


def to_schedule(space: MapSpace, point: IntArray, orders: IntArray) -> Schedule:
    """The schedule of one start: factors ``[3, 8, layers]`` and L3 orders ``[layers]``. Nothing is fused."""
    by_kind: dict[int, Mapping] = {}
    for k, name in space.kinds:
        spatial, t0, t1 = (Dims(*map(int, part)) for part in point[:, :, k])
        inside = zip(space.workload[name].dims, spatial, t0, t1, strict=True)
        t3 = Dims(*(size // prod(factors) for size, *factors in inside))
        by_kind[k] = Mapping(spatial, t0, t1, l3=t3, order1=ORDER1, order3=ORDERS3[int(orders[k])])
    layers = zip(space.workload.layers, space.kind, strict=True)
    mappings = {layer.name: by_kind[int(k)] for layer, k in layers if layer.is_mac}
    groups = tuple(Group((name,)) for name in space.workload.topological)
    return Schedule(space.workload, space.hardware, groups, mappings)
