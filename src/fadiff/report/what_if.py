"""What if the machine were a little different: local sensitivities of EDP, from the model's own gradients.

Each number is an *elasticity*, d log EDP / d log x: -0.4 says that 1% more of x makes EDP 0.4% smaller. All of them are
local: they speak of small changes, with the groups, the shared loops and the loop orders of this schedule. Beside each
stands what twice as much of x does to the same groups, priced exactly.

**Bandwidths and energies** enter the cost of a schedule directly: their elasticities are derivatives of its exact cost.

**Capacities and PEs** do not: as long as a schedule fits, its cost is the same on a larger machine. What more of them
is worth shows only when the mapping follows. Here it follows in the relaxed model, where factors are real numbers (see
:mod:`fadiff.report.following`):

- *rows*, *columns*: layers that fill the array unroll further, at the expense of one of their loops. Columns come with
  their banks of L1.
- *L2*: in every group a byte goes where it gains most. A tile that passes may grow while its layer runs; one that is
  kept takes its bytes while any layer of the group runs. So a group gains max(best kept, sum over layers of best
  passing).
- *L1*: likewise for each layer's tile of sums; where that needs L2 too, the price of L2 is subtracted.

They say too much where the next tile that divides is far away, and too little where a larger memory would allow other
groups: only a search tells that (and :mod:`fadiff.report.why_not` tells how much L2 is missing).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np

from fadiff.cost import Evaluation, evaluate
from fadiff.hardware import l1_pj, l2_pj
from fadiff.report.elasticities import SIDE, Direction, Slopes, slopes
from fadiff.report.following import Following, Parts, follow, moves
from fadiff.report.remap import remapped
from fadiff.search.programs import search_programs

if TYPE_CHECKING:
    from collections.abc import Callable

    from jax import Array

    from fadiff.hardware import Hardware

How = Literal["fixed schedule", "mapping follows"]
NOTHING = "The EDP is 0, so no share of it can be told: this machine has no energies."
CAVEAT = (
    "All numbers are local: small changes, with the groups, shared loops and loop orders of this schedule. "
    "A new search may find more."
)


@dataclass(frozen=True)
class Sensitivity:
    """How EDP answers to one number of the machine."""

    name: str
    """l2_bytes, l1_bytes, rows, cols, pes, l3_words_per_cycle, l2_words_per_cycle, l1_words_per_cycle_per_column,
    l3_pj, l2_pj, l1_pj, l0_pj, mac_pj."""
    label: str
    """For people: "L2 capacity", "DRAM bandwidth", ..."""
    unit: str
    """bytes, rows, columns, PEs, words/cycle, pJ/word, pJ/MAC."""
    value: float
    """What the machine has now."""
    how: How
    """fixed schedule: the exact cost of this very schedule. mapping follows: tiles or unrolling grow with it, in the
    relaxed model."""
    elasticity: float
    """d log EDP / d log x, for x growing."""
    energy_elasticity: float
    """The part of `elasticity` that is energy's; the rest is latency's."""
    cycles_elasticity: float
    elasticity_shrinking: float | None
    """d log EDP / d log x for x shrinking; differs where a layer stands on a corner of its roofline. None where the
    mapping would have to follow: a schedule that no longer fits has no cost."""
    edp_per_unit: float
    """d EDP / d x in uJ*cycles per unit, for x growing; 0 where x is 0, which has no elasticity."""
    doubled_edp_change: float
    """Exact relative change of EDP with twice as much of x: of the same schedule, or where the mapping follows, with
    every layer mapped anew in its place (of the PEs, with twice the rows or twice the columns)."""
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


class _Number(NamedTuple):
    """A number that enters the cost directly."""

    name: str
    label: str
    unit: str


DIRECT = (
    _Number("l3_words_per_cycle", "DRAM bandwidth", "words/cycle"),
    _Number("l2_words_per_cycle", "L2 bandwidth", "words/cycle"),
    _Number("l1_words_per_cycle_per_column", "L1 bandwidth per column", "words/cycle"),
    _Number("l3_pj", "DRAM energy", "pJ/word"),
    _Number("l2_pj", "L2 energy", "pJ/word"),
    _Number("l1_pj", "L1 energy", "pJ/word"),
    _Number("l0_pj", "register energy", "pJ/word"),
    _Number("mac_pj", "MAC energy", "pJ/MAC"),
)


@search_programs()
def what_if(evaluation: Evaluation) -> WhatIf:
    """Sensitivities of a schedule's EDP. Loads JAX, and compiles a program where it is not in the cache."""
    if not evaluation.edp_uj_cycles:
        return WhatIf(0.0, (), NOTHING)
    growing = directions(evaluation.schedule.hardware)
    up, down = slopes(evaluation, growing), slopes(evaluation, growing, -SIDE)
    direct = [
        _direct(evaluation, one, _parts(evaluation, up, i), _parts(evaluation, down, i)) for i, one in enumerate(DIRECT)
    ]
    following = follow(evaluation, up, first=len(DIRECT) + 1)
    # Columns also serve add layers, which use all of them whatever the mapping.
    adds = _parts(evaluation, up, len(DIRECT))
    cols = Parts(following.cols.energy + adds.energy, following.cols.cycles + adds.cycles)
    found = [*direct, *_followed(evaluation, following, cols)]
    found.sort(key=lambda one: -abs(one.elasticity))
    return WhatIf(evaluation.edp_uj_cycles, tuple(found), CAVEAT)


def directions(machine: Hardware) -> tuple[Direction, ...]:
    """What is differentiated along: the numbers of :data:`DIRECT`, columns, and moves of the mapping."""
    return (*(Direction(numbers=(one.name,)) for one in DIRECT), Direction(numbers=("cols",)), *moves(machine))


def changed(machine: Hardware, name: str, factor: float) -> Hardware:
    """A machine with a number of :class:`Sensitivity` multiplied; columns come with their banks of L1."""
    rates, pj = machine.words_per_cycle, machine.pj
    match name:
        case "l2_bytes":
            return replace(machine, l2_bytes=round(machine.l2_bytes * factor))
        case "l1_bytes":
            return replace(machine, l1_bytes=round(machine.l1_bytes * factor))
        case "rows":
            return replace(machine, rows=round(machine.rows * factor))
        case "cols":
            more = round(machine.cols * factor)
            return replace(machine, cols=more, l1_bytes=machine.l1_bytes * more // machine.cols)
        case "l3_words_per_cycle":
            return replace(machine, words_per_cycle=rates._replace(l3=rates.l3 * factor))
        case "l2_words_per_cycle":
            return replace(machine, words_per_cycle=rates._replace(l2=rates.l2 * factor))
        case "l1_words_per_cycle_per_column":
            return replace(machine, words_per_cycle=rates._replace(l1_per_column=rates.l1_per_column * factor))
        case _:
            level = name.removesuffix("_pj")
            return replace(machine, pj=pj._replace(**{level: getattr(pj, level) * factor}))


def _parts(evaluation: Evaluation, found: Slopes, direction: int) -> Parts:
    """Elasticities of the network along a direction of the machine."""
    energy = float(np.sum(found.energy_pj[direction] * evaluation.repeat)) / evaluation.energy_pj
    return Parts(energy, float(np.sum(found.cycles[direction] * evaluation.repeat)) / evaluation.cycles)


def _direct(evaluation: Evaluation, one: _Number, up: Parts, down: Parts) -> Sensitivity:
    machine = evaluation.schedule.hardware
    rates, pj = machine.words_per_cycle, machine.pj
    values = {
        "l3_words_per_cycle": rates.l3,
        "l2_words_per_cycle": rates.l2,
        "l1_words_per_cycle_per_column": rates.l1_per_column,
        **{f"{level}_pj": energy for level, energy in pj._asdict().items()},
    }
    value = values[one.name]
    doubled = evaluate(replace(evaluation.schedule, hardware=changed(machine, one.name, 2)))
    return Sensitivity(
        name=one.name,
        label=one.label,
        unit=one.unit,
        value=value,
        how="fixed schedule",
        elasticity=up.edp,
        energy_elasticity=up.energy,
        cycles_elasticity=up.cycles,
        elasticity_shrinking=down.edp,
        edp_per_unit=_per_unit(evaluation, up, value),
        doubled_edp_change=doubled.edp_uj_cycles / evaluation.edp_uj_cycles - 1,
        access_energy_elasticity=None,
        meaning=f"the {one.label} changes, the schedule stays as it is",
    )


def _per_unit(evaluation: Evaluation, parts: Parts, value: float) -> float:
    return parts.edp * evaluation.edp_uj_cycles / value if value else 0.0


def _followed(evaluation: Evaluation, following: Following, cols: Parts) -> list[Sensitivity]:
    """Capacities and PEs, whose growth the mapping follows."""
    machine = evaluation.schedule.hardware
    doubled = {name: _doubled(evaluation, name) for name in ("l2_bytes", "l1_bytes", "rows", "cols")}
    doubled["pes"] = min(doubled["rows"], doubled["cols"])
    dearer = _access_energies(evaluation)
    pes = Parts((following.rows.energy + cols.energy) / 2, (following.rows.cycles + cols.cycles) / 2)
    tiles = "tiles of {} grow with it, groups and shared loops stay, and so does the energy of an access"
    unrolls = "layers that fill the array unroll further, groups and tiles stay"
    banks = "; columns bring their banks of L1"
    listed: tuple[tuple[str, str, str, int, Parts, str], ...] = (
        ("l2_bytes", "L2 capacity", "bytes", machine.l2_bytes, following.l2_bytes, tiles.format("L2")),
        ("l1_bytes", "L1 capacity", "bytes", machine.l1_bytes, following.l1_bytes, tiles.format("L1")),
        ("rows", "array rows", "rows", machine.rows, following.rows, unrolls),
        ("cols", "array columns", "columns", machine.cols, cols, unrolls + banks),
        ("pes", "PE count", "PEs", machine.rows * machine.cols, pes, "rows and columns grow alike" + banks),
    )
    return [
        Sensitivity(
            name=name,
            label=label,
            unit=unit,
            value=value,
            how="mapping follows",
            elasticity=parts.edp,
            energy_elasticity=parts.energy,
            cycles_elasticity=parts.cycles,
            elasticity_shrinking=None,
            edp_per_unit=_per_unit(evaluation, parts, value),
            doubled_edp_change=doubled[name],
            access_energy_elasticity=dearer.get(name),
            meaning=meaning,
        )
        for name, label, unit, value, parts, meaning in listed
    ]


def _doubled(evaluation: Evaluation, name: str) -> float:
    """What twice as much does to EDP, the mapping of every layer following."""
    twice = remapped(evaluation, changed(evaluation.schedule.hardware, name, 2))
    assert twice is not None, "a schedule that fits also fits on a larger machine"
    return twice.edp_uj_cycles / evaluation.edp_uj_cycles - 1


def _access_energies(evaluation: Evaluation) -> dict[str, float]:
    """d log EDP / d log capacity by way of the SRAM model's energy of an access."""
    import jax
    import jax.numpy as jnp

    machine, parts = evaluation.schedule.hardware, evaluation.energy_parts_pj()

    def log_pj(log_bytes: Array) -> Array:
        l2_bytes, l1_bytes = jnp.exp(log_bytes)
        cols = jnp.asarray(float(machine.cols))
        return jnp.log(jnp.stack([l2_pj(l2_bytes, cols, jnp), l1_pj(l1_bytes, cols, jnp)]))

    def slopes(log_bytes: Array) -> Array:
        # Each energy depends on its own capacity only, so one derivative along both gives both.
        return jax.jvp(log_pj, (log_bytes,), (jnp.ones(2),))[1]

    compiled = cast("Callable[[Array], Array]", jax.jit(slopes))
    with jax.enable_x64(True):
        now = jnp.log(jnp.array([float(machine.l2_bytes), float(machine.l1_bytes)]))
        slope2, slope1 = (float(slope) for slope in np.asarray(compiled(now)))
    total = evaluation.energy_pj
    return {"l2_bytes": slope2 * parts["l2"] / total, "l1_bytes": slope1 * parts["l1"] / total}
