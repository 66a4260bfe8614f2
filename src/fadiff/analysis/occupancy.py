"""What is in every memory while each layer runs, tensor by tensor: the parts of what the rule *fits* compares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fadiff.schedule.rules import Examined, Part

if TYPE_CHECKING:
    from fadiff.schedule import Group, Schedule


def needed_bytes(examined: Examined) -> dict[str, np.ndarray]:
    """By memory below the first: bytes in one instance while each layer runs, ``[layers]``."""
    nodes = examined.machine.nodes
    return {nodes[memory].name: np.asarray(held) for memory, held in examined.needs.total.items()}


def occupancy(schedule: Schedule) -> dict[str, dict[str, tuple[Part, ...]]]:
    """By layer and memory below the first: the parts of what is there while the layer runs; none of them is empty."""
    examined = Examined(schedule)
    tiles = {name: tile for group in schedule.groups for name, tile in _buffer_tiles(examined, group)}
    return {
        name: {
            schedule.machine.nodes[memory].name: tuple(
                part for part in _parts(examined, tiles, name, memory) if part.bytes
            )
            for memory in examined.needs.total
        }
        for group in schedule.groups
        for name in group.layers
    }


def _buffer_tiles(examined: Examined, group: Group) -> Iterator[tuple[str, float]]:
    """Bytes that each fused producer leaves in its buffer in one shared iteration: all beyond them is halo."""
    for name, (rows, cols) in examined.tilings[group].stored_tile.items():
        channels = np.prod(examined.tile[:3, examined.number[name]])
        yield name, float(channels * rows[0] * cols[0] * examined.machine.bits.O / 8)


def _parts(examined: Examined, buffer_tiles: dict[str, float], name: str, memory: int) -> Iterator[Part]:
    """The parts of a memory while a layer runs, those of a buffer told apart from its halo."""
    for part in examined.parts(name, memory):
        if part.kind == "buffer":
            tile = min(part.bytes, buffer_tiles.get(part.layer, 0.0))
            yield replace(part, bytes=tile)
            yield replace(part, kind="halo", bytes=part.bytes - tile)
        else:
            yield part
