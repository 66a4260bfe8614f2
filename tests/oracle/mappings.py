"""Random mappings whose factors are legal: nothing idle, lanes within their axes, cut ends where wanted."""

from math import prod
from random import Random

from fadiff.hardware import Axis, Machine
from fadiff.schedule import Group, Mapping
from fadiff.workload import DIMS, Dims, Layer, Workload
from oracle.tiles import fused_readers, tiles

REDUCED = "CRS"


def mapping(
    rng: Random, machine: Machine, workload: Workload, group: Group, layer: Layer, *, unrolls: bool = False
) -> Mapping:
    """A mapping of a layer in its group; one whose outputs are complete if the group fuses them.

    With `unrolls` lanes are rather used than left idle.
    """
    size, tile, shared = layer.dims._asdict(), layer.dims._asdict(), dict.fromkeys(DIMS, 1)
    for letter, found in tiles(workload, group)[layer.name].items():
        dim = group.x_dim(layer.name) if letter == "X" else letter
        tile[dim], shared[dim] = found.computed, -(-size[dim] // found.computed)
    fused = bool(fused_readers(workload, group, layer.name))
    for attempt in range(6):
        # The last attempt leaves no loop over a sum's terms outside the memory that must complete it.
        inside = _completes(machine) if fused and attempt == 5 else 0
        factors = _factors(rng, machine, tile, inside, unrolls)
        orders = tuple("".join(rng.sample(DIMS, len(DIMS))) for _ in machine.memories)
        if not fused or _complete(machine, factors, orders, shared):
            break
    else:
        raise AssertionError("no complete mapping found")
    factors[0] = {d: factors[0][d] * shared[d] for d in DIMS}
    return Mapping(tuple(Dims(**f) for f in factors), orders)


def _factors(rng: Random, machine: Machine, tile: dict[str, int], inside: int, unrolls: bool) -> list[dict[str, int]]:
    """Factors by node that multiply to the tile or, where ends are cut, a little more; those of a sum's terms from
    node `inside` inwards.
    """
    cut, stay = rng.random() < 0.5, rng.random()
    extent = dict.fromkeys(DIMS, 1)
    factors = []
    for number, node in reversed(list(enumerate(machine.nodes))):
        here = dict.fromkeys(DIMS, 1)
        for dim in rng.sample(DIMS, len(DIMS)):
            left = -(-tile[dim] // extent[dim])
            room = left
            if isinstance(node, Axis):
                room = node.size // prod(here.values()) if dim in node.dims else 1
            choices = [f for f in range(1, min(left, room) + 1) if cut or left % f == 0]
            must = number == 0 or (number == inside and dim in REDUCED)
            if unrolls and isinstance(node, Axis):
                here[dim] = rng.choice(choices[len(choices) // 2 :])
            else:
                here[dim] = left if must else 1 if rng.random() < stay * 0.7 else rng.choice(choices)
            extent[dim] = min(extent[dim] * here[dim], tile[dim])
        factors.insert(0, here)
    return factors


def _completes(machine: Machine) -> int:
    """The outermost keeper of O further in than the memory that fuses: only finished outputs may leave it."""
    return next(n for n in machine.structure.keepers("O") if n > machine.structure.fuses)


def _complete(machine: Machine, factors: list[dict[str, int]], orders: tuple[str, ...], shared: dict[str, int]) -> bool:
    """Whether every output leaves that keeper once: no loop over terms outside a loop over outputs."""
    running = [d for d in DIMS if shared[d] > 1]
    for memory, order in zip(machine.structure.memories, orders, strict=True):
        if memory < _completes(machine):
            running += [d for d in order if factors[memory][d] > 1]
    while running and running[-1] in REDUCED:
        running.pop()
    return not set(running) & set(REDUCED)
