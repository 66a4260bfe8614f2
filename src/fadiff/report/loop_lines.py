"""What one layer of a group does inside its loops: which of them run, and what is loaded, computed and stored between.

A load stands just inside the innermost loop that changes its tile, so it is reached as often as the model counts
refills; a store stands at the end of that loop's body, after the loops that only add to the same sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from fadiff.schedule.footprint import RELEVANT
from fadiff.workload import Dims

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Group, Mapping, Schedule
    from fadiff.workload import Layer

Kind = Literal["group", "layer", "loop", "parallel", "load", "fused", "store", "compute"]
Level = Literal["shared", "L3", "L2", "L1", "spatial", "L0"]


@dataclass(frozen=True)
class Line:
    """One line of a nest. Numbers that a kind of line does not have are None."""

    indent: int
    kind: Kind
    """fused: an operand that needs no load, because it is in L2 already."""
    text: str
    """What stands there, without indentation: ``for k2 in range(4):``, ``load W L3 -> L2``, ``O += W * I``."""
    note: str = ""
    """What to say beside it."""
    layer: str | None = None
    """None: the line belongs to the whole group."""
    level: Level | None = None
    """Of a loop: where it stands."""
    dim: str | None = None
    """Of a loop: G, N, K, C, P, Q, R, S, or X for the channel loop."""
    trips: int | None = None
    step: int | None = None
    """Of a loop of one layer: how much of the dim one trip covers."""
    tensor: str | None = None
    """Of a load or store: W, I, O or A (an addend)."""
    tile_words: int | None = None
    """Words that one turn of a load or store moves (the first of a sweep, where a window slides)."""
    times: int | None = None
    """How often the line moves its words in one execution of the layer."""
    words: dict[str, int] = field(default_factory=dict[str, int])
    """What the line adds to the layer's traffic, by the cost model's names (`macs`, `l3_weight`, `l2_weight_fill`,
    ...). Over all lines of a layer each name sums to exactly what the cost model counts."""


class Loop(NamedTuple):
    """A running loop of one layer."""

    level: Level
    dim: str
    trips: int


@dataclass(frozen=True)
class LayerLines:
    """One layer's running loops, outer to inner, and its lines by the number of loops around them."""

    layer: Layer
    loops: tuple[Loop, ...]
    before: dict[int, list[Line]]
    """What is done at the start of a loop's body: loads, and at the very inside the multiplication."""
    after: dict[int, list[Line]]
    """What is done at its end: stores."""


def layer_lines(evaluation: Evaluation, name: str) -> LayerLines:
    """The loops and lines of a layer, all at indent 0; the group's nest puts them in place."""
    schedule = evaluation.schedule
    layer, group = schedule.workload[name], schedule.group_of[name]
    index = next(i for i, other in enumerate(schedule.workload.layers) if other.name == name)
    traffic = {key: round(float(np.asarray(v)[index])) for key, v in evaluation.layers.traffic._asdict().items()}
    made = _mac_lines(schedule, layer, group, traffic) if layer.is_mac else _add_lines(schedule, layer, group, traffic)
    _put(made.before, len(made.loops), _compute(layer, traffic))
    return made


def _add_lines(schedule: Schedule, layer: Layer, group: Group, traffic: dict[str, int]) -> LayerLines:
    """A sum: each shared iteration brings a tile of every addend, and takes one of the result away."""
    loops = tuple(_shared_loops(group, None))
    inside, times = len(loops), group.iterations
    tile = layer.output_words // times
    loads: list[Line] = []
    fused = [edge.source for edge in schedule.workload.producers[layer.name] if schedule.is_fused(edge)]
    for operand in layer.inputs:
        source = operand.source
        if source in fused:
            words = {"l2_addend_read": layer.output_words, "l1_addend": layer.output_words}
            text = f"load A L2 -> L1 (buffer of {source})"
        else:
            words = {"l3_input": layer.output_words, "l1_addend": layer.output_words}
            text = f"load A L3 -> L1 ({source or 'network input'})"
        loads.append(Line(0, "load", text, tensor="A", tile_words=tile, times=times, words=words))
    return LayerLines(layer, loops, {inside: loads}, {inside: _results(layer, traffic, tile, times)})


def _mac_lines(schedule: Schedule, layer: Layer, group: Group, traffic: dict[str, int]) -> LayerLines:
    mapping = schedule.mappings[layer.name]
    pair = schedule.channel_loop(group)
    x_dim = None if pair is None else ("K" if layer.name == pair[0] else "C")
    shared = _shared_loops(group, x_dim)
    l3 = shared + _private_loops(mapping, group, x_dim)
    l2, l1 = _loops_of("L2", mapping.order2, mapping.l2), _loops_of("L1", mapping.order1, mapping.l1)
    array, registers = _loops_of("spatial", "GKCRS", mapping.spatial), _loops_of("L0", "NPQ", mapping.l0)
    before: dict[int, list[Line]] = {}
    after: dict[int, list[Line]] = {}

    x2, iterations = mapping.extent(2), group.iterations
    fused = [edge for edge in schedule.workload.producers[layer.name] if schedule.is_fused(edge)]
    for edge in fused:
        tensor = "W" if edge.port == "weight" else "I"
        waits = Line(0, "fused", f"{tensor} is in L2 (buffer of {edge.source})", tensor=tensor)
        _put(before, len(shared), waits)
    if not any(edge.port == "weight" for edge in fused):
        depth = _inside(l3, "W")
        _put(before, depth, _weight_load(layer, x2, _times(l3[:depth]), iterations, traffic))
    from_l3 = layer.dims.G * layer.dims.C - sum(edge.channels for edge in fused)
    if from_l3:
        _put(before, _inside(l3, "I"), _input_load(layer, x2, l3, from_l3, iterations, traffic))

    # In a group of several layers the registers are loaded anew in every shared iteration.
    depth = max(_inside(l3 + l2 + l1, "W"), len(shared) if len(group.layers) > 1 else 0)
    s = mapping.spatial
    around = (l3 + l2 + l1)[:depth]
    text = f"load W L2 -> L0 {_dims_text(s, 'GKCRS')}"
    words = {"l2_weight_read": traffic["l2_weight_read"], "l0_weight_fill": traffic["l0_weight_fill"]}
    _put(before, depth, Line(0, "load", text, tensor="W", tile_words=prod(s), times=_times(around), words=words))

    depth = _inside(l3 + l2, "O")
    x1 = mapping.extent(1)
    tile = x1.G * x1.N * x1.K * x1.P * x1.Q
    turns = _times((l3 + l2)[:depth])
    spills = traffic["l1_reload"]
    shape = _dims_text(x1, "GNKPQ")
    if spills:
        half = {"l3_spill": traffic["l3_spill"] // 2}
        again = turns - layer.output_words // tile
        note = "unfinished sums come back, except to a tile's first turn"
        _put(before, depth, Line(0, "load", f"load O L3 -> L1 {shape}", note, tensor="O", tile_words=tile, times=again,
                                 words={"l1_reload": spills, **half}))  # fmt: skip
        note = "unfinished sums leave, except in a tile's last turn"
        _put(after, depth, Line(0, "store", f"store O L1 -> L3 {shape}", note, tensor="O", tile_words=tile, times=again,
                                words={"l1_drain": spills, **half}))  # fmt: skip
    _put(after, depth, *_results(layer, traffic, tile, layer.output_words // tile))
    return LayerLines(layer, tuple(l3 + l2 + l1 + array + registers), before, after)


def _shared_loops(group: Group, x_dim: str | None) -> list[Loop]:
    trips = group.trips._asdict()
    running = [letter for letter in group.nesting if trips[letter] > 1]
    return [Loop("shared", (x_dim or "X") if letter == "X" else letter, trips[letter]) for letter in running]


def _private_loops(mapping: Mapping, group: Group, x_dim: str | None) -> list[Loop]:
    """What the shared loops leave of a layer's L3 factors."""
    taken = {loop.dim: loop.trips for loop in _shared_loops(group, x_dim)}
    rests = {dim: factor // taken.get(dim, 1) for dim, factor in mapping.l3._asdict().items()}
    return _loops_of("L3", mapping.order3, Dims(**rests))


def _loops_of(level: Level, order: str, factors: Dims) -> list[Loop]:
    trips = factors._asdict()
    return [Loop(level, dim, trips[dim]) for dim in order if trips[dim] > 1]


def _inside(loops: Sequence[Loop], tensor: str) -> int:
    """How many loops stand around a tensor's load: up to the innermost one that changes its tile."""
    return max((i + 1 for i, loop in enumerate(loops) if loop.dim in RELEVANT[tensor]), default=0)


def _times(loops: Sequence[Loop]) -> int:
    return prod(loop.trips for loop in loops)


def _put(where: dict[int, list[Line]], depth: int, *lines: Line) -> None:
    where.setdefault(depth, []).extend(lines)


def _weight_load(layer: Layer, x2: Dims, times: int, iterations: int, traffic: dict[str, int]) -> Line:
    source = next((operand.source for operand in layer.inputs if operand.port == "weight"), None)
    notes = [f"from {source}"] if source else []
    if times < iterations:
        notes.append(_stays(times))
    words = {"l3_weight": traffic["l3_weight"], "l2_weight_fill": traffic["l2_weight_fill"]}
    text = f"load W L3 -> L2 {_dims_text(x2, 'GKCRS')}"
    tile = x2.G * x2.K * x2.C * x2.R * x2.S
    return Line(0, "load", text, "; ".join(notes), tensor="W", tile_words=tile, times=times, words=words)


def _input_load(
    layer: Layer, x2: Dims, l3: Sequence[Loop], from_l3: int, iterations: int, traffic: dict[str, int]
) -> Line:
    """The input window, or that part of its channels which no fused edge brings."""
    channels = layer.dims.G * layer.dims.C
    height = (x2.P - 1) * layer.stride[0] + (x2.R - 1) * layer.dilation[0] + 1
    width = (x2.Q - 1) * layer.stride[1] + (x2.S - 1) * layer.dilation[1] + 1
    area = x2.G * x2.N * x2.C
    tile = -(-area * height * width * from_l3 // channels)
    times = _times(l3[: _inside(l3, "I")])
    notes = [f"{from_l3} of {channels} channels"] if from_l3 < channels else []
    steps = {
        "P": (x2.P * layer.stride[0], height, width, "rows"),
        "R": (x2.R * layer.dilation[0], height, width, "rows"),
        "Q": (x2.Q * layer.stride[1], width, height, "columns"),
        "S": (x2.S * layer.dilation[1], width, height, "columns"),
    }
    slides = False
    if l3 and l3[-1].dim in steps:
        step, along, across, what = steps[l3[-1].dim]
        slides = step < along
        if slides:
            fresh = -(-area * step * across * from_l3 // channels)
            notes.append(f"slides: {fresh:,} fresh words for {step} more {what} after the first turn of a sweep")
    if times < iterations or (slides and l3[-1].level == "shared"):
        notes.append(_stays(times))
    words = {"l3_input": traffic["l3_input"], "l2_input_fill": traffic["l2_input_fill"]}
    text = f"load I L3 -> L2 {_window_text(x2, height, width)}"
    return Line(0, "load", text, "; ".join(notes), tensor="I", tile_words=tile, times=times, words=words)


def _stays(times: int) -> str:
    """What is said of a tile that outlives a shared iteration."""
    return "pinned for the whole group" if times == 1 else "stays for a next iteration"


def _window_text(x2: Dims, height: int, width: int) -> str:
    sizes = {"G": x2.G, "N": x2.N, "C": x2.C, "H": height, "V": width}
    return _sizes_text(sizes)


def _dims_text(sizes: Dims, dims: str) -> str:
    return _sizes_text({dim: size for dim, size in sizes._asdict().items() if dim in dims})


def _sizes_text(sizes: dict[str, int]) -> str:
    return "[" + (" ".join(f"{dim}{size}" for dim, size in sizes.items() if size > 1) or "1") + "]"


def _results(layer: Layer, traffic: dict[str, int], tile: int, times: int) -> list[Line]:
    """Finished sums leave L1: for DRAM, for the buffer that fused readers use, or for both."""
    after = f"after {', '.join(layer.epilogue)}" if layer.epilogue else ""
    lines: list[Line] = []
    for field_name, kind_text in (
        ("l3_output", "store O L1 -> L3"),
        ("l2_output_copy", "store O L1 -> L2 (its buffer)"),
    ):
        if traffic[field_name]:
            words = {"l1_drain": layer.output_words, field_name: traffic[field_name]}
            lines.append(Line(0, "store", kind_text, after, tensor="O", tile_words=tile, times=times, words=words))
    return lines


def _compute(layer: Layer, traffic: dict[str, int]) -> Line:
    if not layer.is_mac:
        return Line(0, "compute", f"O = {' + '.join('A' for _ in layer.inputs)}")
    words = {name: traffic[name] for name in ("macs", "l2_input_read", "l1_update")}
    return Line(0, "compute", "O += W * I", "I from L2, O in L1", words=words)
