"""Timeloop's own way to count input fills: the tiles of a memory one after the other, without any formula of the model.

A memory holds one tile, a box over G, N, C, rows and columns, and fetches of the next what the last has not, as long as
tiles go on by the same step. Where the step changes it forgets the last tile and fetches the next whole; the step after
that is compared with nothing.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from fadiff.next.hardware import Machine
from fadiff.next.reproduce.timeloop.reference import Floats
from fadiff.next.schedule import Mapping
from fadiff.workload import DIMS, Layer

G, N, K, C, P, Q, R, S = range(8)


def walked_fills(machine: Machine, layer: Layer, mapping: Mapping, memory: int, *, every: bool) -> float | None:
    """Values of I written to all instances of a memory (its node); None where a loop or a lane above it is cut.

    With `every` iteration walked; else, as Timeloop does by default, only the first two of each loop, the second
    counted for all others: a step with indices 1 in some loops stands for the product of their (trips - 1) steps.
    """
    below = [tuple(prod(sizes) for sizes in zip(*mapping.factors[node:], [1] * 8, strict=True))
             for node in range(1, len(machine.nodes) + 1)]  # fmt: skip
    held = [min(f * x, size) for f, x, size in zip(mapping.factors[memory], below[memory], layer.dims, strict=True)]
    outside = [prod(sizes) for sizes in zip(*mapping.factors[:memory], [1] * 8, strict=True)]
    if any(times * x != size for times, x, size in zip(outside, held, layer.dims, strict=True)):
        return None
    structure = machine.structure
    loops = [
        (d, trips, below[node][d])
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
    corner, box = _boxes(layer, start, held)
    return lanes * _fetched(corner, box, times)


def _boxes(layer: Layer, start: NDArray[np.int64], held: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Corners of the tiles over G, N, C, rows and columns, ``[5, steps]``, and the extents that all of them have."""
    (down, right), (down_tap, right_tap) = layer.stride, layer.dilation
    corner = [*start[[G, N, C]], start[P] * down + start[R] * down_tap, start[Q] * right + start[S] * right_tap]
    rows = (held[P] - 1) * down + (held[R] - 1) * down_tap + 1
    columns = (held[Q] - 1) * right + (held[S] - 1) * right_tap + 1
    return np.array(corner), np.array([held[G], held[N], held[C], rows, columns])


def _fetched(corner: NDArray[np.int64], box: NDArray[np.int64], times: Floats) -> float:
    moves = np.diff(corner)
    new = np.prod(box) - np.prod(np.maximum(0, box[:, None] - np.abs(moves)), axis=0)
    goes_on = np.append(False, np.all(moves[:, 1:] == moves[:, :-1], axis=0))  # noqa: FBT003  (a value)
    fetched, remembers_no_step = float(np.prod(box) * times[0]), True
    for words, same, count in zip(new.tolist(), goes_on.tolist(), times[1:].tolist(), strict=False):
        subtracts = remembers_no_step or same
        fetched += count * (words if subtracts else float(np.prod(box)))
        remembers_no_step = not subtracts
    return fetched
