"""Schedules packed into arrays: what formulas compute with.

Layers stand on the last axis; dims and nodes, where there are any, on the first. Between them may stand any batch axes
(schedules, restarts, candidates). A mapping has this one array form, wherever it is priced, climbed or relaxed.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from fadiff.schedule.ir import SHARED_LOOPS, Mapping, Schedule, Trips
from fadiff.schedule.namespace import namespace
from fadiff.schedule.tiling import Tiling, group_tiling, inner_edges, shared_dim
from fadiff.workload import DIMS, Dims, Workload
from fadiff.workload.vector_ops import vector_operations

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingOf
    from collections.abc import Sequence

    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.hardware import Machine
    from fadiff.schedule.ir import Group


class LayerArrays(NamedTuple):
    """The workload, fixed during a search."""

    size: Float[Array, "8 layers"]
    """Sizes of G, N, K, C, P, Q, R, S."""
    stride: Float[Array, "2 layers"]
    dilation: Float[Array, "2 layers"]
    output: Float[Array, " layers"]
    """|O|, values."""
    stored: Float[Array, " layers"]
    """|O'|, values after the epilogue."""
    input_channels: Float[Array, " layers"]
    """G*C"""
    addends: Float[Array, " layers"]
    """Operands of an add layer (0 for MAC layers)."""
    vector_operations: Float[Array, " layers"]
    """Operations of the epilogue, and of an add layer's sums, on a machine that charges for them."""
    is_mac: Float[Array, " layers"]
    repeat: Float[Array, " layers"]


class EdgeArrays(NamedTuple):
    """The edges of a workload, as padded lists per layer; index `edges` (one past the last) is padding."""

    arriving: Int[Array, "fan_in layers"]
    """Edge numbers."""
    input_channels: Float[Array, "fan_in layers"]
    """Input channels the edge brings (0 on the other ports)."""
    is_weight: Float[Array, "fan_in layers"]
    is_addend: Float[Array, "fan_in layers"]
    leaving: Int[Array, "fan_out layers"]
    """Edge numbers."""
    is_output: Float[Array, " layers"]
    """Nobody reads the layer: it is a network output."""


class MappingArrays(NamedTuple):
    """Mappings of all layers; factors of add layers are 1."""

    factors: Float[Array, "nodes 8 *batch layers"]
    """The first memory's are private: without the trips that the layer's group shares."""
    rank: Float[Array, "memories 8 *batch layers"] | tuple[Float[Array, "8 *batch layers"], ...]
    """Place of each dim's loop at a memory, outermost 0; as a tuple, each memory may have batch axes of its own."""


class Fusion(NamedTuple):
    """What fusion changes in each layer; in [0, 1] what edges decide."""

    shared: Float[Array, "8 *batch layers"]
    """Trips of the layer's shared loops, by dim: ceil(size/tile). The channel loop stands under K or C."""
    shared_rank: Float[Array, "8 *batch layers"]
    """Their nesting, outermost 0."""
    tile: Float[Array, "8 *batch layers"]
    """Extent of each dim in one shared iteration; its size where it is not shared."""
    fused_channels: Float[Array, "*batch layers"]
    """Input channels that arrive over fused edges."""
    fused_weight: Float[Array, "*batch layers"]
    """1 where W arrives over a fused edge."""
    fused_addends: Float[Array, "*batch layers"]
    """Addends that arrive over fused edges."""
    drained: Float[Array, "*batch layers"]
    """1 where the output goes to the first memory: 1 - product of the sigmas of its edges."""
    copied: Float[Array, "*batch layers"]
    """1 where the output stays on chip for a consumer: 1 - product of (1 - sigma)."""
    grouped: Float[Array, "*batch layers"]
    """1 where the layer shares its group with others: 1 - product of (1 - sigma) over all its edges."""


class Placement(NamedTuple):
    """Where layers stand in the execution order and what their groups hold, which capacity depends on."""

    group: Int[Array, "*batch layers"]
    """Number of the layer's group, in execution order."""
    position: Int[Array, "*batch layers"]
    """Place of the layer in execution order."""
    last_use: Int[Array, "*batch layers"]
    """Position of the last layer of its group that reads its buffer (its own where nobody does)."""
    buffer: Float[Array, "*batch layers"]
    """Values of its output that wait on chip for fused consumers."""
    retained: Float[Array, "*batch layers"]
    """1 where the buffer keeps a halo from one shared iteration to the next."""
    x_consumer: Int[Array, "*batch layers"]
    """Number of the channel loop's consumer, in its producer; -1 elsewhere."""


class PackedSchedule(NamedTuple):
    """A schedule as arrays, its layers in the order the workload lists them."""

    mapping: MappingArrays
    fusion: Fusion
    placement: Placement


def pack_layers(given: Workload | Schedule) -> LayerArrays:
    """The layers of a workload, or those that a schedule runs, in the order that the workload lists them."""
    layers = given.layers
    return LayerArrays(
        size=_columns([layer.dims for layer in layers]),
        stride=_columns([layer.stride for layer in layers]),
        dilation=_columns([layer.dilation for layer in layers]),
        output=_numbers([layer.output_words for layer in layers]),
        stored=_numbers([layer.stored_words for layer in layers]),
        input_channels=_numbers([layer.dims.G * layer.dims.C for layer in layers]),
        addends=_numbers([0 if layer.is_mac else len(layer.inputs) for layer in layers]),
        vector_operations=_numbers([vector_operations(layer) for layer in layers]),
        is_mac=_numbers([layer.is_mac for layer in layers]),
        repeat=_numbers([layer.repeat for layer in layers]),
    )


def pack_edges(given: Workload | Schedule) -> EdgeArrays:
    """The edges of a workload, or those at the layers that a schedule runs, numbered as its `edges` lists them."""
    workload = given if isinstance(given, Workload) else given.workload
    number = {id(edge): i for i, edge in enumerate(given.edges)}
    arriving = [workload.producers[layer.name] for layer in given.layers]
    leaving = [workload.consumers[layer.name] for layer in given.layers]
    fan_in, fan_out = max(1, *map(len, arriving)), max(1, *map(len, leaving))

    def padded(rows: list[list[int]], width: int, fill: int) -> list[list[int]]:
        return [row + [fill] * (width - len(row)) for row in rows]

    def per_edge(values: list[list[int]]) -> Array:
        return _columns(padded(values, fan_in, 0))

    none = len(given.edges)
    return EdgeArrays(
        arriving=_integers(padded([[number[id(e)] for e in edges] for edges in arriving], fan_in, none)),
        input_channels=per_edge([[e.channels for e in edges] for edges in arriving]),
        is_weight=per_edge([[int(e.port == "weight") for e in edges] for edges in arriving]),
        is_addend=per_edge([[int(e.port == "addend") for e in edges] for edges in arriving]),
        leaving=_integers(padded([[number[id(e)] for e in edges] for edges in leaving], fan_out, none)),
        is_output=_numbers([not edges for edges in leaving]),
    )


def pack_mappings(machine: Machine, mappings: Sequence[Mapping | None], shared: Array) -> MappingArrays:
    """One mapping per layer, None for add layers; `shared` ``[8, layers]`` are the trips their groups share."""
    none = Mapping.of(machine, {})
    given = [none if mapping is None else mapping for mapping in mappings]
    factors = np.stack([np.asarray(_columns([m.factors[i] for m in given])) for i in range(len(machine.nodes))])
    first = np.where([mapping is None for mapping in mappings], 1, factors[0] / np.asarray(shared))
    rank = np.stack([_columns([rank_of(m.orders[i]) for m in given]) for i in range(len(machine.memories))])
    return MappingArrays(cast("Array", np.concatenate([first[None], factors[1:]])), cast("Array", rank))


def rank_of(order: str) -> list[int]:
    """Place of each dim's loop in an order, outermost 0."""
    return [order.index(dim) for dim in DIMS]


def unpack_mapping(factors: Float[np.ndarray, "nodes 8"], shared: Sequence[int], orders: Sequence[str]) -> Mapping:
    """A mapping from private factors, the trips its group shares by dim, and orders by memory: packing's inverse."""
    first = [round(float(f)) * trips for f, trips in zip(factors[0], shared, strict=True)]
    inner = [Dims(*(round(float(f)) for f in row)) for row in factors[1:]]
    return Mapping((Dims(*first), *inner), tuple(orders))


def fuse(
    edges: EdgeArrays,
    sigma: Float[Array, "*batch edges"],
    shared: Float[Array, "8 *batch layers"],
    shared_rank: Float[Array, "8 *batch layers"],
    tile: Float[Array, "8 *batch layers"],
) -> Fusion:
    """Edge variables in [0, 1] as what they change in each layer.

    .. math::
        drained = 1 - \\prod_{e\\ leaving} \\sigma_e, \\qquad copied = 1 - \\prod_{e\\ leaving} (1 - \\sigma_e)

    Network outputs are always drained.
    """
    xp = namespace(sigma)
    blank = xp.zeros((*sigma.shape[:-1], 1), dtype=sigma.dtype)
    off = xp.concat([sigma, blank], axis=-1)
    on = xp.concat([sigma, blank + 1], axis=-1)

    def product(factors: list[Array]) -> Array:
        return reduce(lambda a, b: a * b, factors)

    def weighted(weights: Array) -> Array:
        return reduce(lambda a, b: a + b, [v * w for v, w in zip(arriving, weights, strict=True)])

    arriving = [off[..., row] for row in edges.arriving]
    unfused_in = product([1 - value for value in arriving])
    unfused_out = product([1 - off[..., row] for row in edges.leaving])
    return Fusion(
        shared=shared,
        shared_rank=shared_rank,
        tile=tile,
        fused_channels=weighted(edges.input_channels),
        fused_weight=weighted(edges.is_weight),
        fused_addends=weighted(edges.is_addend),
        drained=1 - (1 - edges.is_output) * product([on[..., row] for row in edges.leaving]),
        copied=1 - unfused_out,
        grouped=1 - unfused_in * unfused_out,
    )


def buffer_values(
    stored: Float[Any, "two ..."],
    stored_tile: Float[Any, "two ..."],
    halo: Float[Any, "two ..."],
    trips: Float[Any, "two ..."],
    waiting: Float[Any, "*batch"],
    channels: Float[Any, "*batch"],
) -> tuple[Float[Any, "*batch"], Float[Any, "*batch"]]:
    """Values of a producer's output that wait on chip, and whether some outlast a shared iteration.

    Rows and columns stand first. With P' rows stored, p' of them per shared iteration, and `halo` = lead' - low:

    .. math::
        a &= \\min(P', \\max(0, halo))\\ \\text{where rows are tiled, else 0;\\quad b likewise for columns} \\\\
        h &= \\min(P', p' + a),\\ w\\ \\text{likewise},\\ keep = a\\,(Q' - w)\\ \\text{where both are tiled} \\\\
        buffer &= channels\\,(h w + keep + (waiting - 1) \\min(P'Q', a Q' + p' b))

    `channels` counts all values of one place of the image in one shared iteration; `waiting` are the trips of shared
    loops nested inside those over rows and columns, whose halos wait for their next turn.
    """
    xp = namespace(stored_tile, trips, waiting, channels)
    tiled = trips > 1
    (rows, cols), (p, q) = stored, stored_tile
    a, b = (xp.where(tiled[i], xp.minimum(stored[i], xp.maximum(halo[i], 0)), 0) for i in (0, 1))
    h, w = xp.where(tiled[0], xp.minimum(rows, p + a), rows), xp.where(tiled[1], xp.minimum(cols, q + b), cols)
    keep = xp.where(tiled[0] & tiled[1], a * (cols - w), 0)
    left = xp.minimum(rows * cols, a * cols + p * b)
    return channels * (h * w + keep + (waiting - 1) * left), (a > 0) | (b > 0)


def waiting_trips(
    nesting: str, trips: MappingOf[str, Int[np.ndarray, "*batch"] | int], *, first: bool
) -> Float[Any, "*batch"]:
    """Trips of the shared loops that run inside those over rows and columns and make other outputs of a layer."""
    outer = np.where(np.asarray(trips["P"]) > 1, nesting.index("P"), nesting.index("Q"))
    made = [np.where(nesting.index(loop) > outer, trips[loop], 1) for loop in ("GNX" if first else "GN")]
    return _numbers(reduce(lambda a, b: a * b, made))


def group_arrays(
    workload: Workload, group: Group, tiling: Tiling
) -> dict[str, tuple[list[int], list[int], list[int], float, bool]]:
    """By layer of a group of one candidate: shared trips, their ranks and tiles by dim, buffer values, and halos."""
    trips, nesting = group.trips._asdict(), group.nesting
    result: dict[str, tuple[list[int], list[int], list[int], float, bool]] = {}
    for name in group.layers:
        layer, first = workload[name], name == group.layers[0]
        tile, shared, rank = list(layer.dims), [1] * 8, [0] * 8
        for loop in SHARED_LOOPS:
            dim = shared_dim(loop, first=first)
            d = DIMS.index(dim)
            if loop != "X" or trips["X"] > 1:
                rank[d] = nesting.index(loop)
            if trips[loop] > 1 and dim in tiling.tile[name]:
                tile[d] = int(tiling.tile[name][dim][0])
                shared[d] = -(-layer.dims[d] // tile[d])
        buffer, retained = 0.0, False
        if name in tiling.stored_tile:
            values, halo = buffer_values(
                _numbers(layer.stored),
                _numbers([side[0] for side in tiling.stored_tile[name]]),
                _numbers([ahead.halo for ahead in tiling.ahead[name]]),
                _numbers([trips["P"], trips["Q"]]),
                waiting_trips(nesting, trips, first=first),
                _numbers(tile[0] * tile[1] * tile[2]),
            )
            buffer, retained = float(values), bool(halo)
        result[name] = (shared, rank, tile, buffer, retained)
    return result


def pack_schedule(schedule: Schedule, tilings: MappingOf[Group, Tiling] | None = None) -> PackedSchedule:
    """A schedule as 64-bit arrays. Groups whose tiles are undefined are packed as far as they go.

    The tiles of its groups may be given, where they are known.
    """
    workload = schedule.workload
    names = [layer.name for layer in schedule.layers]
    index = {name: i for i, name in enumerate(names)}
    columns: dict[str, tuple[list[int], list[int], list[int], float, bool]] = {}
    x_consumer = [-1] * len(names)
    for group in schedule.groups:
        columns |= group_arrays(workload, group, tilings[group] if tilings else schedule_tiling(schedule, group))
        if group.trips.X > 1 and len(group.layers) == 2:
            x_consumer[index[group.layers[0]]] = index[group.layers[1]]
    last_use = [schedule.position[name] for name in names]
    for edge in schedule.fused_edges:
        last_use[index[edge.source]] = max(last_use[index[edge.source]], schedule.position[edge.target])
    shared, rank, tile, buffer, retained = zip(*(columns[name] for name in names), strict=True)
    fusion = fuse(
        pack_edges(schedule),
        sigma=_numbers([float(schedule.is_fused(edge)) for edge in schedule.edges]),
        shared=_columns(shared),
        shared_rank=_columns(rank),
        tile=_columns(tile),
    )
    number = {name: i for i, group in enumerate(schedule.groups) for name in group.layers}
    placement = Placement(
        group=cast("Array", np.array([number[name] for name in names])),
        position=cast("Array", np.array([schedule.position[name] for name in names])),
        last_use=cast("Array", np.array(last_use)),
        buffer=_numbers(buffer),
        retained=_numbers(retained),
        x_consumer=cast("Array", np.array(x_consumer)),
    )
    mappings = [schedule.mappings.get(name) for name in names]
    return PackedSchedule(pack_mappings(schedule.machine, mappings, fusion.shared), fusion, placement)


def schedule_tiling(schedule: Schedule, group: Group) -> Tiling:
    """The tiles of one group of a schedule: a tiling of one candidate."""
    if len(group.layers) == 1 and group.trips == Trips():
        return Tiling(np.ones((5, 1), dtype=int), {group.layers[0]: {}}, {}, {}, ())
    fused = inner_edges(schedule.workload, group.layers)
    return group_tiling(schedule.workload, group.layers, fused, np.array(group.trips)[:, None])


def _numbers(values: object) -> Array:
    return cast("Array", np.asarray(values, dtype=np.float64))


def _columns(rows: Sequence[Sequence[int]]) -> Array:
    """Rows of small tuples, one per layer, as ``[tuple, layers]``."""
    return cast("Array", np.ascontiguousarray(np.asarray(rows, dtype=np.float64).T))


def _integers(rows: Sequence[Sequence[int]]) -> Array:
    return cast("Array", np.ascontiguousarray(np.asarray(rows, dtype=np.int32).T))
