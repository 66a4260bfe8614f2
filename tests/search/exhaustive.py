"""Every mapping of a tiny layer, and every schedule of a tiny network: what the search is measured against."""

from functools import cache, lru_cache
from itertools import combinations, permutations, product
from typing import NamedTuple

import numpy as np

from fadiff.cost import evaluate
from fadiff.cost.model import layer_costs
from fadiff.hardware import pack_machine
from fadiff.schedule import Group, Trips, rules
from fadiff.schedule.arrays import LayerArrays, MappingArrays, pack_layers, pack_schedule
from fadiff.schedule.barriers import barriers
from fadiff.schedule.capacity import tiles
from fadiff.schedule.nest import Nest
from fadiff.schedule.tiling import inner_edges
from fadiff.search.space import map_space, trip_counts
from fadiff.workload import DIMS
from search.asked import keeps_group, mask
from search.networks import at_dram

AT_ONCE = 100_000


class Every(NamedTuple):
    """Mappings that fit, on the last axis; memories are those below the first."""

    energy_pj: np.ndarray
    cycles: np.ndarray
    running: np.ndarray
    kept: np.ndarray
    waiting: np.ndarray
    factors: np.ndarray
    """``[nodes, 8, ways]``, the first memory's private."""
    rank: np.ndarray
    """``[memories, 8, ways]``"""

    def best(self, weights):
        return float((weights[0] * self.energy_pj + weights[1] * self.cycles).min(initial=np.inf))


def all_nodes(machine) -> dict[str, tuple[int, ...]]:
    """Every node at which a dim may have a factor."""
    dims = machine.structure.dims
    return {dim: tuple(i for i, taken in enumerate(dims) if dim in taken) for dim in DIMS}


@cache
def coverings(size: int, count: int) -> tuple[tuple[int, ...], ...]:
    """Every way to cover a size with whole factors at so many nodes, outermost first, none of them idle."""
    if count == 1:
        return ((size,),)
    found = []
    for inner in range(1, size + 1):
        found += [(*outer, inner) for outer in coverings(-(-size // inner), count - 1)]
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=64)
def every_choice(machine, tile, nodes, orders, exact=False) -> tuple[np.ndarray, np.ndarray]:
    """``[nodes, 8, ways]`` factors and ``[memories, 8, ways]`` ranks; `nodes` by dim, `orders` by memory (None: all).

    With `exact` only factors that multiply to the tile.

    Loops of one trip have no place in an order: orders that differ in nothing else are tried once.
    """
    count, memories = len(machine.nodes), machine.structure.memories
    tables = []
    for size, mine in zip(tile, nodes, strict=True):
        table = np.ones((len(coverings(size, len(mine))), count))
        table[:, list(mine)] = coverings(size, len(mine))
        tables.append(table[table.prod(axis=1) == size] if exact else table)
    picks = np.indices([len(table) for table in tables]).reshape(8, -1)
    factors = np.stack([table[pick].T for table, pick in zip(tables, picks, strict=True)], axis=1)
    for i, axis in zip(machine.structure.axes, machine.axes, strict=True):
        factors = factors[:, :, factors[i].prod(axis=0) <= axis.size]
    # Which loops run, a bit for each memory and dim: mappings that run the same ones have the same orders.
    bits = (1 << np.arange(8 * len(memories))).reshape(-1, 8, 1)
    running = np.where(factors[list(memories)] > 1, bits, 0).sum(axis=(0, 1))
    sorting = np.argsort(running, kind="stable")
    starts = np.flatnonzero(np.diff(running[sorting], prepend=-1))
    parts = []
    for mine in np.split(sorting, starts[1:]):
        masks = [int(running[mine[0]]) >> (8 * m) & 255 for m in range(len(memories))]
        choices = [_ranks(mask, None if orders is None else orders[m]) for m, mask in enumerate(masks[:-1])]
        choices.append(_ranks(masks[-1], ("".join(DIMS),)))
        chosen = np.indices([len(table) for table in choices]).reshape(len(memories), -1)
        ranks = np.stack([table[pick].T for table, pick in zip(choices, chosen, strict=True)])
        parts.append((np.repeat(factors[:, :, mine], ranks.shape[-1], axis=-1), np.tile(ranks, mine.size)))
    return np.concatenate([f for f, _ in parts], axis=-1), np.concatenate([r for _, r in parts], axis=-1)


@cache
def _ranks(running: int, allowed: tuple[str, ...] | None) -> np.ndarray:
    """``[orders, 8]`` orders of some loops (the bits of a number); of the allowed ones those that differ for them."""
    loops = [dim for d, dim in enumerate(DIMS) if running >> d & 1]
    idle = "".join(dim for dim in DIMS if dim not in loops)
    every = permutations(loops) if allowed is None else ([d for d in order if d in loops] for order in allowed)
    orders = dict.fromkeys(idle + "".join(order) for order in every)
    return np.array([[order.index(dim) for dim in DIMS] for order in orders])


def every_mapping(workload, machine, one, name, nodes, orders=None, exact=False, asked=None) -> Every:
    """Every mapping of a layer in its group that fits on its own and completes its sums where it must, and is as asked
    (:mod:`search.asked`)."""
    i = next(i for i, layer in enumerate(workload.layers) if layer.name == name)
    fusion = pack_schedule(at_dram(workload, machine, one)).fusion
    fusion = type(fusion)(*(np.asarray(part)[..., [i]] for part in fusion))
    layers = LayerArrays(*(np.asarray(part)[..., [i]] for part in pack_layers(workload)))
    tile = tuple(np.asarray(fusion.tile)[:, 0].astype(int).tolist())
    factors, rank = every_choice(machine, tile, tuple(nodes[dim] for dim in DIMS), orders, exact)
    if asked is not None:
        shared = np.asarray(fusion.shared)[:, 0].astype(int).tolist()
        dims = {loop: loop if loop != "X" else "K" if name == one.layers[0] else "C" for loop in one.nesting}
        loops = [(dims[loop], trips) for loop in one.nesting if (trips := one.trips._asdict()[loop]) > 1]
        kept = mask(asked, machine, name, factors, rank, shared, tile, loops)
        factors, rank = factors[..., kept], rank[..., kept]
    softmax = any("softmax" in workload[n].epilogue for n in one.layers)
    must_hold = one.trips.X > 1 and softmax and name == one.layers[-1]
    spans = [slice(at, at + AT_ONCE) for at in range(0, max(1, factors.shape[-1]), AT_ONCE)]
    parts = [_priced(machine, layers, fusion, factors[..., s], rank[..., s], must_hold) for s in spans]
    return Every(*(np.concatenate(values, axis=-1) for values in zip(*parts, strict=True)))


def _priced(machine, layers, fusion, factors, rank, must_hold) -> Every:
    structure, numbers = machine.structure, pack_machine(machine)
    nest = Nest(structure, layers, MappingArrays(factors, rank), fusion)
    costs, held = layer_costs(nest, numbers), tiles(nest, numbers)
    count, memories = factors.shape[-1], structure.memories[1:]
    running, kept, waiting = (np.zeros((len(memories), count)) for _ in range(3))
    for i, memory in enumerate(memories):
        running[i] = sum(size for (m, _), size in held.running.items() if m == memory)
        kept[i] = sum(size for (m, _), size in held.kept.items() if m == memory)
        waiting[i] = held.waiting.get(memory, 0)
    usable = np.array([memory.usable_bytes for memory in machine.memories[1:]])
    fits = (running <= usable[:, None]).all(axis=0)
    keepers, fuses = structure.keepers("O"), structure.fuses
    source = next((m for m in keepers if fuses is not None and m > fuses), None)
    for keeper, must in ((source, fusion.copied.item() > 0), (keepers[1], must_hold)):
        if must:
            fits &= nest.past("O", keeper, ()) == layers.output
    energy, cycles = np.broadcast_to(costs.energy_pj, count), np.broadcast_to(costs.cycles, count)
    return Every(*(part[..., fits] for part in (energy, cycles, running, kept, waiting, factors, rank)))


# Groups.


def trip_counts_allowed(workload, machine, names) -> list[Trips]:
    """Shared trip counts of a run of layers that break no rule, X included; of G all or nothing."""
    sink = workload[names[-1]].dims
    ranges = [sorted({1, sink.G}), *(trip_counts(size) for size in (sink.N, sink.P, sink.Q, sink.C))]
    return [trips for trips in map(Trips._make, product(*ranges)) if may_share(workload, machine, names, trips)]


def may_share(workload, machine, names, trips) -> bool:
    """Whether the rules *aligned* and *whole* let layers share loops."""
    schedule = at_dram(workload, machine, Group(names, trips, "GNPQX"))
    barred = barriers(workload, names, inner_edges(workload, names), online_softmax=machine.online_softmax)
    if any(trips._asdict()[loop] > 1 for barrier in barred for loop in barrier.loops):
        return False
    return not any(violation.layers == names for violation in rules.aligned(rules.Examined(schedule)))


def may_be_group(workload, machine, names) -> bool:
    """Whether the rules about graphs and machines allow layers to be a group."""
    examined = rules.Examined(at_dram(workload, machine, Group(names)))
    return not any(True for rule in GRAPH_RULES for _ in rule(examined))


GRAPH_RULES = (rules.fusible, rules.fuses, rules.one_sink, rules.repeat, rules.ordered)


def buffer_bytes(workload, machine, one) -> list[float]:
    """Bytes of live buffers while each layer of a group runs, by the rule *fits*."""
    examined, fuses = rules.Examined(at_dram(workload, machine, one)), machine.structure.fuses
    steps = [rules.held_parts(examined, name, fuses) for name in one.layers]
    return [sum(size for what, size in step.items() if what.startswith("buffer")) for step in steps]


def undominated(points: np.ndarray) -> np.ndarray:
    """Rows ``[points, measures]`` that no other row equals or undercuts in every measure."""
    left = np.unique(points, axis=0)
    kept = []
    while len(left):
        kept.append(left[0])
        left = left[(left < left[0]).any(axis=1)]
    return np.array(kept).reshape(-1, points.shape[1])


def every_group(workload, machine, one, exact=False, asked=None) -> np.ndarray:
    """``[ways, 2]`` energy and cycles of every undominated way to map the layers of a group that fits."""
    usable = np.array([memory.usable_bytes for memory in machine.memories[1:]])
    count, fuses = len(usable), [node == machine.structure.fuses for node in machine.structure.memories[1:]]
    nodes, orders, live = map_space(machine).nodes, map_space(machine).orders, buffer_bytes(workload, machine, one)
    if asked is not None:  # what pays without constraints may not do with them
        nodes, orders = all_nodes(machine), None
    # Energy and cycles; by memory: bytes kept, the most held besides, and what the sums of a channel loop add to that
    # while its first layer runs.
    ways = np.zeros((1, 2 + 3 * count))
    for i, (name, buffers) in enumerate(zip(one.layers, live, strict=True)):
        if workload[name].is_mac:
            every = every_mapping(workload, machine, one, name, nodes, orders, exact, asked)
        else:
            every = every_sum(workload, machine, one, name)
        besides = every.running - every.kept
        besides[fuses] += buffers
        waiting = every.waiting if i else besides
        mine = undominated(np.concatenate([[every.energy_pj, every.cycles], every.kept, besides, waiting]).T)
        a, b = ways[:, None], mine[None]
        joined = a + b
        joined[:, :, 2 + count : 2 + 2 * count] = np.maximum(*np.broadcast_arrays(a, b))[
            :, :, 2 + count : 2 + 2 * count
        ]
        joined = joined.reshape(-1, ways.shape[1])
        kept, besides, first = (joined[:, 2 + count * j : 2 + count * (j + 1)] for j in range(3))
        ways = undominated(joined[(kept + np.maximum(besides, first) <= usable + 1e-9).all(axis=1)])
    return undominated(ways[:, :2] * workload[one.layers[0]].repeat)


def every_sum(workload, machine, one, name) -> Every:
    """An add layer: there is nothing to choose."""
    evaluation = evaluate(at_dram(workload, machine, one))
    i = next(i for i, layer in enumerate(workload.layers) if layer.name == name)
    held = np.zeros((len(machine.memories) - 1, 1))
    energy, cycles = evaluation.layer_energy_pj[[i]], evaluation.layer_cycles[[i]]
    return Every(energy, cycles, held, held.copy(), held.copy(), np.ones((1, 8, 1)), np.ones((1, 8, 1)))


def may_be_groups(workload, machine) -> list[tuple[str, ...]]:
    """All sets of layers that may be groups, single ones too, in topological order."""
    names = workload.topological
    every = (some for count in range(1, len(names) + 1) for some in combinations(names, count))
    return [some for some in every if len(some) == 1 or may_be_group(workload, machine, some)]


def orders_of_groups(workload, members) -> list[tuple[frozenset[str], frozenset[str], tuple[str, ...]]]:
    """What may have run before and after each set of layers, in any order that runs."""
    sources = {name: {edge.source for edge in workload.producers[name]} for name in workload.topological}
    found, states = [], [frozenset[str]()]
    for before in states:
        for some in members:
            after = before.union(some)
            if not before.intersection(some) and all(sources[name] <= after for name in some):
                found.append((before, after, some))
                if after not in states:
                    states.append(after)
    return found


def least_edp(workload, machine, exact=False, asked=None) -> float:
    """The EDP of the best of all schedules; with `exact` of those whose factors divide, with `asked` of those that keep
    constraints."""
    return float((whole_front(workload, machine, exact, asked).prod(axis=1) * 1e-6).min())


def whole_front(workload, machine, exact=False, asked=None) -> np.ndarray:
    """``[points, 2]`` energies and cycles of all schedules that none undercuts in both.

    Of all cuts into groups, trip counts, nestings of X, and mappings; with `exact` of those whose factors divide, with
    `asked` of those that keep constraints.
    """
    ways: dict[tuple[str, ...], np.ndarray] = {}
    for members in may_be_groups(workload, machine):
        found = [np.zeros((0, 2))]
        for trips in trip_counts_allowed(workload, machine, members) if len(members) > 1 else [Trips()]:
            for loops in ("GNPQX", "GXNPQ") if trips.X > 1 else ("GNPQ",):
                one = Group(members, trips, loops)
                divides = not exact or at_dram(workload, machine, one).exact_factors
                if divides and (asked is None or keeps_group(asked, workload, members, trips)):
                    found.append(every_group(workload, machine, one, exact, asked))
        ways[members] = undominated(np.concatenate(found))
    steps = orders_of_groups(workload, ways)
    front = {frozenset[str](): np.zeros((1, 2))}
    for after in sorted({after for _, after, _ in steps}, key=len):
        ends = [(front[a][:, None] + ways[some][None]).reshape(-1, 2) for a, b, some in steps if b == after]
        front[after] = undominated(np.concatenate(ends))
    return front[frozenset(workload.topological)]
