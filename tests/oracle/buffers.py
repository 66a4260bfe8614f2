"""What stands in the L2 buffers of a group at every moment, element by element.

The last layer of a group runs through its rows and columns tile by tile, and every producer computes what its readers
are about to ask for, each element once. Before the first tile, and before the first of each row of tiles, producers
get their lead in pieces of a tile: trips with numbers below zero. An element stands in the buffer from the moment it
is made until the last moment somebody reads it.
"""

from dataclasses import dataclass
from itertools import product

from oracle.walk import layer_named, shared_loops

WHOLE = {"flatten", "reshape", "transpose"}
EARLY = 12
"""More trips than any lead of a drawn schedule takes."""


@dataclass
class Buffer:
    """The L2 buffer of one fused layer."""

    words: int
    """The most it holds at any moment."""
    words_at: dict
    """The most it holds while each layer of the group runs."""
    interior: bool
    """Whether some tile and what is read right behind it touch no border, so that nothing of its halo is cut off."""


@dataclass
class Axis:
    """The stored lines of one layer, rows or columns: when they are made, and when they are read for the last time."""

    made_in: list
    """The trip that makes each stored line."""
    last_read: dict
    """For each reader and stored line, the last trip that reads it."""
    interior: bool


def buffers(schedule, group):
    """The buffer of every layer of a group that another one of the group reads."""
    members = [layer_named(schedule, name) for name in group.layers]
    trips = group.trips
    image = trips.P > 1 and trips.Q > 1
    rows, cols = _axis(members, 0, trips.P, image), _axis(members, 1, trips.Q, image)
    early = {"P": _first_trip(rows), "Q": _first_trip(cols)}
    nesting = shared_loops(group)
    letters = [letter for letter, _ in nesting]
    moments = list(product(*(range(early.get(letter, 0), count) for letter, count in nesting)))
    clock = {place: i for i, place in enumerate(moments)}
    step = {name: i for i, name in enumerate(group.layers)}

    def time(instance, p, q, name):
        place = instance | {"P": p, "Q": q}
        return clock[tuple(place[letter] for letter in letters)] * len(members) + step[name]

    found = {}
    for layer in members:
        reading = [c for c in members if any(o.source == layer.name for o in c.inputs)]
        if not reading:
            continue
        words = layer.dims.N // trips.N * (layer.dims.G * layer.dims.K // (trips.G * trips.X))
        held = [0] * (len(moments) * len(members) + 1)
        high, wide = rows[layer.name], cols[layer.name]
        for g, n, x in product(range(trips.G), range(trips.N), range(trips.X)):
            instance = {"G": g, "N": n, "X": x}
            for (p, made_p), (q, made_q) in product(enumerate(high.made_in), enumerate(wide.made_in)):
                reads = [
                    time(instance, high.last_read[c.name, p], wide.last_read[c.name, q], c.name)
                    for c in reading
                    if (c.name, p) in high.last_read and (c.name, q) in wide.last_read
                ]
                if reads:
                    made = time(instance, made_p, made_q, layer.name)
                    assert made < max(reads)
                    held[made] += words
                    held[max(reads) + 1] -= words
        words_at, now = dict.fromkeys(group.layers, 0), 0
        for moment, change in enumerate(held[:-1]):
            now += change
            name = group.layers[moment % len(members)]
            words_at[name] = max(words_at[name], now)
        found[layer.name] = Buffer(max(words_at.values()), words_at, high.interior and wide.interior)
    return found


def _first_trip(along):
    return min(trip for axis in along.values() for trip in axis.made_in)


def _axis(members, axis, trips, image):
    """All layers along rows (0) or columns (1), from the last layer back."""
    along, computed_by = {}, {}
    numbers = range(-EARLY if trips > 1 else 0, trips)
    for layer in reversed(members):
        computed = (layer.dims.P, layer.dims.Q)[axis]
        stored = (layer.out or (layer.dims.P, layer.dims.Q))[axis]
        reading = [(c, o.port) for c in members for o in c.inputs if o.source == layer.name]
        tile = stored // trips
        # Lines asked for by the end of each trip and the first line a trip asks for, as if the image had no end.
        asked, first = {t: (t + 1) * tile for t in numbers}, {t: t * tile for t in numbers}
        last_read, follow = {}, int(image)
        for consumer, port in reading:
            follow = max(follow, consumer.dilation[axis] - 1 + image)
            progress = computed_by[consumer.name]
            for trip in numbers:
                start = progress.get(trip - 1, 0)
                for line in range(start, progress[trip]):
                    lines = _lines_read(layer, consumer, port, axis, line)
                    asked[trip] = max(asked[trip], max(lines) + 1)
                    first[trip] = min(first[trip], min(lines))
                    if 0 <= line < (consumer.dims.P, consumer.dims.Q)[axis]:
                        last_read |= {(consumer.name, line): trip for line in lines if 0 <= line < stored}
        uncut = (t for t in range(1, trips - follow) if first[t] >= 0 and asked[t + follow] <= stored)
        made_in = [min(trip for trip in numbers if asked[trip] > line) for line in range(stored)]
        all_read = len(last_read) == stored * len({consumer.name for consumer, _ in reading})
        interior = all_read and (trips == 1 or next(uncut, None) is not None)
        along[layer.name] = Axis(made_in, last_read, interior)
        computed_by[layer.name] = {trip: -(-line * computed // stored) for trip, line in asked.items()}
    return along


def _lines_read(layer, consumer, port, axis, line):
    """Stored lines of a layer that one line of a consumer reads, those in the padding included."""
    if port == "weight" or WHOLE.intersection(layer.epilogue):
        return range((layer.out or (layer.dims.P, layer.dims.Q))[axis])
    if port == "addend":
        return [line]
    kernel, step, spread = (consumer.dims.R, consumer.dims.S)[axis], consumer.stride[axis], consumer.dilation[axis]
    return [line * step - (kernel - 1) * spread // 2 + tap * spread for tap in range(kernel)]
