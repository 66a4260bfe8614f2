"""Rows of the climb, packed and run in chunks of the sizes that all tests of the search share."""

import numpy as np

from fadiff.search.climb import Priced, climb
from fadiff.search.conditions import Budgets
from fadiff.search.options import Options


def climbed(problem, conditions, factors, budgets, weights, rounds, *, pairs=False):
    """Mappings ``[5, 8, rows]`` after at most so many rounds, their prices, and which rows could go on."""
    size = 8 if pairs else 64
    parts = []
    for at in range(0, len(conditions), size):
        rows = [min(i, len(conditions) - 1) for i in range(at, at + size)]
        chosen = [conditions[i] for i in rows]
        packed = problem.rows(chosen, Budgets(*(np.float32(b)[rows] for b in budgets)), weights)
        start, moves = np.float32(factors)[:, :, rows], problem.moves(chosen)
        result = climb(packed, start, moves, problem.machine, problem.axes, np.int32(rounds), pairs=pairs)
        parts.append([np.asarray(array) for array in (result[0], *result[1], result[2])])
    whole = [np.concatenate(part, axis=-1)[..., : len(conditions)] for part in zip(*parts, strict=True)]
    return whole[0], Priced(*whole[1:-1]), whole[-1]


def priced(problem, conditions, factors, budgets, weights) -> Priced:
    """Mappings as they are: no round is climbed."""
    return climbed(problem, conditions, factors, budgets, weights, 0)[1]


def ample(hardware, count) -> Budgets:
    """Budgets of layers that have the machine to themselves."""
    l2, l1 = np.full(count, hardware.usable_l2_bytes), np.full(count, hardware.usable_l1_bytes)
    return Budgets(l2, l2, l1)


def as_options(problem, conditions, factors, weights) -> Options:
    """Mappings, not climbed, that fit the machine if their layer has it to itself."""
    found = priced(problem, conditions, factors, ample(problem.hardware, len(conditions)), weights)
    fits = np.isfinite(found.price)
    parts = (found.energy_pj, found.cycles, found.kept, found.passing, found.l1_bytes)
    return Options(factors[:, :, fits], found.order[fits], *(part[fits].astype(float) for part in parts))
