"""The cost of a schedule in tables: totals, groups and layers."""

from collections.abc import Sequence

from rich.table import Table

from fadiff.analysis.at_clock import clock_facts
from fadiff.analysis.breakdown import Access, Breakdown, GroupCost, LayerCost, Totals
from fadiff.analysis.units import significant, size_text
from fadiff.cli.tables import column_groups, facts, microjoules, percent, short, table
from fadiff.hardware.machine import VECTOR
from fadiff.report.machine_drawing import area_text
from fadiff.schedule.ir import LowerBound


def totals_table(costs: Breakdown) -> Table:
    """What the network costs."""
    totals = costs.totals
    parts = costs.energy_by_part_pj().items()
    shares = "  ".join(f"{part} {percent(_share(pj, totals.energy_pj))}" for part, pj in parts)
    groups = f"{len(costs.groups)} group{'s' if len(costs.groups) > 1 else ''}"
    fused = f"{costs.fused_layers} of them fused with others" if costs.fused_layers else "none fused"
    made_by = ", ".join(f"{key} {value}" for key, value in costs.made_by.items() if key != "command")
    return facts(
        (
            ("schedule", f"{costs.workload} on {costs.machine}" + (f" ({made_by})" if made_by else "")),
            ("layers", f"{len(costs.layers)} in {groups}, {fused}"),
            ("energy", f"{microjoules(totals.energy_pj)} ({shares})"),
            ("latency", f"{totals.cycles:,.0f} cycles"),
            ("EDP", f"{totals.edp_uj_cycles:.4g} uJ*cycles"),
            *clock_facts(totals.at_clock),
            *([("bound", bound_text(costs.bound, costs.gaps))] if costs.bound is not None else []),
            ("area", area_text(costs.area_mm2)),
            (costs.memories[0], size_text(totals.first_memory_bytes)),
            ("utilization", _pe_time(totals)),
            *costs.coverage.facts,
        )
    )


def _pe_time(totals: Totals) -> str:
    """Where the multipliers' time goes."""
    lost = f"{percent(totals.idle_share)} have no work, {percent(totals.waiting_share)} wait for memories"
    return f"{percent(totals.utilization)} of the PEs' cycles multiply, {lost}"


def bound_text(bound: LowerBound, gaps: dict[str, float]) -> str:
    """What no schedule undercuts: the EDP, and what is proven better than it."""
    told = {
        "edp": f"{bound.edp_uj_cycles:.4g} uJ*cycles",
        "energy": microjoules(bound.energy_pj),
        "latency": f"{bound.cycles:,.0f} cycles",
    }
    parts = [f"{told[name]} (gap {percent(gap)})" for name, gap in gaps.items() if gap <= gaps["edp"]]
    return f"no {bound.meant} is below {', '.join(parts)}"


def groups_table(costs: Breakdown) -> Table:
    """Who runs together, in which shared loops, and how full that makes the memories."""
    first, *memories = costs.memories
    shared = [memory for memory in memories if _tells(costs, memory)]
    room = ", ".join(f"{memory} {size_text(costs.capacity_bytes[memory])}" for memory in memories)
    columns = ("layers", "shared loops", *(f"{memory}\npeak" for memory in shared), "energy\nuJ", "cycles\n", first)
    made = table(f"Groups in execution order ({room})", columns, wide=2)
    for group in costs.groups:
        made.add_row(
            " + ".join(group.layers),
            _loops(group),
            *(percent(group.peak_bytes[memory] / costs.capacity_bytes[memory]) for memory in shared),
            significant(group.energy_pj * 1e-6),
            short(group.cycles),
            size_text(group.first_memory_bytes),
            style="bold" if len(group.layers) > 1 else None,
        )
    return made


MOST_PEAKS = 3
"""Memories whose peaks a terminal has room for: the outermost ones, which groups compete for."""


def _tells(costs: Breakdown, memory: str) -> bool:
    """Whether the peak of a memory is shown."""
    return memory in costs.memories[1 : 1 + MOST_PEAKS]


MOSTLY_BUSY = 0.9
"""Layers whose lane-steps work to this share need no word about the rest."""


def layer_tables(costs: Breakdown, *, network_order: bool = False) -> list[Table]:
    """One execution of each layer: time and energy, why lanes idle, then words by memory and tensor.

    Layers that take most of the network's energy and time come first, or as the network lists them.
    """
    layers = costs.layers if network_order else sorted(costs.layers, key=lambda layer: -layer.cost_share)
    columns = ("layer", "times", "cycles", "bound by", "PEs in use", "energy uJ", "cost")
    spent = table("Layers: one execution each (cost: its share of the network's energy and cycles)", columns)
    for layer in layers:
        spent.add_row(
            layer.name,
            str(layer.repeat),
            short(layer.cycles),
            layer.bound_by,
            percent(layer.utilization) if layer.macs else "",
            significant(layer.energy_pj * 1e-6),
            percent(layer.cost_share),
        )
    return [
        spent,
        *_idle_tables(layers),
        *_energy_tables(costs, layers),
        *(made for memory in costs.memories for made in _words_tables(costs, layers, memory)),
    ]


def _idle_tables(layers: Sequence[LayerCost]) -> list[Table]:
    """Why lanes have no work while layers compute."""
    idle = [layer for layer in layers if layer.macs and layer.pe_use < MOSTLY_BUSY]
    if not idle:
        return []
    made = table("Layers: lanes without work while they compute", ("layer", "why", "PE use"), wide=2)
    for layer in idle:
        told = "; ".join(f"{percent(reason.share)}: {reason.sentence}" for reason in layer.idle)
        made.add_row(layer.name, told, percent(layer.pe_use))
    return [made]


def _energy_tables(costs: Breakdown, layers: Sequence[LayerCost]) -> list[Table]:
    """Where the energy of each layer goes."""
    columns = {"MAC": [layer.mac_energy_pj for layer in layers]}
    for memory in costs.memories:
        mine = [i for i, access in enumerate(costs.accesses) if access.memory == memory]
        columns[memory] = [sum(layer.access_energy_pj[i] for i in mine) for layer in layers]
    if costs.totals.vector_energy_pj:
        columns[VECTOR] = [layer.vector_energy_pj for layer in layers]
    whole = [layer.energy_pj for layer in layers]
    shares = {
        name: [f"{100 * _share(pj, total):.0f}%" for pj, total in zip(spent, whole, strict=True)]
        for name, spent in columns.items()
    }
    return _tables(layers, "Layers: energy by part", shares)


def _words_tables(costs: Breakdown, layers: Sequence[LayerCost], memory: str) -> list[Table]:
    """Words of one execution of each layer at a memory, where any layer moves some; none is left blank."""
    moved: dict[str, list[str]] = {}
    for header, numbers in _columns(costs.accesses, memory).items():
        words = [sum(layer.words[i] for i in numbers) for layer in layers]
        if any(words):
            moved[header] = [short(count) if count else "" for count in words]
    return _tables(layers, f"Layers: words at {memory}", moved)


def _tables(layers: Sequence[LayerCost], title: str, columns: dict[str, list[str]]) -> list[Table]:
    """Columns of numbers by layer, in as many tables as a terminal needs."""
    made: list[Table] = []
    for part in column_groups(list(columns)):
        one = table(title, ("layer", *part))
        for row, layer in enumerate(layers):
            one.add_row(layer.name, *(columns[header][row] for header in part))
        made.append(one)
    return made


def _columns(accesses: Sequence[Access], memory: str) -> dict[str, list[int]]:
    """Headers of a memory's table, each with the numbers of its accesses."""
    found: dict[str, list[int]] = {}
    for i, access in enumerate(accesses):
        if access.memory == memory:
            way = "to" if access.action == "read" else "from"
            found.setdefault(f"{access.content}\n{way} {access.other or 'MACs'}", []).append(i)
    return found


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _loops(group: GroupCost) -> str:
    return " ".join(f"{loop}{count}" for loop, count in group.trips.items())
