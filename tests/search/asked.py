"""What constraints ask, told from the plain values of their file: brute force over loops, no code of the judge."""

from fnmatch import fnmatchcase
from itertools import product
from math import prod

import numpy as np

from fadiff.hardware import Axis
from fadiff.schedule import Group, Schedule, Trips
from fadiff.schedule.arrays import pack_schedule
from fadiff.schedule.rules import violations
from fadiff.workload import DIMS
from search.networks import at_dram, cut_with, draw_mapping

RELEVANT = {"W": "GKCRS", "O": "GNKPQ"}


def ends(told) -> tuple[float, float]:
    return (told, told) if isinstance(told, int) else (told.get("least", 1), told.get("most", float("inf")))


def rules_of(asked, name):
    """The rules about mappings that name a layer."""
    for rule in asked.get("mapping", ()):
        names = rule.get("layers", "*")
        if any(fnmatchcase(name, pattern) for pattern in ([names] if isinstance(names, str) else names)):
            yield rule


def ranks(order: str) -> dict[str, int]:
    """Where an order such as K*(CRS) puts each loop."""
    parts = _parts(order)
    star = parts.index("*") if "*" in parts else -1
    return {dim: next((n for n, part in enumerate(parts) if dim in part), star) for dim in DIMS}


def _parts(order: str) -> list[str]:
    parts = []
    while order:
        if order[0] == "(":
            inside, _, order = order[1:].partition(")")
            parts.append(inside)
        else:
            parts.append(order[0])
            order = order[1:]
    return parts


def keeps_mapping(asked, machine, name, private, shared, tile, order_of) -> bool:
    """Whether factors by node (the first memory's private) and loops in their order are as asked.

    `order_of` has the loops of each memory that run, outer to inner.
    """
    number = machine.number
    for rule in rules_of(asked, name):
        for node, dims in rule.get("factors", {}).items():
            for dim, told in dims.items():
                d = DIMS.index(dim)
                factor = private[number[node]][d] * (shared[d] if number[node] == 0 else 1)
                if not ends(told)[0] <= factor <= ends(told)[1]:
                    return False
        for node, dims in rule.get("extents", {}).items():
            for dim, told in dims.items():
                d = DIMS.index(dim)
                held = min(tile[d], prod(row[d] for row in private[number[node] :]))
                if not ends(told)[0] <= held <= ends(told)[1]:
                    return False
        for axis, dims in rule.get("unroll", {}).items():
            for d, dim in enumerate(DIMS):
                if dim not in dims and private[number[axis]][d] > 1:
                    return False
        for memory, order in rule.get("order", {}).items():
            places = [ranks(order)[dim] for dim in order_of[memory]]
            if places != sorted(places):
                return False
    return True


def keeps_group(asked, workload, layers, trips=None) -> bool:
    """Whether layers may be a group under some trips."""
    inside = set(layers)
    for edge in workload.edges:
        pair = [edge.source, edge.target]
        if pair in asked.get("fuse", ()) and len(inside & set(pair)) == 1:
            return False
        if pair in asked.get("split", ()) and inside >= set(pair):
            return False
    for group in asked.get("groups", ()):
        if inside & set(group["layers"]):
            given = group.get("trips")
            wanted = None if given is None else {loop: given.get(loop, 1) for loop in "GNPQX"}
            if inside != set(group["layers"]) or (trips is not None and wanted not in (None, trips._asdict())):
                return False
    return True


def kept(asked, schedule) -> bool:
    """Whether a schedule keeps what is asked: loops told one by one."""
    workload, machine = schedule.workload, schedule.machine
    if not all(keeps_group(asked, workload, group.layers, group.trips) for group in schedule.groups):
        return False
    for name, mapping in schedule.mappings.items():
        size, group = workload[name].dims, schedule.group_of[name]
        shared = [1] * 8
        loops = []
        for loop in group.nesting:
            dim = loop if loop != "X" else "K" if name == group.layers[0] else "C"
            if group.trips._asdict()[loop] > 1:
                shared[DIMS.index(dim)] = group.trips._asdict()[loop]
                loops.append((dim, group.trips._asdict()[loop]))
        first, *inner = mapping.factors
        private = [[factor // trips for factor, trips in zip(first, shared, strict=True)], *inner]
        tile = [-(-whole // trips) for whole, trips in zip(size, shared, strict=True)]
        nodes = machine.structure.memories
        order_of = {
            memory.name: [dim for dim in order if private[node][DIMS.index(dim)] > 1]
            for memory, node, order in zip(machine.memories, nodes, mapping.orders, strict=True)
        }
        # Loops that a layer shares with nobody are its own.
        alone = [dim for dim, _ in loops] if len(group.layers) == 1 else []
        nested = order_of | {machine.memories[0].name: [*alone, *order_of[machine.memories[0].name]]}
        if not keeps_mapping(asked, machine, name, private, shared, tile, nested):
            return False
        if not keeps_once(asked, machine, name, loops, private, order_of):
            return False
    return True


def keeps_once(asked, machine, name, shared, private, order_of) -> bool:
    """Whether tensors that are asked to come to their home once, under shared loops (dim, trips) and a layer's own."""
    number = machine.number
    for rule in rules_of(asked, name):
        for tensor in rule.get("once", ""):
            outer = [number[memory.name] for memory in machine.memories]
            outer = [node for node in outer if node < machine.structure.home(tensor)]
            own = [(node, dim) for node in outer for dim in order_of[machine.nodes[node].name]]
            above = [*shared, *((dim, private[node][DIMS.index(dim)]) for node, dim in own)]
            if not passes_once(above, RELEVANT[tensor]):
                return False
    return True


def passes_once(loops, relevant) -> bool:
    """Whether a tile comes, over all iterations of loops (dim and trips, outer to inner), and never comes back."""
    met, now = set(), None
    for at in product(*(range(trips) for _, trips in loops)):
        here = tuple((i, index) for i, (index, (dim, _)) in enumerate(zip(at, loops, strict=True)) if dim in relevant)
        if here != now and here in met:
            return False
        now = here
        met.add(here)
    return True


def mask(asked, machine, name, factors, rank, shared, tile, loops=()) -> np.ndarray:
    """Which of many mappings are as asked: factors ``[nodes, 8, ways]``, ranks ``[memories, 8, ways]``; `loops` are the
    shared ones, dim and trips."""
    nodes, found = machine.structure.memories, []
    for way in range(factors.shape[-1]):
        mine = factors[..., way].astype(int).tolist()
        order_of = {
            memory.name: [DIMS[d] for d in np.argsort(rank[i, :, way], kind="stable") if mine[node][d] > 1]
            for i, (memory, node) in enumerate(zip(machine.memories, nodes, strict=True))
        }
        keeps = keeps_mapping(asked, machine, name, mine, shared, tile, order_of)
        found.append(keeps and keeps_once(asked, machine, name, loops, mine, order_of))
    return np.array(found, dtype=bool)


def draw_schedule(random, workload, machine) -> Schedule:
    """Some legal schedule: perhaps one pair of layers fused, any mappings that fit."""
    pairs = [(edge.source, edge.target) for edge in workload.edges]
    trips = [Trips(), Trips(P=2), Trips(N=2)]
    groups = [Group(pair, count) for pair in pairs for count in trips]
    groups = [None, *(one for one in groups if not violations(at_dram(workload, machine, one)))]
    one = random.choice(groups)
    start = at_dram(workload, machine, one)
    fusion = pack_schedule(start).fusion
    mappings = dict(start.mappings)
    for i, layer in enumerate(workload.layers):
        for _ in range(8 if layer.is_mac else 0):
            tile, shared = (np.asarray(part)[:, i].astype(int).tolist() for part in (fusion.tile, fusion.shared))
            tried = mappings | {layer.name: draw_mapping(random, machine, tile, shared)}
            if not violations(Schedule(workload, machine, start.groups, tried)):
                mappings = tried
                break
    return Schedule(workload, machine, cut_with(workload, one) if one else start.groups, mappings)


def draw_asked(random, schedule) -> dict:
    """Some of what is so in a schedule, as constraints: so there is one that keeps them."""
    workload, machine = schedule.workload, schedule.machine
    fused = {(edge.source, edge.target): schedule.is_fused(edge) for edge in workload.edges}
    asked: dict = {"mapping": [], "fuse": [], "split": [], "groups": []}
    for pair, is_fused in fused.items():
        if random.random() < 0.3:
            asked["fuse" if is_fused else "split"].append(list(pair))
    for group in schedule.groups:
        if random.random() < 0.15:
            trips = {loop: count for loop, count in group.trips._asdict().items() if count > 1}
            told = {"trips": trips} if len(group.layers) > 1 and random.random() < 0.5 else {}
            asked["groups"].append({"layers": list(group.layers)} | told)
    for name, mapping in schedule.mappings.items():
        rule: dict = {"layers": name}
        d, node = random.randrange(8), random.randrange(len(machine.nodes))
        factor, dim = mapping.factors[node][d], DIMS[d]
        told = random.choice([factor, {"most": factor + 1}, {"least": max(1, factor - 1)}])
        takes = not isinstance(machine.nodes[node], Axis) or dim in machine.nodes[node].dims
        if random.random() < 0.5 and takes:
            rule["factors"] = {machine.nodes[node].name: {dim: told}}
        if random.random() < 0.3:
            memory = random.randrange(1, len(machine.memories))
            first = machine.structure.memories[memory]
            held = min(workload[name].dims[d], prod(row[d] for row in mapping.factors[first:]))
            rule["extents"] = {
                machine.memories[memory].name: {dim: random.choice([{"most": held}, {"least": max(1, held // 2)}])}
            }
        if random.random() < 0.3:
            memory = random.randrange(len(machine.memories))
            order = mapping.orders[memory]
            rule["order"] = {machine.memories[memory].name: random.choice([order, order[0] + "*", "*" + order[-1]])}
        if random.random() < 0.3 and machine.axes:
            axis = random.choice(machine.axes)
            used = mapping.factors[machine.number[axis.name]]
            rule["unroll"] = {axis.name: "".join(x for x, f in zip(DIMS, used, strict=True) if f > 1)}
        asked["mapping"] += [rule] if len(rule) > 1 else []
    return asked
