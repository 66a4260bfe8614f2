"""Tiles of the input that several lanes want: neighbours along the output and the kernel can need the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from jax import Array

    from fadiff.schedule.nest import Nest


def coinciding_tiles(nest: Nest, image: int, dims: tuple[int, int], axes: Sequence[int], memory: int) -> Array | None:
    """Tiles of rows (image 0) or columns (1) that another lane of some axes has too, above a memory (past the last: the
    MACs); `dims` are those of the output and of the kernel that span the image.

    Tiles of neighbouring lanes are a = x(P)*stride and b = x(R)*dilation rows apart: of lanes without loops
    over P and R between them and the memory, those b/gcd(a, b) and a/gcd(a, b) apart along P and R coincide. None
    where no machine of this structure has such lanes.
    """
    xp = nest.xp
    unrolled = [[a for a in axes if DIMS[d] in nest.structure.dims[a]] for d in dims]
    if not all(unrolled):
        return None
    one = xp.ones_like(nest.factors[0][0])
    x = [one if memory == len(nest.structure.keeps) else nest.held(memory, d) for d in dims]
    apart = [x[0] * nest.layers.stride[image], x[1] * nest.layers.dilation[image]]
    common = _gcd(apart[0], apart[1], xp)
    groups: list[Array] = []
    for i, d in enumerate(dims):
        lanes = one
        for axis in unrolled[i]:
            between = [loop for loop in nest.loops if axis < loop.node < memory and loop.dim in dims]
            free = reduce(lambda a, b: a & b, [loop.trips <= 1 for loop in between], one > 0)
            lanes = xp.where(free, lanes * nest.factors[axis][d], lanes)
        groups.append(_coinciding_lanes(nest, d, lanes, x[i], apart[1 - i] / common))
    return groups[0] * groups[1]


def _coinciding_lanes(nest: Nest, dim: int, lanes: Array, x: Array, distance: Array) -> Array:
    """Over all groups of lanes: the lanes in use with a full tile, less `distance` (at least 0)."""
    xp = nest.xp

    def within(extent: Array) -> Array:
        full = xp.floor(extent / (lanes * x))
        rest = xp.floor((extent - full * lanes * x) / x)
        return full * xp.maximum(0, lanes - distance) + xp.maximum(0, rest - distance)

    size, tile = nest.size[dim], nest.tile[dim]
    tiles = xp.floor(size / tile)
    return tiles * within(tile) + within(size - tiles * tile)


def _gcd(a: Array, b: Array, xp: Any) -> Array:  # noqa: ANN401  (an array library)
    """The greatest common divisor, by Euclid; traced programs take as many steps as kernels of thousands of rows."""
    if xp is np:
        return cast("Array", np.gcd(np.asarray(a).astype(np.int64), np.asarray(b).astype(np.int64)).astype(np.float64))
    from jax import lax

    def step(_: int, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = pair
        return xp.where(b > 0, b, a), xp.where(b > 0, xp.mod(a, xp.where(b > 0, b, 1)), 0)

    return cast("Any", lax.fori_loop)(0, 16, step, tuple(xp.broadcast_arrays(a, b)))[0]
