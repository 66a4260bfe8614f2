"""Model files of all kinds: which front end reads them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fadiff.file_kinds import MODEL, refuse_other_kinds
from fadiff.workload.importers import import_onnx
from fadiff.workload.importers.operators import ImportFailure
from fadiff.workload.importers.report import ImportedModel
from fadiff.workload.importers.torch_models import import_torch_file, is_torch_file
from fadiff.workload.layer import WorkloadError

ONNX = ".onnx"


def is_model_file(path: Path) -> bool:
    """Whether a file is a model from elsewhere, and no workload file.

    >>> is_model_file(Path("net.onnx")), is_model_file(Path("net.pt2")), is_model_file(Path("net.yaml"))
    (True, True, False)
    """
    return path.suffix.lower() == ONNX or is_torch_file(path)


def import_file(
    path: Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, float] | None = None,
    *,
    unfold: bool = False,
) -> ImportedModel:
    """A model file as a workload, with the account of how it became one.

    It is an ONNX file (.onnx), a program of torch.export (.pt2), or the config.json of a Hugging Face model (or the
    folder it is in). `shapes` of inputs and sizes of `dims` settle what it leaves open; `values` are for ONNX only.
    Many equal blocks in a row become one that repeats; `unfold` keeps them apart.
    """
    if path.suffix.lower() == ONNX:
        return import_onnx(path, shapes, dims, values, unfold=unfold)
    if not is_torch_file(path):
        refuse_other_kinds(path, MODEL)
        raise ImportFailure(
            f"{path}: this is no model that can be read: give an ONNX file (.onnx), a program of torch.export (.pt2), "
            "or the config.json of a Hugging Face model"
        )
    if values:
        raise ImportFailure(f"{path}: values of inputs are for ONNX files only")
    try:
        return import_torch_file(path, shapes=shapes, dims=dims, unfold=unfold)
    except WorkloadError as error:
        raise ImportFailure(f"{path}: {error}") from None
