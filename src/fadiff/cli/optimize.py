"""`fadiff optimize`: find a schedule."""

from collections.abc import Callable
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from fadiff import __version__
from fadiff.cli.networks import Json, Model
from fadiff.cli.summary import groups_table, totals_table
from fadiff.cli.tables import console, print_json
from fadiff.cost import evaluate, save_schedule
from fadiff.errors import FadiffError
from fadiff.hardware import Hardware, load_hardware
from fadiff.report.breakdown import breakdown
from fadiff.schedule import Schedule
from fadiff.workload import Workload, load_model


def _greedy(workload: Workload, hardware: Hardware) -> Schedule:
    from fadiff.search import greedy

    return greedy(workload, hardware)


METHODS: dict[str, Callable[[Workload, Hardware], Schedule]] = {"greedy": _greedy}
"""Search methods by name. Each imports what it needs when it runs."""


def optimize(
    model: Model,
    hardware: Annotated[
        str,
        typer.Option(
            "--hardware", "-H", metavar="NAME_OR_FILE", help="A built-in accelerator (fadiff hardware) or a file."
        ),
    ] = "gemmini-large",
    method: Annotated[str, typer.Option("--method", "-m", help=f"How to search: {', '.join(METHODS)}.")] = "greedy",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write the schedule.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Find a schedule for a network on an accelerator.

    The schedule file is self-contained: fadiff evaluate and fadiff verify
    need nothing else.

    Examples:
      fadiff optimize resnet18 -o resnet18.schedule.json
      fadiff optimize vgg16:batch=4 --hardware gemmini-small -o vgg16.json
      fadiff optimize my-network.yaml --hardware my-chip.yaml -o mine.json
    """
    search = _method(method)
    if output is not None:
        _check_output(output)
    workload, machine = load_model(model), load_hardware(hardware)
    # The heuristic leaves nothing to chance, so every seed is seed 0.
    made_by = {"version": __version__, "method": method, "seed": 0}
    schedule = replace(search(workload, machine), made_by=made_by)
    evaluation = evaluate(schedule) if output is None else save_schedule(output, schedule)
    costs = breakdown(evaluation)
    if json:
        summary = asdict(costs)
        del summary["layers"]
        print_json({"schedule_file": None if output is None else str(output), **summary})
        return
    out = console()
    out.print(totals_table(costs))
    if costs.fused_groups:
        out.print(groups_table(costs))
    if output is None:
        out.print("Not saved: add -o FILE to keep this schedule.")
    else:
        out.print(f"Written to {output}. Next: fadiff evaluate {output}, fadiff verify {output}")


def _method(name: str) -> Callable[[Workload, Hardware], Schedule]:
    if name in METHODS:
        return METHODS[name]
    close = get_close_matches(name, METHODS, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise FadiffError(f"method {name!r} is unknown{hint}: use one of {', '.join(METHODS)}")


def _check_output(path: Path) -> None:
    """Find out before the search, which may be long, that its result could not be written."""
    if path.is_dir():
        raise FadiffError(f"{path}: this is a folder: name a file in it")
    if not path.parent.is_dir():
        raise FadiffError(f"{path}: its folder {path.parent} does not exist: create it, or choose another place")
