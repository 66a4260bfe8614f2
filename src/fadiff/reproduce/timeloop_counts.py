"""The model's counts on Timeloop's mappings, under the names of Timeloop's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.cost.traffic import G, K, Tiles, Traffic, layer_traffic
from fadiff.reproduce.timeloop import (
    Floats,
    Mask,
    Reference,
    as_array,
    as_floats,
    layer_arrays,
    mapping_arrays,
    no_fusion,
)

if TYPE_CHECKING:
    from fadiff.cost.arrays import HardwareArrays, LayerArrays, MappingArrays

COUNTS = {
    "L0 W": ("L0_W_reads", "L0_W_fills"),
    "L1 O": ("L1_O_reads", "L1_O_fills", "L1_O_updates"),
    "L2 W": ("L2_W_reads", "L2_W_fills"),
    "L2 I": ("L2_I_reads", "L2_I_fills"),
    "L3 W": ("L3_W_reads",),
    "L3 I": ("L3_I_reads",),
    "L3 O": ("L3_O_reads", "L3_O_updates"),
}
"""Timeloop's access counts by level and tensor."""
SIZES = ("L2_W_cap_words", "L2_I_cap_words", "L1_O_cap_words_total", "L1_O_cap_words_per_column")
"""Timeloop's tile sizes."""


class Batch(NamedTuple):
    """Rows and what the model finds for them."""

    reference: Reference
    layers: LayerArrays
    mapping: MappingArrays
    traffic: Traffic
    """With a spilled sum as one word, as Timeloop counts it."""
    tiles: Tiles


def evaluate(reference: Reference) -> Batch:
    """All rows through the model in one call."""
    layers, mapping, rows = layer_arrays(reference), mapping_arrays(reference), len(reference)
    traffic, tiles = layer_traffic(layers, mapping, no_fusion(rows), spill_words=as_array(np.ones(rows)))
    return Batch(reference, layers, mapping, traffic, tiles)


def reads_and_writes(batch: Batch) -> tuple[Traffic, Traffic]:
    """The traffic as Timeloop counts it: what is read, and what is filled or updated.

    Of the 2u - |O| accesses of the array's updates, u - |O| read the old sum and u write the new one. The reads of
    drained outputs, which Timeloop does not count at L1, are in neither.
    """
    traffic, output_words = batch.traffic, batch.layers.output_words
    zero = traffic.macs * 0
    updates, spill = (traffic.l1_update + output_words) / 2, traffic.l3_spill / 2
    read = traffic._replace(
        l0_weight_fill=zero, l1_update=updates - output_words, l1_drain=zero, l1_reload=zero,
        l2_weight_fill=zero, l2_input_fill=zero, l3_output=zero, l3_spill=spill,
    )  # fmt: skip
    written = traffic._replace(
        macs=zero, l1_update=updates, l1_drain=zero, l2_weight_read=zero, l2_input_read=zero,
        l3_weight=zero, l3_input=zero, l3_spill=spill,
    )  # fmt: skip
    return read, written


def timeloop_columns(batch: Batch) -> dict[str, Floats]:
    """The model's counts and tile sizes under the names of Timeloop's columns, ``[rows]`` each."""
    read, written = reads_and_writes(batch)
    tiles, columns = batch.tiles, batch.mapping.spatial[K] * batch.mapping.spatial[G]
    found = {
        "L0_W_reads": read.macs,
        "L0_W_fills": written.l0_weight_fill,
        "L1_O_reads": read.l1_update,
        "L1_O_fills": written.l1_reload,
        "L1_O_updates": written.l1_update,
        "L2_W_reads": read.l2_weight_read,
        "L2_W_fills": written.l2_weight_fill,
        "L2_I_reads": read.l2_input_read,
        "L2_I_fills": written.l2_input_fill,
        "L3_W_reads": read.l3_weight,
        "L3_I_reads": read.l3_input,
        "L3_O_reads": read.l3_spill,
        "L3_O_updates": written.l3_output + written.l3_spill,
        "L2_W_cap_words": tiles.weight2,
        "L2_I_cap_words": tiles.input2,
        "L1_O_cap_words_total": tiles.output1,
        "L1_O_cap_words_per_column": tiles.output1 / columns,
    }
    return {name: as_floats(words) for name, words in found.items()}


def fits(batch: Batch, hardware: HardwareArrays) -> Mask:
    """``[rows]``: tile2(W) + tile2(I) <= L2 bytes and 4*tile1(O)*cols/s_cols <= L1 bytes."""
    tiles, columns = batch.tiles, batch.mapping.spatial[K] * batch.mapping.spatial[G]
    in_l2 = tiles.weight2 + tiles.input2 <= hardware.l2_bytes
    return np.asarray(in_l2 & (4 * tiles.output1 * hardware.cols / columns <= hardware.l1_bytes))
