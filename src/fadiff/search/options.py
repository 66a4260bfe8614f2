"""Good mappings of layers under conditions: a few each, trading L2 for energy and time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from fadiff.search.climb import climb
from fadiff.search.conditions import Budgets, Condition, Problem, bucket, prime_powers, useful_slots
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float32]

ROW_CHUNKS = (32, 128, 512)
"""Rows of one compiled call: few sizes, so that programs are reused."""
BUDGET_SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Shares of L2 for which each condition of a group gets its best mapping."""


class Options(NamedTuple):
    """Mappings of one layer under one condition; the last axis runs over them."""

    factors: FloatArray
    """``[5, 8, options]`` spatial, t0, t1, t2, private part of t3."""
    order: NDArray[np.int64]
    """Index into :data:`fadiff.search.climb.ORDERS3`."""
    energy_pj: NDArray[np.float64]
    cycles: NDArray[np.float64]
    kept: NDArray[np.float64]
    passing: NDArray[np.float64]
    l1_bytes: NDArray[np.float64]


def subset(options: Options, index: slice | NDArray[np.bool_]) -> Options:
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


def solve(
    problem: Problem, rows: Sequence[Row], weights: tuple[float, float], *, pairs: bool, max_rounds: int = 60
) -> Options:
    """Climb from every row; options in the order of rows, with infinite energy where nothing fits."""
    chunk = bucket(len(rows), ROW_CHUNKS[:1] if pairs else ROW_CHUNKS)
    chunk = min(chunk, ROW_CHUNKS[0] if pairs else ROW_CHUNKS[-1])
    results = [
        _solve_chunk(problem, rows[at : at + chunk], chunk, weights, pairs=pairs, max_rounds=max_rounds)
        for at in range(0, len(rows), chunk)
    ]
    return join(results)


def _solve_chunk(
    problem: Problem, rows: Sequence[Row], size: int, weights: tuple[float, float], *, pairs: bool, max_rounds: int
) -> Options:
    """One compiled call; missing rows repeat the last."""
    filled = [*rows, *([rows[-1]] * (size - len(rows)))]
    conditions = [row.condition for row in filled]
    budgets = Budgets(*(np.array(values, dtype=np.float32) for values in list(zip(*filled, strict=True))[2:]))
    start = np.stack([row.start for row in filled], axis=-1)
    packed = problem.rows(conditions, budgets, weights)
    factors, priced = climb(
        packed, start, problem.moves(conditions), problem.machine, problem.axes, np.int32(max_rounds), pairs=pairs
    )
    factors, priced = jax.device_get((factors, priced))
    count = len(rows)
    fits = np.isfinite(priced.price[:count])
    return Options(
        factors=np.asarray(factors)[:, :, :count],
        order=np.asarray(priced.order)[:count].astype(np.int64),
        energy_pj=np.where(fits, np.asarray(priced.energy_pj, dtype=np.float64)[:count], np.inf),
        cycles=np.where(fits, np.asarray(priced.cycles, dtype=np.float64)[:count], np.inf),
        kept=np.asarray(priced.kept, dtype=np.float64)[:count],
        passing=np.asarray(priced.passing, dtype=np.float64)[:count],
        l1_bytes=np.asarray(priced.l1_bytes, dtype=np.float64)[:count],
    )


def from_dram(problem: Problem, condition: Condition) -> FloatArray:
    """A start with the array as full as it gets and every loop at L3."""
    start = np.ones((5, 8), dtype=np.float32)
    start[4] = problem.private_sizes(condition)
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
        rest = int(start[4, d])
        for prime in (p for p in prime_powers(rest, most=1)):
            while rest % prime == 0:
                rest //= prime
                slot = slots[random.integers(len(slots))]
                start[4, d] /= prime
                start[slot, d] *= prime
    return start


@lru_cache(maxsize=4096)
def _largest_divisor(number: int, most: int) -> int:
    return max(d for d in range(1, most + 1) if number % d == 0)


def alone(
    problem: Problem, conditions: Sequence[Condition], weights: tuple[float, float], seed: int, starts: int
) -> dict[Condition, Options]:
    """The best mapping of each layer on its own: many starts, then moves in pairs from the best."""
    random = np.random.default_rng(seed)
    l2, l1 = problem.hardware.usable_l2_bytes, problem.hardware.usable_l1_bytes

    def rows(condition: Condition) -> list[Row]:
        begin = [from_dram(problem, condition), pinned(problem, condition)]
        begin += [scattered(problem, condition, random) for _ in range(starts - 2)]
        return [Row(condition, start, l2, l2, l1) for start in begin]

    every = [row for condition in conditions for row in rows(condition)]
    found = solve(problem, every, weights, pairs=False)
    best: list[Row] = []
    for i, condition in enumerate(conditions):
        mine = slice(i * starts, (i + 1) * starts)
        price = weights[0] * found.energy_pj[mine] + weights[1] * found.cycles[mine]
        for j in np.argsort(price, kind="stable")[:2]:
            best.append(Row(condition, found.factors[:, :, i * starts + j], l2, l2, l1))
    refined = solve(problem, best, weights, pairs=True)
    return {condition: subset(refined, slice(2 * i, 2 * i + 2)) for i, condition in enumerate(conditions)}


def grouped(
    problem: Problem, conditions: Sequence[Condition], weights: tuple[float, float], seed: int
) -> dict[Condition, Options]:
    """Mappings of layers inside groups: the best for each of several shares of L2."""
    random = np.random.default_rng(seed)
    l2, l1 = problem.hardware.usable_l2_bytes, problem.hardware.usable_l1_bytes

    def rows(condition: Condition) -> list[Row]:
        # Both layers of a channel loop hold sums at the same time.
        room1 = l1 / 2 if condition.x_role else l1
        starts = (
            from_dram(problem, condition),
            pinned(problem, condition),
            scattered(problem, condition, random),
        )
        return [Row(condition, start, share * l2, share * l2, room1) for share in BUDGET_SHARES for start in starts]

    per_condition = [rows(condition) for condition in conditions]
    found = solve(problem, [row for mine in per_condition for row in mine], weights, pairs=False)
    result: dict[Condition, Options] = {}
    at = 0
    for condition, mine in zip(conditions, per_condition, strict=True):
        options = subset(found, slice(at, at + len(mine)))
        at += len(mine)
        result[condition] = subset(options, np.isfinite(options.energy_pj))
    return result
