"""Energy against latency: schedules of one network on one machine of which none is better than another in both.

The exact search runs once, for EDP. What it knows, mappings, plans and their groups, is then cut again at other prices
of energy and time: first for each of them alone, then between neighbours of the convex hull that are farthest apart, at
the prices at which both cost the same. Whatever schedule is below their line is found there, or none of what is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Literal

from fadiff.errors import FadiffError
from fadiff.hardware import Machine, load_machine
from fadiff.search import clock
from fadiff.search.driver import Incumbent, OutOfTimeError, Settings, Status, search
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.method import ExactSearch
from fadiff.search.exact.steps import steps
from fadiff.search.objective import EDP, ENERGY, LATENCY, Objective
from fadiff.search.solver.network_bound import NEAR_GAP, PROVEN_GAP, Bound, Prover
from fadiff.workload import Workload, load_model

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Schedule

FIRST_SHARE = 0.6
"""Of the time to search, what the search for EDP takes at most."""
PROOF_SHARE = 0.2
"""Of all time, what the proof takes."""
TURNS_PER_POINT = 2
"""Prices that are tried, for each point that is asked for."""
FEWEST_POINTS = 2


@dataclass(frozen=True)
class Front:
    """What was found, and what is proven."""

    points: tuple[Evaluation, ...]
    """From the fastest to the most frugal; none is as good as another in both."""
    bound: Bound | None
    """No schedule is below the lines between its corners; None where no time was left."""
    seconds: float
    stopped: Literal["done", "budget", "interrupt"]

    def best(self, objective: Objective | str = EDP) -> Evaluation:
        """The point that is best by an objective."""
        return min(self.points, key=Objective.of(objective).score)

    def gap(self, point: Evaluation) -> float | None:
        """By how much of itself a point may be above the best there is, in energy and latency at once.

        That is, the largest g for which (E, T) / (1 + g) is not proven to be out of reach.
        """
        if self.bound is None:
            return None
        corners = self.bound.corners
        lines = [((0.0, 1.0), corners[0]), ((1.0, 0.0), corners[-1])]
        lines += [((a[1] - b[1], b[0] - a[0]), a) for a, b in pairwise(corners)]
        shares = [
            (weights[0] * at[0] + weights[1] * at[1]) / (weights[0] * point.energy_pj + weights[1] * point.cycles)
            for weights, at in lines
        ]
        return 1 / max(shares) - 1

    def prices(self, point: Evaluation) -> tuple[float, float] | None:
        """From how many to how many pJ a cycle may cost so that no other point is cheaper in sum; None if never."""
        hull = supported(self.points)
        cycles, slopes = [one.cycles for one in hull], [price_between(a, b) for a, b in pairwise(hull)]
        if point.cycles not in cycles:
            return None
        place = cycles.index(point.cycles)
        return (slopes[place] if place < len(slopes) else 0.0), (slopes[place - 1] if place else float("inf"))


class Kept:
    """Schedules of which none is as good as another in both."""

    def __init__(self) -> None:
        self.points: list[Evaluation] = []

    def add(self, new: Evaluation) -> None:
        """Keep a schedule, unless one that is there is as good; those that are not better than it go."""
        if not any(one.energy_pj <= new.energy_pj and one.cycles <= new.cycles for one in self.points):
            left = [one for one in self.points if one.energy_pj < new.energy_pj or one.cycles < new.cycles]
            self.points = sorted([*left, new], key=lambda one: one.cycles)

    def best(self, objective: Objective) -> Evaluation:
        """The best by an objective."""
        return min(self.points, key=objective.score)


@dataclass
class _Gathering(Incumbent):
    """An incumbent that keeps all that is worth keeping."""

    kept: Kept = field(default_factory=Kept)

    def offer(self, schedule: Schedule) -> Evaluation | None:
        """Score a schedule, and keep it."""
        evaluation = super().offer(schedule)
        if evaluation is not None:
            self.kept.add(evaluation)
        return evaluation


def price_between(fast: Evaluation, frugal: Evaluation) -> float:
    """pJ of a cycle at which two points cost the same."""
    return (fast.energy_pj - frugal.energy_pj) / (frugal.cycles - fast.cycles)


def supported(points: Sequence[Evaluation]) -> list[Evaluation]:
    """Points of a front, from the fastest on, that some price of a cycle makes the cheapest: its convex hull."""
    hull: list[Evaluation] = []
    for point in points:
        while len(hull) > 1 and price_between(hull[-2], hull[-1]) <= price_between(hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def spread(points: Sequence[Evaluation], most: int) -> tuple[Evaluation, ...]:
    """At most so many points of a front: its ends and the best EDP, then those that are farthest from all others."""
    first = (points[0], points[-1], min(points, key=EDP.score))
    chosen = list({one.cycles: one for one in first}.values())[:most]
    while len(chosen) < min(most, len(points)):
        taken = {one.cycles for one in chosen}
        left = [one for one in points if one.cycles not in taken]
        chosen.append(max(left, key=lambda one: min(_apart(one, other) for other in chosen)))
    return tuple(sorted(chosen, key=lambda one: one.cycles))


def _apart(one: Evaluation, other: Evaluation) -> float:
    return abs(log(one.energy_pj / other.energy_pj)) + abs(log(one.cycles / other.cycles))


def pareto(
    model: Workload | str,
    hardware: Machine | str,
    *,
    points: int = 12,
    budget_seconds: float = 120.0,
    seed: int = 0,
    exact_factors: bool = False,
    watch: Callable[[Status, Incumbent, float], None] | None = None,
) -> Front:
    """Schedules of a network on a machine from the fastest to the most frugal, at most so many, and what is proven.

    Same seed, same machine: the same front, unless the budget ended the search early (``front.stopped``).

    >>> front = pareto("mobilenet_v1", "gemmini-small", budget_seconds=0.1)
    >>> front.points[0].cycles <= front.points[-1].cycles
    True
    """
    if points < FEWEST_POINTS:
        raise FadiffError(f"{points} points are asked for: a front has at least {FEWEST_POINTS}")
    if not budget_seconds > 0:
        raise FadiffError(f"the budget is {budget_seconds} seconds: it must be positive")
    workload = load_model(model) if isinstance(model, str) else model
    machine = load_machine(hardware) if isinstance(hardware, str) else hardware
    began, kept = clock.monotonic(), Kept()
    result = search(
        workload,
        machine,
        partial(_method, kept=kept, turns=TURNS_PER_POINT * points),
        Settings(seed, exact_factors=exact_factors),
        budget_seconds=budget_seconds * (1 - PROOF_SHARE),
        watch=watch,
    )
    kept.add(result.best)
    made_by = {"version": version("fadiff-scheduler"), "method": "exact", "seed": seed}
    chosen = tuple(replace(one, schedule=replace(one.schedule, made_by=made_by)) for one in spread(kept.points, points))
    left, stopped, bound = began + budget_seconds - clock.monotonic(), result.stopped, None
    if stopped != "interrupt" and left > 0:
        try:
            bound = proven(chosen, left, exact_factors=exact_factors)
        except KeyboardInterrupt:
            stopped = "interrupt"
    return Front(chosen, bound, clock.monotonic() - began, stopped)


def _method(
    workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent, *, kept: Kept, turns: int
) -> Iterator[Status]:
    """The search for EDP, then turns to other prices."""
    first = clock.monotonic() + FIRST_SHARE * settings.seconds_left
    early = replace(settings, deadline=first)
    task = Task.of(workload, machine, early)
    known = ExactSearch(task, early, incumbent)
    try:
        yield from steps(known)
    except OutOfTimeError:
        if not known.groups:
            raise
    kept.add(known.best)
    task.deadline, known.settings = settings.deadline, settings

    def turn(objective: Objective) -> Iterator[Status]:
        best = _Gathering(objective, best=kept.best(objective), exact_factors=settings.exact_factors, kept=kept)
        yield from known.turn_to(objective, best)
        if objective.one_sided:
            yield from known.solve()
            if task.fusing is not None:
                yield from known.refine()
        yield from known.polish()

    yield from turn(LATENCY)
    yield from turn(ENERGY)
    tried: set[float] = set()
    for _ in range(turns):
        hull = supported(kept.points)
        open_ = [(a, b) for a, b in pairwise(hull) if price_between(a, b) not in tried]
        if not open_:
            return
        price = price_between(*max(open_, key=lambda pair: _apart(*pair)))
        tried.add(price)
        yield from turn(Objective(1.0, 0.0, price))


def proven(points: Sequence[Evaluation], budget_seconds: float, *, exact_factors: bool = False) -> Bound:
    """What no schedule is below: lines at the prices of EDP, of latency and energy alone, and between points."""
    prover = Prover(min(points, key=EDP.score), EDP, exact_factors=exact_factors)
    bound: Bound | None = None
    began = clock.monotonic()
    for share, objective in ((0.4, EDP), (0.7, LATENCY), (1.0, ENERGY)):
        prover.turn_to(min(points, key=objective.score), objective)
        if objective is ENERGY:
            for fast, frugal in pairwise(supported(points)):
                prover.ask((1.0, price_between(fast, frugal)))
        left = began + share * budget_seconds - clock.monotonic()
        for bound in prover.run(max(0.0, left), PROVEN_GAP, NEAR_GAP):  # noqa: B007  (the last is the best)
            pass
    assert bound is not None, "a proof begins with a bound"
    return bound
