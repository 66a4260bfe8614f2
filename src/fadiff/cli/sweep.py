"""`fadiff sweep`: many networks on many machines, in one table."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from fadiff.analysis.units import plural
from fadiff.cli.networks import Json
from fadiff.cli.tables import console, cut, microjoules, print_json, short, table
from fadiff.errors import FadiffError
from fadiff.files import write_text

if TYPE_CHECKING:
    from fadiff.sweeps.folder import TypedRow
    from fadiff.sweeps.measure import Crew

FAILED = 1
"""The exit code where cells failed."""
MOST_SENTENCES = 5
"""Cells that failed, whose sentences are printed."""
PAGE = "sweep.html"


def sweep(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="What to search: a plan (.yaml, .json).")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the table and the schedules go.")
    ],
    on: Annotated[Literal["local", "ray"], typer.Option("--on", help="Who does it: this computer, or Ray.")] = "local",
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="Cells at a time; if not said, all cores.", show_default=False),
    ] = None,
    cores: Annotated[int, typer.Option("--cores", min=1, help="Cores of a cell.")] = 1,
    gpus: Annotated[
        float, typer.Option("--gpus", min=0, help="GPUs of a cell, on Ray; 0.5 has two cells share one.")
    ] = 0.0,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="The Ray cluster; if not said, RAY_ADDRESS, or a local one.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Search networks x machines x methods x objectives x seeds.

    One row a cell in FOLDER/sweep.csv, its schedule beside it, and a page with
    plots. What is done is kept: the same command goes on where it stopped, also
    after a kill, and with a longer plan. A cell that fails is a row that says
    why, and stops nothing; the exit code is 1 then.

    Examples:
      fadiff sweep plan.yaml -o runs
      fadiff sweep plan.yaml -o runs --jobs 4 --cores 2
      fadiff sweep plan.yaml -o runs --on ray --address 10.0.0.1:6379
    """
    from fadiff.cli.live_sweep import SweepDisplay
    from fadiff.report.sweeps import sweep_html
    from fadiff.sweeps.folder import sweep as run

    with SweepDisplay(shown=sys.stderr.isatty()) as display:
        try:
            rows = run(plan, output, _crew(on, jobs, cores, gpus, address), display.update)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what is done is kept, and the same command goes on from there") from None
    write_text(output / PAGE, sweep_html(rows, plan.stem))
    failed = [row for row in rows if row["error"]]
    if json:
        print_json({"folder": str(output), "failed": len(failed), "rows": rows})
    else:
        _tell(rows, failed, output)
    if failed:
        raise typer.Exit(FAILED)


def _crew(on: str, jobs: int | None, cores: int, gpus: float, address: str | None) -> "Crew":
    """Who does the cells."""
    if on == "ray":
        from fadiff.sweeps.on_ray import OnRay

        return OnRay(address or os.environ.get("RAY_ADDRESS") or "local", cores, jobs, gpus)
    if gpus:
        raise FadiffError(
            f"--gpus {gpus:g}: on this computer all processes share what there is: add --on ray, or leave it out"
        )
    if address is not None:
        raise FadiffError(f"--address {address}: it is that of a Ray cluster: add --on ray, or leave it out")
    from fadiff.sweeps.local import Local

    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Local(jobs or max(1, mine // cores))


def _tell(rows: "list[TypedRow]", failed: "list[TypedRow]", output: Path) -> None:
    out = console()
    done = [row for row in rows if not row["error"]]
    if done:
        out.print(_best(done))
    for row in failed[:MOST_SENTENCES]:
        out.print(cut(f"Failed: {row['network']} on {row['machine']}, {row['method']}: {row['error']}"))
    if failed:
        out.print(f"{plural(len(failed), 'cell')} of {len(rows)} failed: see the column error. They are tried again.")
    out.print(f"Written to {output}: sweep.csv with {plural(len(rows), 'row')}, {PAGE}, and schedules.")


def _best(done: "list[TypedRow]") -> Table:
    """The best cell of each network and objective."""
    from fadiff.report.sweeps import measure_of

    best: dict[tuple[str, str], TypedRow] = {}
    for row in done:
        column, at = measure_of(row["objective"])[0], (str(row["network"]), str(row["objective"]))
        best[at] = min(best.get(at, row), row, key=lambda one: float(str(one[column])))
    made = table("Best", ("network", "machine", "method", "for", "EDP", "energy", "cycles"), wide=4)
    for row in best.values():
        energy, cycles, edp = (float(str(row[name])) for name in ("energy_pj", "cycles", "edp_uj_cycles"))
        words = (str(row[name]) for name in ("network", "machine", "method", "objective"))
        made.add_row(*words, f"{edp:.4g}", microjoules(energy), short(cycles))
    return made
