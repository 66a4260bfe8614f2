"""Timeloop's own way to count input fills: the tiles of a memory one after the other, without any formula of the model.

A memory holds one tile, a box over G, N, C, rows and columns, and fetches of the next what the last has not, as long as
tiles go on by the same step. Where the step changes it forgets the last tile and fetches the next whole; the step after
that is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from fadiff.hardware import Machine
from fadiff.reproduce.timeloop.reference import Floats
from fadiff.schedule import Mapping
from fadiff.workload import DIMS, Dims, Layer

G, N, K, C, P, Q, R, S = range(8)
Whole = NDArray[np.int64]


def walked_fills(machine: Machine, layer: Layer, mapping: Mapping, memory: int, *, every: bool) -> float | None:
    """Values of I written to all instances of a memory (its node); None where a loop or a lane above it is cut.

    With `every` iteration walked; else, as Timeloop does by default, only the first two of each loop, the second
    counted for all others: a step at which some loops are at their second stands for the product of their trips - 1.
    """
    held = [min(x, size) for x, size in zip(_extents(mapping.factors[memory:]), layer.dims, strict=True)]
    above = _extents(mapping.factors[:memory])
    if any(tiles * x != size for tiles, x, size in zip(above, held, layer.dims, strict=True)):
        return None
    structure = machine.structure
    loops = [
        (d, trips, _extents(mapping.factors[node + 1 :])[d])
        for node, order in zip(structure.memories, mapping.orders, strict=True)
        for d in map(DIMS.index, order)
        if node < memory and (trips := mapping.factors[node][d]) > 1
    ]
    lanes = prod(prod(mapping.factors[axis]) for axis in structure.axes if axis < memory)
    walked = [trips if every else 2 for _, trips, _ in loops]
    index = np.indices(walked).reshape(len(loops), prod(walked))
    start, times = np.zeros((8, prod(walked)), dtype=np.int64), np.ones(prod(walked))
    for (d, trips, step), at in zip(loops, index, strict=True):
        start[d] += at * step
        times *= 1 if every else np.where(at == 1, trips - 1, 1)
    return lanes * _fetched(*_boxes(layer, start, held), times)


def _extents(factors: Sequence[Dims]) -> list[int]:
    return [prod(of_node[d] for of_node in factors) for d in range(8)]


def _boxes(layer: Layer, start: Whole, held: Sequence[int]) -> tuple[Whole, Whole]:
    """Corners of the tiles over G, N, C, rows and columns, ``[5, steps]``, and the extents that all of them have."""
    (down, right), (tap_down, tap_right) = layer.stride, layer.dilation
    corners = [*start[[G, N, C]], start[P] * down + start[R] * tap_down, start[Q] * right + start[S] * tap_right]
    rows = (held[P] - 1) * down + (held[R] - 1) * tap_down + 1
    columns = (held[Q] - 1) * right + (held[S] - 1) * tap_right + 1
    return np.array(corners), np.array([held[G], held[N], held[C], rows, columns])


def _fetched(corners: Whole, box: Whole, times: Floats) -> float:
    """Values fetched for tiles at the corners, each counted so many times."""
    moves = np.diff(corners)
    whole = float(np.prod(box))
    new = whole - np.prod(np.maximum(0, box[:, None] - np.abs(moves)), axis=0)
    same_step = np.append([False], np.all(moves[:, 1:] == moves[:, :-1], axis=0))
    fetched, forgot = whole * float(times[0]), True
    for i in range(moves.shape[1]):
        fetched += float(times[i + 1] * new[i]) if forgot or same_step[i] else float(times[i + 1]) * whole
        forgot = not (forgot or same_step[i])
    return fetched
