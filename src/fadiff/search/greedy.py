"""A deterministic heuristic: each layer on its own, tiles grown by the best single step until none helps.

A mapping starts with every loop at L3. A step moves one prime factor of one dim from one slot to another, and takes
the best of six orders of the L3 loops; of all steps that fit, the one with the lowest energy x latency of the layer
is taken. All steps of all layers are priced in one batched call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fadiff.cost.arrays import MappingArrays, fuse, pack_edges, pack_hardware, pack_layers
from fadiff.cost.model import layer_costs
from fadiff.errors import FadiffError
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.search.space import ORDER1, ORDER2, ORDERS3, prime_factors, useful_slots
from fadiff.workload import DIMS, Dims, Workload

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray

    from fadiff.hardware import Hardware

    FloatArray = NDArray[np.float64]


class Step(NamedTuple):
    """Move a prime factor of a dim from one slot to another."""

    dim: int
    source: int
    target: int
    prime: int


def greedy(workload: Workload, hardware: Hardware) -> Schedule:
    """A legal schedule without fusion, in well under a second per network."""
    factors, orders = _climb(workload, hardware)
    mappings: dict[str, Mapping] = {}
    for i, layer in enumerate(workload.layers):
        if layer.is_mac:
            spatial, l0, l1, l2, l3 = (Dims(*map(int, factors[slot, :, i])) for slot in range(5))
            mappings[layer.name] = Mapping(spatial, l0, l1, l2, l3, order2=ORDER2, order3=ORDERS3[int(orders[i])])
    groups = tuple(Group((name,)) for name in workload.topological)
    return Schedule(workload, hardware, groups, mappings, made_by={"method": "greedy"})


def _climb(workload: Workload, hardware: Hardware) -> tuple[FloatArray, NDArray[np.int64]]:
    """Factors ``[slot, dim, layer]`` and the number of the L3 order of each layer."""
    layers = pack_layers(workload)
    count = len(workload.layers)
    steps = _steps(workload, hardware)
    factors = np.ones((5, 8, count))
    factors[4] = np.where(cast("FloatArray", layers.is_mac), cast("FloatArray", layers.size), 1)
    price = _Pricing(workload, hardware)
    best, orders = price(factors[:, :, None, :])
    best, orders = best[0], orders[0]
    if not np.isfinite(best).all():
        raise FadiffError(_too_large(workload, hardware, int(np.argmin(np.isfinite(best)))))
    while steps:
        moved = np.repeat(factors[:, :, None, :], len(steps), axis=2)
        possible = np.empty((len(steps), count), dtype=bool)
        for i, step in enumerate(steps):
            possible[i] = factors[step.source, step.dim] % step.prime == 0
            moved[step.source, step.dim, i] = factors[step.source, step.dim] / np.where(possible[i], step.prime, 1)
            moved[step.target, step.dim, i] = factors[step.target, step.dim] * np.where(possible[i], step.prime, 1)
        prices, tried = price(moved)
        prices = np.where(possible, prices, np.inf)
        chosen = prices.argmin(axis=0)
        rows = np.arange(count)
        improves = prices[chosen, rows] < best * (1 - 1e-9)
        if not improves.any():
            return factors, orders
        factors = np.where(improves, moved[:, :, chosen, rows], factors)
        best = np.where(improves, prices[chosen, rows], best)
        orders = np.where(improves, tried[chosen, rows], orders)
    return factors, orders


def _too_large(workload: Workload, hardware: Hardware, layer: int) -> str:
    """What a layer that fits in no way lacks, with tiles of one word: every bank of L1 and two words of L2."""
    name = workload.layers[layer].name
    lacks = [
        f"{needed:,} bytes of {level}, {there:,} are there ({needed - there:,} too few)"
        for level, needed, there in (
            ("L1", 4 * hardware.cols, hardware.usable_l1_bytes),
            ("L2", 2, hardware.usable_l2_bytes),
        )
        if needed > there
    ]
    return f"layer {name!r} fits {hardware.name} in no way: even with tiles of one word it needs {' and '.join(lacks)}"


def _steps(workload: Workload, hardware: Hardware) -> list[Step]:
    """Every step that some layer may take."""
    macs = [layer for layer in workload.layers if layer.is_mac]
    steps: list[Step] = []
    for d, dim in enumerate(DIMS):
        primes = sorted({prime for layer in macs for prime, _ in prime_factors(layer.dims[d])})
        slots = useful_slots(dim, hardware)
        steps += [Step(d, a, b, prime) for prime in primes for a in slots for b in slots if a != b]
    return steps


class _Pricing:
    """Energy x latency of each layer on its own, in the best L3 order; infinite where the mapping does not fit."""

    def __init__(self, workload: Workload, hardware: Hardware) -> None:
        count, orders = len(workload.layers), len(ORDERS3)
        self.layers = pack_layers(workload)
        self.hardware = hardware
        self.arrays = pack_hardware(hardware)
        ones = cast("Array", np.ones((5, 1, 1, count)))
        self.fusion = fuse(
            pack_edges(workload), cast("Array", np.zeros((1, 1, len(workload.edges)))), ones, ones, ones[:2]
        )
        fixed = [np.broadcast_to(_ranks(order), (orders, 8)) for order in (ORDER1, ORDER2)]
        ranks = np.stack([*fixed, np.array([_ranks(order) for order in ORDERS3])])
        self.rank = cast("Array", ranks.transpose(0, 2, 1)[:, :, :, None, None])
        rows = [DIMS.index(d) for d in hardware.spatial_rows]
        cols = [DIMS.index(d) for d in hardware.spatial_cols]
        self.axes = ((rows, hardware.rows), (cols, hardware.cols))

    def __call__(self, factors: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
        """`factors` ``[slot, dim, candidate, layer]`` -> price and order, each ``[candidate, layer]``."""
        wide = cast("Array", factors[:, :, None])
        mapping = MappingArrays(spatial=wide[0], temporal=wide[1:], rank=self.rank)
        costs = layer_costs(self.layers, mapping, self.fusion, self.arrays)
        price = cast("FloatArray", costs.energy.total * costs.cycles.total)
        order = price.argmin(axis=0)
        columns = factors[0, 2] * factors[0, 0]
        need1 = 4 * cast("FloatArray", costs.tiles.output1)[0] * self.hardware.cols / columns
        need2 = cast("FloatArray", costs.tiles.weight2 + costs.tiles.input2)[0]
        fits = (need1 <= self.hardware.usable_l1_bytes) & (need2 <= self.hardware.usable_l2_bytes)
        for dims, there in self.axes:
            fits &= factors[0, dims].prod(axis=0) <= there
        return np.where(fits, price.min(axis=0), np.inf), order


def _ranks(order: str) -> list[int]:
    return [order.index(dim) for dim in DIMS]
