"""What a schedule needs on chip: bytes of L2 and L1 while each layer runs.

The relaxation penalizes these numbers and the search prunes by them; whether a finished schedule fits is decided by
the integer rules of :mod:`fadiff.schedule.legality`, which share no code with this module and agree with it in tests.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from fadiff.cost.namespace import namespace

if TYPE_CHECKING:
    from jax import Array

    from fadiff.cost.arrays import Fusion, HardwareArrays, LayerArrays, MappingArrays, Placement
    from fadiff.cost.traffic import Tiles


class Needs(NamedTuple):
    """Bytes on chip, shapes ``[..., layers]``; the first three add up to L2 (words are bytes there)."""

    kept: Array
    """Tiles of the layer that stay in L2 from one shared iteration to the next."""
    passing: Array
    """Tiles of the layer that are in L2 only while it runs."""
    buffer: Array
    """The layer's output held in L2 for fused consumers."""
    l2_bytes: Array
    """L2 while the layer runs: kept tiles of its whole group, its passing tiles, and live buffers."""
    l1_bytes: Array
    """L1 while the layer runs."""


def buffer_words(layers: LayerArrays, fusion: Fusion, halo: Array) -> tuple[Array, Array]:
    """Size of each layer's L2 buffer, and whether it keeps a halo between iterations.

    n * channels * (h*w + keep): h = P' if trips(P) = 1, else min(P', max(p', p' + halo)); w likewise;
    keep = min(P', halo)*(Q'-w) where rows and columns are both tiled: the line buffer. Where other shared loops run
    inside those over rows and columns, the halo (all but the tile itself) of each of their iterations waits.
    """
    xp = namespace(*fusion, halo)
    trips_g, trips_n, trips_p, trips_q = (fusion.trips[i] for i in range(4))
    rows, cols = layers.stored[0], layers.stored[1]
    p, q = rows / trips_p, cols / trips_q
    h = xp.where(trips_p > 1, xp.minimum(rows, xp.maximum(p, p + halo[0])), rows)
    w = xp.where(trips_q > 1, xp.minimum(cols, xp.maximum(q, q + halo[1])), cols)
    lines = xp.minimum(rows, xp.maximum(halo[0], 0))
    keep = xp.where((trips_p > 1) & (trips_q > 1), lines * (cols - w), 0)
    tiled = xp.where(trips_p > 1, fusion.trip_rank[2], fusion.trip_rank[3])
    waiting = reduce(
        lambda a, b: a * b,
        [
            xp.where(rank > tiled, trips, 1)
            for trips, rank in (
                (trips_g, fusion.trip_rank[0]),
                (trips_n, fusion.trip_rank[1]),
                (fusion.x_trips[0], fusion.trip_rank[4]),
            )
        ],
    )
    held = h * w + keep
    held = held + (waiting - 1) * (held - p * q)
    channels = layers.size[0] * layers.size[2] / (trips_g * fusion.x_trips[0])
    retained = ((h > p) & (trips_p > 1)) | ((w > q) & (trips_q > 1))
    return layers.size[1] / trips_n * channels * held * fusion.copied, retained


def kept_and_passing(layers: LayerArrays, fusion: Fusion, tiles: Tiles) -> tuple[Array, Array]:
    """Words of each layer's tiles that stay in L2 from one shared iteration to the next, and of those that do not.

    A tile is kept if its refills over L3 are fewer than the group's shared iterations, or its window slides along a
    shared loop.
    """
    xp = namespace(*tiles, *fusion)
    iterations = fusion.trips[0] * fusion.trips[1] * fusion.trips[2] * fusion.trips[3] * fusion.trips[4]
    weight = tiles.weight2 * (1 - fusion.fused_weight)
    window = tiles.input2 * ((layers.input_channels - fusion.fused_channels) / layers.input_channels)
    # Trip counts are integers: half a trip of slack is none, and outlasts rounding in 32 bits.
    keeps_weight = tiles.weight_refills3 < iterations - 0.5
    keeps_window = (tiles.input_refills3 < iterations - 0.5) | (tiles.slides_shared != 0)
    kept = xp.where(keeps_weight, weight, 0) + xp.where(keeps_window, window, 0)
    return kept, weight + window - kept


def needs(
    layers: LayerArrays,
    mapping: MappingArrays,
    fusion: Fusion,
    tiles: Tiles,
    placement: Placement,
    hardware: HardwareArrays,
) -> Needs:
    """Bytes of L2 and L1 while each layer runs.

    A buffer is live from its producer's step to its last consumer's; one that keeps a halo, always.
    """
    xp = namespace(*tiles, *fusion, *mapping)
    kept, passing = kept_and_passing(layers, fusion, tiles)
    buffer, retained = buffer_words(layers, fusion, placement.halo)

    # Rows: the layer v that runs; columns: the layer u that holds something then.
    group, position, last_use = placement.group, placement.position, placement.last_use
    same = group[..., :, None] == group[..., None, :]
    during = (position[..., None, :] <= position[..., :, None]) & (position[..., :, None] <= last_use[..., None, :])
    live = same & (during | retained[..., None, :])
    l2_bytes = passing + xp.sum(
        xp.where(same, kept[..., None, :], 0) + xp.where(live, buffer[..., None, :], 0), axis=-1
    )

    cols_in_use = mapping.spatial[2] * mapping.spatial[0]
    need1 = 4 * tiles.output1 * hardware.cols / cols_in_use
    # The consumer of a channel loop keeps its sums in L1 while the producer runs, unless they spill.
    waits = placement.x_consumer[..., :, None] == xp.arange(need1.shape[-1])
    waiting = xp.where(tiles.spills > 0, 0, need1)
    l1_bytes = need1 + xp.sum(xp.where(waits, waiting[..., None, :], 0), axis=-1)
    return Needs(kept, passing, buffer, l2_bytes, l1_bytes)
