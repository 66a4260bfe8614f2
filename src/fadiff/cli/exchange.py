"""`fadiff export` and `fadiff import-mapping`: schedules for other tools, and mappings from them."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fadiff.analysis.breakdown import breakdown
from fadiff.cli.errors import check_outputs
from fadiff.cli.evaluate import File, costs_json
from fadiff.cli.networks import Json
from fadiff.cli.sizes import Dims, Shapes, Unfold, Values, read_sizes
from fadiff.cli.summary import totals_table
from fadiff.cli.tables import console, print_json, table
from fadiff.cost import load_schedule, save_schedule
from fadiff.errors import FadiffError
from fadiff.export import Remark, read_mappings
from fadiff.export import export as export_schedule
from fadiff.export.exported import by_text
from fadiff.hardware import load_machine
from fadiff.workload import load_model


def export(
    file: File,
    to: Annotated[str, typer.Option("--to", metavar="TOOL", help="timeloop or zigzag.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="A folder that is new or empty.", show_default=False),
    ],
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a schedule of which something is left out.")] = False,
    json: Json = False,
) -> None:
    """Write a schedule as input of Timeloop or ZigZag.

    One architecture, and for each layer its problem and its mapping. Both tools
    know single layers: what they cannot be told, such as fusion, is listed here
    and in the README.md of the folder.

    Examples:
      fadiff export resnet18.schedule.json --to timeloop -o timeloop
      fadiff export resnet18.schedule.json --to zigzag -o zigzag
    """
    exported = export_schedule(load_schedule(file), to)
    if strict and exported.lost:
        told = f"{exported.lost[0]}" + (f"; and {len(exported.lost) - 1} more" if len(exported.lost) > 1 else "")
        raise FadiffError(f"{file}: not all of it can be told to {to}: {told}; without --strict it is left out")
    exported.save(output)
    if json:
        print_json({"files": list(exported.files), "remarks": [asdict(remark) for remark in exported.remarks]})
        return
    for title, lost in (("What is not in the files", True), ("What else to know", False)):
        _print_remarks(title, [remark for remark in exported.remarks if remark.lost is lost])
    console().print(f"Written to {output}: {len(exported.files)} files. How to use them: {output / 'README.md'}")


def _print_remarks(title: str, remarks: Sequence[Remark]) -> None:
    if not remarks:
        return
    made = table(title, ("layers", "what"), wide=2)
    for text, layers in by_text(remarks).items():
        made.add_row(", ".join(layers) or "all", text)
    console().print(made)


def import_mapping(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="DIR_OR_FILE",
            help="A folder of fadiff export, one with a folder of Timeloop's for each layer, or one layer's file.",
            show_default=False,
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model", metavar="NETWORK", help="The network, as fadiff optimize takes it.", show_default=False
        ),
    ],
    hardware: Annotated[
        str,
        typer.Option(
            "--hardware", "-H", metavar="NAME_OR_FILE", help="The accelerator, with Timeloop's levels as nodes."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write the schedule.", show_default=False),
    ],
    shape: Shapes = None,
    dim: Dims = None,
    value: Values = None,
    unfold: Unfold = False,
    json: Json = False,
) -> None:
    """Read mappings of Timeloop as a schedule, each layer on its own.

    The schedule is checked and priced here, and all commands read it. Names of
    levels are those of the accelerator's nodes. A level keeps what the
    accelerator's memory keeps. Loops over M are loops over K.

    Examples:
      fadiff import-mapping timeloop --model resnet18 -H gemmini-large -o new.json
      fadiff import-mapping layer.map.yaml --model layer.yaml -H chip.yaml -o new.json
    """
    check_outputs((output,), (place, model, hardware))
    workload = load_model(model, *read_sizes(shape, dim, value), unfold=unfold)
    evaluation = save_schedule(output, read_mappings(place, workload, load_machine(hardware)))
    costs = breakdown(evaluation)
    if json:
        print_json(costs_json(costs))
        return
    console().print(totals_table(costs))
    console().print(f"Written to {output}. Next: fadiff evaluate {output} --layers")
