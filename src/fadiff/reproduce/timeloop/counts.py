"""What the model says of Timeloop's rows, under the names of Timeloop's columns: by its own rules and by Timeloop's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fadiff.cost.flows import REDUCED, Flow, flow_table
from fadiff.cost.model import layer_costs
from fadiff.hardware import pack_machine
from fadiff.reproduce.timeloop.reference import Columns, Floats, Reference
from fadiff.schedule.capacity import tile_values
from fadiff.schedule.nest import SHARED
from fadiff.schedule.rules import Examined

QUANTITIES = ("latency", "energy")


class Cost(NamedTuple):
    """Of every row, ``[rows]``, in the order of `QUANTITIES`."""

    cycles: Floats
    energy_pj: Floats


class Model(NamedTuple):
    """What the model says of the rows of a machine, by its own rules."""

    columns: Columns
    """Counts, tiles, steps and lanes by Timeloop's names; and, which Timeloop does not count, what leaves each keeper
    of O further out, ``M{k}_O_drains``."""
    reduced: dict[int, Floats]
    """By memory: the lanes over C, R and S above it, each of which holds a part of a sum."""
    instances: dict[int, Floats]
    """By memory: how many of it are in use."""
    cost: Cost


def by_model(reference: Reference) -> Model:
    """All rows of a machine through the model in one call."""
    machine, structure = reference.machine, reference.machine.structure
    nest = Examined(reference.schedule).nest
    costs = layer_costs(nest, pack_machine(machine))
    number = {node: k for k, node in enumerate(structure.memories)}
    above = {k: structure.axes_between(SHARED, node) for node, k in number.items()}
    columns: Columns = {}
    for flow, words in zip(flow_table(structure), costs.words, strict=True):
        name = f"M{number[flow.memory]}_{flow.tensor}_{_action(flow)}"
        columns[name] = columns.get(name, 0) + np.asarray(words)
    for node, k in number.items():
        for tensor in structure.keeps[node]:
            columns[f"M{k}_{tensor}_tile"] = np.asarray(tile_values(nest, node, tensor))
    columns["cycles_compute"] = np.asarray(costs.steps)
    columns["used_macs"] = np.asarray(nest.spread(range(8), structure.axes))
    return Model(
        columns=columns,
        reduced={k: np.asarray(nest.spread(REDUCED, axes)) for k, axes in above.items()},
        instances={k: np.asarray(nest.spread(range(8), axes)) for k, axes in above.items()},
        cost=Cost(np.asarray(costs.cycles), np.asarray(costs.energy_pj)),
    )


def _action(flow: Flow) -> str:
    """Timeloop's word for a flow."""
    if flow.tensor != "O":
        return "reads" if flow.action == "read" else "fills"
    if flow.action == "write":
        return "fills" if flow.what == "reload" else "updates"
    return "reads" if flow.what in ("update", "reload", "addend") else "drains"


def by_timeloops_rules(reference: Reference, model: Model) -> Columns:
    """The model's columns with Timeloop's two rules for sums put in.

    What leaves a keeper of O is not counted as read. Where F > 1 lanes over C, R and S lie above a keeper, Timeloop
    reloads an old sum into every one of them and the model into one: of D values that leave the keeper and U that
    arrive, D - F |O| are then filled, and U - F |O| read.
    """
    output = np.array([layer.output_words for layer in reference.schedule.workload.layers], dtype=np.float64)
    columns = {name: column for name, column in model.columns.items() if not name.endswith("_drains")}
    for k, lanes in model.reduced.items():
        for changed, before in (("fills", "drains"), ("reads", "updates")):
            name, source = f"M{k}_O_{changed}", f"M{k}_O_{before}"
            if name in columns and source in model.columns:
                columns[name] = np.where(lanes > 1, model.columns[source] - lanes * output, columns[name])
    return columns


def timeloops_price(reference: Reference, model: Model, columns: Columns) -> tuple[Cost, Columns]:
    """Cost of counts as Timeloop reckons it, and the cycles that each memory needs, ``M{k}_cycles``.

    .. math::
        energy = MACs \\cdot mac\\_pj + \\sum_k reads_k\\, read\\_pj_k + (fills_k + updates_k)\\, write\\_pj_k, \\qquad
        cycles_k = \\max(steps, \\lceil words_k / (words\\_per\\_cycle_k \\cdot instances_k) \\rceil)
    """
    steps = columns["cycles_compute"]
    energy = reference.machine.mac_pj * np.array([layer.macs for layer in reference.schedule.workload.layers], float)
    cycles: Columns = {}
    for k, memory in enumerate(reference.machine.memories):
        read = sum(columns.get(f"M{k}_{tensor}_reads", 0.0) for tensor in memory.keeps)
        written = sum(columns.get(f"M{k}_{t}_{a}", 0.0) for t in memory.keeps for a in ("fills", "updates"))
        energy = energy + read * memory.read_pj + written * memory.write_pj
        rate = memory.words_per_cycle or np.inf
        cycles[f"M{k}_cycles"] = np.maximum(steps, np.ceil((read + written) / (rate * model.instances[k])))
    return Cost(np.max([steps, *cycles.values()], axis=0), np.asarray(energy)), cycles
