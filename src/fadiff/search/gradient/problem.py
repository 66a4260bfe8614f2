"""A workload and an accelerator packed for the descent: padded arrays, layers in topological order.

Axes are padded to a few sizes, so that another network of similar size runs in the program compiled before. Padding
layers have no words and repeat 0 times, padding edges are never fused, padding rows have one candidate of ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fadiff.cost.arrays import EdgeArrays, HardwareArrays, LayerArrays, pack_edges, pack_hardware, pack_layers
from fadiff.schedule import halos
from fadiff.search.gradient.candidates import SHARED_DIMS, SLOTS, Choice, divisor_choices, factorization_choices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax import Array
    from numpy.typing import NDArray

    from fadiff.hardware import Hardware
    from fadiff.search.gradient.options import DescentOptions
    from fadiff.workload import Edge, Workload

    FloatArray = NDArray[np.float32]
    IntArray = NDArray[np.int64]

WIDTHS = (4, 16, 32, 64, 128)
"""Candidates per row of a table; rows with more go to a table of `max_candidates`."""
MIN_ROWS = 8
"""Rows of a table, also of an empty one: what is there must not depend on a network's details."""
LAYER_STEP = 16
BARRED = -1e9
"""Logit of a candidate that is only padding."""


class Table(NamedTuple):
    """Choices with about equally many candidates, one per row."""

    factors: Array
    """``[rows, width, parts]`` integers, as numbers; part i of a row stands for the i-th slot of its choice."""
    bar: Array
    """``[rows, width, 1]`` 0 for candidates, :data:`BARRED` for padding."""


class EdgeEnds(NamedTuple):
    """What the penalties ask about edges. Shapes ``[edges]`` unless said."""

    source: Array
    """Number of the producer."""
    target: Array
    """Number of the consumer."""
    fusible: Array
    """1 where the edge may be fused."""
    whole: Array
    """``[4, 1, edges]`` 1 where G, N, P, Q must not be shared if the edge is fused."""
    later: Array
    """``[fan_out, layers]`` numbers of the edges that leave a layer, the first to be read first."""
    drop: Array
    """``[fan_in, layers]`` where a layer's arriving edges stand in `later`, laid end to end; the end if none."""


class ProblemArrays(NamedTuple):
    """All that the compiled program reads."""

    layers: LayerArrays
    edges: EdgeArrays
    ends: EdgeEnds
    hardware: HardwareArrays
    halo: Array
    """``[2, layers]`` halo of a layer's buffer with all its edges fused."""
    tables: tuple[Table, ...]
    place: Array
    """``[6 * 8 * layers]`` where each factor stands among the parts of all rows of all tables, laid end to end."""
    unplace: Array
    """``[parts]`` the inverse: where the factors take each part from, or one past the last."""


class Problem(NamedTuple):
    """Arrays, and what is needed to read results back in the workload's own order."""

    arrays: ProblemArrays
    position: IntArray
    """``[layers]`` topological place of each layer of the workload."""
    edges: int
    """Edges of the workload."""
    choices: tuple[Choice, ...]
    """The whole factorizations to choose among."""


def pack_problem(workload: Workload, hardware: Hardware, options: DescentOptions) -> Problem:
    """Pack what a descent with these options needs."""
    place = {name: i for i, name in enumerate(workload.topological)}
    position = np.array([place[layer.name] for layer in workload.layers])
    order = np.argsort(position)
    layers = _round_up(len(workload.layers), LAYER_STEP)
    edges = _round_up(max(1, len(workload.edges)), LAYER_STEP)
    whole = tuple(factorization_choices(workload, hardware, options))
    choices = whole if options.choice == "factorizations" else tuple(divisor_choices(workload, hardware, options))
    tables, placed, parts = _tables(choices, layers, options.max_candidates)
    unplace = np.full(parts, SLOTS * 8 * layers)
    unplace[placed[placed < parts]] = np.flatnonzero(placed < parts)
    arrays = ProblemArrays(
        layers=padded_layers(pack_layers(workload), order, layers),
        edges=_padded_edges(pack_edges(workload), order, layers, edges, len(workload.edges)),
        ends=_edge_ends(workload, place, layers, edges, options),
        hardware=HardwareArrays(*(_float(value) for value in pack_hardware(hardware))),
        halo=_halo(workload, layers),
        tables=tables,
        place=_int(placed),
        unplace=_int(unplace),
    )
    return Problem(arrays, position, len(workload.edges), whole)


def is_fusible(workload: Workload, edge: Edge) -> bool:
    """Whether an edge can be fused at all: rules *fusible* and *repeat*. The rest depends on the mapping."""
    return edge.fusible and workload[edge.source].repeat == workload[edge.target].repeat


def _tables(choices: tuple[Choice, ...], layers: int, widest: int) -> tuple[tuple[Table, ...], IntArray, int]:
    """Tables of choices by number of candidates, the place of each factor in them, and how many parts they have."""
    widths = sorted({*(width for width in WIDTHS if width < widest), widest})
    parts = max((len(choice.slots) for choice in choices), default=1)
    flat, tables = np.full((SLOTS, 8, layers), -1), list[Table]()
    start = 0
    for lower, width in zip([0, *widths[:-1]], widths, strict=True):
        rows = [choice for choice in choices if lower < len(choice.factors) <= width]
        count = _power_of_two(max(len(rows), MIN_ROWS))
        factors = np.ones((count, width, parts))
        bar = np.full((count, width, 1), BARRED)
        bar[:, 0] = 0
        for row, choice in enumerate(rows):
            factors[row, : len(choice.factors), : len(choice.slots)] = choice.factors
            bar[row, : len(choice.factors)] = 0
            for part, slot in enumerate(choice.slots):
                flat[slot, choice.dim, choice.layer] = start + row * parts + part
        tables.append(Table(_float(factors), _float(bar)))
        start += count * parts
    return tuple(tables), np.where(flat < 0, start, flat).reshape(-1), start


def padded_layers(packed: LayerArrays, order: IntArray, layers: int) -> LayerArrays:
    """The layers in another order, and padding layers up to a number of them."""

    def pad(values: Array, fill: float) -> Array:
        array = cast("FloatArray", values)[..., order]
        return _float(np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, layers - len(order))], constant_values=fill))

    ones = {"size", "stride", "dilation", "stored", "input_channels"}
    padded = {name: pad(values, 1 if name in ones else 0) for name, values in packed._asdict().items()}
    return LayerArrays(**{**padded, "is_mac": cast("Array", cast("FloatArray", padded["is_mac"]) > 0)})


def _padded_edges(packed: EdgeArrays, order: IntArray, layers: int, edges: int, count: int) -> EdgeArrays:
    def lists(values: Array, fill: int) -> NDArray[np.float64]:
        array = cast("NDArray[np.float64]", values)[:, order]
        fan = _power_of_two(len(array))
        return np.pad(array, [(0, fan - len(array)), (0, layers - len(order))], constant_values=fill)

    def numbers(values: Array) -> Array:
        return _int(np.where((array := lists(values, count)) == count, edges, array))

    output = cast("FloatArray", packed.is_output)[order]
    return EdgeArrays(
        arriving=numbers(packed.arriving),
        input_channels=_float(lists(packed.input_channels, 0)),
        is_weight=_float(lists(packed.is_weight, 0)),
        is_addend=_float(lists(packed.is_addend, 0)),
        leaving=numbers(packed.leaving),
        is_output=_float(np.pad(output, (0, layers - len(order)))),
    )


def _edge_ends(workload: Workload, place: dict[str, int], layers: int, edges: int, options: DescentOptions) -> EdgeEnds:
    source, target, fusible = (np.zeros(edges) for _ in range(3))
    whole = np.zeros((len(SHARED_DIMS), 1, edges))
    leaving: list[list[int]] = [[] for _ in range(layers)]
    for i, edge in enumerate(workload.edges):
        source[i], target[i] = place[edge.source], place[edge.target]
        fusible[i] = options.fuse and is_fusible(workload, edge)
        whole[:, 0, i] = _must_be_whole(workload, edge)
        leaving[place[edge.source]].append(i)
    fan = _power_of_two(max(1, *map(len, leaving)))
    later = np.full((fan, layers), edges)
    for layer, numbers in enumerate(leaving):
        later[: len(numbers), layer] = sorted(numbers, key=lambda number: target[number])
    stands = {int(number): i for i, number in enumerate(later.reshape(-1)) if number < edges}
    arriving: list[list[int]] = [[] for _ in range(layers)]
    for i, edge in enumerate(workload.edges):
        arriving[place[edge.target]].append(stands[i])
    drop = np.full((_power_of_two(max(1, *map(len, arriving))), layers), later.size)
    for layer, numbers in enumerate(arriving):
        drop[: len(numbers), layer] = numbers
    return EdgeEnds(_int(source), _int(target), _float(fusible), _float(whole), _int(later), _int(drop))


def _must_be_whole(workload: Workload, edge: Edge) -> tuple[bool, bool, bool, bool]:
    """Whether G, N, P, Q must not be shared across a fused edge, by the rules *whole* and *aligned*."""
    producer, consumer = workload[edge.source], workload[edge.target]
    transposed = edge.port == "input" and "transpose" in producer.epilogue
    cut = edge.port == "weight" or transposed
    return (producer.dims.G != consumer.dims.G, cut or producer.dims.N != consumer.dims.N, cut, cut)


def _halo(workload: Workload, layers: int) -> Array:
    """Halos do not depend on how far a group reaches beyond a layer's consumers, where rows are stored as computed;
    so those of the whole network, fused wherever it may be, stand for those of any group."""
    found = halos(workload, [edge for edge in workload.edges if is_fusible(workload, edge)])
    halo = np.zeros((2, layers))
    for i, name in enumerate(workload.topological):
        halo[:, i] = found.get(name, (0, 0))
    return _float(halo)


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def _power_of_two(number: int) -> int:
    """The next power of two, so that few sizes occur."""
    return 1 << (number - 1).bit_length()


def _float(values: object) -> Array:
    return cast("Array", np.asarray(values, dtype=np.float32))


def _int(values: Sequence[int] | NDArray[np.generic]) -> Array:
    return cast("Array", np.asarray(values, dtype=np.int32))
