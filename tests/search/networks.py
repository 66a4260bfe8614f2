"""Small networks and machines of several kinds, written as text, and mappings drawn at random."""

from dataclasses import replace
from random import Random

import numpy as np

from fadiff.hardware import Axis, Bits, Machine, Memory
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.schedule.arrays import pack_schedule
from fadiff.workload import DIMS, Dims, Input, Layer, Workload


def dims(text: str) -> Dims:
    """``"N8 K4"`` as dims."""
    return Dims(**{part[0]: int(part[1:]) for part in text.split()})


def mac(name, sizes, *sources, **rest) -> Layer:
    """A MAC layer; sources are names (None: a network input), or (name, port)."""
    inputs = tuple(Input(*source) if isinstance(source, tuple) else Input(source) for source in sources or (None,))
    return Layer(name, "mac", dims(sizes), inputs, **rest)


def add(name, sizes, *sources, **rest) -> Layer:
    return Layer(name, "add", dims(sizes), tuple(Input(source, "addend") for source in sources), **rest)


def network(*layers: Layer) -> Workload:
    return Workload("small", layers)


def group(names: str, trips="", loops="GNPQ") -> Group:
    return Group(tuple(names.split()), Trips(**{part[0]: int(part[1:]) for part in trips.split()}), loops)


def cut_with(workload: Workload, one: Group) -> tuple[Group, ...]:
    """One group, and every other layer on its own: after the group those that follow from it, the others before."""
    following = set(one.layers)
    for name in workload.topological:
        if any(edge.source in following for edge in workload.producers[name]):
            following.add(name)
    others = [Group((name,)) for name in workload.topological if name not in one.layers]
    before = [group for group in others if group.layers[0] not in following]
    return (*before, one, *(group for group in others if group not in before))


def at_dram(workload: Workload, machine: Machine, one: Group | None = None) -> Schedule:
    """Every loop of every layer at the first memory, sums innermost; perhaps one group, other layers on their own."""
    groups = cut_with(workload, one or Group(workload.topological[:1]))
    macs = {layer.name: i for i, layer in enumerate(workload.layers) if layer.is_mac}
    inner, orders = (Dims(),) * (len(machine.nodes) - 1), ("GKNPQCRS",) * len(machine.memories)
    tiles_asked = Schedule(workload, machine, groups, dict.fromkeys(macs, Mapping((Dims(), *inner), orders)))
    fusion = pack_schedule(tiles_asked).fusion
    trips = (np.asarray(fusion.shared) * np.asarray(fusion.tile)).astype(int)
    mappings = {name: Mapping((Dims(*trips[:, i].tolist()), *inner), orders) for name, i in macs.items()}
    return replace(tiles_asked, mappings=mappings)


def memory(name, keeps, size=None, pj=1.0, **settings) -> Memory:
    return Memory(name, keeps, read_pj=pj, write_pj=pj, bytes=size, **settings)


DRAM = memory("DRAM", "WIO", pj=100.0, words_per_cycle=2)
GEMMINI = Machine(
    "toy",
    (
        DRAM,
        memory("scratchpad", "WI", 1024, pj=0.9, words_per_cycle=8, fuses=True),
        Axis("cols", 4, "KG"),
        memory("accumulator", "O", 64, pj=1.2, words_per_cycle=2, word_bits=32),
        Axis("rows", 4, "C"),
        memory("registers", "W", 1, pj=0.48746),
    ),
    mac_pj=0.5608,
    online_softmax=True,
)
"""Sums in the array's columns, one weight in each of its lanes."""
FLAT = Machine(
    "flat",
    (
        DRAM,
        memory("buffer", "WIO", 512, pj=1.0, words_per_cycle=8, fuses=True),
        Axis("lanes", 4, "KC"),
        memory("spad", "WO", 32, pj=0.3, words_per_cycle=4),
    ),
    mac_pj=0.5,
    online_softmax=True,
)
"""One buffer for everything, and weights and sums in every lane."""
EYERISS = Machine(
    "rows",
    (
        DRAM,
        memory("glb", "IO", 512, pj=2.0, words_per_cycle=4, fuses=True),
        Axis("cols", 4, "QK"),
        Axis("rows", 3, "SCK"),
        memory("ispad", "I", 8, pj=0.1),
        memory("wspad", "W", 16, pj=0.9),
        memory("pspad", "O", 16, pj=0.25, word_bits=16),
    ),
    mac_pj=0.2,
    bits=Bits(8, 8, 8, 16, 16),
)
"""Weights pass by the buffer; three small memories in each lane."""
SIMBA = Machine(
    "pes",
    (
        DRAM,
        memory("glb", "IO", 512, pj=1.3, words_per_cycle=8, fuses=True),
        Axis("pes", 2, "KCPQG"),
        memory("ibuf", "I", 32, pj=0.4),
        memory("wbuf", "W", 64, pj=0.6),
        memory("abuf", "O", 24, pj=0.5, word_bits=24),
        Axis("lanes", 2, "KG"),
        Axis("vector", 2, "C"),
        memory("wreg", "W", 1, pj=0.1),
    ),
    mac_pj=0.5,
    bits=Bits(8, 8, 8, 24, 24),
)
"""Processing elements with a buffer for each tensor, and a weight in every multiplier."""
TPU = Machine(
    "tpu",
    (
        DRAM,
        memory("glb", "IO", 512, pj=1.6, words_per_cycle=16, fuses=True),
        Axis("k", 4, "KG"),
        memory("oreg", "O", 2, pj=0.5, word_bits=16),
        Axis("c", 4, "C"),
        memory("wreg", "W", 8, pj=0.1),
    ),
    mac_pj=0.04,
    bits=Bits(8, 8, 8, 16, 16),
)
"""No weight memory but registers, and one sum in each column."""
OUTPUT_STATIONARY = Machine(
    "os",
    (
        DRAM,
        memory("glb", "WIO", 512, pj=4.0, words_per_cycle=8, fuses=True),
        Axis("x", 2, "C"),
        Axis("y", 2, "KG"),
        memory("ospad", "O", 16, pj=0.7),
        memory("wreg", "W", 1, pj=0.14),
        memory("ireg", "I", 1, pj=0.14),
        memory("oreg", "O", 2, pj=0.14),
    ),
    mac_pj=0.3,
    bits=Bits(8, 8, 8, 16, 16),
)
"""A register for each tensor, and sums in a scratchpad of every lane."""
PLAIN = Machine("plain", (DRAM, memory("sram", "WIO", 512), Axis("lanes", 4, "KC"), memory("sums", "O", 32)), 0.5)
"""No memory that fuses."""
MACHINES = {m.name: m for m in (GEMMINI, FLAT, EYERISS, SIMBA, TPU, OUTPUT_STATIONARY, PLAIN)}


def machine_with(machine: Machine, nodes=None, **settings) -> Machine:
    """The machine with some keys of nodes (by name) or of itself changed."""
    changed = tuple(replace(node, **(nodes or {}).get(node.name, {})) for node in machine.nodes)
    return replace(machine, nodes=changed, **settings)


def sized(machine: Machine, **sizes: int) -> Machine:
    """The machine with other bytes of memories, or lanes of axes, by name."""
    keys = {node.name: "bytes" if isinstance(node, Memory) else "size" for node in machine.nodes}
    return machine_with(machine, {name: {keys[name]: size} for name, size in sizes.items()})


def conv_chain() -> Workload:
    """A convolution with pooling, one with a stride, and a 1x1."""
    return network(
        mac("a", "K4 C2 P8 Q4 R3 S3", epilogue=("relu", "max_pool"), out=(4, 4)),
        mac("b", "K4 C4 P2 Q2 R3 S3", "a", stride=(2, 2)),
        mac("c", "K6 C4 P2 Q2", "b"),
    )


def residual() -> Workload:
    """A block with a shortcut, and a 1x1 after it."""
    return network(
        mac("a", "K4 C2 P4 Q4"),
        mac("b", "K4 C4 P4 Q4 R3 S3", "a"),
        add("s", "K4 P4 Q4", "b", "a"),
        mac("c", "K2 C4 P4 Q4", "s"),
    )


def separable() -> Workload:
    """Depthwise, then pointwise, on seven rows."""
    return network(mac("dw", "G8 P7 Q4 R3 S3"), mac("pw", "K6 C8 P7 Q4", "dw"))


def attention() -> Workload:
    """Keys over the weight port of the scores, scores times values; two heads, three times."""
    return network(
        mac("k", "G2 N4 K4 C3", epilogue=("transpose",), repeat=3),
        mac("qk", "G2 N6 K4 C4", None, ("k", "weight"), epilogue=("softmax",), repeat=3),
        mac("av", "G2 N6 K4 C4", "qk", repeat=3),
    )


def feed_forward() -> Workload:
    """A wide layer between two narrow ones, which may share a channel loop; seven tokens."""
    return network(mac("up", "N7 K8 C4", epilogue=("gelu",)), mac("down", "N7 K4 C8", "up"))


def concatenation() -> Workload:
    """Two branches side by side in the channels of a third layer."""
    return network(
        mac("a", "K2 C2 P4 Q4"),
        mac("b", "K4 C2 P4 Q4 R3 S3"),
        mac("c", "K4 C6 P4 Q4", "a", "b"),
    )


NETWORKS = {
    build.__name__: build() for build in (conv_chain, residual, separable, attention, feed_forward, concatenation)
}


def draw_mapping(random: Random, machine: Machine, tile, shared=(1,) * 8) -> Mapping:
    """Any whole factors at any nodes, within the lanes there are, that cover a layer's tile; in any orders."""
    left = list(tile)
    factors = []
    for node in reversed(machine.nodes[1:]):
        row, lanes = [1] * 8, node.size if isinstance(node, Axis) else 10**9
        for d in random.sample(range(8), 8):
            if isinstance(node, Memory) or DIMS[d] in node.dims:
                row[d] = random.choice([1, 1, random.randint(1, min(left[d], lanes))])
                left[d], lanes = -(-left[d] // row[d]), lanes // row[d]
        factors.append(Dims(*row))
    first = Dims(*(rest * trips for rest, trips in zip(left, shared, strict=True)))
    orders = tuple("".join(random.sample(DIMS, 8)) for _ in machine.memories)
    return Mapping((first, *reversed(factors)), orders)
