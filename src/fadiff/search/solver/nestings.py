"""Which loops of a memory may run inside which, where an order is asked for: lemma 3 of docs/solver.md."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from fadiff.schedule.constraint_kinds import Ranks
from fadiff.schedule.nest import IRRELEVANT_DIMS


class Nesting(NamedTuple):
    """Loops of a memory that may run, as far as they matter to a tensor that closes there."""

    inside: tuple[int, ...]
    """Irrelevant to it, and perhaps inside of all that are relevant."""
    outside: tuple[int, ...]
    """The others."""


@cache
def nestings(tensor: str, ranks: tuple[Ranks, ...], running: tuple[int, ...]) -> tuple[Nesting, ...]:
    """What may run where a tensor closes at a memory, for each loop that may be the innermost relevant to it.

    `running` are the dims that may have a loop at all. Those that must stand further out than that loop do not stay
    inside of it, and relevant ones that must stand further in do not run. Of two nestings of which one allows all that
    the other does, one remains.
    """
    own = IRRELEVANT_DIMS[tensor]
    relevant = tuple(d for d in range(8) if d not in own)
    found: dict[Nesting, None] = {}
    for closing in tuple(d for d in relevant if d in running) or relevant:
        inside = tuple(d for d in own if not stands_outside(d, closing, ranks))
        free = (d for d in relevant if not stands_outside(closing, d, ranks))
        found[Nesting(inside, tuple(sorted({*free, *own} - {*inside})))] = None
    kept = [one for one in found if not any(_allows(other, one) for other in found if other != one)]
    return tuple(kept)


def _allows(one: Nesting, other: Nesting) -> bool:
    """Whether a nesting allows all that another one does."""
    return {*one.inside} >= {*other.inside} and {*one.inside, *one.outside} >= {*other.inside, *other.outside}


def inner(loop: int, ranks: tuple[Ranks, ...]) -> tuple[int, ...]:
    """Dims whose loops must stand inside that over one: where it is the innermost, they have none."""
    return tuple(d for d in range(8) if stands_outside(loop, d, ranks))


def stands_outside(one: int, other: int, ranks: tuple[Ranks, ...]) -> bool:
    """Whether the loop over a dim must stand outside that over another, where both run."""
    return any(rank[one] < rank[other] for rank in ranks)
