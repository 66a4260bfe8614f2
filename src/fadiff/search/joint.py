"""Mapping and fusion together: exact search around what a joint gradient descent proposes.

1. *Map*, *solve*, *fuse*, *polish*: the exact search (:mod:`fadiff.search.exact.method`).
2. *Descend*: many relaxed restarts at once over all factors and one sigma per edge
   (:mod:`fadiff.search.gradient`), some of them from the incumbent.
3. *Decode*: groups and trip counts that the restarts propose become plans of their own, their mappings become starts,
   and the network is cut again over all that is known, and polished again if the cut is new.

Very many restarts run in rounds of 2 and 3, each of them from what the rounds before found. An accelerator takes
thousands at once, and then that many are the usual number.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import jax
import numpy as np

from fadiff.search import gradient
from fadiff.search.driver import Incumbent, Method, OutOfTimeError, Pace, Settings, Status
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.menus import Start
from fadiff.search.exact.method import ExactSearch
from fadiff.search.gradient.descent import FUSED, decode_groups
from fadiff.search.gradient.settings import anneal

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.workload import Workload


@dataclass(frozen=True)
class JointSettings:
    """The parts of the method, each of which can be left out (an ablation does)."""

    descent: gradient.DescentSettings | None = gradient.DescentSettings()
    """None: no gradient, only the exact search's own starts and plans."""
    fuse: bool = True
    """Whether layers may be fused at all."""
    enumerate_plans: bool = True
    """Whether plans that no restart proposed are tried too."""
    solve: bool = True
    """Whether layers on their own are solved by branch and bound."""
    polish: bool = True
    starts: int | None = None
    """Mappings that each layer climbs from when it is taken on its own. None: 64 on machines of Gemmini's size, fewer
    on deep ones, where layers have more moves: 64 * 192 / moves of a layer."""
    hints_per_layer: int = 8
    """How many of them the descent proposes."""


WHOLE = JointSettings()
ALONE = JointSettings(enumerate_plans=False, solve=False, starts=2)
"""The descent on its own feet: groups come from its sigmas only, and layers climb from no random starts."""
EXACT = JointSettings(descent=None)
"""The exact search on its own feet."""
WITHOUT_FUSION = JointSettings(fuse=False)
"""The same method for layers one by one."""

POLISHES = 3
"""How often groups are polished, and tried again with the mappings that this finds, at most."""
FIRST_STARTS = 4
"""Mappings that each layer climbs from before groups are first sought."""
MOST_DECODED = 128
"""Restarts whose proposals are decoded: the best ones, of those that propose the same groups one."""
_STEPS_PER_STATUS = 50
_TRIAL_STEPS = 10
"""Steps after which it is known how long all of them take; the first are slower."""
_SEEDS_APART = 1_000_003
"""Seeds of two rounds differ by so much: those of neighbouring seeds do not meet."""


def joint(
    workload: Workload, machine: Machine, settings: Settings, incumbent: Incumbent, parts: JointSettings = WHOLE
) -> Iterator[Status]:
    """The generator behind ``--method joint``; see the module's docstring for its steps."""
    known = ExactSearch(Task.of(workload, machine, settings), settings, incumbent)
    yield from steps(known, parts)
    known.teach()


def steps(known: ExactSearch, parts: JointSettings) -> Iterator[Status]:
    """The steps of the method from the beginning; :class:`OutOfTimeError` at their end says what was left out."""
    fuse = parts.fuse and known.task.fusing is not None
    starts = parts.starts or 64 * 192 // max(192, known.task.widths[False])
    left_out: list[str] = []

    def unless_late(some: Iterator[Status]) -> Generator[Status, None, bool]:
        """Steps, but for what there is no time for and what comes after them can do without; whether they were done."""
        try:
            yield from some
        except OutOfTimeError as early:
            if not (str(early) and known.groups):
                raise
            left_out.append(str(early))
            return False
        return True

    plan = fuse and parts.enumerate_plans
    yield from known.map(min(FIRST_STARTS, starts), polished=False)
    if known.incumbent.starts:
        yield from known.resume(known.incumbent.starts)
    if plan:
        yield from unless_late(_silent(known.enumerate_plans))
        yield from known.fuse("fuse")
    if known.learned is None:
        if starts > FIRST_STARTS:
            yield from known.map(starts, polished=False)
        if parts.solve:
            yield from known.solve()
        if plan:
            yield from known.fuse("fuse", hopeful=True)
    if plan:
        yield from known.refine()
    for _ in range(POLISHES if parts.polish else 0):
        in_time = yield from unless_late(known.polish())
        before = known.schedule
        if not (plan and in_time):
            break
        yield from known.fuse("fuse")
        if known.schedule == before:
            break
    yield from known.keep_limits()
    if parts.descent is not None:
        yield from unless_late(_rounds(known, replace(parts.descent, fuse=fuse), parts))
    if left_out:
        raise OutOfTimeError("; ".join(left_out))


def _silent(work: Callable[[], None]) -> Iterator[Status]:
    """Work that reports nothing, as steps."""
    work()
    yield from ()


def _rounds(known: ExactSearch, told: gradient.DescentSettings, parts: JointSettings) -> Iterator[Status]:
    """Descend and decode, as many restarts at once as is useful, and as often as all of them take."""
    told, pace = replace(told, objective=known.settings.objective), Pace()
    problem = gradient.pack_problem(known.task.workload, known.task.machine, told)
    device = gradient.restarts_on(cast("Any", jax.devices()[0]), problem, told)
    restarts = known.settings.restarts or device.usual
    rounds = -(-restarts // device.at_once)
    told = replace(told, restarts=-(-restarts // rounds))
    for number in range(rounds):
        try:
            # Rounds draw their random starts and noise from seeds of their own.
            seed = known.settings.seed + _SEEDS_APART * number
            state = gradient.init(problem, told, seed, [known.best.schedule])
            gradient.compile_steps(problem, told, state, known.settings.deadline)
            with pace.work(known.settings.deadline):
                proposals = yield from _descend(known.settings, problem, told, state)
                yield from _decode(known, proposals, parts, fuse=told.fuse)
        except OutOfTimeError as early:
            left_out = f"{rounds - number} of {rounds} rounds of restarts were left out"
            raise OutOfTimeError(str(early) if number == 0 else left_out) from None


def _decode(known: ExactSearch, proposals: gradient.Proposals, parts: JointSettings, *, fuse: bool) -> Iterator[Status]:
    """Cut the network again over all that is known and all that restarts propose."""
    proposals = _best(proposals)
    hints = _hints(known.task, proposals, parts.hints_per_layer)
    known.take_hints(hints)
    if fuse:
        proposed = [plan for i in range(len(proposals.sigma)) for plan in decode_groups(known.task, proposals, i)]
        known.cuts.add(proposed)
    before = known.schedule
    yield from known.fuse("decode", hints)
    if parts.polish and known.schedule != before:
        yield from known.polish()


descent: Method = partial(joint, parts=ALONE)
"""The generator behind ``--method descent``: gradient descent and its decoder on their own."""
exact: Method = partial(joint, parts=EXACT)
"""The generator behind ``--method exact``: the exact search on its own."""


def _descend(
    settings: Settings, problem: gradient.Problem, told: gradient.DescentSettings, state: gradient.State
) -> Generator[Status, None, gradient.Proposals]:
    """Take all steps, some at a time; the last proposals."""
    proposals = gradient.read_out(problem, told, state)
    done, pace = 0, Pace()
    while done < told.steps:
        count = pace.piece(min(_STEPS_PER_STATUS - done % _STEPS_PER_STATUS, told.steps - done))
        with pace.work(settings.deadline, count):
            state = gradient.step(problem, told, state, count)
        done += count
        left, needed = settings.seconds_left, (told.steps - done) * pace.seconds
        if done >= _TRIAL_STEPS and needed > left:
            raise OutOfTimeError(f"the descent was left out: {left:.0f} s were left for {needed:.0f} s of steps")
        if done % _STEPS_PER_STATUS == 0 or done == told.steps:
            proposals = gradient.read_out(problem, told, state)
            legal = float(np.mean(proposals.penalty <= 1e-2))
            tau = float(anneal(told, done).tau)
            yield Status("descend", done, told.steps, tau, legal, tuple(np.exp(proposals.log_edp).tolist()))
    return proposals


def _best(proposals: gradient.Proposals) -> gradient.Proposals:
    """The proposals to decode, the best first: of many that fuse the same edges with the same trips only the best."""
    ranked = np.argsort(proposals.log_edp + 10 * proposals.penalty, kind="stable")
    if len(ranked) > MOST_DECODED:
        groups = np.hstack([proposals.sigma >= FUSED, proposals.trips.reshape(len(ranked), -1)])
        first = np.unique(groups[ranked], axis=0, return_index=True)[1]
        ranked = ranked[np.sort(first)[:MOST_DECODED]]
    return gradient.Proposals(*(values[ranked] for values in proposals))


def _hints(task: Task, proposals: gradient.Proposals, most: int) -> dict[int, list[Start]]:
    """For each layer, the different mappings that the restarts propose, those of the best restarts first."""
    hints: dict[int, dict[bytes, Start]] = {}
    for restart in range(len(proposals.sigma)):
        for layer, twin in enumerate(task.twin):
            if task.workload.layers[layer].is_mac:
                start = Start(proposals.factors[restart, :, :, layer], proposals.orders[restart, :, layer])
                hints.setdefault(twin, {}).setdefault(start.factors.tobytes(), start)
    return {twin: list(mine.values())[:most] for twin, mine in hints.items()}
