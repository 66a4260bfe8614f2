"""Draws what a schedule decides: who is fused with whom, what that keeps on chip, and what it costs.

    python -m benchmarks.figures
    python -m benchmarks.figures SCHEDULE.json --name mine --out .

Writes NAME-light.svg and NAME-dark.svg, plain text without any drawing library.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fadiff import Schedule, evaluate, greedy, load_schedule
from fadiff.analysis.breakdown import Breakdown, LayerCost, breakdown
from fadiff.analysis.units import size_text
from fadiff.cli.tables import short
from fadiff.files import write_text
from fadiff.hardware import pack_machine
from fadiff.schedule.capacity import needs
from fadiff.schedule.rules import Examined

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "img"
SCHEDULE = IMAGES / "resnet18.gemmini-large.json"
"""Made by `fadiff optimize resnet18 -o docs/img/resnet18.gemmini-large.json`."""

WIDTH, HEIGHT = 1200, 664
LEFT, RIGHT = 72, 16
DRAM_TOP, DRAM_HEIGHT = 74, 24
BOX_TOP, BOX_HEIGHT, ADD_RADIUS = 176, 92, 11
BOX_MIDDLE = BOX_TOP + BOX_HEIGHT / 2
GROUP_TOP, GROUP_BOTTOM = 112, 300
L2_TOP, L2_BOTTOM = 360, 456
ENERGY_TOP, ENERGY_BOTTOM = 526, 626
BAND_BOTTOM = 634
APART = 5
"""Tensors arrive left of a layer's middle and leave right of it."""


@dataclass(frozen=True)
class Palette:
    """The colours of one picture."""

    paper: str
    border: str
    ink: str
    faint: str
    dram: str
    dram_fill: str
    groups: tuple[str, ...]
    alone: str
    tint: float
    """How strongly the ground of a group takes its colour."""
    parts: tuple[str, str, str]
    """Stacked bars, bottom to top; the third one is DRAM's or the fused tensors'."""


LIGHT = Palette(
    paper="#ffffff", border="#d0d7de", ink="#1f2328", faint="#656d76", dram="#bc4c00", dram_fill="#fff1e5",
    groups=("#0969da", "#1a7f37", "#8250df", "#9a6700", "#bf3989"), alone="#8c959f", tint=0.07,
    parts=("#57606a", "#afb8c1", "#bc4c00"),
)  # fmt: skip
DARK = Palette(
    paper="#0d1117", border="#30363d", ink="#e6edf3", faint="#8d96a0", dram="#f0883e", dram_fill="#3d2300",
    groups=("#4493f8", "#3fb950", "#ab7df8", "#d29922", "#f778ba"), alone="#6e7681", tint=0.11,
    parts=("#8d96a0", "#484f58", "#f0883e"),
)  # fmt: skip


@dataclass
class Canvas:
    """SVG elements, drawn in the order they come."""

    palette: Palette
    elements: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, w: float, h: float, **style: object) -> None:
        """A rectangle."""
        self._add("rect", {"x": x, "y": y, "width": max(w, 0.0), "height": max(h, 0.0)}, style)

    def circle(self, x: float, y: float, r: float, **style: object) -> None:
        """A circle around a point."""
        self._add("circle", {"cx": x, "cy": y, "r": r}, style)

    def path(self, path: str, **style: object) -> None:
        """An open path."""
        self._add("path", {"d": path}, {"fill": "none", **style})

    def text(self, x: float, y: float, words: str, *, turn: bool = False, **style: object) -> None:
        """Words that start at a point; turned ones read upwards."""
        place: dict[str, object] = {"x": x, "y": y}
        if turn:
            place["transform"] = f"rotate(-90 {_number(x)} {_number(y)})"
        self._add("text", place, {"fill": self.palette.ink, **style}, escape(words))

    def arrow(self, x: float, y: float, to_y: float, colour: str) -> None:
        """A vertical arrow."""
        head = 5 if to_y > y else -5
        self.path(f"M{_number(x)} {_number(y)}V{_number(to_y - head)}", stroke=colour, stroke_width=2)
        tip, base = _number(to_y), _number(to_y - 1.6 * head)
        self.path(f"M{_number(x - 4)} {base}H{_number(x + 4)}L{_number(x)} {tip}Z", fill=colour)

    def _add(
        self, name: str, place: Mapping[str, object], style: Mapping[str, object], inside: str | None = None
    ) -> None:
        values = {**place, **{key.replace("_", "-"): value for key, value in style.items()}}
        written = " ".join(f'{key}="{_number(v) if isinstance(v, float) else v}"' for key, v in values.items())
        self.elements.append(f"<{name} {written}/>" if inside is None else f"<{name} {written}>{inside}</{name}>")

    def svg(self, about: str) -> str:
        """The whole picture; `about` is for those who cannot see it."""
        font = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" font-family="{font}" font-size="13.5" role="img">'
        )
        return "\n".join([head, f"<title>{escape(about)}</title>", *self.elements, "</svg>"]) + "\n"


def _number(value: float) -> str:
    """A coordinate to a tenth of a pixel, so that the same schedule always gives the same file."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True)
class Columns:
    """Where layers stand: one column each, in execution order."""

    names: tuple[str, ...]

    @property
    def step(self) -> float:
        """Width of a column."""
        return (WIDTH - LEFT - RIGHT) / len(self.names)

    def middle(self, name: str) -> float:
        """The x of a layer."""
        return LEFT + (self.names.index(name) + 0.5) * self.step


def draw(schedule: Schedule, palette: Palette) -> str:
    """The picture of a schedule."""
    canvas = Canvas(palette)
    columns = Columns(tuple(name for group in schedule.groups for name in group.layers))
    colours = _group_colours(schedule, palette)
    unfused = breakdown(evaluate(greedy(schedule.workload, schedule.machine)))
    costs = breakdown(evaluate(schedule))
    groups = f"{costs.fused_groups} group{'s' if costs.fused_groups != 1 else ''}"
    fused = f"{costs.fused_layers} of {len(costs.layers)} layers fused, in {groups}"
    title = f"{costs.workload} on {costs.machine}"
    canvas.rect(0.5, 0.5, WIDTH - 1, HEIGHT - 1, rx=8, fill=palette.paper, stroke=palette.border)
    canvas.text(LEFT, 32, title, font_size=20, font_weight=600)
    canvas.text(
        LEFT, 55,
        f"{fused} · {costs.memories[0]} {size_text(costs.totals.first_memory_bytes)}, "
        f"{size_text(unfused.totals.first_memory_bytes)} layer by layer · "
        f"EDP {costs.totals.edp_uj_cycles:.3g} µJ·cycles, {unfused.totals.edp_uj_cycles:.3g} layer by layer",
        fill=palette.faint,
    )  # fmt: skip
    _groups(canvas, schedule, columns, colours)
    _edges(canvas, schedule, columns, colours)
    _layers(canvas, schedule, columns, colours)
    _occupancy(canvas, schedule, columns, colours)
    _energy(canvas, costs, unfused.layers, columns)
    return canvas.svg(f"{title}: {fused}; edges on chip and through DRAM, L2 in use and energy of every layer")


def _group_colours(schedule: Schedule, palette: Palette) -> dict[str, str]:
    """The colour of each layer: that of its group, or grey for a layer on its own."""
    colours: dict[str, str] = {}
    number = 0
    for group in schedule.groups:
        alone = len(group.layers) == 1
        colour = palette.alone if alone else palette.groups[number % len(palette.groups)]
        number += not alone
        colours |= dict.fromkeys(group.layers, colour)
    return colours


def _groups(canvas: Canvas, schedule: Schedule, columns: Columns, colours: Mapping[str, str]) -> None:
    """The grounds of fused groups, with their shared loops."""
    number = 0
    for group in schedule.groups:
        if len(group.layers) == 1:
            continue
        number += 1
        colour = colours[group.layers[0]]
        x = columns.middle(group.layers[0]) - columns.step / 2
        width = len(group.layers) * columns.step
        canvas.rect(
            x + 2, GROUP_TOP, width - 4, BAND_BOTTOM - GROUP_TOP, rx=8, fill=colour, fill_opacity=canvas.palette.tint
        )
        trips = group.trips._asdict()
        loops = " ".join(f"{loop}×{trips[loop]}" for loop in group.nesting if trips[loop] > 1)
        inside = f"shared loops {loops}" if loops else "no shared loops: whole tensors stay on chip"
        told = f"group {number}: {inside}" if width > 230 else f"group {number}"
        canvas.text(x + 12, GROUP_BOTTOM - 8, told, fill=colour, font_weight=600)


def _top(schedule: Schedule, name: str) -> float:
    return BOX_TOP if schedule.workload[name].is_mac else BOX_MIDDLE - ADD_RADIUS


def _edges(canvas: Canvas, schedule: Schedule, columns: Columns, colours: Mapping[str, str]) -> None:
    """Tensors that stay on chip as lines between layers; the others as arrows to and from DRAM."""
    palette = canvas.palette
    canvas.rect(LEFT, DRAM_TOP, WIDTH - LEFT - RIGHT, DRAM_HEIGHT, rx=5, fill=palette.dram_fill, stroke=palette.dram)
    canvas.text(
        LEFT + 12, DRAM_TOP + 17, "DRAM (weights come from here too; their arrows are left out)", fill=palette.dram
    )
    bottom = DRAM_TOP + DRAM_HEIGHT
    workload = schedule.workload
    for name in columns.names:
        x, top = columns.middle(name), _top(schedule, name)
        leaving, arriving = workload.consumers[name], workload.producers[name]
        reads = any(not schedule.is_fused(e) for e in arriving) or any(o.source is None for o in workload[name].inputs)
        writes = not leaving or any(not schedule.is_fused(edge) for edge in leaving)
        if reads:
            canvas.arrow(x - APART, bottom + 1, top - 1, palette.dram)
        if writes:
            canvas.arrow(x + APART, top - 1, bottom + 1, palette.dram)
    place = {name: i for i, name in enumerate(columns.names)}
    for edge in schedule.fused_edges:
        x0, x1 = columns.middle(edge.source), columns.middle(edge.target)
        span = place[edge.target] - place[edge.source]
        style = {"stroke": colours[edge.source], "stroke_width": 2}
        if span == 1:
            path = f"M{_number(x0)} {_number(BOX_MIDDLE)}H{_number(x1)}"
        else:
            x0, x1 = x0 + APART, x1 - APART
            y0, y1 = _top(schedule, edge.source) + 2, _top(schedule, edge.target) + 2
            peak = BOX_TOP - 12 - 9 * min(span, 5)
            path = f"M{_number(x0)} {_number(y0)}C{_number(x0)} {_number(peak)} {_number(x1)} {_number(peak)} "
            path += f"{_number(x1)} {_number(y1)}"
        canvas.path(path, **style)


def _layers(canvas: Canvas, schedule: Schedule, columns: Columns, colours: Mapping[str, str]) -> None:
    """Boxes for MAC layers, circles for sums."""
    width = min(26.0, columns.step - 8)
    for name in columns.names:
        x, paper = columns.middle(name), canvas.palette.paper
        if schedule.workload[name].is_mac:
            canvas.rect(x - width / 2, BOX_TOP, width, BOX_HEIGHT, rx=4, fill=colours[name])
            canvas.text(
                x + 4.5, BOX_TOP + BOX_HEIGHT - 7, name[:14], turn=True, fill=paper, font_size=12, font_weight=600
            )
        else:
            canvas.circle(x, BOX_MIDDLE, ADD_RADIUS, fill=colours[name])
            plus = f"M{_number(x - 5)} {_number(BOX_MIDDLE)}h10m-5 -5v10"
            canvas.path(plus, stroke=paper, stroke_width=2)


def _panel(canvas: Canvas, title: str, keys: Sequence[tuple[str, str, float]], top: float) -> None:
    """The heading of a panel: its title, and what its colours mean; a key without opacity is an outline."""
    x = LEFT + 12 + 7.6 * len(title) + 22
    canvas.text(LEFT + 12, top, title, font_weight=600)
    for name, colour, opacity in keys:
        filled = {"fill": colour, "fill_opacity": opacity} if opacity else {"fill": "none", "stroke": colour}
        canvas.rect(x, top - 9, 10, 10, rx=2, **filled)
        canvas.text(x + 16, top, name, fill=canvas.palette.faint)
        x += 16 + 6.9 * len(name) + 26


def _axis(canvas: Canvas, at: Mapping[float, str], bottom: float, per_unit: float) -> None:
    for value, label in at.items():
        y = bottom - value * per_unit
        canvas.path(f"M{LEFT} {_number(y)}H{WIDTH - RIGHT}", stroke=canvas.palette.border)
        canvas.text(LEFT - 8, y + 4, label, text_anchor="end", fill=canvas.palette.faint, font_size=12)


def _stack(canvas: Canvas, x: float, width: float, parts: Sequence[float], bottom: float, per_unit: float) -> float:
    """One bar of stacked parts, in the palette's colours; returns where its top is."""
    heights = [0.0, *accumulate(part * per_unit for part in parts)]
    for low, high, colour in zip(heights, heights[1:], canvas.palette.parts, strict=False):
        if high > low:
            canvas.rect(x - width / 2, bottom - high, width, high - low, fill=colour)
    return bottom - heights[-1]


def _occupancy(canvas: Canvas, schedule: Schedule, columns: Columns, colours: Mapping[str, str]) -> None:
    """The memory that fuses while each layer runs, against its capacity."""
    examined, memory = Examined(schedule), schedule.machine.fused_in()
    node = schedule.machine.structure.fuses
    assert node is not None, "the picture shows what a memory holds for fused layers"
    assert memory is not None, "the picture shows what a memory holds for fused layers"
    need = needs(examined.nest, examined.placement, pack_machine(schedule.machine))
    number = examined.number
    running = sum(np.asarray(held) for (where, _), held in need.tiles.running.items() if where == node)
    kept = sum(np.asarray(held) for (where, _), held in need.tiles.kept.items() if where == node)
    passing, total = running - kept, np.asarray(need.total[node])
    capacity = memory.usable_bytes
    per_byte = (L2_BOTTOM - L2_TOP) / capacity
    parts = canvas.palette.parts
    keys = (
        ("tiles of the layer itself", parts[0], 1.0),
        ("tiles its group keeps", parts[1], 1.0),
        ("fused tensors, in the colour of the group", canvas.palette.groups[0], 1.0),
    )
    _panel(canvas, f"{memory.name} in use while each layer runs", keys, L2_TOP - 22)
    _axis(canvas, {0: "0", capacity / 2: size_text(capacity / 2)}, L2_BOTTOM, per_byte)
    for group in schedule.groups:
        group_keeps = sum(float(kept[number[name]]) for name in group.layers)
        for name in group.layers:
            i, x = number[name], columns.middle(name)
            own = [float(passing[i]), group_keeps]
            top = _stack(canvas, x, 0.62 * columns.step, own, L2_BOTTOM, per_byte)
            full = L2_BOTTOM - float(total[i]) * per_byte
            canvas.rect(x - 0.31 * columns.step, full, 0.62 * columns.step, top - full, fill=colours[name])
    canvas.path(f"M{LEFT} {L2_TOP}H{WIDTH - RIGHT}", stroke=canvas.palette.ink, stroke_dasharray="5 4")
    canvas.text(LEFT - 8, L2_TOP + 4, size_text(capacity), text_anchor="end", font_size=12, font_weight=600)


def _energy(canvas: Canvas, costs: Breakdown, unfused: Sequence[LayerCost], columns: Columns) -> None:
    """Energy of each layer by where it goes, and of the same layer without fusion."""
    layers, (first, *middle, last) = costs.layers, costs.memories
    before = {layer.name: layer.energy_pj for layer in unfused}
    most = max(*(layer.energy_pj for layer in layers), *before.values())
    tick = _round_tick(most / 2)
    per_pj = (ENERGY_BOTTOM - ENERGY_TOP) / most
    palette = canvas.palette
    keys = (
        (f"multiply, {last}", palette.parts[0], 1.0),
        (", ".join(middle), palette.parts[1], 1.0),
        (f"to and from {first}", palette.parts[2], 1.0),
        ("layer by layer, without fusion", palette.ink, 0.0),
    )
    _panel(canvas, "Energy of each layer", keys, ENERGY_TOP - 22)
    _axis(canvas, {i * tick: f"{short(i * tick * 1e-6)} µJ" if i else "0" for i in range(3)}, ENERGY_BOTTOM, per_pj)
    width = 0.62 * columns.step
    for layer in layers:
        x, part = columns.middle(layer.name), dict.fromkeys(costs.memories, 0.0)
        for access, pj in zip(costs.accesses, layer.access_energy_pj, strict=True):
            part[access.memory] += pj
        parts = (layer.mac_energy_pj + part[last], sum(part[name] for name in middle), part[first])
        _stack(canvas, x, width, parts, ENERGY_BOTTOM, per_pj)
        height = before[layer.name] * per_pj
        canvas.rect(x - width / 2 - 2, ENERGY_BOTTOM - height, width + 4, height, fill="none", stroke=palette.ink)


def _round_tick(most: float) -> float:
    """The largest of 1, 2, 5, 10, 20, ... not above `most`."""
    power = 10 ** np.floor(np.log10(most))
    return float(power * max(step for step in (1, 2, 5) if step * power <= most))


def main(
    schedule: Annotated[Path, typer.Argument(help="A schedule file.")] = SCHEDULE,
    name: Annotated[str, typer.Option(help="What the pictures are called.")] = "schedule",
    out: Annotated[Path, typer.Option(help="The folder they go to.")] = IMAGES,
) -> None:
    """Draw a schedule, for light and for dark pages."""
    loaded = load_schedule(schedule)
    for tone, palette in (("light", LIGHT), ("dark", DARK)):
        path = out / f"{name}-{tone}.svg"
        write_text(path, draw(loaded, palette))
        typer.echo(f"wrote {path}")


if __name__ == "__main__":
    typer.run(main)
