"""Derivatives of energy and cycles along directions: numbers of the machine that grow, and loops that move inwards.

One forward-mode derivative of the cost model along many directions at once. A direction multiplies numbers of the
machine, or factors of every layer's mapping, by exp(e) or exp(-e); layers do not influence each other's cost, so one
direction serves all of them. The derivative is taken a hair (:data:`SIDE`) along the direction: where a layer stands on
a corner of its roofline, or a loop is about to start running, this is the piece that the direction leads to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from fadiff.cost.arrays import (
    Fusion,
    HardwareArrays,
    LayerArrays,
    MappingArrays,
    pack_hardware,
    pack_layers,
    pack_schedule,
)
from fadiff.cost.capacity import kept_and_passing
from fadiff.cost.model import layer_costs
from fadiff.search.conditions import bucket
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from jax import Array
    from numpy.typing import NDArray

    from fadiff.cost import Evaluation

    FloatArray = NDArray[np.float64]

SIDE = 1e-9
"""How far along a direction its derivative is taken."""
JUMP = 1e-6
"""A relative change over :data:`SIDE` that no derivative explains: the model jumps there."""
SLOTS = ("spatial", "L0", "L1", "L2", "L3")
LAYERS_PER_PROGRAM = (64, 128, 256, 512)
"""Layers in one compiled program: few sizes, so that networks of similar size share programs."""


class Direction(NamedTuple):
    """What grows: numbers of the machine, or a dim's factor at one level at the expense of another level's."""

    numbers: tuple[str, ...] = ()
    """Fields of :class:`fadiff.cost.arrays.HardwareArrays`."""
    dim: str = ""
    source: str = ""
    """Slot that the factor leaves, one of :data:`SLOTS`."""
    target: str = ""


class Slopes(NamedTuple):
    """Derivatives along directions, ``[directions, layers]``, of one execution of each layer."""

    energy_pj: FloatArray
    cycles: FloatArray
    kept: FloatArray
    """Bytes of L2 that stay from one shared iteration to the next."""
    passing: FloatArray
    """Bytes of L2 held only while the layer runs."""
    l1_bytes: FloatArray
    continuous: NDArray[np.bool_]
    """Whether the layer's cost does not jump where the direction is taken."""


def slopes(evaluation: Evaluation, directions: Sequence[Direction], side: float = SIDE) -> Slopes:
    """Derivatives along directions, by JAX in 64 bits; a negative `side` takes them from the other side."""
    import jax

    schedule = evaluation.schedule
    packed, count = pack_schedule(schedule), len(schedule.workload.layers)
    width = bucket(count, LAYERS_PER_PROGRAM)
    layers = LayerArrays(*(_padded(field, width) for field in pack_layers(schedule.workload)))
    mapping = MappingArrays(*(_padded(field, width) for field in packed.mapping))
    fusion = Fusion(*(_padded(field, width) for field in packed.fusion))
    with jax.enable_x64(True):
        where = np.full(len(directions), side)
        machine = pack_hardware(schedule.hardware)
        values, tangents = _derivative()(layers, mapping, fusion, machine, tangent_of(directions), where)
    energy, cycles = (np.asarray(value)[:, :count] for value in values[:2])
    now = evaluation.layers
    smooth = _near(energy, now.energy.total) & _near(cycles, now.cycles.total)
    return Slopes(*(np.asarray(tangent)[:, :count] for tangent in tangents), continuous=smooth)


def tangent_of(directions: Sequence[Direction]) -> tuple[Array, Array]:
    """Exponents ``[numbers, directions]`` of the machine and ``[5, 8, directions]`` of a mapping's factors."""
    numbers = np.zeros((len(HardwareArrays._fields), len(directions)))
    factors = np.zeros((len(SLOTS), len(DIMS), len(directions)))
    for i, direction in enumerate(directions):
        for name in direction.numbers:
            numbers[HardwareArrays._fields.index(name), i] = 1
        if direction.dim:
            dim = DIMS.index(direction.dim)
            factors[SLOTS.index(direction.source), dim, i] = -1
            factors[SLOTS.index(direction.target), dim, i] = 1
    return cast("Array", numbers), cast("Array", factors)


def along(
    layers: LayerArrays,
    mapping: MappingArrays,
    fusion: Fusion,
    machine: HardwareArrays,
    tangent: tuple[Array, Array],
    steps: Array,
) -> tuple[Array, ...]:
    """Energy, cycles, kept and passing bytes of L2 and bytes of L1, each ``[directions, layers]``, after `steps`.

    `steps` ``[directions]`` says how far each direction is gone. Runs on NumPy and on JAX, as the cost model does.
    """
    xp: Any = steps.__array_namespace__()
    numbers, factors = tangent
    by = steps[:, None]
    grown = HardwareArrays(*(value * xp.exp(numbers[i][:, None] * by) for i, value in enumerate(machine)))
    powers = xp.exp(factors[..., None] * by)
    shifted = MappingArrays(
        spatial=mapping.spatial[:, None, :] * powers[0],
        temporal=mapping.temporal[:, :, None, :] * powers[1:],
        rank=mapping.rank[:, :, None, :],
    )
    costs = layer_costs(layers, shifted, fusion, grown)
    kept, passing = kept_and_passing(layers, fusion, costs.tiles)
    l1_bytes = 4 * costs.tiles.output1 * grown.cols / (shifted.spatial[2] * shifted.spatial[0])
    nothing = xp.zeros_like(costs.energy.total)
    return costs.energy.total, costs.cycles.total + nothing, kept + nothing, passing + nothing, l1_bytes + nothing


@cache
def _derivative() -> Callable[..., tuple[tuple[Array, ...], tuple[Array, ...]]]:
    import jax
    import jax.numpy as jnp

    @jax.jit
    def derivative(
        layers: LayerArrays,
        mapping: MappingArrays,
        fusion: Fusion,
        machine: HardwareArrays,
        tangent: tuple[Array, Array],
        where: Array,
    ) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        def go(steps: Array) -> tuple[Array, ...]:
            return along(layers, mapping, fusion, machine, tangent, steps)

        return jax.jvp(go, (where,), (jnp.ones_like(where),))

    return derivative


def _padded(values: Array, width: int) -> Array:
    """The last axis filled up with copies of its first entry."""
    array = np.asarray(values)
    missing = width - array.shape[-1]
    return cast("Array", np.concatenate([array, np.repeat(array[..., :1], missing, axis=-1)], axis=-1))


def _near(values: FloatArray, expected: Array) -> NDArray[np.bool_]:
    return np.isclose(values, np.asarray(expected), rtol=JUMP, atol=0)
