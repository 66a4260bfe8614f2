"""A sweep as one HTML page: what its machines and methods cost, network by network, and the table of all cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.metadata import version
from math import ceil
from urllib.parse import quote

from fadiff.analysis.units import count_text, plural, size_text
from fadiff.report.html.page import asset, fill
from fadiff.report.sweeps.charts import Mark, legend, lines_chart, points_chart
from fadiff.sweeps.cell import RESULTS
from fadiff.sweeps.plan import KEY

Row = Mapping[str, str | int | float | None]
MEASURES = {"energy": ("energy_pj", "energy (pJ)"), "latency": ("cycles", "latency (cycles)")}
"""What is minimized, as a column and as a title; everything else is told by its EDP."""
EDP = ("edp_uj_cycles", "EDP (µJ x cycles)")
MOST_MACHINES = 60
"""Machines of a chart; of more, the best are shown."""
SHOWN = (*KEY[:5], "edp_uj_cycles", "energy_pj", "cycles", "gap", "edges_fused", "seconds", "stopped")
"""Columns of the table on the page."""


def sweep_html(rows: Sequence[Row], name: str) -> str:
    """The page of a sweep, from the rows of its table."""
    done = [row for row in rows if not row["error"]]
    failed = [row for row in rows if row["error"]]
    lead = f"{plural(len(rows), 'cell')}: " + ", ".join(
        plural(len({row[key] for row in rows}), key) for key in ("network", "machine", "method", "objective", "seed")
    )
    body = [_failures(failed)] if failed else []
    for network in dict.fromkeys(str(row["network"]) for row in done):
        body.append(f"<h2>{escape(network)}</h2>")
        mine = [row for row in done if row["network"] == network]
        for objective in dict.fromkeys(str(row["objective"]) for row in mine):
            body += _charts([row for row in mine if row["objective"] == objective], objective)
        body.append(_front(mine, network))
    body.append(_table(done))
    return fill(
        asset("page.html", "sweeps"),
        {
            "version": version("fadiff-scheduler"),
            "title": escape(f"Sweep {name}"),
            "style": asset("theme.css") + asset("page.css", "sweeps"),
            "lead": escape(f"{lead}." + (f" {plural(len(failed), 'cell')} failed." if failed else "")),
            "body": "\n".join(body),
        },
    )


def measure_of(objective: object) -> tuple[str, str]:
    """The column that tells how good a schedule is for an objective, and its title."""
    return MEASURES.get(str(objective), EDP)


def _number(row: Row, column: str) -> float:
    value = row[column]
    assert isinstance(value, int | float), f"{column} of a cell that did not fail"
    return float(value)


def _title(row: Row, column: str, title: str) -> str:
    told = f"{row['machine']}, {row['method']}, seed {row['seed']}"
    return f"{told}: {title} {_number(row, column):.5g}"


def _charts(rows: Sequence[Row], objective: str) -> Iterator[str]:
    """What every machine costs, and how that changes with each number that a grid sets."""
    column, title = measure_of(objective)
    best: dict[str, float] = {}
    for row in rows:
        best[str(row["machine"])] = min(_number(row, column), best.get(str(row["machine"]), float("inf")))
    names = sorted(best, key=lambda machine: best[machine])[:MOST_MACHINES]
    line = {machine: i for i, machine in enumerate(names)}
    marks = [
        Mark(_number(row, column), line[str(row["machine"])], str(row["method"]), _title(row, column, title))
        for row in rows
        if row["machine"] in line
    ]
    about = f"{title} on each machine, the best first"
    left_out = f" ({len(names)} of {len(best)})" if len(names) < len(best) else ""
    yield _figure(about + left_out, marks, lines_chart(about, title, marks, names))
    for key in _set_keys(rows):
        least: dict[tuple[str, float], Row] = {}
        for row in rows:
            if isinstance(row.get(key), int | float) and _number(row, key) > 0:
                at = str(row["method"]), _number(row, key)
                least[at] = min(row, least.get(at, row), key=lambda one: _number(one, column))
        if len({value for _, value in least}) > 1:
            marks = [
                Mark(value, _number(row, column), method, _title(row, column, title))
                for (method, value), row in least.items()
            ]
            about = f"The least {title} at each {key}"
            named = _named(key, sorted({value for _, value in least}))
            yield _figure(about, marks, points_chart(about, (key, title), marks, named=named))


def _named(key: str, values: Sequence[float]) -> dict[float, str]:
    """Values of a key as people write them, eight of them at most."""
    written = size_text if key.endswith(("bytes", "l1", "l2")) else count_text
    return {value: written(value) for value in values[:: ceil(len(values) / 8)]}


def _set_keys(rows: Sequence[Row]) -> list[str]:
    """Columns that grids set."""
    known = {*KEY, *RESULTS, "schedule", "error", "fingerprint", "version"}
    return [name for name in dict.fromkeys(name for row in rows for name in row) if name not in known]


def _front(rows: Sequence[Row], network: str) -> str:
    """Energy against latency, one point a cell."""
    marks = [
        Mark(_number(row, "cycles"), _number(row, "energy_pj") * 1e-6, str(row["method"]), _title(row, *EDP))
        for row in rows
    ]
    about = f"Energy against latency of {network}"
    return _figure(about, marks, points_chart(about, ("latency (cycles)", "energy (µJ)"), marks))


def _figure(about: str, marks: Sequence[Mark], chart: str) -> str:
    return f"<figure><figcaption>{escape(about)}</figcaption>{legend(marks)}{chart}</figure>"


def _failures(rows: Sequence[Row]) -> str:
    lines = (
        f"<tr><td>{escape(', '.join(str(row[key]) for key in KEY[:5]))}</td>"
        f'<td class="failed">{escape(str(row["error"]))}</td></tr>'
        for row in rows
    )
    return f'<h2>Cells that failed</h2><div class="scroll"><table>{"".join(lines)}</table></div>'


def _table(rows: Sequence[Row]) -> str:
    columns = [*SHOWN[:5], *_set_keys(rows), *SHOWN[5:]]
    columns = [name for name in columns if any(row.get(name) not in (None, "") for row in rows)]
    heads = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = "".join(
        f"<tr>{''.join(_cell(row.get(name)) for name in columns)}"
        f'<td><a href="{escape(quote(str(row["schedule"])))}">schedule</a></td></tr>'
        for row in rows
    )
    return (
        '<h2>All cells</h2><div class="scroll"><table>'
        f"<thead><tr>{heads}<th></th></tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _cell(value: str | float | None) -> str:
    if isinstance(value, int | float):
        return f'<td class="number">{value if isinstance(value, int) else f"{value:.5g}"}</td>'
    return f"<td>{escape(value or '')}</td>"
