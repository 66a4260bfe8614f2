"""A schedule whose names can be shown: files may hold names of any length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from fadiff.workload.names import shorten

if TYPE_CHECKING:
    from fadiff.schedule.ir import Schedule
    from fadiff.workload import Layer

LONGEST_NAME, LONGEST_FACT = 200, 1000
"""Signs of a name that a tooltip has room for, and of what a file says about its maker."""


def short_named(schedule: Schedule) -> Schedule:
    """The same schedule with the middle of very long texts left out: names, what made it, what was asked of it."""
    workload, machine = schedule.workload, schedule.machine
    layers, nodes = _short(layer.name for layer in workload.layers), _short(node.name for node in machine.nodes)
    told = [workload.name, machine.name, *layers, *nodes, *map(str, schedule.made_by.values())]
    told += (
        []
        if schedule.asked is None
        else [schedule.asked.objective, *(o.constraint for o in schedule.asked.constraints)]
    )
    if max(map(len, told)) <= LONGEST_NAME:
        return schedule
    renamed: list[Layer] = []
    for layer in workload.layers:
        inputs = (replace(o, source=layers[o.source]) if o.source else o for o in layer.inputs)
        renamed.append(replace(layer, name=layers[layer.name], inputs=tuple(inputs)))
    renamed_nodes = tuple(replace(node, name=nodes[node.name]) for node in machine.nodes)
    facts = schedule.made_by.items()
    return replace(
        schedule,
        workload=replace(workload, name=shorten(workload.name, LONGEST_NAME), layers=tuple(renamed)),
        machine=replace(machine, name=shorten(machine.name, LONGEST_NAME), nodes=renamed_nodes),
        groups=tuple(replace(group, layers=tuple(layers[name] for name in group.layers)) for group in schedule.groups),
        mappings={layers[name]: mapping for name, mapping in schedule.mappings.items()},
        made_by={key: shorten(said, LONGEST_FACT) if isinstance(said, str) else said for key, said in facts},
        asked=None if schedule.asked is None else schedule.asked.shortened(LONGEST_FACT),
    )


def _short(names: Iterable[str]) -> dict[str, str]:
    """A name of bounded length for each; all of them stay different."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        short, turn = shorten(name, LONGEST_NAME), 1
        while short in taken:
            turn += 1
            short = f"{shorten(name, LONGEST_NAME - len(f'~{turn}'))}~{turn}"
        taken.add(short)
        found[name] = short
    return found
