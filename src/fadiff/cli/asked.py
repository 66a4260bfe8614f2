"""Options that ask something of schedules: files of constraints, and layers that are kept as they are."""

from collections.abc import Mapping as MappingOf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fadiff.cli.tables import cut, percent, table
from fadiff.errors import FadiffError
from fadiff.schedule.asked import Asked
from fadiff.schedule.constraints import Constraints, kept
from fadiff.schedule.constraints_file import load_constraints
from fadiff.schedule.file import read_schedule
from fadiff.schedule.ir import LowerBound

if TYPE_CHECKING:
    from fadiff.hardware import Machine
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
    if names == []:
        raise FadiffError(f"--layers {layers!r} names no layer: write for example conv1,conv2, or leave it out for all")
    return asked + kept(read_schedule(keep)[0], names)


def in_bound(workload: "Workload", machine: "Machine", asked: Constraints, bound: LowerBound | None) -> dict[str, str]:
    """Whether a bound takes each constraint into account; empty where there is none."""
    if not asked or bound is None:
        return {}
    from fadiff.search.restrictions import Restrictions

    restrictions = Restrictions(workload, machine, asked)
    return {str(one): IN_BOUND[restrictions.told_by_bound(one)] for one in asked.given}


def print_asked(out: Console, asked: Asked | None, counts: MappingOf[str, str] = {}) -> None:
    """What was asked, in the bound or not, and what it costs; nothing where nothing was asked."""
    if asked is None:
        return
    priced = asked.cost is not None
    columns = ("constraint", *(["in the bound"] if counts else []), *(["costs at least"] if priced else []))
    made = table("Asked of the schedule", columns, wide=1)
    for one in asked.constraints:
        counted = [counts[one.constraint]] if counts else []
        made.add_row(one.constraint, *counted, *([] if one.cost is None else [percent(one.cost)]))
    out.print(made)
    if priced:
        out.print(cut(str(asked)))


def asked_json(asked: Asked | None, counts: MappingOf[str, str] = {}) -> dict[str, Any]:
    """The same for programs; nothing where nothing was asked."""
    if asked is None:
        return {}
    listed: list[dict[str, Any]] = [
        {
            "constraint": one.constraint,
            **({"in_bound": counts[one.constraint]} if counts else {}),
            **({} if one.cost is None else {"cost": one.cost}),
        }
        for one in asked.constraints
    ]
    return {"constraints": listed, **({} if asked.cost is None else {"cost_of_constraints": asked.cost})}
