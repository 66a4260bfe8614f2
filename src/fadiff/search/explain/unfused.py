"""A network without fusion, as well as short climbs from many mappings find it: what fusion has to beat.

Layers on their own do not know each other. So of those that are the same to the model one stands for all, repeated as
often as all of them are, and a network of thousands of layers is searched as one of a few.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fadiff.cost import Evaluation, evaluate
from fadiff.schedule.rules import violations
from fadiff.search.exact.assemble import to_mapping
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.menus import Row, start_of, weighed
from fadiff.search.exact.starts import full_array, pinned, scattered
from fadiff.search.explain.climbs import affordable, climbed, costliest
from fadiff.search.objective import EDP
from fadiff.workload import Input, Workload
from fadiff.workload.layer import MAX_SIZE

if TYPE_CHECKING:
    from fadiff.schedule import Mapping, Schedule
    from fadiff.workload import Layer

FEWEST_STARTS, STARTS = 2, 16
"""Mappings that each layer climbs from, where there is time for all."""
MOST_MOVES = 2**19
"""Moves of all climbs at every node: beyond, layers climb from fewer mappings, and the cheapest of them from none."""


def distinct_layers(workload: Workload) -> Workload:
    """The different layers of a network, each repeated as often as all of its kind: it costs the same unfused."""
    known: dict[object, Layer] = {}
    for layer in workload.layers:
        alone = replace(layer, inputs=tuple(Input(None, operand.port) for operand in layer.inputs))
        kind = replace(alone, name="any")
        if (before := known.get(kind)) is None:
            known[kind] = alone
        elif before.repeat + layer.repeat <= MAX_SIZE:
            known[kind] = replace(before, repeat=before.repeat + layer.repeat)
        else:
            known[layer.name] = alone
    return Workload(workload.name, tuple(known.values()))


def unfused(greedy: Evaluation, hints: Schedule) -> Evaluation:
    """A schedule of layers on their own, improved by climbs; `hints` has mappings of the same layers to climb from."""
    schedule = greedy.schedule
    task = Task(schedule.workload, schedule.machine, dtype=np.float64)
    alone = {layer.name: task.alone(layer.name) for layer in schedule.layers if layer.is_mac}
    if not alone:
        return greedy
    most, random = affordable(task, MOST_MOVES), np.random.default_rng(0)
    each = min(STARTS, max(FEWEST_STARTS, most // len(alone)))
    names = costliest(greedy, alone, max(1, most // each))
    rows: list[Row] = []
    for name in names:
        starts = [start_of(task, hints.mappings[name]), pinned(task, alone[name]), full_array(task, alone[name])]
        starts += [scattered(task, alone[name], random) for _ in range(each - len(starts))]
        rows += [Row(alone[name], start, task.all_room) for start in starts[:each]]
    weights = EDP.weights(greedy)
    found = climbed(task, rows, weights)
    prices = np.where(np.isfinite(found.price), weighed(found, weights), np.inf).reshape(-1, each)
    new: dict[str, Mapping] = {}
    for i, (name, best) in enumerate(zip(names, prices.argmin(axis=1).tolist(), strict=True)):
        if np.isfinite(prices[i, best]):
            new[name] = to_mapping(task, alone[name], found, i * each + best)
    for violation in violations(replace(schedule, mappings={**schedule.mappings, **new})):
        for name in violation.layers:
            new.pop(name, None)
    better = evaluate(replace(schedule, mappings={**schedule.mappings, **new}))
    return min(greedy, better, key=lambda one: one.edp_uj_cycles)
