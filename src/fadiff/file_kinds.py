"""What kind of file a file is, so that a wrong one is called by its name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from fadiff.files import FileError, parse, read_text

NETWORK = "a network"
HARDWARE = "a description of hardware"
SCHEDULE = "a schedule"
TRACE = "the trace of a search"
MAPPING = "a mapping of Timeloop"
PLAN = "the plan of a sweep"
CONSTRAINTS = "a file of constraints"
MODEL = "a model from elsewhere"
"""Any of those that `fadiff import` reads."""
ONNX_MODEL, TORCH_PROGRAM, CONFIGURATION = "an ONNX model", "a program of torch.export", "a Hugging Face configuration"
WEIGHTS = "a file of weights"
PRINTED = "what a command printed with --json"
TIMELOOP, ZIGZAG = "a description for Timeloop", "an accelerator for ZigZag"
PAGE, PICTURE, PDF = "an HTML page", "a picture", "a PDF document"

_ELSEWHERE = "docs/coming-from.md tells how to say the same here"
_IMPORTED = "fadiff import, fadiff show and fadiff optimize read it"
_USE = {
    NETWORK: "fadiff show and fadiff optimize read it",
    HARDWARE: "give it after --hardware",
    SCHEDULE: "fadiff evaluate, verify, bound, report, plot and export read it",
    TRACE: "give it after --trace, with its schedule",
    MAPPING: "fadiff import-mapping reads it",
    PLAN: "fadiff sweep reads it",
    CONSTRAINTS: "give it after --constraints",
    ONNX_MODEL: _IMPORTED,
    TORCH_PROGRAM: _IMPORTED,
    CONFIGURATION: _IMPORTED,
    WEIGHTS: "there is no graph in it, so give the model itself",
    PRINTED: "it is for other programs, so give the file that the command read or wrote",
    TIMELOOP: _ELSEWHERE,
    ZIGZAG: _ELSEWHERE,
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
    (SCHEDULE, frozenset({"mappings", "workload"})),
    (CONFIGURATION, frozenset({"model_type"})),
    (PRINTED, frozenset({"totals"})),
    (PRINTED, frozenset({"workload", "report"})),
    (PRINTED, frozenset({"files", "remarks"})),
    (PRINTED, frozenset({"holds"})),
    (PRINTED, frozenset({"gap"})),
    (SCHEDULE, frozenset({"workload", "hardware"})),
    (HARDWARE, frozenset({"nodes"})),
    (HARDWARE, frozenset({"rows", "cols"})),
    (TRACE, frozenset({"points"})),
    (TIMELOOP, frozenset({"architecture"})),
    (TIMELOOP, frozenset({"problem"})),
    (ZIGZAG, frozenset({"memories", "operational_array"})),
    (NETWORK, frozenset({"layers"})),
    (PLAN, frozenset({"networks", "machines"})),
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
    values = cast("Mapping[object, object]", data)
    keys = frozenset(values)
    if _names_targets(values.get("mapping")):
        return MAPPING
    return next((kind for kind, known in _KEYS if known <= keys), None)


def _names_targets(entries: object) -> bool:
    """Whether these are entries of Timeloop's: each names a target. Those of constraints name layers."""
    listed = cast("list[object]", entries) if isinstance(entries, list) else []
    return any(isinstance(entry, Mapping) and "target" in entry for entry in listed)
