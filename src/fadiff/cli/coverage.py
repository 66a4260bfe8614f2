"""What of a network is not modelled: the option that refuses it, and how every command tells it."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from fadiff.errors import FadiffError
from fadiff.workload import Workload

SHOWN_IN_ERROR = 3

Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse a network of which something with MACs is not modelled.")
]


def refuse_gaps(origin: object, workload: Workload) -> None:
    """Refuse a network of which something multiplies, or may do so, that no layer stands for."""
    if gaps := workload.coverage.gaps:
        told = ", ".join(f"{row.type} {row.name!r} ({row.reason})" for row in gaps[:SHOWN_IN_ERROR])
        more = f" and {len(gaps) - SHOWN_IN_ERROR} more" if len(gaps) > SHOWN_IN_ERROR else ""
        raise FadiffError(f"{origin}: not all of it is modelled: {told}{more}; without --strict they are left out")


def coverage_json(workload: Workload) -> dict[str, Any]:
    """The key that documents of all commands have."""
    return {"coverage": asdict(workload.coverage)}
