"""Lanes of a layer on the axes of a machine, in boxes: all vectors of factors between two ends."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from fadiff.hardware import Axis
from fadiff.search.solver.counts import Lanes
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.search.restrictions import Ends
    from fadiff.workload import Layer


def all_lanes(layer: Layer, machine: Machine, ends: Ends | None = None) -> Lanes:
    """Every way to fill the axes, between the ends that are asked for."""
    low, high = np.ones((2, len(machine.nodes), 8))
    for i, axis in zip(machine.structure.axes, machine.axes, strict=True):
        for dim in axis.dims:
            d = DIMS.index(dim)
            high[i, d] = min(axis.size, layer.dims[d])
        if ends is not None:
            low[i], high[i] = np.minimum(ends.least[i, :, 0], high[i]), np.minimum(ends.most[i, :, 0], high[i])
    return Lanes(low, high)


def split_lanes(lanes: Lanes, machine: Machine, layer: Layer, wider: float) -> list[Lanes] | None:
    """A box in two, along the factor that is least known; None where none is known to less than a ratio.

    A factor that may be as large as it can be is parted from it first: axes are mostly full.
    """
    ratio = lanes.high / lanes.low
    at = np.unravel_index(int(ratio.argmax()), ratio.shape)
    node, d = int(at[0]), int(at[1])
    axis = machine.nodes[node]
    if ratio[at] <= wider or not isinstance(axis, Axis):
        return None
    low, high = int(lanes.low[at]), int(lanes.high[at])
    middle = high - 1 if high == min(axis.size, layer.dims[d]) else min(isqrt(low * high), high - 1)
    halves = [_within(lanes, node, d, *ends, axis.size) for ends in ((low, middle), (middle + 1, high))]
    return [half for half in halves if half is not None]


def _within(lanes: Lanes, node: int, d: int, fewest: int, most: int, size: int) -> Lanes | None:
    """A box with other ends of one factor, as large as the axis lets it be; None where it has not so many lanes."""
    low, high = lanes.low.copy(), lanes.high.copy()
    low[node, d], high[node, d] = fewest, most
    if low[node].prod() > size:
        return None
    high[node] = np.minimum(high[node], np.floor(size / (low[node].prod() / low[node])))
    return Lanes(low, high)
