"""What is in every memory while each layer runs, tensor by tensor: the parts of what the rule *fits* compares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fadiff.hardware import pack_machine
from fadiff.schedule.capacity import Needs, needs
from fadiff.schedule.rules import Examined

if TYPE_CHECKING:
    from fadiff.schedule import Group, Schedule

PartKind = Literal["kept", "tile", "buffer", "halo", "waiting"]


@dataclass(frozen=True)
class Part:
    """Bytes of one instance of a memory that one tensor takes while a layer runs."""

    kind: PartKind
    """kept: a tile that stays from one shared iteration to the next. tile: one of the running layer that does not.
    buffer: a fused tensor's tile. halo: rows and columns kept beside it. waiting: sums of a channel loop's consumer
    while its producer runs."""
    tensor: str
    """W, I or O."""
    layer: str
    """Whose weights, input or output it is."""
    bytes: float


def needed_bytes(schedule: Schedule) -> dict[str, np.ndarray]:
    """By memory below the first: bytes in one instance while each layer runs, ``[layers]``."""
    total = _needs(Examined(schedule)).total
    return {schedule.machine.nodes[memory].name: np.asarray(held) for memory, held in total.items()}


def occupancy(schedule: Schedule) -> dict[str, dict[str, tuple[Part, ...]]]:
    """By layer and memory below the first: the parts of what is there while the layer runs; none of them is empty."""
    examined = Examined(schedule)
    need = _needs(examined)
    tiles = {name: tile for group in schedule.groups for name, tile in _buffer_tiles(examined, group)}
    return {
        name: {
            schedule.machine.nodes[memory].name: tuple(
                part for part in _parts(examined, need, tiles, group, name, memory) if part.bytes
            )
            for memory in need.total
        }
        for group in schedule.groups
        for name in group.layers
    }


def _needs(examined: Examined) -> Needs:
    return needs(examined.nest, examined.placement, pack_machine(examined.machine))


def _buffer_tiles(examined: Examined, group: Group) -> Iterator[tuple[str, float]]:
    """Bytes that each fused producer leaves in its buffer in one shared iteration: all beyond them is halo."""
    for name, (rows, cols) in examined.tilings[group].stored_tile.items():
        channels = np.prod(examined.tile[:3, examined.number[name]])
        yield name, float(channels * rows[0] * cols[0] * examined.machine.bits.O / 8)


def _parts(
    examined: Examined, need: Needs, buffer_tiles: dict[str, float], group: Group, name: str, memory: int
) -> Iterator[Part]:
    own, place, number = need.tiles, examined.placement, examined.number

    def at(values: object, layer: str) -> float:
        return float(np.asarray(values)[number[layer]])

    for (where, tensor), kept in own.kept.items():
        for other in group.layers if where == memory else ():
            yield Part("kept", tensor, other, at(kept, other))
    for (where, tensor), running in own.running.items():
        if where == memory:
            stays = at(own.kept[where, tensor], name) if (where, tensor) in own.kept else 0.0
            yield Part("tile", tensor, name, at(running, name) - stays)
    for other in group.layers if memory == examined.machine.structure.fuses else ():
        in_use = at(place.position, other) <= at(place.position, name) <= at(place.last_use, other)
        held = at(need.buffer, other) if in_use or at(place.retained, other) else 0.0
        tile = min(held, buffer_tiles.get(other, 0.0))
        yield Part("buffer", "O", other, tile)
        yield Part("halo", "O", other, held - tile)
    for other in group.layers if memory in own.waiting else ():
        if at(place.x_consumer, name) == number[other]:
            yield Part("waiting", "O", other, at(own.waiting[memory], other))
