"""Bytes a schedule needs on chip, step by step, in plain integers.

This is the arithmetic behind the rules *fits* and *complete*. It is written independently of the array model in
:mod:`fadiff.cost`, which prices schedules; the two are compared in tests.
"""

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from fadiff.schedule.halo import halos
from fadiff.schedule.ir import Group, Mapping, Schedule
from fadiff.workload import Dims, Layer

RELEVANT = {"W": frozenset("GKCRS"), "I": frozenset("GNCPQRS"), "O": frozenset("GNKPQ")}


class Loop(NamedTuple):
    """A temporal loop over a dim."""

    dim: str
    trips: int
    shared: bool = False


@dataclass(frozen=True)
class Footprint:
    """What one layer holds on chip. L2 sizes in words (= bytes), L1 sizes in bytes."""

    kept_weight: int
    kept_input: int
    passing_weight: int
    passing_input: int
    buffer: int
    buffer_keeps_halo: bool
    l1_bytes: int
    spills: int


@dataclass(frozen=True)
class Step:
    """What is in L2 and L1 while one layer of a group runs, by what it is."""

    layer: str
    l2_parts: dict[str, int]
    l1_parts: dict[str, int]

    @property
    def l2_bytes(self) -> int:
        """All of L2 that is in use."""
        return sum(self.l2_parts.values())

    @property
    def l1_bytes(self) -> int:
        """All of L1 that is in use."""
        return sum(self.l1_parts.values())


def loops_over_l2(mapping: Mapping, group: Group, x_dim: str | None) -> list[Loop]:
    """The L3 loops of a layer, outer to inner: the group's shared loops, then the private rests."""
    as_dim = {"G": "G", "N": "N", "P": "P", "Q": "Q"} | ({} if x_dim is None else {"X": x_dim})
    trips = group.trips._asdict()
    shared = [Loop(as_dim[d], trips[d], shared=True) for d in group.nesting if d in as_dim]
    shared_trips = {loop.dim: loop.trips for loop in shared}
    factors = mapping.l3._asdict()
    private = [Loop(d, factors[d] // shared_trips.get(d, 1)) for d in mapping.order3]
    return [loop for loop in shared + private if loop.trips > 1]


def refills(loops: list[Loop], tensor: str) -> int:
    """Product of the trips of the innermost running relevant loop and of all loops outside it."""
    remaining = list(loops)
    while remaining and remaining[-1].dim not in RELEVANT[tensor]:
        remaining.pop()
    return prod(loop.trips for loop in remaining)


def footprint(schedule: Schedule, layer: Layer, halo: tuple[int, int]) -> Footprint:
    """What a layer holds on chip as part of its group."""
    group = schedule.group_of[layer.name]
    x_dim = _x_dim(schedule, group, layer)
    buffer, keeps_halo = _buffer(schedule, layer, group, halo, x_dim)
    if not layer.is_mac:
        return Footprint(0, 0, 0, 0, buffer, keeps_halo, 0, 0)
    mapping = schedule.mappings[layer.name]
    x1, x2 = mapping.extent(1), mapping.extent(2)
    l3 = loops_over_l2(mapping, group, x_dim)
    weight, window, fresh = _tiles(layer, x2, l3)

    producers = schedule.workload.producers[layer.name]
    fused_channels = sum(e.channels for e in producers if schedule.is_fused(e))
    channels = layer.dims.G * layer.dims.C
    held = -(-window * (channels - fused_channels) // channels)
    if any(e.port == "weight" and schedule.is_fused(e) for e in producers):
        weight = 0
    slides = bool(l3) and l3[-1].shared and fresh < window
    keep_weight = refills(l3, "W") < group.iterations
    keep_input = refills(l3, "I") < group.iterations or slides

    tile1 = x1.G * x1.N * x1.K * x1.P * x1.Q
    l2_loops = [Loop(d, mapping.l2._asdict()[d]) for d in mapping.order2 if mapping.l2._asdict()[d] > 1]
    columns = mapping.spatial.K * mapping.spatial.G
    return Footprint(
        kept_weight=weight if keep_weight else 0,
        kept_input=held if keep_input else 0,
        passing_weight=0 if keep_weight else weight,
        passing_input=0 if keep_input else held,
        buffer=buffer,
        buffer_keeps_halo=keeps_halo,
        l1_bytes=-(-4 * tile1 * schedule.hardware.cols // columns),
        spills=tile1 * refills(l3 + l2_loops, "O") - layer.output_words,
    )


def _x_dim(schedule: Schedule, group: Group, layer: Layer) -> str | None:
    """The dim of the layer that the channel loop is a part of."""
    pair = schedule.channel_loop(group)
    return None if pair is None else ("K" if layer.name == pair[0] else "C")


def _tiles(layer: Layer, x2: Dims, l3: list[Loop]) -> tuple[int, int, int]:
    """tile2(W), tile2(I), and the part of tile2(I) that a step of the innermost loop brings anew."""
    g, n, k, c, p, q, r, s = x2
    height = (p - 1) * layer.stride[0] + (r - 1) * layer.dilation[0] + 1
    width = (q - 1) * layer.stride[1] + (s - 1) * layer.dilation[1] + 1
    fresh_height, fresh_width = height, width
    match l3[-1].dim if l3 else "":
        case "P":
            fresh_height = min(height, p * layer.stride[0])
        case "R":
            fresh_height = min(height, r * layer.dilation[0])
        case "Q":
            fresh_width = min(width, q * layer.stride[1])
        case "S":
            fresh_width = min(width, s * layer.dilation[1])
        case _:
            pass
    return g * k * c * r * s, g * n * c * height * width, g * n * c * fresh_height * fresh_width


def _buffer(
    schedule: Schedule, layer: Layer, group: Group, halo: tuple[int, int], x_dim: str | None
) -> tuple[int, bool]:
    """Words of the layer's L2 buffer (0 if no edge of it is fused), and whether it keeps a halo."""
    if not any(schedule.is_fused(edge) for edge in schedule.workload.consumers[layer.name]):
        return 0, False
    trips, (rows, cols) = group.trips, layer.stored
    p, q = rows // trips.P, cols // trips.Q
    h = rows if trips.P == 1 else min(rows, max(p, p + halo[0]))
    w = cols if trips.Q == 1 else min(cols, max(q, q + halo[1]))
    line = min(rows, max(0, halo[0])) * (cols - w) if trips.P > 1 and trips.Q > 1 else 0
    held = h * w + line
    # The halo of every iteration of a loop inside those over rows and columns waits for its next turn.
    inside = group.nesting[group.nesting.index("P" if trips.P > 1 else "Q") :]
    waiting = prod(trips._asdict()[d] for d in inside if d in "GN" or (d == "X" and x_dim == "K"))
    held += (waiting - 1) * (held - p * q)
    channels = layer.channels // (trips.G * (trips.X if x_dim == "K" else 1))
    keeps_halo = (trips.P > 1 and h > p) or (trips.Q > 1 and w > q)
    return layer.dims.N // trips.N * channels * held, keeps_halo


def group_steps(schedule: Schedule, group: Group, halo: dict[str, tuple[int, int]] | None = None) -> list[Step]:
    """What is in L2 and L1 while each layer of a group runs."""
    halo = halos(schedule.workload, schedule.fused_edges) if halo is None else halo
    held = {name: footprint(schedule, schedule.workload[name], halo.get(name, (0, 0))) for name in group.layers}
    place = {name: i for i, name in enumerate(group.layers)}
    last_use = dict(place)
    for name in group.layers:
        for edge in schedule.workload.consumers[name]:
            if edge.target in place:
                last_use[name] = max(last_use[name], place[edge.target])
    pair = schedule.channel_loop(group)
    steps: list[Step] = []
    for name in group.layers:
        mine = held[name]
        live = [
            u
            for u in group.layers
            if held[u].buffer and (held[u].buffer_keeps_halo or place[u] <= place[name] <= last_use[u])
        ]
        l2_parts = {
            "weights pinned": sum(held[u].kept_weight for u in group.layers),
            "input windows kept": sum(held[u].kept_input for u in group.layers),
            f"weight tile of {name}": mine.passing_weight,
            f"input tile of {name}": mine.passing_input,
            **{f"buffer of {u}": held[u].buffer for u in live},
        }
        l1_parts = {f"sums of {name}": mine.l1_bytes}
        if pair is not None and name == pair[0] and held[pair[1]].spills == 0:
            l1_parts[f"waiting sums of {pair[1]}"] = held[pair[1]].l1_bytes
        steps.append(Step(name, {k: v for k, v in l2_parts.items() if v}, {k: v for k, v in l1_parts.items() if v}))
    return steps
