"""A finished schedule as rows of climbs: where each layer stands, how it is mapped, and what room it has."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from fadiff.schedule.capacity import Part, needs
from fadiff.schedule.rules import Examined
from fadiff.search.exact.conditions import Task, room_left
from fadiff.search.exact.menus import Row, Start
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float

    from fadiff.schedule import Mapping, Schedule


def present_rows(task: Task, schedule: Schedule) -> dict[str, Row]:
    """Every MAC layer of a schedule, in the room that the others leave it on the task's machine."""
    examined = Examined(schedule)
    need = needs(examined.nest, examined.placement, task.numbers)
    memories = task.machine.structure.memories[1:]
    total = np.stack([np.asarray(need.total[memory]) for memory in memories])
    tiles, kept = (_by_memory(memories, held, total) for held in (need.tiles.running, need.tiles.kept))
    rows: dict[str, Row] = {}
    for group in schedule.groups:
        tile = examined.tilings[group].tile
        shared = [{dim: int(size[0]) for dim, size in tile[name].items()} for name in group.layers]
        for name, condition in zip(group.layers, task.conditions(group, shared), strict=True):
            if not task.workload[name].is_mac:
                continue
            me = examined.number[name]
            others = [examined.number[other] for other in group.layers if other != name]
            room = room_left(task.all_room, total, tiles, kept, me, others)
            rows[name] = Row(condition, start_of(task, schedule.mappings[name]), room)
    return rows


def _by_memory(
    memories: tuple[int, ...], held: dict[Part, Array], like: Float[np.ndarray, "memories layers"]
) -> Float[np.ndarray, "memories layers"]:
    """Bytes of all tensors in each memory."""
    result = np.zeros_like(like)
    for (memory, _), size in held.items():
        result[memories.index(memory)] += np.asarray(size)
    return result


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
