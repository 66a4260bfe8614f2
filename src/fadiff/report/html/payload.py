"""The data of the page, as plain JSON values. Names are those of the analyses, which the scripts use as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from fadiff.analysis.breakdown import breakdown
from fadiff.analysis.roofline import roofline
from fadiff.analysis.timeline import shown_memory
from fadiff.analysis.transfers import transfers
from fadiff.hardware import Memory
from fadiff.report.html.folding import Kinds, folded_nests, folded_reasons, layer_kinds, layer_rows
from fadiff.report.html.layers import layer_values
from fadiff.report.html.summary import Rival, summary_values
from fadiff.report.palette import group_colours

if TYPE_CHECKING:
    from fadiff.analysis.breakdown import GroupCost
    from fadiff.analysis.compare import Comparison
    from fadiff.analysis.search_trace import SearchTrace
    from fadiff.cost.evaluate import Evaluation
    from fadiff.hardware import Machine
    from fadiff.report.layout import Graph


class Extras(NamedTuple):
    """What a page may show beside the schedule itself; sections of what is not given are left out."""

    rivals: Sequence[Rival] = ()
    """Schedules of the same network on the same machine to hold this one against, the strongest first."""
    trace: SearchTrace | None = None
    comparison: Comparison | None = None
    why_not: Sequence[Mapping[str, Any]] = ()
    """Tensors that are not fused: `source`, `target`, `bytes`, `cause` (a word), `sentence`, `missing_bytes` (of the
    memory that fuses; or None), `edp_change` (if they were fused; or None) and `alike` (the number of the first entry
    that is the same but for names)."""
    what_if: Mapping[str, Any] | None = None
    """`caveat` and `sensitivities`: each has `label`, `value`, `unit`, `meaning`, the `elasticity` of EDP with its
    parts `energy_elasticity` and `cycles_elasticity`, and, or None, `elasticity_shrinking`, `doubled_edp_change` and
    `access_energy_elasticity`."""


def payload(evaluation: Evaluation, extras: Extras, graph: Graph) -> dict[str, Any]:
    """Everything that the page shows; the graph is the one that it draws."""
    schedule = evaluation.schedule
    costs, kinds, roof = breakdown(evaluation), Kinds(schedule), roofline(evaluation)
    layers = layer_values(schedule, costs)
    number = {layer["name"]: i for i, layer in enumerate(layers)}
    return {
        "version": version("fadiff-scheduler"),
        "machine": _machine(schedule.machine),
        "terms": list(evaluation.term_names),
        "accesses": [asdict(access) for access in costs.accesses],
        "summary": summary_values(evaluation, costs, extras.rivals),
        "layer_kinds": layer_kinds(kinds, layers, roof.points),
        "layers": layer_rows(kinds, layers),
        "group_kinds": [_group(costs.groups[first]) for first in kinds.firsts],
        "groups": [
            [[number[name] for name in group.layers], kind, colour]
            for group, kind, colour in zip(schedule.groups, kinds.of_group, group_colours(schedule), strict=True)
        ],
        "edges": [[number[e.source], number[e.target], e.port, schedule.is_fused(e)] for e in schedule.workload.edges],
        "nodes": [[number[name] for name in node.layers] for node in graph.nodes],
        "roofline": {
            "peak_macs_per_cycle": roof.peak_macs_per_cycle,
            "roofs": [asdict(one) for one in roof.roofs],
            "network": asdict(roof.network),
        },
        "transfers": [asdict(transfer) for transfer in transfers(evaluation)],
        "timeline": {
            "cycles": evaluation.cycles,
            "capacity_bytes": costs.capacity_bytes,
            "shown": shown_memory(schedule),
        },
        "nests": folded_nests(kinds, costs),
        "why_not": folded_reasons(extras.why_not, number),
        "what_if": None if extras.what_if is None else dict(extras.what_if),
        "search": None if extras.trace is None else asdict(extras.trace),
        "compare": None if extras.comparison is None else asdict(extras.comparison),
    }


def _group(group: GroupCost) -> dict[str, Any]:
    return {key: value for key, value in asdict(group).items() if key != "layers"}


def _machine(machine: Machine) -> dict[str, Any]:
    """Its nodes, and of its memories what pictures need; `private`: every multiplier has one of its own."""
    return {
        "nodes": [{"name": node.name, "memory": isinstance(node, Memory)} for node in machine.nodes],
        "memories": [
            {
                "name": memory.name,
                "keeps": memory.keeps,
                "fuses": memory.fuses,
                "word_bits": memory.word_bits,
                "instances": machine.instances(node),
                "private": machine.instances(node) == machine.peak_macs > 1,
            }
            for node, memory in zip(machine.structure.memories, machine.memories, strict=True)
        ],
    }
