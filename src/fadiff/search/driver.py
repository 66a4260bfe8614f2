"""One driver for every search method: one budget, one incumbent, one way to stop.

A method is a generator: calling it initializes the search, each `next` is one bounded step that may offer schedules
to the incumbent and reports where the search stands. The driver stops it when it is done, when the time is over, or
when the user interrupts; the incumbent, scored by the exact evaluator only, is always legal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf, log
from typing import TYPE_CHECKING, Literal, NamedTuple

from fadiff.cost import Evaluation, evaluate
from fadiff.errors import FadiffError
from fadiff.schedule.constraints import Constraints, ImpossibleError
from fadiff.schedule.rules import violations
from fadiff.search import clock
from fadiff.search.objective import EDP, Objective, Weights

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.schedule import Schedule
    from fadiff.search.carry import Carried
    from fadiff.search.exact.lessons import Lessons
    from fadiff.workload import Workload


class OutOfTimeError(Exception):
    """The budget ended in the middle of a step, or is too short for the next; the incumbent stands.

    The message says what is left out and why, where that is not simply the end of the time.
    """


SEARCH_SHARE, PATIENT_SHARE = 0.9, 0.5
"""Of a budget, what the search has where a proof follows, so that there always is one; and after which it is over where
the last half of its time brought little."""
LITTLE_GAIN = 2e-3
"""A schedule that is better by less than this share does not count."""
PIECE_SECONDS = 0.5
"""Work that comes in small units is done in pieces of about this length."""


class Pace:
    """How long a unit of some work takes, so that nothing is begun that would not end in time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Of a unit, by the last piece; 0 before the first."""

    def piece(self, most: int) -> int:
        """How many units to do at once, of so many at most: one, as long as none is measured."""
        return max(1, min(most, int(PIECE_SECONDS / self.seconds))) if self.seconds else 1

    @contextmanager
    def work(self, deadline: float, units: int = 1) -> Generator[None]:
        """Do some units, and measure them; raises :class:`OutOfTimeError` where they would end after the deadline."""
        began = clock.monotonic()
        if began + units * self.seconds > deadline:
            raise OutOfTimeError
        yield
        self.seconds = (clock.monotonic() - began) / units


class Limits(NamedTuple):
    """What a schedule may take at most."""

    energy_pj: float = inf
    cycles: float = inf

    def excess(self, evaluation: Evaluation) -> float:
        """By how much a schedule is over its limits: logarithms of ratios, added up; 0 within them.

        One part in a billion does not count.
        """
        over = log(evaluation.energy_pj) - log(self.energy_pj), log(evaluation.cycles) - log(self.cycles)
        return sum(one for one in over if one > 1e-9)


class Status(NamedTuple):
    """Where a search stands after a step."""

    phase: str
    step: int = 0
    steps: int = 0
    temperature: float | None = None
    legal_share: float | None = None
    """Share of the restarts whose last proposal was legal as it stood."""
    restart_edp_uj_cycles: tuple[float, ...] | None = None
    """EDP of each restart's last proposal, which need not be legal yet."""


class TracePoint(NamedTuple):
    """One step of a search, for the trace."""

    seconds: float
    phase: str
    step: int
    temperature: float | None
    legal_share: float | None
    best_edp_uj_cycles: float
    found_edp_uj_cycles: float | None
    """The best that the method itself has offered; the greedy schedule it starts from does not count."""
    fused_edges: int
    restart_edp_uj_cycles: tuple[float, ...] | None = None


@dataclass
class Incumbent:
    """The best legal schedule so far."""

    objective: Objective
    limits: Limits = Limits()
    best: Evaluation | None = None
    unfused: Evaluation | None = None
    """The best schedule so far that fuses nothing."""
    found: Evaluation | None = None
    """The best schedule that the method itself offered."""
    offered: int = 0
    exact_factors: bool = False
    constraints: Constraints = Constraints()
    stress: Weights = (1.0, 1.0)
    """By how much more a pJ and a cycle count than the objective says, so that limits are kept."""
    starts: tuple[Schedule, ...] = ()
    """Legal schedules to start from, besides the greedy one: what carried over from one that the user had."""
    began: float = field(default_factory=lambda: clock.monotonic())
    gained: tuple[float, tuple[float, float]] = (-inf, (inf, inf))
    """When it last became better by more than a little, and how good it was then."""

    def offer(self, schedule: Schedule) -> Evaluation | None:
        """Score a schedule and keep it where it is the best; None if it is not legal, or not what is asked for."""
        self.offered += 1
        if violations(schedule) or (self.exact_factors and not schedule.exact_factors):
            return None
        if self.constraints.broken(schedule):
            return None
        evaluation = evaluate(schedule)
        self.best = self._better(evaluation, self.best)
        self.found = self._better(evaluation, self.found)
        excess, score = self._rank(self.best)
        if excess < self.gained[1][0] or score < self.gained[1][1] - LITTLE_GAIN:
            self.gained = clock.monotonic(), (excess, score)
        if not schedule.fused_edges:
            self.unfused = self._better(evaluation, self.unfused)
        return evaluation

    def _better(self, new: Evaluation, old: Evaluation | None) -> Evaluation:
        return new if old is None or self._rank(new) < self._rank(old) else old

    def _rank(self, evaluation: Evaluation) -> tuple[float, float]:
        """What is within limits comes first, or nearer to them; then the objective decides."""
        return self.limits.excess(evaluation), self.objective.score(evaluation)


MOST_SEED = 2**32 - 1
"""Up to here every generator of random numbers takes seeds."""


def check_seed(seed: int) -> None:
    """Refuse a seed that some generator does not take."""
    if not 0 <= seed <= MOST_SEED:
        raise FadiffError(f"the seed is {seed}: it must be between 0 and {MOST_SEED}")


@dataclass(frozen=True)
class Settings:
    """What a search is told."""

    seed: int = 0
    restarts: int | None = None
    """Restarts of the method's own kind; None leaves the choice to the method."""
    objective: Objective = EDP
    limits: Limits = Limits()
    exact_factors: bool = False
    """Whether all factors must divide what they cut, so that no tile is cut at its end."""
    start: Schedule | None = None
    """A schedule to start from, also of another network or machine."""
    constraints: Constraints = Constraints()
    """What is asked of schedules besides."""
    lessons: Lessons | None = None
    """What searches on machines alike taught, or where to keep it."""
    deadline: float = inf
    """When the budget ends, on the clock of `fadiff.search.clock`."""
    patient_until: float = inf
    """On that clock, from when on a search is over that hardly gains."""

    def __post_init__(self) -> None:
        check_seed(self.seed)

    @property
    def seconds_left(self) -> float:
        """What is left of the budget."""
        return self.deadline - clock.monotonic()

    def check_gain(self, incumbent: Incumbent) -> None:
        """End a search whose last half brought little, where something else has the time that is left."""
        now = clock.monotonic()
        if now > self.patient_until and now - incumbent.gained[0] > (now - incumbent.began) / 2:
            raise OutOfTimeError(
                f"the last half of its time brought less than {LITTLE_GAIN:.1%}, so the proof has the rest"
            )


Method = Callable[["Workload", "Machine", Settings, Incumbent], Iterator[Status]]


@dataclass(frozen=True)
class Result:
    """What a search found."""

    best: Evaluation
    greedy: Evaluation
    unfused: Evaluation
    found: Evaluation | None
    """The best that the method itself offered; None if it offered nothing legal."""
    seconds: float
    stopped: Literal["done", "budget", "interrupt"]
    trace: list[TracePoint] = field(default_factory=list[TracePoint])
    stress: Weights = (1.0, 1.0)
    """By how much more a pJ and a cycle had to count than the objective says, so that limits were kept."""
    left_out: str = ""
    """What of the method did not fit in the budget, and why; empty where time simply ran out."""
    carried: Carried | None = None
    """What carried over from the schedule that the search started from."""

    @property
    def schedule(self) -> Schedule:
        """The schedule itself."""
        return self.best.schedule


def check_energies(machine: Machine) -> None:
    """Refuse a machine on which every schedule has the same EDP."""
    vector_pj = 0.0 if machine.vector is None else machine.vector.pj
    if not any((machine.mac_pj, vector_pj, *(energy for m in machine.memories for energy in (m.read_pj, m.write_pj)))):
        raise FadiffError(f"all energies of {machine.name!r} are 0, and so is every EDP: give some pj a value above 0")


def search(
    workload: Workload,
    machine: Machine,
    method: Method,
    settings: Settings,
    *,
    budget_seconds: float = inf,
    proof_follows: bool = False,
    watch: Callable[[Status, Incumbent, float], None] | None = None,
) -> Result:
    """Run a method from the greedy schedule on, until it is done, out of time, or interrupted. Where a proof follows,
    it has some of the budget, and more where the search hardly gains.

    Same seed, same machine: the same schedule, unless the budget or the user ended the search early.
    """
    from fadiff.search.carry import carry
    from fadiff.search.greedy import growing
    from fadiff.search.solver.contradiction import plain_contradiction

    began = clock.monotonic()
    check_energies(machine)
    if proof_follows:
        patient_until = began + budget_seconds * PATIENT_SHARE
        settings = replace(settings, deadline=began + budget_seconds * SEARCH_SHARE, patient_until=patient_until)
    else:
        settings = replace(settings, deadline=began + budget_seconds)
    exact, constraints = settings.exact_factors, settings.constraints
    incumbent = Incumbent(settings.objective, settings.limits, exact_factors=exact, constraints=constraints)
    schedules = growing(workload, machine, settings.deadline, exact_factors=exact, constraints=constraints)
    try:
        if constraints and (why := plain_contradiction(workload, machine, constraints)):
            raise ImpossibleError(why)
        coarse = incumbent.offer(start := next(schedules))
        if coarse is None:
            broken = next(iter([*map(str, violations(start)), *constraints.broken(start)]), "its tiles do not divide")
            raise ImpossibleError(f"the greedy schedule does not do: {broken}")
    except ImpossibleError as impossible:
        from fadiff.search.asking import refusal

        raise refusal(workload, machine, constraints, str(impossible), exact_factors=exact) from None
    first, incumbent.found = coarse, None
    stopped: Literal["done", "budget", "interrupt"] = "done"
    left_out = ""
    trace: list[TracePoint] = []

    def note(status: Status) -> None:
        best, seconds = incumbent.best or first, clock.monotonic() - began
        point = TracePoint(
            seconds=seconds,
            best_edp_uj_cycles=best.edp_uj_cycles,
            found_edp_uj_cycles=incumbent.found and incumbent.found.edp_uj_cycles,
            fused_edges=len(best.schedule.fused_edges),
            **{name: value for name, value in status._asdict().items() if name in TracePoint._fields},
        )
        trace.append(point)
        if watch is not None:
            watch(status, incumbent, seconds)

    carried = None if settings.start is None else carry(settings.start, coarse.schedule, constraints)
    try:
        for schedule in schedules:
            first, incumbent.found = incumbent.offer(schedule) or coarse, None
        note(Status("greedy"))
        if carried is not None:
            incumbent.starts = carried.schedules
            for schedule in carried.schedules:
                incumbent.offer(schedule)
            incumbent.found = None
            note(Status("start"))
        for status in method(workload, machine, settings, incumbent):
            note(status)
            if settings.seconds_left <= 0:
                break
        # A method that sees the time run out may end by itself.
        if settings.seconds_left <= 0:
            stopped = "budget"
    except OutOfTimeError as early:
        stopped, left_out = "budget", str(early)
    except KeyboardInterrupt:
        stopped = "interrupt"
    if not trace:
        note(Status("greedy"))
    best, unfused, seconds = incumbent.best or first, incumbent.unfused or first, clock.monotonic() - began
    return Result(best, first, unfused, incumbent.found, seconds, stopped, trace, incumbent.stress, left_out, carried)
