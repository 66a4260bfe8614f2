"""Co-design as experiments run it: what it needs is compiled before its time begins, which is that of a core.

So a search that other work interrupts gets about as much done as one that has the computer for itself.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING

from fadiff.search import clock
from fadiff.search.codesign import CodesignSettings, Question, codesign
from fadiff.search.codesign.descent import descend
from fadiff.search.optimize import optimize
from fadiff.search.programs import stepwise

if TYPE_CHECKING:
    from collections.abc import Hashable

    from fadiff.search.codesign import Design

_compiled: set[Hashable] = set()
"""What was compiled in this process: networks, spaces, and how they are searched."""


def design_of(question: Question, settings: CodesignSettings) -> Design:
    """Do a search for one network. Interrupted, it is no result."""
    with clock.of_cores():
        _compile(question, settings)
        design = codesign(question, settings)
    if design.trace and design.trace[-1].phase == "interrupted":
        raise KeyboardInterrupt
    return design


def _compile(question: Question, settings: CodesignSettings) -> None:
    """Take the first steps of a descent, and search one machine in the middle of the space, unless that was done."""
    space, (workload,) = question.space, question.workloads
    network = workload.name, space.machine.name
    searched = *network, settings.method, settings.derives
    if searched not in _compiled:
        middle = space.at(space.rounded([sqrt(number.low * number.high) for number in space.numbers]))
        optimize(workload, middle, method=settings.method, budget_seconds=settings.budget_seconds)
        _compiled.add(searched)
    descended = *network, settings.descending, settings.derives
    if settings.descends and descended not in _compiled:
        next(stepwise(descend(question, settings.descending, settings.seed, inf, [], derived=settings.derives)))
        _compiled.add(descended)
