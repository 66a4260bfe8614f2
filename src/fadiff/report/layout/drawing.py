"""Coordinates: boxes for layers and points for tensors, in pixels, from cells and routes."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import sqrt
from typing import NamedTuple

from fadiff.report.layout.graph import Graph, Link
from fadiff.report.layout.ranks import cells
from fadiff.report.layout.routes import (
    MARGIN,
    AlongLane,
    Channel,
    Gap,
    Place,
    Routing,
    Step,
    Strip,
    Tensor,
    places,
    routing,
    tensor_of,
)
from fadiff.report.layout.rows import wrap

BOX_WIDTH, BOX_HEIGHT, CIRCLE = 126.0, 44.0, 30.0
"""A MAC layer is a box, an add layer a circle of this diameter."""
GAP, CHANNEL, ROW_CHANNEL = 34.0, 16.0, 30.0
"""Least widths of gaps, of channels inside a row, and of those between rows."""
TRACK, EDGE = 9.0, 14.0
"""Distance of the tracks of a strip from each other, and from its sides."""
PORT = 8.0
"""Distance of the lines that arrive at a layer."""

Point = tuple[float, float]


class Box(NamedTuple):
    """Where a layer stands."""

    x: float
    y: float
    width: float
    height: float
    round: bool


class Line(NamedTuple):
    """The way of a link, from the right side of its producer to the left side of its reader."""

    link: Link
    points: tuple[Point, ...]


class Drawing(NamedTuple):
    """A picture of a network: its size, and what stands where. Lines are in the order of the graph's links."""

    width: float
    height: float
    boxes: dict[str, Box]
    lines: tuple[Line, ...]


def draw(graph: Graph, room: float) -> Drawing:
    """The picture of a network in rows of about `room` pixels."""
    cell = cells(graph)
    widths = [CIRCLE] * (1 + max(c.rank for c in cell.values()))
    for node in graph.nodes:
        if not node.is_sum:
            widths[cell[node.name].rank] = BOX_WIDTH
    firsts = wrap(graph, cell, widths, GAP, room - 2 * EDGE)
    place = places(cell, firsts)
    routes = routing(graph, place)
    rows = [widths[a:b] for a, b in pairwise([*firsts, len(widths)])]
    grid = _Grid(rows, place, routes.tracks)
    boxes = {
        node.name: grid.box(place[node.name], CIRCLE if node.is_sum else BOX_WIDTH, round_=node.is_sum)
        for node in graph.nodes
    }
    return Drawing(grid.width, grid.height, boxes, _lines(graph, place, routes, grid, boxes))


class _Grid:
    """The measures of a wrapped grid."""

    def __init__(
        self, rows: Sequence[Sequence[float]], place: Mapping[str, Place], tracks: Mapping[Strip, Mapping[Tensor, int]]
    ) -> None:
        self._tracks = tracks
        self._rows = rows
        self._gaps: list[list[float]] = []
        self._columns: list[list[float]] = []
        self.width = 0.0
        margin = EDGE + TRACK * self._count(MARGIN)
        begin = max(self._gap_width(row, 0, len(widths)) for row, widths in enumerate(rows))
        for row, widths in enumerate(rows):
            gaps = [begin, *(self._gap_width(row, column, len(widths)) for column in range(1, len(widths) + 1))]
            steps = [step for pair in zip(gaps, [*widths, 0.0], strict=True) for step in pair]
            edges = list(accumulate(steps, initial=margin))
            self._gaps.append(edges[0:-1:2])
            self._columns.append(edges[1::2])
            self.width = max(self.width, edges[-1] + EDGE)
        lanes = [1 + max(p.lane for p in place.values() if p.row == row) for row in range(len(rows))]
        self._lanes: list[list[float]] = []
        self._channel_ends: list[list[float]] = []
        y = 0.0
        for row, count in enumerate(lanes):
            ends: list[float] = []
            for lane in range(count):
                least = CHANNEL if lane or not row else ROW_CHANNEL
                y += max(least, 2 * EDGE + TRACK * (self._count(Channel(row, lane)) - 1))
                ends.append(y)
                y += BOX_HEIGHT
            self._channel_ends.append(ends)
            self._lanes.append([end + BOX_HEIGHT / 2 for end in ends])
        self.height = y + EDGE

    def _count(self, strip: Strip) -> int:
        return 1 + max(self._tracks.get(strip, {}).values(), default=-1)

    def _gap_width(self, row: int, column: int, columns: int) -> float:
        least = GAP if 0 < column < columns else EDGE
        return max(
            least, 2 * EDGE + TRACK * (self._count(Gap(row, column)) - 1) if self._count(Gap(row, column)) else 0
        )

    def box(self, where: Place, width: float, *, round_: bool) -> Box:
        """The box of a layer, in the middle of its cell."""
        left = self._columns[where.row][where.column]
        slack = self._rows[where.row][where.column] - width
        height = CIRCLE if round_ else BOX_HEIGHT
        return Box(left + slack / 2, self.lane(where.row, where.lane) - height / 2, width, height, round_)

    def lane(self, row: int, lane: int) -> float:
        """The y of the middle of a lane."""
        return self._lanes[row][lane]

    def across(self, strip: Gap | str, tensor: Tensor) -> float:
        """The x of a line in a gap or in the margin."""
        track = self._tracks[strip][tensor]
        if not isinstance(strip, Gap):
            return EDGE / 2 + TRACK * track
        left, right = self._gaps[strip.row][strip.column], self._columns[strip.row][strip.column]
        # Rows take turns, so that lines which come down from one seldom meet those that lead into the next.
        aside = TRACK / 2 * (strip.row % 2)
        return (left + right) / 2 + TRACK * (track - (self._count(strip) - 1) / 2) + aside

    def down(self, strip: Channel, tensor: Tensor) -> float:
        """The y of a line in a channel."""
        return self._channel_ends[strip.row][strip.lane] - EDGE - TRACK * self._tracks[strip][tensor]


def _lines(
    graph: Graph, place: Mapping[str, Place], routes: Routing, grid: _Grid, boxes: Mapping[str, Box]
) -> tuple[Line, ...]:
    ways: list[list[Point]] = []
    for link, steps in zip(graph.links, routes.steps, strict=True):
        ways.append(_corners(steps, tensor_of(link), place[link.source], place[link.target], grid))
    leaving = _offsets_out(graph, routes)
    arriving = _offsets_in(graph.links, ways, boxes)
    return tuple(
        Line(link, _ends(way, boxes[link.source], boxes[link.target], leaving[tensor_of(link)], arriving[i]))
        for i, (link, way) in enumerate(zip(graph.links, ways, strict=True))
    )


def _corners(steps: Sequence[Step], tensor: Tensor, source: Place, target: Place, grid: _Grid) -> list[Point]:
    """The corners of a route, without its ends: an x where it runs down, a y where it runs across, in turn."""
    y = grid.lane(source.row, source.lane)
    corners: list[Point] = []
    for i, step in enumerate(steps):
        match step:
            case Channel() | AlongLane():
                pass
            case _:
                x = grid.across(step, tensor)
                corners.append((x, y))
                following = steps[i + 1] if i + 1 < len(steps) else None
                match following:
                    case Channel():
                        y = grid.down(following, tensor)
                    case AlongLane(row, lane):
                        y = grid.lane(row, lane)
                    case _:
                        y = grid.lane(target.row, target.lane)
                corners.append((x, y))
    return corners


def _offsets_out(graph: Graph, routes: Routing) -> dict[Tensor, float]:
    """How far below the middle of a layer its output leaves: side by side where only a part stays on chip."""
    straight: dict[Tensor, bool] = {}
    for link, steps in zip(graph.links, routes.steps, strict=True):
        tensor = tensor_of(link)
        straight[tensor] = straight.get(tensor, False) or not steps
    result: dict[Tensor, float] = {}
    for tensor, is_straight in straight.items():
        twin = Tensor(tensor.source, not tensor.fused)
        alone = twin not in straight or is_straight or (not straight[twin] and tensor.fused)
        result[tensor] = 0.0 if alone else -PORT
    return result


def _offsets_in(links: Sequence[Link], ways: Sequence[Sequence[Point]], boxes: Mapping[str, Box]) -> list[float]:
    """How far below the middle of its reader each line arrives: straight ones in the middle, others on their side."""
    arriving: dict[str, list[int]] = {}
    for i, link in enumerate(links):
        arriving.setdefault(link.target, []).append(i)
    offsets = [0.0] * len(links)
    for name, numbers in arriving.items():
        if len(numbers) == 1:
            continue
        middle, half = boxes[name].y + boxes[name].height / 2, boxes[name].height / 2
        above: dict[tuple[float, str], list[int]] = {}
        below: dict[tuple[float, str], list[int]] = {}
        for i in numbers:
            from_y = ways[i][-2][1] if ways[i] else middle
            if from_y != middle:
                lines = above if from_y < middle else below
                lines.setdefault((abs(from_y - middle), links[i].source), []).append(i)
        for lines, way in ((above, -1), (below, 1)):
            step = min(PORT, (half - 5) / max(1, len(lines)))
            for turn, line in enumerate(sorted(lines), start=1):
                for i in lines[line]:
                    offsets[i] = way * step * turn
    return offsets


def _ends(way: Sequence[Point], source: Box, target: Box, leaving: float, arriving: float) -> tuple[Point, ...]:
    """A route with its ends on the sides of two boxes, moved to its ports."""
    out_y, in_y = source.y + source.height / 2 + leaving, target.y + target.height / 2 + arriving
    moved = list(way)
    if moved:
        moved[0] = (moved[0][0], out_y)
        moved[-1] = (moved[-1][0], in_y)
    elif out_y != in_y:
        out_y = in_y
    return ((_right(source, leaving), out_y), *moved, (_left(target, arriving), in_y))


def _inset(box: Box, offset: float) -> float:
    """How far a circle falls back from the side of its box at a height."""
    radius = box.width / 2
    return radius - sqrt(max(0.0, radius * radius - offset * offset)) if box.round else 0.0


def _right(box: Box, offset: float) -> float:
    return box.x + box.width - _inset(box, offset)


def _left(box: Box, offset: float) -> float:
    return box.x + _inset(box, offset)
