"""What if the machine were a little different: local sensitivities of EDP to each of its numbers.

Each is an *elasticity*, d log EDP / d log x: -0.4 says that 1% more of x makes EDP 0.4% smaller. All of them are local:
they speak of small changes, with the groups and shared loops of this schedule. Beside each stands what twice as much of
x does to the same groups, priced exactly.

**Rates and energies** enter the cost of a schedule directly: its energy is linear in every energy, and its cycles are,
piece by piece, linear in the inverse of every rate. So a secant over a hair is the derivative on that side.

**Capacities and lanes** do not (but for add layers, which use all lanes): what more of them is worth shows only when
the mapping follows (:mod:`fadiff.analysis.following`). That says too little where several moves together, or other
groups, would make use of them: twice as much is priced with all moves that help, and only a search tells the rest.
:mod:`fadiff.analysis.why_not` tells how much the memory that fuses lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Literal

import numpy as np

from fadiff.analysis.following import Parts, following
from fadiff.analysis.machine_numbers import Number, changed, machine_numbers
from fadiff.cost import evaluate
from fadiff.cost.model import layer_costs
from fadiff.hardware import Memory, pack_machine, row_bits, word_pj
from fadiff.schedule.arrays import pack_layers, pack_schedule
from fadiff.schedule.folding import folded
from fadiff.schedule.nest import Nest
from fadiff.search.exact.conditions import Task
from fadiff.search.explain.climbs import MOST_MOVES, affordable, remapped

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import Machine

How = Literal["fixed schedule", "mapping follows"]
HAIR = 1e-6
"""How far to a side a derivative is taken."""
NOTHING = "The EDP is 0, so no share of it can be told: this machine has no energies."
CAVEAT = (
    "All numbers are local: small changes, with the groups and shared loops of this schedule. A new search may find "
    "more."
)


@dataclass(frozen=True)
class Sensitivity:
    """How EDP answers to one number of the machine."""

    name: str
    """Where it stands: `scratchpad.bytes`, `cols.size`, `DRAM.words_per_cycle`, `mac_pj`."""
    label: str
    """For people: "scratchpad capacity", "DRAM bandwidth", ..."""
    unit: str
    """bytes, lanes, words/cycle, pJ/word, pJ/MAC."""
    value: float
    """What the machine has now."""
    how: How
    """fixed schedule: the exact cost of this very schedule. mapping follows: tiles or unrolling grow with it."""
    elasticity: float
    """d log EDP / d log x, for x growing."""
    energy_elasticity: float
    """The part of `elasticity` that is energy's; the rest is latency's."""
    cycles_elasticity: float
    elasticity_shrinking: float | None
    """d log EDP / d log x for x shrinking; differs where a layer stands on a corner of its roofline. None where the
    mapping would have to follow: a schedule that no longer fits has no cost."""
    doubled_edp_change: float | None
    """Exact relative change of EDP with twice as much of x: of the same schedule, or where the mapping follows, with
    every layer mapped anew in its place; None where the schedule is not legal."""
    access_energy_elasticity: float | None
    """Of a capacity: what a larger memory's dearer accesses add to `elasticity`, if its pJ follow the shipped SRAM
    model; the machine's pJ are fixed numbers, so this is not in it. None for other numbers."""
    meaning: str
    """One sentence on what grows and what stays."""


@dataclass(frozen=True)
class WhatIf:
    """All sensitivities, the strongest elasticity first."""

    edp_uj_cycles: float
    sensitivities: tuple[Sensitivity, ...]
    caveat: str
    """What to print above them: that they are local, and what that means."""


def what_if(evaluation: Evaluation) -> WhatIf:
    """Sensitivities of a schedule's EDP to every number of its machine."""
    if not evaluation.edp_uj_cycles:
        return WhatIf(0.0, (), NOTHING)
    once = evaluate(folded(evaluation.schedule))
    priced, follows = _Priced(once), following(once)
    found = [_sensitivity(priced, number, follows) for number in machine_numbers(evaluation.schedule.machine)]
    found.sort(key=lambda one: -abs(one.elasticity))
    return WhatIf(evaluation.edp_uj_cycles, tuple(found), f"{CAVEAT}{_left_out(once)}")


def _left_out(evaluation: Evaluation) -> str:
    """How many layers are mapped anew where there is twice as much of something, if these are not all."""
    schedule = evaluation.schedule
    most = affordable(Task(schedule.workload, schedule.machine, dtype=np.float64), MOST_MOVES)
    layers = sum(layer.is_mac for layer in schedule.layers)
    return f" Of {layers:,} different layers the {most:,} that cost most are mapped anew." if layers > most else ""


def _sensitivity(priced: _Priced, number: Number, follows: dict[str, Parts]) -> Sensitivity:
    machine = priced.evaluation.schedule.machine
    fixed = number.kind in ("rate", "energy")
    up = priced.slope(number, HAIR)
    more = Parts() if fixed or number.node is None else follows[number.node]
    energy, cycles = up.energy + more.energy, up.cycles + more.cycles
    return Sensitivity(
        name=number.name,
        label=number.label,
        unit=number.unit,
        value=number.value,
        how="fixed schedule" if fixed else "mapping follows",
        elasticity=energy + cycles,
        energy_elasticity=energy,
        cycles_elasticity=cycles,
        elasticity_shrinking=priced.slope(number, -HAIR).edp if fixed else None,
        doubled_edp_change=priced.doubled(number, remap=not fixed),
        access_energy_elasticity=priced.dearer(number) if number.kind == "capacity" else None,
        meaning=_meaning(machine, number),
    )


class _Priced:
    """An evaluation with its nest, to price the same schedule on other machines."""

    def __init__(self, evaluation: Evaluation) -> None:
        schedule = evaluation.schedule
        packed = pack_schedule(schedule)
        self.evaluation = evaluation
        self.machine = schedule.machine
        self.nest = Nest(schedule.machine.structure, pack_layers(schedule), packed.mapping, packed.fusion)

    def slope(self, number: Number, side: float) -> Parts:
        """The derivative of the same schedule's cost on one side: of what is linear in x, or in its inverse."""
        factor = 1 + side if number.kind == "energy" else 1 / (1 - side)
        costs = layer_costs(self.nest, pack_machine(changed(self.machine, number, factor)))
        now, repeat = self.evaluation, self.evaluation.repeat
        return Parts(  # 0, not -0
            energy=0.0 + float((costs.energy_pj - now.layer_energy_pj) @ repeat) / now.energy_pj / side,
            cycles=0.0 + float((costs.cycles - now.layer_cycles) @ repeat) / now.cycles / side,
        )

    def doubled(self, number: Number, *, remap: bool) -> float | None:
        """What twice as much does to EDP."""
        machine, now = changed(self.machine, number, 2), self.evaluation
        if not remap:
            costs = layer_costs(self.nest, pack_machine(machine))
            energy_pj, cycles = float(costs.energy_pj @ now.repeat), float(costs.cycles @ now.repeat)
            return energy_pj / now.energy_pj * (cycles / now.cycles) - 1
        twice = remapped(now, machine)
        return None if twice is None else twice.edp_uj_cycles / now.edp_uj_cycles - 1

    def dearer(self, number: Number) -> float:
        """d log EDP / d log capacity by way of the SRAM model's energy of an access."""
        memory = next(memory for memory in self.machine.memories if memory.name == number.node)
        share = self.evaluation.energy_by_node_pj()[memory.name] / self.evaluation.energy_pj
        less, more = (_sram_pj(memory, number.value * (1 + side)) for side in (-HAIR, HAIR))
        return share * log(more / less) / (2 * HAIR)


def _sram_pj(memory: Memory, size_bytes: float) -> float:
    rates = (memory.words_per_cycle, memory.read_words_per_cycle, memory.write_words_per_cycle)
    return float(word_pj(size_bytes, float(memory.word_bits), row_bits(memory.word_bits, *rates)))


def _meaning(machine: Machine, number: Number) -> str:
    if number.kind == "capacity":
        return f"tiles in {number.node} grow with it, groups and shared loops stay, and so does the energy of an access"
    if number.kind == "lanes":
        inside = [node.name for node in machine.nodes[machine.number[number.node or ""] :] if isinstance(node, Memory)]
        brings = f"; each lane brings its own {' and '.join(inside)}" if inside else ""
        return f"layers that fill {number.node} unroll further, groups and shared loops stay{brings}"
    return f"the {number.label} changes, the schedule stays as it is"
