"""The data of the page, as plain JSON values. Names are those of the analyses, which the scripts use as they are."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fadiff.report.breakdown import breakdown
from fadiff.report.flows import total_flows
from fadiff.report.html.graph_svg import group_colours
from fadiff.report.html.layers import layer_values
from fadiff.report.html.summary import summary_values
from fadiff.report.loop_nest import loop_nests
from fadiff.report.roofline import roofline
from fadiff.report.timeline import timeline
from fadiff.report.what_if import what_if
from fadiff.report.why_not import why_not

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.report.compare import Comparison
    from fadiff.report.opponents import Opponents
    from fadiff.report.search_trace import SearchTrace
    from fadiff.schedule import Schedule


def payload(
    evaluation: Evaluation, opponents: Opponents, *, trace: SearchTrace | None, comparison: Comparison | None
) -> dict[str, Any]:
    """Everything that the page shows."""
    schedule = evaluation.schedule
    costs = breakdown(evaluation)
    number = {layer.name: i for i, layer in enumerate(schedule.workload.layers)}
    colours = group_colours(schedule)
    return {
        "version": version("fadiff-scheduler"),
        "summary": summary_values(evaluation, costs, opponents),
        "layers": layer_values(evaluation, costs),
        "execution_order": [number[name] for group in schedule.groups for name in group.layers],
        "groups": [asdict(group) | {"colour": colour} for group, colour in zip(costs.groups, colours, strict=True)],
        "edges": _edges(schedule),
        "roofline": asdict(roofline(evaluation)),
        "flows": [asdict(flow) for flow in total_flows(evaluation)],
        "timeline": asdict(timeline(evaluation)),
        "nests": [asdict(nest) for nest in loop_nests(evaluation)],
        "why_not": [asdict(entry) for entry in why_not(evaluation)],
        "what_if": asdict(what_if(evaluation)),
        "search": None if trace is None else asdict(trace),
        "compare": None if comparison is None else asdict(comparison),
    }


def _edges(schedule: Schedule) -> list[dict[str, Any]]:
    return [
        {
            "source": edge.source,
            "target": edge.target,
            "port": edge.port,
            "fused": schedule.is_fused(edge),
            "words": schedule.workload[edge.source].stored_words,
        }
        for edge in schedule.workload.edges
    ]
