"""Co-design as experiments run it: what it needs is compiled before its time begins."""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING

from fadiff.search.codesign import CodesignSettings, Question, codesign
from fadiff.search.codesign.descent import descend
from fadiff.search.optimize import optimize
from fadiff.search.programs import stepwise

if TYPE_CHECKING:
    from fadiff.search.codesign import Design


def design_of(question: Question, settings: CodesignSettings) -> Design:
    """Do a search for one network. Interrupted, it is no result."""
    _compile(question, settings)
    design = codesign(question, settings)
    if design.trace and design.trace[-1].phase == "interrupted":
        raise KeyboardInterrupt
    return design


def _compile(question: Question, settings: CodesignSettings) -> None:
    """Take the first steps of a descent, and search one machine in the middle of the space."""
    space, (workload,) = question.space, question.workloads
    middle = space.at(space.rounded([sqrt(number.low * number.high) for number in space.numbers]))
    optimize(workload, middle, method=settings.method, budget_seconds=settings.budget_seconds)
    if settings.descends:
        next(stepwise(descend(question, settings.descending, settings.seed, inf, [], derived=settings.derives)))
