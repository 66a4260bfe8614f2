"""The page: a template with styles, scripts, pictures and data put into their places."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

from fadiff.analysis.breakdown import breakdown
from fadiff.report.html.graph_svg import graph_svg
from fadiff.report.html.layers import spoken
from fadiff.report.html.payload import Extras, payload
from fadiff.report.layout import Drawing, Graph, draw, graph_of

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.schedule import Schedule

STYLES = ("theme", "page", "parts", "charts", "sections", "narrow", "print")
SCRIPTS = (
    "format", "dom", "data", "names", "tooltip", "summary", "compare", "graph", "bars", "roofline", "transfers",
    "costs", "timeline", "nests", "whynot", "whatif", "search", "details", "main",
)  # fmt: skip
"""In the order they are put into the page: they share one scope, and the last one starts them."""

WIDE_ROOM, NARROW_ROOM = 1120.0, 360.0
"""Pixels of a row of the network's pictures: for a desk and for a phone."""
SCREEN = (1100.0, 700.0)
"""Where a third picture shows a long network as a whole, in longer rows and smaller."""
LONGEST_ROOM = 8 * WIDE_ROOM


def report_html(evaluation: Evaluation, extras: Extras = Extras()) -> str:
    """The report of a schedule, with what else there is to say about it."""
    schedule = evaluation.schedule
    graph = graph_of(schedule)
    title = f"{schedule.workload.name} on {schedule.machine.name}"
    heading = f'{escape(schedule.workload.name)} <span class="on">on</span> {escape(schedule.machine.name)}'
    return fill(
        asset("page.html"),
        {
            "version": version("fadiff-scheduler"),
            "title": escape(f"{title}: schedule report"),
            "heading": heading,
            "style": "\n".join(asset(f"{name}.css") for name in STYLES),
            "script": "\n".join(asset(f"{name}.js") for name in SCRIPTS),
            "graphs": _graphs(schedule, graph, spoken(schedule, breakdown(evaluation))),
            "data": script_json(payload(evaluation, extras, graph)),
        },
    )


def _graphs(schedule: Schedule, graph: Graph, told: Mapping[str, str]) -> str:
    """The pictures of the network: wide, narrow, and the whole of it where the wide one does not fit on a screen."""
    wide = draw(graph, WIDE_ROOM)
    pictures = {"wide": wide, "narrow": draw(graph, NARROW_ROOM)}
    if fitting(wide) < 1:
        rooms = [WIDE_ROOM * 1.25**i for i in range(20) if WIDE_ROOM * 1.25**i <= LONGEST_ROOM]
        whole = max((draw(graph, room) for room in rooms), key=fitting)
        if fitting(whole) > 1.1 * fitting(wide):
            pictures["whole"] = whole
    return "".join(graph_svg(schedule, graph, drawing, kind, told) for kind, drawing in pictures.items())


def fitting(drawing: Drawing) -> float:
    """The scale at which a picture fits on a screen as a whole, at most 1."""
    return min(1.0, SCREEN[0] / drawing.width, SCREEN[1] / drawing.height)


@cache
def asset(name: str, of: str = "html") -> str:
    """A file of the folder `assets` of a part of the reports."""
    return (files("fadiff.report") / of / "assets" / name).read_text(encoding="utf-8")


def fill(template: str, parts: Mapping[str, str]) -> str:
    """Put parts in the places of their names, ``{{name}}``; what they hold is not looked at again.

    >>> fill("<p>{{a}}, {{b}}</p>", {"a": "{{b}}", "b": "2"})
    '<p>{{b}}, 2</p>'
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], template)


_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def script_json(value: object) -> str:
    """A value as JSON that can stand inside a script element: no name of a layer can end it.

    >>> script_json({"a": "</script>"})
    '{"a":"\\\\u003c/script\\\\u003e"}'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)
