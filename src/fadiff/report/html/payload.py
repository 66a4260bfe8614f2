"""The data of the page, as plain JSON values. Names are those of the analyses, which the scripts use as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from fadiff.analysis.breakdown import breakdown
from fadiff.analysis.loop_nest import loop_nests
from fadiff.analysis.roofline import roofline
from fadiff.analysis.timeline import timeline
from fadiff.analysis.transfers import transfers
from fadiff.hardware import Memory
from fadiff.report.html.layers import layer_values, stored_bytes
from fadiff.report.html.summary import Rival, summary_values
from fadiff.report.palette import group_colours

if TYPE_CHECKING:
    from fadiff.analysis.compare import Comparison
    from fadiff.analysis.search_trace import SearchTrace
    from fadiff.cost.evaluate import Evaluation
    from fadiff.hardware import Machine
    from fadiff.schedule import Schedule


class Extras(NamedTuple):
    """What a page may show beside the schedule itself; sections of what is not given are left out."""

    rivals: Sequence[Rival] = ()
    """Schedules of the same network on the same machine to hold this one against, the strongest first."""
    trace: SearchTrace | None = None
    comparison: Comparison | None = None
    why_not: Sequence[Mapping[str, Any]] = ()
    """Tensors that are not fused: `source`, `target`, `bytes`, `cause` (a word), `sentence`, `missing_bytes` (of the
    memory that fuses; or None) and `edp_change` (if they were fused; or None)."""
    what_if: Mapping[str, Any] | None = None
    """`caveat` and `sensitivities`: each has `label`, `value`, `unit`, `meaning`, the `elasticity` of EDP with its
    parts `energy_elasticity` and `cycles_elasticity`, and, or None, `elasticity_shrinking`, `doubled_edp_change` and
    `access_energy_elasticity`."""


def payload(evaluation: Evaluation, extras: Extras) -> dict[str, Any]:
    """Everything that the page shows."""
    schedule = evaluation.schedule
    costs = breakdown(evaluation)
    number = {layer.name: i for i, layer in enumerate(schedule.workload.layers)}
    colours = group_colours(schedule)
    return {
        "version": version("fadiff-scheduler"),
        "machine": _machine(schedule.machine),
        "terms": list(evaluation.term_names),
        "accesses": [asdict(access) for access in costs.accesses],
        "summary": summary_values(evaluation, costs, extras.rivals),
        "layers": layer_values(schedule, costs),
        "execution_order": [number[name] for group in schedule.groups for name in group.layers],
        "groups": [asdict(group) | {"colour": colour} for group, colour in zip(costs.groups, colours, strict=True)],
        "edges": _edges(schedule),
        "roofline": asdict(roofline(evaluation)),
        "transfers": [asdict(transfer) for transfer in transfers(evaluation)],
        "timeline": asdict(timeline(evaluation)),
        "nests": [asdict(nest) for nest in loop_nests(evaluation)],
        "why_not": [dict(entry) for entry in extras.why_not],
        "what_if": None if extras.what_if is None else dict(extras.what_if),
        "search": None if extras.trace is None else asdict(extras.trace),
        "compare": None if extras.comparison is None else asdict(extras.comparison),
    }


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


def _edges(schedule: Schedule) -> list[dict[str, Any]]:
    return [
        {
            "source": edge.source,
            "target": edge.target,
            "port": edge.port,
            "fused": schedule.is_fused(edge),
            "bytes": stored_bytes(schedule, schedule.workload[edge.source]),
        }
        for edge in schedule.workload.edges
    ]
