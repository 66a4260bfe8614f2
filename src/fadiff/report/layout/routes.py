"""Routes: which channels, gaps and lanes each tensor takes, and on which track of them, before anything is measured.

A *channel* runs above each lane of a row; a *gap* runs before each rank of a row and after the last one; the *margin*
runs left of all rows. Lines in the same one that would touch take different tracks (the left-edge algorithm). Edges
that carry the same tensor, and keep it on chip or not alike, run together as one line.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fadiff.report.layout.graph import Graph, Link
from fadiff.report.layout.ranks import Cell


class Place(NamedTuple):
    """A cell of the wrapped grid; `column` counts the ranks of its row from 0."""

    row: int
    column: int
    lane: int


class Tensor(NamedTuple):
    """What runs as one line: the output of a layer, as far as it stays on chip or as far as it does not."""

    source: str
    fused: bool


class Channel(NamedTuple):
    """The free strip above a lane."""

    row: int
    lane: int


class Gap(NamedTuple):
    """The free strip before a rank of a row."""

    row: int
    column: int


MARGIN = "margin"
Strip = Channel | Gap | str


class AlongLane(NamedTuple):
    """A step of a route: along the lane of a cell that no layer takes."""

    row: int
    lane: int


Step = Channel | Gap | AlongLane | str
"""A route is a list of strips that it runs along, horizontal and vertical ones in turn."""


@dataclass
class Tracks:
    """The lines of one strip, with the part of it that each takes, in ordinal positions."""

    spans: dict[Tensor, tuple[float, float]] = field(default_factory=dict[Tensor, tuple[float, float]])

    def take(self, tensor: Tensor, a: float, b: float) -> None:
        """Let a line run from a to b."""
        low, high = self.spans.get(tensor, (a, a))
        self.spans[tensor] = (min(low, a, b), max(high, a, b))

    def assign(self) -> dict[Tensor, int]:
        """A track for each line, 0 first, short ones before long ones, so that arcs nest."""
        taken: list[list[tuple[float, float]]] = []
        tracks: dict[Tensor, int] = {}
        for tensor, (a, b) in sorted(self.spans.items(), key=lambda item: (item[1][1] - item[1][0], item)):
            free = (i for i, others in enumerate(taken) if all(b < low or high < a for low, high in others))
            track = next(free, len(taken))
            if track == len(taken):
                taken.append([])
            taken[track].append((a, b))
            tracks[tensor] = track
        return tracks


class Routing(NamedTuple):
    """The steps of each edge, in the order of the graph's links, and the track of each line on each strip."""

    steps: list[list[Step]]
    tracks: dict[Strip, dict[Tensor, int]]


def tensor_of(link: Link) -> Tensor:
    """What a link is a part of."""
    return Tensor(link.source, link.fused)


def places(cells: Mapping[str, Cell], firsts: Iterable[int]) -> dict[str, Place]:
    """The cells of the wrapped grid, given the first rank of each row."""
    starts = list(firsts)
    row_of = {name: max(i for i, first in enumerate(starts) if first <= cell.rank) for name, cell in cells.items()}
    return {name: Place(row_of[name], cell.rank - starts[row_of[name]], cell.lane) for name, cell in cells.items()}


def routing(graph: Graph, place: Mapping[str, Place]) -> Routing:
    """Routes for all edges: straight where the way is free, else around the layers."""
    taken: dict[Place, Tensor | None] = dict.fromkeys(place.values())
    strips: dict[Strip, Tracks] = {}
    steps: list[list[Step]] = []
    for link in graph.links:
        tensor = tensor_of(link)
        source, target = place[link.source], place[link.target]
        route = _route(source, target, tensor, taken)
        steps.append(route)
        _take(strips, tensor, source, target, route)
    return Routing(steps, {strip: lines.assign() for strip, lines in strips.items()})


def _route(source: Place, target: Place, tensor: Tensor, taken: dict[Place, Tensor | None]) -> list[Step]:
    leave, enter = Gap(source.row, source.column + 1), Gap(target.row, target.column)
    if source.row < target.row:
        above = Channel(target.row, 0)
        if target.row == source.row + 1:
            return [leave, above, enter]
        return [leave, Channel(source.row + 1, 0), MARGIN, above, enter]
    if leave == enter:
        return [] if source.lane == target.lane else [enter]
    for lane in dict.fromkeys((source.lane, target.lane)):
        between = [Place(source.row, column, lane) for column in range(source.column + 1, target.column)]
        if all(cell not in taken or taken[cell] == tensor for cell in between):
            taken.update(dict.fromkeys(between, tensor))
            straight = AlongLane(source.row, lane)
            if source.lane == target.lane:
                return []
            return [straight, enter] if lane == source.lane else [leave, straight]
    return [leave, Channel(source.row, min(source.lane, target.lane)), enter]


def _take(strips: dict[Strip, Tracks], tensor: Tensor, source: Place, target: Place, route: list[Step]) -> None:
    """Enter the parts of a route into the strips that it runs along.

    Ordinals: across a row, gap i stands at i; down a gap, lane l stands at 2l + 1 and the channel above it at 2l, and
    what leaves the row downwards ends at infinity; down the margin, a row stands at its number.
    """
    across, down = float(source.column + 1), float(2 * source.lane + 1)
    for i, step in enumerate(route):
        following = route[i + 1] if i + 1 < len(route) else None
        match step:
            case Gap(row, column):
                across = float(column)
                match following:
                    case Channel(next_row, lane):
                        end = 2.0 * lane if next_row == row else float("inf")
                    case AlongLane(_, lane):
                        end = 2.0 * lane + 1
                    case _:
                        end = 2.0 * target.lane + 1
                strips.setdefault(step, Tracks()).take(tensor, down, end)
                down = end
            case Channel(_, lane):
                end = -1.0 if following == MARGIN else float(following.column if isinstance(following, Gap) else 0)
                strips.setdefault(step, Tracks()).take(tensor, across, end)
                across, down = end, 2.0 * lane
            case AlongLane():
                across = float(target.column)
            case _:
                strips.setdefault(MARGIN, Tracks()).take(tensor, float(source.row + 1), float(target.row))
