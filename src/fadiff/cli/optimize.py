"""`fadiff optimize`: find a schedule."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fadiff.cli.networks import Json, Model
from fadiff.cli.summary import groups_table, totals_table
from fadiff.cli.tables import console, microjoules, print_json, short, table
from fadiff.cost import Evaluation, evaluate, save_schedule
from fadiff.errors import FadiffError
from fadiff.files import write_text
from fadiff.hardware import load_hardware
from fadiff.report.breakdown import breakdown
from fadiff.workload import load_model

if TYPE_CHECKING:
    from fadiff.search.driver import TracePoint

STOPPED = {
    "done": "The search ran to its end.",
    "budget": "The budget ended the search: a longer one may find more.",
    "interrupt": "Interrupted: this is the best legal schedule so far.",
}


def optimize(
    model: Model,
    hardware: Annotated[
        str,
        typer.Option(
            "--hardware", "-H", metavar="NAME_OR_FILE", help="A built-in accelerator (fadiff hardware) or a file."
        ),
    ] = "gemmini-large",
    method: Annotated[str, typer.Option("--method", "-m", help="How to search: gradient, or greedy.")] = "gradient",
    budget: Annotated[str, typer.Option("--budget", "-b", help="Wall-clock time at most: 30s, 2m, ...")] = "60s",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed, same machine: the same schedule.")] = 0,
    restarts: Annotated[str, typer.Option("--restarts", help="Descents that run at once: a number, or auto.")] = "auto",
    objective: Annotated[str, typer.Option("--objective", help="What to minimize: edp, energy or latency.")] = "edp",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write the schedule.", show_default=False),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Where to write the trace of the search.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Find a schedule for a network on an accelerator.

    Mapping and fusion are optimized together, by gradient descent over many
    restarts and an exact search around what they propose. Ctrl-C stops early
    and keeps the best schedule so far. The schedule file is self-contained:
    fadiff evaluate and fadiff verify need nothing else.

    Examples:
      fadiff optimize resnet18 -o resnet18.schedule.json
      fadiff optimize vgg16:batch=4 --hardware gemmini-small --budget 30s -o vgg16.json
      fadiff optimize my-network.yaml --hardware my-chip.yaml --objective energy -o mine.json
    """
    from fadiff.cli.live import LiveDisplay
    from fadiff.search.optimize import find_method, parse_duration
    from fadiff.search.optimize import optimize as run

    find_method(method)
    seconds = parse_duration(budget)
    for path in (output, trace):
        if path is not None:
            _check_output(path)
    workload, machine = load_model(model), load_hardware(hardware)
    with LiveDisplay(workload.name, machine.name, seconds, shown=sys.stderr.isatty()) as display:
        result = run(
            workload,
            machine,
            method=method,
            budget_seconds=seconds,
            seed=seed,
            restarts=_restarts(restarts),
            objective=objective,  # pyright: ignore[reportArgumentType]  (checked by the search)
            watch=display.update,
        )
    best = evaluate(result.schedule) if output is None else save_schedule(output, result.schedule)
    if trace is not None:
        write_text(trace, _trace_text(result.trace, result.schedule.made_by))
    costs = breakdown(best)
    reasons = _boundaries(best, objective, priced=result.stopped == "done") if method != "greedy" else []
    if json:
        summary = asdict(costs)
        del summary["layers"]
        compared = {"greedy": _cost_json(result.greedy), "unfused": _cost_json(result.unfused)}
        made: dict[str, Any] = {"schedule_file": None if output is None else str(output), **summary}
        made["edges_fused"] = len(best.schedule.fused_edges)
        made |= {"compared_with": compared, "not_fused": reasons, "seconds": result.seconds, "stopped": result.stopped}
        print_json(made)
        return
    out = console()
    out.print(totals_table(costs))
    out.print(_comparison(best, result.unfused, result.greedy))
    if costs.fused_groups:
        out.print(groups_table(costs))
    if reasons:
        out.print(_reasons_table(reasons))
    out.print(f"{STOPPED[result.stopped]} {result.seconds:.1f} s.")
    if output is None:
        out.print("Not saved: add -o FILE to keep this schedule.")
    else:
        out.print(f"Written to {output}. Next: fadiff evaluate {output}, fadiff verify {output}")


def _boundaries(best: Evaluation, objective: str, *, priced: bool) -> list[dict[str, str]]:
    """Why each tensor that goes through DRAM does; what fusing it would cost is priced only after a full search."""
    from fadiff.search.reasons import boundaries

    found = boundaries(best, objective, priced=priced)  # pyright: ignore[reportArgumentType]
    return [boundary._asdict() for boundary in found]


def _comparison(best: Evaluation, unfused: Evaluation, greedy: Evaluation) -> Table:
    """This schedule against the best one without fusion, and against the heuristic."""
    made = table("Compared", ("schedule", "energy", "cycles", "EDP", "DRAM words", "EDP ratio"))
    for name, one in (("this one", best), ("best unfused", unfused), ("greedy", greedy)):
        made.add_row(
            name,
            microjoules(one.energy_pj),
            short(one.cycles),
            f"{one.edp_uj_cycles:.4g}",
            short(one.l3_words),
            f"{one.edp_uj_cycles / best.edp_uj_cycles:.3f}",
        )
    return made


def _reasons_table(reasons: list[dict[str, str]]) -> Table:
    """What keeps groups from growing."""
    made = table("Tensors through DRAM, and why", ("from", "to", "cause", "detail"), wide=4)
    for reason in reasons:
        made.add_row(reason["source"], reason["target"], reason["cause"], reason["detail"])
    return made


def _cost_json(evaluation: Evaluation) -> dict[str, float]:
    return {**evaluation.stated().model_dump(), "l3_words": evaluation.l3_words}


def _trace_text(points: "list[TracePoint]", made_by: object) -> str:
    import json

    rows = [point._asdict() for point in points]
    return json.dumps({"format": "fadiff-trace/1", "made_by": made_by, "points": rows}, indent=1) + "\n"


def _restarts(text: str) -> int | None:
    if text == "auto":
        return None
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise FadiffError(f"restarts is {text!r}: give a positive number, or auto")


def _check_output(path: Path) -> None:
    """Find out before the search, which may be long, that its result could not be written."""
    if path.is_dir():
        raise FadiffError(f"{path}: this is a folder: name a file in it")
    if not path.parent.is_dir():
        raise FadiffError(f"{path}: its folder {path.parent} does not exist: create it, or choose another place")
