"""Options that ask something of schedules: files of constraints, and layers that are kept as they are."""

from pathlib import Path
from typing import Annotated

import typer

from fadiff.errors import FadiffError
from fadiff.schedule.constraints import Constraints, kept
from fadiff.schedule.constraints_file import load_constraints
from fadiff.schedule.file import read_schedule

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


def read_asked(constraints: Path | None, keep: Path | None, layers: str | None) -> Constraints:
    """All that options ask of a schedule."""
    if layers is not None and keep is None:
        raise FadiffError("--layers says which layers of a schedule are kept: name the schedule with --keep")
    asked = Constraints() if constraints is None else load_constraints(constraints)
    if keep is None:
        return asked
    names = None if layers is None else [name.strip() for name in layers.split(",") if name.strip()]
    return asked + kept(read_schedule(keep)[0], names)
