"""The cost of a schedule in tables: totals, groups and layers."""

from rich.table import Table

from fadiff.cli.tables import facts, kilobytes, microjoules, percent, short, significant, table
from fadiff.report.breakdown import Breakdown, GroupCost, LayerCost

WORD_TABLES = (("L3 (DRAM)", ("l3",)), ("L2 (scratchpad)", ("l2",)), ("L1 (32-bit words) and L0", ("l1", "l0")))


def totals_table(costs: Breakdown) -> Table:
    """What the network costs."""
    totals = costs.totals
    shares = "  ".join(
        f"{part.upper()} {percent(pj / totals.energy_pj if totals.energy_pj else 0)}"
        for part, pj in totals.energy_by_part_pj.items()
    )
    groups = f"{len(costs.groups)} group{'s' if len(costs.groups) > 1 else ''}"
    fused = f"{costs.fused_layers} of them fused with others" if costs.fused_layers else "none fused"
    made_by = ", ".join(f"{key} {value}" for key, value in costs.made_by.items() if key != "command")
    return facts(
        (
            ("schedule", f"{costs.workload} on {costs.hardware}" + (f" ({made_by})" if made_by else "")),
            ("layers", f"{len(costs.layers)} in {groups}, {fused}"),
            ("energy", f"{microjoules(totals.energy_pj)} ({shares})"),
            ("latency", f"{totals.cycles:,.0f} cycles"),
            ("EDP", f"{totals.edp_uj_cycles:.4g} uJ*cycles"),
            ("DRAM", f"{short(totals.l3_words)} words"),
            ("utilization", f"{percent(totals.utilization)} of the PEs' cycles multiply"),
        )
    )


def groups_table(costs: Breakdown) -> Table:
    """Who runs together, in which shared loops, and how full that makes the memories."""
    l2, l1 = kilobytes(costs.l2_capacity_bytes), kilobytes(costs.l1_capacity_bytes)
    made = table(
        f"Groups in execution order (L2 {l2}, L1 {l1})",
        ("layers", "shared\nloops", "L2\npeak", "L1\npeak", "energy\nuJ", "cycles\n", "DRAM\nwords"),
        wide=2,
    )
    for group in costs.groups:
        made.add_row(
            " + ".join(group.layers),
            _loops(group),
            percent(group.peak_l2_bytes / costs.l2_capacity_bytes),
            percent(group.peak_l1_bytes / costs.l1_capacity_bytes),
            significant(group.energy_pj * 1e-6),
            short(group.cycles),
            short(group.l3_words),
            style="bold" if len(group.layers) > 1 else None,
        )
    return made


def layer_tables(costs: Breakdown) -> list[Table]:
    """One execution of each layer: time and energy, then words by level and tensor."""
    spent = table(
        "Layers: one execution each",
        ("layer", "times", "cycles", "bound\nby", "PEs in\nuse", "energy\nuJ", "MAC", "L0", "L1", "L2", "L3"),
    )
    for layer in costs.layers:
        shares = [pj / layer.energy_pj if layer.energy_pj else 0.0 for pj in layer.energy_by_part_pj.values()]
        spent.add_row(
            layer.name,
            str(layer.repeat),
            short(layer.cycles),
            layer.bound_by,
            percent(layer.utilization) if layer.macs else "",
            significant(layer.energy_pj * 1e-6),
            *(f"{100 * share:.0f}%" for share in shares),
        )
    return [spent, *(_words_table(costs, title, levels) for title, levels in WORD_TABLES)]


def _words_table(costs: Breakdown, title: str, levels: tuple[str, ...]) -> Table:
    """Words of one execution of each layer; what a layer does not move is left blank."""
    rows = [(layer.name, _accesses(layer)) for layer in costs.layers]
    fields = [field for level in levels for field in rows[0][1] if field.startswith(f"{level}_")]
    made = table(f"Layers: words at {title}", ("layer", *map(header, fields)))
    for name, words in rows:
        made.add_row(name, *(short(words[field]) if words[field] else "" for field in fields))
    return made


def _accesses(layer: LayerCost) -> dict[str, int]:
    """Words moved, and those the array reads from its registers: one a MAC."""
    return {**layer.words, "l0_weight_read": layer.macs}


def header(field: str) -> str:
    """A field of the cost model's traffic over two lines.

    >>> header("l2_weight_fill"), header("l1_update")
    ('L2 weight\\nfill', 'L1\\nupdate')
    """
    words = field.split("_")
    return f"{' '.join([words[0].upper(), *words[1:-1]])}\n{words[-1]}"


def _loops(group: GroupCost) -> str:
    return " ".join(f"{loop}{count}" for loop, count in group.trips.items())
