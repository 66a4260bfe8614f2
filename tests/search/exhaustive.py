"""Every mapping of a tiny layer, and every schedule of a tiny network: what the search is measured against."""

from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from fadiff.cost.arrays import LayerArrays, MappingArrays, Placement, pack_hardware, pack_layers, pack_schedule
from fadiff.cost.capacity import needs
from fadiff.cost.model import layer_costs
from fadiff.search.climb import ORDER1, ORDER2, ORDERS3
from fadiff.search.groups import divisors
from fadiff.workload import DIMS
from search.networks import scheduled, shared_trips

SEARCHED_ORDERS = tuple((ORDER1, ORDER2, order3) for order3 in ORDERS3)


class Space(NamedTuple):
    """Mappings that fit, one entry each."""

    energy_pj: np.ndarray
    cycles: np.ndarray
    kept: np.ndarray
    passing: np.ndarray
    l1_bytes: np.ndarray

    def best(self, weights):
        return float((weights[0] * self.energy_pj + weights[1] * self.cycles).min(initial=np.inf))


def every_slot(dim, hardware):
    """Slots that the model allows for a dim."""
    unrolls = (0,) if dim in hardware.spatial_rows + hardware.spatial_cols else ()
    return (*unrolls, *((1,) if dim in "NPQ" else ()), 2, 3, 4)


def factorizations(size, slots):
    """``[ways, 5]`` every way to write a size as a product over slots."""
    found = [ways for ways in product(divisors(size), repeat=len(slots)) if prod(ways) == size]
    table = np.ones((len(found), 5))
    table[:, list(slots)] = found
    return table


def every_mapping(workload, hardware, groups, name, slots, orders=SEARCHED_ORDERS) -> Space:
    """Every mapping of a layer in its group that fits on its own and completes its sums where it must.

    `slots` gives the slots of a dim, `orders` the loop orders (L1, L2, L3) that are tried.
    """
    layer = workload[name]
    i = workload.layers.index(layer)
    one = next(g for g in groups if name in g.layers)
    shared = shared_trips(one, name)
    private = [size // shared.get(dim, 1) for dim, size in zip(DIMS, layer.dims, strict=True)]
    tables = [factorizations(size, slots(dim, hardware)) for dim, size in zip(DIMS, private, strict=True)]
    picks = np.indices([len(table) for table in tables]).reshape(8, -1)
    factors = np.stack([table[pick].T for table, pick in zip(tables, picks, strict=True)], axis=1)
    factors[4] *= np.array([shared.get(dim, 1) for dim in DIMS])[:, None]
    for dims, there in ((hardware.spatial_rows, hardware.rows), (hardware.spatial_cols, hardware.cols)):
        factors = factors[:, :, factors[0, [DIMS.index(d) for d in dims]].prod(axis=0) <= there]
    ranks = np.array([[[order.index(dim) for dim in DIMS] for order in levels] for levels in orders])

    ones = {n: np.ones((5, 8)) for n in (layer.name for layer in workload.layers if layer.is_mac)}
    fusion = pack_schedule(scheduled(workload, hardware, groups, ones, 0)).fusion
    fusion = type(fusion)(*(np.asarray(part)[..., None, None, [i]] for part in fusion))
    layers = LayerArrays(*(np.asarray(part)[..., None, None, [i]] for part in pack_layers(workload)))
    mapping = MappingArrays(
        spatial=factors[0][:, None, :, None],
        temporal=factors[1:][:, :, None, :, None],
        rank=ranks.transpose(1, 2, 0)[:, :, :, None, None],
    )
    arrays = pack_hardware(hardware)
    costs = layer_costs(layers, mapping, fusion, arrays)
    zero = np.zeros((1, 1, 1))
    nowhere = Placement(zero, zero, zero, np.zeros((2, 1, 1, 1)), zero - 1)
    need = needs(layers, mapping, fusion, costs.tiles, nowhere, arrays)
    parts = (costs.energy.total, costs.cycles.total, need.kept, need.passing, need.l1_bytes, costs.tiles.spills)
    energy, cycles, kept, passing, l1_bytes, spills = np.broadcast_arrays(*parts)
    softmax = any("softmax" in workload[n].epilogue for n in one.layers)
    complete = bool(fusion.copied.item()) or (one.trips.X > 1 and one.layers[1] == name and softmax)
    fits = (kept + passing <= hardware.usable_l2_bytes) & (l1_bytes <= hardware.usable_l1_bytes)
    fits &= (spills == 0) | (not complete)
    return Space(*(values[fits] for values in (energy, cycles, kept, passing, l1_bytes)))
