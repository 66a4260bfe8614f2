"""A schedule in a notebook: its summary and its graph.

Text takes the notebook's own colour and fills are translucent, so both read on light and on dark ground.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from fadiff.analysis.at_clock import clock_facts
from fadiff.analysis.breakdown import breakdown
from fadiff.analysis.units import count_text, size_text
from fadiff.cost.evaluate import evaluate
from fadiff.report.layout import Box, Drawing, Graph, Node, draw, graph_of
from fadiff.report.palette import group_colours
from fadiff.schedule.rules import violations
from fadiff.workload.names import shorten

if TYPE_CHECKING:
    from fadiff.schedule import Schedule

ROOM = 1100.0
"""Pixels of a row of the picture."""
GROUP_COLOURS = ("#4477AA", "#EE7733", "#CCAA22", "#CC6677", "#229977", "#33BBEE", "#88AA22", "#888800")
ALONE, OFF_CHIP = "#888888", "#DD4455"
MOST_VIOLATIONS = 5
NAME_CHARACTERS, TOLD_CHARACTERS = 80, 200
"""Of a name in a heading, and in a tooltip."""


def schedule_html(schedule: Schedule) -> str:
    """HTML of a few kilobytes: a table and an inline SVG; no script, no style sheet, no outside files."""
    title = " on ".join(
        escape(shorten(name, NAME_CHARACTERS)) for name in (schedule.workload.name, schedule.machine.name)
    )
    broken = violations(schedule)
    facts = [("illegal", str(one)) for one in broken[:MOST_VIOLATIONS]] if broken else _facts(schedule)
    rows = "".join(
        f'<tr><td style="text-align:left">{escape(name)}</td><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in facts
    )
    graph = graph_of(schedule)
    picture = _svg(schedule, graph, draw(graph, ROOM))
    return f'<div><strong>{title}</strong><table style="margin:0.5em 0"><tbody>{rows}</tbody></table>{picture}</div>'


def _facts(schedule: Schedule) -> list[tuple[str, str]]:
    costs = breakdown(evaluate(schedule))
    totals, energy = costs.totals, costs.totals.energy_pj * 1e-6
    parts = costs.energy_by_part_pj().items()
    shares = ", ".join(f"{part} {pj / totals.energy_pj:.0%}" for part, pj in parts if totals.energy_pj)
    fused, tensors = len(schedule.fused_edges), len(schedule.workload.edges)
    made_by = ", ".join(f"{key} {value}" for key, value in schedule.made_by.items())
    return [
        ("EDP", f"{totals.edp_uj_cycles:.4g} µJ·cycles"),
        ("energy", f"{energy:,.0f} µJ ({shares})" if energy >= 100 else f"{energy:.3g} µJ ({shares})"),
        ("latency", f"{count_text(totals.cycles)} cycles"),
        *clock_facts(totals.at_clock),
        (f"{costs.memories[0]} traffic", size_text(totals.first_memory_bytes)),
        ("MAC utilization", f"{totals.utilization:.1%}"),
        ("layers", f"{len(costs.layers)} in {len(costs.groups)} groups; {fused} of {tensors} tensors stay on chip"),
        *([("made by", made_by)] if made_by else []),
        *([] if schedule.asked is None else [("constraints", str(schedule.asked))]),
    ]


def _svg(schedule: Schedule, graph: Graph, drawing: Drawing) -> str:
    """The network; lines on chip are solid, those off it dashed and red."""
    about = (
        f"Graph of {escape(shorten(schedule.workload.name, NAME_CHARACTERS))}, layers in the colours of their groups"
    )
    size = f'viewBox="0 0 {drawing.width:.0f} {drawing.height:.0f}" style="max-width:{drawing.width:.0f}px;width:100%"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif"><title>{about}</title>'
    ]
    for line in drawing.lines:
        colour, dashes = ("currentColor", "") if line.link.fused else (OFF_CHIP, ' stroke-dasharray="6 3"')
        *way, (x, y) = line.points
        points = " ".join(f"{px:.1f},{py:.1f}" for px, py in (*way, (x - 6, y)))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>')
        parts.append(f'<path d="M{x - 7:.1f} {y - 4:.1f}L{x:.1f} {y:.1f}L{x - 7:.1f} {y + 4:.1f}Z" fill="{colour}"/>')
    numbers = group_colours(schedule)
    for node in graph.nodes:
        number = numbers[node.group]
        tone = ALONE if number is None else GROUP_COLOURS[number % len(GROUP_COLOURS)]
        parts.append(_node(node, drawing.boxes[node.name], tone, filled=number is not None))
    return "".join(parts) + "</svg>"


def _node(node: Node, box: Box, tone: str, *, filled: bool) -> str:
    x, y = box.x + box.width / 2, box.y + box.height / 2
    look = f'fill="{tone}" fill-opacity="{0.3 if filled else 0.08}" stroke="{tone}" stroke-width="1.2"'
    told = f"<title>{escape(shorten(node.title, TOLD_CHARACTERS))}: {escape(node.about)}</title>"
    if box.round:
        plus = f'<path d="M{x - 6:.1f} {y:.1f}h12M{x:.1f} {y - 6:.1f}v12" stroke="currentColor"/>'
        return f'<g>{told}<circle cx="{x:.1f}" cy="{y:.1f}" r="{box.width / 2:.1f}" {look}/>{plus}</g>'
    name, about = shorten(node.title, 17), shorten(node.about, 21)
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6"'
    words = f'x="{x:.1f}" text-anchor="middle" fill="currentColor"'
    return (
        f"<g>{told}<rect {place} {look}/>"
        f'<text {words} y="{y - 4:.1f}" font-size="12">{escape(name)}</text>'
        f'<text {words} y="{y + 13:.1f}" font-size="10" opacity="0.75">{escape(about)}</text></g>'
    )
