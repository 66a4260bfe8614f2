"""What is the same but for names stands in the page's data once.

A layer's *kind* is the kind of its group and its place in it: layers of one kind have the same mapping and the same
costs. The page's scripts put names and kinds together again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fadiff.analysis.loop_nest import loop_nests
from fadiff.analysis.occupancy import occupancy
from fadiff.cost.evaluate import evaluate
from fadiff.schedule.folding import group_kinds

if TYPE_CHECKING:
    from fadiff.analysis.breakdown import Breakdown
    from fadiff.analysis.roofline import RooflinePoint
    from fadiff.schedule import Schedule

MOST_NEST_BYTES = 1_000_000
"""Of all loop nests in the page: those of groups that cost less are left out."""
MOST_REASONS = 500
"""Reasons of different kinds in the page: those of smaller tensors are left out."""
OWN = ("name", "group", "inputs")
"""What layers of one kind differ in."""


class Kinds:
    """The kinds of a schedule's groups and layers, numbered by their first appearance in execution order."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        found = group_kinds(schedule)
        self.firsts = list(dict.fromkeys(found))
        """The first group of each kind."""
        place = {first: i for i, first in enumerate(self.firsts)}
        self.of_group = [place[first] for first in found]
        members = [(kind, i) for kind, first in enumerate(self.firsts) for i in range(len(self._layers(first)))]
        self.of_layer: dict[str, int] = {}
        number = {member: i for i, member in enumerate(members)}
        for kind, group in zip(self.of_group, schedule.groups, strict=True):
            self.of_layer |= {name: number[kind, i] for i, name in enumerate(group.layers)}
        self.first_layers = [name for first in self.firsts for name in self._layers(first)]
        """The first layer of each kind."""

    def _layers(self, group: int) -> tuple[str, ...]:
        return self.schedule.groups[group].layers

    def excerpt(self) -> Schedule:
        """The first group of each kind."""
        return self.schedule.excerpt([self.schedule.groups[first] for first in self.firsts])


def layer_kinds(
    kinds: Kinds, layers: Sequence[Mapping[str, Any]], points: Sequence[RooflinePoint]
) -> list[dict[str, Any]]:
    """What layers of each kind have in common: all but their names, and what is in the memories while they run."""
    by_name = {layer["name"]: layer for layer in layers}
    point_of = {point.layer: point for point in points}
    held = occupancy(kinds.excerpt())
    found: list[dict[str, Any]] = []
    for name in kinds.first_layers:
        place = {member: i for i, member in enumerate(kinds.schedule.group_of[name].layers)}
        point = asdict(point_of[name]) if name in point_of else None
        found.append(
            {key: value for key, value in by_name[name].items() if key not in OWN}
            | {"ports": [operand["port"] for operand in by_name[name]["inputs"]]}
            | {"roofline": point and {key: value for key, value in point.items() if key != "layer"}}
            | {
                "held": {
                    memory: [(part.kind, part.tensor, place[part.layer], part.bytes) for part in parts]
                    for memory, parts in held[name].items()
                }
            }
        )
    return found


def layer_rows(kinds: Kinds, layers: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Each layer by its name, kind and group, and the numbers of the layers that it reads."""
    number = {layer["name"]: i for i, layer in enumerate(layers)}
    return [
        [
            layer["name"],
            kinds.of_layer[layer["name"]],
            layer["group"],
            [None if operand["from"] is None else number[operand["from"]] for operand in layer["inputs"]],
        ]
        for layer in layers
    ]


def folded_nests(kinds: Kinds, costs: Breakdown) -> list[dict[str, Any] | None]:
    """The loop nest of each kind of group, in the names of its first; None for those that are left out for size."""
    energy, cycles = costs.totals.energy_pj or 1, costs.totals.cycles or 1
    worth = [0.0] * len(kinds.firsts)
    for kind, group in zip(kinds.of_group, costs.groups, strict=True):
        worth[kind] += group.energy_pj / energy + group.cycles / cycles
    nests = loop_nests(evaluate(kinds.excerpt()))
    found: list[dict[str, Any] | None] = [None] * len(nests)
    size = 0
    for kind in sorted(range(len(nests)), key=lambda kind: -worth[kind]):
        lines = [{key: value for key, value in vars(line).items() if value} for line in nests[kind].lines]
        size += len(json.dumps(lines))
        if size > MOST_NEST_BYTES and kind != 0:
            break
        found[kind] = {"group": kinds.firsts[kind], "lines": lines}
    return found


def folded_reasons(entries: Sequence[Mapping[str, Any]], number: Mapping[str, int]) -> dict[str, Any]:
    """Why tensors are not fused: entries that are the same but for names once, with the layers of all of them."""
    edges: dict[int, list[tuple[int, int]]] = {}
    for entry in entries:
        edges.setdefault(entry["alike"], []).append((number[entry["source"]], number[entry["target"]]))
    largest = sorted(edges, key=lambda first: -entries[first]["bytes"] * len(edges[first]))
    kept = sorted(largest[:MOST_REASONS])
    told = [
        {key: value for key, value in entries[first].items() if key not in ("source", "target", "alike")}
        | {"edges": edges[first]}
        for first in kept
    ]
    return {"entries": told, "left_out": len(entries) - sum(len(edges[first]) for first in kept)}
