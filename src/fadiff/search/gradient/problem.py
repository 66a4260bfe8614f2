"""A workload and a machine packed for the descent: padded arrays, layers in topological order.

Axes are padded to a few sizes, so that another network of similar size runs in the program compiled before. Padding
layers have one value and repeat 0 times, padding edges are never fused, padding rows have one candidate of ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import numpy as np

from fadiff.hardware import MachineArrays, Structure, pack_machine
from fadiff.schedule.arrays import EdgeArrays, LayerArrays, pack_edges, pack_layers
from fadiff.schedule.barriers import barriers
from fadiff.schedule.tiling import group_tiling, inner_edges, leads
from fadiff.search.gradient.candidates import Choice, choices
from fadiff.search.space import map_space, useful_structure

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Float, Int

    from fadiff.hardware import Machine
    from fadiff.search.gradient.settings import DescentSettings
    from fadiff.workload import Edge, Workload

WIDTHS = (4, 16, 32, 64, 128)
"""Candidates per row of a table; rows with more go to a table of `max_candidates`."""
MIN_ROWS = 8
"""Rows of a table, also of an empty one: what is there must not depend on a network's details."""
STEP = 16
"""Layers and edges are padded to a multiple of this."""
BARRED = -1e9
"""Logit of a candidate that is only padding."""


class Table(NamedTuple):
    """Choices with about equally many candidates, one per row."""

    logs: Float[Array, "rows width parts"]
    """Log factors of each candidate; part i of a row stands for the i-th slot of its choice."""
    bar: Float[Array, "rows width 1"]
    """0 for candidates, :data:`BARRED` for padding."""


class Ends(NamedTuple):
    """What the penalties ask about edges; dims are G, N, P, Q."""

    source: Float[Array, "layers edges"]
    """1 at an edge's producer."""
    target: Float[Array, "layers edges"]
    """1 at its consumer."""
    fusible: Float[Array, " edges"]
    """1 where the edge may be fused."""
    whole: Float[Array, "4 1 edges"]
    """1 where a dim must not be shared if the edge is fused."""
    stride: Float[Array, "4 1 edges"]
    """What the consumer steps over, of what the producer stores."""
    until: Float[Array, "fan_out layers layers"]
    """1 where the second layer runs between the first and the end of one of its edges, both included."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ProblemArrays:
    """All that the compiled program reads. What is static shapes it, besides the sizes of arrays."""

    structure: Structure = field(metadata={"static": True})
    """The machine's, with only those dims at each node for which a factor may pay in some layer."""
    orders: tuple[tuple[str, ...], ...] = field(metadata={"static": True})
    """By memory: the loop orders to choose among."""
    shares: bool = field(metadata={"static": True})
    """Whether layers may be fused, and share loops."""
    layers: LayerArrays
    edges: EdgeArrays
    """Leaving edges of a layer stand in the order of their targets, the last first."""
    ends: Ends
    machine: MachineArrays
    stored: Float[Array, "2 layers"]
    """Rows and columns after the epilogue."""
    halo: Float[Array, "2 layers"]
    """Halo of a layer's buffer with all its edges fused."""
    tables: tuple[Table, ...]
    place: Int[Array, " slots*8*layers"]
    """Where each log factor stands among the parts of all rows of all tables, laid end to end."""
    unplace: Int[Array, " parts"]
    """The inverse: where the factors take each part from, or one past the last."""


class Problem(NamedTuple):
    """Arrays, and what is needed to read results back in the workload's own order."""

    arrays: ProblemArrays
    position: Int[np.ndarray, " layers"]
    """Topological place of each layer of the workload."""
    edges: int
    """Edges of the workload."""


def pack_problem(workload: Workload, machine: Machine, settings: DescentSettings) -> Problem:
    """Pack what a descent with these settings needs."""
    structure, depth = useful_structure(workload, machine, map_space(machine)), workload.depth
    shares = settings.fuse and structure.hands_over is not None
    # Rules *fusible* and *repeat*; all others depend on the mapping.
    repeat = {layer.name: layer.repeat for layer in workload.layers}
    fusible = [e for e in workload.edges if shares and e.fusible and repeat[e.source] == repeat[e.target]]
    position = np.array([depth[layer.name] for layer in workload.layers])
    layers, edges = (-(-max(len(x), 1) // STEP) * STEP for x in (workload.layers, workload.edges))
    slots = len(machine.nodes) + 1
    tables, placed, parts = _tables(tuple(choices(workload, machine, settings)), slots, layers, settings)
    unplace = np.full(parts, placed.size)
    unplace[placed[placed < parts]] = np.flatnonzero(placed < parts)
    # Places of every edge's ends; padding edges stand at the first layer, and one past the last before all.
    ends = np.append(np.zeros((2, edges), dtype=np.int64), [[-1], [-1]], axis=1)
    ends[:, : len(workload.edges)] = np.transpose([[depth[e.source], depth[e.target]] for e in workload.edges])

    def padded(columns: object, fill: float, dtype: type[np.generic] = np.float32) -> Array:
        """Columns of the workload's layers in topological order, and padding after them; rows to a power of two."""
        values = np.asarray(columns)
        wide = np.full((*map(_power_of_two, values.shape[:-1]), layers), fill, dtype=dtype)
        wide[(*map(slice, values.shape[:-1]), position)] = values
        return cast("Array", wide)

    def numbered(lists: Int[Array, "fan layers"]) -> Array:
        """Lists of edge numbers, the last target first, padded with one past the last."""
        wide = np.asarray(padded(np.where(np.asarray(lists) == len(workload.edges), edges, lists), edges, np.int32))
        return cast("Array", np.take_along_axis(wide, np.argsort(-ends[1, wide], axis=0, kind="stable"), axis=0))

    # Halos do not depend on how far a group reaches beyond a layer's consumers, where rows are stored as computed; so
    # those of the whole network, fused wherever it may be, stand for those of any group.
    ahead, given, lists = leads(workload, fusible), pack_layers(workload), pack_edges(workload)
    fans = {"arriving": numbered(lists.arriving), "leaving": numbered(lists.leaving)}
    arrays = ProblemArrays(
        structure=structure,
        orders=map_space(machine).orders,
        shares=shares,
        layers=LayerArrays(*(padded(values, 1) for values in given))._replace(repeat=padded(given.repeat, 0)),
        edges=EdgeArrays(*(padded(v, 0) for v in lists))._replace(**fans),
        ends=_ends(workload, fusible, ends, np.asarray(fans["leaving"])),
        machine=MachineArrays(*map(_float, pack_machine(machine))),
        stored=padded(np.transpose([layer.stored for layer in workload.layers]), 1),
        halo=padded(np.transpose([[a.halo for a in ahead.get(v.name, ())] or [0, 0] for v in workload.layers]), 0),
        tables=tables,
        place=cast("Array", placed),
        unplace=cast("Array", unplace),
    )
    return Problem(arrays, position, len(workload.edges))


def _tables(
    rows: tuple[Choice, ...], slots: int, layers: int, settings: DescentSettings
) -> tuple[tuple[Table, ...], Int[np.ndarray, " places"], int]:
    """Tables of choices by number of candidates, the place of each factor in them, and how many parts they have."""
    widest = max([settings.max_candidates, *(len(choice.factors) for choice in rows)])
    widths = sorted({*(width for width in WIDTHS if width < widest), widest})
    parts = max((len(choice.slots) for choice in rows), default=1)
    flat, tables, start = np.full((slots, 8, layers), -1), list[Table](), 0
    for lower, width in zip([0, *widths[:-1]], widths, strict=True):
        mine = [choice for choice in rows if lower < len(choice.factors) <= width]
        count = _power_of_two(max(len(mine), MIN_ROWS))
        logs, bar = np.zeros((count, width, parts)), np.full((count, width, 1), BARRED)
        bar[:, 0] = 0
        for row, choice in enumerate(mine):
            logs[row, : len(choice.factors), : len(choice.slots)] = np.log(choice.factors)
            bar[row, : len(choice.factors)] = 0
            for part, slot in enumerate(choice.slots):
                flat[slot, choice.dim, choice.layer] = start + row * parts + part
        tables.append(Table(_float(logs), _float(bar)))
        start += count * parts
    return tuple(tables), np.where(flat < 0, start, flat).reshape(-1), start


def _ends(workload: Workload, fusible: list[Edge], ends: Int[np.ndarray, "2 edges+1"], leaving: np.ndarray) -> Ends:
    turn, edges = np.arange(len(leaving.T)), ends.shape[1] - 1
    whole, stride = np.zeros((4, 1, edges)), np.ones((4, 1, edges))
    for i, edge in enumerate(workload.edges):
        whole[:, 0, i] = _must_be_whole(workload, edge)
        stride[2:, 0, i] = workload[edge.target].stride if edge.port == "input" else 1
    may_fuse = np.pad([edge in fusible for edge in workload.edges], (0, edges - len(workload.edges)))
    until = (turn[:, None] <= turn) & (turn <= ends[1, leaving][:, :, None])
    return Ends(*map(_float, (*(ends[:, None, :-1] == turn[:, None]), may_fuse, whole, stride, until)))


def _must_be_whole(workload: Workload, edge: Edge) -> list[bool]:
    """Whether G, N, P, Q must not be shared across a fused edge, by the rules *whole* and *aligned*."""
    barred = {loop for bar in barriers(workload, (), (edge,), online_softmax=False) for loop in bar.loops}
    pair = (edge.source, edge.target)
    twice = np.ones((5, 2), dtype=np.int64) + np.eye(5, 2, dtype=np.int64)  # G, or N
    aligned = group_tiling(workload, pair, inner_edges(workload, pair), twice).aligned
    return [not aligned[0], not aligned[1] or "N" in barred, "P" in barred, "Q" in barred]


def _power_of_two(number: int) -> int:
    """The next power of two, so that few sizes occur."""
    return 1 << (number - 1).bit_length()


def _float(values: object) -> Array:
    return cast("Array", np.asarray(values, dtype=np.float32))
