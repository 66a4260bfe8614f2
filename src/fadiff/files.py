"""Reading and writing files: text to checked values with kind errors, values to text in one atomic step."""

import json
import os
import reprlib
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from fadiff.errors import FadiffError

Model = TypeVar("Model", bound=BaseModel)


class FileError(FadiffError):
    """A file that cannot be read or written, told in one sentence that names file, place and remedy."""


class Strict(BaseModel):
    """A part of a file: unknown keys are errors, numbers are finite numbers, and values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML without silent surprises: a key given twice is an error."""


def _unique_mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
    for key_node, _ in pairs:
        if key_node.tag == "tag:yaml.org,2002:merge":
            raise _refused("merge keys (<<) are not supported here", key_node)
    mapping = loader.construct_mapping(node, deep=True)
    if len(mapping) < len(pairs):
        keys: list[Any] = [loader.construct_object(key_node, deep=True) for key_node, _ in pairs]
        again = next(i for i, key in enumerate(keys) if key in keys[:i])
        raise _refused(f"key {_shown(keys[again])} is given twice", pairs[again][0])
    return mapping


def _refused(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


def _no_tag(loader: _UniqueKeyLoader, tag: str, node: yaml.Node) -> Any:  # noqa: ANN401  (nothing is returned)
    raise _refused(f"it has the tag !{tag}, and no file of FADiff has tags: is it one of another program?", node)


_UniqueKeyLoader.add_multi_constructor("!", _no_tag)
_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"key {_shown(key)} is given twice")
        seen[key] = value
    return seen


def read_text(path: Path) -> str:
    """The text of a file, or one sentence on why there is none."""
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors begin UTF-8 files with a byte-order mark
    except FileNotFoundError:
        raise FileError(f"{path}: there is no such file: check the path") from None
    except IsADirectoryError:
        raise FileError(f"{path}: this is a folder: name a file in it") from None
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: byte {error.start} is not UTF-8 text: is this the right file?") from None
    except OSError as error:
        raise FileError(f"{path}: it cannot be read ({error.strerror}): check its name and permissions") from None
    except ValueError:
        raise FileError(f"{str(path)!r}: no file can have this name: check the path") from None


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
        except RecursionError:
            raise FileError(f"{origin}: {TOO_DEEP}") from None
        except ValueError as error:
            raise FileError(f"{origin}: the JSON is not valid ({error}): correct it") from None
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        hint = "indent with spaces, not tabs" if "\\t" in (error.problem or "") else "correct it"
        raise FileError(f"{origin}: {place}the YAML is not valid ({error.problem or error.context}): {hint}") from None
    except RecursionError:
        raise FileError(f"{origin}: {TOO_DEEP}") from None
    except Exception as error:
        # PyYAML lets whatever its constructors trip over escape: KeyError for `!!bool x`, AttributeError, ...
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise FileError(f"{origin}: the YAML is not valid ({reason}): correct it") from None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


TOO_DEEP = "the file is nested too deeply: correct it"

_UNKNOWN_KEY = ("extra_forbidden", "invalid_key")
"""What pydantic calls a key that is not in the model, or is not even text."""


def misspelt(key: str) -> str:
    """What to say about an unknown key, whatever it is."""
    return "this key is unknown: remove it or correct its spelling"


def check_mapping(data: object, origin: str) -> None:
    """Raise :class:`FileError` unless a file holds keys and values."""
    if data is None:
        raise FileError(f"{origin}: the file is empty: is this the right file?")
    if not isinstance(data, Mapping):
        raise FileError(f"{origin}: the top of the file must be a mapping of keys to values")


def validate(model: type[Model], data: object, origin: str, about_unknown: Callable[[str], str] = misspelt) -> Model:
    """Plain values as a checked model; the first thing wrong becomes one sentence with its path in the file."""
    check_mapping(data, origin)
    try:
        return model.model_validate(data)
    except ValidationError as errors:
        # A misspelt key is reported twice, as missing and as unknown: the second says more.
        found = errors.errors(include_url=False)
        first = next((error for error in found if error["type"] in _UNKNOWN_KEY), found[0])
        place = ".".join(_place(part) for part in first["loc"]) or "the top level"
        if first["type"] in _UNKNOWN_KEY:
            raise FileError(f"{origin}: {place}: {about_unknown(str(first['loc'][-1]))}") from None
        if first["type"] == "missing":
            raise FileError(f"{origin}: {place}: this key is missing: add it") from None
        message = first["msg"].removeprefix("Value error, ").replace(" after validation", "").rstrip(".")
        if first["type"] == "model_type":  # pydantic would name a class of ours
            message = "this must be a mapping of keys to values"
        given = _shown(first["input"])
        raise FileError(f"{origin}: {place}: {message[:1].lower()}{message[1:]} (it is {given})") from None
    except RecursionError:
        raise FileError(f"{origin}: {TOO_DEEP}") from None


# A short repr whose cost is bounded too: a small YAML file can stand for a value of gigabytes, through aliases.
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist, _SHORT.maxstring = 3, 4, 4, 60


def _shown(value: object) -> str:
    """A value of the file in an error message: one short line."""
    try:
        text = _SHORT.repr(value)
    except ValueError:  # Python does not print integers of more than a few thousand digits
        return "a very long number"
    return text if len(text) <= 60 else text[:57] + "..."


def keys_of(annotation: object) -> frozenset[str]:
    """All keys that a part of a file may have, and the parts in it.

    >>> class Inner(Strict):
    ...     depth: int
    >>> class Outer(Strict):
    ...     parts: list[Inner]
    >>> sorted(keys_of(Outer))
    ['depth', 'parts']
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields
        return frozenset(fields).union(*(keys_of(field.annotation) for field in fields.values()))
    return frozenset[str]().union(*map(keys_of, get_args(annotation)))


def _place(part: int | str) -> str:
    """One step of a path in the file; keys that would break the line or hide in it are quoted."""
    text = str(part)
    return text if text.isprintable() and len(text) <= 60 else _shown(text)


def check_folder_of(path: Path) -> None:
    """Raise :class:`FileError` unless the folder that something is to be written into is there."""
    if path.parent.is_dir():
        return
    if path.parent.exists():
        raise FileError(f"{path}: {path.parent} is a file, and no folder: choose another place")
    raise FileError(f"{path}: its folder {path.parent} does not exist: create it, or choose another place")


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FileError(f"{path}: it cannot be written ({error}): choose another place") from None
    write_bytes(path, data)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        if path.exists() and not path.is_file():
            # A device or pipe (/dev/stdout) takes the bytes as they come: replacing it would destroy it.
            path.write_bytes(data)
        else:
            _replace(Path(os.path.realpath(path)), data)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise FileError(f"{path}: it cannot be written ({reason}): choose another place") from None


def write_folder(path: Path, files: Mapping[str, str]) -> None:
    """Write texts by relative path into a new or empty folder, all of them or none."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileError(f"{path}: it is there already, and not an empty folder: name a new one, or remove it")
    check_folder_of(path)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fadiff-") as temporary:
            whole = Path(temporary, "whole")
            for name, text in files.items():
                (whole / name).parent.mkdir(parents=True, exist_ok=True)
                (whole / name).write_text(text, encoding="utf-8")
            shutil.rmtree(path, ignore_errors=True)
            os.replace(whole, path)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise FileError(f"{path}: it cannot be written ({reason}): choose another place") from None


def _replace(path: Path, data: bytes) -> None:
    """Put a complete new file in the place of the old one; on any error, leave the old one as it was."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".fadiff-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        # mkstemp makes private files; give this one the permissions any new file would have.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
