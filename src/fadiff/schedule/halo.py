"""How far the layers of a fused group run ahead of its last one, in rows and columns.

Halos are retained, never recomputed: a producer runs ahead of the sink by its *lead*, so that every consumer finds
all the rows it needs. Both the fit of a group and its cost stand on these numbers.
"""

from fadiff.schedule.ir import Schedule
from fadiff.workload import Edge, Layer


def halos(schedule: Schedule) -> dict[str, tuple[int, int]]:
    """Rows and columns by which each fused layer's L2 buffer exceeds its tile, lead' - low (0, 0 if not fused).

    Over the fused consumers c of u, with pad = floor((R-1)*dilation/2) (columns likewise):

    .. math::
        lead'(u) = \\max(0, \\max_c\\, stride\\,(lead(c) - 1) + (R-1)\\,dilation - pad + 1), \\qquad
        lead(u) = \\lceil lead'(u)\\, P / P' \\rceil, \\qquad low = \\min_c\\, stride\\; lead(c) - pad
    """
    result = {layer.name: (0, 0) for layer in schedule.workload.layers}
    fused: dict[str, list[Edge]] = {}
    for edge in schedule.workload.edges:
        if schedule.is_fused(edge):
            fused.setdefault(edge.source, []).append(edge)
    lead = {layer.name: (0, 0) for layer in schedule.workload.layers}
    for name in reversed(schedule.workload.topological):
        if name in fused:
            axes = [_along(schedule.workload[name], fused[name], schedule, lead, axis) for axis in (0, 1)]
            lead[name] = (axes[0][0], axes[1][0])
            result[name] = (axes[0][1], axes[1][1])
    return result


def _along(
    producer: Layer, fused: list[Edge], schedule: Schedule, lead: dict[str, tuple[int, int]], axis: int
) -> tuple[int, int]:
    """(lead, lead' - low) of a producer along rows (axis 0) or columns (axis 1)."""
    stored_lead, low = 0, None
    for edge in fused:
        consumer = schedule.workload[edge.target]
        stride = consumer.stride[axis]
        reach = ((consumer.dims.R, consumer.dims.S)[axis] - 1) * consumer.dilation[axis]
        pad = reach // 2
        ahead = lead[consumer.name][axis]
        stored_lead = max(stored_lead, stride * (ahead - 1) + reach - pad + 1)
        low = stride * ahead - pad if low is None else min(low, stride * ahead - pad)
    computed = (producer.dims.P, producer.dims.Q)[axis]
    own_lead = -(-stored_lead * computed // producer.stored[axis])
    return own_lead, stored_lead - (low or 0)
