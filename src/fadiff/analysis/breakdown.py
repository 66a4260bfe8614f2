"""The cost of a schedule in detail: where energy, time and words go, by group and by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fadiff.analysis.at_clock import AtClock, at_clock
from fadiff.analysis.idle import IdleLanes, array_use
from fadiff.analysis.occupancy import needed_bytes
from fadiff.hardware import area_by_node_mm2, leakage_mw
from fadiff.hardware.machine import VECTOR
from fadiff.schedule.rules import Examined

if TYPE_CHECKING:
    import numpy as np

    from fadiff.cost.evaluate import Evaluation
    from fadiff.cost.flows import Action, Flow
    from fadiff.schedule import Group
    from fadiff.schedule.asked import Asked
    from fadiff.schedule.ir import LowerBound
    from fadiff.workload.coverage import Coverage

Content = Literal["weights", "inputs", "addends", "outputs", "fused", "sums"]
"""What moves: `fused` are outputs on their way to fused readers, `sums` outputs that are not finished yet."""


@dataclass(frozen=True)
class Access:
    """One kind of access to one memory: a flow of the cost model with the names of its ends."""

    memory: str
    action: Action
    other: str | None
    """Where the words go to or come from; None: the MACs."""
    content: Content


@dataclass(frozen=True)
class LayerCost:
    """One execution of one layer; `group` is the place of its group in execution order, from 0."""

    name: str
    group: int
    repeat: int
    macs: int
    cycles: float
    cycles_by_term: dict[str, float]
    """What computing, each memory and the vector unit would need alone; named as `Evaluation.term_names`."""
    bound_by: str
    """The term that sets the cycles."""
    cost_share: float
    """What it takes of the network, all repeats: the mean of its shares of energy and of cycles."""
    utilization: float
    """Share of the multipliers' time that multiplies: of all cycles."""
    pe_use: float
    """The same of the cycles that computing takes."""
    idle: tuple[IdleLanes, ...]
    """What takes the rest of them, the largest share first."""
    energy_pj: float
    mac_energy_pj: float
    vector_energy_pj: float
    words: tuple[float, ...]
    """Words of each access of the breakdown, in words of its memory."""
    access_energy_pj: tuple[float, ...]
    """Energy of each access; all of them, the MACs and the vector unit are the layer's energy."""
    bytes: dict[str, float]
    """What one instance of each memory below the first holds while the layer runs."""


@dataclass(frozen=True)
class GroupCost:
    """One fused group, or a layer on its own; energy, cycles and traffic count repeats."""

    layers: tuple[str, ...]
    trips: dict[str, int]
    """Shared trip counts above 1, outer to inner."""
    peak_bytes: dict[str, float]
    """The fullest that each memory below the first gets."""
    energy_pj: float
    cycles: float
    first_memory_bytes: float


@dataclass(frozen=True)
class Totals:
    """The whole network, repeats counted."""

    energy_pj: float
    cycles: float
    edp_uj_cycles: float
    first_memory_bytes: float
    """What the first memory reads and writes."""
    utilization: float
    """Share of the multipliers' time that multiplies."""
    idle_share: float
    """Share of it that lanes without work take while layers compute."""
    waiting_share: float
    """Share of it that layers wait for memories; the three add up to 1."""
    mac_energy_pj: float
    vector_energy_pj: float
    """Of the operators of epilogues and of add layers' sums; 0 on a machine without a vector unit."""
    memory_energy_pj: dict[str, float]
    at_clock: AtClock | None
    """The same in units of time and power, where the machine states a clock."""


@dataclass(frozen=True)
class Breakdown:
    """All of it; `capacity_bytes` are those that a schedule may fill (half of a memory that is double-buffered)."""

    workload: str
    machine: str
    made_by: dict[str, str | int]
    memories: tuple[str, ...]
    """Outermost first."""
    accesses: tuple[Access, ...]
    capacity_bytes: dict[str, float]
    """Of one instance of each memory below the first."""
    area_mm2: dict[str, float]
    """Of the machine at 40 nm: each memory below the first with all its instances, `mac`, and `vector`."""
    leakage_mw: float
    """What its SRAMs leak; no part of any energy."""
    totals: Totals
    groups: tuple[GroupCost, ...]
    layers: tuple[LayerCost, ...]
    bound: LowerBound | None
    """What no schedule of the network on the machine undercuts, as far as that was proven."""
    asked: Asked | None
    """The constraints under which the schedule was made, if there were any."""
    coverage: Coverage
    """How much of the network all this is about."""

    @property
    def gaps(self) -> dict[str, float]:
        """By how much EDP, energy and latency may be above the best there are; empty where nothing was proven."""
        return {} if self.bound is None else self.bound.gaps(self.totals.energy_pj, self.totals.cycles)

    def energy_by_part_pj(self) -> dict[str, float]:
        """Energy of the network: the MACs, each memory, and the vector unit where it takes some."""
        totals = self.totals
        vector = {VECTOR: totals.vector_energy_pj} if totals.vector_energy_pj else {}
        return {"MAC": totals.mac_energy_pj, **totals.memory_energy_pj, **vector}

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
    machine, memories = schedule.machine, schedule.machine.memories
    layers = _layers(evaluation)
    of_layer = {layer.name: layer for layer in layers}
    moved = dict(zip(of_layer, first_memory_bytes(evaluation).tolist(), strict=True))
    energy = evaluation.energy_parts_pj @ evaluation.repeat
    busy = float(evaluation.terms[0] @ evaluation.repeat) / evaluation.cycles if evaluation.cycles else 0.0
    by_memory = {memory.name: 0.0 for memory in memories}
    for flow, spent in zip(evaluation.flows, energy[1:].tolist(), strict=True):
        by_memory[machine.nodes[flow.memory].name] += spent
    return Breakdown(
        workload=schedule.workload.name,
        machine=machine.name,
        made_by=dict(schedule.made_by),
        memories=tuple(by_memory),
        accesses=tuple(_access(evaluation, flow) for flow in evaluation.flows),
        capacity_bytes={memory.name: memory.usable_bytes for memory in memories[1:]},
        area_mm2=area_by_node_mm2(machine),
        leakage_mw=leakage_mw(machine),
        totals=Totals(
            energy_pj=evaluation.energy_pj,
            cycles=evaluation.cycles,
            edp_uj_cycles=evaluation.edp_uj_cycles,
            first_memory_bytes=sum(layer.repeat * moved[layer.name] for layer in layers),
            utilization=evaluation.utilization,
            idle_share=busy - evaluation.utilization,
            waiting_share=1 - busy,
            mac_energy_pj=float(energy[0]),
            vector_energy_pj=float(evaluation.vector_energy_pj @ evaluation.repeat),
            memory_energy_pj=by_memory,
            at_clock=at_clock(evaluation),
        ),
        groups=tuple(_group(group, [of_layer[name] for name in group.layers], moved) for group in schedule.groups),
        layers=layers,
        bound=schedule.bound,
        asked=schedule.asked,
        coverage=schedule.workload.coverage,
    )


def content_of(flow: Flow) -> Content:
    """What a flow moves."""
    if flow.tensor != "O":
        return "weights" if flow.tensor == "W" else "inputs"
    match flow.what:
        case "finished":
            return "outputs"
        case "fused":
            return "fused"
        case "addend":
            return "addends"
        case _:
            return "sums"


def _access(evaluation: Evaluation, flow: Flow) -> Access:
    nodes = evaluation.schedule.machine.nodes
    other = None if flow.other is None else nodes[flow.other].name
    return Access(nodes[flow.memory].name, flow.action, other, content_of(flow))


def first_memory_bytes(evaluation: Evaluation) -> np.ndarray:
    """``[layers]`` bytes that the first memory reads and writes in one execution of each layer."""
    here = [flow.memory == 0 for flow in evaluation.flows]
    return evaluation.words[here].sum(axis=0) * (evaluation.schedule.machine.memories[0].word_bits / 8)


def cost_shares(evaluation: Evaluation) -> np.ndarray:
    """``[layers]`` what each layer, all its repeats, takes of the network: the mean of its shares of energy and cycles.

    To first order that is by how much EDP falls, relatively, if half of what it takes is saved.
    """
    energy = evaluation.layer_energy_pj / (evaluation.energy_pj or 1)
    return (energy + evaluation.layer_cycles / (evaluation.cycles or 1)) / 2 * evaluation.repeat


def shared_trips(group: Group) -> dict[str, int]:
    """Shared trip counts above 1, outer to inner."""
    trips = group.trips._asdict()
    return {loop: trips[loop] for loop in group.nesting if trips[loop] > 1}


def _layers(evaluation: Evaluation) -> tuple[LayerCost, ...]:
    schedule = evaluation.schedule
    number = {name: i for i, group in enumerate(schedule.groups) for name in group.layers}
    examined = Examined(schedule)
    needed, used = needed_bytes(examined), array_use(examined)
    shares = cost_shares(evaluation)
    result: list[LayerCost] = []
    for i, layer in enumerate(schedule.layers):
        cycles = float(evaluation.layer_cycles[i])
        mac_energy, *access_energy = evaluation.energy_parts_pj[:, i].tolist()
        result.append(
            LayerCost(
                name=layer.name,
                group=number[layer.name],
                repeat=layer.repeat,
                macs=layer.macs,
                cycles=cycles,
                cycles_by_term=dict(zip(evaluation.term_names, evaluation.terms[:, i].tolist(), strict=True)),
                bound_by=evaluation.binding[i],
                cost_share=float(shares[i]),
                utilization=layer.macs / (cycles * schedule.machine.peak_macs) if cycles else 0.0,
                pe_use=used[i].pe_use,
                idle=used[i].idle,
                energy_pj=float(evaluation.layer_energy_pj[i]),
                mac_energy_pj=mac_energy,
                vector_energy_pj=float(evaluation.vector_energy_pj[i]),
                words=tuple(evaluation.words[:, i].tolist()),
                access_energy_pj=tuple(access_energy),
                bytes={memory: float(held[i]) for memory, held in needed.items()},
            )
        )
    return tuple(result)


def _group(group: Group, members: list[LayerCost], moved: dict[str, float]) -> GroupCost:
    return GroupCost(
        layers=group.layers,
        trips=shared_trips(group),
        peak_bytes={memory: max(layer.bytes[memory] for layer in members) for memory in members[0].bytes},
        energy_pj=sum(layer.energy_pj * layer.repeat for layer in members),
        cycles=sum(layer.cycles * layer.repeat for layer in members),
        first_memory_bytes=sum(moved[layer.name] * layer.repeat for layer in members),
    )
