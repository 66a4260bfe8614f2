"""Co-design: descend, score the best few machines, shrink and climb from the best, and search it in full.

1. *Descend* (:mod:`fadiff.search.codesign.descent`): many machines with relaxed schedules, at once.
2. *Score*: a few distinct ones are scheduled by a short search. The relaxed ranking errs by some per cent. The best is
   *studied*: searched in full once, so that short searches of machines with the same array learn from it
   (:mod:`fadiff.search.exact.lessons`), and are nearly as good. Whenever the best machine has another array, and some
   more were scored, so is that one.
3. *Shrink*: memories no larger than their schedules need; then *climb*: neighbours (:mod:`.moves`) in turn, until none
   is better.
4. *Finish*: one longer search on the best machine, and its prices: what each number would buy.

Other searches stand beside it, to compare with, in the same space and time: a climb from random machines; samplers
(:mod:`.samplers`), which ask for one score after another instead of the first three steps, and shrink the best; and
machines that follow from mappings (:mod:`.derived`), without fusion, which only shrink.

Every machine that is scored is a row (:mod:`.rows`). Rows that are there already are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.cost import evaluate
from fadiff.errors import FadiffError
from fadiff.hardware import Memory
from fadiff.schedule.rules import violations
from fadiff.search import clock
from fadiff.search.codesign.cube import Cube
from fadiff.search.codesign.descent import Candidate, descend
from fadiff.search.codesign.moves import STRIDES, Move, needed_values, neighbours, single_moves
from fadiff.search.codesign.prices import Price, prices
from fadiff.search.codesign.rows import Row, Rows
from fadiff.search.codesign.samplers import SAMPLERS
from fadiff.search.codesign.settings import CodesignSettings
from fadiff.search.codesign.shortlist import distinct
from fadiff.search.driver import OutOfTimeError, Status
from fadiff.search.exact.lessons import Lessons
from fadiff.search.optimize import PROVEN_METHODS, optimize
from fadiff.search.programs import stepwise

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import Machine
    from fadiff.hardware.space import Values
    from fadiff.search.codesign.question import Question
    from fadiff.workload import Workload

IDLE_ASKS = 30
"""So many machines in a row that are known already end a sampler, or the starts of climbs."""
FULL, STUDY = "full", "study"
"""Origins of rows whose schedules were searched for longer: last of all, and so that machines alike can learn."""
HAIR = 1e-6
"""By how much a score must be better."""
DESCENT_SHARE, CLIMB_SHARE = 0.5, 0.8
"""Shares of the budget after which the descent, and the climb, end."""
QUICK_SHARE, LEARNING_SHARE, FULL_SHARE = 0.03, 0.02, 0.12
"""Shares of the budget for a quick search, for one that learns from a full one, and at least for a full one."""
STUDY_SHARE = 0.16
"""Share of the budget that a study takes at most."""
BETWEEN_STUDIES = 5
"""So many machines are scored at least before the best of them is studied."""


class Progress(NamedTuple):
    """Where co-design stands."""

    seconds: float
    phase: str
    detail: str
    rows: int
    best: Row | None


@dataclass(frozen=True)
class Design:
    """What co-design found."""

    question: Question
    best: Row
    evaluations: tuple[Evaluation, ...]
    front: tuple[Row, ...]
    rows: tuple[Row, ...]
    prices: tuple[Price, ...]
    trace: tuple[Progress, ...]
    seconds: float
    left_out: tuple[str, ...] = ()
    """What the budget left out, a sentence each."""

    @property
    def machine(self) -> Machine:
        """The best machine."""
        return self.question.space.at(self.best.values)


def codesign(
    question: Question,
    settings: CodesignSettings = CodesignSettings(),
    folder: Path | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> Design:
    """Find a machine and schedules for it; a folder keeps what was tried, and a search that was stopped goes on."""
    settings.check(question)
    search = _Search(question, settings, Rows(question, folder, how=settings.shared))
    trace: list[Progress] = []

    def note(status: Status, detail: str = "") -> None:
        told = detail or (f"{status.step} of {status.steps} steps" if status.steps else "")
        trace.append(Progress(search.seconds, status.phase, told, len(search.rows.rows), search.rows.best))
        if watch is not None:
            watch(trace[-1])

    try:
        for status, detail in search.run():
            note(status, detail)
    except KeyboardInterrupt:
        if search.rows.best is None:
            raise
        note(Status("interrupted"))
    best = search.rows.best
    if best is None:
        told = next(
            (row.problem for row in search.rows.rows if row.problem), "the budget was too short for one machine"
        )
        raise FadiffError(f"no machine of {question.space.name!r} was scored: {told}")
    rows = search.rows
    return Design(
        question, best, rows.evaluations(best), tuple(rows.front), tuple(rows.rows), prices(rows, best), tuple(trace),
        search.seconds, tuple(search.left_out(best)),
    )  # fmt: skip


@dataclass
class _Search:
    question: Question
    settings: CodesignSettings
    rows: Rows

    def __post_init__(self) -> None:
        self.began = clock.monotonic()
        self.lessons: dict[Hashable, tuple[Lessons, ...]] = {}
        """What was learned, a lesson for each network, by what machines must have in common for it."""
        self.studied = len(self.rows.rows)
        """How many machines had been scored at the last study."""
        self.without_descent = ""
        """Why nothing descended, where the budget was too short."""

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return clock.monotonic() - self.began

    def spent(self, share: float) -> bool:
        """Whether a share of the budget is used up."""
        return self.seconds > share * self.settings.budget_seconds

    def run(self) -> Iterator[tuple[Status, str]]:
        """All steps; each yields when it is done."""
        if self.settings.proposals in SAMPLERS:
            yield from self._sample()
        else:
            yield from self._score_proposed()
        yield from self._climb()
        best = self.rows.best
        finished = [row.values for row in self.rows.rows if row.origin == FULL]
        if best is not None and best.values not in finished:
            left = self.settings.budget_seconds - self.seconds
            effort = max(FULL_SHARE * self.settings.budget_seconds, left / 2)
            row = self.score(best.values, FULL, effort, anew=True)
            yield Status("finish"), _told(row)
        if best is not None:
            yield from self._price(self.rows.best or best)

    def _sample(self) -> Iterator[tuple[Status, str]]:
        """Score what a sampler asks for. One that goes on asks the same again, and rows that are there answer it."""
        asking = SAMPLERS[self.settings.proposals].start(self.question, self.settings.seed)
        values, idle = next(asking), 0
        while idle < IDLE_ASKS and not (self.rows.rows and self.spent(CLIMB_SHARE)):
            before = len(self.rows.rows)
            row = self.score(values, "proposed")
            if len(self.rows.rows) > before:
                yield Status("score"), _told(row)
            idle = 0 if len(self.rows.rows) > before else idle + 1
            yield from self._study()
            try:
                values = asking.send(row.score)
            except StopIteration:
                return

    def _score_proposed(self) -> Iterator[tuple[Status, str]]:
        """Score the few machines that are proposed at once."""
        if self.rows.proposed is None:
            yield from self._propose()
        proposed = self.rows.proposed or []
        for i, values in enumerate(proposed):
            if i and self.spent(CLIMB_SHARE):
                break
            row = self.score(values, "proposed")
            yield Status("score", i + 1, len(proposed)), _told(row)

    def _propose(self) -> Iterator[tuple[Status, str]]:
        """Choose the machines to score first: distinct ones, the best first."""
        question, settings = self.question, self.settings
        found: list[Candidate] = []
        if settings.descends:
            deadline = self.began + DESCENT_SHARE * settings.budget_seconds
            steps = descend(question, settings.descending, settings.seed, deadline, found, derived=settings.derives)
            try:
                for status in stepwise(steps):
                    yield status, ""
            except OutOfTimeError as early:
                self.without_descent = str(early) or "the budget was too short for the descent"
                yield Status("descend"), self.without_descent
        drawn = list(islice(random_machines(question, settings.seed), settings.candidates))
        proposed = distinct(question, [one.values for one in found] or drawn, settings.candidates)
        self.rows.propose(proposed, keep=not self.without_descent)

    def _climb(self) -> Iterator[tuple[Status, str]]:
        """Climb from the best machine, then from the others that were proposed, then from random ones, as long as there
        is time and machines are new; an opponent only shrinks its best."""
        climbed: set[Values] = set()
        idle = 0
        for start in self._starts():
            before = len(self.rows.rows)
            row = self.score(start, "start")
            if row.values not in climbed and row.score < inf:
                yield from self._climb_from(row, climbed)
            idle = 0 if len(self.rows.rows) > before else idle + 1
            if self.spent(CLIMB_SHARE) or idle == IDLE_ASKS:
                return

    def _starts(self) -> Iterator[Values]:
        """Machines to climb from."""
        if self.rows.best is None:
            return
        yield self.rows.best.values
        if self.settings.climbs:
            yield from [
                row.values for row in sorted(self.rows.rows, key=lambda row: row.score) if row.origin == "proposed"
            ]
            yield from random_machines(self.question, self.settings.seed + 1)

    def _climb_from(self, here: Row, climbed: set[Values]) -> Iterator[tuple[Status, str]]:
        """Shrink a machine and go to neighbours that are better, with shorter and shorter strides, up to a machine that
        was climbed before."""
        strides = list(STRIDES) if self.settings.climbs else [None]
        while strides and not self.spent(CLIMB_SHARE):
            yield from self._study()
            here = self.rows.find(here.values) or here
            climbed.add(here.values)
            there = yield from self._step(here, strides[0])
            if there is None:
                del strides[0]
            elif there.values in climbed:
                return
            else:
                here = there

    def _step(self, here: Row, stride: float | None) -> Generator[tuple[Status, str], None, Row | None]:
        """The machine shrunk, or the first neighbour at a stride that is better, if there is one."""
        shrunk = needed_values(self.question.space, here.values, self.rows.evaluations(here))
        moves = [Move("shrink", shrunk)] if shrunk != here.values else []
        for move in (*moves, *(() if stride is None else neighbours(self.question, here.values, stride))):
            if self.spent(CLIMB_SHARE):
                return None
            scored = len(self.rows.rows)
            row = self.score(move.values, move.name, near=here)
            if len(self.rows.rows) > scored:
                yield Status("climb"), _told(row)
            if row.score < here.score - HAIR:
                return row
        return None

    def _study(self) -> Iterator[tuple[Status, str]]:
        """Search the best machine in full, if no machine with its array was, and learn from it."""
        best = self.rows.best
        if best is None or self.settings.method not in PROVEN_METHODS or self.spent(CLIMB_SHARE):
            return
        kind = self.question.space.at(best.values).kind
        if kind not in self.lessons and len(self.rows.rows) >= self.studied + BETWEEN_STUDIES:
            self.lessons[kind] = tuple(Lessons() for _ in self.question.workloads)
            row = self.score(best.values, STUDY, STUDY_SHARE * self.settings.budget_seconds, anew=True)
            self.studied = len(self.rows.rows)
            yield Status("study"), _told(row)

    def _price(self, best: Row) -> Iterator[tuple[Status, str]]:
        """Score one step of each number of the best machine, also beyond the area; first more of each, then less."""
        steps = [move.values for move in single_moves(self.question.space, best.values)]
        for values in sorted(steps, key=lambda values: sum(values) < sum(best.values)):
            if self.rows.find(values) is not None or not self.spent(1.0):
                yield Status("price"), _told(self.score(values, "price", near=best))

    def left_out(self, best: Row) -> Iterator[str]:
        """What the budget left out."""
        if self.without_descent:
            yield f"{self.without_descent}; random machines took its place"
        steps = single_moves(self.question.space, best.values)
        known = [self.rows.find(move.values) is not None for move in steps]
        if not all(known):
            yield f"{known.count(False)} of {len(known)} prices were left out: the same command finds them"

    def score(
        self, values: Values, origin: str, effort: float | None = None, *, near: Row | None = None, anew: bool = False
    ) -> Row:
        """The best row of a machine: one that is there, or a new one from a search of so many seconds.

        Schedules of a machine nearby are taken where they are legal here and better: counts do not depend on sizes, so
        machines with one array can share them.
        """
        known = self.rows.find(values)
        machine = self.question.space.at(values)
        sources = [self.rows.evaluations(row) for row in (known, near) if row is not None and row.score < inf]
        if known is not None and not anew:
            if near is None or len(sources) < 2:
                return known
            best = self._best_of(machine, sources)
            if self.question.score(machine, best) >= known.score - HAIR:
                return known
            return self.rows.add(values, best, origin, 0.0, self.seconds)
        lessons = self.lessons.get(machine.kind, ()) if origin != FULL else ()
        learns = bool(lessons) and all(one.learned for one in lessons)
        share = LEARNING_SHARE if learns else QUICK_SHARE
        seconds = max(0.5, share * self.settings.budget_seconds) if effort is None else effort
        given = lessons if learns or origin == STUDY else (None,) * len(self.question.workloads)
        try:
            found = tuple(
                self._searched(workload, machine, seconds, lesson)
                for workload, lesson in zip(self.question.workloads, given, strict=True)
            )
        except FadiffError as error:
            return self.rows.add(values, (), origin, seconds, self.seconds, str(error))
        return self.rows.add(values, self._best_of(machine, [found, *sources]), origin, seconds, self.seconds)

    def _searched(self, workload: Workload, machine: Machine, seconds: float, lessons: Lessons | None) -> Evaluation:
        """The best schedule of a network on a machine, of a search that takes its share of so many seconds."""
        result = optimize(
            workload,
            _unfused(machine) if self.settings.derives else machine,
            method=self.settings.method,
            budget_seconds=seconds / len(self.question.workloads),
            seed=self.settings.seed,
            exact_factors=self.settings.exact_factors,
            objective=self.question.objective,
            lessons=lessons,
        )
        if result.stopped == "interrupt":  # a search keeps what it has; here the machines before this one are kept
            raise KeyboardInterrupt
        return next(_carried(result.best, machine))

    def _best_of(self, machine: Machine, sources: Sequence[tuple[Evaluation, ...]]) -> tuple[Evaluation, ...]:
        """For each network the best schedule of several that is legal on a machine; the first of them always is."""
        return tuple(
            min((one for each in options for one in _carried(each, machine)), key=self.question.objective.score)
            for options in zip(*sources, strict=True)
        )


def random_machines(question: Question, seed: int) -> Iterator[Values]:
    """Random machines that fill the area, if there is one to fill."""
    cube, random = Cube(question, fills=True), np.random.default_rng(seed)
    while True:
        yield cube.machine(random.random(len(cube.counts)).tolist())


def _carried(evaluation: Evaluation, machine: Machine) -> Iterator[Evaluation]:
    """The same schedule on another machine, if it is legal there."""
    if evaluation.schedule.machine == machine:
        yield evaluation
        return
    schedule = replace(evaluation.schedule, machine=machine, bound=None)
    if not violations(schedule):
        yield evaluate(schedule)


def _unfused(machine: Machine) -> Machine:
    """The same machine, on which every layer runs on its own."""
    nodes = (replace(node, fuses=False) if isinstance(node, Memory) else node for node in machine.nodes)
    return replace(machine, nodes=tuple(nodes))


def _told(row: Row) -> str:
    return row.problem or f"{row.origin}: score {row.score:.4f}, {row.area_mm2:.3g} mm2"
