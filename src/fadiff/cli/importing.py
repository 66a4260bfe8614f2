"""`fadiff import`: a model from elsewhere as a network, with an account of how it became one."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fadiff.cli.errors import check_outputs
from fadiff.cli.networks import Json, network_json
from fadiff.cli.sizes import Dims, Shapes, Unfold, Values, read_sizes
from fadiff.cli.tables import console, facts, percent, print_json, short, table
from fadiff.errors import FadiffError
from fadiff.workload import Workload, save_workload
from fadiff.workload.importers import ImportedModel, ImportReport
from fadiff.workload.importers.files import import_file

SHOWN_IN_ERROR = 3


def import_(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="An ONNX file (.onnx), a program of torch.export (.pt2), or the config.json of a Hugging Face model.",
            show_default=False,
        ),
    ],
    shape: Shapes = None,
    dim: Dims = None,
    value: Values = None,
    unfold: Unfold = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a model of which anything is not modelled.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write the workload file.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Read a model from elsewhere, and tell what became of it.

    Convolutions and matrix products become layers. Vector operators are folded
    into them, data movement into edges. The account says what went where, which
    edges a schedule may fuse and why others not, and what is not modelled, with
    its share of the compute. Weights are not read: only their shapes count.

    fadiff show and fadiff optimize take such models too, with the same options.

    Examples:
      fadiff import resnet18.onnx
      fadiff import detector.onnx --shape images=1x3x640x640 -o detector.yaml
      fadiff import bert.onnx --dim batch=1 --dim sequence=128 --strict
      fadiff import llama/config.json --dim seq=512 -o llama.yaml
    """
    check_outputs((output,), (model,))
    imported = import_file(Path(model), *read_sizes(shape, dim, value), unfold=unfold)
    if strict and imported.report.not_modelled:
        raise _refusal(model, imported.report)
    if output is not None:
        save_workload(output, imported.workload)
    if json:
        print_json({"workload": network_json(imported.workload), "report": _report_json(imported.report)})
        return
    _show(console(), imported)
    if output is not None:
        console().print(f"Written to {output}. Next: fadiff optimize {output}")


def _refusal(model: str, report: ImportReport) -> FadiffError:
    rows = report.not_modelled
    told = ", ".join(f"{row.type} {row.name!r} ({row.reason})" for row in rows[:SHOWN_IN_ERROR])
    more = f" and {len(rows) - SHOWN_IN_ERROR} more" if len(rows) > SHOWN_IN_ERROR else ""
    return FadiffError(f"{model}: not all of it is modelled: {told}{more}; without --strict they are left out")


def _show(out: Console, imported: ImportedModel) -> None:
    workload, report = imported.workload, imported.report
    out.print(_operators_table(report))
    out.print(_layers_table(workload, report))
    if report.fusible_edges < len(report.edges):
        out.print(_edges_table(report))
    if report.not_modelled:
        out.print(_not_modelled_table(report))
    add_layers = sum(not layer.is_mac for layer in workload.layers)
    pairs = [
        ("network", workload.name),
        ("layers", f"{len(workload.layers)}, {add_layers} of them sums and elementwise products"),
        ("edges", f"{len(report.edges)}, {report.fusible_edges} of them can fuse"),
        ("MACs", f"{report.macs:,}"),
        ("parameters", f"{report.parameters:,}; weights of layers {report.layer_parameters:,}"),
        ("not modelled", _not_modelled(report)),
    ]
    out.print(facts([*pairs, *(("note", note) for note in report.notes)]))


def _operators_table(report: ImportReport) -> Table:
    made = table("Operators", ("operator", "became", "count", "MACs", "parameters"), wide=2)
    for row in report.operators:
        made.add_row(
            row.type,
            row.became,
            str(row.count),
            short(row.macs) if row.macs else "",
            short(row.parameters) if row.parameters else "",
        )
    return made


def _layers_table(workload: Workload, report: ImportReport) -> Table:
    """Every layer with the operators that run on its output, in their order."""
    made = table("Layers", ("layer", "folded into it", "MACs", "weights"), wide=2)
    folded: dict[str, list[str]] = {layer.name: [] for layer in workload.layers}
    for row in report.folded:
        if row.layer is not None and row.into == row.layer:
            folded[row.layer].append(row.type)
    for layer in workload.layers:
        made.add_row(
            layer.name if layer.repeat == 1 else f"{layer.name} (x{layer.repeat})",
            ", ".join(folded[layer.name]),
            short(layer.macs) if layer.is_mac else "",
            short(layer.weight_words) if layer.is_mac and not layer.has_weight_port else "",
        )
    return made


def _edges_table(report: ImportReport) -> Table:
    made = table("Edges that cannot fuse, and why", ("from", "to", "why"), wide=3)
    for edge in report.edges:
        if edge.reason is not None:
            made.add_row(edge.source, f"{edge.target} ({edge.port})", edge.reason)
    return made


def _not_modelled_table(report: ImportReport) -> Table:
    made = table("Not modelled", ("operator", "why", "MACs", "share"), wide=2)
    for row in report.not_modelled:
        made.add_row(
            f"{row.type} {row.name}",
            row.reason,
            "?" if row.macs is None else short(row.macs),
            "?" if row.share is None else percent(row.share),
        )
    return made


def _not_modelled(report: ImportReport) -> str:
    rows = report.not_modelled
    if not rows:
        return "nothing"
    share = percent(sum(row.share or 0 for row in rows))
    unknown = sum(row.share is None for row in rows)
    operators = f"{len(rows)} operators" if len(rows) > 1 else "1 operator"
    return f"{operators}, {share} of the MACs" + (f", and {unknown} whose MACs nobody knows" if unknown else "")


def _report_json(report: ImportReport) -> dict[str, Any]:
    written = asdict(report)
    for edge, entry in zip(report.edges, written["edges"], strict=True):
        entry["fusible"] = edge.fusible
    return written
