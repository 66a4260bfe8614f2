"""`fadiff evaluate`: what a schedule costs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fadiff.analysis.breakdown import Breakdown, breakdown
from fadiff.cli.asked import print_asked
from fadiff.cli.coverage import Strict, refuse_gaps
from fadiff.cli.networks import Json
from fadiff.cli.summary import groups_table, layer_tables, totals_table
from fadiff.cli.tables import console, print_json
from fadiff.cost import evaluate as evaluate_schedule
from fadiff.cost import load_schedule

File = Annotated[Path, typer.Argument(metavar="FILE", help="A schedule file (JSON).", show_default=False)]


def evaluate(
    file: File,
    json: Json = False,
    layers: Annotated[
        bool,
        typer.Option(
            "--layers",
            help="Show every layer, costly ones first: cycles, energy, idle lanes, words by memory and tensor.",
        ),
    ] = False,
    network_order: Annotated[
        bool, typer.Option("--network-order", help="Show layers as the network lists them.")
    ] = False,
    strict: Strict = False,
) -> None:
    """Price a schedule: energy, cycles, EDP and DRAM traffic, and their causes.

    The file is checked first: factors, fusion rules, capacities and the cost
    it states. What --json prints always holds every layer.

    Examples:
      fadiff evaluate resnet18.schedule.json
      fadiff evaluate resnet18.schedule.json --layers
    """
    schedule = load_schedule(file)
    if strict:
        refuse_gaps(file, schedule.workload)
    costs = breakdown(evaluate_schedule(schedule))
    if json:
        print_json(costs_json(costs))
        return
    out = console()
    out.print(totals_table(costs))
    out.print(groups_table(costs))
    print_asked(out, costs.asked)
    if layers:
        for made in layer_tables(costs, network_order=network_order):
            out.print(made)
    else:
        out.print(f"Layer by layer: fadiff evaluate {file} --layers")


def costs_json(costs: Breakdown) -> dict[str, Any]:
    """What a schedule costs, layer by layer, as other programs read it."""
    return {**asdict(costs), "gap": costs.gaps.get("edp")}
