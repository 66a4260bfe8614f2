"""The loop nest of a group as lines that an architect can read, with the exact words beside what moves them.

Shared loops stand outside; inside them the layers of the group follow one another, each with its private L3 loops, then
L2, L1, the array (``parallel_for``) and L0. Loops of one trip are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from fadiff.report.loop_lines import Kind, LayerLines, Level, Line, layer_lines

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Group
    from fadiff.workload import Layer

__all__ = ["Kind", "Level", "Line", "LoopNest", "as_text", "loop_nest", "loop_nests"]

DIM_NAMES = {
    "G": "groups",
    "N": "rows of the batch",
    "K": "output channels",
    "C": "input channels",
    "P": "output rows",
    "Q": "output columns",
    "R": "kernel rows",
    "S": "kernel columns",
    "X": "channels between the two layers",
}
SHOWN_LEVELS = {"macs": "MACs", "l3": "L3", "l2": "L2", "l1": "L1", "l0": "L0"}


@dataclass(frozen=True)
class LoopNest:
    """A group as one loop nest: shared loops outside, its layers one after the other inside."""

    group: int
    """Place of the group in execution order, from 0."""
    layers: tuple[str, ...]
    lines: tuple[Line, ...]

    def of_layer(self, name: str) -> LoopNest:
        """Only what one layer sees: the shared loops and its own lines."""
        return LoopNest(self.group, (name,), tuple(line for line in self.lines if line.layer in (None, name)))


def loop_nests(evaluation: Evaluation) -> tuple[LoopNest, ...]:
    """The nests of all groups, in execution order."""
    return tuple(loop_nest(evaluation, group) for group in range(len(evaluation.schedule.groups)))


def loop_nest(evaluation: Evaluation, group: int) -> LoopNest:
    """The nest of the group at a place in execution order."""
    members = evaluation.schedule.groups[group]
    parts = [layer_lines(evaluation, name) for name in members.layers]
    return LoopNest(group, members.layers, tuple(_nest(members, group, parts)))


def as_text(nest: LoopNest) -> str:
    """The nest as plain text: code, then what one turn moves and how often, then words of one execution by level."""
    rows = [("  " * line.indent + line.text, _beside(line), words_by_level(line)) for line in nest.lines]
    # The head of a group names all its layers and may be long: it does not widen the columns.
    wide, middle = (
        max(len(row[i]) for row, line in zip(rows, nest.lines, strict=True) if line.kind != "group") for i in (0, 1)
    )
    return "".join(f"{code:<{wide}}  {beside:<{middle}}  {words}".rstrip() + "\n" for code, beside, words in rows)


def words_by_level(line: Line) -> str:
    """What a line moves in all, by level.

    >>> words_by_level(Line(0, "load", "load W L3 -> L2", words={"l3_weight": 4096, "l2_weight_fill": 4096}))
    'L3 4,096  L2 4,096'
    """
    sums = {
        shown: sum(count for name, count in line.words.items() if name.startswith(level))
        for level, shown in SHOWN_LEVELS.items()
    }
    return "  ".join(f"{shown} {count:,}" for shown, count in sums.items() if count)


def _beside(line: Line) -> str:
    if line.tile_words is None or line.times is None:
        return line.note
    turns = f"{line.tile_words:,} words" + (f" x {line.times:,}" if line.times > 1 else "")
    return f"{turns}; {line.note}" if line.note else turns


def _nest(group: Group, number: int, parts: Sequence[LayerLines]) -> Iterator[Line]:
    """Shared loops with what stands between them, and the layers inside."""
    trips = group.trips._asdict()
    shared = [letter for letter in group.nesting if trips[letter] > 1]
    several = len(parts) > 1
    if several:
        what = f"{group.iterations} shared iterations" if shared else "one after the other, whole tensors in L2"
        yield Line(0, "group", f"group {number + 1}: {' + '.join(group.layers)}", what)
    for depth, letter in enumerate(shared):
        for part in parts:
            yield from _placed(part, part.before.get(depth, []), depth, named=several)
        text, note = f"for {letter.lower()} in range({trips[letter]}):", f"shared, {DIM_NAMES[letter]}"
        yield Line(depth, "loop", text, note, level="shared", dim=letter, trips=trips[letter])
    inside = len(shared)
    for part in parts:
        times = f"; runs {part.layer.repeat} times" if part.layer.repeat > 1 else ""
        yield Line(inside, "layer", f"{part.layer.name}:", _shape(part.layer) + times, part.layer.name)
        yield from _own_loops(part, inside)
    for depth in reversed(range(inside)):
        for part in parts:
            yield from _placed(part, part.after.get(depth, []), depth, named=several)


def _own_loops(part: LayerLines, shared: int) -> Iterator[Line]:
    """A layer's own loops, one indent deeper than its name."""
    for depth in range(shared, len(part.loops)):
        yield from _placed(part, part.before.get(depth, []), depth + 1)
        loop = part.loops[depth]
        step = prod(inner.trips for inner in part.loops[depth + 1 :] if inner.dim == loop.dim)
        parallel = loop.level == "spatial"
        index = loop.dim.lower() + ("s" if parallel else loop.level[1])
        yield Line(
            indent=depth + 1,
            kind="parallel" if parallel else "loop",
            text=f"{'parallel_for' if parallel else 'for'} {index} in range({loop.trips}):",
            note=f"{loop.level}, {DIM_NAMES[loop.dim]}" + (f", {step:,} each" if step > 1 else ""),
            layer=part.layer.name,
            level=loop.level,
            dim=loop.dim,
            trips=loop.trips,
            step=step,
        )
    inside = len(part.loops)
    yield from _placed(part, part.before.get(inside, []), inside + 1)
    for depth in reversed(range(shared, inside + 1)):
        yield from _placed(part, part.after.get(depth, []), depth + 1)


def _placed(part: LayerLines, lines: Sequence[Line], indent: int, *, named: bool = False) -> Iterator[Line]:
    """Lines at their place; among the shared loops of a group they say whose they are."""
    for line in lines:
        text = f"{part.layer.name}: {line.text}" if named else line.text
        yield replace(line, indent=indent, text=text, layer=part.layer.name)


def _shape(layer: Layer) -> str:
    dims = " ".join(f"{dim}{size}" for dim, size in layer.dims._asdict().items() if size > 1)
    stride = f" stride {layer.stride[0]}x{layer.stride[1]}" if layer.stride != (1, 1) else ""
    dilation = f" dilation {layer.dilation[0]}x{layer.dilation[1]}" if layer.dilation != (1, 1) else ""
    return dims + stride + dilation
