"""The network as SVG: layers in the colours of their groups, tensors on chip or off it, wide as they are large.

Colours are CSS variables of the page. A group's ground is made of a patch under each of its layers and a band under
each of its tensors: it never covers a layer that is not its own.
"""

from collections.abc import Mapping, Sequence
from html import escape
from math import sqrt

from fadiff.report.layout import Box, Drawing, Graph, Line, Node
from fadiff.report.palette import group_colours
from fadiff.schedule import Schedule
from fadiff.workload.names import shorten

THINNEST, WIDEST = 1.25, 7.0
CORNER, HEAD = 7.0, 8.0
"""Radius of the corners of lines, and length of their heads."""
PATCH = 7.0
"""How far a group's ground reaches beyond its layers."""
NAME_CHARACTERS = 17


def graph_svg(schedule: Schedule, graph: Graph, drawing: Drawing, kind: str, told: Mapping[str, str]) -> str:
    """The picture; `kind` becomes a class of it, `told` says of each layer what a screen reader should."""
    of_group = group_colours(schedule)
    colour = {node.name: None if len(node.layers) > 1 else of_group[node.group] for node in graph.nodes}
    most = max((link.words for link in graph.links), default=1)
    parts = [
        f'<svg class="graph {kind}" viewBox="0 0 {_n(drawing.width)} {_n(drawing.height)}" '
        f'data-width="{_n(drawing.width)}" data-height="{_n(drawing.height)}" role="group" '
        f'aria-label="Graph of {escape(schedule.workload.name)}: {len(schedule.workload.layers)} layers">',
        '<g class="grounds">',
        *_grounds(drawing, colour),
        '</g><g class="edges">',
    ]
    # Small tensors are drawn last, so that large ones do not hide them.
    for line in sorted(drawing.lines, key=lambda line: -line.link.words):
        width = THINNEST + (WIDEST - THINNEST) * sqrt(line.link.words / most)
        parts.append(_edge(line, width))
    parts.append('</g><g class="nodes">')
    for i, node in enumerate(graph.nodes):
        says = told[node.name] if len(node.layers) == 1 else f"{node.title}, {node.about}: from {told[node.name]}"
        parts.append(_node(i, node, drawing.boxes[node.name], colour[node.name], says))
    parts.append('</g><g class="tags" aria-hidden="true">')
    for i, group in enumerate(schedule.groups):
        if of_group[i] is not None and group.layers[0] in colour:
            parts.append(_tag(i + 1, drawing.boxes[group.layers[0]], of_group[i]))
    parts.append("</g></svg>")
    return "".join(parts)


def _grounds(drawing: Drawing, colour: Mapping[str, int | None]) -> list[str]:
    parts: list[str] = []
    for line in drawing.lines:
        if line.link.fused and (tone := colour[line.link.source]) is not None:
            parts.append(f'<path class="band g{tone}" d="{_path(line.points)}"/>')
    for name, box in drawing.boxes.items():
        if colour[name] is not None:
            x, y = box.x - PATCH, box.y - PATCH
            size = f'width="{_n(box.width + 2 * PATCH)}" height="{_n(box.height + 2 * PATCH)}"'
            radius = box.height / 2 + PATCH if box.round else 10
            parts.append(f'<rect class="patch g{colour[name]}" x="{_n(x)}" y="{_n(y)}" {size} rx="{_n(radius)}"/>')
    return parts


def _edge(line: Line, width: float) -> str:
    (*_, (x, y)) = line.points
    shown = _path([*line.points[:-1], (x - HEAD + 1, y)])
    half = 3 + width / 3
    head = f"M{_n(x - HEAD)} {_n(y - half)}L{_n(x)} {_n(y)}L{_n(x - HEAD)} {_n(y + half)}Z"
    kind, (number, *more) = "chip" if line.link.fused else "away", line.link.edges
    others = f' data-more="{len(more)}"' if more else ""
    return (
        f'<g class="edge {kind}" data-edge="{number}"{others}><path class="hit" d="{shown}"/>'
        f'<path class="line" d="{shown}" stroke-width="{width:.2f}"/><path class="head" d="{head}"/></g>'
    )


def _node(number: int, node: Node, box: Box, colour: int | None, told: str) -> str:
    tone = "alone" if colour is None else f"g{colour}"
    many = " many" if len(node.layers) > 1 else ""
    begin = (
        f'<g class="node {tone}{many}" data-node="{number}" transform="translate({_n(box.x)} {_n(box.y)})" '
        f'tabindex="{-1 if number else 0}" role="button" aria-haspopup="dialog" aria-label="{escape(told)}">'
    )
    if box.round:
        r = box.width / 2
        return (
            f'{begin}<circle class="box" cx="{_n(r)}" cy="{_n(r)}" r="{_n(r - 1)}"/>'
            f'<path class="sign" d="M{_n(r - 6)} {_n(r)}h12M{_n(r)} {_n(r - 6)}v12"/></g>'
        )
    size = f'width="{_n(box.width)}" height="{_n(box.height)}" rx="6"'
    behind = f'<rect class="behind" x="4" y="4" {size}/>' if many else ""
    return (
        f'{begin}{behind}<rect class="box" {size}/>'
        f'<path class="stripe" d="M6 .75h-.25a5 5 0 0 0-5 5v{_n(box.height - 11.5)}a5 5 0 0 0 5 5h.25z"/>'
        f'<text class="name" x="12" y="18.5">{escape(shorten(node.title, NAME_CHARACTERS))}</text>'
        f'<text class="shape" x="12" y="33.5">{escape(shorten(node.about, 21))}</text></g>'
    )


def _tag(number: int, box: Box, colour: int | None) -> str:
    """The number of a group, on a corner of its first layer."""
    width = 10 + 6.2 * len(str(number))
    return (
        f'<g class="tag g{colour}" transform="translate({_n(box.x + box.width - width + 5)} {_n(box.y - 8)})">'
        f'<rect width="{_n(width)}" height="15" rx="7.5"/><text x="{_n(width / 2)}" y="11">{number}</text></g>'
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    """A polyline with round corners."""
    corners = [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]
    path = f"M{_n(corners[0][0])} {_n(corners[0][1])}"
    for before, (x, y), after in zip(corners, corners[1:], corners[2:], strict=False):
        back, ahead = _toward((x, y), before), _toward((x, y), after)
        path += f"L{_n(back[0])} {_n(back[1])}Q{_n(x)} {_n(y)} {_n(ahead[0])} {_n(ahead[1])}"
    return path + f"L{_n(corners[-1][0])} {_n(corners[-1][1])}"


def _toward(corner: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Where the curve around a corner begins: on the way to its neighbour, at most half of it."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    length = sqrt(dx * dx + dy * dy)
    part = min(CORNER, length / 2) / length
    return corner[0] + dx * part, corner[1] + dy * part


def _n(value: float) -> str:
    """A coordinate to a tenth of a pixel: fine enough, and the same on every machine."""
    return f"{value:.1f}".removesuffix(".0")
