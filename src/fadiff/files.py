"""Reading and writing files: text to checked values with kind errors, values to text in one atomic step."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from fadiff.errors import FadiffError

Model = TypeVar("Model", bound=BaseModel)


class FileError(FadiffError):
    """A file that cannot be read or written, told in one sentence that names file, place and remedy."""


class Strict(BaseModel):
    """A part of a file: unknown keys are errors, numbers are numbers, and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML without silent surprises: a key given twice is an error."""


def _unique_mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys: list[Any] = [loader.construct_object(key, deep=True) for key, _ in node.value]
    for i, key in enumerate(keys):
        if key in keys[:i]:
            raise yaml.constructor.ConstructorError(problem=f"key {key!r} is given twice", problem_mark=node.start_mark)
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"key {key!r} is given twice")
        seen[key] = value
    return seen


def read_text(path: Path) -> str:
    """The text of a file, or one sentence on why there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file: check the path") from None
    except IsADirectoryError:
        raise FileError(f"{path}: this is a folder: name a file in it") from None
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: byte {error.start} is not UTF-8 text: is this the right file?") from None
    except OSError as error:
        raise FileError(f"{path}: it cannot be read ({error.strerror}): check its permissions") from None


def parse(text: str, origin: str) -> Any:  # noqa: ANN401  (any JSON value)
    """JSON or YAML text as plain values; `origin` names the file in errors."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_unique_object, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            raise FileError(
                f"{origin}: line {error.lineno}, column {error.colno}: the JSON ends or breaks here "
                f"({error.msg.lower()}): was the file cut short?"
            ) from None
        except (ValueError, RecursionError) as error:
            raise FileError(f"{origin}: the JSON is not valid ({error}): correct it") from None
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        hint = "indent with spaces, not tabs" if "\\t" in (error.problem or "") else "correct it"
        raise FileError(f"{origin}: {place}the YAML is not valid ({error.problem}): {hint}") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise FileError(f"{origin}: the YAML is not valid ({str(error).splitlines()[0]}): correct it") from None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def validate(model: type[Model], data: object, origin: str) -> Model:
    """Plain values as a checked model; the first thing wrong becomes one sentence with its path in the file."""
    if not isinstance(data, Mapping):
        raise FileError(f"{origin}: the top of the file must be a mapping of keys to values")
    try:
        return model.model_validate(data)
    except ValidationError as errors:
        first = errors.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the top level"
        if first["type"] == "extra_forbidden":
            raise FileError(f"{origin}: {place}: this key is unknown: remove it or correct its spelling") from None
        if first["type"] == "missing":
            raise FileError(f"{origin}: {place}: this key is missing: add it") from None
        message = first["msg"].removeprefix("Value error, ").rstrip(".")
        given = repr(first["input"])
        given = given if len(given) <= 60 else given[:57] + "..."
        raise FileError(f"{origin}: {place}: {message[:1].lower()}{message[1:]} (it is {given})") from None
    except RecursionError:
        raise FileError(f"{origin}: the file is nested too deeply: correct it") from None


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent or Path(), prefix=f".{path.name}.")
    except OSError as error:
        raise FileError(f"{path}: it cannot be written ({error.strerror}): choose another folder") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        # mkstemp makes private files; give this one the permissions any new file would have.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise FileError(f"{path}: it cannot be written ({error.strerror}): choose another place") from None
