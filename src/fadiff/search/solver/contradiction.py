r"""Proofs that no schedule keeps what is asked: no modes of all layers are left on which neighbours agree.

A mode of a layer is out where branch and bound finds no chain of extents in it. If every schedule cost nothing, and a
layer in no mode 1, then with any prices y of what holds of schedules (:mod:`fadiff.search.solver.modes`)

.. math:: \sum_v \min(1, \min_m (- (A^T y)_{vm})) > 0

says that some layer is in no mode: there is no schedule. It holds whoever proposes y; a linear program does.
"""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np

from fadiff.hardware import Axis
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.schedule.constraints import ImpossibleError
from fadiff.schedule.rules import violations
from fadiff.search.exact.asked import in_order
from fadiff.search.restrictions import Restrictions
from fadiff.search.solver.kinds import asks, kinds_of
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.modes import Modes
from fadiff.search.solver.parts import COMPUTING, row_of
from fadiff.search.solver.place import Links, asked_places, places
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from fadiff.hardware import Machine
    from fadiff.schedule.constraints import Constraints
    from fadiff.schedule.group_constraints import Together
    from fadiff.search.solver.parts import Tile
    from fadiff.workload import Workload

WEIGHTS = (1.0, 0.0)
"""Prices at which layers are looked at: any do."""
MOST_WALKS = 150
"""Walks through all layers before a proof is given up."""
ACTIVE = 1e-6
"""A layer is in a mode with more than this share of it."""


def contradiction(
    workload: Workload,
    machine: Machine,
    constraints: Constraints,
    *,
    exact_factors: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> str | None:
    """Why no schedule keeps constraints, where that is proven; None where it is not, which proves nothing."""
    if why := plain_contradiction(workload, machine, constraints):
        return why
    asked, links = Restrictions(workload, machine, constraints), Links(workload, machine)
    possible = [asked_places(places(links, layer), asked.required, asked.barred) for layer in workload.layers]
    kind_of = kinds_of(links, asked, possible, lambda _: COMPUTING, exact_factors=exact_factors)
    modes = Modes(links, possible, exact_factors=exact_factors, given=asked.given)
    wanted = [asks(kind_of, modes, mode) for mode in modes.modes]
    rows = np.array([row_of(one) for one in wanted], dtype=np.float64)
    touched = [asked.touches(i) for i in range(len(workload.layers))]
    barren: dict[tuple[int, int, Tile], bool] = {}
    empty: list[bool] = []
    for mode, one in zip(modes.modes, wanted, strict=True):
        bound, key = kind_of[mode.layer].bound, (id(kind_of[mode.layer]), *one)
        if touched[mode.layer] and isinstance(bound, LayerBound) and key not in barren:
            barren[key] = bound.barren(one)
        empty.append(barren.get(key, False))
    walked = 0
    while True:
        there = ~np.array(empty, dtype=bool)
        for i, layer in enumerate(workload.layers):
            mine = modes.owner == i
            if mine.any():
                there[mine] &= kind_of[i].bound.least(WEIGHTS, rows[mine]) < inf
            if not there[mine].any():
                return f"layer {layer.name!r} fits {machine.name} in no way that keeps what is asked of it"
        share = modes.shares(there)
        if share is None:
            return "no groups are left that suit all layers"
        before = walked
        for number in np.flatnonzero(share > ACTIVE).tolist():
            mode = modes.modes[number]
            bound = kind_of[mode.layer].bound
            if touched[mode.layer] and isinstance(bound, LayerBound) and not stop():
                passes = bound.passes
                if bound.lift(WEIGHTS, wanted[number], inf, 1):
                    walked += max(1, bound.passes - passes)
        if walked == before or walked > MOST_WALKS:
            return None


def plain_contradiction(workload: Workload, machine: Machine, constraints: Constraints) -> str | None:
    """Why no schedule keeps constraints, where that can be seen without looking at mappings; None where it cannot."""
    asked, links = Restrictions(workload, machine, constraints), Links(workload, machine)
    if asked.disagreeing is not None:
        return f"{' and '.join(asked.disagreeing[0].layers)} cannot be in two groups that differ"
    for group in dict.fromkeys(asked.given.values()):
        if len(group.layers) > 1 and (why := _no_group(workload, machine, group)):
            return why
    for source, target in sorted(asked.required - {*links.passed}):
        return f"{source} -> {target} cannot be fused on {machine.name}"
    for i, layer in enumerate(workload.layers):
        possible = asked_places(places(links, layer), asked.required, asked.barred)
        if not possible:
            return f"no group suits layer {layer.name!r}"
        if why := _no_mapping(asked, i, grouped=any(fused for fused, _ in possible)):
            return why
    return None


SHAPELESS = frozenset({"aligned", "fusible", "fuses", "one sink", "repeat"})
"""Rules that a group without trips breaks whatever the mappings of its layers are."""


def _no_group(workload: Workload, machine: Machine, given: Together) -> str | None:
    """Why layers are no group under that nesting, whatever its trips and mappings; None where nothing speaks against
    it."""
    names = sorted(given.layers, key=workload.depth.__getitem__)
    group = Group(tuple(names), loops=given.nesting)
    try:
        in_order(workload, [group])
    except ImpossibleError as waiting:
        return str(waiting)
    first = machine.memories[0].name
    mappings = {name: Mapping.of(machine, {first: workload[name].dims}) for name in names if workload[name].is_mac}
    broken = violations(Schedule(workload, machine, (group,), mappings, is_excerpt=True))
    return next((one.message for one in broken if one.rule in SHAPELESS), None)


def _no_mapping(asked: Restrictions, number: int, *, grouped: bool) -> str | None:
    """Why a layer has no mapping, as can be seen without looking at any; None where that cannot be seen."""
    layer, machine = asked.workload.layers[number], asked.machine
    lanes: dict[int, dict[int, int]] = {}
    for node, d, least, _, held in asked.limits(number):
        if held and least > layer.dims[d]:
            return f"{DIMS[d]} of {layer.name} is {layer.dims[d]}"
        if not held and node in machine.structure.axes:
            mine = lanes.setdefault(node, {})
            mine[d] = max(mine.get(d, 1), least)
    for node, least_of in lanes.items():
        axis = machine.nodes[node]
        if isinstance(axis, Axis) and prod(least_of.values()) > axis.size:
            return f"{axis.name} has {axis.size} lanes"
    for m, node in enumerate(machine.structure.memories):
        # Of the first memory's loops a group may share all.
        must = set[int]() if m == 0 and grouped else asked.must_run(number, node)
        if clash := next((pair for pair in asked.clashes(number, m) if must.issuperset(pair)), None):
            told = " and ".join(DIMS[d] for d in clash)
            return f"in {layer.name} loops over {told} run at {machine.nodes[node].name}, each outside of the other"
    return None
