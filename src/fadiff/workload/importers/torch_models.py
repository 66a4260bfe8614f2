"""Networks from PyTorch: modules, exported programs, and configurations of Hugging Face models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fadiff.files import FileError, parse, read_text
from fadiff.workload.importers.lowering import lower
from fadiff.workload.importers.operators import ImportFailure, OperatorGraph
from fadiff.workload.importers.report import ImportedModel

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.export import ExportedProgram
    from transformers import PreTrainedConfig

    from fadiff.workload.graph import Workload


def from_torch(
    module: nn.Module | ExportedProgram,
    example_inputs: Tensor | Sequence[object] | Mapping[str, object] = (),
    *,
    name: str | None = None,
    unfold: bool = False,
) -> Workload:
    """A PyTorch module as a network, traced by ``torch.export`` on the shapes of the example inputs.

    `example_inputs` are positional arguments (one tensor, or a sequence of arguments), or keyword arguments in a
    mapping. Weights are not read: a module on the meta device will do. An exported program needs no inputs. Many
    equal blocks in a row become one that repeats; `unfold` keeps them apart.
    """
    return import_torch(module, example_inputs, name=name, unfold=unfold).workload


def import_torch(
    module: nn.Module | ExportedProgram,
    example_inputs: Tensor | Sequence[object] | Mapping[str, object] = (),
    *,
    name: str | None = None,
    unfold: bool = False,
) -> ImportedModel:
    """As :func:`from_torch`, with the account of what became of every operator."""
    return lower(_operators(module, example_inputs, name), unfold=unfold)


def _operators(
    module: nn.Module | ExportedProgram,
    example_inputs: Tensor | Sequence[object] | Mapping[str, object],
    name: str | None,
) -> OperatorGraph:
    """The operators of a module, traced if it is no program yet."""
    from fadiff.workload.importers.torch_front_end.program import export, require_torch

    require_torch()
    import torch
    from torch.export import ExportedProgram

    from fadiff.workload.importers.torch_front_end.translation import operator_graph

    if isinstance(module, ExportedProgram):
        return operator_graph(module, name or "exported")
    if not isinstance(cast("object", module), torch.nn.Module):
        raise ImportFailure(
            f"{type(module).__name__} is no torch.nn.Module and no torch.export program: give one of them"
        )
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = {}
    if isinstance(example_inputs, torch.Tensor):
        args = (example_inputs,)
    elif isinstance(example_inputs, Mapping):
        kwargs = example_inputs
    else:
        args = example_inputs
    if args and all(isinstance(arg, int) for arg in args):
        raise ImportFailure(f"the inputs are numbers: give tensors, such as torch.zeros({', '.join(map(str, args))})")
    return operator_graph(export(module, args, kwargs), name or type(module).__name__)


def from_huggingface(
    config: PreTrainedConfig | Mapping[str, Any] | Path | str,
    *,
    batch: int = 1,
    seq: int | None = None,
    past: int = 0,
    inputs: Mapping[str, Sequence[int]] | None = None,
    architecture: str | None = None,
    name: str | None = None,
    unfold: bool = False,
) -> Workload:
    """The network that a Hugging Face configuration describes. No weights are built, nothing is downloaded.

    `config` is an object of transformers, the content of a config.json, or the path of one (or of its folder). Inputs
    are `batch` sequences of `seq` tokens, or images, or sounds, as the model takes them; `inputs` says their shapes by
    name instead. After a `past` of so many tokens, whose keys and values are there already, a decoder runs on one more,
    or on `seq`. `architecture` is a class of transformers; by default the one that the configuration names, or the base
    model. Many equal blocks in a row become one that repeats; `unfold` keeps them apart.
    """
    return import_huggingface(
        config, batch=batch, seq=seq, past=past, inputs=inputs, architecture=architecture, name=name, unfold=unfold
    ).workload


def import_huggingface(
    config: PreTrainedConfig | Mapping[str, Any] | Path | str,
    *,
    batch: int = 1,
    seq: int | None = None,
    past: int = 0,
    inputs: Mapping[str, Sequence[int]] | None = None,
    architecture: str | None = None,
    name: str | None = None,
    unfold: bool = False,
) -> ImportedModel:
    """As :func:`from_huggingface`, with the account of what became of every operator."""
    from fadiff.workload.importers.torch_front_end import configs

    for what, count, least in (("batch", batch, 1), ("seq", seq, 1), ("past", past, 0)):
        if count is not None and count < least:
            raise ImportFailure(f"{what} is {count}: it is at least {least}")
    if isinstance(config, (str, Path)):
        found = configs.load_config(Path(config))
    elif isinstance(config, Mapping):
        found = configs.config_of(config, "the configuration")
    else:
        found = config
    tensors = configs.past_tensors(found, batch, past) if past else []
    module = configs.build(found, architecture)
    shapes = {key: tuple(shape) for key, shape in (inputs or {}).items()}
    example = configs.example_inputs(module, found, batch=batch, seq=seq, past=past, shapes=shapes)
    title = name or str(getattr(found, "model_type", "") or type(module).__name__)
    if tensors:
        graph = _operators(configs.with_past(module, found), (tensors, example), title)
    else:
        graph = _operators(module, example, title)
    notes = configs.notes_on(module, found, architecture)
    return lower(replace(graph, notes=(*notes, *graph.notes)), unfold=unfold)


EXPORTED = ".pt2"
PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")


def is_torch_file(path: Path) -> bool:
    """Whether a file is one for :func:`import_torch_file`: a program, a configuration, or weights without a network."""
    if path.is_dir():
        return (path / "config.json").is_file()
    if path.suffix.lower() == ".json" and path.is_file():
        data = cast("object", parse(read_text(path), str(path)))
        return isinstance(data, Mapping) and "model_type" in data
    return path.suffix.lower() in (EXPORTED, *PICKLED)


def import_torch_file(
    path: Path,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    unfold: bool = False,
) -> ImportedModel:
    """A program that ``torch.export.save`` wrote (.pt2), or a Hugging Face configuration (config.json or its folder).

    A configuration takes shapes of its inputs by name, or the dims `batch`, `seq` and `past`; a program has its own.
    """
    from fadiff.workload.importers.torch_front_end.program import load, require_torch

    shapes, dims = shapes or {}, dims or {}
    suffix = path.suffix.lower()
    if suffix in PICKLED:
        raise FileError(
            f"{path}: this holds weights or Python objects, but no graph: save the model with torch.onnx.export, or "
            "with torch.export.save as a .pt2 file"
        )
    if suffix == EXPORTED:
        if shapes or dims:
            raise FileError(f"{path}: its shapes are those it was exported with: export it again to change them")
        require_torch()
        return import_torch(load(path), name=path.stem, unfold=unfold)
    if unknown := set(dims) - {"batch", "seq", "past"}:
        raise FileError(f"{path}: a configuration has no dim {min(unknown)!r}: the dims are batch, seq and past")
    return import_huggingface(
        path, batch=dims.get("batch", 1), seq=dims.get("seq"), past=dims.get("past", 0), inputs=shapes, unfold=unfold
    )
