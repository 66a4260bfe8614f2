"""The exact cost of one schedule, with the whole breakdown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from fadiff.cost.flows import Flow, flow_table
from fadiff.cost.model import layer_costs, network_cost
from fadiff.hardware import Memory, pack_machine
from fadiff.hardware.machine import VECTOR
from fadiff.schedule.arrays import pack_layers, pack_schedule
from fadiff.schedule.file import StatedCost
from fadiff.schedule.nest import Nest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from fadiff.schedule import Group, Schedule

COMPUTE = "compute"
"""The roofline term of the multipliers; the others bear the names of memories, and of the vector unit."""


@dataclass(frozen=True)
class Evaluation:
    """What the model says about a schedule. Arrays have one entry per layer of it, in the workload's order.

    Counts are of one execution of a layer; totals count repeats.
    """

    schedule: Schedule
    words: Float[np.ndarray, "flows layers"]
    """Words of each flow of `flows`."""
    terms: Float[np.ndarray, "terms layers"]
    """Cycles that computing, each memory (outermost first), and the vector unit if there is one, would need alone."""
    layer_cycles: Float[np.ndarray, " layers"]
    layer_energy_pj: Float[np.ndarray, " layers"]
    energy_pj: float
    cycles: float

    @property
    def edp_uj_cycles(self) -> float:
        """EDP = (sum of energies in uJ) * (sum of latencies in cycles)."""
        return self.energy_pj * 1e-6 * self.cycles

    @property
    def flows(self) -> tuple[Flow, ...]:
        """The table that names the rows of `words`."""
        return flow_table(self.schedule.machine.structure)

    @property
    def term_names(self) -> tuple[str, ...]:
        """What the rows of `terms` are: compute, the machine's memories, and its vector unit."""
        machine = self.schedule.machine
        vector = () if machine.vector is None else (VECTOR,)
        return (COMPUTE, *(memory.name for memory in machine.memories), *vector)

    @cached_property
    def repeat(self) -> Float[np.ndarray, " layers"]:
        """How often each layer runs."""
        return np.array([layer.repeat for layer in self.schedule.layers], dtype=np.float64)

    @cached_property
    def binding(self) -> tuple[str, ...]:
        """The term that binds each layer: compute, the vector unit, or a memory from the innermost out (ties: so)."""
        names, terms = self.term_names, self.terms
        inwards = [0, *range(len(names) - 1, 0, -1)]
        chosen: list[int] = terms[inwards].argmax(axis=0).tolist()
        return tuple(names[inwards[i]] for i in chosen)

    @cached_property
    def energy_parts_pj(self) -> Float[np.ndarray, "parts layers"]:
        """Energy of each layer by part: the MACs, then each flow of `flows`; the vector unit's is apart."""
        machine = self.schedule.machine
        memories = {i: node for i, node in enumerate(machine.nodes) if i in machine.structure.memories}
        each = [
            getattr(memories[flow.memory], f"{flow.action}_pj") * words
            for flow, words in zip(self.flows, self.words, strict=True)
        ]
        macs = [layer.macs * machine.mac_pj for layer in self.schedule.layers]
        return np.array([macs, *each])

    @cached_property
    def vector_energy_pj(self) -> Float[np.ndarray, " layers"]:
        """Energy of each layer's operators on the vector unit; 0 where there is none."""
        machine = self.schedule.machine
        pj = 0.0 if machine.vector is None else machine.vector.pj
        return np.array([machine.vector_operations(layer) * pj for layer in self.schedule.layers])

    def energy_by_node_pj(self) -> dict[str, float]:
        """Energy by where it is spent: `mac`, each memory, `vector` if there is one; they sum to `energy_pj`."""
        machine = self.schedule.machine
        sums = self.energy_parts_pj @ self.repeat
        spent = {"mac": float(sums[0]), **{memory.name: 0.0 for memory in machine.memories}}
        for flow, part in zip(self.flows, sums[1:], strict=True):
            spent[machine.nodes[flow.memory].name] += float(part)
        return spent if machine.vector is None else {**spent, VECTOR: float(self.vector_energy_pj @ self.repeat)}

    def memory_words(self, memory: int) -> float:
        """Words that a memory (its node) reads and writes for the whole network, repeats counted."""
        here = [flow.memory == memory for flow in self.flows]
        return float((self.words[here] @ self.repeat).sum())

    def memory_bytes(self, memory: int) -> float:
        """Bytes that a memory (its node) reads and writes for the whole network, repeats counted."""
        bits = {node: one.word_bits for node, one in enumerate(self.schedule.machine.nodes) if isinstance(one, Memory)}
        return self.memory_words(memory) * bits[memory] / 8

    @property
    def utilization(self) -> float:
        """Share of the multipliers' time that does work."""
        macs = sum(layer.macs * layer.repeat for layer in self.schedule.layers)
        return macs / (self.cycles * self.schedule.machine.peak_macs) if self.cycles else 0.0

    def excerpt(self, groups: Sequence[Group]) -> Evaluation:
        """Some groups of the schedule and what they cost: nothing is priced again."""
        schedule = self.schedule.excerpt(groups)
        inside = schedule.group_of
        mine = np.array([layer.name in inside for layer in self.schedule.layers])
        energy_pj, cycles = self.layer_energy_pj[mine], self.layer_cycles[mine]
        repeat = self.repeat[mine]
        return Evaluation(
            schedule=schedule,
            words=self.words[:, mine],
            terms=self.terms[:, mine],
            layer_cycles=cycles,
            layer_energy_pj=energy_pj,
            energy_pj=float(np.sum(energy_pj * repeat)),
            cycles=float(np.sum(cycles * repeat)),
        )

    def stated(self) -> StatedCost:
        """The cost as a schedule file states it."""
        return StatedCost(energy_pj=self.energy_pj, cycles=self.cycles, edp_uj_cycles=self.edp_uj_cycles)


def evaluate(schedule: Schedule) -> Evaluation:
    """Price a schedule exactly: 64-bit numbers, integer counts. Illegal schedules are priced too."""
    packed, layers = pack_schedule(schedule), pack_layers(schedule)
    nest = Nest(schedule.machine.structure, layers, packed.mapping, packed.fusion)
    costs = layer_costs(nest, pack_machine(schedule.machine))
    network = network_cost(layers, costs)

    def rows(values: object) -> Float[np.ndarray, "rows layers"]:
        return np.array(cast("tuple[np.ndarray, ...]", values), dtype=np.float64)

    vector = () if schedule.machine.vector is None else (costs.vector_cycles,)
    return Evaluation(
        schedule=schedule,
        words=rows(costs.words),
        terms=rows((costs.steps, *costs.memory_cycles, *vector)),
        layer_cycles=np.asarray(costs.cycles),
        layer_energy_pj=np.asarray(costs.energy_pj),
        energy_pj=float(network.energy_pj),
        cycles=float(network.cycles),
    )
