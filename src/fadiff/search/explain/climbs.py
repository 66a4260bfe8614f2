"""What becomes of a finished schedule: climbs from its own mappings, also on another machine.

Moves and prices are those of :mod:`fadiff.search.exact`, in 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fadiff.cost import Evaluation, evaluate
from fadiff.schedule.capacity import needs
from fadiff.schedule.rules import Examined, violations
from fadiff.search.exact.assemble import to_mapping
from fadiff.search.exact.climb import Moves, best_of, changed, price
from fadiff.search.exact.conditions import Task, room_left
from fadiff.search.exact.menus import Menu, Row, join, stacked, start_of, started, subset
from fadiff.search.freed_memory import keep_freed_memory
from fadiff.search.objective import EDP

if TYPE_CHECKING:
    from fadiff.hardware import Machine, MachineArrays
    from fadiff.schedule import Mapping, Schedule
    from fadiff.search.objective import Weights

CANDIDATES_PER_CALL = 2**14
"""Mappings priced at once: arrays that stay in the cache."""
MOST_MOVES = 2**18
"""Moves that all layers may have together, at every node, where a schedule is mapped anew: the others stay."""


def climbed(task: Task, rows: Sequence[Row], weights: Weights) -> Menu:
    """The mapping that the best single moves lead to from every row, of infinite price where nothing fits.

    The task is one of 64 bits.
    """
    keep_freed_memory()
    best = join([started(task, [rows[i] for i in part], weights) for part in chunks(task, range(len(rows)))])
    left = list(range(len(rows)))
    while left:
        moving: list[int] = []
        for part in chunks(task, left):
            taken = best_of(after_moves(task, [rows[i] for i in part], subset(best, part), weights))
            better = taken.price < best.price[part] * (1 - 1e-9)
            improved = np.array(part)[better]
            for old, new in zip(best, taken, strict=True):
                old[..., improved] = new[..., better]
            moving += improved.tolist()
        left = moving
    return best


def chunks(task: Task, numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Rows, by their numbers, in parts whose moves can be priced at once."""
    size = max(1, CANDIDATES_PER_CALL // task.widths[False])
    return (numbers[at : at + size] for at in range(0, len(numbers), size))


def after_moves(
    task: Task, rows: Sequence[Row], now: Menu, weights: Weights, numbers: MachineArrays | None = None
) -> Menu:
    """The mappings of `now`, one per row, after each single move that changes one: ``[..., moves, rows]``."""
    packed, conditions = stacked(task, rows, weights)[0], [row.condition for row in rows]
    most = 1 + max(len(task.steps[False][condition.layer]) for condition in conditions)
    moves = Moves(*(part[:most] for part in task.moves(conditions, pairs=False)))
    tried = changed(now.factors[:, :, None], now.order[:, None], moves, packed.fusion.tile[:, None])
    return price(
        task.looped_structure,
        task.space.orders,
        packed,
        *tried,
        numbers or task.numbers,
        alone=not any(condition.grouped for condition in conditions),
        charges=task.charges,
    )


def present_rows(task: Task, schedule: Schedule) -> dict[str, Row]:
    """Every MAC layer of a schedule, in the room that the others leave it on the task's machine."""
    examined = Examined(schedule)
    need = needs(examined.nest, examined.placement, task.numbers)
    memories = task.machine.structure.memories[1:]
    held = np.zeros((3, len(memories), len(schedule.layers)))
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


def affordable(task: Task, moves: int) -> int:
    """How many layers, or conditions, have so many moves together, counted at every node of the machine."""
    return max(1, moves // (task.widths[False] * len(task.machine.nodes)))


def costliest(evaluation: Evaluation, names: Iterable[str], most: int) -> list[str]:
    """At most so many layers, those that take most of energy and time; in the order given."""
    weights = EDP.weights(evaluation)
    spent = (evaluation.layer_energy_pj * weights[0] + evaluation.layer_cycles * weights[1]) * evaluation.repeat
    share = dict(zip((layer.name for layer in evaluation.schedule.layers), spent.tolist(), strict=True))
    given = list(names)
    taken = set(sorted(given, key=lambda name: -share[name])[:most])
    return [name for name in given if name in taken]


def remapped(evaluation: Evaluation, machine: Machine) -> Evaluation | None:
    """The schedule on another machine of the same nodes: the same groups, and the best mappings that a climb finds.

    Each layer climbs by exact single moves from its present mapping, in the room that the present mappings of the
    others leave on the new machine; what lowers EDP is taken, as long as it fits together. Of very many layers those
    that cost most climb. None where the schedule as it is is not legal on the new machine.
    """
    before = evaluate(replace(evaluation.schedule, machine=machine))
    if violations(before.schedule):
        return None
    task, weights = Task(before.schedule.workload, machine, dtype=np.float64), EDP.weights(before)
    rows = present_rows(task, before.schedule)
    rows = {name: rows[name] for name in costliest(before, rows, affordable(task, MOST_MOVES))}
    if not rows:
        return before
    found = climbed(task, list(rows.values()), weights)
    new = {name: to_mapping(task, row.condition, found, i) for i, (name, row) in enumerate(rows.items())}
    taken = {name: new[name] for name, price in zip(rows, found.price, strict=True) if np.isfinite(price)}
    # What each layer's new mapping saves of the network's EDP, linearized.
    after = evaluate(_with(before.schedule, taken))
    energy, cycles = before.layer_energy_pj - after.layer_energy_pj, before.layer_cycles - after.layer_cycles
    saved = (weights[0] * energy + weights[1] * cycles) * before.repeat
    gains = dict(zip((layer.name for layer in before.schedule.layers), saved.tolist(), strict=True))
    taken = {name: mapping for name, mapping in taken.items() if gains[name] > 0}
    while broken := violations(tried := _with(before.schedule, taken)):
        # Of a group that does not fit, the smallest gain is given up.
        inside = [name for name in broken[0].layers if name in taken]
        del taken[min(inside, key=lambda name: gains[name])]
    return evaluate(tried)


def _with(schedule: Schedule, mappings: dict[str, Mapping]) -> Schedule:
    return replace(schedule, mappings={**schedule.mappings, **mappings})
