"""A deterministic heuristic: each layer on its own, tiles grown by the best single step until none helps.

A mapping starts with every loop at the first memory, once with the array as full as it gets and once with an empty one.
A step takes a prime factor of a dim from there to a node further in, with any order of the loops that stay; of all
steps that fit, the one with the lowest energy x latency of the layer is taken. All steps of many different layers are
priced in one batched call.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import jax
import numpy as np

from fadiff.errors import FadiffError
from fadiff.schedule import Group, Schedule
from fadiff.search.exact.assemble import to_mapping
from fadiff.search.exact.climb import Mapped, Moves, Rows, best_of, moved, price
from fadiff.search.exact.conditions import NO_MOVE, Condition, Task, as_moves, order_moves
from fadiff.search.exact.menus import Start, full_array, outermost
from fadiff.search.space import prime_factors, settle
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float

    from fadiff.hardware import Machine
    from fadiff.schedule import Mapping
    from fadiff.workload import Workload

LARGEST_PRIME = 47
"""Primes above do not move in one step: tiles that large are reached by others."""
LAYERS_AT_ONCE = 24
"""Different layers that are priced in one call: as many as fit in a processor's cache."""


def greedy(
    workload: Workload, machine: Machine, deadline: float = float("inf"), *, exact_factors: bool = False
) -> Schedule:
    """A legal schedule without fusion: a few milliseconds for each different layer.

    Layers that are not reached by the deadline, on the clock of `time.monotonic`, keep tiles of one value. With
    `exact_factors` all tiles divide their dims.
    """
    # How often a layer runs does not matter to it: those that differ in nothing else are one layer here.
    once = replace(workload, layers=tuple(replace(layer, repeat=1) for layer in workload.layers))
    task = Task(once, machine, dtype=np.float64, exact_factors=exact_factors)
    conditions = {layer.name: task.alone(layer.name) for layer in workload.layers if layer.is_mac}
    different = list(dict.fromkeys(conditions.values()))
    found: dict[Condition, Mapping] = {}
    for start in range(0, len(different), LAYERS_AT_ONCE):
        found |= _climb(task, different[start : start + LAYERS_AT_ONCE], deadline)
    mappings = {name: found[condition] for name, condition in conditions.items()}
    groups = tuple(Group((name,)) for name in workload.topological)
    return Schedule(workload, machine, groups, mappings, made_by={"method": "greedy"})


def _climb(task: Task, conditions: list[Condition], deadline: float) -> dict[Condition, Mapping]:
    """A mapping of each layer on its own."""
    rows = task.rows(conditions, [task.all_room] * len(conditions), (1.0, 1.0))
    moves = _steps(task, conditions)

    def priced(rows: Rows, factors: Array, order: Array, near: Mapped | None = None) -> Mapped:
        """Prices near a mapping: relative changes of energy and latency added up."""
        weights = {} if near is None else {"energy_weight": 1 / near.energy_pj, "cycles_weight": 1 / near.cycles}
        weighed = rows._replace(**weights)
        return price(task.structure, task.space.orders, weighed, factors, order, task.numbers, alone=True)

    def climbed(starts: list[Start]) -> Mapped:
        factors = settle(cast("Array", np.stack([start.factors for start in starts], axis=-1)), rows.fusion.tile)
        best = priced(rows, factors, cast("Array", np.stack([start.order for start in starts], axis=-1)))
        open_ = np.arange(len(conditions))
        while open_.size and time.monotonic() < deadline:
            mine, near = (jax.tree.map(partial(_some, open_), part) for part in (rows, best))
            steps = moved(near.factors[:, :, None], near.order[:, None], moves, mine.fusion.tile[:, None])
            taken = best_of(priced(mine, *steps, near))
            better = np.isfinite(taken.price) & (_edp(taken) < _edp(near) * (1 - 1e-9))
            for all_, new in zip(best, taken, strict=True):
                np.asarray(all_)[..., open_[better]] = np.asarray(new)[..., better]
            open_ = open_[better]
        return best

    filled = climbed([full_array(task, condition) for condition in conditions])
    best = climbed([outermost(task)] * len(conditions))
    if np.isinf(best.price).any():
        stuck = int(np.isinf(best.price).argmax())
        raise FadiffError(_too_large(task, conditions[stuck], best.running[:, stuck]))
    best = _where(np.isfinite(filled.price) & (_edp(filled) < _edp(best)), filled, best)
    return {condition: to_mapping(task, condition, best, i) for i, condition in enumerate(conditions)}


def _some(rows: np.ndarray, values: Array) -> Array:
    return values[..., rows]


def _edp(mapped: Mapped) -> np.ndarray:
    return np.asarray(mapped.energy_pj * mapped.cycles)


def _where(mask: np.ndarray, new: Mapped, old: Mapped) -> Mapped:
    return Mapped(*(cast("Array", np.where(mask, a, b)) for a, b in zip(new, old, strict=True)))


def _steps(task: Task, conditions: list[Condition]) -> Moves:
    """Every step that some layer may take: primes of its dims, and 2 and 3, from the first memory to a node further in.

    The first step changes nothing.
    """
    steps = [NO_MOVE, *order_moves(task.space)]
    orders = [(-1, 0), *((0, i) for i in range(len(task.space.orders[0])))]
    for d, dim in enumerate(DIMS):
        sizes = {condition.tile[d] for condition in conditions} - {1}
        primes = {prime for size in sizes for prime, _ in prime_factors(size) if prime <= LARGEST_PRIME}
        for prime in sorted(primes | {2, 3}) if sizes else ():
            steps += [(d, 0, node, prime, 0, *order) for node in task.space.nodes[dim][1:] for order in orders]
    return as_moves(np.array(steps).T[:, :, None])


def _too_large(task: Task, condition: Condition, needed: Float[np.ndarray, " memories"]) -> str:
    """What a layer that fits in no way lacks; `needed` are the bytes that tiles of one value take."""
    lacks = [
        f"{size:g} bytes of {memory.name} for one value of {' and '.join(memory.keeps)}, "
        f"{memory.usable_bytes:g} are there ({size - memory.usable_bytes:g} too few)"
        for size, memory in zip(needed, task.machine.memories[1:], strict=True)
        if size > memory.usable_bytes
    ]
    name = task.layer(condition).name
    return f"layer {name!r} fits {task.machine.name} in no way: it needs {' and '.join(lacks)}"
