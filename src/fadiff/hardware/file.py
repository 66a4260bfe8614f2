"""Hardware files by name or path: the catalog that comes with the package, and files of one's own, YAML or JSON.

A file lists its nodes (:mod:`fadiff.hardware.nodes_file`), or gives the short keys of the Gemmini template
(:mod:`fadiff.hardware.gemmini`).
"""

from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any

from fadiff.file_kinds import HARDWARE, read_data, refuse_other_kinds
from fadiff.files import FileError, keys_of, misspelt, parse, validate
from fadiff.hardware.gemmini import GemminiFileModel
from fadiff.hardware.machine import Machine, MachineError, check_room
from fadiff.hardware.nodes_file import Filled, NodesFileModel
from fadiff.hardware.space import Space
from fadiff.hardware.space_file import has_ranges, space_of

SUFFIXES = (".yaml", ".yml", ".json")
GUIDE = "docs/accelerator.md"
"""The page that lists every key, and tells what to do about machines that are no list."""
NEAR = 0.65
"""How like a known key a misspelt one is, at least; `banks` is `lanes` to 0.6."""
CATALOG = resources.files("fadiff.hardware").joinpath("builtin")


@dataclass(frozen=True)
class MachineFile:
    """A machine with what its file says about it."""

    machine: Machine
    description: str
    """One line."""
    source: str
    """Who described the machine, and where."""
    notes: tuple[str, ...]
    """What was chosen, and what to know before numbers are compared."""
    filled: Filled
    """How each energy that the file leaves out was found."""


def builtin_machines() -> tuple[str, ...]:
    """The names of the machines that come with the package."""
    return tuple(sorted(file.name.removesuffix(".yaml") for file in CATALOG.iterdir() if file.name.endswith(".yaml")))


def load_machine(name_or_path: str) -> Machine:
    """A machine by its built-in name, or from a YAML or JSON file.

    >>> load_machine("gemmini-large").fused_in().bytes
    524288
    """
    return read_machine(name_or_path).machine


def read_machine(name_or_path: str) -> MachineFile:
    """A machine by its built-in name, or from a YAML or JSON file, with what the file says about it."""
    found = read_hardware(name_or_path)
    if isinstance(found, Space):
        raise FileError(
            f"{name_or_path}: this is a space of machines, not one machine: give numbers instead of ranges, or let "
            "fadiff codesign search it"
        )
    return found


def read_hardware(name_or_path: str) -> MachineFile | Space:
    """A machine by its built-in name, or what a file describes: a machine, or a space of machines."""
    data = machine_data(name_or_path)
    return space_of(data, name_or_path) if has_ranges(data) else machine_file(data, name_or_path)


def machine_data(name_or_path: str) -> Any:  # noqa: ANN401  (any JSON value)
    """The plain values of a hardware file, by a built-in name or a path."""
    known = builtin_machines()
    if name_or_path in known:
        return parse(CATALOG.joinpath(f"{name_or_path}.yaml").read_text(encoding="utf-8"), name_or_path)
    if name_or_path.lower().endswith(SUFFIXES):
        return read_data(Path(name_or_path), HARDWARE)
    refuse_other_kinds(Path(name_or_path), HARDWARE)
    close = get_close_matches(name_or_path, known, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise FileError(
        f"{name_or_path or repr('')}: no built-in hardware has this name{hint}: "
        f"choose {', '.join(known)}, or a file that ends in {', '.join(SUFFIXES)}"
    )


def file_model(data: object, origin: str) -> NodesFileModel | GemminiFileModel:
    """The values of a hardware file, checked; `origin` names it in errors."""
    return validate(NodesFileModel if _lists_nodes(data) else GemminiFileModel, data, origin, _about_unknown)


def machine_file(data: object, origin: str) -> MachineFile:
    """The machine that the values of a hardware file stand for."""
    model = file_model(data, origin)
    try:
        machine, filled = model.filled_in()
        check_room(machine)
    except MachineError as error:
        raise FileError(f"{origin}: {error}") from None
    return MachineFile(machine, model.description, model.source, tuple(model.notes), filled)


def _about_unknown(key: str) -> str:
    """What to say about an unknown key: it is misspelt, or nothing that a file can describe."""
    known = {name.casefold() for name in keys_of(NodesFileModel) | keys_of(GemminiFileModel)}
    if get_close_matches(key.casefold(), known, n=1, cutoff=NEAR):
        return misspelt(key)
    return f"it cannot be described, or has another name: remove it, and see the keys that there are in {GUIDE}"


def _lists_nodes(data: object) -> bool:
    return isinstance(data, dict) and "nodes" in data
