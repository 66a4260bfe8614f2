"""`fadiff optimize`: find a schedule."""

import shlex
import sys
from collections.abc import Mapping as MappingOf
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fadiff.analysis.breakdown import breakdown, first_memory_bytes
from fadiff.analysis.search_trace import parse_trace
from fadiff.analysis.units import size_text
from fadiff.cli.asked import (
    ConstraintsFile,
    KeptLayers,
    KeptSchedule,
    PriceConstraints,
    asked_json,
    in_bound,
    print_asked,
    read_asked,
)
from fadiff.cli.coverage import Strict, refuse_gaps
from fadiff.cli.errors import check_outputs
from fadiff.cli.networks import OBJECTIVE_HELP, ExactFactors, Hardware, Json, Model
from fadiff.cli.report import write_report
from fadiff.cli.sizes import Dims, Shapes, Unfold, Values, read_sizes
from fadiff.cli.summary import groups_table, totals_table
from fadiff.cli.tables import console, microjoules, percent, print_json, short, table
from fadiff.cost import Evaluation, evaluate, load_schedule, save_schedule
from fadiff.errors import FadiffError
from fadiff.files import write_text
from fadiff.hardware import load_machine
from fadiff.schedule.constraints import Constraints
from fadiff.schedule.naming import short_named
from fadiff.workload import load_model
from fadiff_command.signals import interruption

if TYPE_CHECKING:
    from fadiff.cli.live import LiveDisplay
    from fadiff.search.driver import Result, TracePoint
    from fadiff.search.objective import Objective
    from fadiff.search.solver.network_bound import Bound

MOST_OF_A_REASON = 3
"""Tensors of one reason that are listed each: of more only the first, and how many others there are."""
STOPPED = {
    "done": "The search ran to its end.",
    "budget": "The budget ended the search: {left_out}.",
    "interrupt": "{interrupted}: this is the best legal schedule so far.",
}


def optimize(
    model: Model,
    hardware: Hardware = "gemmini-large",
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            help="How to search: exact, joint, descent, layerwise, layerwise-tuned, genetic, bayesian, random, greedy.",
        ),
    ] = "exact",
    budget: Annotated[str, typer.Option("--budget", "-b", help="Wall-clock time at most: 30s, 2m, ...")] = "60s",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed, same machine: the same schedule.")] = 0,
    restarts: Annotated[str, typer.Option("--restarts", help="Descents that run at once: a number, or auto.")] = "auto",
    objective: Annotated[str, typer.Option("--objective", help=f"What to minimize: {OBJECTIVE_HELP}.")] = "edp",
    max_energy: Annotated[
        float | None,
        typer.Option(
            "--max-energy", metavar="UJ", help="Energy that the schedule may take at most.", show_default=False
        ),
    ] = None,
    max_latency: Annotated[
        float | None,
        typer.Option(
            "--max-latency", metavar="CYCLES", help="Cycles that the schedule may take at most.", show_default=False
        ),
    ] = None,
    exact_factors: ExactFactors = False,
    start: Annotated[
        Path | None,
        typer.Option(
            "--start",
            metavar="FILE",
            help="A schedule to start from, also of another batch, network or machine.",
            show_default=False,
        ),
    ] = None,
    constraints: ConstraintsFile = None,
    keep: KeptSchedule = None,
    layers: KeptLayers = None,
    price_constraints: PriceConstraints = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write the schedule.", show_default=False),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Where to write the trace of the search.", show_default=False),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Where to write an HTML report of it.", show_default=False),
    ] = None,
    shape: Shapes = None,
    dim: Dims = None,
    value: Values = None,
    unfold: Unfold = False,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Find a schedule for a network on an accelerator.

    Mapping and fusion are optimized together: branch and bound and climbs on
    the exact model for every layer, and all groups that fit (method exact). What
    is left of the time proves a bound: no schedule of the network is below it.
    Ctrl-C or SIGTERM stops early and keeps the best schedule so far. The schedule
    file is self-contained: fadiff evaluate and fadiff verify need nothing else.

    Examples:
      fadiff optimize resnet18 -o resnet18.schedule.json
      fadiff optimize vgg16:batch=4 --hardware eyeriss --budget 30s -o vgg16.json
      fadiff optimize mobilenet_v2 -o mobilenet_v2.json --report mobilenet_v2.html
      fadiff optimize my-network.yaml --hardware my-chip.yaml --objective energy -o mine.json
      fadiff optimize mobilenet_v1 --objective energy --max-latency 2e6 -o fast-enough.json
      fadiff optimize mobilenet_v1 --objective "energy + 2*latency" -o leaking.json
      fadiff optimize resnet18:batch=4 --start resnet18.schedule.json -o resnet18-4.json
      fadiff optimize my-network.onnx --shape input=1x3x224x224 -o mine.json
    """
    from fadiff.cli.live import LiveDisplay
    from fadiff.search.asking import priced
    from fadiff.search.driver import Limits
    from fadiff.search.objective import EDP, STATED, Objective
    from fadiff.search.optimize import (
        ALIASES,
        PROVEN_METHODS,
        UNFUSED_METHODS,
        find_method,
        parse_duration,
    )
    from fadiff.search.optimize import optimize as run

    find_method(method)
    wanted = Objective.of(objective)
    seconds, proves = parse_duration(budget), ALIASES.get(method, method) in PROVEN_METHODS
    check_outputs((output, trace, report), (model, hardware, start, constraints, keep))
    begin = None if start is None else load_schedule(start)
    asked_for = read_asked(constraints, keep, layers)
    if price_constraints and not asked_for:
        raise FadiffError("--price-constraints has nothing to price: ask for something with --constraints or --keep")
    limits = Limits(inf if max_energy is None else max_energy * 1e6, inf if max_latency is None else max_latency)
    workload = load_model(model, *read_sizes(shape, dim, value), unfold=unfold)
    if strict:
        refuse_gaps(model, workload)
    machine = load_machine(hardware)
    with LiveDisplay(workload.name, machine.name, seconds, shown=sys.stderr.isatty()) as display:
        result = run(
            workload,
            machine,
            method=method,
            budget_seconds=seconds,
            proof_follows=proves,
            seed=seed,
            restarts=_restarts(restarts),
            objective=wanted,
            limits=limits,
            exact_factors=exact_factors,
            start=begin,
            constraints=asked_for,
            watch=display.update,
        )
        proves = proves and result.stopped != "interrupt"
        asked_of = {"exact_factors": exact_factors, "constraints": asked_for}
        proven = _proven(result, seconds, wanted, display, asked_of) if proves else None
    asked_of_it, pricing = result.schedule.asked, price_constraints and bool(asked_for)
    if pricing:
        again: Any = {"method": method, "seed": seed, "objective": wanted}
        again |= {"limits": limits, "exact_factors": exact_factors, "start": begin}
        asked_of_it = priced(
            result.best,
            asked_for,
            lambda left: run(workload, machine, budget_seconds=seconds, constraints=left, **again).best,
            wanted,
            limits,
        )
    bound = None if proven is None else proven.least
    limited = proven if limits != Limits() else None
    gap_within = None if limited is None else limited.gap_within(result.best, limits, wanted)
    gap = None if proven is None or wanted in STATED else proven.gap(result.best, wanted)
    asked: dict[str, str | int] = {"hardware": hardware, "method": method, "budget": budget, "seed": seed}
    asked |= {"objective": wanted.name} if wanted != EDP else {}
    asked |= {"restarts": restarts} if restarts != "auto" else {}
    asked |= {"max-energy": str(max_energy)} if max_energy is not None else {}
    asked |= {"max-latency": str(max_latency)} if max_latency is not None else {}
    files = (("start", start), ("constraints", constraints), ("keep", keep), ("layers", layers))
    asked |= {option: str(given) for option, given in files if given is not None}
    sizes = (("shape", shape), ("dim", dim), ("value", value))
    counts = in_bound(workload, machine, asked_for, bound)
    switches = {"--unfold": unfold, "--exact-factors": exact_factors, "--price-constraints": pricing}
    flags = [switch for switch, on in switches.items() if on]
    made_by = {**result.schedule.made_by, "command": command_line("optimize", [model, *flags], asked, sizes)}
    schedule = replace(result.schedule, made_by=made_by, bound=bound, asked=asked_of_it)
    best = evaluate(schedule) if output is None else save_schedule(output, schedule)
    steps = _trace_text(result.trace, made_by)
    if trace is not None:
        write_text(trace, steps)
    if report is not None:
        write_report(report, evaluate(short_named(best.schedule)), trace=parse_trace(steps, "the trace"))
    carried = None if result.carried is None else result.carried.told(str(start))
    costs = breakdown(best)
    reasons = (
        _boundaries(best, wanted, asked_for, priced=result.stopped == "done") if method not in UNFUSED_METHODS else []
    )
    if json:
        summary = asdict(costs)
        del summary["layers"], summary["asked"]
        compared = {"greedy": _cost_json(result.greedy), "unfused": _cost_json(result.unfused)}
        if result.unfused.schedule.fused_edges:
            del compared["unfused"]
        made: dict[str, Any] = {"schedule_file": None if output is None else str(output), **summary}
        made["gap"] = costs.gaps.get("edp")
        made |= {} if gap_within is None else {"gap_within_limits": gap_within}
        made |= {} if gap is None else {"objective": wanted.name, "gap_of_objective": gap}
        made["edges_fused"] = len(best.schedule.fused_edges)
        made |= asked_json(asked_of_it, counts)
        made |= {"compared_with": compared, "not_fused": reasons, "seconds": result.seconds, "stopped": result.stopped}
        made |= {} if carried is None else {"start": carried}
        made |= {"left_out": result.left_out} if result.left_out else {}
        print_json(made)
        return
    out = console()
    if carried is not None:
        out.print(carried)
    out.print(totals_table(costs))
    out.print(_comparison(best, result.unfused, result.greedy))
    if costs.fused_groups:
        out.print(groups_table(costs))
    if reasons:
        out.print(reasons_table(reasons))
    print_asked(out, asked_of_it, counts)
    if gap_within is not None:
        out.print(f"Within the limits it is at most {percent(gap_within)} above the best there is ({wanted.name}).")
    elif gap is not None:
        out.print(f"It is at most {percent(gap)} above the best there is ({wanted.name}).")
    ended = {"left_out": result.left_out or "a longer one may find more", "interrupted": interruption().title()}
    told = STOPPED[result.stopped].format_map(ended)
    out.print(f"{told} {result.seconds:.1f} s.")
    if output is None:
        out.print("Not saved: add -o FILE to keep this schedule.")
    else:
        out.print(f"Written to {output}. Next: fadiff evaluate {output}, fadiff verify {output}")
    if report is not None:
        out.print(f"Report: {report}")


def _proven(
    result: "Result", seconds: float, objective: "Objective", display: "LiveDisplay", asked: dict[str, Any]
) -> "Bound | None":
    """What no schedule undercuts, proven in what is left of the time; None where nothing is."""
    from fadiff.search.solver.network_bound import NEAR_GAP, PROVEN_GAP, prove

    if (left := seconds - result.seconds) <= 0:
        return None

    def watch(bound: "Bound") -> None:
        display.proved(bound, bound.gap(result.best), result.seconds)

    try:
        return prove(
            result.best,
            left,
            objective,
            PROVEN_GAP,
            NEAR_GAP,
            watch,
            result.stress,
            **asked,
        )
    except KeyboardInterrupt:
        # Before anything was proven: the schedule is there all the same.
        return None


def _boundaries(best: Evaluation, objective: "Objective", asked: Constraints, *, priced: bool) -> list[dict[str, str]]:
    """Why each unfused tensor leaves the chip; what fusing it would cost is priced only after a full search."""
    from fadiff.analysis.why_not import why_not

    found = why_not(best, objective, priced=priced, constraints=asked)
    return [{key: getattr(entry, key) for key in ("source", "target", "cause", "detail")} for entry in found]


def _comparison(best: Evaluation, unfused: Evaluation, greedy: Evaluation) -> Table:
    """This schedule against the best one without fusion, and against the heuristic."""
    first = best.schedule.machine.memories[0].name
    made = table("Compared", ("schedule", "energy", "cycles", "EDP", first, "EDP ratio"))
    # Where something must be fused, nothing without fusion is there to compare with.
    apart = [] if unfused.schedule.fused_edges else [("best unfused", unfused)]
    for name, one in (("this one", best), *apart, ("greedy", greedy)):
        made.add_row(
            name,
            microjoules(one.energy_pj),
            short(one.cycles),
            f"{one.edp_uj_cycles:.4g}",
            size_text(_first_memory_bytes(one)),
            f"{one.edp_uj_cycles / best.edp_uj_cycles:.3f}",
        )
    return made


def reasons_table(reasons: list[dict[str, str]]) -> Table:
    """What keeps groups from growing; one reason of many tensors is told once."""
    made = table("Tensors that leave the chip, and why", ("from", "to", "cause", "detail"), wide=4)
    alike: dict[tuple[str, str], list[dict[str, str]]] = {}
    for reason in reasons:
        alike.setdefault((reason["cause"], reason["detail"]), []).append(reason)
    for (cause, detail), mine in alike.items():
        for reason in mine if len(mine) <= MOST_OF_A_REASON else mine[:1]:
            made.add_row(reason["source"], reason["target"], cause, detail)
        if len(mine) > MOST_OF_A_REASON:
            made.add_row(f"{len(mine) - 1} others", "", cause, "the same")
    return made


def _cost_json(evaluation: Evaluation) -> dict[str, float]:
    return {**evaluation.stated().model_dump(), "first_memory_bytes": _first_memory_bytes(evaluation)}


def _first_memory_bytes(evaluation: Evaluation) -> float:
    return float(first_memory_bytes(evaluation) @ evaluation.repeat)


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


def command_line(
    command: str,
    words: list[str],
    options: MappingOf[str, str | int],
    sizes: tuple[tuple[str, list[str] | None], ...],
) -> str:
    """The command that finds a schedule again: what was asked for."""
    given = [(option, value) for option, values in sizes for value in values or ()]
    asked = [word for option, value in (*given, *options.items()) for word in (f"--{option}", str(value))]
    return shlex.join(["fadiff", command, *words, *asked])
