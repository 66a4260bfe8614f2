"""Rows of the climb, packed and run in chunks of the sizes that all tests of the search share."""

import numpy as np

from fadiff.search import conditions as conditions_module
from fadiff.search import options as options_module
from fadiff.search.climb import Priced, climb
from fadiff.search.conditions import Budgets, Condition
from fadiff.search.options import Options, subset

ROWS, PAIR_ROWS, MOVES = 64, 8, 80


def use_few_programs(patch):
    """Programs of one size for all tests: chunks say how work is compiled, never what comes out of it."""
    patch.setattr(conditions_module, "MOVE_WIDTHS", (MOVES,))
    patch.setattr(options_module, "ROW_CHUNKS", (ROWS,))
    patch.setattr(options_module, "PAIR_CHUNKS", (PAIR_ROWS,))


def climbed(problem, conditions, factors, budgets, weights, rounds, *, pairs=False, still=False):
    """Mappings ``[5, 8, rows]`` after at most so many rounds, their prices, and which rows could go on.

    A climb that stands still has only moves that change nothing.
    """
    size = PAIR_ROWS if pairs else ROWS
    parts = []
    for at in range(0, len(conditions), size):
        rows = [min(i, len(conditions) - 1) for i in range(at, at + size)]
        chosen = [conditions[i] for i in rows]
        packed = problem.rows(chosen, Budgets(*(np.float32(b)[rows] for b in budgets)), weights)
        start, moves = np.float32(factors)[:, :, rows], problem.moves(chosen)
        if still:
            moves = moves._replace(factor=np.ones_like(moves.factor))
        result = climb(packed, start, moves, problem.machine, problem.axes, np.int32(rounds), pairs=pairs)
        parts.append([np.asarray(array) for array in (result[0], *result[1], result[2])])
    whole = [np.concatenate(part, axis=-1)[..., : len(conditions)] for part in zip(*parts, strict=True)]
    return whole[0], Priced(*whole[1:-1]), whole[-1]


def priced(problem, conditions, factors, budgets, weights) -> Priced:
    """Mappings as they are."""
    return climbed(problem, conditions, factors, budgets, weights, 1, still=True)[1]


def ample(hardware, count) -> Budgets:
    """Budgets of layers that have the machine to themselves."""
    l2, l1 = np.full(count, hardware.usable_l2_bytes), np.full(count, hardware.usable_l1_bytes)
    return Budgets(l2, l2, l1)


def as_options(problem, starts, weights) -> dict[Condition, Options]:
    """Mappings by condition, as they are: those that fit the machine while their layer has it to itself.

    Two layers of a channel loop hold sums at the same time: each may take half of L1.
    """
    conditions = [condition for condition, mappings in starts.items() for _ in mappings]
    factors = np.stack([mapping for mappings in starts.values() for mapping in mappings], axis=-1)
    budgets = ample(problem.hardware, len(conditions))
    halves = np.array([0.5 if condition.x_role else 1 for condition in conditions])
    found = priced(problem, conditions, factors, budgets._replace(l1_bytes=budgets.l1_bytes * halves), weights)
    parts = (found.energy_pj, found.cycles, found.kept, found.passing, found.l1_bytes)
    options = Options(factors, found.order, *(part.astype(np.float64) for part in parts))
    fits = np.isfinite(found.price)
    return {c: subset(options, fits & np.array([other == c for other in conditions])) for c in starts}
