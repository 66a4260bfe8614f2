"""The model against Timeloop: the same random mappings priced by both.

All rows are priced in one call and take seconds, so a quick run leaves nothing out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fadiff.files import write_text
from fadiff.reproduce.experiment import markdown_table, wrapped
from fadiff.reproduce.timeloop import read_energies, read_reference
from fadiff.reproduce.timeloop_agreement import PAPER_ACCESS_ACCURACY, PAPER_RHO, PAPER_TAU, Validation, validate
from fadiff.reproduce.timeloop_costs import MACHINES, ONE_WORD, OURS, QUANTITIES, TIMELOOPS, Cost
from fadiff.reproduce.timeloop_figures import draw_accuracy, draw_scatter
from fadiff.reproduce.timeloop_page import report

if TYPE_CHECKING:
    from fadiff.reproduce.experiment import Desk

Row = dict[str, str | int | float]
SUFFIXES = {TIMELOOPS: "timeloops_accounting", ONE_WORD: "ours_one_word_spills", OURS: "ours"}
"""Accountings in names of columns."""


def reproduce(desk: Desk) -> str:
    """Compare all rows, write them and the whole report, draw both figures, and tell the headline."""
    validation = validate(read_reference(), read_energies())
    desk.write_rows(compared_rows(validation))
    desk.write_rows(
        [
            {"accounting": name, "quantity": what, **found._asdict()}
            for name, quantities in validation.ranks.items()
            for what, found in quantities.items()
        ],
        "ranks",
    )
    page = desk.into / f"{desk.stem}-timeloop.md"
    write_text(page, report(validation, desk.command()))
    return _tell(desk, validation, page.name, draw_accuracy(desk, validation), draw_scatter(desk, validation))


def compared_rows(validation: Validation) -> list[Row]:
    """Every row with each count, tile size, latency and energy: Timeloop's, and the model's."""
    reference = validation.reference
    counts = {name: {"timeloop": reference.numbers(name), "ours": words} for name, words in validation.counts.items()}
    costs = {"timeloop": validation.timeloop} | {SUFFIXES[by]: cost for by, cost in validation.costs.items()}
    whole = {f"{name}_{by}": column for name, pair in counts.items() for by, column in pair.items()}
    real = {f"{field}_{by}": cost._asdict()[field] for field in Cost._fields for by, cost in costs.items()}
    kinds = {difference.row: difference.kind for difference in validation.differences}
    return [
        {
            "id": row,
            "machine": MACHINES[str(reference.text("config")[i])],
            "op_type": str(validation.op_types[i]),
            "layer": str(reference.text("layer")[i]),
            "counts": kinds.get(row, "equal"),
            **{name: int(column[i]) for name, column in whole.items()},
            **{name: round(float(column[i]), 2) for name, column in real.items()},
        }
        for i, row in enumerate(map(str, reference.text("id")))
    ]


def _tell(desk: Desk, validation: Validation, page: str, accuracy: str, scatter: str) -> str:
    ranks = validation.ranks
    timeloops, ours, one_word = ranks[TIMELOOPS], ranks[OURS], ranks[ONE_WORD]
    table = markdown_table(
        ["against Timeloop", "the paper's model", "the model, Timeloop's accounting", "the model, our accounting"],
        [
            ["access accuracy", f"{PAPER_ACCESS_ACCURACY:.0%}", f"{validation.access_accuracy:.4%}", "-"],
            *([f"tau of {of}", *(f"{tau:.4f}" for tau in (PAPER_TAU[of], timeloops[of].tau, ours[of].tau))]
              for of in QUANTITIES),
            *([f"rho of {of}", *(f"{rho:.4f}" for rho in (PAPER_RHO[of], timeloops[of].rho, ours[of].rho))]
              for of in QUANTITIES),
            *([f"mean difference of {of}", "-", *(f"{by[of].mean_relative_error:.4%}" for by in (timeloops, ours))]
              for of in QUANTITIES),
        ],
    )  # fmt: skip
    setting = (
        f"Timeloop v3.0.3 and the model price the same {validation.rows:,} random mappings of "
        f"{len(np.unique(validation.op_types))} kinds of single layers on the two Gemminis. Access accuracy is the "
        "mean of 1 - |ours - theirs| / theirs over all rows and 13 counts. *Timeloop's accounting* is the model with "
        "Timeloop's counting rules, energies and bandwidths put in. The paper names neither its mappings nor its "
        "definition of accuracy, so its column is a measurement of the same kind and not the same measurement."
    )
    counts = (
        f"{np.sum(validation.equal):,} rows are equal in all 13 counts and 4 tile sizes; [the whole report]({page}) "
        "explains each of the others. Mean accuracy by kind of operator (rows in brackets), level and tensor, with the "
        "number of rows that differ:"
    )
    rules = (
        "Three rules of ours differ on purpose: a spilled partial sum is four words wide, an output on its way out is "
        "read from L1, and a level has one energy for reads and writes. Spills matter most: random mappings spill on "
        f"{validation.spilling / validation.rows:.0%} of the rows. Counted as one word, tau is "
        f"{one_word['latency'].tau:.4f} for latency and {one_word['energy'].tau:.4f} for energy. All rows are in "
        f"[{desk.stem}.csv](results/{desk.stem}.csv):"
    )
    return f"""\
### The model against Timeloop

```
{desk.command()}
```

{wrapped(setting)}

{table}
{wrapped(counts)}

{accuracy}
{wrapped(rules)}

{scatter}"""
