"""The summary: totals against two opponents, the schedule in a few sentences, and what it was made for and by."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fadiff.report.breakdown import breakdown
from fadiff.report.units import size_text

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.hardware import Hardware
    from fadiff.report.breakdown import Breakdown
    from fadiff.report.opponents import Opponents
    from fadiff.workload import Workload

Facts = list[tuple[str, str]]


def summary_values(evaluation: Evaluation, costs: Breakdown, opponents: Opponents) -> dict[str, Any]:
    """The data of the page's first section."""
    schedule = evaluation.schedule
    return {
        "totals": asdict(costs.totals),
        "greedy": asdict(breakdown(opponents.greedy).totals),
        "unfused": asdict(breakdown(opponents.unfused).totals),
        "sentences": sentences(evaluation, costs, opponents),
        "facts": {
            "Network": _network(schedule.workload),
            "Machine": _machine(schedule.hardware),
            "Made by": _maker(costs.made_by),
        },
        "made_by": costs.made_by,
    }


def sentences(evaluation: Evaluation, costs: Breakdown, opponents: Opponents) -> list[str]:
    """What the schedule does, where its cost goes, and how much better it is than the opponents."""
    schedule = evaluation.schedule
    layers, groups = len(costs.layers), len(costs.groups)
    kept, tensors = len(schedule.fused_edges), len(schedule.workload.edges)
    does = f"{_count(layers, 'layer')} {'run' if layers > 1 else 'runs'} in {_count(groups, 'group')}"
    if kept:
        does += f", and {kept} of {_count(tensors, 'tensor')} between layers never leave{'s' * (kept == 1)} the chip."
    else:
        does += ", each layer on its own." if layers > 1 else "."
    energy = costs.totals.energy_by_part_pj
    dram = energy["l3"] / costs.totals.energy_pj if costs.totals.energy_pj else 0.0
    times = _time_by_term(costs)
    slowest = max(times, key=lambda term: times[term])
    share = times[slowest] / sum(times.values())
    goes = f"DRAM takes {dram:.0%} of the energy. {_BINDS[slowest]} {share:.0%} of the time."
    mine = evaluation.edp_uj_cycles
    against = [
        _against(mine, opponents.unfused.edp_uj_cycles, "of the best schedule found without fusion"),
        _against(mine, opponents.greedy.edp_uj_cycles, "of the greedy heuristic"),
    ]
    return [f"{does} {goes}", f"Its EDP is {against[0]}, and {against[1]}."]


_BINDS = {
    "compute": "The PE array sets",
    "L1": "L1 bandwidth sets",
    "L2": "L2 bandwidth sets",
    "L3": "DRAM bandwidth sets",
}


def _time_by_term(costs: Breakdown) -> dict[str, float]:
    times = dict.fromkeys(_BINDS, 0.0)
    for layer in costs.layers:
        times[layer.bound_by] += layer.cycles * layer.repeat
    return times


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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _network(workload: Workload) -> Facts:
    macs = sum(layer.is_mac for layer in workload.layers)
    sums = len(workload.layers) - macs
    kinds = f"{macs} with MACs" + (f", {_count(sums, 'sum')}" if sums else "")
    return [
        ("name", workload.name),
        ("layers", f"{len(workload.layers)} ({kinds})"),
        ("tensors", f"{len(workload.edges)} between layers"),
        ("MACs", f"{workload.macs:,}"),
        ("parameters", f"{workload.parameter_words:,} words"),
    ]


def _machine(hardware: Hardware) -> Facts:
    rates, pj = hardware.words_per_cycle, hardware.pj
    notes = [
        *(["double-buffered"] if hardware.double_buffered else []),
        *(["online softmax"] if hardware.online_softmax else []),
        "DRAM transfers overlap with work" if hardware.overlap == "full" else "DRAM transfers add to the work",
    ]
    return [
        ("name", hardware.name),
        ("array", f"{hardware.rows} × {hardware.cols} PEs, {pj.mac:.3g} pJ a MAC"),
        ("L1", f"{size_text(hardware.l1_bytes)}, {rates.l1_per_column:g} words/cycle a column, {pj.l1:.3g} pJ"),
        ("L2", f"{size_text(hardware.l2_bytes)}, {rates.l2:g} words/cycle, {pj.l2:.3g} pJ"),
        ("DRAM", f"{rates.l3:g} words/cycle, {pj.l3:.4g} pJ"),
        ("rules", ", ".join(notes)),
    ]


def _maker(made_by: dict[str, str | int]) -> Facts:
    facts = [(key, str(value)) for key, value in made_by.items() if key != "command"]
    return facts or [("", "The file does not say what made it.")]
