"""Values packed into arrays: what the model computes with.

Layers stand on the last axis; loop dims, where there are any, on the first. Between them may stand any batch axes
(schedules, restarts, candidates).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fadiff.cost.namespace import namespace
from fadiff.schedule import Schedule, Trips, halos
from fadiff.workload import DIMS, Dims, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax import Array

    from fadiff.hardware import Hardware
    from fadiff.schedule import Mapping


class LayerArrays(NamedTuple):
    """The workload, fixed during a search. All shapes ``[..., layers]``."""

    size: Array
    """``[8, layers]`` sizes of G, N, K, C, P, Q, R, S."""
    stride: Array
    """``[2, layers]``"""
    dilation: Array
    """``[2, layers]``"""
    stored: Array
    """``[2, layers]`` P', Q'."""
    output_words: Array
    """|O|"""
    stored_words: Array
    """|O'|"""
    input_channels: Array
    """G*C"""
    addends: Array
    """Operands of an add layer (0 for MAC layers)."""
    is_mac: Array
    repeat: Array


class EdgeArrays(NamedTuple):
    """The edges of a workload, as padded lists per layer; index `edges` (one past the last) is padding."""

    arriving: Array
    """``[fan_in, layers]`` edge numbers."""
    input_channels: Array
    """``[fan_in, layers]`` input channels the edge brings (0 on the other ports)."""
    is_weight: Array
    """``[fan_in, layers]`` 1 on the weight port."""
    is_addend: Array
    """``[fan_in, layers]`` 1 on an addend port."""
    leaving: Array
    """``[fan_out, layers]`` edge numbers."""
    is_output: Array
    """``[layers]`` nobody reads the layer: it is a network output."""


class MappingArrays(NamedTuple):
    """Mappings of all layers; factors of add layers are 1."""

    spatial: Array
    """``[8, ..., layers]``"""
    temporal: Array
    """``[4, 8, ..., layers]`` factors of L0, L1, L2, L3."""
    rank: Array
    """``[3, 8, ..., layers]`` place of each dim's loop at L1, L2, L3, outermost 0."""


class Fusion(NamedTuple):
    """What fusion changes in each layer. Shapes ``[..., layers]`` unless said."""

    trips: Array
    """``[5, ..., layers]`` shared trip counts of the layer's group: G, N, P, Q, X."""
    trip_rank: Array
    """``[5, ..., layers]`` their nesting, outermost 0."""
    x_trips: Array
    """``[2, ..., layers]`` X as a part of K (channel loop's producer) and of C (its consumer); else 1."""
    fused_channels: Array
    """Input channels that arrive over fused edges."""
    fused_weight: Array
    """1 where W arrives over a fused edge."""
    fused_addends: Array
    """Addends that arrive over fused edges."""
    drained: Array
    """1 where the output goes to L3: 1 - product of the sigmas of its edges."""
    copied: Array
    """1 where the output is copied to L2: 1 - product of (1 - sigma)."""
    grouped: Array
    """1 where the layer shares its group with others: 1 - product of (1 - sigma) over all its edges."""


class HardwareArrays(NamedTuple):
    """The accelerator as numbers, so that gradients reach them too."""

    rows: Array
    cols: Array
    l1_bytes: Array
    l2_bytes: Array
    l1_words_per_cycle_per_column: Array
    l2_words_per_cycle: Array
    l3_words_per_cycle: Array
    mac_pj: Array
    l0_pj: Array
    l1_pj: Array
    l2_pj: Array
    l3_pj: Array
    spill_words: Array
    serial_l3: Array
    """1 where L3 transfers do not overlap with work (`overlap: none`), else 0."""


def pack_hardware(hardware: Hardware) -> HardwareArrays:
    """The accelerator as 64-bit scalars; capacities are the usable ones."""
    wpc, pj = hardware.words_per_cycle, hardware.pj
    numbers = (
        hardware.rows, hardware.cols, hardware.usable_l1_bytes, hardware.usable_l2_bytes,
        wpc.l1_per_column, wpc.l2, wpc.l3, pj.mac, pj.l0, pj.l1, pj.l2, pj.l3,
        hardware.spill_words, hardware.overlap == "none",
    )  # fmt: skip
    return HardwareArrays(*(_numbers(number) for number in numbers))


def pack_layers(workload: Workload) -> LayerArrays:
    """The workload, layers in the order it lists them."""
    layers = workload.layers
    return LayerArrays(
        size=_columns([layer.dims for layer in layers]),
        stride=_columns([layer.stride for layer in layers]),
        dilation=_columns([layer.dilation for layer in layers]),
        stored=_columns([layer.stored for layer in layers]),
        output_words=_numbers([layer.output_words for layer in layers]),
        stored_words=_numbers([layer.stored_words for layer in layers]),
        input_channels=_numbers([layer.dims.G * layer.dims.C for layer in layers]),
        addends=_numbers([0 if layer.is_mac else len(layer.inputs) for layer in layers]),
        is_mac=cast("Array", np.array([layer.is_mac for layer in layers])),
        repeat=_numbers([layer.repeat for layer in layers]),
    )


def pack_edges(workload: Workload) -> EdgeArrays:
    """The edges, numbered as ``workload.edges`` lists them."""
    number = {id(edge): i for i, edge in enumerate(workload.edges)}
    arriving = [workload.producers[layer.name] for layer in workload.layers]
    leaving = [workload.consumers[layer.name] for layer in workload.layers]
    fan_in = max(1, *map(len, arriving))
    fan_out = max(1, *map(len, leaving))
    padding = len(workload.edges)

    def padded(rows: list[list[int]], width: int, fill: int) -> list[list[int]]:
        return [row + [fill] * (width - len(row)) for row in rows]

    def per_edge(values: list[list[int]]) -> Array:
        return _columns(padded(values, fan_in, 0))

    return EdgeArrays(
        arriving=_integers(padded([[number[id(e)] for e in edges] for edges in arriving], fan_in, padding)),
        input_channels=per_edge([[e.channels for e in edges] for edges in arriving]),
        is_weight=per_edge([[int(e.port == "weight") for e in edges] for edges in arriving]),
        is_addend=per_edge([[int(e.port == "addend") for e in edges] for edges in arriving]),
        leaving=_integers(padded([[number[id(e)] for e in edges] for edges in leaving], fan_out, padding)),
        is_output=_numbers([not edges for edges in leaving]),
    )


def pack_mappings(mappings: Sequence[Mapping | None]) -> MappingArrays:
    """One mapping per layer, None for add layers."""
    ones, ranks = Dims(), tuple(range(8))
    return MappingArrays(
        spatial=_columns([ones if m is None else m.spatial for m in mappings]),
        temporal=_stack([_columns([ones if m is None else m.factors(level) for m in mappings]) for level in range(4)]),
        rank=_stack(
            [_columns([ranks if m is None else _rank(m.order(level)) for m in mappings]) for level in (1, 2, 3)]
        ),
    )


def _rank(order: str) -> list[int]:
    """Place of each dim's loop in an order, outermost 0."""
    return [order.index(dim) for dim in DIMS]


def fuse(edges: EdgeArrays, sigma: Array, trips: Array, trip_rank: Array, x_trips: Array) -> Fusion:
    """Edge variables as what they change in each layer. `sigma` is ``[..., edges]`` in [0, 1].

    .. math::
        drained = 1 - \\prod_{e\\ leaving} \\sigma_e, \\qquad copied = 1 - \\prod_{e\\ leaving} (1 - \\sigma_e)

    Network outputs are always drained.
    """
    xp = namespace(sigma)
    blank = xp.zeros_like(sigma[..., :1]) if sigma.shape[-1] else xp.zeros((*sigma.shape[:-1], 1))
    off = xp.concat([sigma, blank], axis=-1)
    on = xp.concat([sigma, blank + 1], axis=-1)

    def gather(values: Array, lists: Array) -> list[Array]:
        return [values[..., lists[i]] for i in range(lists.shape[0])]

    def product(factors: list[Array]) -> Array:
        result = factors[0]
        for factor in factors[1:]:
            result = result * factor
        return result

    arriving = gather(off, edges.arriving)
    kept_off_in = product([1 - value for value in arriving])
    kept_off_out = product([1 - value for value in gather(off, edges.leaving)])
    return Fusion(
        trips=trips,
        trip_rank=trip_rank,
        x_trips=x_trips,
        fused_channels=_weighted(arriving, edges.input_channels),
        fused_weight=_weighted(arriving, edges.is_weight),
        fused_addends=_weighted(arriving, edges.is_addend),
        drained=1 - (1 - edges.is_output) * product(gather(on, edges.leaving)),
        copied=1 - kept_off_out,
        grouped=1 - kept_off_in * kept_off_out,
    )


def _weighted(values: list[Array], weights: Array) -> Array:
    total = values[0] * weights[0]
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = total + value * weight
    return total


class PackedSchedule(NamedTuple):
    """A schedule as arrays, layers in the order the workload lists them."""

    mapping: MappingArrays
    fusion: Fusion
    placement: Placement


class Placement(NamedTuple):
    """Where layers stand in the execution order, which capacity depends on. Shapes ``[..., layers]``."""

    group: Array
    """Number of the layer's group, in execution order."""
    position: Array
    """Place of the layer in execution order."""
    last_use: Array
    """Position of the last layer of its group that reads its buffer (its own where nobody does)."""
    halo: Array
    """``[2, ..., layers]`` rows and columns by which a buffer exceeds its tile, lead'(u) - low."""
    x_consumer: Array
    """Number of the channel loop's consumer, in its producer; -1 elsewhere."""


def pack_schedule(schedule: Schedule) -> PackedSchedule:
    """A schedule as 64-bit arrays."""
    workload = schedule.workload
    names = [layer.name for layer in workload.layers]
    index = {name: i for i, name in enumerate(names)}
    groups = [schedule.group_of[name] for name in names]
    number = {group: i for i, group in enumerate(schedule.groups)}
    x_trips, x_consumer = [[1, 1] for _ in names], [-1] * len(names)
    for group in schedule.groups:
        if (pair := schedule.channel_loop(group)) is not None:
            producer, consumer = (index[name] for name in pair)
            x_trips[producer][0] = x_trips[consumer][1] = group.trips.X
            x_consumer[producer] = consumer
    last_use = [schedule.position[name] for name in names]
    for edge in schedule.fused_edges:
        last_use[index[edge.source]] = max(last_use[index[edge.source]], schedule.position[edge.target])
    halo = halos(workload, schedule.fused_edges)
    fusion = fuse(
        pack_edges(workload),
        sigma=_numbers([float(schedule.is_fused(edge)) for edge in workload.edges]),
        trips=_columns([group.trips for group in groups]),
        trip_rank=_columns([[group.nesting.index(d) for d in Trips._fields] for group in groups]),
        x_trips=_columns(x_trips),
    )
    placement = Placement(
        group=cast("Array", np.array([number[group] for group in groups])),
        position=cast("Array", np.array([schedule.position[name] for name in names])),
        last_use=cast("Array", np.array(last_use)),
        halo=_columns([halo.get(name, (0, 0)) for name in names]),
        x_consumer=cast("Array", np.array(x_consumer)),
    )
    return PackedSchedule(pack_mappings([schedule.mappings.get(name) for name in names]), fusion, placement)


def _numbers(values: object) -> Array:
    return cast("Array", np.asarray(values, dtype=np.float64))


def _columns(rows: Sequence[Sequence[int]]) -> Array:
    """Rows of small tuples, one per layer, as ``[tuple, layers]``."""
    return cast("Array", np.ascontiguousarray(np.asarray(rows, dtype=np.float64).T))


def _integers(rows: Sequence[Sequence[int]]) -> Array:
    return cast("Array", np.ascontiguousarray(np.asarray(rows, dtype=np.int32).T))


def _stack(arrays: Sequence[Array]) -> Array:
    return cast("Array", np.stack(cast("list[np.ndarray]", list(arrays))))
