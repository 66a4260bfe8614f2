"""Good mappings of layers under conditions: a few each, trading room for energy and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fadiff.search import clock
from fadiff.search.driver import OutOfTimeError
from fadiff.search.exact.climb import Mapped, Rows, best_of, price
from fadiff.search.exact.conditions import Condition, Room, Task
from fadiff.search.exact.neighbours import Neighbours, neighbours, side_by_side
from fadiff.search.exact.starts import Start, dealt_array, full_array, pinned, scattered, smallest
from fadiff.search.freed_memory import keep_freed_memory
from fadiff.search.restrictions import project
from fadiff.search.space import prime_factors, settle
from fadiff.search.trees import each
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.hardware import MachineArrays
    from fadiff.schedule import Mapping, Schedule
    from fadiff.search.objective import Weights

MAPPINGS_PER_CALL = 2**14
"""Mappings that are priced at once: arrays that stay in the cache."""
LEAST_GAIN = 1e-6
"""A climb ends where no move lowers the price by more than this share of it."""
THRIFT = 0.4
"""Each further mapping of a condition may take this share of the room that the one before took."""
FURTHER_MAPPINGS = 3
MAPPINGS_ALONE = 8
"""Mappings of a layer on its own that are kept at most."""
MOST_RETURNS = 8
"""How often a start that does not fit may be moved in vain."""
LITTLE_ROOM = 1 / 32
"""Share of a memory below which a smaller mapping is not worth looking for."""

Key = tuple[bytes, bytes]
"""What tells mappings apart."""
Menu = Mapped
"""Mappings of one layer under one condition, as NumPy arrays; the last axis runs over them."""
Menus = dict[Condition, Menu]


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


def distinct(menu: Menu) -> Menu:
    """The different mappings."""
    same = np.concatenate([menu.factors.reshape(-1, size_of(menu)), menu.order])
    return subset(menu, np.sort(np.unique(same, axis=1, return_index=True)[1]))


def size_of(menu: Menu) -> int:
    """How many mappings there are."""
    return menu.price.shape[-1]


def weighed(menu: Menu, weights: Weights) -> Float[np.ndarray, " mappings"]:
    """The price of one run of the layer."""
    return weights[0] * menu.energy_pj + weights[1] * menu.cycles


def start_from(menu: Menu, index: int) -> Start:
    """A mapping of a menu as a start."""
    return Start(np.asarray(menu.factors[..., index]), np.asarray(menu.order[..., index]))


def cheapest(menu: Menu, weights: Weights) -> Start:
    """The cheapest mapping of a menu as a start."""
    return start_from(menu, int(weighed(menu, weights).argmin()))


def starts_of(menu: Menu) -> list[Start]:
    """All mappings of a menu as starts."""
    return [start_from(menu, i) for i in range(size_of(menu))]


def best_few(menu: Menu, weights: Weights) -> Menu:
    """The best few mappings that differ in price, the cheapest first."""
    _, different = np.unique(weighed(menu, weights), return_index=True)
    return subset(menu, different[:MAPPINGS_ALONE])


def key_of(start: Start) -> Key:
    """What tells starts apart."""
    return start.factors.tobytes(), start.order.tobytes()


def distinct_starts(starts: Sequence[Start]) -> list[Start]:
    """The different starts."""
    return list({key_of(one): one for one in starts}.values())


def starts_in(task: Task, schedule: Schedule) -> Hints:
    """The mappings of a schedule as starts, by layer."""
    found: dict[int, list[Start]] = {}
    for name, mapping in schedule.mappings.items():
        known = zip(mapping.orders, task.space.orders, strict=True)
        order = [orders.index(mine) if mine in orders else 0 for mine, orders in known]
        start = Start(np.array(mapping.factors, dtype=np.float64), np.array(order, dtype=np.int32))
        found.setdefault(task.twin[task.number[name]], []).append(start)
    return found


def some(index: Sequence[int] | Int[np.ndarray, " some"], values: Array) -> Array:
    """Those rows of an array."""
    return values[..., index]


def stacked(task: Task, rows: Sequence[Row], weights: Weights) -> tuple[Rows, Start]:
    """Rows as arrays: their conditions in their rooms, and their starts, side by side along the last axis."""
    start = Start(*(np.stack(parts, axis=-1) for parts in zip(*(row.start for row in rows), strict=True)))
    packed = task.rows([row.condition for row in rows], [row.room for row in rows], weights)
    if packed.ends is not None:
        tile, shared = packed.fusion.tile, packed.fusion.shared
        exact = task.exact_factors
        start = Start(*project(start.factors, start.order, packed.ends, tile, shared, task.machine, exact=exact))
    return packed, start


def started(task: Task, rows: Sequence[Row], weights: Weights, numbers: MachineArrays | None = None) -> Menu:
    """The starts of rows, settled and priced; on other numbers than the task's, where they are given."""
    packed, start = stacked(task, rows, weights)
    tried = settle(cast("Array", start.factors), packed.fusion.tile), cast("Array", start.order)
    return price(
        task.looped_structure, task.space.orders, packed, *tried, numbers or task.numbers, charges=task.charges
    )


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


def solve(task: Task, rows: Sequence[Row], weights: Weights, *, pairs: bool = False) -> Menu:
    """Climb from every row by the best move, or the best two, until none helps; mappings in the order of rows, of
    infinite price where nothing fits.

    Raises :class:`~fadiff.search.driver.OutOfTimeError` at the task's deadline.
    """
    keep_freed_memory()
    packed, start = stacked(task, rows, weights)
    factors = np.asarray(settle(cast("Array", start.factors.astype(task.dtype)), packed.fusion.tile))
    # Whoever proposes a mapping may have put loops where none is sought.
    astray = bool((factors[~task.sought] > 1).any())
    pricing = partial(
        price,
        task.looped_structure if astray else task.structure,
        task.space.orders,
        machine=task.numbers,
        charges=task.charges,
    )
    unpriced = [np.full_like(packed.energy_weight, np.inf) for _ in range(3)]
    empty = [np.zeros_like(packed.running_room) for _ in range(3)]
    best = Menu(factors, start.order.astype(np.int32), *unpriced, *empty)
    left = np.arange(len(rows))
    while left.size:
        tried = list[Menu]()
        owners = list[int]()
        for mine, around in _blocks(task, rows, best, left.tolist(), pairs=pairs):
            if clock.monotonic() > task.deadline:
                raise OutOfTimeError
            here, single = each(partial(some, mine), packed), not any(rows[i].condition.grouped for i in mine)
            tried.append(best_of(pricing(here, *around, alone=single)))
            owners += mine
        found = join(tried)
        # Of what is left of each row, the cheapest comes first.
        first = np.lexsort((found.price, owners))
        taken = subset(found, first[np.unique(np.array(owners)[first], return_index=True)[1]])
        better = taken.price < best.price[left] * (1 - LEAST_GAIN)
        left = left[better]
        for old, new in zip(best, taken, strict=True):
            old[..., left] = new[..., better]
    # Costs and bytes of many layers are added up in 64 bits.
    return Menu(*(values.astype(np.float64) if values.dtype == np.float32 else values for values in best))


def _blocks(
    task: Task, rows: Sequence[Row], best: Menu, left: Sequence[int], *, pairs: bool
) -> Iterator[tuple[list[int], tuple[Array, Array]]]:
    """Neighbours of the best mappings of rows, so many at a time that fit in a processor's cache: rows by number, and
    their mappings ``[nodes, 8, mappings, rows]`` in orders. Those of one row may come in several parts."""
    parts, most = list[tuple[int, Neighbours]](), 0
    for i in left:
        every = neighbours(task, rows[i].condition, best.factors[..., i], best.order[..., i], pairs=pairs)
        for at in range(0, every.order.shape[1], MAPPINGS_PER_CALL):
            part = Neighbours(*(values[..., at : at + MAPPINGS_PER_CALL] for values in every))
            size = part.order.shape[1]
            if parts and (len(parts) + 1) * max(most, size) > MAPPINGS_PER_CALL:
                yield [row for row, _ in parts], side_by_side([part for _, part in parts])
                parts, most = [], 0
            parts.append((i, part))
            most = max(most, size)
    yield [row for row, _ in parts], side_by_side([part for _, part in parts])


Climber = Callable[[Task, Sequence[Row], "Weights"], Menu]
"""Climbs from rows to one mapping each, of infinite price where nothing fits; :func:`solve` is one."""


def fitted(task: Task, rows: Sequence[Row], weights: Weights) -> list[Row]:
    """Rows with starts that fit, as far as loops decide: of those inside a memory that is too small, factors go to
    memories further out, at random, until it is not.

    Where memories are small, few starts fit, and no single move leads from others to one that does. What is asked of
    a mapping may put factors back: a row whose factors came back too often is left as it is.
    """
    found, left, random = [*rows], [*range(len(rows))], np.random.default_rng(len(rows))
    memories = task.machine.structure.memories
    depth, returned = np.full(len(rows), np.inf), np.zeros(len(rows), dtype=int)
    while left:
        tried, moved = started(task, [found[i] for i in left], weights), list[int]()
        for column, i in enumerate(left):
            over = np.flatnonzero(np.asarray(tried.running[:, column]) > found[i].room.running)
            factors = np.array(tried.factors[..., column])
            now = float(np.arange(len(factors)) @ np.log2(factors).sum(axis=1))
            # The shortest way out is that of a factor of two by one node.
            returned[i] += now > depth[i] - 0.5
            depth[i] = min(now, depth[i])
            inside = [node for node in memories if over.size and node >= memories[1 + over[-1]]]
            large = [(node, int(d)) for node in inside for d in np.flatnonzero(factors[node] > 1)]
            if not large or returned[i] > MOST_RETURNS:
                continue
            node, d = large[random.integers(len(large))]
            further = [other for other in task.space.nodes[DIMS[d]] if other in memories and other < inside[0]]
            least = prime_factors(int(factors[node, d]))[0][0]
            factors[node, d] /= least
            factors[further[random.integers(len(further))], d] *= least
            found[i] = found[i]._replace(start=found[i].start._replace(factors=factors))
            moved.append(i)
        left = moved
    return found


def _climbed(task: Task, rows: Sequence[Row], weights: Weights, climber: Climber) -> Menus:
    """The mappings that rows climb to, by condition, as far as they fit."""
    if not rows:
        return {}
    found = climber(task, fitted(task, rows, weights), weights)
    places: dict[Condition, list[int]] = {row.condition: [] for row in rows}
    for i in np.flatnonzero(np.isfinite(found.price)).tolist():
        places[rows[i].condition].append(i)
    return {condition: subset(found, mine) for condition, mine in places.items()}


def climbed_from(
    task: Task, starts: MappingOf[Condition, Sequence[Start]], weights: Weights, *, pairs: bool = False
) -> Menus:
    """Mappings of layers on their own, one from each start that leads to one which fits."""
    rows = [Row(condition, start, task.all_room) for condition, mine in starts.items() for start in mine]
    return _climbed(task, rows, weights, partial(solve, pairs=pairs))


def alone(
    task: Task, conditions: Sequence[Condition], weights: Weights, seed: int, starts: int, hints: Hints | None = None
) -> Menus:
    """Mappings of each layer on its own, climbed to from many starts and from hints; the best of each that differ in
    price."""
    random, hints = np.random.default_rng(seed), hints or {}
    begin = {condition: [full_array(task, condition), pinned(task, condition)][:starts] for condition in conditions}
    for condition, mine in begin.items():
        for number in range(starts - len(mine)):
            # Which dims share the lanes best is seldom found by moves: half of the starts have others.
            array = dealt_array(task, condition, random) if number % 2 else full_array(task, condition)
            mine.append(scattered(task, condition, random, array))
        mine += hints.get(condition.layer, ())
    result = climbed_from(task, begin, weights)
    result = {condition: best_few(menu, weights) for condition, menu in result.items()}
    # Where not even a full array fits, a start that unrolls nothing does, or the network fits in no way.
    stuck = {condition: smallest(task, condition) for condition, menu in result.items() if not size_of(menu)}
    return result | climbed_from(task, stuck, weights)


def grouped(
    task: Task, conditions: Sequence[Condition], weights: Weights, seed: int, hints: Hints, climber: Climber = solve
) -> Menus:
    """Mappings of layers inside groups: the best with all room there is, and the best with less and less of it."""
    found = roomy(task, conditions, weights, seed, hints, climber)
    return thriftier(task, found, weights, seed, hints, climber)


def roomy(
    task: Task, conditions: Sequence[Condition], weights: Weights, seed: int, hints: Hints, climber: Climber = solve
) -> Menus:
    """The best mappings of layers inside groups with all room there is.

    Climbed to from a full array, from a hint or chance, and from all weights at home.
    """
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for condition in conditions:
        second, *_ = hints.get(condition.layer) or [scattered(task, condition, random)]
        room = room_in_group(task, condition)
        rows += [
            Row(condition, start, room) for start in (full_array(task, condition), second, pinned(task, condition))
        ]
    return _climbed(task, rows, weights, climber)


def thriftier(task: Task, menus: Menus, weights: Weights, seed: int, hints: Hints, climber: Climber = solve) -> Menus:
    """Menus with the best mappings for less and less room added."""
    fusing = task.fusing
    assert fusing is not None, "groups need a memory that fuses"
    whole, random = task.all_room.running[fusing], np.random.default_rng(seed)
    result = {condition: [menu] for condition, menu in menus.items()}
    latest = menus
    for _ in range(FURTHER_MAPPINGS):
        rows: list[Row] = []
        for condition, menu in latest.items():
            used = menu.running[fusing, weighed(menu, weights).argmin()] if size_of(menu) else 0
            if used > LITTLE_ROOM * whole:
                second, *_ = hints.get(condition.layer) or [scattered(task, condition, random)]
                room = room_in_group(task, condition, THRIFT * float(used))
                rows += [Row(condition, start, room) for start in (full_array(task, condition), second)]
        latest = _climbed(task, rows, weights, climber)
        for condition, menu in latest.items():
            result[condition].append(menu)
    return {condition: join(parts) for condition, parts in result.items()}


def improved(task: Task, menus: Menus, weights: Weights) -> Menus:
    """What the cheapest mapping of each menu climbs to inside its group, with all room there is."""
    rows = [
        Row(condition, start_from(menu, int(weighed(menu, weights).argmin())), room_in_group(task, condition))
        for condition, menu in menus.items()
        if size_of(menu)
    ]
    return _climbed(task, rows, weights, solve)


def room_in_group(task: Task, condition: Condition, bytes_here: float = np.inf) -> Room:
    """So many bytes of the memory that fuses; of the sums' memories half, where two layers of a channel loop hold
    them."""
    sizes, structure = task.layer(condition).dims, task.machine.structure
    assert task.fusing is not None, "groups need a memory that fuses"
    halved = structure.keepers("O") if condition.tile[2:4] != (sizes.K, sizes.C) else ()
    memories = zip(structure.memories[1:], task.all_room.running, strict=True)
    room = [size / 2 if node in halved else size for node, size in memories]
    room[task.fusing] = min(room[task.fusing], bytes_here)
    return Room(tuple(room), tuple(room))
