"""From a continuous point to whole numbers and loop orders, as DOSA does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.search.layerwise.mapspace import (
    ORDERS3,
    MapSpace,
    Model,
    costs_of,
    measure,
    ranks3,
    with_quotients,
)

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]
    FloatArray = NDArray[np.float64]


def round_point(space: MapSpace, point: FloatArray) -> IntArray:
    """Every factor of ``[3, 8, starts, layers]`` to a divisor of what is left of its dim, from the inside out.

    Spatial factors come first, then t0, then t1. Each goes to the nearest whole number of at least 1, then to the
    nearest divisor of what the factors before it left; of two equally near ones to the larger. L3 takes the rest.
    """
    options = space.divisors[:, None]
    left = np.broadcast_to(options[..., 0], point.shape[1:])
    rounded: list[IntArray] = []
    for factors in point:
        wish = np.floor(np.maximum(factors, 1) + 0.5)[..., None]
        divides = (options > 0) & (left[..., None] % np.maximum(options, 1) == 0)
        # The largest divisors stand first, and argmin takes the first of equals.
        nearest = np.where(divides, np.abs(options - wish), np.inf).argmin(axis=-1)
        rounded.append(np.take_along_axis(np.broadcast_to(options, divides.shape), nearest[..., None], -1)[..., 0])
        left = left // rounded[-1]
    return np.stack(rounded)


def choose_orders(model: Model, point: IntArray, orders: IntArray) -> tuple[IntArray, FloatArray]:
    """L3 orders ``[starts, layers]`` of a rounded point, and what the network costs with them ``[starts]``.

    Layer by layer, beginning with `orders`, the one with the lowest predicted cost of the whole network is kept.
    """
    every = np.broadcast_to(np.arange(len(ORDERS3))[:, None, None], (len(ORDERS3), *orders.shape))
    factors = with_quotients(model, cast("Array", point))[:, :, None]
    costs = costs_of(model, factors, ranks3(every))
    repeat = model.layers.repeat
    energy_pj, cycles = costs.energy.total * repeat, costs.cycles.total * repeat
    chosen, total = cast("tuple[Array, Array]", _sweep(model, energy_pj, cycles, orders))
    return np.asarray(chosen, dtype=np.int64), np.asarray(total, dtype=np.float64)


@jax.jit
def _sweep(model: Model, energy_pj: Array, cycles: Array, orders: Array) -> tuple[Array, Array]:
    """One pass over the layers of ``[3, starts, layers]``; the network's sums follow each choice."""

    def pick(values: Array, which: Array) -> Array:
        return jnp.take_along_axis(values, which[None], axis=0)[0]

    def one_layer(sums: tuple[Array, Array], layer: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], Array]:
        energy, time, order = layer
        tried = (sums[0] - pick(energy, order) + energy, sums[1] - pick(time, order) + time)
        best = jnp.argmin(measure(model, *tried), axis=0)
        return (pick(tried[0], best), pick(tried[1], best)), best

    sums = (jnp.sum(pick(energy_pj, orders), axis=-1), jnp.sum(pick(cycles, orders), axis=-1))
    by_layer = (jnp.moveaxis(energy_pj, -1, 0), jnp.moveaxis(cycles, -1, 0), orders.T)
    sums, best = jax.lax.scan(one_layer, sums, by_layer)
    return best.T, measure(model, *sums)
