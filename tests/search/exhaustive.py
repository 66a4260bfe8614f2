"""Every mapping of a tiny layer, and every schedule of a tiny network: what the search is measured against."""

from itertools import combinations, product
from math import prod
from typing import NamedTuple

import numpy as np

from fadiff.cost.arrays import LayerArrays, MappingArrays, Placement, pack_hardware, pack_layers, pack_schedule
from fadiff.cost.capacity import needs
from fadiff.cost.model import layer_costs
from fadiff.schedule import Group, Trips, legality
from fadiff.schedule.footprint import group_steps
from fadiff.search.space import ORDER1, ORDER2, SLIDING_ORDERS3, divisors
from fadiff.workload import DIMS
from search.networks import MACHINE, cut_with, scheduled, shared_trips

SEARCHED_ORDERS = tuple((ORDER1, ORDER2, order3) for order3 in SLIDING_ORDERS3)


class Space(NamedTuple):
    """Mappings that fit, one entry each."""

    energy_pj: np.ndarray
    cycles: np.ndarray
    kept: np.ndarray
    passing: np.ndarray
    l1_bytes: np.ndarray
    spills: np.ndarray

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
    return Space(*(values[fits] for values in (energy, cycles, kept, passing, l1_bytes, spills)))


def at_l3(workload, hardware, one):
    """A schedule with one group of several layers, every loop of every layer at L3, reductions innermost."""
    groups = cut_with(workload, one)
    factors = {}
    for g in groups:
        for name in g.layers:
            if workload[name].is_mac:
                shared = shared_trips(g, name)
                factors[name] = np.ones((5, 8))
                sizes = zip(DIMS, workload[name].dims, strict=True)
                factors[name][4] = [max(1, size // shared.get(dim, 1)) for dim, size in sizes]
    return scheduled(workload, hardware, groups, factors, 0)


def undominated(points: np.ndarray) -> np.ndarray:
    """Rows ``[points, measures]`` that no other row equals or undercuts in every measure."""
    left = np.unique(points, axis=0)
    kept = []
    while len(left):
        kept.append(left[0])
        left = left[(left < left[0]).any(axis=1)]
    return np.array(kept).reshape(-1, points.shape[1])


def trip_counts(workload, names) -> list[Trips]:
    """Shared trip counts of a run of layers that break no rule (G all or nothing); with X where it may be."""
    sizes = [workload[name].dims for name in names]
    ranges = [sorted({1, *(d.G for d in sizes)}), *(divisors(max(d[i] for d in sizes)) for i in (1, 4, 5))]
    parts = divisors(sizes[0].K) if len(names) == 2 else [1]
    every = [Trips(*counts) for counts in product(*ranges, parts)]
    return [trips for trips in every if _may_share(workload, names, trips)]


def _may_share(workload, names, trips) -> bool:
    schedule = at_l3(workload, MACHINE, Group(names, trips, "GNPQX"))
    rules = (legality.factors, legality.aligned, legality.whole)
    return not any(True for rule in rules for _ in rule(schedule))


def may_be_group(workload, names) -> bool:
    """Whether the rules about graphs allow layers to be a group."""
    schedule = at_l3(workload, MACHINE, Group(names))
    rules = (legality.fusible, legality.one_sink, legality.repeat, legality.ordered)
    return not any(True for rule in rules for _ in rule(schedule))


def buffer_bytes(workload, hardware, one) -> list[int]:
    """Bytes of live buffers while each layer of a group runs, by the integer rules."""
    steps = group_steps(at_l3(workload, hardware, one), one)
    return [sum(size for what, size in step.l2_parts.items() if what.startswith("buffer")) for step in steps]


def every_group(workload, hardware, one, slots) -> np.ndarray:
    """``[ways, 2]`` energy and cycles of every undominated way to map the layers of a group that fits."""
    groups = cut_with(workload, one)
    live = buffer_bytes(workload, hardware, one)
    ways = np.zeros((1, 6))  # energy, cycles, kept, highest passing + live, L1 of the producer, L1 that waits
    for i, (name, buffers) in enumerate(zip(one.layers, live, strict=True)):
        space = every_mapping(workload, hardware, groups, name, slots)
        sums = [space.l1_bytes * (one.trips.X > 1), np.zeros(space.kept.size)]
        if i == 1:
            sums = [np.zeros(space.kept.size), np.where(space.spills > 0, 0, space.l1_bytes) * (one.trips.X > 1)]
        mine = undominated(np.column_stack([space.energy_pj, space.cycles, space.kept, space.passing + buffers, *sums]))
        a, b = ways[:, None], mine[None]
        joined = a + b
        joined[:, :, 3] = np.maximum(a[:, :, 3], b[:, :, 3])
        joined = joined.reshape(-1, 6)
        fits = joined[:, 2] + joined[:, 3] <= hardware.usable_l2_bytes
        fits &= joined[:, 4] + joined[:, 5] <= hardware.usable_l1_bytes
        ways = undominated(joined[fits])
    repeat = workload[one.layers[0]].repeat
    return undominated(ways[:, :2] * repeat)


def least_edp(workload, hardware, slots) -> float:
    """The EDP of the best of all schedules: all cuts into groups, trip counts, nestings of X, and mappings."""
    names = workload.topological
    runs: dict[tuple[int, int], np.ndarray] = {}
    for start, stop in combinations(range(len(names) + 1), 2):
        members = names[start:stop]
        if not may_be_group(workload, members):
            continue
        found = [np.zeros((0, 2))]
        for trips in trip_counts(workload, members) if len(members) > 1 else [Trips()]:
            for loops in ("GNPQX", "GXNPQ") if trips.X > 1 else ("GNPQ",):
                found.append(every_group(workload, hardware, Group(members, trips, loops), slots))
        runs[start, stop] = undominated(np.concatenate(found))
    front = {0: np.zeros((1, 2))}
    for stop in range(1, len(names) + 1):
        ends = [(front[a][:, None] + ways[None]).reshape(-1, 2) for (a, b), ways in runs.items() if b == stop]
        front[stop] = undominated(np.concatenate(ends))
    return float((front[len(names)].prod(axis=1) * 1e-6).min())
