"""Places that a layer may have in a schedule: which tensors around it are fused, and what that changes.

A place says what fusion saves and, as a function of the layer's tile in a shared iteration, the least that must lie in
the memory that fuses while the layer runs. Whatever group a layer is in, its place is one of these.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple

from fadiff.schedule.barriers import barriers
from fadiff.schedule.ir import SHARED_LOOPS
from fadiff.schedule.nest import IRRELEVANT_DIMS, C, G, K, N, P, Q
from fadiff.schedule.tiling import Ahead, channel_loop_problem, leads
from fadiff.search.solver.prices import ALONE, Role
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.search.solver.grid import Cells
    from fadiff.workload import Edge, Layer, Workload

MOST_TIES = 6
"""Links around a layer that its places tell apart: one with more of its own is *loose*, others that pass it are left
out."""

MOST_LEADS = 1024
"""Halos follow from the layers that run between the ends of a link, if these are no more than so many edges, for every
lead that the last of them may have."""

Link = tuple[str, str]
"""Two layers, one of which reads the other: their tensor is fused, or not."""
Fused = frozenset[Link]


class Step(NamedTuple):
    """From a consumer's tile to that of its producer."""

    stride: tuple[int, int]
    stored: tuple[int, int]
    computed: tuple[int, int]


@dataclass(frozen=True)
class Buffer:
    """A tensor that waits in the memory that fuses while the layer runs; its least size follows from the layer's tile.

    Along rows and columns it holds what a tile of the layer takes or makes (of one that passes, what follows from it
    along a path) and the halo that outlasts an iteration, h = min(P', stride * tile + halo), and where both are cut the
    halo of whole rows; of other dims, the tile where a group can share them.
    """

    stored: tuple[int, int]
    steps: tuple[Step, ...] | None
    """From the layer's tile back to the tensor, if it reads or passes it; None if it makes it."""
    computed: tuple[int, int]
    halo: tuple[int, int]
    values: int
    """At one place of the image."""
    shared: tuple[tuple[int, int], ...]
    """Dims of the layer of which a group may cut these values, with their sizes."""
    kept_for_others: bool = False
    """Whether another layer may read it over a halo: then it may be always there, as its maker tells."""

    def least_values(self, tile: Sequence[Cells], size: Sequence[int], cut: frozenset[int]) -> float:
        """Values held at least, for tiles within cells; whole along rows or columns that are not cut."""
        values = float(self.values)
        for d, extent in self.shared:
            values = values * min(tile[d].low[0], extent) / extent
        sides = list[int]()
        for i, d in enumerate((P, Q)):
            least = min(self.stored[i], self.stored_tile(i, tile[d].low[0]) + self.halo[i])
            sides.append(least if d in cut else self.stored[i])
        waits = 0
        if all(d in cut and tile[d].high[0] < size[d] for d in (P, Q)):
            waits = min(self.halo[0], self.stored[0]) * (self.stored[1] - sides[1])
        return values * (sides[0] * sides[1] + waits)

    def retained(self, tile: Sequence[Cells], size: Sequence[int]) -> bool:
        """Whether it is certain to have a halo that outlasts a shared iteration."""
        return any(halo and tile[d].high[0] < size[d] for halo, d in zip(self.halo, (P, Q), strict=True))

    def stored_tile(self, i: int, tile: int) -> int:
        """Stored rows (columns) of a shared iteration at least, where the layer has a tile."""
        if self.steps is None:
            return (tile - 1) * self.stored[i] // self.computed[i] + 1
        stored = tile
        for step in self.steps:
            stored = min(step.stored[i], step.stride[i] * tile)
            tile = -(-stored * step.computed[i] // step.stored[i])
        return stored


@dataclass(frozen=True)
class Sums:
    """Sums of a channel loop's consumer, which wait in their home while its producer runs; their least size follows
    from the producer's tile.

    The consumer's tile is as large along N and G, and of p' stored rows of the producer it has p'/stride. All of its
    channels are in it, since the sums stay.
    """

    made: Buffer
    """The producer's output."""
    stride: tuple[int, int]
    image: tuple[int, int]
    """Of the consumer."""
    values: float
    """Of one instance of the home, at one place of the image, for all of N and G."""
    shared: tuple[tuple[int, int], ...]
    """Dims of which a group may cut these values, with their sizes."""

    def least_bytes(self, tile: Sequence[Cells], bits: int) -> float:
        """Bytes held at least in one instance, for tiles of the producer within cells."""
        values = self.values
        for d, size in self.shared:
            values = values * min(tile[d].low[0], size) / size
        for i, d in enumerate((P, Q)):
            values *= min(self.image[i], -(-self.made.stored_tile(i, tile[d].low[0]) // self.stride[i]))
        return values * bits / 8


@dataclass(frozen=True)
class Place:
    """What fusion changes for a layer, what must lie beside its tiles, and which of its dims may be cut by a group."""

    role: Role = ALONE
    fused_addends: int = 0
    grouped: bool = False
    """Whether the layer shares its group with others, or may."""
    waiting: tuple[Buffer, ...] = ()
    """Fused operands, and tensors that pass it."""
    made: Buffer | None = None
    """Its own output, if it stays on chip."""
    cut: frozenset[int] = frozenset({G, N, P, Q})
    """On its own, shared loops may cut a layer's tiles all the same."""
    keeps: bool | None = None
    """Whether its weights stay on chip from one shared iteration to the next; None where that is left open."""
    slides: bool | None = None
    """Whether its window slides over what it fetches from one shared iteration to the next; likewise."""
    sums_stay: bool | None = None
    """In a group that shares a channel loop, whether the sums of its consumer stay in their home from one iteration to
    the next; None where no channel loop is shared."""
    holds: bool | None = None
    """The same of the consumer itself."""
    sums: Sums | None = None
    """Of the producer: what waits for the consumer."""
    taken: tuple[tuple[int, float], ...] = ()
    """Bytes of memories, by node, that others of its group take beside it."""
    loose: bool = False
    """Whether any of its links may be fused: then nothing counts as far in as the memory that fuses."""

    def least_bytes(self, tile: Sequence[Cells], size: Sequence[int], bits: int) -> float:
        """Bytes of buffers beside the layer's tiles, at least."""
        made = () if self.made is None else (self.made,)
        return sum(buffer.least_values(tile, size, self.cut) for buffer in (*self.waiting, *made)) * bits / 8

    def retained_bytes(self, tile: Sequence[Cells], size: Sequence[int], bits: int) -> float:
        """Bytes of its own output, at least, that are there while any layer of its group runs: all of a buffer that has
        a halo."""
        if self.made is None or not self.made.retained(tile, size):
            return 0.0
        return self.made.least_values(tile, size, self.cut) * bits / 8

    def passing_bytes(self, tile: Sequence[Cells], size: Sequence[int], bits: int) -> float:
        """Bytes of what waits for it, at least, that is not always there."""
        waiting = [one for one in self.waiting if not one.kept_for_others and not one.retained(tile, size)]
        return sum(buffer.least_values(tile, size, self.cut) for buffer in waiting) * bits / 8


ON_ITS_OWN = Place()
"""A layer that shares its group with no other."""
LOOSE = Place(grouped=True, cut=frozenset({G, N, K, C, P, Q}), loose=True)
"""A layer with too many links to tell apart, in any group or none."""


class Links:
    """What may be fused in a network: links, and the layers that they pass."""

    def __init__(self, workload: Workload, machine: Machine) -> None:
        self.workload = workload
        self.machine = machine
        after: dict[str, set[str]] = {}
        for name in reversed(workload.topological):
            targets = {edge.target for edge in workload.consumers[name]}
            after[name] = targets.union(*(after[target] for target in targets))
        self._after = after
        can = dict.fromkeys((edge.source, edge.target) for edge in workload.edges)
        for edge in workload.edges:
            if not edge.fusible or workload[edge.source].repeat != workload[edge.target].repeat:
                can.pop((edge.source, edge.target), None)
        self.passed = {link: self._between(link) for link in can if machine.structure.hands_over is not None}
        """Of each link that may be fused, the layers that run between its ends: they are in its group."""
        for link, inside in list(self.passed.items()):
            group = {*link, *inside}
            edges = (edge for name in group for edge in workload.consumers[name] if edge.target in group)
            if not all((edge.source, edge.target) in can for edge in edges):
                del self.passed[link]

        self._halos: dict[Link, tuple[int, int]] = {}
        fusible = [edge for edge in workload.edges if (edge.source, edge.target) in self.passed]
        self._most_ahead = {name: max(ahead.lead for ahead in both) for name, both in leads(workload, fusible).items()}
        """Stored rows or columns that a layer may be ahead by in any group."""

    def halo(self, link: Link) -> tuple[int, int]:
        """Rows and columns of a fused tensor that outlast an iteration at least, lead' - low, because of one consumer:
        with what runs between, how far its maker is ahead is known, however far the consumer is ahead itself."""
        if link not in self._halos:
            source, target = link
            group, most = {*link, *self.passed[link]}, self._most_ahead.get(target, 0)
            edges = [edge for name in group for edge in self.workload.consumers[name] if edge.target in group]
            direct = [edge for edge in edges if (edge.source, edge.target) == link]
            if len(edges) * most > MOST_LEADS:
                edges = direct
            halos: list[tuple[int, int]] = []
            for ahead in range(most + 1):
                known = {target: (Ahead(ahead, 0), Ahead(ahead, 0))}
                makers, alone = (leads(self.workload, some, known)[source] for some in (edges, direct))
                rows, cols = (maker.lead - (own.lead - own.halo) for maker, own in zip(makers, alone, strict=True))
                halos.append((rows, cols))
            self._halos[link] = max(0, min(rows for rows, _ in halos)), max(0, min(cols for _, cols in halos))
        return self._halos[link]

    def _between(self, link: Link) -> list[str]:
        source, target = link
        return [
            name for name in self.workload.topological if name in self._after[source] and target in self._after[name]
        ]

    def around(self, name: str) -> list[Link]:
        """Links of a layer, then those that pass it, as far as its places tell them apart: none of a loose one."""
        own = [link for link in self.passed if name in link]
        passing = [link for link, passed in self.passed.items() if name in passed]
        return [*own, *passing][:MOST_TIES] if len(own) <= MOST_TIES else []

    def loose(self, name: str) -> bool:
        """Whether a layer has too many links to tell them apart."""
        return sum(name in link for link in self.passed) > MOST_TIES

    def together(self, name: str, fused: Fused) -> bool:
        """Whether some of a layer's links can be fused without others: with a link go all layers that it passes."""
        for link in fused:
            inside = {*link, *self.passed[link]}
            near = [one for one in self.passed if name in one and inside.issuperset(one)]
            if not fused.issuperset(near):
                return False
        return True

    def follows(self, one: str, other: str) -> bool:
        """Whether another layer comes after one."""
        return other in self._after[one]

    def ordered(self, one: str, other: str) -> bool:
        """Whether one of two layers comes after the other."""
        return self.follows(one, other) or self.follows(other, one)

    def readers(self, source: str) -> list[str]:
        """Layers that may read another one on chip."""
        return [target for maker, target in self.passed if maker == source]

    def path(self, source: str, target: str) -> list[str]:
        """Layers from one to another that follows from it, against the flow of data."""
        found = [target]
        while found[-1] != source:
            producers = [edge.source for edge in self.workload.producers[found[-1]]]
            found.append(next(p for p in producers if p == source or p in self._after[source]))
        return found


def asked_places(
    found: Sequence[tuple[Fused, Place]], required: Collection[Link], barred: Collection[Link]
) -> list[tuple[Fused, Place]]:
    """Of a layer's places those that fuse what must be fused, as far as they tell it apart, and nothing else."""
    tied = Fused().union(*(fused for fused, _ in found))
    must = tied.intersection(required)
    return [(fused, place) for fused, place in found if must <= fused and fused.isdisjoint(barred)]


def places(links: Links, layer: Layer) -> list[tuple[Fused, Place]]:
    """Every place that a layer may have, with the links around it that are fused."""
    if links.loose(layer.name):
        return [(frozenset(), LOOSE)]
    ties = links.around(layer.name)
    found: list[tuple[Fused, Place]] = [(frozenset(), ON_ITS_OWN)]
    for fused in (frozenset(some) for count in range(1, len(ties) + 1) for some in combinations(ties, count)):
        if not links.together(layer.name, fused):
            continue
        place = _place(links, layer, fused)
        fetched = layer.is_mac and not place.role.fused_weight and links.machine.structure.home("W") is not None
        kept = (True, False) if fetched and not place.cut.isdisjoint(IRRELEVANT_DIMS["W"]) else (None,)
        found += [(fused, replace(place, keeps=keeps)) for keeps in kept]
        under_x = _under_x(links, layer, place, *fused) if len(fused) == 1 else ()
        found += [
            (fused, replace(one, keeps=keeps)) for one in under_x for keeps in kept if not (keeps and one.sums_stay)
        ]
    return found


def _under_x(links: Links, layer: Layer, place: Place, link: Link) -> list[Place]:
    """The places of a layer in a group of two that shares a channel loop, where it may: the sums of the consumer stay
    in their home or come again. Where they stay, that loop is the innermost one, so no weights are kept."""
    workload, home = links.workload, links.machine.structure.home("O")
    consumer = workload[link[1]]
    edges = [edge for edge in workload.edges if (edge.source, edge.target) == link]
    if home is None or not all("X" in sharable(workload, links.machine, edge) for edge in edges):
        return []
    if layer.name == consumer.name:
        place = replace(place, cut=place.cut | {C})
        return [replace(place, sums_stay=stay, holds=stay) for stay in (True, False)]
    place = replace(place, cut=place.cut | {K})
    assert place.made is not None
    sums = Sums(
        place.made,
        consumer.stride,
        _image(consumer),
        consumer.dims.N * consumer.channels / links.machine.instances(home),
        tuple((d, layer.dims[d]) for d in (N, G) if consumer.dims[d] == layer.dims[d] > 1),
    )
    return [replace(place, sums_stay=True, sums=sums), replace(place, sums_stay=False)]


def _place(links: Links, layer: Layer, fused: Fused) -> Place:
    """The place where some links are fused."""
    workload = links.workload
    arriving = [edge for edge in workload.producers[layer.name] if (edge.source, edge.target) in fused]
    leaving = [edge for edge in workload.consumers[layer.name] if (edge.source, edge.target) in fused]
    share = sum(edge.channels for edge in arriving if edge.port == "input") / (layer.dims.G * layer.dims.C)
    weight = float(any(edge.port == "weight" for edge in arriving))
    # A finished tensor that everybody reads on chip need not leave it.
    consumers = {(edge.source, edge.target) for edge in workload.consumers[layer.name]}
    drained = float(not consumers or not consumers <= fused)
    own = [*arriving, *leaving]
    waiting = {edge.source: _read(links, layer, edge, fused) for edge in arriving}
    passing = {source for source, target in fused if layer.name not in (source, target)}
    waiting |= {name: _passing(links, layer, name, fused) for name in sorted(passing - {*waiting})}
    return Place(
        Role(share, weight, drained, float(bool(leaving))),
        sum(edge.port == "addend" for edge in arriving),
        grouped=True,
        waiting=tuple(waiting.values()),
        made=_made(links, layer, fused) if leaving else None,
        cut=frozenset(DIMS.index(dim) for dim in _cuts(links, layer, own)),
    )


def _cuts(links: Links, layer: Layer, edges: Sequence[Edge]) -> set[str]:
    """Dims of a layer that a group with some edges may cut, but for its channels."""
    free = set(SHARED_LOOPS)
    for edge in edges:
        free &= sharable(links.workload, links.machine, edge)
    dims = free - {"X"}
    if layer.dims.G == 1:
        dims.discard("G")
    return dims


def sharable(workload: Workload, machine: Machine, edge: Edge) -> set[str]:
    """Loops that a group with an edge may share."""
    found = barriers(workload, (edge.source, edge.target), [edge], online_softmax=machine.online_softmax)
    barred = {loop for barrier in found for loop in barrier.loops}
    if workload[edge.source].dims.N != workload[edge.target].dims.N:
        barred.add("N")
    if workload[edge.source].dims.G != workload[edge.target].dims.G:
        barred.add("G")
    if edge.port != "input" or channel_loop_problem(workload, [workload[edge.source], workload[edge.target]]):
        barred.add("X")
    return set(SHARED_LOOPS) - barred


def _read(links: Links, layer: Layer, edge: Edge, fused: Fused) -> Buffer:
    """The buffer of a fused operand."""
    workload, source = links.workload, links.workload[edge.source]
    shared = [(d, layer.dims[d]) for d in (N, G) if source.dims[d] == layer.dims[d] > 1]
    if source.dims.K == layer.dims.C:
        shared.append((C, layer.dims.C))
    halo = _halo(links, edge.source, fused)
    values = source.dims.N * source.channels
    kept = any(any(links.halo((edge.source, name))) for name in links.readers(edge.source) if name != layer.name)
    return Buffer(source.stored, (_step(edge, workload),), _image(source), halo, values, tuple(shared), kept)


def _passing(links: Links, layer: Layer, name: str, fused: Fused) -> Buffer:
    """The buffer of a tensor that waits for a layer further on."""
    workload, source, path = links.workload, links.workload[name], links.path(name, layer.name)
    edges = [
        next(edge for edge in workload.producers[target] if edge.source == before) for target, before in pairwise(path)
    ]
    shared = tuple((d, layer.dims[d]) for d in (N, G) if all(workload[x].dims[d] == layer.dims[d] > 1 for x in path))
    steps = tuple(_step(edge, workload) for edge in edges)
    halo = _halo(links, name, {*fused, (name, edges[-1].target)})
    kept = any(any(links.halo((name, reader))) for reader in links.readers(name))
    return Buffer(source.stored, steps, _image(source), halo, source.dims.N * source.channels, shared, kept)


def _step(edge: Edge, workload: Workload) -> Step:
    source = workload[edge.source]
    stride = workload[edge.target].stride if edge.port == "input" else (1, 1)
    return Step(stride, source.stored, _image(source))


def _image(layer: Layer) -> tuple[int, int]:
    return layer.dims.P, layer.dims.Q


def _made(links: Links, layer: Layer, fused: Fused) -> Buffer:
    """The buffer of the layer's own output."""
    halo = _halo(links, layer.name, fused)
    shared = tuple((d, layer.dims[d]) for d in (N, G, K) if layer.dims[d] > 1)
    return Buffer(layer.stored, None, _image(layer), halo, layer.dims.N * layer.channels, shared)


def _halo(links: Links, source: str, fused: Collection[Link]) -> tuple[int, int]:
    """Rows and columns of a tensor that outlast an iteration: those of the fused link that needs most."""
    halos = [links.halo(link) for link in fused if link[0] == source]
    return max(rows for rows, _ in halos), max(cols for _, cols in halos)
