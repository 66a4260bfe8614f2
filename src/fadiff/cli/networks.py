"""`fadiff models` and `fadiff show`: what there is to schedule."""

from typing import Annotated, Any

import typer

from fadiff.cli.coverage import Strict, refuse_gaps
from fadiff.cli.sizes import Dims, Shapes, Unfold, Values, read_sizes
from fadiff.cli.tables import console, facts, print_json, short, table
from fadiff.workload import DIMS, Layer, Workload, describe, load_model, zoo_names
from fadiff.workload.file import workload_to_json

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Hardware = Annotated[
    str,
    typer.Option(
        "--hardware", "-H", metavar="NAME_OR_FILE", help="A built-in accelerator (fadiff hardware) or a file."
    ),
]
OBJECTIVE_HELP = "edp, energy, latency, ed2p, or a formula such as 'energy * latency^2' or '2*energy + 0.5*latency'"
ExactFactors = Annotated[
    bool, typer.Option("--exact-factors", help="Only schedules whose tiles divide their dims: none is cut at its end.")
]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A network of the zoo, with options after a colon (bert-base:seq=128,repeat=12), or a file: a workload "
        "(.yaml, .yml, .json) or a model from elsewhere (.onnx, .pt2, config.json).",
        show_default=False,
    ),
]


def models(json: Json = False) -> None:
    """List the networks that come with FADiff.

    Examples:
      fadiff models
      fadiff models --json
    """
    zoo = {name: load_model(name) for name in zoo_names()}
    if json:
        print_json({"models": [_model_json(name, network) for name, network in zoo.items()]})
        return
    listed = table("Model zoo", ("model", "what it is", "layers", "MACs", "parameters"), wide=2)
    listed.columns[0].no_wrap = True
    for name, network in zoo.items():
        listed.add_row(
            name, describe(name), str(len(network.layers)), short(network.macs), short(network.parameter_words)
        )
    out = console()
    out.print(listed)
    out.print("Options follow a colon: fadiff show bert-base:seq=128,repeat=12")


def show(
    model: Model,
    shape: Shapes = None,
    dim: Dims = None,
    value: Values = None,
    unfold: Unfold = False,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Show a network layer by layer: shapes, edges, MACs and values.

    A layer is a loop nest over eight dims: G groups, N batch or rows,
    K output channels, C input channels, P x Q output rows and columns,
    R x S kernel rows and columns. Dims of 1 are left out; /2 is a stride
    of 2. MACs are multiply-accumulates; weights and outputs are told in values.

    Examples:
      fadiff show resnet18
      fadiff show bert-base:seq=128,repeat=12
      fadiff show my-network.yaml --json
      fadiff show my-network.onnx --shape input=1x3x224x224
    """
    network = load_model(model, *read_sizes(shape, dim, value), unfold=unfold)
    if strict:
        refuse_gaps(model, network)
    if json:
        print_json(network_json(network))
        return
    listed = table(
        f"{network.name} (weights and output in values)",
        ("layer", "dims", "reads", "epilogue", "MACs", "weights", "output"),
        wide=4,
    )
    for layer in network.layers:
        listed.add_row(
            layer.name if layer.repeat == 1 else f"{layer.name} (x{layer.repeat})",
            _dims(layer),
            _reads(layer),
            _epilogue(layer),
            short(layer.macs) if layer.is_mac else "",
            short(layer.weight_words) if layer.is_mac and not layer.has_weight_port else "",
            short(layer.stored_words),
        )
    out = console()
    out.print(listed)
    out.print(
        facts(
            (
                ("layers", f"{len(network.layers)}, joined by {len(network.edges)} edges"),
                ("MACs", f"{network.macs:,}"),
                ("parameters", f"{network.parameter_words:,} values"),
                *network.coverage.facts,
            )
        )
    )


def network_json(network: Workload) -> dict[str, Any]:
    """A network with its counts; the layers hold the keys of a workload file and more."""
    written = workload_to_json(network)
    for layer, entry in zip(network.layers, written["layers"], strict=True):
        entry["macs"] = layer.macs
        entry["weight_words"] = layer.weight_words
        entry["input_words"] = layer.input_words
        entry["output_words"] = layer.output_words
        entry["stored_words"] = layer.stored_words
    return {**written, "totals": _totals(network)}


def _totals(network: Workload) -> dict[str, float]:
    return {
        "layers": len(network.layers),
        "edges": len(network.edges),
        "macs": network.macs,
        "parameter_words": network.parameter_words,
        "not_modelled_share": network.coverage.not_modelled_share,
    }


def _model_json(name: str, network: Workload) -> dict[str, Any]:
    return {
        "name": name,
        "description": describe(name),
        "layers": len(network.layers),
        "macs": network.macs,
        "parameter_words": network.parameter_words,
    }


def _dims(layer: Layer) -> str:
    sizes = " ".join(f"{dim}{size}" for dim, size in zip(DIMS, layer.dims, strict=True) if size != 1)
    stride = f" /{_pair(layer.stride)}" if layer.stride != (1, 1) else ""
    dilation = f" dilation {_pair(layer.dilation)}" if layer.dilation != (1, 1) else ""
    return f"{sizes or 'all 1'}{stride}{dilation}"


def _pair(values: tuple[int, int]) -> str:
    return str(values[0]) if values[0] == values[1] else f"{values[0]}x{values[1]}"


def _reads(layer: Layer) -> str:
    """The operands; the port is said where it is not the one to expect of the layer's kind."""
    return ", ".join(
        (operand.source or "(input)")
        + (" (weight)" if operand.port == "weight" else "")
        + ("" if operand.fusible else " (not fusible)")
        for operand in layer.inputs
    )


def _epilogue(layer: Layer) -> str:
    stored = "" if layer.out is None else f" -> {layer.out[0]}x{layer.out[1]}"
    return f"{', '.join(layer.epilogue)}{stored}"
