"""Places that a layer may have in any schedule: alone, or in a group that fuses what it reads, what it makes, or both.

A place says what fusion saves and, as a function of the layer's tile in a shared iteration, the least that must lie in
the memory that fuses while the layer runs. Whatever group a layer is in, its place is one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff.schedule.barriers import barriers
from fadiff.schedule.ir import SHARED_LOOPS
from fadiff.schedule.nest import C, G, K, N, P, Q
from fadiff.schedule.tiling import channel_loop_problem
from fadiff.search.solver.closing import ALONE, Role
from fadiff.workload.layer import DIMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fadiff.hardware import Machine
    from fadiff.workload import Edge, Layer, Workload


@dataclass(frozen=True)
class Buffer:
    """A tensor that waits in the memory that fuses while the layer runs; its least size follows from the layer's tile.

    Along rows and columns it holds what a tile of the layer takes (or makes) and the halo of the window that slides
    over it: min(P', stride * tile + (R-1)*dilation + 1 - stride); of other dims, the tile where a group can share them.
    """

    stored: tuple[int, int]
    made_from: tuple[int, int] | None
    """Computed rows and columns, if the layer makes it; None if it reads it."""
    stride: tuple[int, int]
    halo: tuple[int, int]
    values: int
    """At one place of the image."""
    shared: dict[int, int]
    """Dims of the layer of which a group may cut these values, with their sizes."""

    def least_values(self, tile: Sequence[int], cut: frozenset[int]) -> float:
        """Values held at least, for tiles of at least these extents; whole along rows or columns that are not cut."""
        values = float(self.values)
        for d, size in self.shared.items():
            values = values * min(tile[d], size) / size
        for i, d in enumerate((P, Q)):
            stored = self.stored[i]
            step = self.stride[i] * tile[d]
            if self.made_from is not None:
                step = (tile[d] - 1) * stored // self.made_from[i] + 1
            values *= min(stored, step + self.halo[i]) if d in cut else stored
        return values


@dataclass(frozen=True)
class Place:
    """What fusion changes for a layer, what must lie beside its tiles, and which of its dims may be cut by a group."""

    role: Role = ALONE
    read: tuple[Buffer, ...] = ()
    """Fused operands, of which at least one is there."""
    made: tuple[Buffer, ...] = ()
    """Its own output, if it stays on chip."""
    cut: frozenset[int] = frozenset()

    @property
    def grouped(self) -> bool:
        """Whether the layer shares its group with others."""
        return bool(self.read or self.made)

    def least_bytes(self, tile: Sequence[int], bits: int) -> float:
        """Bytes of buffers beside the layer's tiles, at least."""
        read = min((buffer.least_values(tile, self.cut) for buffer in self.read), default=0.0)
        return (read + sum(buffer.least_values(tile, self.cut) for buffer in self.made)) * bits / 8


ON_ITS_OWN = Place(cut=frozenset({G, N, P, Q}))
"""A layer that shares its group with no other; shared loops may cut its tiles all the same."""


def places(workload: Workload, layer: Layer, machine: Machine) -> tuple[Place, ...]:
    """Every place that a layer may have, those that pay most first."""
    alone = ON_ITS_OWN
    if machine.structure.hands_over is None:
        return (alone,)
    arriving = [edge for edge in workload.producers[layer.name] if edge.fusible]
    leaving = [edge for edge in workload.consumers[layer.name] if edge.fusible]
    found: list[Place] = []
    for reads in (True, False):
        for makes in (True, False):
            edges = [edges for edges, wanted in ((arriving, reads), (leaving, makes)) if wanted]
            if edges and all(edges):
                found.append(_grouped(workload, layer, machine, arriving if reads else [], leaving if makes else []))
    return (*found, alone)


def _grouped(
    workload: Workload, layer: Layer, machine: Machine, arriving: Sequence[Edge], leaving: Sequence[Edge]
) -> Place:
    total = layer.dims.G * layer.dims.C
    share = sum(edge.channels for edge in arriving if edge.port == "input") / total
    weight = float(any(edge.port == "weight" for edge in arriving))
    read = tuple(_read(workload, layer, edge) for edge in arriving)
    made = (_made(workload, layer, leaving),) if leaving else ()
    cut = frozenset(DIMS.index(dim) for dim in _cuts(workload, machine, layer, arriving, leaving))
    # A finished tensor that everybody may read on chip need not leave it.
    drained = float(not leaving or len(leaving) < len(workload.consumers[layer.name]))
    return Place(Role(share, weight, drained, float(bool(leaving))), read, made, cut)


def _cuts(
    workload: Workload, machine: Machine, layer: Layer, arriving: Sequence[Edge], leaving: Sequence[Edge]
) -> set[str]:
    """Dims of a layer that a group may cut: those of loops that at least one edge of each kind lets it share."""
    free = set(SHARED_LOOPS)
    for edges in (arriving, leaving):
        if edges:
            free &= set().union(*(_sharable(workload, machine, edge) for edge in edges))
    dims = free - {"X"}
    if layer.dims.G == 1:
        dims.discard("G")
    if "X" in free and len(arriving) * len(leaving) == 0:
        dims.add("C" if arriving else "K")
    return dims


def _sharable(workload: Workload, machine: Machine, edge: Edge) -> set[str]:
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


def _read(workload: Workload, layer: Layer, edge: Edge) -> Buffer:
    """The buffer of a fused operand."""
    source = workload[edge.source]
    shared = _shared_dims(source, layer)
    if source.dims.K == layer.dims.C:
        shared[C] = layer.dims.C
    stride, halo = (layer.stride, _halo(layer)) if edge.port == "input" else ((1, 1), (0, 0))
    return Buffer(source.stored, None, stride, halo, source.dims.N * source.channels, shared)


def _made(workload: Workload, layer: Layer, leaving: Sequence[Edge]) -> Buffer:
    """The buffer of the layer's own output: the halo is that of the consumer that needs least."""
    halos = [_halo(workload[edge.target]) if edge.port == "input" else (0, 0) for edge in leaving]
    halo = min(rows for rows, _ in halos), min(cols for _, cols in halos)
    shared = {d: size for d, size in ((N, layer.dims.N), (G, layer.dims.G), (K, layer.dims.K)) if size > 1}
    computed = layer.dims.P, layer.dims.Q
    return Buffer(layer.stored, computed, (1, 1), halo, layer.dims.N * layer.channels, shared)


def _shared_dims(source: Layer, layer: Layer) -> dict[int, int]:
    return {d: layer.dims[d] for d in (N, G) if source.dims[d] == layer.dims[d] > 1}


def _halo(consumer: Layer) -> tuple[int, int]:
    """By how much the buffer of what a layer reads exceeds a tile at least, lead' - low >= (R-1)*dilation + 1 - stride.

    However far its own consumers make it run ahead, both ends move by the same.
    """
    rows, cols = (max(0, reach + 1 - stride) for reach, stride in zip(consumer.reach, consumer.stride, strict=True))
    return rows, cols
