"""The experiment `validation`: the same random mappings priced by the model and by Timeloop.

All rows take seconds, so a quick run leaves nothing out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fadiff.files import write_text
from fadiff.reproduce.experiment import markdown_table, wrapped
from fadiff.reproduce.timeloop.compare import EXPLANATIONS, OWN, TIMELOOPS, Comparison, compare
from fadiff.reproduce.timeloop.figures import draw_ratios
from fadiff.reproduce.timeloop.page import Comparisons, class_rows, counts_of, report, rows_of
from fadiff.reproduce.timeloop.ranks import PAPER_ACCESS_ACCURACY, PAPER_RHO, PAPER_TAU, ranks
from fadiff.reproduce.timeloop.reference import read_references

if TYPE_CHECKING:
    from fadiff.reproduce.experiment import Desk

Row = dict[str, str | int | float]
"""A row of a CSV file."""
SUFFIXES = {TIMELOOPS: "timeloops_rules", OWN: "models_rules"}
"""Accountings in names of columns."""


def reproduce(desk: Desk) -> str:
    """Compare all rows, and tell what was found."""
    return tell(desk, [compare(reference) for reference in read_references()])


def tell(desk: Desk, comparisons: Comparisons) -> str:
    """Write rows, summary and the whole report, draw the figure, and tell the headline."""
    desk.write_rows([row for comparison in comparisons for row in compared_rows(comparison)])
    desk.write_rows([machine_row(comparison) for comparison in comparisons], "machines")
    desk.write_rows([{**d._asdict(), "class": d.kind} for c in comparisons for d in c.differences], "differences")
    page = desk.into / f"{desk.stem}-timeloop.md"
    write_text(page, report(comparisons, desk.command()))
    return _headline(desk, comparisons, page.name, draw_ratios(desk, comparisons))


def compared_rows(comparison: Comparison) -> list[Row]:
    """Every row: how many numbers are equal, which class it belongs to, and latency and energy by each accounting."""
    kinds = {difference.row: difference.kind for difference in comparison.differences}
    found = np.array(list(comparison.accuracy.values()))
    compared, equal = np.sum(~np.isnan(found), axis=0), np.sum(found == 1, axis=0)
    costs = {"timeloop": comparison.timeloop} | {name: comparison.costs[by] for by, name in SUFFIXES.items()}
    real = {f"{field}_{by}": column for by, cost in costs.items() for field, column in cost._asdict().items()}
    return [
        {
            "id": case.layer.name,
            "machine": comparison.name,
            "mode": case.mode,
            "flagged": int(case.flagged),
            "compared": int(compared[i]),
            "equal": int(equal[i]),
            "class": kinds.get(case.layer.name, "equal"),
            **{name: "" if np.isnan(column[i]) else round(float(column[i]), 2) for name, column in real.items()},
        }
        for i, case in enumerate(comparison.reference.cases)
    ]


def machine_row(comparison: Comparison) -> Row:
    """The summary of one machine."""
    taus = {f"tau_{what}_{name}": found.tau
            for by, name in SUFFIXES.items() for what, found in ranks([comparison], by).items()}  # fmt: skip
    return {
        "machine": comparison.name,
        "rows": len(comparison.reference),
        "counts": comparison.counts.size,
        "equal": np.count_nonzero(comparison.counts == 1) / comparison.counts.size,
        "accuracy": float(np.mean(comparison.counts)),
        **taus,
        **{f"{kind.replace(' ', '_')}_rows": class_rows([comparison], kind) for kind in EXPLANATIONS},
        "unexplained_rows": len(comparison.unexplained),
        "reloading_rows": comparison.reloading,
        "rounded_rows": comparison.rounded,
        "broken_rules": comparison.broken_rules,
    }


def _headline(desk: Desk, comparisons: Comparisons, page: str, ratios: str) -> str:
    counts, timeloops, own = counts_of(comparisons), ranks(comparisons, TIMELOOPS), ranks(comparisons, OWN)
    lines = [["access accuracy", f"{PAPER_ACCESS_ACCURACY:.0%}", f"{np.mean(counts):.4%}", "-"]]
    for of in PAPER_TAU:
        a, b = timeloops[of], own[of]
        lines += [
            [f"tau of {of}", f"{PAPER_TAU[of]:.4f}", f"{a.tau:.4f}", f"{b.tau:.4f}"],
            [f"rho of {of}", f"{PAPER_RHO[of]:.4f}", f"{a.rho:.4f}", f"{b.rho:.4f}"],
            [f"mean difference of {of}", "-", f"{a.mean_difference:.4%}", f"{b.mean_difference:.4%}"],
        ]
    header = [
        "against Timeloop",
        "the paper's model",
        "the model, Timeloop's rules for sums",
        "the model, its own rules",
    ]
    setting = (
        f"Timeloop v3.0.3 and the model price the same {rows_of(comparisons):,} random mappings of single layers on "
        f"{len(comparisons)} machines, from Gemminis to arrays of arrays with sums kept at four memories, with the "
        "same energies and rates. Access accuracy is the mean of 1 - |ours - theirs| / theirs over all rows and "
        "counts. The paper names neither its mappings nor its definition of accuracy, so its column is a measurement "
        "of the same kind and not the same measurement."
    )
    found = (
        f"{np.mean(counts == 1):.3%} of {counts.size:,} access counts are exactly equal. [The whole report]({page}) "
        "tells every machine, explains every count that differs, and what differs on purpose. All rows are in "
        f"[{desk.stem}.csv](results/{desk.stem}.csv):"
    )
    return f"""\
### The model against Timeloop

```
{desk.command()}
```

{wrapped(setting)}

{markdown_table(header, lines)}
{wrapped(found)}

{ratios}"""
