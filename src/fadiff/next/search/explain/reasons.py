"""Why a group ends where it does: for every tensor that leaves the chip, what keeps its two groups apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, exp
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fadiff.next.cost import Evaluation, evaluate
from fadiff.next.schedule import Group
from fadiff.next.schedule.barriers import barriers
from fadiff.next.schedule.rules import violations
from fadiff.next.schedule.tiling import group_tiling
from fadiff.next.search.driver import Objective, price_weights, score
from fadiff.next.search.exact.assemble import Filled, fill, to_mappings
from fadiff.next.search.exact.conditions import Condition, Room, Task
from fadiff.next.search.exact.menus import (
    FURTHER_MAPPINGS,
    LITTLE_ROOM,
    THRIFT,
    Menu,
    Row,
    full_array,
    join,
    outermost,
    pinned,
    subset,
)
from fadiff.next.search.exact.plans import Plan, Run, live_bytes
from fadiff.next.search.explain.climbs import climbed
from fadiff.next.search.explain.present import start_of
from fadiff.next.search.space import trip_counts

if TYPE_CHECKING:
    from fadiff.workload import Workload

Cause = Literal[
    "not fusible", "no memory fuses", "incomplete", "capacity", "alignment", "whole tensor", "one sink", "repeat",
    "order", "no gain", "not searched",
]  # fmt: skip

PLANS_PRICED = 6
"""Plans of a merged group that are looked at."""

Pair = tuple[Group, Group]


class Boundary(NamedTuple):
    """A tensor that leaves the chip, and what keeps its producer and its reader apart."""

    source: str
    target: str
    cause: Cause
    detail: str


class Verdict(NamedTuple):
    """What keeps two groups apart."""

    cause: Cause
    detail: str
    missing_bytes: int | None = None
    """What the memory that fuses lacks at least, where buffers do not fit whatever the tiles."""
    merged: Evaluation | None = None
    """The network with the two merged, the best that a short search finds; None where it finds nothing that fits."""


_UNKNOWN = Verdict("not searched", "nothing forbids it; the search ended before pricing it (fadiff report prices it)")


def boundaries(evaluation: Evaluation, objective: Objective, *, priced: bool = True) -> list[Boundary]:
    """The reason for every edge that is not fused, in the order of the workload's edges.

    Where nothing forbids to merge the two groups, the best merged group that a short search finds is priced; without
    `priced` such edges are told as not searched.
    """
    schedule = evaluation.schedule
    known = verdicts(evaluation, objective, priced=priced)
    return [
        Boundary(edge.source, edge.target, *known[schedule.group_of[edge.source], schedule.group_of[edge.target]][:2])
        for edge in schedule.workload.edges
        if not schedule.is_fused(edge)
    ]


def verdicts(evaluation: Evaluation, objective: Objective, *, priced: bool = True) -> dict[Pair, Verdict]:
    """What keeps every two groups apart that an edge joins; as in :func:`boundaries`."""
    schedule = evaluation.schedule
    task = Task(schedule.workload, schedule.machine, dtype=np.float64)
    apart = [edge for edge in schedule.workload.edges if not schedule.is_fused(edge)]
    pairs = dict.fromkeys((schedule.group_of[edge.source], schedule.group_of[edge.target]) for edge in apart)
    known = {pair: _forbidden(task, *pair) for pair in pairs}
    free = [pair for pair, verdict in known.items() if verdict is None]
    found = _priced(task, evaluation, objective, free) if priced else dict.fromkeys(free, _UNKNOWN)
    return {pair: verdict or found[pair] for pair, verdict in known.items()}


def merged_layers(workload: Workload, source: Group, target: Group) -> tuple[str, ...]:
    """All layers from the first of two groups to the last, in topological order: their own and those between."""
    places = [workload.depth[name] for name in source.layers + target.layers]
    return workload.topological[min(places) : max(places) + 1]


def _forbidden(task: Task, source: Group, target: Group) -> Verdict | None:
    """What forbids to merge two groups; None if nothing does."""
    return _unsuited(task) or _between(task.workload, source, target) or _broken(task, source, target)


def _unsuited(task: Task) -> Verdict | None:
    """Why a machine fuses nothing at all."""
    machine, memory = task.machine, task.machine.fused_in()
    if memory is None:
        return Verdict("no memory fuses", f"no memory of {machine.name} holds fused tensors")
    if machine.structure.keepers("O")[-1] <= machine.number[memory.name]:
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
    run = Run(task, names)
    if barred := [edge for edge in run.fused if not edge.fusible]:
        told = ", ".join(f"{edge.target} cannot read {edge.source} on chip" for edge in barred)
        return Verdict("not fusible", f"{told}: the network says so")
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
    if run.tiling.trips.shape[1] > 1:
        return Verdict("capacity", needed, missing)
    cause, reason = _uncut(run)
    return Verdict(cause, f"it cannot be tiled ({reason}), and {needed}", missing)


def smallest_bytes(run: Run) -> int:
    """The least that the buffers of a run need while some layer runs, under any trip counts."""
    live = [run.live]
    if len(run.names) == 2 and "X" not in run.barred:
        trips = run.tiling.trips.copy()
        trips[4] = run.workload[run.names[1]].dims.C
        tiling = group_tiling(run.workload, run.names, run.fused, trips)
        live.append(live_bytes(run.task, run.names, run.fused, tiling, "GXNPQ")[tiling.aligned])
    return ceil(min(each.max(axis=1).min(initial=np.inf) for each in live))


def _uncut(run: Run) -> tuple[Cause, str]:
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


def _priced(task: Task, evaluation: Evaluation, objective: Objective, pairs: Sequence[Pair]) -> dict[Pair, Verdict]:
    """What merging each pair of groups would cost, as far as a short search can tell."""
    weights = price_weights(evaluation, objective)
    plans = {pair: _some_plans(task, pair) for pair in pairs}
    conditions = list(dict.fromkeys(c for mine in plans.values() for plan in mine for c in plan.conditions))
    menus = _menus(task, evaluation, conditions, weights) if conditions else {}
    result: dict[Pair, Verdict] = {}
    for pair, mine in plans.items():
        filled = [one for one in (fill(task, plan, menus, weights, np.inf) for plan in mine) if one is not None]
        merged = _merge(task, evaluation, pair, min(filled, key=lambda one: one.price)) if filled else None
        if merged is None:
            told = " and ".join(memory.name for memory in task.machine.memories[1:])
            result[pair] = Verdict("capacity", f"no tiles were found that fit in {told} beside its buffers")
            continue
        change = exp(score(merged, objective) - score(evaluation, objective)) - 1
        told = f"fused, the {objective} would be about {abs(change):.2%}"
        result[pair] = (
            Verdict("not searched", f"{told} lower: search longer", merged=merged)
            if change < 0
            else Verdict("no gain", f"{told} higher", merged=merged)
        )
    return result


def _some_plans(task: Task, pair: Pair) -> list[Plan]:
    """The most promising plans of the merged group."""
    run = Run(task, merged_layers(task.workload, *pair))
    found = [run.plan(sharing) for sharing in run.chosen()]
    return sorted(found, key=lambda plan: (_extra_bytes(task, plan), plan.group.iterations))[:PLANS_PRICED]


def _extra_bytes(task: Task, plan: Plan) -> float:
    """Bytes of a plan's weights from the first memory, and of what a channel loop moves more than once: to rank plans.

    Weights are fetched once if those of an iteration of G (and of X, where it stands outside) fit at home, else in
    every iteration of N, P and Q. Sums that wait for the next iteration of X spill where they do not fit at home; an X
    that stands outside reads the producer's input anew.
    """
    trips, bits = plan.group.trips, task.machine.bits
    layers = [task.workload[name] for name in plan.group.layers]
    weights = sum(layer.weight_words for layer in layers if not layer.has_weight_port) * bits.W / 8
    passes = trips.N * trips.P * trips.Q
    outside = passes > 1 and plan.group.nesting.index("X") < plan.group.nesting.index("N")
    held = weights / (trips.G * (trips.X if outside else 1))
    moved = weights * (1 if held <= _home_bytes(task, plan, "W") else passes)
    waiting = layers[-1].output_words / (trips.G * (1 if outside else passes)) * bits.sums / 8
    if waiting > _home_bytes(task, plan, "O") / 2:
        moved += (trips.X - 1) * 2 * layers[-1].output_words * bits.spilled / 8
    return moved + (trips.X - 1) * layers[0].input_words * bits.I / 8 if outside else moved


def _home_bytes(task: Task, plan: Plan, tensor: str) -> float:
    """Bytes that all instances of a tensor's home have for it; beside the buffers, in the memory that fuses."""
    structure = task.machine.structure
    home = structure.home(tensor)
    if home is None:
        return 0.0
    usable = task.machine.memories[structure.memories.index(home)].usable_bytes
    return usable * task.machine.instances(home) - (max(plan.live_bytes) if home == structure.fuses else 0)


def _menus(
    task: Task, evaluation: Evaluation, conditions: Sequence[Condition], weights: tuple[float, float]
) -> dict[Condition, Menu]:
    """Mappings of layers in merged groups: the best with all room there is, and the best with less and less of it."""
    present = {task.twin[task.number[name]]: start_of(task, m) for name, m in evaluation.schedule.mappings.items()}
    fusing = task.fusing
    assert fusing is not None, "groups need a memory that fuses"
    whole = task.all_room.running[fusing]
    menus: dict[Condition, list[Menu]] = {condition: [] for condition in conditions}
    rooms = dict.fromkeys(conditions, whole)
    for stage in range(1 + FURTHER_MAPPINGS):
        rows: dict[Condition, list[Row]] = {}
        for condition, bytes_here in rooms.items():
            starts = [present.get(condition.layer, outermost(task)), full_array(task, condition)]
            starts += [pinned(task, condition)] if stage == 0 else []
            rows[condition] = [Row(condition, start, _room(task, condition, fusing, bytes_here)) for start in starts]
        found = climbed(task, [row for mine in rows.values() for row in mine], weights)
        rooms, at = dict[Condition, float](), 0
        for condition, mine in rows.items():
            menu = subset(found, slice(at, at + len(mine)))
            menus[condition].append(subset(menu, np.isfinite(menu.price)))
            at += len(mine)
            taken = float(menu.running[fusing, menu.price.argmin()])
            if np.isfinite(menu.price).any() and taken > LITTLE_ROOM * whole:
                rooms[condition] = THRIFT * taken
        if not rooms:
            break
    return {condition: join(parts) for condition, parts in menus.items()}


def _room(task: Task, condition: Condition, fusing: int, bytes_here: float) -> Room:
    """Some of the memory that fuses; of the sums' memories half, where two layers of a channel loop hold them."""
    sizes, structure = task.layer(condition).dims, task.machine.structure
    halved = condition.tile[2:4] != (sizes.K, sizes.C)
    sums = [halved and node in structure.keepers("O") for node in structure.memories[1:]]
    room = [size / 2 if half else size for size, half in zip(task.all_room.running, sums, strict=True)]
    room[fusing] = min(room[fusing], bytes_here)
    return Room(tuple(room), tuple(room))


def _merge(task: Task, evaluation: Evaluation, pair: Pair, filled: Filled) -> Evaluation | None:
    """The schedule with two groups in one; None where exact numbers break a rule after all."""
    old = evaluation.schedule
    groups = tuple(filled.plan.group if group == pair[1] else group for group in old.groups if group != pair[0])
    schedule = replace(old, groups=groups, mappings={**old.mappings, **to_mappings(task, filled)})
    return None if violations(schedule) else evaluate(schedule)
