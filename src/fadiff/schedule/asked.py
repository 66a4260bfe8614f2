"""What was asked of a schedule when it was made: constraints as sentences, and what they cost where that was priced.

The constraints themselves are in :mod:`fadiff.schedule.constraints`; what a schedule keeps of them is what they say.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from typing import Any

from fadiff.workload.names import shorten

MOST_TOLD = 5
"""Constraints that a sentence names, the costliest first."""
TELLING = 5e-4
"""A cost from which on a sentence names a constraint: less reads as 0.0%."""


@dataclass(frozen=True, slots=True)
class AskedOne:
    """One constraint."""

    constraint: str
    """What it says."""
    cost: float | None = None
    """What was gained where it is left out and the others are kept, as a share of what is reached so: these need not
    add up. None where it was not priced."""
    asks: MappingOf[str, Any] | None = field(default=None, compare=False)
    """The same as a file of constraints says it; None where it cannot. A layer that is kept is that of the schedule."""


@dataclass(frozen=True, slots=True)
class Asked:
    """All constraints under which a schedule was made.

    >>> print(Asked((AskedOne("b: K at cols is 4"),)))
    Made under 1 constraint.
    >>> print(Asked((AskedOne("b: K at cols is 4", 0.031), AskedOne("b -> s is not fused", 0.0)), 0.042))
    Constrained: 4.2% above the best that was found without constraints: b: K at cols is 4 costs 3.1%.
    """

    constraints: tuple[AskedOne, ...]
    cost: float | None = None
    """How far the schedule is above the best that was found without any of them, in the objective; None: not priced."""
    objective: str = "edp"
    """In which costs are measured."""

    @property
    def ranked(self) -> list[AskedOne]:
        """The costliest first; else as they were given."""
        return sorted(self.constraints, key=lambda one: -(one.cost or 0.0))

    def shortened(self, most: int) -> Asked:
        """The same in sentences of at most so many signs."""
        short = (replace(one, constraint=shorten(one.constraint, most), asks=None) for one in self.constraints)
        return replace(self, constraints=tuple(short), objective=shorten(self.objective, most))

    def __str__(self) -> str:
        if self.cost is None:
            return f"Made under {len(self.constraints)} constraint{'s' * (len(self.constraints) > 1)}."
        costly = [f"{one.constraint} costs {one.cost:.1%}" for one in self.ranked if (one.cost or 0.0) >= TELLING]
        more = [f"{len(costly) - MOST_TOLD} more cost less each"] if len(costly) > MOST_TOLD else []
        told = "; ".join([*costly[:MOST_TOLD], *more]) if costly else "no constraint on its own"
        measure = "" if self.objective == "edp" else f" ({self.objective})"
        return f"Constrained: {self.cost:.1%} above the best that was found without constraints{measure}: {told}."
