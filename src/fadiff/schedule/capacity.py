"""What a schedule holds in every memory while each of its layers runs: one formula, for rules and search alike.

In memory m while layer v runs are the tiles of v, the *kept* tiles of the other layers of its group (those that survive
a shared iteration in their home), buffers that wait for fused consumers, and sums that wait for the next iteration of
a channel loop. All sizes are bytes of one instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fadiff.schedule.nest import IMAGE_DIMS, SHARED, C, G, N, Nest, product
from fadiff.workload.layer import DIMS, RELEVANT

if TYPE_CHECKING:
    from jax import Array

    from fadiff.hardware import MachineArrays
    from fadiff.schedule.arrays import Placement

Part = tuple[int, str]
"""A memory (its node) and the tensor that it holds a tile of."""


class Tiles(NamedTuple):
    """Bytes that each layer's own tiles take, by memory and tensor, ``[..., layers]``."""

    running: dict[Part, Array]
    """While the layer runs."""
    kept: dict[Part, Array]
    """Of these, what stays in a tensor's home while other layers of the group run."""
    waiting: dict[int, Array]
    """Sums that a keeper of O holds from one iteration of the channel loop to the next."""


class Needs(NamedTuple):
    """Bytes in each memory while each layer runs."""

    tiles: Tiles
    buffer: Array
    """``[..., layers]`` the layer's output in the memory that fuses."""
    total: dict[int, Array]
    """By memory: everything that is there, ``[..., layers]``."""


def tile_values(nest: Nest, memory: int, tensor: str) -> Array:
    """Values of a tile in one instance of a memory: a product of extents; of I a box."""
    if tensor != "I":
        return product([nest.held(memory, DIMS.index(d)) for d in RELEVANT[tensor]])
    return product([*(nest.held(memory, d) for d in (G, N, C)), *nest.box(memory)])


def tiles(nest: Nest, machine: MachineArrays) -> Tiles:
    """The tiles of every MAC layer; add layers have none."""
    xp, structure, fusion, layers = nest.xp, nest.structure, nest.fusion, nest.layers
    fuses = structure.fuses
    # What comes from the first memory, of how much; multiplied before it is divided, whole bytes stay whole.
    unfused = {"W": 1 - fusion.fused_weight, "I": layers.input_channels - fusion.fused_channels}
    of_all = {"W": 1, "I": layers.input_channels}
    bits = {"W": machine.bits_w, "I": machine.bits_i}
    running: dict[Part, Array] = {}
    kept: dict[Part, Array] = {}
    waiting: dict[int, Array] = {}
    for tensor in "WI":
        for memory in structure.keepers(tensor)[1:]:
            held = tile_values(nest, memory, tensor) * (bits[tensor] / 8) * layers.is_mac
            fetched = held * unfused[tensor] / of_all[tensor]
            # What arrives over a fused edge waits in the buffer of the memory that fuses, and nowhere further out.
            running[memory, tensor] = fetched if fuses is not None and memory <= fuses else held
            if memory == structure.home(tensor):
                kept[memory, tensor] = xp.where(stays(nest, tensor, memory), fetched, 0)
    for memory in structure.keepers("O")[1:]:
        values = tile_values(nest, memory, "O") * layers.is_mac
        held = values * (machine.bits_sums / 8)
        if memory != structure.keepers("O")[-1]:
            finished = all_finished(nest, memory)
            held = xp.where(finished, values * layers.stored / layers.output * (machine.bits_o / 8), held)
        running[memory, "O"] = held * (1 - fusion.copied) if memory == fuses else held
        waiting[memory] = xp.where(_holds_sums(nest, memory), held, 0)
    return Tiles(running, kept, waiting)


def all_finished(nest: Nest, memory: int) -> Array:
    """Whether every sum that arrives at a keeper of O (not the innermost) is a finished output."""
    keepers = nest.structure.keepers("O")
    child = keepers[keepers.index(memory) + 1]
    above = nest.structure.axes_between(SHARED, memory)
    once = nest.past("O", child, above) < 1.5 * nest.layers.output
    return once & (nest.spread([DIMS.index(d) for d in "CRS"], above) == 1)


def stays(nest: Nest, tensor: str, home: int) -> Array:
    """Whether a tile of W or I in its home outlasts a shared iteration.

    It does where a shared loop with more than one trip turns inside the last relevant one, or where the window slides
    along a shared loop and neighbours overlap.
    """
    survives = nest.last(tensor, home) < nest.last_shared
    if tensor == "I":
        for loop in nest.loops_above(0):
            for image, (out, kernel) in enumerate(IMAGE_DIMS):
                if loop.dim == out:
                    reach = (nest.held(home, kernel) - 1) * nest.layers.dilation[image] + 1
                    overlaps = nest.layers.stride[image] < reach
                    survives = survives | (nest.slides(home, loop) & overlaps)
    return survives


def _holds_sums(nest: Nest, memory: int) -> Array:
    """Whether a keeper of O holds the sums of a channel loop's consumer over its iterations: X is not in up(O, m)."""
    shared, rank = nest.fusion.shared[C], nest.fusion.shared_rank[C]
    return (shared > 1) & (rank > nest.last("O", memory))


def needs(nest: Nest, placement: Placement, machine: MachineArrays) -> Needs:
    """Bytes in every memory while each layer runs."""
    xp, structure = nest.xp, nest.structure
    own = tiles(nest, machine)
    group, position = placement.group, placement.position
    # Rows: the layer v that runs; columns: the layer u that holds something then.
    same = group[..., :, None] == group[..., None, :]
    others = same & (position[..., :, None] != position[..., None, :])
    during = (position[..., None, :] <= position[..., :, None]) & (
        position[..., :, None] <= placement.last_use[..., None, :]
    )
    live = same & (during | (placement.retained[..., None, :] > 0))
    waits = placement.x_consumer[..., :, None] == xp.arange(group.shape[-1])
    buffer = placement.buffer * nest.fusion.copied * (machine.bits_o / 8)

    def of_others(mask: Array, held: Array) -> Array:
        return xp.sum(xp.where(mask, held[..., None, :], 0), axis=-1)

    total: dict[int, Array] = {}
    for memory in structure.memories[1:]:
        bytes_here = xp.zeros_like(buffer)
        for (where, _), held in own.running.items():
            bytes_here = bytes_here + held if where == memory else bytes_here
        for (where, _), held in own.kept.items():
            bytes_here = bytes_here + of_others(others, held) if where == memory else bytes_here
        if memory == structure.fuses:
            bytes_here = bytes_here + of_others(live, buffer)
        if memory in own.waiting:
            bytes_here = bytes_here + of_others(waits, own.waiting[memory])
        total[memory] = bytes_here
    return Needs(own, buffer, total)
