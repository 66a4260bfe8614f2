"""Mapping and fusion together: exact search around what a joint gradient descent proposes.

1. *Map*: every layer on its own climbs to optima of the exact model, from a few fixed and random starts.
2. *Fuse*: plans for groups with trip counts under which their buffers fit; for every layer under every plan's
   condition, mappings for less and less L2; the network is *cut* into groups by dynamic programming, and prices follow
   the result until the cut stays the same.
3. *Polish*: moves in pairs on every layer, with exactly the room its group leaves.
4. *Descend*: many relaxed restarts at once over all factors and one sigma per edge (:mod:`fadiff.search.gradient`),
   some of them from the incumbent.
5. *Decode*: groups and trip counts that the restarts propose become plans of their own, their mappings become starts,
   and the network is cut again over all that is known, and polished again if the cut is new.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fadiff.schedule import Group, Mapping
from fadiff.search import gradient
from fadiff.search.assemble import Filled, Seat, as_options, cut, seat, to_schedule
from fadiff.search.conditions import Condition, Problem
from fadiff.search.deadline import OutOfTimeError
from fadiff.search.decode import decode_groups
from fadiff.search.driver import Incumbent, Settings, Status, price_weights
from fadiff.search.gradient.options import anneal
from fadiff.search.groups import Plan, plans
from fadiff.search.options import Hints, Options, alone, grouped, hinted, join, paired
from fadiff.search.polish import polish

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fadiff.cost import Evaluation
    from fadiff.hardware import Hardware
    from fadiff.workload import Workload


@dataclass(frozen=True)
class JointOptions:
    """The parts of the method, each of which can be left out (an ablation does)."""

    descent: gradient.DescentOptions | None = gradient.DescentOptions()
    """None: no gradient, only the decoder's own starts and plans."""
    fuse: bool = True
    """Whether layers may be fused at all."""
    enumerate_plans: bool = True
    """Whether plans that no restart proposed are tried too."""
    polish: bool = True
    starts: int = 16
    """Mappings that each layer climbs from when it is taken on its own."""
    hints_per_layer: int = 8
    """How many of them the descent proposes."""


ALONE = JointOptions(enumerate_plans=False, starts=2)
"""The descent on its own feet: groups come from its sigmas only, and layers climb from no random starts."""
WITHOUT_FUSION = JointOptions(fuse=False, descent=gradient.DescentOptions(fuse=False))
"""The same method for layers one by one."""

SHORTEST_DESCENT_SECONDS = 15.0
"""With less time left the descent is left out: where its program is not in the cache, compiling it takes 7 to 15 s."""
_STEPS_PER_CHUNK = 50
_CONDITIONS_PER_STEP = 512
_CUTS = 5
_POLISHES = 4


def joint(
    workload: Workload,
    hardware: Hardware,
    settings: Settings,
    incumbent: Incumbent,
    options: JointOptions = JointOptions(),
) -> Iterator[Status]:
    """The generator behind ``--method gradient``; see the module's docstring for its steps."""
    problem = Problem(workload, hardware, settings.deadline)
    weights = price_weights(_best(incumbent), settings.objective)
    singles = [seat(problem, Plan(Group((name,)), (0,))) for name in workload.topological]
    found = alone(problem, _conditions(singles), weights, settings.seed, options.starts)
    groups = yield from _cuts(problem, singles, found, settings, incumbent, "map")
    if options.polish:
        found = paired(problem, found, price_weights(_best(incumbent), settings.objective))
        groups = yield from _cuts(problem, singles, found, settings, incumbent, "map")

    known = {condition.layer: [_whole(o)] for condition, o in found.items()}
    seats = singles
    if options.fuse and options.enumerate_plans:
        seats = singles + [seat(problem, plan) for plan in plans(workload, hardware)]
        groups = yield from _fuse(problem, seats, found, known, settings, incumbent, "fuse")

    if options.polish:
        groups = yield from _polish(problem, groups, found, settings, incumbent)

    if options.descent is None:
        return
    if settings.seconds_left < SHORTEST_DESCENT_SECONDS:
        raise OutOfTimeError
    proposals = yield from _descend(workload, hardware, settings, incumbent, options.descent)
    hints = _hints(problem, proposals, options.hints_per_layer)
    weights = price_weights(_best(incumbent), settings.objective)
    for condition, more in hinted(problem, _conditions(singles), weights, hints).items():
        found[condition] = join([found[condition], more])
    if options.fuse:
        restarts = range(len(proposals.log_edp))
        proposed = [plan for i in restarts for plan in decode_groups(workload, hardware, proposals, i)]
        seats = [*seats, *(seat(problem, plan) for plan in dict.fromkeys(proposed))]
    before = to_schedule(problem, groups)
    groups = yield from _fuse(problem, seats, found, hints, settings, incumbent, "decode")
    if options.polish and to_schedule(problem, groups) != before:
        yield from _polish(problem, groups, found, settings, incumbent)


def descent(workload: Workload, hardware: Hardware, settings: Settings, incumbent: Incumbent) -> Iterator[Status]:
    """The generator behind ``--method descent``: gradient descent and its decoder on their own."""
    return joint(workload, hardware, settings, incumbent, ALONE)


def _polish(
    problem: Problem,
    groups: Sequence[Filled],
    found: dict[Condition, Options],
    settings: Settings,
    incumbent: Incumbent,
) -> Generator[Status, None, list[Filled]]:
    """Polish until nothing changes, and remember the mappings it finds, so that later cuts can use them."""
    polished = list(groups)
    for turn in range(_POLISHES):
        before = to_schedule(problem, polished)
        polished = polish(problem, polished, price_weights(_best(incumbent), settings.objective))
        schedule = to_schedule(problem, polished)
        incumbent.offer(schedule)
        yield Status("polish", turn + 1, _POLISHES)
        if schedule == before:
            break
    for filled in polished:
        for condition, chosen in zip(filled.seat.conditions, filled.choices, strict=True):
            found[condition] = join([found[condition], as_options(chosen)])
    return polished


def _fuse(
    problem: Problem,
    seats: Sequence[Seat],
    found: dict[Condition, Options],
    hints: Hints,
    settings: Settings,
    incumbent: Incumbent,
    phase: str,
) -> Generator[Status, None, list[Filled]]:
    """Map all conditions that are not mapped yet, and cut again whenever a part of them is."""
    todo = [condition for condition in _conditions(seats) if condition not in found]
    groups: list[Filled] = []
    for at in range(0, max(1, len(todo)), _CONDITIONS_PER_STEP):
        part = todo[at : at + _CONDITIONS_PER_STEP]
        if part:
            weights = price_weights(_best(incumbent), settings.objective)
            found.update(grouped(problem, part, weights, settings.seed, hints))
        ready = [one for one in seats if all(condition in found for condition in one.conditions)]
        groups = yield from _cuts(problem, ready, found, settings, incumbent, phase)
    return groups


def _descend(
    workload: Workload, hardware: Hardware, settings: Settings, incumbent: Incumbent, options: gradient.DescentOptions
) -> Generator[Status, None, gradient.Proposals]:
    """Descend from the incumbent's mappings and from random ones, chunk by chunk; the last proposals."""
    options = replace(options, objective=settings.objective, restarts=settings.restarts or options.restarts)
    problem = gradient.pack_problem(workload, hardware, options)
    state = gradient.init(problem, options, settings.seed, _starts(_best(incumbent)))
    steps = int(options.steps)
    for done in range(0, steps, _STEPS_PER_CHUNK):
        count = min(_STEPS_PER_CHUNK, steps - done)
        state = gradient.step(problem, options, state, count)
        proposed = gradient.read_out(problem, options, state)
        legal = float(np.mean(proposed.penalty <= 1e-2))
        edp = tuple(float(value) for value in np.exp(proposed.log_edp))
        yield Status("descend", done + count, steps, float(anneal(options, state.step).tau), legal, edp)
    return gradient.read_out(problem, options, state)


def _starts(evaluation: Evaluation) -> NDArray[np.int64]:
    """``[1, 5, 8, layers]`` the mappings of a schedule; ones for add layers."""
    mappings = [
        evaluation.schedule.mappings.get(layer.name, Mapping()) for layer in evaluation.schedule.workload.layers
    ]
    factors = np.array([[m.spatial, m.l0, m.l1, m.l2, m.l3] for m in mappings], dtype=np.int64)
    return factors.transpose(1, 2, 0)[None]


def _cuts(
    problem: Problem,
    seats: Sequence[Seat],
    found: MappingOf[Condition, Options],
    settings: Settings,
    incumbent: Incumbent,
    phase: str,
) -> Generator[Status, None, list[Filled]]:
    """Cut, reprice near the result, and cut again until nothing changes; the last cut."""
    groups: list[Filled] = []
    near = _best(incumbent)
    for turn in range(_CUTS):
        again = cut(problem, seats, found, price_weights(near, settings.objective))
        schedule = to_schedule(problem, again)
        same = bool(groups) and schedule == to_schedule(problem, groups)
        groups = again
        if same:
            break
        near = incumbent.offer(schedule) or near
        yield Status(phase, turn + 1, _CUTS)
    return groups


def _best(incumbent: Incumbent) -> Evaluation:
    assert incumbent.best is not None, "the driver starts from a legal schedule"
    return incumbent.best


def _conditions(seats: Sequence[Seat]) -> list[Condition]:
    return list(dict.fromkeys(condition for one in seats for condition in one.conditions))


def _hints(problem: Problem, proposals: gradient.Proposals, most: int) -> Hints:
    """For each layer, the different mappings that the restarts propose, those of the best restarts first."""
    hints: dict[int, list[NDArray[np.int64]]] = {}
    for restart in np.argsort(proposals.log_edp + 10 * proposals.penalty, kind="stable"):
        for layer, twin in enumerate(problem.twin):
            mine = hints.setdefault(twin, [])
            factors = proposals.factors[restart, :, :, layer]
            if len(mine) < most and not any(np.array_equal(factors, other) for other in mine):
                mine.append(factors)
    return hints


def _whole(options: Options) -> NDArray[np.int64]:
    """The first option's factors; a layer on its own shares nothing, so they are the whole mapping."""
    return np.rint(options.factors[:, :, 0]).astype(np.int64)
