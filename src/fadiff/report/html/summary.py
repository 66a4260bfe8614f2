"""The summary: totals against rivals, the schedule in a few sentences, and what it was made for and by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from fadiff.analysis.at_clock import clock_facts
from fadiff.analysis.breakdown import breakdown
from fadiff.analysis.units import plural
from fadiff.cost.evaluate import COMPUTE, Evaluation
from fadiff.hardware import area_by_node_mm2
from fadiff.hardware.machine import VECTOR
from fadiff.hardware.quantities import clock_text
from fadiff.report.machine_drawing import area_text, machine_lines
from fadiff.workload.names import shorten

if TYPE_CHECKING:
    from fadiff.analysis.breakdown import Breakdown
    from fadiff.hardware import Machine
    from fadiff.schedule.asked import Asked
    from fadiff.workload import Workload

Facts = list[tuple[str, str]]
MOST_CONSTRAINTS = 20
"""That the page lists: a schedule that keeps layers of another one has several of each layer."""
NAME_CHARACTERS = 60
"""Of a layer's name in a sentence."""


class Rival(NamedTuple):
    """A schedule to hold another one against."""

    name: str
    """Short, such as "best unfused"."""
    whose: str
    """As a sentence says it, such as "the best schedule found without fusion"."""
    evaluation: Evaluation


def summary_values(evaluation: Evaluation, costs: Breakdown, rivals: Sequence[Rival]) -> dict[str, Any]:
    """The data of the page's first section."""
    schedule = evaluation.schedule
    return {
        "totals": asdict(costs.totals),
        "rivals": [[rival.name, asdict(breakdown(rival.evaluation).totals)] for rival in rivals],
        "sentences": sentences(evaluation, costs, rivals),
        "facts": {
            "network": _network(schedule.workload),
            "machine": _machine(schedule.machine),
            "maker": _maker(costs.made_by),
        },
        "nodes": [line._asdict() for line in machine_lines(schedule.machine)],
        "made_by": costs.made_by,
        "asked": None if costs.asked is None else _asked(costs.asked),
    }


def sentences(evaluation: Evaluation, costs: Breakdown, rivals: Sequence[Rival]) -> list[str]:
    """What the schedule does, where its cost goes, and how much better it is than its rivals."""
    schedule = evaluation.schedule
    layers, groups = len(costs.layers), len(costs.groups)
    kept, tensors = len(schedule.fused_edges), len(schedule.workload.edges)
    does = f"{plural(layers, 'layer')} {'run' if layers > 1 else 'runs'} in {plural(groups, 'group')}"
    if kept:
        does += f", and {kept} of {plural(tensors, 'tensor')} between layers never leave{'s' * (kept == 1)} the chip."
    else:
        does += ", each layer on its own." if layers > 1 else "."
    first = costs.memories[0]
    share = costs.totals.memory_energy_pj[first] / costs.totals.energy_pj if costs.totals.energy_pj else 0.0
    times = dict.fromkeys(evaluation.term_names, 0.0)
    for layer in costs.layers:
        times[layer.bound_by] += layer.cycles * layer.repeat
    slowest = max(times, key=lambda term: times[term])
    own = {COMPUTE: "Computing sets", **({VECTOR: "The vector unit sets"} if schedule.machine.vector else {})}
    binds = own.get(slowest, f"The bandwidth of {slowest} sets")
    goes = f"{first} takes {share:.0%} of the energy. {binds} {times[slowest] / sum(times.values()):.0%} of the time."
    timed = [f"One run {clock}: {line}." for clock, line in clock_facts(costs.totals.at_clock)]
    goes += f" {_idle(costs)}" if costs.totals.idle_share >= TELLING else ""
    mine = evaluation.edp_uj_cycles
    against = [_against(mine, rival.evaluation.edp_uj_cycles, f"of {rival.whose}") for rival in rivals]
    apart = "" if costs.asked is None else ", which need not keep the constraints"
    told = [f"Its EDP is {', and '.join(against)}{apart}."] if against else []
    if costs.gaps:
        told.append(
            f"No {'schedule' if costs.bound is None else costs.bound.meant} has an EDP that is lower by more than "
            f"{_lower(costs.gaps['edp']):.1%}: that is proven."
        )
    if costs.asked is not None:
        told.append(str(costs.asked))
    if evaluation.schedule.workload.not_modelled:
        told.append(f"Not modelled: {evaluation.schedule.workload.coverage.told}.")
    return [f"{does} {goes}", *timed, *told]


TELLING = 0.02
"""A share of the multipliers' time from which on it is told who idles."""


def _idle(costs: Breakdown) -> str:
    """How much of the multipliers' time lanes without work take, and why in the layer that loses most."""
    lost = {layer.name: layer.cycles_by_term[COMPUTE] * (1 - layer.pe_use) * layer.repeat for layer in costs.layers}
    worst = max(costs.layers, key=lambda layer: lost[layer.name])
    why = f"most of it in {shorten(worst.name, NAME_CHARACTERS)}, where {worst.idle[0].sentence}"
    return f"Lanes without work idle for {costs.totals.idle_share:.0%} of it, {why}."


def _against(mine: float, other: float, whose: str) -> str:
    """How an EDP compares with another one.

    >>> _against(1.0, 2.5, "of x"), _against(1.0, 1.0, "of x"), _against(1.25, 1.0, "of x")
    ('2.50 times below that of x', 'the same as that of x', '25.0% above that of x')
    """
    ratio = other / mine if mine else 1.0
    if abs(ratio - 1) < 5e-4:
        return f"the same as that {whose}"
    if ratio >= 1.5:
        return f"{ratio:.2f} times below that {whose}"
    return f"{abs(1 - 1 / ratio):.1%} {'below' if ratio > 1 else 'above'} that {whose}"


def _lower(gap: float) -> float:
    """By how much a best that is EDP / (1 + gap) is below the EDP.

    >>> _lower(0.25)
    0.2
    """
    return gap / (1 + gap)


def _network(workload: Workload) -> Facts:
    macs = sum(layer.is_mac for layer in workload.layers)
    sums = len(workload.layers) - macs
    kinds = f"{macs} with MACs" + (f", {plural(sums, 'sum')}" if sums else "")
    return [
        ("name", workload.name),
        ("layers", f"{len(workload.layers)} ({kinds})"),
        ("tensors", f"{len(workload.edges)} between layers"),
        ("MACs", f"{workload.macs:,}"),
        ("parameters", f"{workload.parameter_words:,} values"),
        *workload.coverage.facts,
    ]


def _machine(machine: Machine) -> Facts:
    """What holds for the whole machine; its nodes have a table of their own."""
    bits = machine.bits
    transfers = "overlap with work" if machine.overlap == "full" else "add to the work"
    rules = [f"{machine.nodes[0].name} transfers {transfers}", *(["online softmax"] if machine.online_softmax else [])]
    return [
        ("name", machine.name),
        *([] if machine.clock_mhz is None else [("clock", clock_text(machine.clock_mhz))]),
        ("area", area_text(area_by_node_mm2(machine))),
        ("bits", f"W {bits.W}, I {bits.I}, O {bits.O}, sums {bits.sums}"),
        ("rules", ", ".join(rules)),
    ]


def _asked(asked: Asked) -> dict[str, Any]:
    """Constraints for a table, the costliest first, and how many more there are."""
    return {
        "priced": asked.cost is not None,
        "constraints": [{"constraint": one.constraint, "cost": one.cost} for one in asked.ranked[:MOST_CONSTRAINTS]],
        "more": max(0, len(asked.constraints) - MOST_CONSTRAINTS),
    }


def _maker(made_by: dict[str, str | int]) -> Facts:
    facts = [(key, str(value)) for key, value in made_by.items() if key != "command"]
    return facts or [("", "The file does not say what made it.")]
