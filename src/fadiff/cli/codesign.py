"""`fadiff codesign`: find a machine and its schedules."""

import csv
import io
import json as json_module
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from math import expm1, inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fadiff.analysis.units import significant
from fadiff.cli.errors import check_outputs
from fadiff.cli.networks import Json
from fadiff.cli.spaces import value_text
from fadiff.cli.tables import console, cut, facts, microjoules, percent, print_json, short, table
from fadiff.cost import save_schedule
from fadiff.errors import FadiffError
from fadiff.files import write_text
from fadiff.hardware import Machine, area_by_node_mm2, machine_to_json
from fadiff.hardware.file import machine_data
from fadiff.hardware.space_file import space_of
from fadiff.report.machine_drawing import area_text
from fadiff.sweeps.rows import alone_in
from fadiff.workload import load_model

if TYPE_CHECKING:
    from fadiff.search.codesign import Design
    from fadiff.search.codesign.method import Progress

TRACE_FORMAT = "fadiff-codesign-trace/1"
FRONT, TRADE, PRICES, DESIGN, PAGE = "front.csv", "energy-latency.csv", "prices.csv", "design.json", "index.html"
OWN_FILES = (FRONT, TRADE, PRICES, DESIGN, PAGE, "rows.jsonl", "question.json", "proposed.json")
"""What stands in the folder, beside machines and schedules."""


def codesign(
    networks: Annotated[
        list[str], typer.Argument(metavar="NETWORK...", help="Networks of the zoo, or files.", show_default=False)
    ],
    space: Annotated[
        Path, typer.Option("--space", "-S", metavar="FILE", help="A space of machines: a hardware file with ranges.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where to keep machines, schedules and the front.")
    ],
    area: Annotated[
        str | None,
        typer.Option("--area", metavar="2mm2", help="Area that the machine may take at most.", show_default=False),
    ] = None,
    objective: Annotated[
        str, typer.Option("--objective", help="What to minimize: edp, energy, latency or edp-area.")
    ] = "edp",
    weight: Annotated[
        list[str] | None,
        typer.Option(
            "--weight", metavar="NETWORK=2", help="How much a network counts; 1 if not given.", show_default=False
        ),
    ] = None,
    budget: Annotated[str, typer.Option("--budget", "-b", help="Wall-clock time at most: 5m, ...")] = "5m",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the random machines and schedules.")] = 0,
    restarts: Annotated[int, typer.Option("--restarts", min=1, max=256, help="Machines that descend at once.")] = 64,
    method: Annotated[
        str, typer.Option("--method", "-m", help="How schedules of a machine are searched, as in fadiff optimize.")
    ] = "exact",
    proposals: Annotated[
        str,
        typer.Option(
            "--proposals",
            help="Who proposes machines: descent; or to compare with, climb, uniform, filling, tpe, bayesian, derived.",
        ),
    ] = "descent",
    exact_factors: Annotated[
        bool, typer.Option("--exact-factors", help="Only tiles that divide their dims, as in fadiff optimize.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Where to write the trace of the search.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Find a machine in a space of machines, and schedules for it.

    Mappings, fusion and the machine's free numbers descend together; the best
    machines are rounded to what can be built, scheduled, shrunk, and compared
    with their neighbours until none is better. DIR holds every machine that was
    scored. A command that was stopped goes on where it was.

    Examples:
      fadiff codesign resnet18 --space space.yaml --area 2mm2 -o found
      fadiff codesign resnet18 mobilenet_v2 --weight resnet18=2 --space space.yaml --area 2mm2 -o both
      fadiff codesign mobilenet_v1 --space space.yaml --objective edp-area -o small
    """
    from fadiff.analysis.design import design_values
    from fadiff.report.design_page import design_html
    from fadiff.search.codesign import CodesignSettings, Question
    from fadiff.search.codesign import codesign as run
    from fadiff.search.codesign.settings import ALIASES
    from fadiff.search.gradient import DescentSettings
    from fadiff.search.optimize import find_method, parse_duration

    find_method(method)
    seconds = parse_duration(budget)
    if output.exists() and not output.is_dir():
        raise FadiffError(f"{output}: this is a file: name a folder")
    _check_trace(trace, output, (str(space), *networks))
    question = Question(
        workloads=tuple(load_model(name) for name in networks),
        space=space_of(machine_data(str(space)), str(space)),
        area_mm2=inf if area is None else parse_area(area),
        aim=objective,  # pyright: ignore[reportArgumentType]  (checked by the question)
    )
    names = dict(zip(networks, (workload.name for workload in question.workloads), strict=True))
    question = replace(question, weights=_weights(weight, names))
    who = ALIASES.get(proposals, proposals)
    settings = CodesignSettings(
        seconds, seed, who, DescentSettings(restarts=restarts), method=method, exact_factors=exact_factors
    )
    settings.check(question)

    def watch(progress: "Progress") -> None:
        if sys.stderr.isatty():
            typer.echo(f"{progress.seconds:6.1f} s  {progress.phase:8} {progress.detail}", err=True)

    with alone_in(output):
        design = run(question, settings, output, watch)
        values = design_values(design)
        _write(output, design)
        write_text(output / DESIGN, json_module.dumps(values, indent=1) + "\n")
        write_text(output / PAGE, design_html(design))
    if trace is not None:
        write_text(trace, _trace_text(design))
    if json:
        print_json(values)
    else:
        _show(design, output)


def parse_area(text: str) -> float:
    """An area in mm2.

    >>> parse_area("2mm2"), parse_area("0.5 mm2"), parse_area("3")
    (2.0, 0.5, 3.0)
    """
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(mm2|mm²|mm\^2)?\s*", text)
    if match is None or not float(match[1]) > 0:
        raise FadiffError(f"area {text!r} is no area: write for example 2mm2")
    return float(match[1])


def _check_trace(trace: Path | None, output: Path, read: Sequence[str]) -> None:
    """Find out before the search where its trace cannot be written; it may stand in the folder that will be made."""
    if trace is None or trace.is_dir() or trace.resolve().parent != output.resolve():
        check_outputs((trace,), read)
    elif trace.name in OWN_FILES or trace.match("best.*.json"):
        raise FadiffError(f"{trace}: co-design itself writes this file: choose another name")
    elif output.exists():
        check_outputs((trace,), read)


def _weights(given: list[str] | None, names: dict[str, str]) -> tuple[float, ...]:
    """The weight of each network, which goes by its name or by what was given, the keys of `names`."""
    weights, said = dict.fromkeys(names.values(), 1.0), set[str]()
    for item in given or ():
        name, sign, text = item.rpartition("=")
        name = names.get(name, name)
        if not sign:
            raise FadiffError(f"--weight {item}: it says no weight: write for example {item}=2")
        if name not in weights:
            close = get_close_matches(name, weights, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise FadiffError(f"--weight {item}: {name!r} is none of the networks{hint}: use {', '.join(weights)}")
        if name in said:
            raise FadiffError(f"--weight {item}: {name} has a weight already: give one")
        said.add(name)
        if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text) or not float(text) > 0:
            raise FadiffError(f"--weight {item}: {text!r} is no positive number: write for example {name}=2")
        weights[name] = float(text)
    return tuple(weights.values())


def _write(folder: Path, design: "Design") -> None:
    """The machines of the front, the best one with its schedules, and tables of both."""
    from fadiff.analysis.design import energy_latency, front_row, price_sentence
    from fadiff.search.codesign.rows import stems

    question, machines = design.question, folder / "machines"
    machines.mkdir(exist_ok=True)
    trade = energy_latency(design)
    for row in {row.number: row for row in (*design.front, *trade)}.values():
        machine = question.space.at(row.values, f"{question.space.name}-{row.number:04d}")
        write_text(machines / f"{row.number:04d}.json", _machine_text(machine))
    write_text(folder / "best.machine.json", _machine_text(design.machine))
    names = stems([workload.name for workload in question.workloads])
    for one in design.evaluations:
        save_schedule(folder / f"best.{names[one.schedule.workload.name]}.json", one.schedule)
    write_text(folder / FRONT, _csv([front_row(design, row) for row in design.front]))
    write_text(folder / TRADE, _csv([front_row(design, row) for row in trade]))
    prices = [
        {**price._asdict(), "sentence": price_sentence(question.space, price, question.aim)} for price in design.prices
    ]
    write_text(folder / PRICES, _csv(prices))


def _machine_text(machine: Machine) -> str:
    return json_module.dumps(machine_to_json(machine), indent=1) + "\n"


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()


def _trace_text(design: "Design") -> str:
    points = [
        {
            "seconds": point.seconds,
            "phase": point.phase,
            "detail": point.detail,
            "machines": point.rows,
            "best_score": None if point.best is None else point.best.score,
            "best_area_mm2": None if point.best is None else point.best.area_mm2,
        }
        for point in design.trace
    ]
    return json_module.dumps({"format": TRACE_FORMAT, "points": points}, indent=1) + "\n"


def _show(design: "Design", folder: Path) -> None:
    from fadiff.analysis.design import TOLD, binding, price_sentence

    question, out = design.question, console()
    space = question.space
    limit = "" if question.area_mm2 == inf else f", at most {significant(question.area_mm2)} allowed"
    found = [(n.name, value_text(n, v)) for n, v in zip(space.numbers, design.best.values, strict=True)]
    machine = design.machine
    out.print(
        facts(
            (
                ("machine", f"{machine.name}, {machine.peak_macs:,} MACs ({len(design.rows)} machines scored)"),
                *found,
                ("area", area_text(area_by_node_mm2(machine)) + limit),
            )
        )
    )
    costs = table("Networks", ("network", "waits for", "energy", "cycles", "EDP"), wide=2)
    for one in design.evaluations:
        time = sorted(binding(one)["time"].items(), key=lambda item: -item[1])
        waits = ", ".join(f"{name} {percent(share)}" for name, share in time if share >= 0.05)
        costs.add_row(
            one.schedule.workload.name, waits, microjoules(one.energy_pj), short(one.cycles), f"{one.edp_uj_cycles:.4g}"
        )
    out.print(costs)
    names = [number.name for number in space.numbers]
    front = table(f"Front: area against {TOLD[question.aim]}", ("machine", "area mm2", "to the best", *names))
    for row in design.front:
        ratio = f"{expm1(row.score - design.best.score):+.1%}"
        values = (value_text(number, value) for number, value in zip(space.numbers, row.values, strict=True))
        front.add_row(f"{row.number:04d}", significant(row.area_mm2), ratio, *values)
    out.print(front)
    if design.prices:
        out.print("What one step of each number does:")
        for price in design.prices:
            out.print(f"  {price_sentence(space, price, question.aim)}")
    for sentence in design.left_out:
        out.print(cut(f"{sentence[:1].upper()}{sentence[1:]}."))
    out.print(f"{design.seconds:.0f} s. Written to {folder}: best.machine.json, best.*.json, front.csv, index.html")
