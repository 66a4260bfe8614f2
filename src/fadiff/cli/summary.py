"""The cost of a schedule in tables: totals, groups and layers."""

from collections.abc import Sequence

from rich.table import Table

from fadiff.analysis.at_clock import clock_facts
from fadiff.analysis.breakdown import Access, Breakdown, GroupCost
from fadiff.analysis.units import significant, size_text
from fadiff.cli.tables import column_groups, facts, microjoules, percent, short, table
from fadiff.hardware.machine import VECTOR
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
            (costs.memories[0], size_text(totals.first_memory_bytes)),
            ("utilization", f"{percent(totals.utilization)} of the PEs' cycles multiply"),
            *costs.coverage.facts,
        )
    )


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


def layer_tables(costs: Breakdown) -> list[Table]:
    """One execution of each layer: time and energy, then words by memory and tensor."""
    spent = table("Layers: one execution each", ("layer", "times", "cycles", "bound by", "PEs in use", "energy uJ"))
    for layer in costs.layers:
        spent.add_row(
            layer.name,
            str(layer.repeat),
            short(layer.cycles),
            layer.bound_by,
            percent(layer.utilization) if layer.macs else "",
            significant(layer.energy_pj * 1e-6),
        )
    return [
        spent,
        *_energy_tables(costs),
        *(made for memory in costs.memories for made in _words_tables(costs, memory)),
    ]


def _energy_tables(costs: Breakdown) -> list[Table]:
    """Where the energy of each layer goes."""
    columns = {"MAC": [layer.mac_energy_pj for layer in costs.layers]}
    for memory in costs.memories:
        mine = [i for i, access in enumerate(costs.accesses) if access.memory == memory]
        columns[memory] = [sum(layer.access_energy_pj[i] for i in mine) for layer in costs.layers]
    if costs.totals.vector_energy_pj:
        columns[VECTOR] = [layer.vector_energy_pj for layer in costs.layers]
    whole = [layer.energy_pj for layer in costs.layers]
    shares = {
        name: [f"{100 * _share(pj, total):.0f}%" for pj, total in zip(spent, whole, strict=True)]
        for name, spent in columns.items()
    }
    return _tables(costs, "Layers: energy by part", shares)


def _words_tables(costs: Breakdown, memory: str) -> list[Table]:
    """Words of one execution of each layer at a memory, where any layer moves some; none is left blank."""
    moved: dict[str, list[str]] = {}
    for header, numbers in _columns(costs.accesses, memory).items():
        words = [sum(layer.words[i] for i in numbers) for layer in costs.layers]
        if any(words):
            moved[header] = [short(count) if count else "" for count in words]
    return _tables(costs, f"Layers: words at {memory}", moved)


def _tables(costs: Breakdown, title: str, columns: dict[str, list[str]]) -> list[Table]:
    """Columns of numbers by layer, in as many tables as a terminal needs."""
    made: list[Table] = []
    for part in column_groups(list(columns)):
        one = table(title, ("layer", *part))
        for row, layer in enumerate(costs.layers):
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
