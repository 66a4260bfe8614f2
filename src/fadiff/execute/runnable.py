"""What a schedule must be so that its loops can be walked at all. Whether it is *legal* is another question."""

from fadiff.errors import FadiffError
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.workload import DIMS, Dims, Edge, Layer

REGISTER_DIMS = "NPQ"
"""Dims that may loop at L0: a register holds one weight."""


class ExecutionError(FadiffError):
    """A schedule whose loops cannot be walked, told in one sentence."""


def shared_trips(schedule: Schedule, group: Group, layer: Layer) -> Dims:
    """The part of each L3 loop of a layer that its group shares; X is K of its producer and C of its consumer."""
    trips = group.trips
    ends = schedule.channel_loop(group)
    return Dims(
        G=trips.G,
        N=trips.N,
        P=trips.P,
        Q=trips.Q,
        K=trips.X if ends is not None and layer.name == ends[0] else 1,
        C=trips.X if ends is not None and layer.name == ends[1] else 1,
    )


def require_runnable(schedule: Schedule) -> None:
    """Raises :class:`ExecutionError` where factors, array, shared loops or the order of groups make no nest."""
    for group in schedule.groups:
        if group.trips.X > 1 and schedule.channel_loop(group) is None:
            raise ExecutionError(f"group {group.name}: it shares X, which only a group of two layers may")
        for name in group.layers:
            layer = schedule.workload[name]
            if layer.is_mac:
                _require_mapping(schedule, layer, schedule.mappings[name])
            _require_aligned(schedule, group, layer)
    for edge in schedule.workload.edges:
        if schedule.position[edge.source] > schedule.position[edge.target]:
            raise ExecutionError(f"{edge.target} runs before {edge.source}, whose output it reads")
        if schedule.is_fused(edge):
            _require_edge(schedule, edge)


def _require_edge(schedule: Schedule, edge: Edge) -> None:
    """A fused tensor must be there as far as its consumer reads it."""
    group = schedule.group_of[edge.source]
    source, target = schedule.workload[edge.source], schedule.workload[edge.target]
    trips = group.trips
    if not edge.fusible:
        raise ExecutionError(f"group {group.name}: {target.name} cannot read {source.name} on chip")
    if trips.N > 1 and source.dims.N != target.dims.N:
        raise ExecutionError(
            f"group {group.name}: it shares N, which is {source.dims.N} in {source.name} and {target.dims.N} in "
            f"{target.name}"
        )
    transposed = edge.port == "input" and "transpose" in source.epilogue
    if (edge.port == "weight" or transposed) and trips.N * trips.P * trips.Q > 1:
        raise ExecutionError(
            f"group {group.name}: {target.name} needs all of {source.name} at once, so N, P, Q cannot be shared"
        )


def _require_mapping(schedule: Schedule, layer: Layer, mapping: Mapping) -> None:
    hardware = schedule.hardware
    for dim, size, product, t0 in zip(DIMS, layer.dims, mapping.extent(3), mapping.l0, strict=True):
        if product != size:
            raise ExecutionError(f"layer {layer.name}: the factors of {dim} make {product}, its size is {size}")
        if t0 > 1 and dim not in REGISTER_DIMS:
            raise ExecutionError(f"layer {layer.name}: {dim} loops {t0} times at L0, where only N, P, Q may")
    s = mapping.spatial
    for what, used, available in (("rows", s.C * s.R * s.S, hardware.rows), ("columns", s.K * s.G, hardware.cols)):
        if used > available:
            raise ExecutionError(f"layer {layer.name}: it unrolls over {used} {what}, the array has {available}")
    if s.N * s.P * s.Q > 1:
        raise ExecutionError(f"layer {layer.name}: N, P and Q cannot unroll")


def _require_aligned(schedule: Schedule, group: Group, layer: Layer) -> None:
    shared = shared_trips(schedule, group, layer)
    loops = schedule.mappings[layer.name].l3 if layer.is_mac else layer.dims
    for dim, trips, loop in zip(DIMS, shared, loops, strict=True):
        if loop % trips:
            raise ExecutionError(
                f"group {group.name}: it shares {trips} trips of {dim}, which do not divide the {loop} of {layer.name}"
            )
    if any(map(schedule.is_fused, schedule.workload.consumers[layer.name])):
        for dim, trips, size in zip("PQ", (shared.P, shared.Q), layer.stored, strict=True):
            if size % trips:
                raise ExecutionError(
                    f"group {group.name}: it shares {trips} trips of {dim}, which do not divide the {size} stored by "
                    f"{layer.name}"
                )
