"""What stands in the buffers of a group at every moment, element by element.

The last layer of a group runs through its rows and columns tile by tile, and every producer makes what its readers are
about to ask for, each element once. Before the first tile, and before the first of each row of tiles, producers get
their lead in pieces of a tile: trips with numbers below zero. An element stands in the buffer from the moment it is
made until the last moment somebody reads it; one that nobody reads, while it is made.
"""

from dataclasses import dataclass
from itertools import product

from fadiff.schedule import Group, Schedule
from fadiff.workload import Layer
from oracle.tiles import Tile, fused_readers, tiles

WHOLE = {"flatten", "reshape", "transpose"}
EARLY = 30
"""More trips than any lead of a drawn schedule takes."""


@dataclass
class Buffer:
    """The buffer of one fused layer."""

    values: int
    """The most it holds at any moment."""
    values_at: dict[str, int]
    """The most it holds while each layer of the group runs."""


@dataclass
class Lines:
    """The stored rows or columns of one layer: when they are made, and when each reader reads them last."""

    made_in: list[int]
    """The trip that makes each stored line."""
    last_read: dict[tuple[str, int], int]
    """By reader and line, the trip."""


def buffers(schedule: Schedule, group: Group) -> dict[str, Buffer]:
    """The buffer of every layer of a group that another one of the group reads."""
    workload, trips = schedule.workload, group.trips._asdict()
    members, cut = [workload[name] for name in group.layers], tiles(workload, group)
    rows, cols = (_lines(schedule, group, axis) for axis in (0, 1))
    early = {"P": _first_trip(rows), "Q": _first_trip(cols)}
    moments = list(product(*(range(early.get(loop, 0), trips[loop]) for loop in group.nesting)))
    clock = {at: i for i, at in enumerate(moments)}
    turn = {name: i for i, name in enumerate(group.layers)}

    def time(at: dict[str, int], name: str) -> int:
        return clock[tuple(at[loop] for loop in group.nesting)] * len(members) + turn[name]

    found = {}
    for layer in members:
        readers = fused_readers(workload, group, layer.name)
        if not readers:
            continue
        held = [0] * (len(moments) * len(members) + 1)
        high, wide = rows[layer.name], cols[layer.name]
        for g, n, x in product(*(range(trips[loop]) for loop in "GNX")):
            values = _values(layer, group, cut[layer.name], {"G": g, "N": n, "X": x})
            for (p, made_p), (q, made_q) in product(enumerate(high.made_in), enumerate(wide.made_in)):
                at = {"G": g, "N": n, "X": x, "P": made_p, "Q": made_q}
                made = time(at, layer.name)
                reads = [
                    time(at | {"P": high.last_read[c.name, p], "Q": wide.last_read[c.name, q]}, c.name)
                    for c in readers
                    if (c.name, p) in high.last_read and (c.name, q) in wide.last_read
                ]
                assert not reads or made < min(reads), f"{layer.name}: somebody reads before it is made"
                held[made] += values
                held[max(reads, default=made) + 1] -= values
        values_at, now = dict.fromkeys(group.layers, 0), 0
        for moment, change in enumerate(held[:-1]):
            now += change
            name = group.layers[moment % len(members)]
            values_at[name] = max(values_at[name], now)
        found[layer.name] = Buffer(max(values_at.values()), values_at)
    return found


def _values(layer: Layer, group: Group, cut: dict[str, Tile], at: dict[str, int]) -> int:
    """Values of one stored row and column in one iteration of the other shared loops."""
    size = {"G": layer.dims.G, "N": layer.dims.N, "K": layer.dims.K}
    for loop, number in at.items():
        dim = group.x_dim(layer.name) if loop == "X" else loop
        if loop in cut and dim in size:
            tile = cut[loop].computed
            size[dim] = max(0, min(tile, size[dim] - number * tile))
    return size["G"] * size["N"] * size["K"]


def _first_trip(lines: dict[str, Lines]) -> int:
    return min(trip for along in lines.values() for trip in along.made_in)


def _lines(schedule: Schedule, group: Group, axis: int) -> dict[str, Lines]:
    """All layers along rows (0) or columns (1), from the last layer back."""
    workload, loop = schedule.workload, "PQ"[axis]
    trips, cut = group.trips._asdict()[loop], tiles(workload, group)
    numbers = range(-EARLY if trips > 1 else 0, trips)
    found: dict[str, Lines] = {}
    done: dict[str, dict[int, int]] = {}  # lines each layer has computed by the end of every trip
    for name in reversed(group.layers):
        layer = workload[name]
        computed, stored = (layer.dims.P, layer.dims.Q)[axis], layer.stored[axis]
        tile = cut[name].get(loop, Tile(computed, stored))
        # Lines asked for by the end of each trip, as if the image had no end.
        asked = {t: (t + 1) * tile.stored for t in numbers}
        last_read: dict[tuple[str, int], int] = {}
        for reader, port in [
            (c, o.port) for c in map(workload.__getitem__, group.layers) for o in c.inputs if o.source == name
        ]:
            end = (reader.dims.P, reader.dims.Q)[axis]
            for t in numbers:
                for line in range(done[reader.name].get(t - 1, 0), done[reader.name][t]):
                    lines = _lines_read(layer, reader, port, axis, line)
                    asked[t] = max(asked[t], max(lines) + 1)
                    if 0 <= line < end:
                        last_read |= {(reader.name, x): t for x in lines if 0 <= x < stored}
        made_in = [min((t for t in numbers if asked[t] > line), default=None) for line in range(stored)]
        assert None not in made_in, f"{name} is not done in time"
        found[name] = Lines(made_in, last_read)
        # What it runs ahead in stored lines it runs ahead in computed ones, in whole lines.
        ahead = {t: asked[t] - (t + 1) * tile.stored for t in numbers}
        done[name] = {t: (t + 1) * tile.computed + -(-ahead[t] * computed // stored) for t in numbers}
    return found


def _lines_read(layer: Layer, reader: Layer, port: str, axis: int, line: int) -> list[int] | range:
    """Stored lines of a layer that one line of a reader reads, those in the padding included."""
    if port == "weight" or WHOLE.intersection(layer.epilogue):
        return range(layer.stored[axis])
    if port == "addend":
        return [line]
    kernel, step, spread = (reader.dims.R, reader.dims.S)[axis], reader.stride[axis], reader.dilation[axis]
    pad = reader.pad_before(axis, layer.stored[axis])
    return [line * step - pad + tap * spread for tap in range(kernel)]
