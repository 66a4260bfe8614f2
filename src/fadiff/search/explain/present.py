"""A finished schedule as rows of climbs: where each layer stands, how it is mapped, and what room it has."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from fadiff.schedule.capacity import needs
from fadiff.schedule.rules import Examined
from fadiff.search.exact.conditions import Task, room_left
from fadiff.search.exact.menus import Row, Start
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from fadiff.schedule import Mapping, Schedule


def present_rows(task: Task, schedule: Schedule) -> dict[str, Row]:
    """Every MAC layer of a schedule, in the room that the others leave it on the task's machine."""
    examined = Examined(schedule)
    need = needs(examined.nest, examined.placement, task.numbers)
    memories = task.machine.structure.memories[1:]
    held = np.zeros((3, len(memories), len(task.workload.layers)))
    for i, memory in enumerate(memories):
        held[0, i] = need.total[memory]
        for j, tiles in enumerate((need.tiles.running, need.tiles.kept), start=1):
            held[j, i] = sum(bytes_ for (where, _), bytes_ in tiles.items() if where == memory)
    rows: dict[str, Row] = {}
    for group in schedule.groups:
        tile = examined.tilings[group].tile
        shared = [{dim: int(size[0]) for dim, size in tile[name].items()} for name in group.layers]
        total, running, kept = held[:, :, [examined.number[name] for name in group.layers]]
        for i, (name, condition) in enumerate(zip(group.layers, task.conditions(group, shared), strict=True)):
            if task.workload[name].is_mac:
                room = room_left(task.all_room, total, running, kept, i)
                rows[name] = Row(condition, start_of(task, schedule.mappings[name]), room)
    return rows


def start_of(task: Task, mapping: Mapping) -> Start:
    """A mapping as a start, its loops in those of the space's orders that are nearest to its own."""
    factors = np.array(mapping.factors, dtype=np.float64)
    loops = zip(task.machine.structure.memories, mapping.orders, task.space.orders, strict=True)
    order = [_nearest(own, {d for d, f in zip(DIMS, factors[node], strict=True) if f > 1}, a) for node, own, a in loops]
    return Start(factors, np.array(order))


def _nearest(own: str, running: set[str], orders: tuple[str, ...]) -> int:
    """The order that turns around the fewest pairs of running loops."""
    pairs = list(combinations([dim for dim in own if dim in running], 2))
    turned = [sum(order.index(outer) > order.index(inner) for outer, inner in pairs) for order in orders]
    return int(np.argmin(turned))
