"""One HTML page about co-design: the front as a picture, what changes along it, what binds, and prices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from math import ceil, exp, floor, inf, log, log10
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from fadiff.analysis.design import HAIR, TOLD, amount_text, binding, energy_latency, mean_cost, price_sentence
from fadiff.analysis.units import plural, significant
from fadiff.hardware import area_by_node_mm2
from fadiff.report.machine_drawing import area_text
from fadiff.search.codesign.rows import stems

if TYPE_CHECKING:
    from fadiff.search.codesign import Design
    from fadiff.search.codesign.rows import Row

WIDTH, HEIGHT, MARGIN = 720.0, 360.0, 56.0
BEST, ON_FRONT, OTHER = "#c2410c", "#2563a8", "#8a94a0"
MOST_TICKS = 6
LEAST_RANGE = 1.01
"""The least factor that an axis of costs shows."""
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24;
  background: #fff; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; }
th, td { padding: 0.2rem 0.8rem 0.2rem 0; text-align: right; border-bottom: 1px solid #d8dee4; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.best { font-weight: 600; }
.wide { overflow-x: auto; }
.note { color: #57606a; }
a { color: inherit; }
svg { width: 100%; min-width: 34rem; height: auto; }
svg .limit { stroke: currentColor; stroke-dasharray: 4 4; }
svg .grid { stroke: #d8dee4; stroke-width: 0.5; }
svg text { font-size: 12px; fill: currentColor; }
@media (prefers-color-scheme: dark) { body { color: #e6e9ec; background: #14181c; } th, td { border-color: #3a424a; }
  .note { color: #9aa4ae; } svg .grid { stroke: #3a424a; } }
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
    left_out = "".join(f"<p>{escape(one[:1].upper() + one[1:])}.</p>" for one in design.left_out)
    limit = f", in at most {significant(question.area_mm2)} mm2" if question.area_mm2 < inf else ""
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>Least {TOLD[question.aim]}{limit}: {plural(len(design.rows), 'machine')} were scored. "
        f'<a href="best.machine.json">The best</a> takes {escape(area_text(area_by_node_mm2(design.machine)))}.</p>',
        left_out,
        _table(["free number", "value"], best),
        _costs_table(design),
        f"<h2>Area against {TOLD[question.aim]}</h2>",
        front_svg(design),
        _legend("dashed: the area allowed" if question.area_mm2 < inf else ""),
        _front_table(design, design.front),
        "<h2>Energy against latency, within the area</h2>",
        trade_svg(design),
        _legend(),
        _front_table(design, energy_latency(design)),
        "<h2>What binds</h2>",
        *(_binding_table(design, i) for i in range(len(design.evaluations))),
        f"<h2>What one step of each number does</h2><ul>{prices}</ul>" if prices else "",
        '<p class="note">The same as tables: <a href="front.csv">front.csv</a>, '
        '<a href="energy-latency.csv">energy-latency.csv</a>, <a href="prices.csv">prices.csv</a>.</p>',
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def front_svg(design: Design) -> str:
    """Every machine that was scored, and those that no other beats in area and objective; the area allowed is dashed.

    The dearest quarter of all machines stands at the upper edge, so that the front has room.
    """
    rows = [row for row in design.rows if not row.problem]
    told = TOLD[design.question.aim]
    return _scatter(
        design,
        rows,
        design.front,
        _Axis("area, mm2 at 40 nm", _log_area),
        _Axis(f"{told}, times the best", partial(_log_ratio, design), crowded=True),
        f"Area against {told} of {len(rows)} machines; {len(design.front)} are on the front",
        limit=log10(design.question.area_mm2) if design.question.area_mm2 < inf else None,
    )


def trade_svg(design: Design) -> str:
    """Every machine within the area, and those that no other of them beats in energy and latency."""
    front = energy_latency(design)
    rows = [row for row in design.rows if not row.problem and row.area_mm2 <= design.question.area_mm2 * (1 + HAIR)]

    def ratio(cost: str) -> Callable[[Row], float]:
        best = mean_cost(design, design.best, cost)
        return lambda row: log10(mean_cost(design, row, cost) / best)

    return _scatter(
        design,
        rows,
        front,
        _Axis("latency, times that of the best", ratio("cycles"), crowded=True),
        _Axis("energy, times that of the best", ratio("energy_pj"), crowded=True),
        f"Energy against latency of {len(rows)} machines; {len(front)} are on the front",
    )


class _Axis(NamedTuple):
    """A logarithmic axis."""

    label: str
    log: Callable[[Row], float]
    crowded: bool = False
    """Whether the largest quarter of the values stands at the edge."""

    def highest(self, rows: Sequence[Row], front: Sequence[Row]) -> float:
        """The largest value that is shown."""
        every = sorted(map(self.log, rows))
        return max(every[len(every) * 3 // 4], *map(self.log, front), log10(LEAST_RANGE)) if self.crowded else every[-1]


def _scatter(
    design: Design,
    rows: Sequence[Row],
    front: Sequence[Row],
    across: _Axis,
    up: _Axis,
    told: str,
    limit: float | None = None,
) -> str:
    """Machines as dots, with a front as steps."""
    most_across, most_up = across.highest(rows, front), up.highest(rows, front)

    def place(row: Row) -> tuple[float, float]:
        return min(across.log(row), most_across), min(up.log(row), most_up)

    shown = [
        [one for row in rows if (one := place(row)[i]) < most] + [most] for i, most in ((0, most_across), (1, most_up))
    ]
    x, y = _scale(shown[0], MARGIN, WIDTH - 16), _scale(shown[1], HEIGHT - MARGIN, 16)
    dearer = sum(across.log(row) > most_across or up.log(row) > most_up for row in rows)

    def mark(row: Row, radius: float, colour: str) -> str:
        tip = f"{row.number:04d}: {significant(row.area_mm2)} mm2, {10 ** _log_ratio(design, row):.3f} times the best"
        right, above = place(row)
        at = f'cx="{x(right):.1f}" cy="{y(above):.1f}"'
        return f'<circle {at} r="{radius}" fill="{colour}"><title>{escape(tip)}, {escape(row.origin)}</title></circle>'

    corners: list[tuple[float, float]] = []
    for row in front:
        right, above = place(row)
        corners += [*([(x(right), corners[-1][1])] if corners else []), (x(right), y(above))]
    path = " ".join(f"{right:.1f},{down:.1f}" for right, down in corners)
    line = f'<polyline points="{path}" fill="none" stroke="{ON_FRONT}" stroke-width="1.5"/>'
    marks = [*(mark(row, 2.5, OTHER) for row in rows), *(mark(row, 4, ON_FRONT) for row in front)]
    marks.append(mark(design.best, 6, BEST))
    bottom, right = HEIGHT - MARGIN, WIDTH - 16
    ticks = [
        f'<path class="grid" d="M{x(at):.1f} 16V{bottom}"/>'
        f'<text x="{x(at):.1f}" y="{bottom + 18}" text-anchor="middle">{10**at:.3g}</text>'
        for at in _ticks(shown[0])
    ] + [
        f'<path class="grid" d="M{MARGIN} {y(at):.1f}H{right}"/>'
        f'<text x="{MARGIN - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{10**at:.4g}</text>'
        for at in _ticks(shown[1])
    ]
    label = (
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(across.label)}</text>'
        f'<text x="12" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 12 {HEIGHT / 2})">'
        f"{escape(up.label)}</text>"
    )
    if limit is not None and min(shown[0]) <= limit <= max(shown[0]):
        label += f'<path class="limit" d="M{x(limit):.1f} 16V{bottom}"><title>the area allowed</title></path>'
    if dearer:
        label += f'<text x="{MARGIN + 6}" y="12">{dearer} dearer, at the edge</text>'
    return (
        f'<div class="wide"><svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" aria-label="{escape(told)}">'
        f"{''.join(ticks)}{line}{''.join(marks)}{label}</svg></div>"
    )


def _log_area(row: Row) -> float:
    """log10 of its mm2."""
    return log10(row.area_mm2)


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


def _legend(more: str = "") -> str:
    marks = (("the best", BEST), ("on the front", ON_FRONT), ("other machines", OTHER))
    told = [f'<span style="color:{colour}">&#9679;</span> {name}' for name, colour in marks]
    return f'<p class="note">{" &nbsp; ".join([*told, *([more] if more else [])])}</p>'


def _costs_table(design: Design) -> str:
    """What each network costs on the best machine, and its schedule."""
    names = stems([one.schedule.workload.name for one in design.evaluations])
    rows = [
        [name, f"{share:.0%}", f"{one.energy_pj * 1e-6:,.4g}", f"{one.cycles:,.0f}", f"{one.edp_uj_cycles:.4g}"]
        for name, one, share in zip(names, design.evaluations, design.question.shares, strict=True)
    ]
    links = [f"best.{stem}.json" for stem in names.values()]
    return _table(["on the best machine", "weight", "energy, uJ", "cycles", "EDP, uJ x cycles"], rows, links=links)


def _front_table(design: Design, front: Sequence[Row]) -> str:
    numbers = design.question.space.numbers
    heads = ["machine", "mm2", f"{TOLD[design.question.aim]}, to the best", "energy", "latency"]
    rows = [
        [f"{row.number:04d}", significant(row.area_mm2), f"{exp(row.score - design.best.score):.3f}"]
        + [
            f"{mean_cost(design, row, cost) / mean_cost(design, design.best, cost):.3f}"
            for cost in ("energy_pj", "cycles")
        ]
        + [amount_text(number, value) for number, value in zip(numbers, row.values, strict=True)]
        for row in front
    ]
    best = [row.number == design.best.number for row in front]
    links = [f"machines/{row.number:04d}.json" for row in front]
    return _table([*heads, *(number.name for number in numbers)], rows, best, links)


def _binding_table(design: Design, i: int) -> str:
    found = binding(design.evaluations[i])
    names = sorted({name for shares in found.values() for name in shares}, key=str)
    rows = [[name, *(f"{shares[name]:.1%}" if name in shares else "" for shares in found.values())] for name in names]
    head = escape(design.evaluations[i].schedule.workload.name)
    return f"<h3>{head}</h3>" + _table(["part", "sets the time", "full at its peak", "energy"], rows)


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[bool] = (), links: Sequence[str] = ()
) -> str:
    """A table; rows that are marked are bold, and links are those of the first column."""
    body = ""
    for i, row in enumerate(rows):
        first, *others = (escape(cell) for cell in row)
        first = f'<a href="{escape(quote(links[i]))}">{first}</a>' if links else first
        cells = "".join(f"<td>{cell}</td>" for cell in (first, *others))
        body += f"<tr{' class=best' if marked and marked[i] else ''}>{cells}</tr>"
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
