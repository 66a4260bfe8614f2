"""A deterministic heuristic: each layer on its own, tiles grown by the best single step until none helps.

A mapping starts with every loop at the first memory, with the array as full as it gets or with an empty one, and in any
order of these loops. A step takes a factor of a dim from there to a node further in; of all steps that fit, the one of
the lowest energy x latency of the layer is taken. The best mapping of a layer then takes the moves of the exact search.
All steps of many layers are priced in one batched call.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from fadiff.errors import FadiffError
from fadiff.schedule import Group, Schedule
from fadiff.schedule.constraints import Constraints, ImpossibleError
from fadiff.schedule.constraints_written import all_asked
from fadiff.search import clock
from fadiff.search.exact.asked import in_order, joined_groups
from fadiff.search.exact.assemble import to_mapping
from fadiff.search.exact.climb import Moves, best_of, moved, price
from fadiff.search.exact.conditions import NO_MOVE, Condition, Task, as_moves
from fadiff.search.exact.menus import Menu, Row, join, some, stacked, start_from, subset
from fadiff.search.exact.starts import Start, full_array, outermost, smallest
from fadiff.search.freed_memory import keep_freed_memory
from fadiff.search.space import settle
from fadiff.search.trees import each
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jax import Array
    from jaxtyping import Float

    from fadiff.hardware import Machine
    from fadiff.schedule import Mapping
    from fadiff.search.driver import Weights
    from fadiff.workload import Workload

RATIOS = ((2, 8), (2, 3, 7))
"""Growth by the best of few ratios ends where others go on: each set is tried."""
LAYERS_AT_ONCE, COARSE_AT_ONCE = 48, 256
"""Different layers that are priced in one call: as many as fit in a processor's cache, with all their starts or one."""


def greedy(
    workload: Workload,
    machine: Machine,
    deadline: float = float("inf"),
    *,
    exact_factors: bool = False,
    constraints: Constraints = Constraints(),
) -> Schedule:
    """A legal schedule without fusion, but for what must be fused: a few milliseconds for each different layer.

    Layers that are not reached by the deadline, on the clock of `fadiff.search.clock`, keep their coarse tiles. With
    `exact_factors` all tiles divide their dims.
    """
    *_, last = growing(workload, machine, deadline, exact_factors=exact_factors, constraints=constraints)
    return last


def growing(
    workload: Workload,
    machine: Machine,
    deadline: float = float("inf"),
    *,
    exact_factors: bool = False,
    constraints: Constraints = Constraints(),
) -> Iterator[Schedule]:
    """A coarse schedule, from one start of each layer: a thousand different layers take less than a second. Then the
    greedy one, if it is another."""
    keep_freed_memory()
    # How often a layer runs does not matter to it: those that differ in nothing else are one layer here.
    once = replace(workload, layers=tuple(replace(layer, repeat=1) for layer in workload.layers))
    task = Task(once, machine, dtype=np.float64, exact_factors=exact_factors, constraints=constraints)
    # What must be fused does depend on it.
    joined: list[tuple[Group, dict[str, Mapping]]] = []
    if task.restrictions.required or task.restrictions.given:
        whole = Task(workload, machine, dtype=np.float64, exact_factors=exact_factors, constraints=constraints)
        joined = joined_groups(whole, grown)
    fused = {name: mapping for _, mappings in joined for name, mapping in mappings.items()}
    groups = in_order(workload, [group for group, _ in joined])
    alone = [workload[group.layers[0]] for group in groups if len(group.layers) == 1]
    conditions = {layer.name: task.alone(layer.name) for layer in alone if layer.is_mac}
    different = list(dict.fromkeys(conditions.values()))
    found: dict[Condition, Mapping] = {}

    asked = all_asked(constraints.given)

    def schedule() -> Schedule:
        mappings = fused | {name: found[condition] for name, condition in conditions.items()}
        return Schedule(workload, machine, groups, mappings, made_by={"method": "greedy"}, asked=asked)

    for at in range(0, len(different), COARSE_AT_ONCE):
        found |= _coarse(task, different[at : at + COARSE_AT_ONCE])
    coarse = dict(found)
    yield schedule()
    for at in range(0, len(different), LAYERS_AT_ONCE):
        if clock.monotonic() > deadline:
            break
        found |= _fine(task, different[at : at + LAYERS_AT_ONCE])
    if found != coarse:
        yield schedule()


def _coarse(task: Task, conditions: Sequence[Condition]) -> dict[Condition, Mapping]:
    """A mapping of each layer, grown from a full array, or from an empty one where that does not fit."""
    room, steps = task.all_room, _steps(task, RATIOS[0])
    found = _grown(task, [Row(condition, full_array(task, condition), room) for condition in conditions], steps)
    stuck = np.flatnonzero(np.isinf(found.price)).tolist()
    if stuck:
        rows = [[Row(conditions[i], start, room) for start in smallest(task, conditions[i])] for i in stuck]
        every = _grown(task, [row for mine in rows for row in mine], steps)
        best = np.where(np.isfinite(every.price), _edp(every), np.inf).reshape(len(stuck), -1).argmin(axis=1)
        emptied = subset(every, best + np.arange(len(stuck)) * len(rows[0]))
        for worst in np.flatnonzero(np.isinf(emptied.price)).tolist():
            condition = conditions[stuck[worst]]
            if (start := _asked_start(task, condition)) is None:
                raise _too_large(task, condition, emptied.running[:, worst])
            for old, new in zip(emptied, _grown(task, [Row(condition, start, room)], steps), strict=True):
                old[..., [worst]] = new
        for old, new in zip(found, emptied, strict=True):
            old[..., stuck] = new
    return _mappings(task, conditions, found)


def _asked_start(task: Task, condition: Condition) -> Start | None:
    """A mapping that keeps what is asked of a layer, where none of the usual starts does."""
    if task.restrictions.ends is None:
        return None
    from fadiff.search.exact.witness import witness

    return witness(task, condition)


def _fine(task: Task, conditions: Sequence[Condition]) -> dict[Condition, Mapping]:
    """The best mapping of each layer, grown from a full and from an empty array in all orders, after its last moves."""
    # Whether rows or columns turn inside is left to the last moves.
    orders = [number for number, order in enumerate(task.space.orders[0]) if "NQP" not in order]
    rows: list[Row] = []
    for condition in conditions:
        for start in (full_array(task, condition), outermost(task)):
            for number in orders:
                order = np.concatenate([[number], start.order[1:]])
                rows.append(Row(condition, start._replace(order=order), task.all_room))
    tried = join([_grown(task, rows, _steps(task, ratios)) for ratios in RATIOS])
    edp = _edp(tried)
    numbers = np.arange(edp.size).reshape(len(RATIOS), len(conditions), -1)
    best = [min(numbers[:, i].ravel().tolist(), key=edp.__getitem__) for i in range(len(conditions))]
    last = [Row(condition, start_from(tried, i), task.all_room) for condition, i in zip(conditions, best, strict=True)]
    return _mappings(task, conditions, _grown(task, last, task.moves(conditions, pairs=False)))


def _mappings(task: Task, conditions: Sequence[Condition], found: Menu) -> dict[Condition, Mapping]:
    """As far as they fit."""
    fits = np.isfinite(found.price)
    return {condition: to_mapping(task, condition, found, i) for i, condition in enumerate(conditions) if fits[i]}


def grown(task: Task, rows: Sequence[Row], weights: Weights) -> Menu:
    """The mappings of rows after their best steps, whatever the weights: a climber without a compiler."""
    return _grown(task, rows, _steps(task, RATIOS[0]))


def _grown(task: Task, rows: Sequence[Row], steps: Moves) -> Menu:
    """The mappings of rows after their best steps, until none helps."""
    packed, start = stacked(task, rows, (1.0, 1.0))
    single = not any(row.condition.grouped for row in rows)
    pricing = partial(price, task.structure, task.space.orders, machine=task.numbers, alone=single)
    factors = settle(cast("Array", start.factors), packed.fusion.tile)
    best = pricing(packed, factors, cast("Array", start.order))
    steps = Moves(*(cast("Array", np.broadcast_to(part, (len(part), len(rows)))) for part in steps))
    open_ = np.arange(len(rows))
    while open_.size:
        at = partial(some, open_)
        mine, near, here = each(at, packed), each(at, best), each(at, steps)
        # Near a mapping, relative changes of energy and latency add up.
        mine = mine._replace(energy_weight=1 / near.energy_pj, cycles_weight=1 / near.cycles)
        tried = moved(near.factors[:, :, None], near.order[:, None], here, mine.fusion.tile[:, None])
        taken = best_of(pricing(mine, *tried))
        better = _edp(taken) < _edp(near) * (1 - 1e-9)
        open_ = open_[better]
        for all_, new in zip(best, taken, strict=True):
            all_[..., open_] = new[..., better]
    return best


def _edp(menu: Menu) -> np.ndarray:
    """Energy x latency of each mapping, infinite where it does not fit."""
    return np.where(np.isfinite(menu.price), menu.energy_pj * menu.cycles, np.inf)


def _steps(task: Task, ratios: Sequence[int]) -> Moves:
    """Steps from the first memory to any node further in, for all layers the same; the first changes nothing."""
    steps = [
        (d, 0, node, ratio, 0, -1, 0)
        for d, dim in enumerate(DIMS)
        for node in task.space.nodes[dim][1:]
        for ratio in ratios
        if dim in task.structure.dims[node]
    ]
    return as_moves(np.array([NO_MOVE, *steps]).T[:, :, None])


def _too_large(task: Task, condition: Condition, needed: Float[np.ndarray, " memories"]) -> FadiffError:
    """What a layer that fits in no way lacks; `needed` are the bytes that tiles of one value take."""
    lacks = [
        f"{size:g} bytes of {memory.name} for one value of {' and '.join(memory.keeps)}, "
        f"{memory.usable_bytes:g} are there ({size - memory.usable_bytes:g} too few)"
        for size, memory in zip(needed, task.machine.memories[1:], strict=True)
        if size > memory.usable_bytes
    ]
    name = task.layer(condition).name
    if task.restrictions.ends is not None:
        return ImpossibleError(f"no mapping of layer {name!r} was found that keeps what is asked of it")
    return FadiffError(f"layer {name!r} fits {task.machine.name} in no way: it needs {' and '.join(lacks)}")
