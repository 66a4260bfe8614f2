"""Good mappings of layers under conditions: a few each, trading room for energy and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from fadiff.search.deadline import OutOfTimeError
from fadiff.search.exact.climb import Mapped, climb
from fadiff.search.exact.conditions import Condition, Room, Task
from fadiff.search.space import prime_factors
from fadiff.workload import DIMS
from fadiff.workload.layer import RELEVANT

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

MOVES_PER_CALL, PAIRS_PER_CALL = 192 * 256, 2**17
"""Moves, or pairs of moves, of all rows of one compiled call: one size for a task, programs take long to compile."""
ROUNDS_PER_CALL = np.int32(8)
THRIFT = 0.4
"""Each further mapping of a condition may take this share of the room that the one before took."""
FURTHER_MAPPINGS = 3
LITTLE_ROOM = 1 / 32
"""Share of a memory below which a smaller mapping is not worth looking for."""

Menu = Mapped
"""Mappings of one layer under one condition, as NumPy arrays; the last axis runs over them."""


class Start(NamedTuple):
    """A mapping to start from, for any condition of a layer: it is settled for the condition's tiles."""

    factors: Float[np.ndarray, "nodes 8"]
    """The first memory's make up for what the others leave."""
    order: Int[np.ndarray, " memories"]


class Row(NamedTuple):
    """One climb: where it starts and what it may take."""

    condition: Condition
    start: Start
    room: Room


Hints = MappingOf[int, Sequence[Start]]
"""Mappings worth starting from, by layer."""


def subset(menu: Menu, index: slice | Sequence[int] | Int[np.ndarray, " some"]) -> Menu:
    """Some of the mappings."""
    return Menu(*(values[..., index] for values in menu))


def join(parts: Sequence[Menu]) -> Menu:
    """Mappings one after the other."""
    return Menu(*(np.concatenate(values, axis=-1) for values in zip(*parts, strict=True)))


def size_of(menu: Menu) -> int:
    """How many mappings there are."""
    return menu.price.shape[-1]


def weighed(menu: Menu, weights: tuple[float, float]) -> Float[np.ndarray, " mappings"]:
    """Energy and cycles of one run of the layer, at the prices of a pJ and a cycle."""
    return weights[0] * menu.energy_pj + weights[1] * menu.cycles


def start_from(menu: Menu, index: int) -> Start:
    """A mapping of a menu as a start."""
    return Start(np.asarray(menu.factors[..., index]), np.asarray(menu.order[..., index]))


def solve(task: Task, rows: Sequence[Row], weights: tuple[float, float], *, pairs: bool = False) -> Menu:
    """Climb from every row; mappings in the order of rows, of infinite price where nothing fits.

    Raises :class:`OutOfTimeError` when the task's deadline passes.

    Rows finish after different numbers of rounds: after a few, those that still move are gathered into fuller chunks.
    """
    left, current = list(range(len(rows))), list(rows)
    found: list[Menu | None] = [None] * len(rows)
    most = 2 * PAIRS_PER_CALL // task.widths[True] ** 2 if pairs else MOVES_PER_CALL // task.widths[False]
    chunk = max(1, most)
    while left:
        moving: list[int] = []
        for at in range(0, len(left), chunk):
            if time.monotonic() > task.deadline:
                raise OutOfTimeError
            numbers = left[at : at + chunk]
            menu, unfinished = _solve_chunk(task, [current[i] for i in numbers], chunk, weights, pairs=pairs)
            for j, i in enumerate(numbers):
                if unfinished[j]:
                    current[i] = current[i]._replace(start=start_from(menu, j))
                    moving.append(i)
                else:
                    found[i] = subset(menu, [j])
        left = moving
    return join([menu for menu in found if menu is not None])


def _solve_chunk(
    task: Task, rows: Sequence[Row], size: int, weights: tuple[float, float], *, pairs: bool
) -> tuple[Menu, Bool[np.ndarray, " rows"]]:
    """One compiled call, and which rows still moved at its end; missing rows repeat the last."""
    filled = [*rows, *([rows[-1]] * (size - len(rows)))]
    conditions = [row.condition for row in filled]
    packed = task.rows(conditions, [row.room for row in filled], weights)
    factors = np.stack([row.start.factors for row in filled], axis=-1).astype(np.float32)
    order = np.stack([row.start.order for row in filled], axis=-1).astype(np.int32)
    moves = task.moves(conditions, pairs=pairs)
    found: tuple[Menu, Bool[np.ndarray, " rows"]] = jax.device_get(
        climb(
            task.machine.structure, task.space.orders, packed, factors, order, moves, task.numbers, ROUNDS_PER_CALL,
            pairs=pairs,
        )
    )  # fmt: skip
    menu, moving = found
    wide = subset(menu, slice(0, len(rows)))._asdict()
    for field in ("price", "energy_pj", "cycles", "running", "kept", "waiting"):
        wide[field] = wide[field].astype(np.float64)
    fits = np.isfinite(wide["price"])
    wide |= {field: np.where(fits, wide[field], np.inf) for field in ("energy_pj", "cycles")}
    return Menu(**wide), moving[: len(rows)]


def outermost(task: Task) -> Start:
    """A start with tiles of one value: every loop at the first memory."""
    return Start(np.ones((len(task.machine.nodes), 8)), np.zeros(len(task.machine.memories), dtype=np.int32))


def full_array(task: Task, condition: Condition) -> Start:
    """A start with the axes as full as they get, dims in the order they name them, and every loop at the first memory.

    A dim takes the fewest lanes for its number of trips.
    """
    start = outermost(task)
    left = list(condition.tile)
    for node, axis in zip(task.machine.structure.axes, task.machine.axes, strict=True):
        lanes = axis.size
        for d in map(DIMS.index, axis.dims):
            trips = -(-left[d] // lanes)
            used = -(-left[d] // trips)
            start.factors[node, d] = used
            left[d], lanes = trips, lanes // used
    return start


def pinned(task: Task, condition: Condition) -> Start:
    """A start with all weights at home, the input streaming."""
    start = full_array(task, condition)
    home = task.machine.structure.home("W")
    for dim in RELEVANT["W"] if home is not None else "":
        d = DIMS.index(dim)
        nodes = [n for n in task.space.nodes[dim] if n in task.machine.structure.memories and n >= (home or 0)]
        if nodes:
            start.factors[nodes[0], d] = condition.tile[d]
    return start


def scattered(task: Task, condition: Condition, random: np.random.Generator) -> Start:
    """A random start: every prime factor left over by the axes goes to a random useful memory."""
    start = full_array(task, condition)
    memories = set(task.machine.structure.memories)
    for d, dim in enumerate(DIMS):
        nodes = [node for node in task.space.nodes[dim] if node in memories]
        left = -(-condition.tile[d] // int(start.factors[:, d].prod()))
        for prime, exponent in prime_factors(left):
            for _ in range(exponent):
                start.factors[nodes[random.integers(len(nodes))], d] *= prime
    for i, orders in enumerate(task.space.orders):
        start.order[i] = random.integers(len(orders))
    return start


Climber = Callable[[Task, Sequence[Row], tuple[float, float]], Menu]
"""Climbs from rows to one mapping each, of infinite price where nothing fits; :func:`solve` is one."""


def _climbed(
    task: Task, rows: Sequence[Row], weights: tuple[float, float], climber: Climber = solve
) -> dict[Condition, Menu]:
    """The mappings that rows climb to, by condition, as far as they fit."""
    found = climber(task, rows, weights)
    places: dict[Condition, list[int]] = {row.condition: [] for row in rows}
    for i in np.flatnonzero(np.isfinite(found.price)).tolist():
        places[rows[i].condition].append(i)
    return {condition: subset(found, mine) for condition, mine in places.items()}


def alone(
    task: Task, conditions: Sequence[Condition], weights: tuple[float, float], seed: int, starts: int
) -> dict[Condition, Menu]:
    """Mappings of each layer on its own, climbed to from many starts; the best two of each that differ in price."""
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for condition in conditions:
        begin = [full_array(task, condition), pinned(task, condition)][:starts]
        begin += [scattered(task, condition, random) for _ in range(starts - len(begin))]
        rows += [Row(condition, start, task.all_room) for start in begin]
    result = _climbed(task, rows, weights)
    for condition, menu in result.items():
        _, different = np.unique(weighed(menu, weights), return_index=True)
        result[condition] = subset(menu, different[:2])
    # Where not even a full array fits, a start that unrolls nothing does, or the network fits in no way.
    stuck = [Row(c, outermost(task), task.all_room) for c, menu in result.items() if not size_of(menu)]
    return result | (_climbed(task, stuck, weights) if stuck else {})


def paired(task: Task, menus: MappingOf[Condition, Menu], weights: tuple[float, float]) -> dict[Condition, Menu]:
    """Mappings of layers on their own, taken on by moves in pairs."""
    rows = [Row(c, start_from(menu, i), task.all_room) for c, menu in menus.items() for i in range(size_of(menu))]
    return _climbed(task, rows, weights, partial(solve, pairs=True))


def hinted(
    task: Task, conditions: Sequence[Condition], weights: tuple[float, float], hints: Hints
) -> dict[Condition, Menu]:
    """Mappings of layers on their own, climbed to from hints; only conditions that have a hint."""
    rows = [Row(c, start, task.all_room) for c in conditions for start in hints.get(c.layer, ())]
    return _climbed(task, rows, weights) if rows else {}


def grouped(
    task: Task, conditions: Sequence[Condition], weights: tuple[float, float], seed: int, hints: Hints
) -> dict[Condition, Menu]:
    """Mappings of layers inside groups, climbed to from a full array, a hint or chance, and all weights at home."""
    random = np.random.default_rng(seed)

    def starts(condition: Condition) -> list[Start]:
        known = hints.get(condition.layer, ())
        second = known[0] if known else scattered(task, condition, random)
        return [full_array(task, condition), second, pinned(task, condition)]

    return thrifty(task, conditions, weights, starts, solve)


def thrifty(
    task: Task,
    conditions: Sequence[Condition],
    weights: tuple[float, float],
    starts: Callable[[Condition], Sequence[Start]],
    climber: Climber,
) -> dict[Condition, Menu]:
    """Mappings of layers inside groups: the best with all room there is, and the best with less and less of it.

    The last start of three is taken only with all room.
    """
    fusing = task.fusing
    assert fusing is not None, "groups need a memory that fuses"
    whole = task.all_room.running[fusing]
    result: dict[Condition, list[Menu]] = {condition: [] for condition in conditions}
    rooms = dict.fromkeys(conditions, whole)
    for stage in range(1 + FURTHER_MAPPINGS):
        if not rooms:
            break
        rows = [
            Row(condition, start, _room(task, condition, fusing, bytes_here))
            for condition, bytes_here in rooms.items()
            for start in starts(condition)[: 2 if stage else 3]
        ]
        rooms = dict[Condition, float]()
        for condition, menu in _climbed(task, rows, weights, climber).items():
            result[condition].append(menu)
            used = menu.running[fusing, weighed(menu, weights).argmin()] if size_of(menu) else 0
            if used > LITTLE_ROOM * whole:
                rooms[condition] = THRIFT * float(used)
    return {condition: join(parts) for condition, parts in result.items()}


def _room(task: Task, condition: Condition, fusing: int, bytes_here: float) -> Room:
    """Some of the memory that fuses; of the sums' memories half, where two layers of a channel loop hold them."""
    sizes, structure = task.layer(condition).dims, task.machine.structure
    halved = structure.keepers("O") if condition.tile[2:4] != (sizes.K, sizes.C) else ()
    room = [
        size / 2 if node in halved else size
        for node, size in zip(structure.memories[1:], task.all_room.running, strict=True)
    ]
    room[fusing] = min(room[fusing], bytes_here)
    return Room(tuple(room), tuple(room))
