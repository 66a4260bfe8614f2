"""How far the layers of a fused group run ahead of its last one, in rows and columns.

Halos are retained, never recomputed: a producer runs ahead of the sink by its *lead*, so that every consumer finds
all the rows it needs. Both the fit of a group and its cost stand on these numbers.
"""

from collections.abc import Iterable

from fadiff.workload import Edge, Layer, Workload


def halos(workload: Workload, fused: Iterable[Edge]) -> dict[str, tuple[int, int]]:
    """Rows and columns by which the L2 buffer of each fused producer exceeds its tile, lead' - low.

    Over the fused consumers c of u, with pad = floor((R-1)*dilation/2) (columns likewise):

    .. math::
        lead'(u) = \\max(0, \\max_c\\, stride\\,(lead(c) - 1) + (R-1)\\,dilation - pad + 1), \\qquad
        lead(u) = \\lceil lead'(u)\\, P / P' \\rceil, \\qquad low = \\min_c\\, stride\\; lead(c) - pad
    """
    leaving: dict[str, list[Edge]] = {}
    for edge in fused:
        leaving.setdefault(edge.source, []).append(edge)
    lead: dict[str, tuple[int, int]] = {}
    result: dict[str, tuple[int, int]] = {}
    for name in sorted(leaving, key=workload.depth.__getitem__, reverse=True):
        (lead_rows, rows), (lead_cols, cols) = (_along(workload, name, leaving[name], lead, axis) for axis in (0, 1))
        lead[name] = (lead_rows, lead_cols)
        result[name] = (rows, cols)
    return result


def _along(
    workload: Workload, name: str, leaving: list[Edge], lead: dict[str, tuple[int, int]], axis: int
) -> tuple[int, int]:
    """(lead, lead' - low) of a producer along rows (axis 0) or columns (axis 1)."""
    producer: Layer = workload[name]
    stored_lead, lows = 0, list[int]()
    for edge in leaving:
        consumer = workload[edge.target]
        stride = consumer.stride[axis]
        reach = ((consumer.dims.R, consumer.dims.S)[axis] - 1) * consumer.dilation[axis]
        pad = reach // 2
        ahead = lead.get(edge.target, (0, 0))[axis]
        stored_lead = max(stored_lead, stride * (ahead - 1) + reach - pad + 1)
        lows.append(stride * ahead - pad)
    computed = (producer.dims.P, producer.dims.Q)[axis]
    own_lead = -(-stored_lead * computed // producer.stored[axis])
    return own_lead, stored_lead - min(lows)
