"""`fadiff import`: a model from elsewhere as a network, with an account of how it became one."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fadiff.cli.coverage import Strict, refuse_gaps
from fadiff.cli.errors import check_outputs
from fadiff.cli.networks import Json, network_json
from fadiff.cli.sizes import Dims, Shapes, Unfold, Values, read_sizes
from fadiff.cli.tables import console, facts, print_json, short, table
from fadiff.workload import Workload, save_workload
from fadiff.workload.file import check_name
from fadiff.workload.importers import ImportedModel, ImportReport
from fadiff.workload.importers.files import import_file


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
    strict: Strict = False,
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
    if output is not None:
        check_name(output)
    imported = import_file(Path(model), *read_sizes(shape, dim, value), unfold=unfold)
    if strict:
        refuse_gaps(model, imported.workload)
    if output is not None:
        save_workload(output, imported.workload)
    if json:
        print_json({"workload": network_json(imported.workload), "report": _report_json(imported.report)})
        return
    _show(console(), imported)
    if output is not None:
        console().print(f"Written to {output}. Next: fadiff optimize {output}")


def _show(out: Console, imported: ImportedModel) -> None:
    workload, report = imported.workload, imported.report
    out.print(_operators_table(report))
    out.print(_layers_table(workload, report))
    if report.fusible_edges < len(report.edges):
        out.print(_edges_table(report))
    if workload.not_modelled:
        out.print(_not_modelled_table(workload))
    add_layers = sum(not layer.is_mac for layer in workload.layers)
    pairs = [
        ("network", workload.name),
        ("layers", f"{len(workload.layers)}, {add_layers} of them sums and elementwise products"),
        ("edges", f"{len(report.edges)}, {report.fusible_edges} of them can fuse"),
        ("MACs", f"{report.macs:,}"),
        ("parameters", f"{report.parameters:,}; weights of layers {report.layer_parameters:,}"),
        ("not modelled", workload.coverage.told),
    ]
    out.print(facts([*pairs, *(("note", note) for note in workload.notes)]))


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
    made = table("Layers (weights in values)", ("layer", "folded into it", "MACs", "weights"), wide=2)
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


def _not_modelled_table(workload: Workload) -> Table:
    made = table("Not modelled (sizes in values)", ("operator", "why", "MACs", "weights", "reads", "makes"), wide=2)
    for row in workload.not_modelled:
        made.add_row(
            f"{row.type} {row.name}",
            row.reason,
            "?" if row.macs is None else short(row.macs),
            *(short(words) for words in (row.weight_words, row.input_words, row.output_words)),
        )
    return made


def _report_json(report: ImportReport) -> dict[str, Any]:
    return {**asdict(report), "edges": [edge._asdict() for edge in report.edges]}
