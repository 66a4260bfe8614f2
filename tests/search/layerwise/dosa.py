"""DOSA's loss on a Gemmini by hand: one start, one layer, one number at a time; and what tests of the method share."""

from functools import cache
from math import prod

import numpy as np

from fadiff.search.exact.conditions import Task
from fadiff.search.layerwise.mapspace import MapSpace, pack_mapspace
from fadiff.search.objective import Objective
from fadiff.workload import DIMS
from search.networks import GEMMINI, add, mac, network, sized

DRAM = ("PQNRSCKG", "KRSPQCNG", "RSCKPQNG")
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
SMALL = sized(GEMMINI, accumulator=32, scratchpad=200)


@cache
def space_of(workload, machine, objective="edp") -> MapSpace:
    return pack_mapspace(Task(workload, machine), Objective.of(objective))


def place(space, node, dim) -> int:
    """The number of a free factor, by the node's name."""
    return space.exact.free.index((space.task.machine.number[node], DIMS.index(dim)))


def ones(space, starts=1) -> np.ndarray:
    """Starts with every loop at the first memory."""
    return np.ones((len(space.exact.free), starts, space.divisors.shape[1]), dtype=np.int64)


def stationary(point) -> np.ndarray:
    """Weight-stationary orders for all layers of all starts."""
    return np.zeros(point.shape[1:], dtype=np.int64)


def cost_and_penalty(space, point, orders):
    """(EDP in uJ * cycles, sum of squared shortfalls and excesses) of one start, `point` ``[free, layers]``.

    Identical layers are one to the search, and its penalties count them once.
    """
    workload, machine = space.task.workload, space.task.machine
    energy = cycles = penalty = 0.0
    seen = set()
    for layer, k in zip(workload.layers, space.kind.tolist(), strict=True):
        if layer.is_mac:
            factors = {node.name: dict.fromkeys(DIMS, 1.0) for node in machine.nodes}
            for value, (node, d) in zip(point[:, k], space.exact.free, strict=True):
                factors[machine.nodes[node].name][DIMS[d]] = float(value)
            mine, time, shortfall = _mac(layer, machine, factors, DRAM[orders[k]])
        else:
            mine, time, shortfall = *_sum(layer, machine), 0.0
        energy += layer.repeat * mine
        cycles += layer.repeat * time
        penalty += 0.0 if k in seen else shortfall
        seen.add(k)
    return energy * 1e-6 * cycles, penalty


def _sum(layer, machine):
    dram, _, acc, _ = machine.memories
    words = len(layer.inputs) * layer.output_words
    at_dram, at_acc = words + layer.stored_words, words + layer.output_words
    energy = at_dram * dram.read_pj + at_acc * acc.read_pj
    return energy, max(at_dram / dram.words_per_cycle, at_acc / (acc.words_per_cycle * machine.axes[0].size))


def _mac(layer, machine, raw, order):
    size = layer.dims._asdict()
    raw["DRAM"] = {d: size[d] / prod(node[d] for node in raw.values()) for d in DIMS}
    penalty = sum(max(0, 1 - factor) ** 2 for node in raw.values() for factor in node.values())
    f = {name: {d: max(1, factor) for d, factor in node.items()} for name, node in raw.items()}
    t3, t1, t0 = f["DRAM"], f["accumulator"], f["registers"]
    cols, rows = prod(f["cols"].values()), prod(f["rows"].values())
    x1 = {d: f["rows"][d] * t0[d] * t1[d] for d in DIMS}
    x2 = {d: x1[d] * f["cols"][d] for d in DIMS}
    outer = [(d, t3[d]) for d in order[::-1]]
    inner = outer + [(d, t1[d]) for d in "GKCRSNPQ"]

    def values(dims):
        return prod(size[d] for d in dims)

    weight, output, macs = values(WEIGHT), values(OUTPUT), values(DIMS)
    every = {d: t3[d] * t1[d] * t0[d] for d in DIMS}
    fill2_w, fill0_w = weight * _repeats(outer, WEIGHT), weight * _repeats(inner, WEIGHT)
    lines = [
        _lines(outer, size, x2, out, kernel, layer.stride[i], layer.dilation[i])
        for i, (out, kernel) in enumerate(("PR", "QS"))
    ]
    fill2_i = values("GNC") * _repeats(outer, INPUT) * lines[0] * lines[1]
    used_i = values("GNCPQRS") * every["K"]
    drained = output * _repeats(outer, OUTPUT)
    updates = output * every["C"] * every["R"] * every["S"]
    at_dram = fill2_w + fill2_i + layer.stored_words + 2 * (drained - output)
    at_pad = 2 * fill2_w - fill2_w + fill0_w + fill2_i + used_i
    at_acc = updates + (drained - output) + (updates - output) + drained
    at_reg = fill0_w + weight * every["N"] * every["P"] * every["Q"]

    dram, pad, acc, reg = machine.memories
    energy = macs * machine.mac_pj + at_dram * dram.read_pj + at_pad * pad.read_pj
    energy += at_acc * acc.read_pj + at_reg * reg.read_pj
    cycles = max(
        prod(every.values()),
        at_dram / dram.words_per_cycle,
        at_pad / pad.words_per_cycle,
        at_acc / (acc.words_per_cycle * cols),
    )
    box = [(x2[a] - 1) * layer.stride[i] + (x2[b] - 1) * layer.dilation[i] + 1 for i, (a, b) in enumerate(("PR", "QS"))]
    tile_w, tile_i = prod(x2[d] for d in WEIGHT), x2["G"] * x2["N"] * x2["C"] * box[0] * box[1]
    needs = [
        cols / machine.axes[0].size,
        rows / machine.axes[1].size,
        (tile_w + tile_i) / pad.bytes,
        4 * prod(x1[d] for d in OUTPUT) / acc.bytes,
        prod(t0[d] for d in WEIGHT) / reg.bytes,
    ]
    return energy, cycles, penalty + sum(max(0, need - 1) ** 2 for need in needs)


def _repeats(loops, relevant):
    """`loops` outer to inner: the trips of irrelevant ones outside the innermost relevant one that runs."""
    running = [i for i, (dim, trips) in enumerate(loops) if dim in relevant and trips > 1]
    return prod(trips for dim, trips in loops[: running[-1] + 1] if dim not in relevant) if running else 1


def _lines(loops, size, held, out, kernel, stride, dilation):
    """Rows that a sweep over all tiles fetches; a window slides along the innermost loop that runs."""
    trips = dict(loops)
    running = [dim for dim, count in loops if count > 1]
    n_out, n_kernel = trips[out], trips[kernel]
    if running and running[-1] == out and stride <= (held[kernel] - 1) * dilation + 1:
        n_out = 1
    if running and running[-1] == kernel and dilation <= (held[out] - 1) * stride + 1:
        n_kernel = 1
    return stride * (size[out] - n_out) * n_kernel + dilation * (size[kernel] - n_kernel) * n_out + n_out * n_kernel
