"""DOSA's loss by hand: one start, one layer, one number at a time; and what tests of the method share."""

from math import prod

import numpy as np

from fadiff.workload import DIMS
from search.networks import add, mac, machine, network

ACCUMULATOR = "PQNCRSK"
DRAM = ("PQNRSCK", "KRSPQCN", "RSCKPQN")
"""Inner to outer: weight-, input- and output-stationary."""
WEIGHT, INPUT, OUTPUT = "GKCRS", "GNCPQRS", "GNKPQ"
"""The dims that a tensor depends on."""

STARTS = 7
"""As published. All tests use as many, so that they share a compiled program."""
MIXED = network(
    mac("conv", "K8 C6 P8 Q4 R3 S3", stride=(2, 1)),
    mac("again", "K8 C6 P8 Q4 R3 S3", stride=(2, 1)),
    mac("dw", "G8 P6 Q6 R3 S2", dilation=(1, 2)),
    mac("fc", "N12 K8 C10", repeat=3),
    add("sum", "K4 P4 Q4", None, None),
)
"""Strides, dilations, identical layers, groups, a repeated layer, a sum."""
SMALL = machine(l1_bytes=128, l2_bytes=200)


def ones(space) -> np.ndarray:
    """A start with every loop at L3."""
    return np.ones((3, 8, 1, space.divisors.shape[1]), dtype=np.int64)


def stationary(point) -> np.ndarray:
    """Weight-stationary orders for all layers of all starts."""
    return np.zeros(point.shape[2:], dtype=np.int64)


def cost_and_penalty(workload, hardware, factors, orders, spill_words=1):
    """(EDP in uJ * cycles, sum of squared shortfalls and excesses) of a network.

    `factors` gives s, t0 and t1 of each layer as three dicts by dim, `orders` the number of its DRAM order.
    """
    energy = cycles = penalty = 0.0
    for layer in workload.layers:
        if not layer.is_mac:
            l1 = (len(layer.inputs) + 1) * layer.output_words
            l3 = len(layer.inputs) * layer.output_words + layer.stored_words
            mine = l1 * hardware.pj.l1 + l3 * hardware.pj.l3
            wpc = hardware.words_per_cycle
            time, shortfall = max(l1 / (wpc.l1_per_column * hardware.cols), l3 / wpc.l3), 0.0
        else:
            mine, time, shortfall = _mac(layer, hardware, factors[layer.name], DRAM[orders[layer.name]], spill_words)
        energy += layer.repeat * mine
        cycles += layer.repeat * time
        penalty += shortfall
    return energy * 1e-6 * cycles, penalty


def _mac(layer, hardware, factors, dram, spill_words):
    size = layer.dims._asdict()
    raw = [*factors, {d: size[d] / prod(slot[d] for slot in factors) for d in DIMS}]
    penalty = sum(max(0, 1 - slot[d]) ** 2 for slot in raw for d in DIMS)
    s, t0, t1, t3 = ({d: max(1, slot[d]) for d in DIMS} for slot in raw)
    x = {d: s[d] * t0[d] * t1[d] for d in DIMS}
    loops3 = [(d, t3[d]) for d in "G" + dram[::-1]]
    loops1 = [(d, t1[d]) for d in "G" + ACCUMULATOR[::-1]]

    h = (x["P"] - 1) * layer.stride[0] + (x["R"] - 1) * layer.dilation[0] + 1
    w = (x["Q"] - 1) * layer.stride[1] + (x["S"] - 1) * layer.dilation[1] + 1
    plane = x["G"] * x["N"] * x["C"]
    fill2_i = plane * h * w * _refills(loops3, INPUT)
    running = [loop for loop in loops3 if loop[1] > 1]
    if running and running[-1][0] in "PQRS":
        dim, trips = running[-1]
        step = (
            x[dim] * {"P": layer.stride[0], "Q": layer.stride[1], "R": layer.dilation[0], "S": layer.dilation[1]}[dim]
        )
        fresh = plane * (min(h, step) * w if dim in "PR" else h * min(w, step))
        sweeps = prod(count for _, count in running[:-1])
        fill2_i = sweeps * (plane * h * w + (trips - 1) * fresh)
    rows, cols = s["C"] * s["R"] * s["S"], s["K"] * s["G"]
    tile_w, tile_o = prod(x[d] for d in WEIGHT), prod(x[d] for d in OUTPUT)
    fill2_w = tile_w * _refills(loops3, WEIGHT)
    fill0_w = rows * cols * _refills(loops3 + loops1, WEIGHT)
    spills = tile_o * _refills(loops3, OUTPUT) - layer.output_words
    macs = prod(size.values())
    l0 = macs + fill0_w
    l1 = 2 * macs / rows - layer.output_words + layer.output_words + 2 * spills
    l2 = fill2_w + fill0_w + fill2_i + macs / s["K"]
    l3 = fill2_w + fill2_i + layer.stored_words + 2 * spill_words * spills

    pj, wpc = hardware.pj, hardware.words_per_cycle
    energy = macs * pj.mac + l0 * pj.l0 + l1 * pj.l1 + l2 * pj.l2 + l3 * pj.l3
    cycles = max(macs / (rows * cols), l1 / (wpc.l1_per_column * cols), l2 / wpc.l2, l3 / wpc.l3)
    needs = [
        rows / hardware.rows,
        cols / hardware.cols,
        4 * tile_o * hardware.cols / cols / hardware.usable_l1_bytes,
        (tile_w + plane * h * w) / hardware.usable_l2_bytes,
    ]
    return energy, cycles, penalty + sum(max(0, need - 1) ** 2 for need in needs)


def _refills(loops, relevant):
    """`loops` outer to inner: the trips of all loops from the innermost relevant one that runs, outwards."""
    running = [i for i, (dim, trips) in enumerate(loops) if dim in relevant and trips > 1]
    return prod(trips for _, trips in loops[: running[-1] + 1]) if running else 1
