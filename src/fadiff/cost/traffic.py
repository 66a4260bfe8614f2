"""Words moved by MAC and add layers: tiles, refills, sliding windows, spills, and what fusion changes.

Every function is elementwise over its trailing axes: the leading axis, where there is one, runs over loop
dims, and whatever follows (schedules, restarts, candidates, layers) is broadcast. The code only uses operators
and the array standard's functions, so the same lines run on NumPy arrays (exact counts in 64 bits) and on traced
JAX arrays (jitted, batched, differentiated). Gradients flow through trip counts, factors and sigma; comparisons
(which loop is innermost, which tile is kept) are constant pieces of the piecewise model.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from fadiff.cost.namespace import namespace

if TYPE_CHECKING:
    from jax import Array

    from fadiff.cost.arrays import Fusion, LayerArrays, MappingArrays

G, N, K, C, P, Q, R, S = range(8)
RELEVANT_W = frozenset({G, K, C, R, S})
RELEVANT_I = frozenset({G, N, C, P, Q, R, S})
RELEVANT_O = frozenset({G, N, K, P, Q})
_SHARED = (G, N, P, Q)
_PRIVATE_RANK, _L2_RANK, _L1_RANK = 5, 13, 21
"""Ranks number all temporal loops of a layer, outermost first: 5 shared, then 8 each of L3, L2 and L1."""


class Loop(NamedTuple):
    """A temporal loop: how often it runs, where it stands (0 = outermost), and over which dim."""

    trips: Array
    rank: Array
    dim: int


class Tiles(NamedTuple):
    """What a MAC layer holds on chip, and how often L3 refills it. All shapes ``[..., layers]``."""

    weight2: Array
    """tile2(W), words of L2."""
    input2: Array
    """tile2(I), words of L2, of all input channels."""
    output1: Array
    """tile1(O), 32-bit words of L1."""
    weight_refills3: Array
    """refills(W over L3)."""
    input_refills3: Array
    """refills(I over L3), before the window slides."""
    slides_shared: Array
    """Whether the input window slides along a shared loop and part of it stays."""
    spills: Array
    """Partial sums that leave L1 unfinished: drain1(O) - |O|."""


class Traffic(NamedTuple):
    """Words moved, by level, tensor and direction (L1: 32-bit words). All shapes ``[..., layers]``."""

    macs: Array
    l0_weight_fill: Array
    """Weights loaded into registers; the array reads one of them per MAC besides."""
    l1_update: Array
    """2u - |O|: u sums written by the array, all but the first of each output read before."""
    l1_drain: Array
    """Finished outputs read for L3, for the copy into L2, and spilled partial sums."""
    l1_reload: Array
    """Spilled partial sums written back."""
    l1_addend: Array
    """Operands of an add layer written into L1."""
    l2_weight_fill: Array
    l2_weight_read: Array
    l2_input_fill: Array
    l2_input_read: Array
    l2_output_copy: Array
    """A fused intermediate, copied from L1."""
    l2_addend_read: Array
    l3_weight: Array
    l3_input: Array
    l3_output: Array
    l3_spill: Array
    """2 * spill_words * spills: partial sums out and back."""

    @property
    def l0(self) -> Array:
        """Accesses of L0: MACs + fill0(W)."""
        return self.macs + self.l0_weight_fill

    @property
    def l1(self) -> Array:
        """Accesses of L1, 32-bit words."""
        return self.l1_update + self.l1_drain + self.l1_reload + self.l1_addend

    @property
    def l2(self) -> Array:
        """Accesses of L2, words."""
        return (
            self.l2_weight_fill
            + self.l2_weight_read
            + self.l2_input_fill
            + self.l2_input_read
            + self.l2_output_copy
            + self.l2_addend_read
        )

    @property
    def l3(self) -> Array:
        """Accesses of L3, words."""
        return self.l3_weight + self.l3_input + self.l3_output + self.l3_spill


def refills(loops: list[Loop], relevant: frozenset[int]) -> Array:
    """How often a tile is fetched while `loops` run above it.

    Innermost first, skip loops until the first with more than one trip over a relevant dim; the result is the
    product of its trip count and those of all loops outside it (1 if there is none):

    .. math:: \\prod_{l:\\, rank_l \\le last} trips_l, \\qquad last = \\max \\{rank_l : l\\ relevant, trips_l > 1\\}
    """
    return _product_up_to(loops, _last_active(loops, relevant))


def _last_active(loops: list[Loop], relevant: frozenset[int]) -> Array:
    """Rank of the innermost relevant loop with more than one trip; -1 if there is none."""
    xp = namespace(*(loop.trips for loop in loops))
    ranks = [xp.where(loop.trips > 1, loop.rank, -1) for loop in loops if loop.dim in relevant]
    return reduce(xp.maximum, ranks)


def _product_up_to(loops: list[Loop], last: Array) -> Array:
    xp = namespace(last, *(loop.trips for loop in loops))
    factors = [xp.where(loop.rank <= last, loop.trips, 1) for loop in loops]
    return reduce(lambda a, b: a * b, factors)


def _loops(mapping: MappingArrays, fusion: Fusion) -> tuple[list[Loop], list[Loop], list[Loop], list[Loop]]:
    """The temporal loops above the registers: shared L3, private L3, L2, L1.

    The channel loop X stands for K in its producer and for C in its consumer, so it appears once as each, with one
    trip where it does not apply.
    """
    x_of_k, x_of_c = fusion.x_trips
    shared = [Loop(fusion.trips[i], fusion.trip_rank[i], dim) for i, dim in enumerate(_SHARED)]
    shared += [Loop(x_of_k, fusion.trip_rank[4], K), Loop(x_of_c, fusion.trip_rank[4], C)]
    taken = {loop.dim: loop.trips for loop in shared}
    l3 = [
        Loop(mapping.temporal[3][d] / taken[d] if d in taken else mapping.temporal[3][d], rank + _PRIVATE_RANK, d)
        for d, rank in enumerate(mapping.rank[2])
    ]
    l2 = [Loop(mapping.temporal[2][d], rank + _L2_RANK, d) for d, rank in enumerate(mapping.rank[1])]
    l1 = [Loop(mapping.temporal[1][d], rank + _L1_RANK, d) for d, rank in enumerate(mapping.rank[0])]
    return shared, l3, l2, l1


def _product(values: Array | list[Array], dims: frozenset[int]) -> Array:
    return reduce(lambda a, b: a * b, [values[d] for d in sorted(dims)])


def mac_traffic(
    layers: LayerArrays, mapping: MappingArrays, fusion: Fusion, spill_words: Array
) -> tuple[Traffic, Tiles]:
    """Traffic and tiles of layers taken as MAC layers (see :func:`layer_traffic` for both kinds)."""
    s = mapping.spatial
    x1 = [s[d] * mapping.temporal[0][d] * mapping.temporal[1][d] for d in range(8)]
    x2 = [x1[d] * mapping.temporal[2][d] for d in range(8)]
    xp = namespace(*mapping, *fusion, *layers, spill_words)
    shared, private, l2, l1 = _loops(mapping, fusion)
    l3 = shared + private
    macs = _product(layers.size, frozenset(range(8)))

    # Tiles, and the window of the input.
    tile2_w = _product(x2, RELEVANT_W)
    tile1_o = _product(x1, RELEVANT_O)
    height = (x2[P] - 1) * layers.stride[0] + (x2[R] - 1) * layers.dilation[0] + 1
    width = (x2[Q] - 1) * layers.stride[1] + (x2[S] - 1) * layers.dilation[1] + 1
    tile2_i_area = x2[G] * x2[N] * x2[C]
    tile2_i = tile2_i_area * height * width

    # A window that slides along the innermost running loop over L2 fetches only what is fresh.
    innermost = reduce(xp.maximum, [xp.where(loop.trips > 1, loop.rank, -1) for loop in l3])
    row_step = {P: x2[P] * layers.stride[0], R: x2[R] * layers.dilation[0]}
    col_step = {Q: x2[Q] * layers.stride[1], S: x2[S] * layers.dilation[1]}
    sweep, fresh, slides_shared = xp.ones_like(tile2_i), tile2_i, tile2_i < 0
    for loop in l3:
        if loop.dim in row_step:
            part = tile2_i_area * xp.minimum(height, row_step[loop.dim]) * width
        elif loop.dim in col_step:
            part = tile2_i_area * height * xp.minimum(width, col_step[loop.dim])
        else:
            continue
        here = (loop.trips > 1) & (loop.rank == innermost)
        sweep = xp.where(here, loop.trips, sweep)
        fresh = xp.where(here, part, fresh)
        slides_shared = slides_shared | (here & (loop.rank < _PRIVATE_RANK) & (part < tile2_i))
    refills3_i = refills(l3, RELEVANT_I)
    fill2_i = refills3_i / sweep * (tile2_i + (sweep - 1) * fresh)

    refills3_w = refills(l3, RELEVANT_W)
    fill2_w = tile2_w * refills3_w

    # Registers: in a group of several layers each shared iteration loads them anew.
    above_registers = l3 + l2 + l1
    last_w = _last_active(above_registers, RELEVANT_W)
    alone = _product_up_to(above_registers, last_w)
    all_shared = reduce(lambda a, b: a * b, [loop.trips for loop in shared])
    grouped = xp.where(last_w >= _PRIVATE_RANK, alone, all_shared)
    s_rows = s[C] * s[R] * s[S]
    fill0_w = s_rows * s[K] * s[G] * (alone + fusion.grouped * (grouped - alone))

    spills = tile1_o * refills(l3 + l2, RELEVANT_O) - layers.output_words
    updates = macs / s_rows
    unfused_i = (layers.input_channels - fusion.fused_channels) / layers.input_channels
    from_l3_w = 1 - fusion.fused_weight
    fill2_i, fill2_w = fill2_i * unfused_i, fill2_w * from_l3_w
    zero = xp.zeros_like(fill2_i)
    traffic = Traffic(
        macs=macs + zero,
        l0_weight_fill=fill0_w,
        l1_update=2 * updates - layers.output_words,
        l1_drain=layers.output_words * (fusion.drained + fusion.copied) + spills,
        l1_reload=spills,
        l1_addend=zero,
        l2_weight_fill=fill2_w,
        l2_weight_read=fill0_w,
        l2_input_fill=fill2_i,
        l2_input_read=macs / s[K],
        l2_output_copy=layers.stored_words * fusion.copied + zero,
        l2_addend_read=zero,
        l3_weight=fill2_w,
        l3_input=fill2_i,
        l3_output=layers.stored_words * fusion.drained + zero,
        l3_spill=2 * spill_words * spills,
    )
    tiles = Tiles(tile2_w, tile2_i, tile1_o, refills3_w, refills3_i, slides_shared, spills)
    return traffic, tiles


def add_traffic(layers: LayerArrays, fusion: Fusion, like: Array) -> Traffic:
    """Traffic of layers taken as add layers: addends stream from L3, or from the buffer where they are fused."""
    xp = namespace(like)
    zero = xp.zeros_like(like)
    fused_words = layers.output_words * fusion.fused_addends
    all_words = layers.output_words * layers.addends
    return Traffic(
        macs=zero,
        l0_weight_fill=zero,
        l1_update=zero,
        l1_drain=layers.output_words * (fusion.drained + fusion.copied) + zero,
        l1_reload=zero,
        l1_addend=all_words + zero,
        l2_weight_fill=zero,
        l2_weight_read=zero,
        l2_input_fill=zero,
        l2_input_read=zero,
        l2_output_copy=layers.stored_words * fusion.copied + zero,
        l2_addend_read=fused_words + zero,
        l3_weight=zero,
        l3_input=all_words - fused_words + zero,
        l3_output=layers.stored_words * fusion.drained + zero,
        l3_spill=zero,
    )


def layer_traffic(
    layers: LayerArrays, mapping: MappingArrays, fusion: Fusion, spill_words: Array
) -> tuple[Traffic, Tiles]:
    """Traffic of every layer, MAC or add; tiles of add layers are empty."""
    mac, tiles = mac_traffic(layers, mapping, fusion, spill_words)
    add = add_traffic(layers, fusion, mac.macs)
    xp = namespace(mac.macs)
    is_mac = layers.is_mac
    traffic = Traffic(*(xp.where(is_mac, m, a) for m, a in zip(mac, add, strict=True)))
    return traffic, Tiles(*(xp.where(is_mac, tile, 0) for tile in tiles))
