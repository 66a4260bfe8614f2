"""How far schedules are from the best there is: search, then prove, the paper's networks on its two machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from fadiff.reproduce.drawing import COLOURS, canvas
from fadiff.reproduce.experiment import markdown_table
from fadiff.reproduce.runs import measure
from fadiff.search.optimize import optimize
from fadiff.search.solver.network_bound import prove
from fadiff.sweeps.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fadiff.reproduce.experiment import Desk

NETWORKS = ("resnet18", "mobilenet_v1", "vgg16", "vgg19", "gpt3-6.7b")
MACHINES: tuple[str, ...] = ("gemmini-large", "gemmini-small")
METHOD, BUDGET_S, QUICK_BUDGET_S = "exact", 60.0, 10.0
FACTORS = ("any", "exact")
"""Whether tiles may be cut at their ends, or must divide their dims."""


class Proof(NamedTuple):
    """One search and its proof; the fields name the columns that tell them apart."""

    model: str
    hardware: str
    method: str
    seed: int
    budget_s: float
    factors: str

    def __str__(self) -> str:
        return f"{self.model} on {self.hardware}, {self.factors} factors"


def reproduce(desk: Desk) -> str:
    """Search and prove every cell, each in the same time; draw and tell the gaps."""
    budget = QUICK_BUDGET_S if desk.quick else BUDGET_S
    proofs = [Proof(model, machine, METHOD, 0, budget, f) for f, machine, model in product(FACTORS, MACHINES, NETWORKS)]
    every = measure(desk, proofs, _row, Proof._fields)
    rows, exact = ([row for row in every if row["factors"] == factors] for factors in FACTORS)
    return f"""\
## Bounds

How far the schedules of `{METHOD}` can be from the best there is, with cut ends and fusion, by [the proof](solver.md):
at most {budget:g} seconds for the search, and {budget:g} for the proof.

```
{desk.command()}
```

{_table(rows)}
{_draw(desk, rows)}
Among schedules whose tiles divide their dims (`--exact-factors`):

{_table(exact)}"""


def proven(desk: Desk) -> dict[tuple[str, str], float]:
    """EDP that no schedule is below, by network and machine, from this experiment's rows in the same folder."""
    least: dict[tuple[str, str], float] = {}
    for row in replace(desk, name="bounds", quick=False).rows((*Proof._fields, "bound_edp_uj_cycles")):
        if row["factors"] == FACTORS[0]:
            cell = row["model"], row["hardware"]
            least[cell] = max(float(row["bound_edp_uj_cycles"]), least.get(cell, 0.0))
    return least


def _row(run: Proof) -> list[Row]:
    """One search and its proof. Interrupted, it is no result."""
    exact = run.factors == "exact"
    found = optimize(
        run.model,
        run.hardware,
        method=run.method,
        budget_seconds=run.budget_s,
        seed=run.seed,
        exact_factors=exact,
    )
    if found.stopped == "interrupt":
        raise KeyboardInterrupt
    bound = prove(found.best, run.budget_s, exact_factors=exact)
    gaps = bound.least.gaps(found.best.energy_pj, found.best.cycles)
    row: Row = {
        **run._asdict(),
        "edp_uj_cycles": found.best.edp_uj_cycles,
        "bound_edp_uj_cycles": bound.least.edp_uj_cycles,
        "gap": gaps["edp"],
        "energy_gap": gaps["energy"],
        "latency_gap": gaps["latency"],
        "search_s": round(found.seconds, 1),
        "proof_s": round(bound.seconds, 1),
    }
    return [row]


def _number(row: Row, name: str) -> float:
    return float(str(row[name]))


def _table(rows: Sequence[Row]) -> str:
    columns = (
        "network",
        "accelerator",
        "EDP",
        "bound",
        "gap",
        "energy gap",
        "latency gap",
        "search",
        "proof",
    )
    return markdown_table(
        columns,
        [
            (
                row["model"],
                row["hardware"],
                f"{_number(row, 'edp_uj_cycles'):.5g}",
                f"{_number(row, 'bound_edp_uj_cycles'):.5g}",
                *(f"{_number(row, name):.2%}" for name in ("gap", "energy_gap", "latency_gap")),
                *(f"{_number(row, name):.0f} s" for name in ("search_s", "proof_s")),
            )
            for row in rows
        ],
    )


def _draw(desk: Desk, rows: Sequence[Row]) -> str:
    with canvas(6.5, 0.26 * len(rows) + 0.8) as figure:
        axes: Axes = figure.subplots()
        colours = dict(zip(MACHINES, (COLOURS["joint"], COLOURS["layerwise"]), strict=True))
        places = range(len(rows))
        gaps = [100 * _number(row, "gap") for row in rows]
        axes.barh(places, gaps, color=[colours[str(row["hardware"])] for row in rows])
        axes.set_yticks(places, [f"{row['model']}, {row['hardware']}" for row in rows])
        axes.invert_yaxis()
        axes.set_xlabel("gap: EDP found above the EDP that no schedule is below (%)")
        return desk.draw(figure, "How far each schedule can be from the best there is")
