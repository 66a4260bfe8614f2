r"""What any schedule of a network costs at least.

At prices of a pJ and a cycle every schedule costs at least what its layers cost in modes on which neighbours agree
(:mod:`fadiff.search.solver.modes`): a line in the (E, T) plane that no schedule is below. The least E*T above all lines
bounds the EDP. The modes of a layer are bounded by branch and bound (:mod:`fadiff.search.solver.layer_bound`); those in
which layers are when all agree are looked at again. Where neighbours agree on a box of trips but mean different trips,
the box is parted. Work goes to the lines that meet where E*T is least, then to lines between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.cost import evaluate
from fadiff.errors import FadiffError
from fadiff.schedule.constraints import Constraints
from fadiff.schedule.ir import LowerBound
from fadiff.search import clock
from fadiff.search.driver import check_energies
from fadiff.search.objective import EDP, Objective
from fadiff.search.restrictions import Restrictions
from fadiff.search.solver.add_bound import AddBound
from fadiff.search.solver.charges import binding_term
from fadiff.search.solver.covers import Covers
from fadiff.search.solver.kinds import asks, kinds_of
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.lines import Lines
from fadiff.search.solver.modes import Mode, Modes
from fadiff.search.solver.parts import row_of
from fadiff.search.solver.place import Links, asked_places, places
from fadiff.search.solver.program import MOST_SECONDS, Agreed
from fadiff.search.solver.proven import Bound, LayerLoss
from fadiff.search.solver.region import Corner, corners

if TYPE_CHECKING:
    from jaxtyping import Int

    from fadiff.cost import Evaluation
    from fadiff.schedule import Schedule
    from fadiff.search.objective import Weights
    from fadiff.search.solver.parts import Rows, Tile

FIRST_LOSS = 0.01
FIRST_SHARE = 0.6
"""The line at the schedule's own prices is raised before others, to within so much, or for so much of the time: they
begin with what it taught of the layers."""
FIRST_GAPS = 4.0
"""Others go before it where the gap is so many times what this line alone leaves open: the bound waits for them."""
LITTLE = 0.02
"""A gap that shrinks by less than this share of it did not shrink."""
MUCH_WORK = 0.5
"""A share of all walks that brought little: a proof that is near ends there."""
WALKS_AT_ONCE = 128
"""Walks before neighbours are asked again; in large networks, through a quarter of the layers."""
WALKS_EACH = 4
"""Walks through one layer before the others are looked at."""
ACTIVE = 1e-3
"""A layer is in a mode with more than this share of it."""
LEAST_STEP = 1e-6
"""A mode that is looked at is worth a rise of this share of its bound at least."""
PROVEN_GAP = 1e-3
"""A schedule that is proven to within this gap is proven well enough for whoever says nothing else."""
NEAR_GAP = 5e-3
"""So near a proof may end where more work brings little."""
FEW_GROUPS = 0.03
LITTLE_RISE = 0.1
"""Groups are looked at one by one where a line is so near to what it is worth, and rose by less than so much of what is
left."""


class Phase(NamedTuple):
    """What is done at the lines before the next phase begins."""

    groups: bool
    """Whether groups are looked at one by one."""
    patience: float
    """Walks at a line that hardly rises before it is left to a later phase."""


STALLS, PATIENCE = WALKS_AT_ONCE, 4 * WALKS_AT_ONCE
"""Walks after which a line that hardly rose stalls, and after which it is left to a later phase."""
PHASES = (
    Phase(groups=False, patience=PATIENCE),
    Phase(groups=True, patience=PATIENCE),
    Phase(groups=False, patience=inf),
)
PHASES_EXACT = (Phase(groups=True, patience=inf), Phase(groups=False, patience=inf))
"""Where factors divide, walks are short, and groups are soon looked at; else all lines are raised first."""
FEWEST_SECONDS = 1.0
"""A program has so much time, however late it is."""
MOST_MODES = 12_000
"""Modes up to which boxes of trips are parted."""


class Told(NamedTuple):
    """What neighbours agreed on at some prices."""

    modes: list[Mode]
    agreed: Agreed
    there: list[list[int]]
    """The modes that each layer of the schedule at hand may be in."""


class _Wanted(NamedTuple):
    """Modes of one kind of layer, and what has to be asked of its bound."""

    bound: LayerBound | AddBound
    modes: list[int]
    rows: Rows
    number: Int[np.ndarray, " modes"]
    """The row of each mode."""


class Prover:
    """Bounds of a network, better and better; a schedule of it tells where to look."""

    def __init__(
        self,
        near: Evaluation,
        objective: Objective = EDP,
        stress: Weights = (1.0, 1.0),
        *,
        exact_factors: bool = False,
        constraints: Constraints = Constraints(),
    ) -> None:
        """By `stress` a pJ and a cycle count more than the objective says, because of limits; with `exact_factors` only
        schedules are meant whose factors divide; and only such as keep the constraints."""
        workload, machine = near.schedule.workload, near.schedule.machine
        check_energies(machine)
        links = Links(workload, machine)
        asked = Restrictions(workload, machine, constraints)
        possible = [asked_places(places(links, layer), asked.required, asked.barred) for layer in workload.layers]
        binds = partial(binding_term, near)
        self.kind_of = kinds_of(links, asked, possible, binds, exact_factors=exact_factors)
        self.kinds = list({id(kind): kind for kind in self.kind_of}.values())
        self.exact_factors = exact_factors
        self.among = tuple(str(one) for one in constraints.given if asked.told_by_bound(one) != "no")
        self.modes = Modes(links, possible, exact_factors=exact_factors, given=asked.given)
        self.covers = Covers(self.modes, [kind.bound for kind in self.kind_of])
        self.lines = Lines(near, objective, stress)
        self._until = inf
        """When the proof ends."""
        self._told: dict[Weights, Told] = {}
        self._asked: tuple[list[Mode], list[_Wanted]] | None = None
        self._repeat = np.array([layer.repeat for layer in workload.layers], dtype=np.float64)

    def turn_to(self, near: Evaluation, objective: Objective) -> None:
        """Prove another objective, with another schedule to tell where to look."""
        self.lines.near, self.lines.objective = near, objective

    @property
    def walks(self) -> int:
        """Walks through layers so far."""
        return sum(kind.bound.passes for kind in self.kinds)

    def run(self, budget_seconds: float, gap: float = 0.0, near: float = 0.0) -> Iterator[Bound]:
        """Bounds, each at least as good as the one before, until the time is over, the gap is closed or nothing is left
        to do; where the gap is `near` enough, until half of all walks brought little.
        """
        began = clock.monotonic()
        self._until = until = began + budget_seconds
        own = a, b = self.lines.own
        for weights in (own, (a, 0.0), (0.0, b)):
            self.ask(weights)
        done: set[Weights] = set()
        phases = iter(PHASES_EXACT if self.exact_factors else PHASES)
        phase = next(phases)
        rose: dict[Weights, tuple[float, int]] = {}
        spent_on: dict[Weights, int] = {}
        best, begun = inf, self.walks
        since = begun
        first = self.lines.objective.prices is None or self.lines.limited
        while True:
            meeting = corners(self.lines.drawn.values())
            bound = self._bound(meeting, clock.monotonic() - began)
            yield bound
            now = bound.gap(self.lines.near, self.lines.objective)
            if now < best * (1 - LITTLE):
                best, since = now, self.walks
            stalls = self.walks > begun and self.walks - since >= (self.walks - begun) * MUCH_WORK
            if clock.monotonic() > until or now <= gap or (now <= near and stalls):
                return
            spent = (clock.monotonic() - began) / budget_seconds
            first = first and spent < FIRST_SHARE and self.lines.loss(own) > FIRST_LOSS
            # Of the EDP at hand, what this line alone would prove if all others were as good.
            alone = (1 - self.lines.loss(own)) ** 2
            weights = own if first and now * alone < FIRST_GAPS * (1 - alone) else self.lines.next_(meeting, done)
            if weights is not None:
                value, at = rose.get(weights, (0.0, spent_on.get(weights, 0)))
                walked, stalls = self.walks, spent_on.get(weights, 0) - at > STALLS
                left = self.improve(weights, until, groups=phase.groups, stalls=stalls)
                spent_on[weights] = spent_on.get(weights, 0) + self.walks - walked
                if self.lines.drawn[weights].value - value > LITTLE * (self.lines.target(weights) - value):
                    rose[weights] = self.lines.drawn[weights].value, spent_on[weights]
                if not left or spent_on[weights] - at > phase.patience:
                    done.add(weights)
                    first = first and weights != own
            elif (after := next(phases, None)) is not None:
                phase = after
                done.clear()
                rose.clear()
            else:
                return

    def ask(self, weights: Weights) -> Told:
        """What neighbours agree on at some prices; their line is drawn."""
        modes = self.modes.modes
        cost = np.empty(len(modes))
        for bound, mine, rows, number in self._wanted(modes):
            cost[mine] = bound.least(weights, rows)[number]
        seconds = min(MOST_SECONDS, max(FEWEST_SECONDS, self._until - clock.monotonic()))
        agreed = self.modes.agree(cost * self._repeat[self.modes.owner], seconds)
        told = Told(
            modes, agreed, self.modes.of_schedule(self.lines.near.schedule) if weights == self.lines.own else []
        )
        if self.lines.raise_(weights, float(told.agreed.least.sum())):
            self._told[weights] = told
        return told

    def _wanted(self, modes: list[Mode]) -> list[_Wanted]:
        """What is asked of each kind of layer, once for each of its different modes."""
        if self._asked is None or self._asked[0] is not modes:
            by_kind: dict[int, list[int]] = {}
            for i, mode in enumerate(modes):
                by_kind.setdefault(id(self.kind_of[mode.layer]), []).append(i)
            found: list[_Wanted] = []
            for mine in by_kind.values():
                rows = np.array([row_of(asks(self.kind_of, self.modes, modes[i])) for i in mine], dtype=np.float64)
                rows, number = np.unique(rows, axis=0, return_inverse=True)
                found.append(_Wanted(self.kind_of[modes[mine[0]].layer].bound, mine, rows, number.ravel()))
            self._asked = modes, found
        return self._asked[1]

    def improve(self, weights: Weights, deadline: float, *, groups: bool, stalls: bool = False) -> bool:
        """Look at the modes that layers are in when all agree, or where that brought little, at groups, if they are to
        be looked at; whether anything is left to do. A line that stalls, or at which nothing is left to look at, waits
        for boxes to be parted."""
        before = self.lines.drawn[weights].value if weights in self.lines.drawn else 0.0
        modes, agreed, _ = self.ask(weights)
        crowded = self.modes.crowd(agreed.share)
        target, value = self.lines.target(weights), self.lines.drawn[weights].value
        if value >= target:
            return False
        many = not groups or target - value >= FEW_GROUPS * target
        if many or value - before >= LITTLE_RISE * (target - value):
            active = np.flatnonzero(agreed.share > ACTIVE)
            order = np.argsort(-agreed.share[active] * agreed.cost[active], kind="stable")
            looked = [modes[int(i)] for i in active[order]]
            parted = self._part_boxes(weights, looked, stalls=stalls)
            stop, walked = self.walks + max(WALKS_AT_ONCE, len(looked) // 4), self.walks
            for mode in looked:
                self._look(weights, mode, (target - value) / float(self._repeat[mode.layer]), deadline)
                if self.walks >= stop:
                    break
            if parted or crowded or self.walks > walked:
                return True
            if not groups and self._part_boxes(weights, looked, stalls=True):
                return True
        if groups:
            self.lines.raise_(weights, self.covers.least(agreed, weights, target, lambda: clock.monotonic() > deadline))
        return False

    def _look(self, weights: Weights, mode: Mode, open_: float, deadline: float) -> None:
        """Walk through a layer where a mode is cheapest: until its bound has risen by what is open, no further."""
        bound = self.kind_of[mode.layer].bound
        stop = bound.passes + WALKS_EACH
        while bound.passes < stop and (part := bound.lowest(weights, asks(self.kind_of, self.modes, mode))) is not None:
            assert isinstance(bound, LayerBound)
            known = bound.known(weights)
            known.narrow(part, mode.tile)
            value = known.value[part].item()
            if clock.monotonic() > deadline or not bound.look(weights, part, value * (1 + LEAST_STEP) + open_):
                break

    def _part_boxes(self, weights: Weights, active: Sequence[Mode], *, stalls: bool) -> bool:
        """Part boxes of trips of which fused neighbours mean different trips, or where a line stalls, trips of which no
        more is to be found out from others; whether there were any."""
        meant: list[tuple[Mode, Tile]] = []
        known: list[tuple[Mode, Tile]] = []
        for mode in active:
            bound = self.kind_of[mode.layer].bound
            if (
                isinstance(bound, LayerBound)
                and (part := bound.lowest(weights, asks(self.kind_of, self.modes, mode))) is not None
            ):
                cheapest = bound.known(weights).parts[part]
                meant.append((mode, cheapest.tile))
                if cheapest.settled:
                    known.append(meant[-1])
        found = self.modes.disagreements(meant) or (self.modes.around(known) if stalls else [])
        if not found or len(self.modes.modes) > MOST_MODES:
            return False
        self.modes.part(found)
        return True

    def _bound(self, meeting: Sequence[Corner], seconds: float) -> Bound:
        energy_pj, cycles = min((corner.point for corner in meeting), key=lambda point: point[0] * point[1])
        return Bound(
            least=LowerBound(
                energy_pj=meeting[-1].point[0],
                cycles=meeting[0].point[1],
                edp_uj_cycles=energy_pj * 1e-6 * cycles,
                exact_factors=self.exact_factors,
                among=self.among,
            ),
            layers=self._losses(),
            seconds=seconds,
            corners=tuple(corner.point for corner in meeting),
        )

    def _losses(self) -> tuple[LayerLoss, ...]:
        """Where the gap is at the schedule's own prices: how much the mode of each layer there is dearer than its
        cheapest one, after the prices of what it agrees on with others."""
        weights = self.lines.own
        spent = self._repeat * (
            weights[0] * self.lines.near.layer_energy_pj + weights[1] * self.lines.near.layer_cycles
        )
        there, agreed = self._told[weights].there, self._told[weights].agreed
        possible = [[i for i in mine if agreed.cost[i] < inf] for mine in there]
        charged = [min((agreed.reduced[i] - agreed.cost[i] for i in mine), default=0.0) for mine in possible]
        dearer = np.maximum(spent + np.array(charged) - agreed.least, 0.0)
        open_ = max(0.0, 2 - self.lines.drawn[weights].value)
        if dearer.sum() > 0:
            dearer *= open_ / dearer.sum()
        found = [
            LayerLoss(tuple(k.names), float(spent[k.layers].sum()), float((spent - dearer)[k.layers].sum()))
            for k in self.kinds
        ]
        return tuple(sorted(found, key=lambda one: -one.loss))


def prove(
    near: Evaluation,
    budget_seconds: float,
    objective: Objective | str = EDP,
    gap: float = 0.0,
    near_enough: float = 0.0,
    watch: Callable[[Bound], None] | None = None,
    stress: Weights = (1.0, 1.0),
    *,
    exact_factors: bool = False,
    constraints: Constraints = Constraints(),
) -> Bound:
    """The best bound that a time is enough for. It ends early where a schedule is proven to a gap, or near enough
    and more work brings little; interrupted, it is the best so far."""
    best: Bound | None = None
    try:
        asked = Objective.of(objective)
        prover = Prover(near, asked, stress, exact_factors=exact_factors, constraints=constraints)
        for bound in prover.run(budget_seconds, gap, near_enough):
            best = bound
            if watch is not None:
                watch(bound)
    except KeyboardInterrupt:
        if best is None:
            raise
    assert best is not None
    return best


def bound(
    schedule: Schedule,
    *,
    budget_seconds: float = 60.0,
    objective: Objective | str = EDP,
    gap: float = PROVEN_GAP,
    near_enough: float = 0.0,
    constraints: Constraints = Constraints(),
) -> Bound:
    """What no schedule of the same network on the same machine costs less than; the schedule says where to look. It
    ends early where the gap is so small, or near enough and more work brings little.

    With constraints, which the schedule must keep, only those that keep them are meant.
    """
    constraints.check(schedule.workload, schedule.machine)
    if broken := constraints.broken(schedule):
        raise FadiffError(f"the schedule does not keep what is asked ({broken[0]}): find one that does first")
    return prove(evaluate(schedule), budget_seconds, objective, gap, near_enough, constraints=constraints)
