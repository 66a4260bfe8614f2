"""Batches of schedules of one network, packed as the model's arrays, and a few words to handle them."""

from random import Random

import jax
import jax.numpy as jnp
import numpy as np

from fadiff.cost.model import layer_costs
from fadiff.hardware import Machine, pack_machine
from fadiff.schedule import Group, Schedule
from fadiff.schedule.arrays import fuse, pack_edges, pack_layers, pack_schedule
from fadiff.schedule.nest import Nest
from fadiff.workload import Dims, Input, Layer, Workload
from oracle import schedules
from oracle.machines import known_machines
from oracle.mappings import mapping

RESIDUAL = [
    Layer("a", "mac", Dims(K=4, C=3, P=9, Q=7, R=3, S=3), (Input(None),)),
    Layer("b", "mac", Dims(K=4, C=4, P=9, Q=7, R=3, S=3), (Input("a"),)),
    Layer("s", "add", Dims(K=4, P=9, Q=7), (Input("b", "addend"), Input("a", "addend"))),
    Layer("d", "mac", Dims(K=6, C=4, P=5, Q=4, R=3, S=3), (Input("s"),), stride=(2, 2)),
]
ATTENTION = [
    Layer("k", "mac", Dims(N=4, K=6, C=2), (Input(None),), repeat=3),
    Layer("qk", "mac", Dims(G=2, N=5, K=4, C=3), (Input(None), Input("k", "weight")), repeat=3),
    Layer("av", "mac", Dims(G=2, N=5, K=3, C=4), (Input("qk"),), repeat=3),
]
WORKLOAD = Workload("drawn", (*RESIDUAL, *ATTENTION))
"""A residual block, a strided convolution, and attention, three times, whose keys arrive over the weight port."""
LAYERS = pack_layers(WORKLOAD)
EDGES = len(WORKLOAD.edges)
BATCH = 4
"""Schedules in a batch: always as many, since every other number would be compiled again."""

MACHINES = {machine.name: machine for machine in known_machines()}
"""Roomy machines of seven kinds."""
GEMMINI, CORES = MACHINES["gemmini-db"], MACHINES["cores-reduce"]
ROW_STATIONARY, OUTPUT_STATIONARY = MACHINES["eyeriss-like"], MACHINES["shidiannao-like"]


def drawn(machine: Machine, seed: int) -> Schedule:
    """A legal schedule of the workload above, nearly always with cut ends; the groups are drawn too."""
    rng = Random(f"batch {machine.name} {seed}")
    cuts = [i for i in range(1, 4) if rng.random() < 0.3]
    names = [layer.name for layer in RESIDUAL]
    parts = [names[start:end] for start, end in zip([0, *cuts], [*cuts, 4], strict=True)]
    image = schedules.schedule(rng, machine, RESIDUAL, parts)
    parts, shares = rng.choice((([["k"], ["qk", "av"]], "GNX"), ([["k", "qk"], ["av"]], "G")))
    heads = schedules.schedule(rng, machine, ATTENTION, parts, shares)
    return Schedule(WORKLOAD, machine, image.groups + heads.groups, {**image.mappings, **heads.mappings})


def alone(machine: Machine, seed: int) -> Schedule:
    """A schedule that runs layer by layer and shares nothing."""
    rng = Random(f"alone {machine.name} {seed}")
    groups = tuple(Group((layer.name,)) for layer in WORKLOAD.layers)
    macs = [(group, layer) for group, layer in zip(groups, WORKLOAD.layers, strict=True) if layer.is_mac]
    mappings = {layer.name: mapping(rng, machine, WORKLOAD, group, layer) for group, layer in macs}
    return Schedule(WORKLOAD, machine, groups, mappings)


def stacked(batch):
    """Packed schedules as one, with a batch axis before the layers."""
    packed = [pack_schedule(schedule) for schedule in batch]

    def stack(*parts):
        if isinstance(parts[0], tuple):
            return type(parts[0])(*(stack(*inner) for inner in zip(*parts, strict=True)))
        return np.stack(parts, axis=-2)

    return stack(*packed)


def batch_of(machine, start=0, make=drawn):
    return [make(machine, seed) for seed in range(start, start + BATCH)]


def on_jax(values):
    return jax.tree.map(jnp.asarray, values)


def costs_of(structure, layers, mapping, fusion, numbers, **settings):
    return layer_costs(Nest(structure, layers, mapping, fusion, **settings), numbers)


def sigma_of(schedule):
    return np.array([float(schedule.is_fused(edge)) for edge in schedule.workload.edges])


def fused_by(packed, sigma):
    """The fusion of packed schedules with other degrees of fusing each edge."""
    fusion = packed.fusion
    return fuse(pack_edges(WORKLOAD), sigma, fusion.shared, fusion.shared_rank, fusion.tile)


def relaxed(machine, packed, sigma):
    """Costs of layers as a function of sigma."""
    return costs_of(machine.structure, LAYERS, packed.mapping, fused_by(packed, sigma), pack_machine(machine))
