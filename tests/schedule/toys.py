"""Small machines, layers and schedules to break rules on."""

from dataclasses import replace

from fadiff.hardware import Axis, Bits, Machine, Memory
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.workload import DIMS, Dims, Input, Layer, Workload


def memory(name, keeps, size_bytes=None, **settings):
    return Memory(name, keeps, bytes=size_bytes, **({"read_pj": 1.0, "write_pj": 1.0} | settings))


DRAM = memory("DRAM", "WIO", read_pj=100.0, write_pj=100.0, words_per_cycle=8)
GEMMINI = Machine(
    "toy-gemmini",
    (
        DRAM,
        memory("scratchpad", "WI", 4096, fuses=True),
        Axis("cols", 8, "KG"),
        memory("accumulator", "O", 512, word_bits=32),
        Axis("rows", 8, "C"),
        memory("registers", "W", 1),
    ),
    mac_pj=0.5,
    online_softmax=True,
)
"""Sums in the array's columns, one weight in each of its lanes."""
ROW_STATIONARY = Machine(
    "toy-rows",
    (
        DRAM,
        memory("glb", "IO", 8192, word_bits=16, fuses=True),
        Axis("rows", 4, "RCKN"),
        Axis("cols", 6, "PQKG"),
        memory("ispad", "I", 256),
        memory("wspad", "W", 256),
        memory("pspad", "O", 256),
    ),
    mac_pj=1.0,
    bits=Bits(16, 16, 16, 32, 32),
)
"""Weights pass by the buffer, which keeps finished outputs; three small memories in each lane."""
CORES = Machine(
    "toy-cores",
    (
        DRAM,
        memory("l2", "WIO", 8192, fuses=True),
        Axis("cores", 2, "KNPCG"),
        memory("l1", "WIO", 2048),
        Axis("cols", 4, "KN"),
        memory("acc", "O", 256, word_bits=32),
        Axis("lanes", 4, "CRS"),
        memory("reg", "W", 2),
    ),
    mac_pj=0.5,
    online_softmax=True,
)
"""Everything is kept twice outside the arrays, sums three times."""
PLAIN = Machine(
    "toy-plain", (DRAM, memory("sram", "WIO", 4096), Axis("lanes", 8, "KC"), memory("sums", "O", 256)), mac_pj=0.5
)
"""No memory that fuses."""
FUSING = (GEMMINI, ROW_STATIONARY, CORES)


def mac(name, source=None, weight=None, **settings):
    dims = Dims(**{d: settings.pop(d) for d in tuple(settings) if len(d) == 1})
    inputs = (Input(source), *([Input(weight, "weight")] if weight else []))
    return Layer(name, "mac", dims, inputs, **settings)


def conv(name, source=None, **settings):
    return mac(name, source, **({"K": 2, "C": 2, "P": 4, "Q": 4} | settings))


def add(name, *sources, **settings):
    dims = Dims(**{d: settings.pop(d) for d in tuple(settings) if len(d) == 1})
    return Layer(name, "add", dims, tuple(Input(source, "addend") for source in sources), **settings)


def sums(machine):
    """The innermost memory of sums, by name."""
    return machine.nodes[machine.structure.keepers("O")[-1]].name


def schedule(*layers, machine=GEMMINI, groups=None, loops="GNPQ", own=None, **trips):
    """Layers in one group that shares loops: shared trips at the first memory, all other loops where the sums are.

    `own` are a layer's own tiles of shared dims, where they are not ceil(size / trips).
    """
    count = Trips(**trips)
    mappings = {}
    for i, layer in enumerate(layers):
        if not layer.is_mac:
            continue
        tile = layer.dims._asdict()
        for loop in "GNPQX":
            dim = loop if loop != "X" else ("C" if i else "K")
            tile[dim] = (own or {}).get(layer.name, {}).get(dim, -(-tile[dim] // getattr(count, loop)))
        shared = {d: -(-size // tile[d]) for d, size in layer.dims._asdict().items()}
        mappings[layer.name] = Mapping.of(machine, {"DRAM": Dims(**shared), sums(machine): Dims(**tile)})
    names = tuple(layer.name for layer in layers)
    return Schedule(Workload("toy", layers), machine, groups or (Group(names, count, loops),), mappings)


def remapped(given, layer, orders=None, **nodes):
    """The schedule with some factors (by node) or orders (by memory) of one layer changed."""
    machine, old = given.machine, given.mappings[layer]
    factors = {node.name: f for node, f in zip(machine.nodes, old.factors, strict=True)}
    factors |= {node: factors[node]._replace(**changes) for node, changes in nodes.items()}
    kept = {memory.name: order for memory, order in zip(machine.memories, old.orders, strict=True)}
    changed = Mapping.of(machine, factors, kept | (orders or {}))
    return replace(given, mappings={**given.mappings, layer: changed})


def regrouped(given, loops=None, **trips):
    """The schedule with other shared loops in its only group."""
    (group,) = given.groups
    return replace(given, groups=(replace(group, trips=Trips(**trips), loops=loops or group.loops),))


def machine_with(machine, nodes=None, **settings):
    """The machine with some keys of nodes (by name) or of itself changed."""
    changed = tuple(replace(node, **(nodes or {}).get(node.name, {})) for node in machine.nodes)
    return replace(machine, nodes=changed, **settings)


def on(given, nodes=None, **settings):
    """The schedule on a changed machine."""
    return replace(given, machine=machine_with(given.machine, nodes, **settings))


def factor(given, layer, node, dim):
    return given.mappings[layer].factors[given.machine.number[node]][DIMS.index(dim)]
