"""Why a group ends where it does: for every two groups that a tensor joins, what keeps them apart."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, expm1
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fadiff.schedule.barriers import barriers
from fadiff.schedule.constraints import Constraints
from fadiff.schedule.folding import group_kinds, run_kind
from fadiff.schedule.tiling import group_tiling
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.plans import Members
from fadiff.search.explain.merging import Merger, Pair, merge, merged_layers
from fadiff.search.objective import Objective
from fadiff.search.space import trip_counts
from fadiff.workload.names import listed

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Group, Schedule
    from fadiff.workload import Workload

Cause = Literal[
    "not fusible", "no memory fuses", "incomplete", "capacity", "alignment", "whole tensor", "one sink", "repeat",
    "order", "asked", "no gain", "not searched",
]  # fmt: skip


FORBIDDEN: frozenset[Cause] = frozenset(
    {"not fusible", "no memory fuses", "incomplete", "one sink", "repeat", "order", "asked"}
)
"""Causes that no memory, however large, would change."""


class Verdict(NamedTuple):
    """What keeps two groups apart."""

    cause: Cause
    detail: str
    """A clause without full stop."""
    missing_bytes: int | None = None
    """What the memory that fuses lacks at least, where buffers do not fit whatever the tiles."""
    merger: Merger | None = None
    """The two merged, the best that a short search finds; None where it finds nothing that fits."""
    pinning_missing_bytes: int | None = None
    """What that memory lacks to fuse and fetch every weight once (0: it is there); None where fusion is forbidden, or
    weights have another home."""


_UNKNOWN = Verdict("not searched", "nothing forbids it; the search ended before pricing it (fadiff report prices it)")
LEFT_OUT = Verdict("not searched", "nothing forbids it; not priced, since there are many and others matter more")
LONGEST_SPAN = 64
"""Layers of two groups, up to which pairs are looked at for others that are the same."""


def verdicts(
    evaluation: Evaluation, objective: Objective | str, *, priced: bool = True, constraints: Constraints = Constraints()
) -> dict[Pair, Verdict]:
    """What keeps every two groups apart that an edge joins.

    Where nothing forbids to merge them, the best merged group that a short search finds is priced; without `priced`
    they are told as not searched. Pairs that differ in names alone are looked at once; where too many differ, those
    of the smallest tensors are left out.
    """
    schedule, objective = evaluation.schedule, Objective.of(objective)
    task = Task(
        schedule.workload, schedule.machine, dtype=np.float64, charges=objective.charges, constraints=constraints
    )
    alike = alike_pairs(schedule)
    needs: dict[Pair, _Need] = {}
    unsuited, place = _unsuited(task), {id(group): i for i, group in enumerate(schedule.groups)}
    found = {
        pair: unsuited or _between(schedule, place, *pair) or _broken(task, pair, alike[pair], needs) for pair in alike
    }
    free: dict[Pair, float] = {}
    for pair, verdict in found.items():
        if verdict is None:
            free[alike[pair]] = free.get(alike[pair], 0.0) + _handed_over(schedule, pair)
    ranked = sorted(free, key=lambda pair: -free[pair])
    merged = merge(task, evaluation, objective, ranked) if priced and ranked else {}
    compared = {pair: _compared(evaluation, one, objective) for pair, one in merged.items()}
    otherwise = LEFT_OUT if priced else _UNKNOWN
    told = {pair: verdict or compared.get(alike[pair], otherwise) for pair, verdict in found.items()}
    return {
        pair: verdict
        if verdict.cause in FORBIDDEN
        else verdict._replace(pinning_missing_bytes=needs[alike[pair]].pinning)
        for pair, verdict in told.items()
    }


def alike_pairs(schedule: Schedule) -> dict[Pair, Pair]:
    """Every two groups that an unfused edge joins, each with the first such two that are the same but for names."""
    apart = [edge for edge in schedule.workload.edges if not schedule.is_fused(edge)]
    pairs = dict.fromkeys((schedule.group_of[edge.source], schedule.group_of[edge.target]) for edge in apart)
    kind_of = dict(zip((id(group) for group in schedule.groups), group_kinds(schedule), strict=True))
    first: dict[object, Pair] = {}
    found: dict[Pair, Pair] = {}
    for pair in pairs:
        names = merged_layers(schedule.workload, *pair)
        kind: object = pair
        if len(names) <= LONGEST_SPAN:
            kind = *(kind_of[id(group)] for group in pair), run_kind(schedule.workload, names)
        found[pair] = first.setdefault(kind, pair)
    return found


def _handed_over(schedule: Schedule, pair: Pair) -> float:
    """Values that go from one group to another in all runs."""
    sources = {edge.source for name in pair[1].layers for edge in schedule.workload.producers[name]}
    layers = [schedule.workload[name] for name in pair[0].layers if name in sources]
    return sum(layer.stored_words * layer.repeat for layer in layers)


def _compared(evaluation: Evaluation, merger: Merger | None, objective: Objective) -> Verdict:
    """What merging two groups would gain or cost."""
    if merger is None:
        return Verdict("capacity", "no tiles were found that fit beside its buffers")
    score = objective.log_value(*merger.changed(evaluation, objective))
    change = expm1(score - objective.score(evaluation))
    told = f"fused, the {objective.name} would be about {abs(change):.2%}"
    if change < 0:
        return Verdict("not searched", f"{told} lower: search longer", merger=merger)
    return Verdict("no gain", f"{told} higher", merger=merger)


def _unsuited(task: Task) -> Verdict | None:
    """Why a machine fuses nothing at all."""
    machine, memory = task.machine, task.machine.fused_in()
    if memory is None:
        return Verdict("no memory fuses", f"no memory of {machine.name} holds fused tensors")
    if machine.structure.hands_over is None:
        return Verdict("incomplete", f"no memory further in than {memory.name} keeps O, where sums could be finished")
    return None


def _between(schedule: Schedule, place: dict[int, int], source: Group, target: Group) -> Verdict | None:
    """Which layers must run between two groups: on their own, or as the groups of the schedule they are in."""
    workload, members = schedule.workload, frozenset(source.layers + target.layers)
    depths = [workload.depth[name] for name in members]
    layers = [(name,) for name in workload.topological[min(depths) : max(depths) + 1]]
    if between := _on_the_way(workload, layers, members):
        return Verdict("order", f"{listed(between)} must run between them")
    groups = [group.layers for group in schedule.groups[place[id(source)] : place[id(target)] + 1]]
    if between := _on_the_way(workload, groups, members):
        return Verdict("order", f"{listed(between)} must run between them, fused as they are")
    return None


def _on_the_way(workload: Workload, steps: Sequence[Sequence[str]], members: frozenset[str]) -> list[str]:
    """Layers outside of two groups whose step reads one of their tensors, over any number of steps, and feeds one.

    They are among the steps from the first member to the last, in an order in which they can run.
    """
    after, before = set(members), set(members)
    for step in steps:
        if any(edge.source in after for name in step for edge in workload.producers[name]):
            after.update(step)
    for step in reversed(steps):
        if any(edge.target in before for name in step for edge in workload.consumers[name]):
            before.update(step)
    return [name for step in steps for name in step if name in after and name in before and name not in members]


class _Need(NamedTuple):
    """What the buffers of a merged group need at least, whether it can be cut, and what pinning all weights lacks."""

    smallest_bytes: int
    can_be_cut: bool
    pinning: int | None


def _broken(task: Task, pair: Pair, like: Pair, needs: dict[Pair, _Need]) -> Verdict | None:
    """Which rule the merged group breaks, whatever the trip counts and mappings; `needs` are those known of pairs."""
    names = merged_layers(task.workload, *pair)
    run = Members(task, names)
    if barred := [edge for edge in run.fused if not edge.fusible]:
        told = dict.fromkeys(
            f"{listed([edge.target])} cannot read {listed([edge.source])} on chip: "
            f"{edge.reason or 'the network says so'}"
            for edge in barred
        )
        return Verdict("not fusible", "; ".join(told))
    if len(repeats := {task.workload[name].repeat for name in names}) > 1:
        return Verdict("repeat", f"their layers repeat {' and '.join(str(r) for r in sorted(repeats))} times")
    if (apart := task.restrictions.kept_apart(names)) is not None:
        return Verdict("asked", str(apart))
    if not run.may_be_group:
        feeding = {edge.source for edge in run.fused}
        loose = [name for name in names[:-1] if name not in feeding]
        return Verdict("one sink", f"{listed(loose)} would not lead to {listed(names[-1:])} inside the group")
    if like not in needs:
        smallest = smallest_bytes(run)
        can_be_cut = run.tiling.trips.shape[1] > 1 or smallest < run.live.max()
        needs[like] = _Need(smallest, can_be_cut, pinning_bytes(run))
    (smallest, can_be_cut, _), memory = needs[like], task.machine.fused_in()
    if memory is None or smallest <= memory.usable_bytes:
        return None
    needed = f"its buffers need {smallest:,} bytes of {memory.name} at least, {memory.usable_bytes:,} are there"
    missing = ceil(smallest - memory.usable_bytes)
    if can_be_cut:
        return Verdict("capacity", needed, missing)
    cause, reason = _uncut(run)
    return Verdict(cause, f"it cannot be tiled ({reason}), and {needed}", missing)


def smallest_bytes(run: Members) -> int:
    """The least that the buffers of a run need while some layer runs, under any trip counts."""
    under_x = run.live_bytes(run.channel_tiling, "GXNPQ")
    return ceil(np.concatenate([run.live, under_x]).max(axis=1).min())


def pinning_bytes(run: Members) -> int | None:
    """What a run lacks to be one group with every weight fetched once, as far as buffers and weights go.

    Under loops over N, P or Q all weights of an iteration of G stay beside the buffers; without such loops each layer
    runs once, and its weights may pass:

    .. math:: \\min_{trips} \\max_v live_v + [N P Q > 1] \\sum |W| / G
    """
    structure = run.task.machine.structure
    if structure.home("W") != structure.fuses:
        return None
    layers = [run.workload[name] for name in run.names]
    weights = sum(layer.weight_words for layer in layers if not layer.has_weight_port) * run.task.machine.bits.W / 8
    g, n, p, q, _ = run.tiling.trips
    needed = run.live.max(axis=1) + np.where(n * p * q > 1, weights / g, 0)
    return max(0, ceil(float(needed.min()) - run.capacity))


def _uncut(run: Members) -> tuple[Cause, str]:
    """What keeps a run from being cut by any shared loop."""
    sizes = {loop: {run.workload[name].dims._asdict()[loop] for name in run.names} for loop in "GNPQ"}
    for barrier in barriers(run.workload, run.names, run.fused, online_softmax=run.task.machine.online_softmax):
        if any(sizes.get(loop, {1}) != {1} for loop in barrier.loops):
            return "whole tensor", barrier.reason
    sink = run.workload[run.names[-1]].dims._asdict()
    for i, loop in enumerate("GNPQ"):
        counts = trip_counts(sink[loop])[1:]
        trips = np.ones((5, len(counts)), dtype=np.int64)
        trips[i] = counts
        for misfit in group_tiling(run.workload, run.names, run.fused, trips).misfits:
            if misfit.where.any():
                return "alignment", misfit.reason
    return "alignment", f"{run.names[-1]} has nothing to cut"
