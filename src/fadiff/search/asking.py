"""Questions about constraints: which of them contradict each other, and what each of them costs."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING

from fadiff.errors import FadiffError
from fadiff.schedule.asked import Asked
from fadiff.schedule.constraints import Constraints, ImpossibleError
from fadiff.schedule.constraints_written import asked_one
from fadiff.schedule.rules import violations
from fadiff.search import clock
from fadiff.search.driver import Limits
from fadiff.search.greedy import growing
from fadiff.search.objective import EDP, Objective
from fadiff.search.solver.contradiction import contradiction, plain_contradiction

if TYPE_CHECKING:
    from collections.abc import Callable

    from fadiff.cost import Evaluation
    from fadiff.hardware import Machine
    from fadiff.workload import Workload

LONGEST_SECONDS = 20.0
"""For finding the smallest set of constraints that contradict each other: then the set may hold more than it needs."""


def refusal(
    workload: Workload, machine: Machine, constraints: Constraints, why: str, *, exact_factors: bool = False
) -> ImpossibleError:
    """What to say of constraints for which no schedule was found: whether it is proven that there is none, and the
    smallest set of them of which the same can be said.

    A deletion filter: each constraint in turn is left out, for good if the others contradict each other without it, or
    where nothing is proven, if still no schedule is found.
    """
    end = clock.monotonic() + LONGEST_SECONDS

    def late() -> bool:
        return clock.monotonic() > end

    def proof(fewer: Constraints) -> str | None:
        return contradiction(workload, machine, fewer, exact_factors=exact_factors, stop=late)

    def judged(fewer: Constraints) -> str | None:
        if plain := plain_contradiction(workload, machine, fewer):
            return plain
        found = _problem(workload, machine, fewer, exact_factors=exact_factors)
        return found if found is None or proven is None else proof(fewer)

    proven = proof(constraints)
    why = proven or why
    left = list(constraints.given)
    for one in constraints.given:
        if clock.monotonic() > end:
            break
        fewer = [other for other in left if other is not one]
        still = judged(constraints.only(fewer))
        if still is not None:
            left, why = fewer, still
    where = f"{workload.name} on {machine.name}"
    if not left:
        return ImpossibleError(f"no schedule of {where} was found: {why}")
    many = len(left) > 1
    told = f"{'these together' if many else 'this'}: {'; '.join(map(str, left))} ({why})"
    if proven is None:
        advice = "ask for less" if not many else "leave one of them out, or ask for less"
        return ImpossibleError(f"no schedule of {where} was found that keeps {told}; not proven impossible: {advice}")
    return ImpossibleError(f"no schedule of {where} keeps {told}{': leave one of them out' if many else ''}")


def _problem(workload: Workload, machine: Machine, constraints: Constraints, *, exact_factors: bool) -> str | None:
    """Why no schedule is found at once that keeps constraints; None where one is."""
    try:
        schedule = next(growing(workload, machine, exact_factors=exact_factors, constraints=constraints))
    except FadiffError as error:
        return str(error)
    return next(iter([*map(str, violations(schedule)), *constraints.broken(schedule)]), None)


def priced(
    best: Evaluation,
    constraints: Constraints,
    search: Callable[[Constraints], Evaluation],
    objective: Objective = EDP,
    limits: Limits = Limits(),
) -> Asked:
    """Constraints with what they cost a schedule that keeps them, by searches without all of them and without each.

    The schedule keeps what is left of them too, so none of these can be worse; a longer search may tell more.
    """

    def better(one: Evaluation, other: Evaluation) -> Evaluation:
        return min(one, other, key=lambda found: (limits.excess(found), objective.score(found)))

    def above(other: Evaluation) -> float:
        return exp(objective.score(best) - objective.score(other)) - 1

    given = constraints.given
    without = [better(best, search(constraints.only([o for o in given if o is not one]))) for one in given]
    free = best
    for found in (*without, *((search(Constraints()),) if len(given) > 1 else ())):
        free = better(free, found)
    each = (asked_one(one, above(found)) for one, found in zip(given, without, strict=True))
    return Asked(tuple(each), above(free), objective.name)
