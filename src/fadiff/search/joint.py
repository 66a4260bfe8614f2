"""Mapping and fusion together: exact search around what a joint gradient descent proposes.

1. *Map*, *solve*, *fuse*, *polish*: the exact search (:mod:`fadiff.search.exact.steps`).
2. *Descend*: many relaxed restarts at once over all factors and one sigma per edge
   (:mod:`fadiff.search.gradient`), some of them from the incumbent.
3. *Decode*: groups and trip counts that the restarts propose become plans of their own, their mappings become starts,
   and the network is cut again over all that is known, and polished again if the cut is new.

Very many restarts run in rounds of 2 and 3, each of them from what the rounds before found. An accelerator takes
thousands at once, and then that many are the usual number.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import jax
import numpy as np

from fadiff.search import gradient
from fadiff.search.driver import Incumbent, Method, OutOfTimeError, Pace, Settings, Status
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.method import ExactSearch
from fadiff.search.exact.starts import Start
from fadiff.search.exact.steps import Parts, steps
from fadiff.search.gradient.descent import FUSED, decode_groups
from fadiff.search.gradient.settings import anneal

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.workload import Workload


@dataclass(frozen=True)
class JointSettings(Parts):
    """The parts of the method, and of the exact search in it."""

    descent: gradient.DescentSettings | None = gradient.DescentSettings()
    """None: no gradient, only the exact search's own starts and plans."""
    hints_per_layer: int = 8
    """How many of them the descent proposes."""


WHOLE = JointSettings()
ALONE = JointSettings(enumerate_plans=False, solve=False, starts=2)
"""The descent on its own feet: groups come from its sigmas only, and layers climb from no random starts."""
WITHOUT_FUSION = JointSettings(fuse=False)
"""The same method for layers one by one."""

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
    told = None if parts.descent is None else replace(parts.descent, fuse=parts.fuses(known.task))
    yield from steps(known, parts, iter(()) if told is None else _rounds(known, told, parts))


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
