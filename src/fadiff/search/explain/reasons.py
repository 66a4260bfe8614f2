"""Why a group ends where it does: for every two groups that a tensor joins, what keeps them apart."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fadiff.schedule.barriers import barriers
from fadiff.schedule.tiling import group_tiling
from fadiff.search.driver import Objective, score
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.plans import Members
from fadiff.search.explain.merging import Pair, merge, merged_layers
from fadiff.search.space import trip_counts

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Group
    from fadiff.workload import Workload

Cause = Literal[
    "not fusible", "no memory fuses", "incomplete", "capacity", "alignment", "whole tensor", "one sink", "repeat",
    "order", "no gain", "not searched",
]  # fmt: skip


class Verdict(NamedTuple):
    """What keeps two groups apart."""

    cause: Cause
    detail: str
    """A clause without full stop."""
    missing_bytes: int | None = None
    """What the memory that fuses lacks at least, where buffers do not fit whatever the tiles."""
    merged: Evaluation | None = None
    """The network with the two merged, the best that a short search finds; None where it finds nothing that fits."""


_UNKNOWN = Verdict("not searched", "nothing forbids it; the search ended before pricing it (fadiff report prices it)")


def verdicts(evaluation: Evaluation, objective: Objective, *, priced: bool = True) -> dict[Pair, Verdict]:
    """What keeps every two groups apart that an edge joins.

    Where nothing forbids to merge them, the best merged group that a short search finds is priced; without `priced`
    they are told as not searched.
    """
    schedule = evaluation.schedule
    task = Task(schedule.workload, schedule.machine, dtype=np.float64)
    apart = [edge for edge in schedule.workload.edges if not schedule.is_fused(edge)]
    pairs = dict.fromkeys((schedule.group_of[edge.source], schedule.group_of[edge.target]) for edge in apart)
    found = {pair: _unsuited(task) or _between(task.workload, *pair) or _broken(task, *pair) for pair in pairs}
    free = [pair for pair, verdict in found.items() if verdict is None]
    merged = merge(task, evaluation, objective, free) if priced and free else {}
    compared = {pair: _compared(evaluation, one, objective) for pair, one in merged.items()}
    return {pair: verdict or compared.get(pair, _UNKNOWN) for pair, verdict in found.items()}


def _compared(evaluation: Evaluation, merged: Evaluation | None, objective: Objective) -> Verdict:
    """What merging two groups would gain or cost."""
    if merged is None:
        return Verdict("capacity", "no tiles were found that fit beside its buffers")
    change = exp(score(merged, objective) - score(evaluation, objective)) - 1
    told = f"fused, the {objective} would be about {abs(change):.2%}"
    if change < 0:
        return Verdict("not searched", f"{told} lower: search longer", merged=merged)
    return Verdict("no gain", f"{told} higher", merged=merged)


def _unsuited(task: Task) -> Verdict | None:
    """Why a machine fuses nothing at all."""
    machine, memory = task.machine, task.machine.fused_in()
    if memory is None:
        return Verdict("no memory fuses", f"no memory of {machine.name} holds fused tensors")
    if machine.structure.hands_over is None:
        return Verdict("incomplete", f"no memory further in than {memory.name} keeps O, where sums could be finished")
    return None


def _between(workload: Workload, source: Group, target: Group) -> Verdict | None:
    """Which layers run between two groups."""
    members = source.layers + target.layers
    between = [name for name in merged_layers(workload, source, target) if name not in members]
    if not between:
        return None
    if forced := _on_the_way(workload, members):
        told = ", ".join(name for name in between if name in forced)
        return Verdict("order", f"{told} must run between them")
    verb = "runs" if len(between) == 1 else "run"
    return Verdict("order", f"{', '.join(between)} {verb} between them, and only neighbours are fused")


def _on_the_way(workload: Workload, members: Sequence[str]) -> set[str]:
    """Layers outside two groups that read one of their tensors, over any number of layers, and feed one of them."""
    after, before = set(members), set(members)
    for name in workload.topological:
        if any(edge.source in after for edge in workload.producers[name]):
            after.add(name)
    for name in reversed(workload.topological):
        if any(edge.target in before for edge in workload.consumers[name]):
            before.add(name)
    return (after & before) - set(members)


def _broken(task: Task, source: Group, target: Group) -> Verdict | None:
    """Which rule the merged group breaks, whatever the trip counts and mappings."""
    names = merged_layers(task.workload, source, target)
    run = Members(task, names)
    if barred := [edge for edge in run.fused if not edge.fusible]:
        told = dict.fromkeys(
            f"{edge.target} cannot read {edge.source} on chip: {edge.reason or 'the network says so'}"
            for edge in barred
        )
        return Verdict("not fusible", "; ".join(told))
    if len(repeats := {task.workload[name].repeat for name in names}) > 1:
        return Verdict("repeat", f"their layers repeat {' and '.join(str(r) for r in sorted(repeats))} times")
    if not run.may_be_group:
        feeding = {edge.source for edge in run.fused}
        loose = [name for name in names[:-1] if name not in feeding]
        return Verdict("one sink", f"{', '.join(loose)} would not lead to {names[-1]} inside the group")
    smallest, memory = smallest_bytes(run), task.machine.fused_in()
    if memory is None or smallest <= memory.usable_bytes:
        return None
    needed = f"its buffers need {smallest:,} bytes of {memory.name} at least, {memory.usable_bytes:,} are there"
    missing = ceil(smallest - memory.usable_bytes)
    if run.tiling.trips.shape[1] > 1 or smallest < run.live.max():
        return Verdict("capacity", needed, missing)
    cause, reason = _uncut(run)
    return Verdict(cause, f"it cannot be tiled ({reason}), and {needed}", missing)


def smallest_bytes(run: Members) -> int:
    """The least that the buffers of a run need while some layer runs, under any trip counts."""
    under_x = run.live_bytes(run.channel_tiling, "GXNPQ")
    return ceil(np.concatenate([run.live, under_x]).max(axis=1).min())


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
