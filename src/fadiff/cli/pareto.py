"""`fadiff pareto`: schedules from the fastest to the most frugal."""

import csv
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fadiff.analysis.front import Row, front_rows
from fadiff.cli.coverage import Strict, refuse_gaps
from fadiff.cli.networks import ExactFactors, Hardware, Json, Model
from fadiff.cli.optimize import STOPPED, command_line
from fadiff.cli.sizes import Dims, Shapes, Unfold, Values, read_sizes
from fadiff.cli.tables import console, microjoules, percent, print_json, table
from fadiff.cost import save_schedule
from fadiff.errors import FadiffError
from fadiff.files import check_folder_of, write_bytes, write_text
from fadiff.hardware import load_machine
from fadiff.workload import load_model
from fadiff_command.signals import interruption

if TYPE_CHECKING:
    from fadiff.search.pareto import Front


def pareto(
    model: Model,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="A folder for the schedules.", show_default=False),
    ],
    hardware: Hardware = "gemmini-large",
    points: Annotated[int, typer.Option("--points", "-n", min=2, help="Schedules that are written at most.")] = 12,
    budget: Annotated[str, typer.Option("--budget", "-b", help="Wall-clock time at most: 30s, 2m, ...")] = "2m",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed, same machine: the same front.")] = 0,
    exact_factors: ExactFactors = False,
    shape: Shapes = None,
    dim: Dims = None,
    value: Values = None,
    unfold: Unfold = False,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Trade energy against latency: a front of schedules of which none is better in both.

    The search runs once; what it knows is then cut at many prices of a cycle.
    The folder gets a schedule file for each point, front.csv with the numbers,
    and a picture of them, front.svg (front.png too where matplotlib is there).
    A line below the points is proven: no schedule of the network is under it.

    Examples:
      fadiff pareto resnet18 -o resnet18-front
      fadiff pareto mobilenet_v2 --hardware eyeriss --points 6 --budget 1m -o front
    """
    from fadiff.cli.live import LiveDisplay
    from fadiff.report.front_svg import front_svg
    from fadiff.search.optimize import parse_duration
    from fadiff.search.pareto import pareto as run

    seconds = parse_duration(budget)
    check_folder_of(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise FadiffError(f"{output}: it is there and not an empty folder: choose another place")
    workload = load_model(model, *read_sizes(shape, dim, value), unfold=unfold)
    if strict:
        refuse_gaps(model, workload)
    machine = load_machine(hardware)
    with LiveDisplay(workload.name, machine.name, seconds, shown=sys.stderr.isatty()) as display:
        front = run(
            workload,
            machine,
            points=points,
            budget_seconds=seconds,
            seed=seed,
            exact_factors=exact_factors,
            watch=display.update,
        )
    asked = {"hardware": hardware, "points": points, "budget": budget, "seed": seed, "output": str(output)}
    flags = [*(["--unfold"] if unfold else []), *(["--exact-factors"] if exact_factors else [])]
    command = command_line("pareto", [model, *flags], asked, (("shape", shape), ("dim", dim), ("value", value)))
    rows = front_rows(front)
    pictures = {"front.svg": front_svg(front).encode(), **_png(front)}
    output.mkdir(exist_ok=True)
    for row, point in zip(rows, front.points, strict=True):
        made_by = {**point.schedule.made_by, "command": command}
        bound = None if front.bound is None else front.bound.least
        save_schedule(output / str(row["file"]), replace(point.schedule, made_by=made_by, bound=bound))
    write_text(output / "front.csv", _csv(rows))
    for name, data in pictures.items():
        write_bytes(output / name, data)
    if json:
        corners = [] if front.bound is None else [{"energy_pj": e, "cycles": t} for e, t in front.bound.corners]
        made = {"workload": workload.name, "machine": machine.name, "folder": str(output), "points": rows}
        print_json({**made, "proven_corners": corners, "seconds": front.seconds, "stopped": front.stopped})
        return
    out = console()
    out.print(_table(rows))
    ended = {"left_out": "a longer one may find more", "interrupted": interruption().title()}
    out.print(f"{STOPPED[front.stopped].format_map(ended)} {front.seconds:.1f} s.")
    written = "1 schedule" if len(rows) == 1 else f"{len(rows)} schedules"
    out.print(f"Written to {output}: {written}, front.csv, {', '.join(pictures)}.")


def _csv(rows: list[Row]) -> str:
    written = io.StringIO()
    writer = csv.DictWriter(written, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return written.getvalue()


def _table(rows: list[Row]) -> Table:
    made = table("Energy against latency", ("point", "cycles", "energy", "EDP", "gap", "cheapest at pJ a cycle"))
    for row in rows:
        low, high, gap = (row[key] for key in ("cheapest_from_pj_per_cycle", "cheapest_to_pj_per_cycle", "gap"))
        to = "or more" if high is None else f"to {high:,.4g}"
        made.add_row(
            str(row["point"]),
            f"{row['cycles']:,.0f}",
            microjoules(float(row["energy_pj"] or 0)),
            f"{row['edp_uj_cycles']:.4g}",
            "" if gap is None else percent(float(gap)),
            "" if low is None else f"{low:,.4g} {to}",
        )
    return made


def _png(front: "Front") -> dict[str, bytes]:
    """A figure for papers, where matplotlib is there."""
    from fadiff.report.figures import front_bytes

    try:
        return {"front.png": front_bytes(front, "png")}
    except FadiffError:
        return {}
