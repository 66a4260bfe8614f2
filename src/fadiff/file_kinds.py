"""What kind of file a file is, so that a wrong one is called by its name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from fadiff.files import FileError, parse, read_text

NETWORK = "a network"
HARDWARE = "a description of hardware"
SCHEDULE = "a schedule"
TRACE = "the trace of a search"
CONSTRAINTS = "a file of constraints"
MODEL = "a model from elsewhere"
"""Any of those that `fadiff import` reads."""
ONNX_MODEL, TORCH_PROGRAM, CONFIGURATION = "an ONNX model", "a program of torch.export", "a Hugging Face configuration"
WEIGHTS = "a file of weights"
PRINTED = "what a command printed with --json"
PAGE, PICTURE, PDF = "an HTML page", "a picture", "a PDF document"

_IMPORTED = "fadiff import, fadiff show and fadiff optimize read it"
_USE = {
    NETWORK: "fadiff show and fadiff optimize read it",
    HARDWARE: "give it after --hardware",
    SCHEDULE: "fadiff evaluate, verify, bound, report and plot read it",
    TRACE: "give it after --trace, with its schedule",
    CONSTRAINTS: "give it after --constraints",
    ONNX_MODEL: _IMPORTED,
    TORCH_PROGRAM: _IMPORTED,
    CONFIGURATION: _IMPORTED,
    WEIGHTS: "there is no graph in it, so give the model itself",
    PRINTED: "it is for other programs, so give the file that the command read or wrote",
    PAGE: "open it in a browser",
    PICTURE: "it is there to be looked at",
    PDF: "it is there to be looked at",
}
"""What a file of each kind is good for."""

_SUFFIXES = {
    ".onnx": ONNX_MODEL,
    ".pt2": TORCH_PROGRAM,
    **dict.fromkeys((".pt", ".pth", ".bin", ".ckpt", ".safetensors"), WEIGHTS),
}
_STARTS = {
    b"<!doctype html": PAGE,
    b"<html": PAGE,
    b"\x89png": PICTURE,
    b"<?xml": PICTURE,
    b"<svg": PICTURE,
    b"%pdf": PDF,
}
_KEYS: tuple[tuple[str, frozenset[str]], ...] = (
    (SCHEDULE, frozenset({"mappings"})),
    (CONFIGURATION, frozenset({"model_type"})),
    (PRINTED, frozenset({"totals"})),
    (PRINTED, frozenset({"workload", "report"})),
    (PRINTED, frozenset({"holds"})),
    (PRINTED, frozenset({"gap"})),
    (HARDWARE, frozenset({"nodes"})),
    (HARDWARE, frozenset({"rows", "cols"})),
    (TRACE, frozenset({"points"})),
    (NETWORK, frozenset({"layers"})),
    *((CONSTRAINTS, frozenset({key})) for key in ("mapping", "fuse", "split", "outputs", "groups", "keep")),
)
"""Keys that tell a kind, the first that are all there."""


def read_data(path: Path, wanted: str) -> Any:  # noqa: ANN401  (any JSON value)
    """The values in a JSON or YAML file of the kind that is wanted, or one sentence that tells which kind it is."""
    _refuse(_kind_of_bytes(path), wanted, path)
    data = parse(read_text(path), str(path))
    _refuse(_kind_of_data(data), wanted, path)
    return data


def refuse_other_kinds(path: Path, wanted: str) -> None:
    """Raise where a file is there and is clearly of another kind."""
    _refuse(kind_of_file(path), wanted, path)


def kind_of_file(path: Path) -> str | None:
    """The kind of a file; None where it cannot be told, or where there is none."""
    if (found := _kind_of_bytes(path)) is not None:
        return found
    try:
        return _kind_of_data(parse(read_text(path), str(path)))
    except FileError:
        return None


def _refuse(found: str | None, wanted: str, path: Path) -> None:
    if found not in (None, wanted):
        raise FileError(f"{path}: this is {found}, not {wanted}: {_USE[found]}")


def _kind_of_bytes(path: Path) -> str | None:
    """The kind that a file's name or its first bytes tell."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            start = stream.read(64).lstrip().lower()
    except (OSError, ValueError):  # whoever reads it tells why it cannot be read
        return None
    by_start = (kind for known, kind in _STARTS.items() if start.startswith(known))
    return _SUFFIXES.get(path.suffix.lower()) or next(by_start, None)


def _kind_of_data(data: object) -> str | None:
    """The kind that the keys of a file tell."""
    if not isinstance(data, Mapping):
        return None
    keys = frozenset(cast("Mapping[object, object]", data))
    return next((kind for kind, known in _KEYS if known <= keys), None)
