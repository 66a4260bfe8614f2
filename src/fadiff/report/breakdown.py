"""The cost of a schedule in detail: where energy, time and words go, by group and by layer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.cost import Evaluation
from fadiff.schedule import Group

if TYPE_CHECKING:
    from jax import Array


@dataclass(frozen=True)
class LayerCost:
    """One execution of one layer; `group` is the place of its group in execution order, from 0."""

    name: str
    group: int
    repeat: int
    macs: int
    cycles: float
    cycles_by_term: dict[str, float]
    bound_by: str
    """The roofline term that sets the cycles: compute, L1, L2 or L3."""
    utilization: float
    energy_pj: float
    energy_by_part_pj: dict[str, float]
    words: dict[str, int]
    """Words by level, tensor and direction, named as the cost model names them (L1: 32-bit words)."""
    l2_bytes: int
    l1_bytes: int


@dataclass(frozen=True)
class GroupCost:
    """One fused group, or a layer on its own; energy, cycles and words count repeats."""

    layers: tuple[str, ...]
    trips: dict[str, int]
    """Shared trip counts above 1, outer to inner."""
    peak_l2_bytes: int
    peak_l1_bytes: int
    energy_pj: float
    cycles: float
    l3_words: int


@dataclass(frozen=True)
class Totals:
    """The whole network, repeats counted."""

    energy_pj: float
    cycles: float
    edp_uj_cycles: float
    l3_words: int
    utilization: float
    energy_by_part_pj: dict[str, float]


@dataclass(frozen=True)
class Breakdown:
    """All of it. Capacities are those a schedule may fill (half of the memory where it is double-buffered)."""

    workload: str
    hardware: str
    made_by: dict[str, str | int]
    l2_capacity_bytes: int
    l1_capacity_bytes: int
    totals: Totals
    groups: tuple[GroupCost, ...]
    layers: tuple[LayerCost, ...]

    @property
    def fused_groups(self) -> int:
        """Groups of two or more layers."""
        return sum(len(group.layers) > 1 for group in self.groups)

    @property
    def fused_layers(self) -> int:
        """Layers that share their group with others."""
        return sum(len(group.layers) for group in self.groups if len(group.layers) > 1)


def breakdown(evaluation: Evaluation) -> Breakdown:
    """An evaluation in detail; layers in the workload's order."""
    schedule = evaluation.schedule
    layers = _layers(evaluation)
    of_layer = {layer.name: layer for layer in layers}
    return Breakdown(
        workload=schedule.workload.name,
        hardware=schedule.hardware.name,
        made_by=dict(schedule.made_by),
        l2_capacity_bytes=schedule.hardware.usable_l2_bytes,
        l1_capacity_bytes=schedule.hardware.usable_l1_bytes,
        totals=Totals(
            energy_pj=evaluation.energy_pj,
            cycles=evaluation.cycles,
            edp_uj_cycles=evaluation.edp_uj_cycles,
            l3_words=round(evaluation.l3_words),
            utilization=evaluation.utilization,
            energy_by_part_pj=evaluation.energy_parts_pj(),
        ),
        groups=tuple(_group(group, [of_layer[name] for name in group.layers]) for group in schedule.groups),
        layers=layers,
    )


def _layers(evaluation: Evaluation) -> tuple[LayerCost, ...]:
    schedule, costs = evaluation.schedule, evaluation.layers
    number = {name: i for i, group in enumerate(schedule.groups) for name in group.layers}
    words, times, energies = (_by_name(part) for part in (costs.traffic, costs.cycles, costs.energy))
    l2_bytes, l1_bytes = np.ceil(np.asarray(evaluation.needs.l2_bytes)), np.ceil(np.asarray(evaluation.needs.l1_bytes))
    peak_macs = schedule.hardware.rows * schedule.hardware.cols
    result: list[LayerCost] = []
    for i, layer in enumerate(schedule.workload.layers):
        cycles = times["total"][i]
        result.append(
            LayerCost(
                name=layer.name,
                group=number[layer.name],
                repeat=layer.repeat,
                macs=layer.macs,
                cycles=cycles,
                cycles_by_term={term: values[i] for term, values in times.items() if term != "total"},
                bound_by=evaluation.binding[i],
                utilization=layer.macs / (cycles * peak_macs) if cycles else 0.0,
                energy_pj=energies["total"][i],
                energy_by_part_pj={part: values[i] for part, values in energies.items() if part != "total"},
                words={field: round(values[i]) for field, values in words.items() if field != "macs"},
                l2_bytes=int(l2_bytes[i]),
                l1_bytes=int(l1_bytes[i]),
            )
        )
    return tuple(result)


def _by_name(arrays: "NamedTuple") -> dict[str, list[float]]:
    """The arrays of a named tuple as lists, one number per layer."""
    fields: dict[str, Array] = arrays._asdict()
    return {name: [float(value) for value in np.asarray(values)] for name, values in fields.items()}


def _group(group: Group, members: list[LayerCost]) -> GroupCost:
    trips = group.trips._asdict()
    return GroupCost(
        layers=group.layers,
        trips={loop: trips[loop] for loop in group.nesting if trips[loop] > 1},
        peak_l2_bytes=max(layer.l2_bytes for layer in members),
        peak_l1_bytes=max(layer.l1_bytes for layer in members),
        energy_pj=sum(layer.energy_pj * layer.repeat for layer in members),
        cycles=sum(layer.cycles * layer.repeat for layer in members),
        l3_words=sum(l3_words(layer) * layer.repeat for layer in members),
    )


def l3_words(layer: LayerCost) -> int:
    """DRAM words of one execution of a layer."""
    return words_at(layer.words, "l3")


def words_at(words: dict[str, int], level: str) -> int:
    """Sum over the fields of a level: l3, l2, l1 or l0."""
    return sum(count for field, count in words.items() if field.startswith(f"{level}_"))
