"""Tiles of a fused group: what each of its layers makes in one shared iteration, and how far it runs ahead.

Everything follows from the group's last layer, its *sink*, against the flow of data. Halos are retained, never computed
again: a producer runs ahead of the sink by its *lead*, so that every consumer finds the rows it needs. All functions
take many candidates of shared trip counts at once, in plain integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.schedule.ir import SHARED_LOOPS

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

    from fadiff.workload import Edge, Layer, Workload

    Candidates = Int[np.ndarray, " candidates"]
    Tiles = dict[str, dict[str, Candidates]]

IMAGE = ("P", "Q")
"""The dims of an image, rows and columns: the ones with halos."""


class Ahead(NamedTuple):
    """How a fused producer runs ahead of its consumers along rows or columns, in stored rows."""

    lead: int
    """lead' = max(0, max over consumers c of stride*(lead(c) - 1) + (R-1)*dilation - pad + 1)."""
    halo: int
    """lead' - low, low = min over c of stride*lead(c) - pad: by how much its buffer exceeds a tile."""


class Misfit(NamedTuple):
    """Why a shared loop does not suit a group, and under which candidates."""

    loop: str
    reason: str
    where: Bool[np.ndarray, " candidates"]


@dataclass(frozen=True)
class Tiling:
    """The tiles of a group's layers under each candidate of shared trip counts."""

    trips: Int[np.ndarray, "5 candidates"]
    """Shared trip counts of G, N, P, Q, X."""
    tile: Tiles
    """By layer and dim, for dims that the group may share: the extent in one shared iteration."""
    stored_tile: dict[str, tuple[Candidates, Candidates]]
    """Stored rows and columns of a fused producer in one shared iteration."""
    ahead: dict[str, tuple[Ahead, Ahead]]
    """Leads and halos of fused producers, rows and columns."""
    misfits: tuple[Misfit, ...]
    """What the rule *aligned* forbids."""

    @property
    def aligned(self) -> Bool[np.ndarray, " candidates"]:
        """Candidates that nothing speaks against."""
        return ~np.any([self.trips[0] < 1, *(misfit.where for misfit in self.misfits)], axis=0)

    def only(self, chosen: Bool[np.ndarray, " candidates"]) -> Tiling:
        """The same for some of the candidates."""
        return Tiling(
            trips=self.trips[:, chosen],
            tile={name: {d: tile[chosen] for d, tile in mine.items()} for name, mine in self.tile.items()},
            stored_tile={name: (rows[chosen], cols[chosen]) for name, (rows, cols) in self.stored_tile.items()},
            ahead=self.ahead,
            misfits=tuple(m._replace(where=m.where[chosen]) for m in self.misfits if m.where[chosen].any()),
        )


def inner_edges(workload: Workload, members: Sequence[str]) -> list[Edge]:
    """The edges between layers of a group: all of them are fused."""
    inside = frozenset(members)
    return [edge for name in members for edge in workload.producers[name] if edge.source in inside]


def leads(
    workload: Workload, fused: Iterable[Edge], known: MappingOf[str, tuple[Ahead, Ahead]] | None = None
) -> dict[str, tuple[Ahead, Ahead]]:
    """Leads and halos of every fused producer, along rows and columns; they depend on no trip count.

    Those that are `known` are taken as they are.
    """
    leaving: dict[str, list[Edge]] = {}
    for edge in fused:
        leaving.setdefault(edge.source, []).append(edge)
    found = dict(known or {})
    for name in sorted(leaving.keys() - found.keys(), key=workload.depth.__getitem__, reverse=True):
        found[name] = (_ahead(workload, leaving[name], found, 0), _ahead(workload, leaving[name], found, 1))
    return found


def _ahead(workload: Workload, leaving: list[Edge], known: dict[str, tuple[Ahead, Ahead]], axis: int) -> Ahead:
    lead, lows = 0, list[int]()
    for edge in leaving:
        consumer = workload[edge.target]
        stride, reach, pad = 1, 0, 0
        if edge.port == "input":
            stride = consumer.stride[axis]
            reach = ((consumer.dims.R, consumer.dims.S)[axis] - 1) * consumer.dilation[axis]
            pad = consumer.pad_before(axis, workload[edge.source].stored[axis])
        own = 0
        if edge.target in known:  # the consumer's lead in its own rows, lead(c) = ceil(lead'(c) * P / P')
            own = -(-known[edge.target][axis].lead * _computed(consumer, axis) // consumer.stored[axis])
        lead = max(lead, stride * (own - 1) + reach - pad + 1)
        lows.append(stride * own - pad)
    return Ahead(lead, lead - min(lows))


def shared_dim(loop: str, *, first: bool) -> str:
    """The dim of a layer that a shared loop is a part of; X is K in its producer, the first layer, and C in the other.

    >>> shared_dim("X", first=True), shared_dim("P", first=True)
    ('K', 'P')
    """
    return loop if loop != "X" else ("K" if first else "C")


def group_tiling(
    workload: Workload,
    members: Sequence[str],
    fused: Sequence[Edge],
    trips: Int[np.ndarray, "5 candidates"],
    known: Tiling | None = None,
) -> Tiling:
    """Tiles of a group's layers (in execution order, the sink last) under candidates of shared trip counts.

    Where trips(d) > 1 the sink's tile is ceil(size/trips). A producer's stored tile is stride * (the computed tile of
    its consumers) along P and Q, else their tile, at most what it stores; its computed tile is
    ceil(stored tile * P/P'). Where trips(d) = 1 every layer has the whole dim.

    Tiles depend on what follows only: where those of a smaller group with the same sink are `known`, under the same
    candidates, all of them aligned, they are taken as they are.
    """
    ahead = leads(workload, fused, None if known is None else known.ahead)
    tile: Tiles = {name: {} for name in members}
    stored_tile: dict[str, list[Candidates]] = {edge.source: [] for edge in fused}
    if known is not None:
        tile |= known.tile
        stored_tile |= {name: list(sides) for name, sides in known.stored_tile.items()}
    leaving: dict[str, list[Edge]] = {name: [] for name in members}
    for edge in fused:
        leaving[edge.source].append(edge)
    misfits = list(_barred(workload, members, fused, trips))
    last_first = sorted(members, key=workload.depth.__getitem__, reverse=True)
    if known is not None:
        last_first = [name for name in last_first if name not in known.tile]
    for loop, count in zip(SHARED_LOOPS, trips, strict=True):
        shared = count > 1
        if loop in "GX":
            barred = [misfit.where for misfit in misfits if misfit.loop == loop]
            if not (shared.any() and (shared & ~np.any([0 * shared, *barred], axis=0)).any()):
                continue
        for name in last_first:
            layer, dim = workload[name], shared_dim(loop, first=name == members[0])
            size = layer.dims._asdict()[dim] + 0 * count
            if not leaving[name]:
                step = _ceil(size, count)
                misfits.append(Misfit(loop, f"its last trip would find no {dim} of {name}", (count - 1) * step >= size))
            elif loop in IMAGE:
                axis = IMAGE.index(loop)
                stored = [_asked(workload, edge, axis, tile) for edge in leaving[name]]
                step = _ceil(stored[0] * _computed(layer, axis), layer.stored[axis])
                stored[0] = np.where(shared, stored[0], layer.stored[axis])
                stored_tile[name].append(stored[0])
                misfits += _image_misfits(layer, loop, step, stored, count, ahead[name][axis].lead)
            else:
                step = np.minimum(size, tile[leaving[name][0].target][shared_dim(loop, first=False)])
            tile[name][dim] = np.where(shared, step, size)
    pairs = {name: (sides[0], sides[1]) for name, sides in stored_tile.items()}
    return Tiling(trips, tile, pairs, ahead, tuple(misfits))


def _ceil(a: Candidates, b: Candidates | int) -> Candidates:
    return -(-a // b)


def _computed(layer: Layer, axis: int) -> int:
    return (layer.dims.P, layer.dims.Q)[axis]


def _barred(
    workload: Workload, members: Sequence[str], fused: Sequence[Edge], trips: Int[np.ndarray, "5 candidates"]
) -> Iterator[Misfit]:
    """Loops that these layers can share under no trip count."""
    layers = [workload[name] for name in members]
    shared = dict(zip(SHARED_LOOPS, trips > 1, strict=True))
    if len({layer.dims.G for layer in layers}) > 1 or layers[0].dims.G == 1:
        told = ", ".join(f"{layer.name} {layer.dims.G}" for layer in layers)
        yield Misfit("G", f"its layers have no common G > 1 ({told})", shared["G"])
    for name in dict.fromkeys(edge.target for edge in fused):
        if sum(operand.port == "input" for operand in workload[name].inputs) > 1:
            yield Misfit("G", f"{name} reads a concatenation, whose groups differ", shared["G"])
    for edge in fused:
        before, after = workload[edge.source].dims.N, workload[edge.target].dims.N
        if before != after:
            yield Misfit("N", f"{edge.source} has N {before} and {edge.target} {after}", shared["N"])
    if (reason := channel_loop_problem(workload, layers)) is not None:
        yield Misfit("X", reason, shared["X"])


def channel_loop_problem(workload: Workload, layers: Sequence[Layer]) -> str | None:
    """Why the layers may not share the channel loop X; None if they may."""
    if len(layers) != 2 or not all(layer.is_mac for layer in layers):
        return "only a group of exactly two MAC layers may"
    u, v = layers
    if not any(e.source == u.name and e.port == "input" for e in workload.producers[v.name]):
        return f"{u.name} does not feed the input of {v.name}"
    if u.dims.G != v.dims.G or u.dims.K != v.dims.C:
        return f"{u.name} has G,K {u.dims.G},{u.dims.K} and {v.name} G,C {v.dims.G},{v.dims.C}: they must be equal"
    if (v.dims.R, v.dims.S) != (1, 1):
        return f"{v.name} has a {v.dims.R}x{v.dims.S} kernel: it must be 1x1"
    return None


def _asked(workload: Workload, edge: Edge, axis: int, tile: Tiles) -> Candidates:
    """Stored rows (columns) of a producer that a consumer's tile takes a step further: stride * its computed tile."""
    stride = workload[edge.target].stride[axis] if edge.port == "input" else 1
    return np.minimum(workload[edge.source].stored[axis], stride * tile[edge.target][IMAGE[axis]])


def _image_misfits(
    layer: Layer, loop: str, step: Candidates, stored: Sequence[Candidates], count: Candidates, lead: int
) -> Iterator[Misfit]:
    """Where tiles of a producer's rows (columns) do not go with its consumers, its epilogue, or the time it has."""
    axis, shared = IMAGE.index(loop), count > 1
    computed, all_stored = _computed(layer, axis), layer.stored[axis]
    for other in stored[1:]:
        reason = f"the consumers of {layer.name} ask for different tiles of it"
        yield Misfit(loop, reason, shared & (other != stored[0]))
    reason = f"tiles of {layer.name}'s {computed} {loop} do not become tiles of the {all_stored} it stores"
    pieces, stored_pieces = _ceil(computed + 0 * count, step), _ceil(all_stored + 0 * count, stored[0])
    yield Misfit(loop, reason, shared & (pieces != stored_pieces))
    late = _ceil(all_stored - lead + 0 * count, stored[0]) > count
    yield Misfit(loop, f"{layer.name} would not be done with its {all_stored} stored {loop}'", shared & late)
