"""`fadiff bound`: what no schedule can undercut, and how far a schedule is from it."""

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fadiff.cli.asked import (
    ConstraintsFile,
    KeptLayers,
    KeptSchedule,
    asked_json,
    in_bound,
    print_asked,
    read_asked,
)
from fadiff.cli.coverage import Strict, coverage_json, refuse_gaps
from fadiff.cli.errors import check_outputs
from fadiff.cli.networks import OBJECTIVE_HELP, ExactFactors, Json
from fadiff.cli.sizes import Dims, Shapes, Unfold, Values, read_sizes
from fadiff.cli.tables import console, facts, microjoules, percent, print_json, table
from fadiff.cost import Evaluation, evaluate, load_schedule, save_schedule
from fadiff.errors import FadiffError
from fadiff.file_kinds import SCHEDULE, kind_of_file
from fadiff.schedule.constraints_file import asked_of
from fadiff.schedule.constraints_written import all_asked
from fadiff.workload import load_model

if TYPE_CHECKING:
    from fadiff.cli.live import LiveDisplay
    from fadiff.search.objective import Objective
    from fadiff.search.solver.network_bound import Bound

MOST_ROWS = 12
"""Layers that the table lists."""


def bound(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_MODEL",
            help="A schedule file, or a network as fadiff optimize takes it.",
            show_default=False,
        ),
    ],
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            "-H",
            metavar="NAME_OR_FILE",
            help="For a network: a built-in accelerator or a file (default: gemmini-large).",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[str, typer.Option("--budget", "-b", help="Wall-clock time at most: 30s, 2m, ...")] = "60s",
    objective: Annotated[str, typer.Option("--objective", help=f"What to prove most of: {OBJECTIVE_HELP}.")] = "edp",
    gap: Annotated[
        float, typer.Option("--gap", min=0.0, help="Stop where the gap is this small, in percent of the bound.")
    ] = 0.1,
    exact_factors: ExactFactors = False,
    constraints: ConstraintsFile = None,
    keep: KeptSchedule = None,
    layers: KeptLayers = None,
    free: Annotated[
        bool,
        typer.Option(
            "--free", help="Of all schedules, also where the file says under which constraints this one was made."
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write the schedule with its bound.", show_default=False
        ),
    ] = None,
    shape: Shapes = None,
    dim: Dims = None,
    value: Values = None,
    unfold: Unfold = False,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Prove how good a schedule is: no schedule of the network costs less than the bound.

    The bound holds for every mapping and every fusion that the model allows on
    the machine. It improves with time. For a network, up to half of the time goes
    into finding a schedule to compare with. Ctrl-C or SIGTERM stops early and
    keeps what is proven so far. Of a schedule that was made under constraints,
    the bound is that of all that keep them.

    Examples:
      fadiff bound resnet18.schedule.json --budget 5m -o resnet18.proven.json
      fadiff bound resnet18 --hardware eyeriss --budget 2m --json
    """
    from fadiff.cli.live import LiveDisplay
    from fadiff.search.objective import STATED, Objective
    from fadiff.search.optimize import optimize, parse_duration
    from fadiff.search.solver.network_bound import prove

    wanted = Objective.of(objective)
    check_outputs((output,), (target, constraints, keep))
    asked_for, told = read_asked(constraints, keep, layers), ""
    if free and asked_for:
        raise FadiffError("--free asks for nothing: leave it away, or --constraints and --keep")
    seconds = parse_duration(budget)
    if kind_of_file(Path(target)) == SCHEDULE:
        given = {"--hardware": hardware, "--shape": shape, "--dim": dim, "--value": value, "--unfold": unfold}
        if extra := [option for option, what in given.items() if what]:
            raise FadiffError(f"{target} is a schedule, which has its own network and machine: leave {extra[0]} away")
        near = evaluate(load_schedule(target))
        if not free and not asked_for and near.schedule.asked is not None:
            made_under = asked_of(near.schedule, target)
            asked_for = made_under or asked_for
            told = (
                "" if made_under else f"{near.schedule.asked} The file does not say them in full: give --constraints."
            )
        if strict:
            refuse_gaps(target, near.schedule.workload)
        if exact_factors and not near.schedule.exact_factors:
            raise FadiffError(
                f"{target} has tiles that are cut at their ends: leave --exact-factors away, or find a schedule with "
                "fadiff optimize --exact-factors first"
            )
        asked_for.check(near.schedule.workload, near.schedule.machine)
        if broken := asked_for.broken(near.schedule):
            raise FadiffError(
                f"{target} does not keep what is asked ({broken[0]}): find a schedule that does with fadiff optimize "
                "--constraints first"
            )
    else:
        workload = load_model(target, *read_sizes(shape, dim, value), unfold=unfold)
        if strict:
            refuse_gaps(target, workload)
        found = optimize(
            workload,
            hardware or "gemmini-large",
            budget_seconds=seconds / 2,
            objective=wanted,
            exact_factors=exact_factors,
            constraints=asked_for,
        )
        near, seconds = found.best, seconds - found.seconds
        if found.stopped == "interrupt":
            raise _unproven(near, output)
    schedule = near.schedule
    with LiveDisplay(schedule.workload.name, schedule.machine.name, seconds, shown=sys.stderr.isatty()) as display:
        watch = partial(_show, display, near)
        try:
            proven = prove(
                near, seconds, wanted, gap / 100, watch=watch, exact_factors=exact_factors, constraints=asked_for
            )
        except KeyboardInterrupt:
            raise _unproven(near, output) from None
    listed = all_asked(asked_for.given), in_bound(schedule.workload, schedule.machine, asked_for, proven.least)
    if output is not None:
        save_schedule(output, replace(schedule, bound=proven.least))
    if json:
        print_json(_document(proven, near, wanted) | asked_json(*listed))
        return
    out = console()
    out.print(_facts(proven, near, wanted))
    out.print(_losses(proven, "EDP" if wanted in STATED else wanted.name))
    print_asked(out, *listed)
    if told:
        out.print(told)
    if output is not None:
        out.print(f"Written to {output}, the bound with it.")


def _unproven(near: Evaluation, output: Path | None) -> KeyboardInterrupt:
    """What an interrupt says that came before any bound was proven; the schedule is saved all the same."""
    if output is None:
        return KeyboardInterrupt("nothing is proven yet")
    save_schedule(output, near.schedule)
    return KeyboardInterrupt(f"nothing is proven yet; the schedule without a bound is in {output}")


def _show(display: "LiveDisplay", near: Evaluation, found: "Bound") -> None:
    display.proved(found, found.gap(near))


def _facts(proven: "Bound", near: Evaluation, objective: "Objective") -> Table:
    from fadiff.search.objective import STATED

    schedule = near.schedule

    def told(cost: float, least: float, text: Callable[[float], str]) -> str:
        return f"{text(cost)}; no {proven.least.meant} is below {text(least)} (gap {percent(cost / least - 1)})"

    return facts(
        (
            ("schedule", f"{schedule.workload.name} on {schedule.machine.name}"),
            ("energy", told(near.energy_pj, proven.least.energy_pj, microjoules)),
            ("latency", told(near.cycles, proven.least.cycles, "{:,.0f} cycles".format)),
            ("EDP", told(near.edp_uj_cycles, proven.least.edp_uj_cycles, "{:.5g} uJ*cycles".format)),
            *([] if objective in STATED else [(objective.name, f"gap {percent(proven.gap(near, objective))}")]),
            ("proof", f"{proven.seconds:.1f} s; each of the three bounds holds on its own"),
            *schedule.workload.coverage.facts,
        )
    )


def _losses(proven: "Bound", measure: str) -> Table:
    made = table(f"Where the gap is, in percent of the {measure}", ("layers", "cost", "proven", "open"))
    for one in proven.layers[:MOST_ROWS]:
        first, *others = one.layers
        more = f" and {len(others)} alike" if others else ""
        made.add_row(f"{first}{more}", *(percent(share / 2) for share in (one.cost, one.bound, one.loss)))
    if rest := proven.layers[MOST_ROWS:]:
        sums = (sum(getattr(one, what) for one in rest) for what in ("cost", "bound", "loss"))
        made.add_row(f"{len(rest)} others", *(percent(share / 2) for share in sums))
    return made


def _document(proven: "Bound", near: Evaluation, objective: "Objective") -> dict[str, object]:
    from fadiff.search.objective import STATED

    schedule = near.schedule
    return {
        "workload": schedule.workload.name,
        "machine": schedule.machine.name,
        **asdict(proven.least),
        "gap": proven.gap(near),
        **(
            {}
            if objective in STATED
            else {"objective": objective.name, "gap_of_objective": proven.gap(near, objective)}
        ),
        "schedule": near.stated().model_dump(),
        "layers": [{**one._asdict(), "open": one.loss} for one in proven.layers],
        **coverage_json(schedule.workload),
        "seconds": proven.seconds,
    }
