"""Workload files: the `workload` object of a schedule file, on its own as YAML or JSON."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import yaml
from annotated_types import Len
from pydantic import Field, NonNegativeInt, PositiveInt

from fadiff.file_kinds import NETWORK, read_data
from fadiff.files import FileError, Strict, validate, write_text
from fadiff.workload.coverage import NotModelled
from fadiff.workload.graph import Workload
from fadiff.workload.layer import DIMS, Dims, Input, Kind, Layer, Port, VectorOp, WorkloadError

FILE_SUFFIXES = (".yaml", ".yml", ".json")
Pair = Annotated[list[PositiveInt], Len(2, 2)]


class DimsModel(Strict):
    """Sizes or factors per dim; those of 1 may be left out."""

    G: PositiveInt = 1
    N: PositiveInt = 1
    K: PositiveInt = 1
    C: PositiveInt = 1
    P: PositiveInt = 1
    Q: PositiveInt = 1
    R: PositiveInt = 1
    S: PositiveInt = 1

    def value(self) -> Dims:
        """The checked value."""
        return Dims(self.G, self.N, self.K, self.C, self.P, self.Q, self.R, self.S)


class InputModel(Strict):
    """One operand: the layer it comes from (null: a network input) and the port it arrives at."""

    source: str | None = Field(alias="from")
    port: Port
    fusible: bool = True
    reason: str | None = None


class OutModel(Strict):
    """Rows and columns after the epilogue."""

    P: PositiveInt = 1
    Q: PositiveInt = 1


class LayerModel(Strict):
    """One layer."""

    name: str
    kind: Kind
    dims: DimsModel
    inputs: list[InputModel]
    stride: Pair = Field(default=[1, 1])
    dilation: Pair = Field(default=[1, 1])
    pad: Annotated[list[NonNegativeInt], Len(2, 2)] | None = None
    epilogue: list[VectorOp] = Field(default=[])
    out: OutModel | None = None
    repeat: PositiveInt = 1

    def value(self) -> Layer:
        """The checked value."""
        return Layer(
            name=self.name,
            kind=self.kind,
            dims=self.dims.value(),
            inputs=tuple(Input(o.source, o.port, o.fusible, o.reason) for o in self.inputs),
            stride=(self.stride[0], self.stride[1]),
            dilation=(self.dilation[0], self.dilation[1]),
            epilogue=tuple(self.epilogue),
            out=None if self.out is None else (self.out.P, self.out.Q),
            repeat=self.repeat,
            pad=None if self.pad is None else (self.pad[0], self.pad[1]),
        )


class NotModelledModel(Strict):
    """An operator that no layer stands for; `macs` is null where nobody can tell."""

    name: str
    type: str
    reason: str
    macs: NonNegativeInt | None
    weight_words: NonNegativeInt = 0
    input_words: NonNegativeInt = 0
    output_words: NonNegativeInt = 0

    def value(self) -> NotModelled:
        """The checked value."""
        return NotModelled(**self.model_dump())


class WorkloadModel(Strict):
    """A network."""

    name: str
    layers: list[LayerModel]
    not_modelled: list[NotModelledModel] = Field(default=[])
    notes: list[str] = Field(default=[])

    def value(self) -> Workload:
        """The checked value."""
        return Workload(
            self.name,
            tuple(layer.value() for layer in self.layers),
            tuple(row.value() for row in self.not_modelled),
            tuple(self.notes),
        )


def load_workload(path: Path) -> Workload:
    """Read a workload file, YAML or JSON."""
    model = validate(WorkloadModel, read_data(path, NETWORK), str(path))
    try:
        return model.value()
    except WorkloadError as error:
        raise FileError(f"{path}: {error}") from None


def check_name(path: Path) -> None:
    """Raise where a file of this name could not be read again; a device or pipe takes what comes."""
    if path.suffix.lower() not in FILE_SUFFIXES and (path.is_file() or not path.exists()):
        raise FileError(f"{path}: the name of a network's file ends in {', '.join(FILE_SUFFIXES)}: choose such a name")


def save_workload(path: Path | str, workload: Workload) -> None:
    """Write a workload file, whole or not at all: JSON if its name ends in .json, else YAML."""
    path, written = Path(path), workload_to_json(workload)
    check_name(path)
    if path.suffix.lower() == ".json":
        text = json.dumps(written, indent=1) + "\n"
    else:
        text = yaml.safe_dump(written, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    write_text(path, text)


def dims_to_json(dims: Dims) -> dict[str, int]:
    """Sizes or factors as the file writes them: those of 1 left out."""
    return {dim: size for dim, size in zip(DIMS, dims, strict=True) if size != 1}


def workload_to_json(workload: Workload) -> dict[str, Any]:
    """A workload as plain JSON values, the inverse of reading one."""
    written: dict[str, Any] = {"name": workload.name, "layers": [_layer_to_json(layer) for layer in workload.layers]}
    if workload.not_modelled:
        written["not_modelled"] = [asdict(row) for row in workload.not_modelled]
    if workload.notes:
        written["notes"] = list(workload.notes)
    return written


def _layer_to_json(layer: Layer) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": layer.name,
        "kind": layer.kind,
        "dims": dims_to_json(layer.dims),
        "inputs": [_input_to_json(operand) for operand in layer.inputs],
    }
    if layer.stride != (1, 1):
        written["stride"] = list(layer.stride)
    if layer.dilation != (1, 1):
        written["dilation"] = list(layer.dilation)
    if layer.pad is not None:
        written["pad"] = list(layer.pad)
    if layer.epilogue:
        written["epilogue"] = list(layer.epilogue)
    if layer.out is not None:
        written["out"] = {"P": layer.out[0], "Q": layer.out[1]}
    if layer.repeat != 1:
        written["repeat"] = layer.repeat
    return written


def _input_to_json(operand: Input) -> dict[str, Any]:
    written: dict[str, Any] = {"from": operand.source, "port": operand.port}
    if not operand.fusible:
        written["fusible"] = False
    if operand.reason is not None:
        written["reason"] = operand.reason
    return written
