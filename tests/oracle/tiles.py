"""The tiles of a group, from its last layer back: what each layer computes and stores in one shared iteration."""

from typing import NamedTuple

from fadiff.schedule import Group
from fadiff.workload import Layer, Workload


class Tile(NamedTuple):
    """One layer's part of a shared dim in one shared iteration."""

    computed: int
    stored: int
    """After the epilogue, which may pool or upsample rows and columns."""


class Misaligned(Exception):  # noqa: N818  (a finding, not a failure)
    """The shared trips do not cut a group's layers into tiles."""


def sizes(layer: Layer, loop: str, x_dim: str | None) -> tuple[int, int]:
    """Computed and stored size of the dim a shared loop runs over; X is a part of K before the edge, of C behind it."""
    if loop == "X":
        assert x_dim is not None
        return (getattr(layer.dims, x_dim),) * 2
    if loop in "PQ":
        return (layer.dims.P, layer.dims.Q)["PQ".index(loop)], layer.stored["PQ".index(loop)]
    return (getattr(layer.dims, loop),) * 2


def fused_readers(workload: Workload, group: Group, name: str) -> list[Layer]:
    """The layers of a group that read a layer of it."""
    members = [workload[other] for other in group.layers]
    return [c for c in members if any(o.source == name for o in c.inputs)]


def tiles(workload: Workload, group: Group) -> dict[str, dict[str, Tile]]:
    """For every layer the tiles of the loops that its group really shares; :class:`Misaligned` if there are none."""
    found: dict[str, dict[str, Tile]] = {name: {} for name in group.layers}
    for loop, trips in group.trips._asdict().items():
        if trips == 1:
            continue
        for name in reversed(group.layers):
            layer = workload[name]
            computed, stored = sizes(layer, loop, group.x_dim(name))
            readers = fused_readers(workload, group, name)
            if not readers:
                tile = -(-computed // trips)
                if (trips - 1) * tile >= computed:
                    raise Misaligned(f"{name}: {trips} trips over {loop} = {computed}")
                found[name][loop] = Tile(tile, -(-tile * stored // computed))
                continue
            steps = {_asked(c, loop, found[c.name][loop].computed) for c in readers}
            if len(steps) > 1:
                raise Misaligned(f"the readers of {name} ask for {sorted(steps)} of {loop}")
            asked = min(steps.pop(), stored)
            tile = -(-asked * computed // stored)
            if -(-computed // tile) != -(-stored // asked):
                raise Misaligned(f"{name}: tiles of {tile} computed and {asked} stored {loop}")
            found[name][loop] = Tile(tile, asked)
    return found


def _asked(consumer: Layer, loop: str, tile: int) -> int:
    return tile * consumer.stride["PQ".index(loop)] if loop in "PQ" else tile


class Lead(NamedTuple):
    """How far a layer runs ahead along rows or columns."""

    computed: int
    stored: int


def leads(workload: Workload, group: Group, axis: int) -> dict[str, Lead]:
    """Lines each layer has to be ahead of the last one, so that everybody finds the lines it reads."""
    found: dict[str, Lead] = {}
    for name in reversed(group.layers):
        layer = workload[name]
        computed, stored = (layer.dims.P, layer.dims.Q)[axis], layer.stored[axis]
        ahead = 0
        for c in fused_readers(workload, group, name):
            kernel, step, spread = (c.dims.R, c.dims.S)[axis], c.stride[axis], c.dilation[axis]
            last_line = step * (found[c.name].computed - 1) - c.pad_before(axis, stored) + (kernel - 1) * spread
            ahead = max(ahead, last_line + 1)
        found[name] = Lead(-(-ahead * computed // stored), ahead)
    return found
