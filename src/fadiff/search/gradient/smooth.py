"""The cost model with exact values and smooth gradients.

`refills` is flat where a loop has one trip: its derivative does not see that a first trip over a relevant dim makes
every loop outside count. Descent on it walks into such walls. So counts are taken from the exact model, and their
logarithms' gradients from a formula that agrees with it where all loops run, and rises towards the walls elsewhere:

.. math:: \\log refills \\approx \\sum_{l\\ relevant} \\log t_l + \\sum_{l\\ irrelevant} a_l \\log t_l, \\qquad
    a_l = 1 - \\prod_{r\\ relevant,\\ inside\\ l} 1 / t_r
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.cost.arrays import Fusion, HardwareArrays, LayerArrays, MappingArrays
from fadiff.cost.model import LayerCosts
from fadiff.cost.roofline import cycles, energy_pj
from fadiff.cost.traffic import RELEVANT_I, RELEVANT_O, RELEVANT_W, C, G, K, N, P, Q, R, S, layer_traffic
from fadiff.search.gradient.candidates import SHARED, SHARED_DIMS, SLOTS, SPATIAL, T0, T1, T2, T3
from fadiff.search.space import ORDER1, ORDER2, ORDERS3
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray

RANK = np.array(
    [
        [[order.index(dim) for order in orders] for dim in DIMS]
        for orders in ([ORDER1] * len(ORDERS3), [ORDER2] * len(ORDERS3), ORDERS3)
    ],
    dtype=np.int32,
)[..., None, None]
"""``[3, 8, 6, 1, 1]`` place of each dim's loop at L1, L2, L3 in each of the six orders."""


class _Count(NamedTuple):
    """A tile and the loops above it as linear maps of the 48 log factors (slot by slot, dim by dim)."""

    sizes: NDArray[np.float32]
    """``[1, 48]`` 1 where a factor multiplies the count always: the tile's own, and relevant loops."""
    others: NDArray[np.float32]
    """``[others, 48]`` the loops over other dims, one per row."""
    inside: NDArray[np.float32]
    """``[orders * others, 48]`` for each of them the relevant loops inside it."""
    is_shared: NDArray[np.float32]
    """``[others, 1, 1]`` which of them are shared by the group."""


def _count(relevant: frozenset[int], held: tuple[int, ...], above: tuple[int, ...], dims: frozenset[int]) -> _Count:
    """A tensor's tile over `dims` of the slots `held`, under the loops of the slots `above`."""
    every = [(slot, d) for slot in above for d in (SHARED_DIMS if slot == SHARED else range(8))]
    rel = [loop for loop in every if loop[1] in relevant]
    others = [loop for loop in every if loop[1] not in relevant]
    inside = [[r for r in rel if _place(r, o) > _place(loop, o)] for o in range(len(ORDERS3)) for loop in others]
    return _Count(
        sizes=_rows([[*((slot, d) for slot in held for d in dims), *rel]]),
        others=_rows([[loop] for loop in others]),
        inside=_rows(inside),
        is_shared=np.array([slot == SHARED for slot, _ in others], dtype=np.float32)[:, None, None],
    )


def _rows(lists: list[list[tuple[int, int]]]) -> NDArray[np.float32]:
    """0/1 rows over the 48 factors."""
    rows = np.zeros((len(lists), SLOTS, 8), dtype=np.float32)
    for row, loops in zip(rows, lists, strict=True):
        for loop in loops:
            row[loop] += 1
    return rows.reshape(len(lists), -1)


def _place(loop: tuple[int, int], order: int) -> tuple[int, int]:
    """Where a loop stands, outermost first."""
    slot, d = loop
    if slot == SHARED:
        return (0, SHARED_DIMS.index(d))
    level = slot - T0
    return (4 - level, int(RANK[level - 1, d, order, 0, 0]))


_L1, _L2 = (SPATIAL, T0, T1), (SPATIAL, T0, T1, T2)
_FILL2_W = _count(RELEVANT_W, _L2, (SHARED, T3), RELEVANT_W)
_FILL2_I = _count(RELEVANT_I, _L2, (SHARED, T3), frozenset({G, N, C}))
_DRAIN1 = _count(RELEVANT_O, _L1, (SHARED, T3, T2), RELEVANT_O)
_FILL0_W = _count(RELEVANT_W, (SPATIAL,), (SHARED, T3, T2, T1), RELEVANT_W)


_TILES = _rows(
    [
        [(slot, d) for slot in held for d in dims]
        for held, dims in ((_L2, RELEVANT_W), (_L2, (G, N, C)), (_L1, RELEVANT_O))
    ]
)
"""``[3, 48]`` tile2(W), tile2(I) without its window, tile1(O)."""


def _log_count(logs: Array, count: _Count, grouped: Array | None = None) -> Array:
    """Smooth log of a tile times its refills, ``[orders, restarts, layers]``, from log factors ``[48, ...]``.

    `grouped` ``[restarts, layers]`` tells to what degree shared loops count as relevant to the tensor anyway.
    """
    maps = np.concatenate([count.sizes, count.others, count.inside])
    sums = jnp.einsum("mk,kbl->mbl", maps, logs)
    many = len(count.others)
    others, inside = sums[1 : 1 + many], sums[1 + many :].reshape(len(ORDERS3), many, *sums.shape[1:])
    share = 1 - jnp.exp(-inside)
    if grouped is not None:
        share = share + (1 - share) * count.is_shared * jax.lax.stop_gradient(grouped)
    return sums[0] + jnp.sum(share * others, axis=1)


def smooth_costs(
    layers: LayerArrays, factors: Array, mapping: MappingArrays, fusion: Fusion, hardware: HardwareArrays
) -> LayerCosts:
    """:func:`fadiff.cost.model.layer_costs` with smooth gradients in `factors` ``[6, 8, restarts, layers]``.

    `mapping` is the same as `factors`, with an axis of orders; the gradient in sigma is that of the model.
    """
    still = jax.lax.stop_gradient
    fixed = fusion._replace(trips=still(fusion.trips))
    traffic, tiles = layer_traffic(layers, still(mapping), fixed, hardware.spill_words)

    logs = jnp.log(factors)
    flat = logs.reshape(SLOTS * 8, *logs.shape[2:])
    x1 = logs[SPATIAL] + logs[T0] + logs[T1]
    extent = jnp.exp(x1 + logs[T2])
    height = (extent[P] - 1) * layers.stride[0] + (extent[R] - 1) * layers.dilation[0] + 1
    width = (extent[Q] - 1) * layers.stride[1] + (extent[S] - 1) * layers.dilation[1] + 1
    window = jnp.log(height) + jnp.log(width)
    rows = logs[SPATIAL, C] + logs[SPATIAL, R] + logs[SPATIAL, S]

    def along(log_count: Array) -> Array:
        """1, with the gradient of a count's logarithm; add layers have no mapping."""
        return jnp.exp(jnp.where(layers.is_mac, log_count - still(log_count), 0))

    tile2_w, tile2_i, tile1_o = jnp.einsum("mk,kbl->mbl", _TILES, flat)
    fill2_w = along(_log_count(flat, _FILL2_W))
    fill2_i = along(_log_count(flat, _FILL2_I) + window)
    fill0_w = along(_log_count(flat, _FILL0_W, fusion.grouped))
    drain1 = along(_log_count(flat, _DRAIN1))

    outputs = jnp.where(layers.is_mac, layers.output_words, 0)
    spills = (traffic.l1_reload + outputs) * drain1 - outputs
    smooth = traffic._replace(
        l0_weight_fill=traffic.l0_weight_fill * fill0_w,
        l1_update=(traffic.l1_update + outputs) * along(-rows) - outputs,
        l1_drain=traffic.l1_drain - traffic.l1_reload + spills,
        l1_reload=spills,
        l2_weight_fill=traffic.l2_weight_fill * fill2_w,
        l2_weight_read=traffic.l2_weight_read * fill0_w,
        l2_input_fill=traffic.l2_input_fill * fill2_i,
        l2_input_read=traffic.l2_input_read * along(-logs[SPATIAL, K]),
        l3_weight=traffic.l3_weight * fill2_w,
        l3_input=traffic.l3_input * fill2_i,
        l3_spill=2 * hardware.spill_words * spills,
    )
    held = tiles._replace(
        weight2=tiles.weight2 * along(tile2_w),
        input2=tiles.input2 * along(tile2_i + window),
        output1=tiles.output1 * along(tile1_o),
        spills=spills,
    )
    return LayerCosts(smooth, held, cycles(layers, mapping, smooth, hardware), energy_pj(smooth, hardware))
