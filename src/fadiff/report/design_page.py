"""One HTML page about co-design: the front as a picture, what changes along it, what binds, and prices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, exp, floor, log, log10
from typing import TYPE_CHECKING

from fadiff.analysis.design import TOLD, amount_text, binding, price_sentence
from fadiff.analysis.units import significant
from fadiff.hardware import area_by_node_mm2
from fadiff.report.machine_drawing import area_text

if TYPE_CHECKING:
    from fadiff.search.codesign import Design
    from fadiff.search.codesign.rows import Row

WIDTH, HEIGHT, MARGIN = 720.0, 360.0, 56.0
MOST_TICKS = 6
LEAST_RANGE = 1.01
"""The least factor that an axis of costs shows."""
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24;
  background: #fff; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; }
th, td { padding: 0.2rem 0.8rem 0.2rem 0; text-align: right; border-bottom: 1px solid #d8dee4; }
th:first-child, td:first-child { text-align: left; }
.best { font-weight: 600; }
svg { max-width: 100%; height: auto; }
svg .grid { stroke: #d8dee4; stroke-width: 0.5; }
svg text { font-size: 12px; fill: currentColor; }
@media (prefers-color-scheme: dark) { body { color: #e6e9ec; background: #14181c; } th, td { border-color: #3a424a; } }
"""


def design_html(design: Design) -> str:
    """The page."""
    question = design.question
    names = ", ".join(workload.name for workload in question.workloads)
    title = f"{names}: machines of {question.space.name}"
    best = [
        [number.name, amount_text(number, value)]
        for number, value in zip(question.space.numbers, design.best.values, strict=True)
    ]
    prices = "".join(f"<li>{escape(price_sentence(question.space, one, question.aim))}</li>" for one in design.prices)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{len(design.rows)} machines were scored. The best within the area takes "
        f"{escape(area_text(area_by_node_mm2(design.machine)))}.</p>",
        _table(["free number", "value"], best),
        f"<h2>Area against {TOLD[question.aim]}</h2>",
        front_svg(design),
        _front_table(design),
        "<h2>What binds</h2>",
        *(_binding_table(design, i) for i in range(len(design.evaluations))),
        f"<h2>What one step of each number does</h2><ul>{prices}</ul>" if prices else "",
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def front_svg(design: Design) -> str:
    """Every machine that was scored, and the front as steps; both axes logarithmic.

    The dearest quarter of all machines stands at the upper edge, so that the front has room.
    """
    rows = [row for row in design.rows if not row.problem]
    areas, every = [log10(row.area_mm2) for row in rows], sorted(_log_ratio(design, row) for row in rows)
    highest = max(every[len(every) * 3 // 4], *(_log_ratio(design, row) for row in design.front), log10(LEAST_RANGE))
    ratios = [*(ratio for ratio in every if ratio < highest), highest]
    x, y = _scale(areas, MARGIN, WIDTH - 16), _scale(ratios, HEIGHT - MARGIN, 16)
    dearer = len(every) - sum(ratio <= highest for ratio in every)

    def mark(row: Row, radius: float, colour: str) -> str:
        tip = f"{row.number:04d}: {significant(row.area_mm2)} mm2, {10 ** _log_ratio(design, row):.3f} times the best"
        at = f'cx="{x(log10(row.area_mm2)):.1f}" cy="{y(min(_log_ratio(design, row), highest)):.1f}"'
        return f'<circle {at} r="{radius}" fill="{colour}"><title>{escape(tip)}, {escape(row.origin)}</title></circle>'

    corners: list[tuple[float, float]] = []
    for row in design.front:
        here = x(log10(row.area_mm2)), y(_log_ratio(design, row))
        corners += [*([(here[0], corners[-1][1])] if corners else []), here]
    path = " ".join(f"{across:.1f},{down:.1f}" for across, down in corners)
    line = f'<polyline points="{path}" fill="none" stroke="#2563a8" stroke-width="1.5"/>'
    marks = [*(mark(row, 2.5, "#8a94a0") for row in rows), *(mark(row, 4, "#2563a8") for row in design.front)]
    marks.append(mark(design.best, 6, "#c2410c"))
    bottom, right = HEIGHT - MARGIN, WIDTH - 16
    ticks = [
        f'<path class="grid" d="M{x(at):.1f} 16V{bottom}"/>'
        f'<text x="{x(at):.1f}" y="{bottom + 18}" text-anchor="middle">{10**at:.3g}</text>'
        for at in _ticks(areas)
    ] + [
        f'<path class="grid" d="M{MARGIN} {y(at):.1f}H{right}"/>'
        f'<text x="{MARGIN - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{10**at:.4g}</text>'
        for at in _ticks(ratios)
    ]
    label = (
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">area, mm2 at 40 nm</text>'
        f'<text x="12" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 12 {HEIGHT / 2})">'
        f"{TOLD[design.question.aim]}, times the best</text>"
    )
    if dearer:
        label += f'<text x="{MARGIN + 6}" y="12">{dearer} dearer, at this edge</text>'
    told = f"Area against {TOLD[design.question.aim]} of {len(rows)} machines; {len(design.front)} are on the front"
    return (
        f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" aria-label="{escape(told)}">'
        f"{''.join(ticks)}{line}{''.join(marks)}{label}</svg>"
    )


def _log_ratio(design: Design, row: Row) -> float:
    """log10 of how much worse a machine is than the best one."""
    return (row.score - design.best.score) / log(10)


def _scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    low, high = min(values), max(values)
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _ticks(values: Sequence[float]) -> list[float]:
    """Where round numbers stand on an axis of such logarithms: 1, 2 and 5 times powers of ten; where these are few,
    even steps of such.

    >>> [round(10**at, 3) for at in _ticks([-1.2, 0.4])], [round(10**at, 3) for at in _ticks([0, 0.02])]
    ([0.1, 0.2, 0.5, 1.0, 2.0], [1.0, 1.01, 1.02, 1.03, 1.04])
    """
    low, high = min(values), max(values)
    powers = [10.0**n * digit for n in range(floor(low) - 6, floor(high) + 1) for digit in (1, 2, 5)]
    found = [log10(one) for one in powers if low <= log10(one) <= high]
    if len(found) > 2 or low == high:
        return found or [low]
    step = next(one for one in powers if (10**high - 10**low) / one < MOST_TICKS)
    return [log10(n * step) for n in range(max(1, ceil(10**low / step)), floor(10**high / step) + 1)]


def _front_table(design: Design) -> str:
    numbers = design.question.space.numbers
    rows = [
        [f"{row.number:04d}", significant(row.area_mm2), f"{exp(row.score - design.best.score):.3f}"]
        + [amount_text(number, value) for number, value in zip(numbers, row.values, strict=True)]
        for row in design.front
    ]
    best = [row.number == design.best.number for row in design.front]
    return _table(["machine", "mm2", "to the best", *(number.name for number in numbers)], rows, best)


def _binding_table(design: Design, i: int) -> str:
    found = binding(design.evaluations[i])
    names = sorted({name for shares in found.values() for name in shares}, key=str)
    rows = [[name, *(f"{shares[name]:.1%}" if name in shares else "" for shares in found.values())] for name in names]
    head = escape(design.evaluations[i].schedule.workload.name)
    return f"<h3>{head}</h3>" + _table(["part", "sets the time", "full at its peak", "energy"], rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[bool] = ()) -> str:
    body = "".join(
        f"<tr{' class=best' if marked and marked[i] else ''}>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        for i, row in enumerate(rows)
    )
    return f"<table><tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>{body}</table>"
