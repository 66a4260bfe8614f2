"""Good mappings of layers under conditions: a few each, trading L2 for energy and time."""

from __future__ import annotations

import time
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from fadiff.search.climb import Priced, climb
from fadiff.search.conditions import Budgets, Condition, Problem, bucket
from fadiff.search.deadline import OutOfTimeError
from fadiff.search.space import prime_factors, useful_slots
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float32]

ROW_CHUNKS = (64, 512)
PAIR_CHUNKS = (16,)
"""Rows of one compiled call: few sizes, so that programs are reused."""
ROUNDS_PER_CALL = np.int32(8)
THRIFT = 0.4
"""Each further option of a condition may take this share of the L2 that the one before took."""
FURTHER_OPTIONS = 3
LITTLE_L2 = 1 / 32
"""Share of L2 below which a smaller option is not worth looking for."""


class Options(NamedTuple):
    """Mappings of one layer under one condition; the last axis runs over them."""

    factors: FloatArray
    """``[5, 8, options]`` spatial, t0, t1, t2, private part of t3."""
    order: NDArray[np.int64]
    """Index into :data:`fadiff.search.space.SLIDING_ORDERS3`."""
    energy_pj: NDArray[np.float64]
    cycles: NDArray[np.float64]
    kept: NDArray[np.float64]
    passing: NDArray[np.float64]
    l1_bytes: NDArray[np.float64]


def subset(options: Options, index: slice | NDArray[np.bool_] | NDArray[np.int64]) -> Options:
    """Some of the options."""
    return Options(
        options.factors[:, :, index],
        options.order[index],
        options.energy_pj[index],
        options.cycles[index],
        options.kept[index],
        options.passing[index],
        options.l1_bytes[index],
    )


def join(parts: Sequence[Options]) -> Options:
    """Options one after the other."""
    return Options(
        np.concatenate([part.factors for part in parts], axis=2),
        np.concatenate([part.order for part in parts]),
        np.concatenate([part.energy_pj for part in parts]),
        np.concatenate([part.cycles for part in parts]),
        np.concatenate([part.kept for part in parts]),
        np.concatenate([part.passing for part in parts]),
        np.concatenate([part.l1_bytes for part in parts]),
    )


class Row(NamedTuple):
    """One climb: where it starts and what it may take."""

    condition: Condition
    start: FloatArray
    """``[5, 8]``"""
    l2_bytes: float
    kept_bytes: float
    l1_bytes: float


def solve(problem: Problem, rows: Sequence[Row], weights: tuple[float, float], *, pairs: bool) -> Options:
    """Climb from every row; options in the order of rows, with infinite energy where nothing fits.

    Raises :class:`OutOfTimeError` when the problem's deadline passes.

    Rows finish after different numbers of rounds: after a few, those that still move are gathered into fuller chunks.
    """
    left = list(range(len(rows)))
    current = list(rows)
    found: list[Options | None] = [None] * len(rows)
    while left:
        sizes = PAIR_CHUNKS if pairs else ROW_CHUNKS
        chunk = min(bucket(len(left), sizes), sizes[-1])
        moving: list[int] = []
        for at in range(0, len(left), chunk):
            if time.monotonic() > problem.deadline:
                raise OutOfTimeError
            numbers = left[at : at + chunk]
            options, unfinished = _solve_chunk(problem, [current[i] for i in numbers], chunk, weights, pairs=pairs)
            for j, i in enumerate(numbers):
                if unfinished[j]:
                    current[i] = current[i]._replace(start=options.factors[:, :, j])
                    moving.append(i)
                else:
                    found[i] = subset(options, slice(j, j + 1))
        left = moving
    return join([options for options in found if options is not None])


def _solve_chunk(
    problem: Problem, rows: Sequence[Row], size: int, weights: tuple[float, float], *, pairs: bool
) -> tuple[Options, NDArray[np.bool_]]:
    """One compiled call, and which rows still moved at its end; missing rows repeat the last."""
    filled = [*rows, *([rows[-1]] * (size - len(rows)))]
    conditions = [row.condition for row in filled]
    budgets = Budgets(*(np.array(values, dtype=np.float32) for values in list(zip(*filled, strict=True))[2:]))
    start = np.stack([row.start for row in filled], axis=-1)
    packed = problem.rows(conditions, budgets, weights)
    results: tuple[FloatArray, Priced, NDArray[np.bool_]] = jax.device_get(
        climb(packed, start, problem.moves(conditions), problem.machine, problem.axes, ROUNDS_PER_CALL, pairs=pairs)
    )
    factors, priced, moving = results
    count = len(rows)
    fits = np.isfinite(np.asarray(priced.price)[:count])

    def wide(values: Array) -> NDArray[np.float64]:
        return np.asarray(values, dtype=np.float64)[:count]

    options = Options(
        factors=factors[:, :, :count],
        order=np.asarray(priced.order)[:count].astype(np.int64),
        energy_pj=np.where(fits, wide(priced.energy_pj), np.inf),
        cycles=np.where(fits, wide(priced.cycles), np.inf),
        kept=wide(priced.kept),
        passing=wide(priced.passing),
        l1_bytes=wide(priced.l1_bytes),
    )
    return options, moving[:count]


def outermost(problem: Problem, condition: Condition) -> FloatArray:
    """A start with tiles of one word: every loop at L3."""
    start = np.ones((5, 8), dtype=np.float32)
    start[4] = problem.private_sizes(condition)
    return start


def from_dram(problem: Problem, condition: Condition) -> FloatArray:
    """A start with the array as full as it gets and every loop at L3."""
    start = outermost(problem, condition)
    hardware = problem.hardware
    for dims, there in ((hardware.spatial_rows, hardware.rows), (hardware.spatial_cols, hardware.cols)):
        left = there
        for dim in dims:
            d = DIMS.index(dim)
            unrolled = _largest_divisor(int(start[4, d]), left)
            start[0, d] = unrolled
            start[4, d] /= unrolled
            left //= unrolled
    return start


def pinned(problem: Problem, condition: Condition) -> FloatArray:
    """A start with all weights in L2, the input streaming."""
    start = from_dram(problem, condition)
    for dim, slot in (("G", 3), ("K", 3), ("C", 2), ("R", 2), ("S", 2)):
        d = DIMS.index(dim)
        start[slot, d], start[4, d] = start[4, d], 1
    return start


def scattered(problem: Problem, condition: Condition, random: np.random.Generator) -> FloatArray:
    """A random start: every prime factor left over by the array goes to a random useful slot."""
    start = from_dram(problem, condition)
    for d, dim in enumerate(DIMS):
        slots = [slot for slot in useful_slots(dim, problem.hardware) if slot != 0]
        for prime, exponent in prime_factors(int(start[4, d])):
            for _ in range(exponent):
                slot = slots[random.integers(len(slots))]
                start[4, d] /= prime
                start[slot, d] *= prime
    return start


def adapted(problem: Problem, condition: Condition, factors: NDArray[np.int64]) -> FloatArray:
    """A start from a mapping made for another condition."""
    sizes = np.array(problem.workload.layers[condition.layer].dims)
    return without_shared(factors, sizes // np.array(problem.private_sizes(condition))).astype(np.float32)


def without_shared(factors: NDArray[np.int64], shared: NDArray[np.int64]) -> NDArray[np.int64]:
    """`factors` ``[5, 8, ...]`` less the `shared` trips ``[8, ...]``, taken from L3 first, then from inside."""
    private, left = factors.copy(), shared
    for slot in (4, 3, 2, 1, 0):
        part = np.gcd(private[slot], left)
        private[slot] //= part
        left = left // part
    return private


@lru_cache(maxsize=4096)
def _largest_divisor(number: int, most: int) -> int:
    return max(d for d in range(1, most + 1) if number % d == 0)


Hints = MappingOf[int, Sequence["NDArray[np.int64]"]]
"""Mappings ``[5, 8]`` worth starting from, by layer: spatial, t0, t1, t2, t3."""


def alone(
    problem: Problem, conditions: Sequence[Condition], weights: tuple[float, float], seed: int, starts: int
) -> dict[Condition, Options]:
    """Mappings of each layer on its own, climbed to from many starts; the best two of each."""
    random = np.random.default_rng(seed)
    l2, l1 = problem.hardware.usable_l2_bytes, problem.hardware.usable_l1_bytes
    rows: list[Row] = []
    for condition in conditions:
        begin = [from_dram(problem, condition), pinned(problem, condition)][:starts]
        begin += [scattered(problem, condition, random) for _ in range(starts - len(begin))]
        rows += [Row(condition, start, l2, l2, l1) for start in begin]
    found = solve(problem, rows, weights, pairs=False)
    price = weights[0] * found.energy_pj + weights[1] * found.cycles
    result: dict[Condition, Options] = {}
    for i, condition in enumerate(conditions):
        ranked = i * starts + np.argsort(price[i * starts : (i + 1) * starts], kind="stable")
        result[condition] = subset(found, ranked[np.isfinite(price[ranked])][:2])
    # Where not even a full array fits, a start that unrolls nothing does, or the network fits in no way.
    stuck = [condition for condition, options in result.items() if not options.order.size]
    if stuck:
        begin = [Row(condition, outermost(problem, condition), l2, l2, l1) for condition in stuck]
        again = solve(problem, begin, weights, pairs=False)
        result |= {condition: subset(again, slice(i, i + 1)) for i, condition in enumerate(stuck)}
    return result


def paired(
    problem: Problem, options: MappingOf[Condition, Options], weights: tuple[float, float]
) -> dict[Condition, Options]:
    """Mappings of layers on their own, taken on by moves in pairs."""
    l2, l1 = problem.hardware.usable_l2_bytes, problem.hardware.usable_l1_bytes
    rows = [
        Row(condition, mine.factors[:, :, i], l2, l2, l1)
        for condition, mine in options.items()
        for i in range(mine.order.size)
    ]
    found = solve(problem, rows, weights, pairs=True)
    result: dict[Condition, Options] = {}
    at = 0
    for condition, mine in options.items():
        result[condition] = subset(found, slice(at, at + mine.order.size))
        at += mine.order.size
    return result


def hinted(
    problem: Problem, conditions: Sequence[Condition], weights: tuple[float, float], hints: Hints
) -> dict[Condition, Options]:
    """Mappings of layers on their own, climbed to from hints; only conditions that have a hint."""
    l2, l1 = problem.hardware.usable_l2_bytes, problem.hardware.usable_l1_bytes
    rows = [
        Row(condition, adapted(problem, condition, factors), l2, l2, l1)
        for condition in conditions
        for factors in hints.get(condition.layer, ())
    ]
    if not rows:
        return {}
    found = solve(problem, rows, weights, pairs=False)
    result: dict[Condition, Options] = {}
    for condition in dict.fromkeys(row.condition for row in rows):
        mine = np.array([row.condition == condition for row in rows])
        result[condition] = subset(found, mine & np.isfinite(found.energy_pj))
    return result


def grouped(
    problem: Problem, conditions: Sequence[Condition], weights: tuple[float, float], seed: int, hints: Hints
) -> dict[Condition, Options]:
    """Mappings of layers inside groups: the best with all of L2, and the best with less and less of it."""
    random = np.random.default_rng(seed)
    l2, l1 = float(problem.hardware.usable_l2_bytes), float(problem.hardware.usable_l1_bytes)
    result: dict[Condition, list[Options]] = {condition: [] for condition in conditions}
    budget = dict.fromkeys(conditions, l2)
    for stage in range(1 + FURTHER_OPTIONS):
        rows: list[Row] = []
        for condition, room in budget.items():
            # Both layers of a channel loop hold sums at the same time.
            room1 = l1 / 2 if condition.x_role else l1
            known = hints.get(condition.layer, ())
            second = adapted(problem, condition, known[0]) if known else scattered(problem, condition, random)
            starts = [from_dram(problem, condition), second]
            if stage == 0:
                starts.append(pinned(problem, condition))
            rows += [Row(condition, start, room, room, room1) for start in starts]
        found = solve(problem, rows, weights, pairs=False)
        used = found.kept + found.passing
        price = weights[0] * found.energy_pj + weights[1] * found.cycles
        each, following = len(rows) // len(budget), dict[Condition, float]()
        for i, condition in enumerate(budget):
            mine = slice(i * each, (i + 1) * each)
            result[condition].append(subset(found, mine))
            best = i * each + int(price[mine].argmin())
            if np.isfinite(price[best]) and used[best] > LITTLE_L2 * l2:
                following[condition] = THRIFT * used[best]
        budget = following
        if not budget:
            break
    everything = {condition: join(parts) for condition, parts in result.items()}
    return {condition: subset(options, np.isfinite(options.energy_pj)) for condition, options in everything.items()}
