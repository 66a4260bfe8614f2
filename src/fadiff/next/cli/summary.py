"""The cost of a schedule in tables: totals, groups and layers."""

from collections.abc import Sequence

from rich.table import Table

from fadiff.next.analysis.breakdown import Access, Breakdown, GroupCost
from fadiff.next.cli.tables import bytes_text, facts, microjoules, percent, short, significant, table


def totals_table(costs: Breakdown) -> Table:
    """What the network costs."""
    totals = costs.totals
    parts = {"MAC": totals.mac_energy_pj, **totals.memory_energy_pj}
    shares = "  ".join(f"{part} {percent(_share(pj, totals.energy_pj))}" for part, pj in parts.items())
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
            (costs.memories[0], bytes_text(totals.first_memory_bytes)),
            ("utilization", f"{percent(totals.utilization)} of the PEs' cycles multiply"),
        )
    )


def groups_table(costs: Breakdown) -> Table:
    """Who runs together, in which shared loops, and how full that makes the memories."""
    memories = costs.memories[1:]
    room = ", ".join(f"{memory} {bytes_text(costs.capacity_bytes[memory])}" for memory in memories)
    peaks = (f"{name}\npeak" for name in memories)
    columns = ("layers", "shared\nloops", *peaks, "energy\nuJ", "cycles\n", f"{costs.memories[0]}\n")
    made = table(f"Groups in execution order ({room})", columns, wide=2)
    for group in costs.groups:
        made.add_row(
            " + ".join(group.layers),
            _loops(group),
            *(percent(group.peak_bytes[memory] / costs.capacity_bytes[memory]) for memory in memories),
            significant(group.energy_pj * 1e-6),
            short(group.cycles),
            bytes_text(group.first_memory_bytes),
            style="bold" if len(group.layers) > 1 else None,
        )
    return made


def layer_tables(costs: Breakdown) -> list[Table]:
    """One execution of each layer: time and energy, then words by memory and tensor."""
    spent = table(
        "Layers: one execution each",
        ("layer", "times", "cycles", "bound\nby", "PEs in\nuse", "energy\nuJ", "MAC", *costs.memories),
    )
    for layer in costs.layers:
        by_memory = dict.fromkeys(costs.memories, 0.0)
        for access, pj in zip(costs.accesses, layer.access_energy_pj, strict=True):
            by_memory[access.memory] += pj
        shares = (_share(pj, layer.energy_pj) for pj in (layer.mac_energy_pj, *by_memory.values()))
        spent.add_row(
            layer.name,
            str(layer.repeat),
            short(layer.cycles),
            layer.bound_by,
            percent(layer.utilization) if layer.macs else "",
            significant(layer.energy_pj * 1e-6),
            *(f"{100 * share:.0f}%" for share in shares),
        )
    return [spent, *(_words_table(costs, memory) for memory in costs.memories)]


def _words_table(costs: Breakdown, memory: str) -> Table:
    """Words of one execution of each layer at a memory, where any layer moves some."""
    columns = {
        header: [sum(layer.words[i] for i in numbers) for layer in costs.layers]
        for header, numbers in _columns(costs.accesses, memory).items()
    }
    moved = {header: words for header, words in columns.items() if any(words)}
    made = table(f"Layers: words at {memory}", ("layer", *moved))
    for row, layer in enumerate(costs.layers):
        made.add_row(layer.name, *(short(words[row]) if words[row] else "" for words in moved.values()))
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
