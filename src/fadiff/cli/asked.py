"""Options that ask something of schedules: files of constraints, and layers that are kept as they are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fadiff.cli.tables import percent, table
from fadiff.errors import FadiffError
from fadiff.schedule.constraints import Constraints, kept
from fadiff.schedule.constraints_file import load_constraints
from fadiff.schedule.file import read_schedule
from fadiff.schedule.ir import LowerBound

if TYPE_CHECKING:
    from fadiff.hardware import Machine
    from fadiff.search.asking import ConstraintCosts
    from fadiff.workload import Workload

ConstraintsFile = Annotated[
    Path | None,
    typer.Option(
        "--constraints",
        metavar="FILE",
        help="Only schedules that keep what a file asks: factors, orders, what is fused (docs/constraints.md).",
        show_default=False,
    ),
]
KeptSchedule = Annotated[
    Path | None,
    typer.Option("--keep", metavar="FILE", help="A schedule whose layers are kept as they are.", show_default=False),
]
KeptLayers = Annotated[
    str | None,
    typer.Option(
        "--layers",
        metavar="NAMES",
        help="With --keep: which layers, as names or patterns with commas between them (default: all).",
        show_default=False,
    ),
]
PriceConstraints = Annotated[
    bool,
    typer.Option(
        "--price-constraints",
        help="Search again without all constraints and without each, each time within the budget: what do they cost?",
    ),
]
IN_BOUND = {"all": "yes", "part": "in part", "no": "no"}
"""How much of a constraint a bound takes into account."""


def read_asked(constraints: Path | None, keep: Path | None, layers: str | None) -> Constraints:
    """All that options ask of a schedule."""
    if layers is not None and keep is None:
        raise FadiffError("--layers says which layers of a schedule are kept: name the schedule with --keep")
    asked = Constraints() if constraints is None else load_constraints(constraints)
    if keep is None:
        return asked
    names = None if layers is None else [name.strip() for name in layers.split(",") if name.strip()]
    return asked + kept(read_schedule(keep)[0], names)


def told_constraints(
    workload: "Workload", machine: "Machine", asked: Constraints, bound: LowerBound | None
) -> dict[str, str]:
    """Every constraint, and whether the bound takes it into account; there is none without constraints."""
    if not asked:
        return {}
    from fadiff.search.restrictions import Restrictions

    restrictions = Restrictions(workload, machine, asked)
    return {str(one): "" if bound is None else IN_BOUND[restrictions.told_by_bound(one)] for one in asked.given}


def constraints_table(told: dict[str, str], costs: "ConstraintCosts | None" = None, *, proven: bool = True) -> Table:
    """What was asked: in the bound or not, and what it costs."""
    columns = ("constraint", *(["in the bound"] if proven else []), *(["costs at least"] if costs is not None else []))
    made = table("Asked of the schedule", columns, wide=1)
    shares = {} if costs is None else {str(one): percent(share) for one, share in costs.each}
    for one, counts in told.items():
        made.add_row(one, *([counts] if proven else []), *([shares[one]] if one in shares else []))
    return made


def constraints_json(told: dict[str, str], costs: "ConstraintCosts | None" = None) -> dict[str, Any]:
    """The same for programs; nothing where nothing was asked."""
    shares = {} if costs is None else {str(one): share for one, share in costs.each}
    listed = [
        {"constraint": one, **({"in_bound": counts} if counts else {}), **({"cost": shares[one]} if shares else {})}
        for one, counts in told.items()
    ]
    made: dict[str, Any] = {"constraints": listed} if told else {}
    if costs is not None:
        made["cost_of_constraints"] = costs.all
    return made
