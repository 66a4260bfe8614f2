"""Why multipliers idle while a layer computes: lanes that its sizes or its mapping leave without work.

Of the lane-steps of a layer, compute cycles times multipliers, only those that do a MAC work. The others are lost one
after the other, first on the axes and then at the cut ends of dims, so that all shares add up:

.. math::
    \\frac{MACs}{steps \\cdot multipliers} = \\prod_{axes} \\frac{lanes\\ used}{lanes} \\prod_d
    \\frac{size(d)}{count(d;\\ temporal\\ loops) \\cdot lanes(d)}
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fadiff.analysis.units import plural
from fadiff.schedule.nest import ALL
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fadiff.hardware import Axis, Machine
    from fadiff.schedule.rules import Examined

Cause = Literal["small size", "small tile", "unused lanes", "cut end"]


@dataclass(frozen=True)
class IdleLanes:
    """One reason why lanes have no work."""

    cause: Cause
    """small size: the layer's dims do not fill the axis. small tile: they would, but shared loops cut them. unused
    lanes: the mapping unrolls less than there is. cut end: a dim does not fill all turns of its lanes."""
    axis: str
    """The outermost, where a dim with a cut end unrolls over several."""
    dims: str
    """The dims that it is about."""
    lanes: int
    """Of the axis; of all its axes, where a dim with a cut end unrolls over several."""
    lanes_used: int
    """Of `lanes`: by the mapping, or, at a cut end, in the last turn."""
    share: float
    """Of the layer's lane-steps."""
    sentence: str


class ArrayUse(NamedTuple):
    """How a layer uses the multipliers while it computes."""

    pe_use: float
    """Share of its lane-steps that multiply; 0 for an add layer."""
    idle: tuple[IdleLanes, ...]
    """What takes the rest, the largest share first."""


class _Layer(NamedTuple):
    """One MAC layer in numbers, by dim."""

    size: list[int]
    tile: list[int]
    """In one shared iteration."""
    turns: list[int]
    """Iterations of all temporal loops."""
    lanes: list[list[int]]
    """By axis."""

    def unrolled(self, d: int) -> int:
        """Lanes of a dim on all axes."""
        return prod(lanes[d] for lanes in self.lanes)

    def turns_of_a_tile(self, d: int) -> int:
        """Turns that the lanes of a dim take in one shared iteration."""
        return -(-self.tile[d] // self.unrolled(d))


def array_use(examined: Examined) -> list[ArrayUse]:
    """Each layer of a schedule, in its order."""
    nest, machine, schedule = examined.nest, examined.machine, examined.schedule
    numbers = [nest.layers.size, nest.fusion.tile, [nest.count(d, ALL, ()) for d in range(8)]]
    axes = [nest.mapping.factors[axis] for axis in machine.structure.axes]
    size, tile, turns, *lanes = (np.rint(np.asarray(values)).astype(int).T.tolist() for values in (*numbers, *axes))
    found: list[ArrayUse] = []
    for i, layer in enumerate(schedule.layers):
        mine = _Layer(size[i], tile[i], turns[i], [axis[i] for axis in lanes])
        found.append(_use(machine, mine) if layer.is_mac else ArrayUse(0.0, ()))
    return found


def _use(machine: Machine, layer: _Layer) -> ArrayUse:
    left, found = 1.0, dict[tuple[str, ...], IdleLanes]()
    for kept, reason in _losses(machine, layer):
        if kept < 1:
            key = reason.cause, reason.axis, reason.dims
            known = found.get(key, reason)
            found[key] = replace(known, share=known.share + left * (1 - kept))
        left *= kept
    return ArrayUse(left, tuple(sorted(found.values(), key=lambda one: -one.share)))


def _losses(machine: Machine, layer: _Layer) -> Iterator[tuple[float, IdleLanes]]:
    """The share of lane-steps that each axis, then each dim, keeps of those before it, and why it keeps no more."""
    for number, axis in enumerate(machine.axes):
        yield prod(layer.lanes[number]) / axis.size, _on_axis(axis, layer, number)
    for d in range(8):
        for axis in [axis for axis, lanes in zip(machine.axes, layer.lanes, strict=True) if lanes[d] > 1][:1]:
            yield layer.size[d] / (layer.turns[d] * layer.unrolled(d)), _cut_end(axis, layer, d)


def _on_axis(axis: Axis, layer: _Layer, number: int) -> IdleLanes:
    """Why an axis is not full."""
    used = prod(layer.lanes[number])
    taken = [d for d in map(DIMS.index, axis.dims) if layer.size[d] > 1]

    def fewest_turns(d: int) -> int:
        """With all lanes of the axis that other dims leave to this one."""
        own = layer.lanes[number][d]
        return -(-layer.tile[d] // (layer.unrolled(d) // own * (axis.size // (used // own))))

    gains = {d: layer.turns_of_a_tile(d) / fewest_turns(d) for d in taken}
    if gains and max(gains.values()) > 1:
        most = max(gains, key=lambda d: gains[d])
        told = f"the mapping uses {used} of {axis.size} lanes of {axis.name}, though {_told(layer, most)}"
        return IdleLanes("unused lanes", axis.name, DIMS[most], axis.size, used, 0.0, told)
    if uneven := [d for d in taken if layer.turns_of_a_tile(d) > 1 and layer.lanes[number][d] > 1]:
        return _cut_end(axis, layer, uneven[0])
    works = f"{used} of {axis.size} lanes of {axis.name} work"
    dims = "".join(DIMS[d] for d in taken) or axis.dims
    if tiled := [d for d in taken if layer.tile[d] < layer.size[d]]:
        told = f"{' and '.join(_told(layer, d) for d in tiled)}: {works}"
        return IdleLanes("small tile", axis.name, dims, axis.size, used, 0.0, told)
    sizes = " and ".join(_told(layer, d) for d in taken) or f"{', '.join(dims)} {'is' if len(dims) == 1 else 'are'} 1"
    return IdleLanes("small size", axis.name, dims, axis.size, used, 0.0, f"{sizes}: {works}")


def _told(layer: _Layer, d: int) -> str:
    """``K is 64``, and what shared loops leave of it at a time."""
    size, tile = layer.size[d], layer.tile[d]
    return f"{DIMS[d]} is {size}" + (f", in tiles of {tile}" if tile < size else "")


def _cut_end(axis: Axis, layer: _Layer, d: int) -> IdleLanes:
    """A dim that does not fill all turns of the lanes that it may have."""
    lanes, turns = layer.unrolled(d), layer.turns_of_a_tile(d)
    last = layer.tile[d] - (turns - 1) * lanes
    told = f"{_told(layer, d)}: {plural(turns, 'turn')} of {plural(lanes, 'lane')} ({axis.name} has {axis.size})"
    told += f", {last} in the last" if last < lanes else ""
    return IdleLanes("cut end", axis.name, DIMS[d], max(lanes, axis.size), last, 0.0, told)
