"""The loop nest of a group as lines that an architect can read, with the exact words beside what moves them.

Shared loops stand outside; inside them the layers of the group follow one another, each with the loops of the machine's
memories and the lanes of its axes (``parallel_for``), outermost first. Loops of one trip are left out. An index bears
the number of its node: ``k2`` runs over K at the third node of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fadiff.analysis.breakdown import shared_trips
from fadiff.analysis.loop_lines import Kind, LayerLines, Line, Printer
from fadiff.analysis.units import size_text

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.hardware import Machine
    from fadiff.schedule import Group
    from fadiff.workload import Layer

__all__ = ["Kind", "Line", "LoopNest", "as_text", "loop_nests"]

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
    printer, machine = Printer(evaluation), evaluation.schedule.machine
    nests: list[LoopNest] = []
    for number, group in enumerate(evaluation.schedule.groups):
        parts = [printer.lines(name) for name in group.layers]
        nests.append(LoopNest(number, group.layers, tuple(_nest(machine, group, number, parts))))
    return tuple(nests)


def as_text(evaluation: Evaluation, nest: LoopNest) -> str:
    """The nest as plain text: code, then tiles and how often they move, then words of one execution by memory."""
    rows = [("  " * line.indent + line.text, _beside(line), _words(evaluation, line)) for line in nest.lines]
    # The head of a group names all its layers and may be long: it does not widen the columns.
    wide, middle = (
        max(len(row[i]) for row, line in zip(rows, nest.lines, strict=True) if line.kind != "group") for i in (0, 1)
    )
    return "".join(f"{code:<{wide}}  {beside:<{middle}}  {words}".rstrip() + "\n" for code, beside, words in rows)


def _words(evaluation: Evaluation, line: Line) -> str:
    """What a line moves in all, by memory."""
    machine, flows = evaluation.schedule.machine, evaluation.flows
    sums = {memory.name: 0.0 for memory in machine.memories}
    for number, words in line.words:
        sums[machine.nodes[flows[number].memory].name] += words
    return "  ".join(f"{memory} {words:,.10g}" for memory, words in sums.items() if words)


def _beside(line: Line) -> str:
    if line.tile_bytes is None or line.times is None:
        return line.note
    turns = size_text(line.tile_bytes) + (f" in each of {line.instances:,}" if (line.instances or 1) > 1 else "")
    turns += f", {line.times:,} times" if line.times > 1 else ""
    return f"{turns}; {line.note}" if line.note else turns


def _nest(machine: Machine, group: Group, number: int, parts: Sequence[LayerLines]) -> Iterator[Line]:
    """Shared loops with what stands between them, and the layers inside."""
    shared = shared_trips(group)
    several, memory = len(parts) > 1, machine.fused_in()
    if several:
        whole = f"one after the other, whole tensors in {memory.name}" if memory else ""
        what = f"{group.iterations} shared iterations" if shared else whole
        yield Line(0, "group", f"group {number + 1}: {' + '.join(group.layers)}", what)
    for depth, (letter, trips) in enumerate(shared.items()):
        for part in parts:
            yield from _placed(part, part.before.get(depth, []), depth, named=several)
        text, note = f"for {letter.lower()} in range({trips}):", f"shared, {DIM_NAMES[letter]}"
        yield Line(depth, "loop", text, note, dim=letter, trips=trips)
    inside = len(shared)
    for part in parts:
        yield Line(inside, "layer", f"{part.layer.name}:", "; ".join(_about(part)), part.layer.name)
        yield from _own_loops(machine, part, inside)
    for depth in reversed(range(inside)):
        for part in parts:
            yield from _placed(part, part.after.get(depth, []), depth, named=several)


def _own_loops(machine: Machine, part: LayerLines, shared: int) -> Iterator[Line]:
    """A layer's own loops, one indent deeper than its name."""
    for depth in range(shared, len(part.loops)):
        yield from _placed(part, part.before.get(depth, []), depth + 1)
        loop = part.loops[depth]
        node, lanes = machine.nodes[loop.node].name, loop.node in machine.structure.axes
        each = f", {loop.step:,} each" if loop.step > 1 else ""
        yield Line(
            indent=depth + 1,
            kind="parallel" if lanes else "loop",
            text=f"{'parallel_for' if lanes else 'for'} {loop.dim.lower()}{loop.node} in range({loop.trips}):",
            note=f"{node}, {DIM_NAMES[loop.dim]}{each}" + (f", last cut to {loop.last:,}" if loop.last else ""),
            layer=part.layer.name,
            node=node,
            dim=loop.dim,
            trips=loop.trips,
            step=loop.step,
            last=loop.last,
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


def _about(part: LayerLines) -> list[str]:
    """A layer's dims, its tile in one shared iteration, and how often it runs."""
    return [
        _shape(part.layer),
        *([f"tiles of {part.tile}"] if part.tile else []),
        *([f"runs {part.layer.repeat} times"] if part.layer.repeat > 1 else []),
    ]


def _shape(layer: Layer) -> str:
    dims = " ".join(f"{dim}{size}" for dim, size in layer.dims._asdict().items() if size > 1)
    stride = f" stride {layer.stride[0]}x{layer.stride[1]}" if layer.stride != (1, 1) else ""
    dilation = f" dilation {layer.dilation[0]}x{layer.dilation[1]}" if layer.dilation != (1, 1) else ""
    return dims + stride + dilation
