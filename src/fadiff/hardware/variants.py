"""Variants of a machine: a hardware file with some of its values set to others.

A value goes by a key of the file (``l2``, ``bits.W``, ``clock``), or by a node and its key (``scratchpad.bytes``,
``cols.size``), also where the file gives the short keys of the Gemmini template. Energies that the file leaves out
follow the new capacities.
"""

from collections.abc import Mapping, Sequence, Set
from copy import deepcopy
from difflib import get_close_matches
from itertools import product
from typing import Any, cast

from fadiff.files import FileError
from fadiff.hardware.file import MachineFile, file_model, machine_data, machine_file
from fadiff.hardware.gemmini import GemminiFileModel
from fadiff.hardware.machine import Machine, MachineError, check_room
from fadiff.hardware.quantities import bytes_per_second, bytes_with_unit
from fadiff.hardware.space import FreeNumber, Space
from fadiff.hardware.space_file import has_ranges, space_of

SHORT_NAMES = {
    "rows": "rows.size",
    "cols": "cols.size",
    "l1_bytes": "l1",
    "l2": "scratchpad.bytes",
    "l2_bytes": "scratchpad.bytes",
}
"""Free numbers of spaces in the short form, by the keys that have the ranges."""


def variant_name(name: str, values: Mapping[str, object]) -> str:
    """What a variant is called.

    >>> variant_name("gemmini-large", {"scratchpad.bytes": "128 KB", "cols.size": 16})
    'gemmini-large:scratchpad.bytes=128KB,cols.size=16'
    """
    return f"{name}:{','.join(f'{key}={value}' for key, value in values.items())}".replace(" ", "")


def grid(axes: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """All combinations of the values of some keys, the last key changing first.

    >>> grid({"a": [1, 2], "b": [3, 4]})
    [{'a': 1, 'b': 3}, {'a': 1, 'b': 4}, {'a': 2, 'b': 3}, {'a': 2, 'b': 4}]
    """
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def read_variant(base: str, values: Mapping[str, object]) -> MachineFile:
    """A machine, by a built-in name or from a file, with some values set; of a space, with all of its free numbers set.

    >>> read_variant("gemmini-large", {"scratchpad.bytes": "128 KB"}).machine.fused_in().bytes
    131072
    """
    data = deepcopy(machine_data(base))
    if has_ranges(data):
        machine = _of_space(space_of(data, base), values, base)
        return MachineFile(machine, data.get("description", ""), data.get("source", ""), (), {})
    known = type(file_model(data, base)).model_fields.keys() - {"nodes"}
    of_nodes = {key: value for key, value in values.items() if not _set_in_file(data, known, key, value)}
    if of_nodes:
        data = _as_nodes(data, base)
        for key, value in of_nodes.items():
            _set_in_node(data, key, value, base)
    return machine_file({**data, "name": variant_name(data["name"], values)}, variant_name(base, values))


def _of_space(space: Space, values: Mapping[str, object], base: str) -> Machine:
    """The machine of a space with these free numbers; the short keys of the Gemmini template name theirs, too."""
    numbers = {number.name: number for number in space.numbers}
    set_ = dict[str, float]()
    for key, value in values.items():
        name = key if key in numbers else SHORT_NAMES.get(key, key)
        if name not in numbers:
            close = get_close_matches(key, numbers, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise FileError(f"{base}: {key!r} is none of the space's free numbers{hint}: use {', '.join(numbers)}")
        if name in set_:
            raise FileError(f"{base}: {name} is set twice: set it once")
        set_[name] = _within(numbers[name], value, f"{base}: {key}")
    free = [name for name in numbers if name not in set_]
    if free:
        raise FileError(f"{base}: {', '.join(free)} would stay free: set all free numbers of a space, each to a list")
    machine = space.at([set_[name] for name in numbers], variant_name(space.name, values))
    try:
        check_room(machine)
    except MachineError as error:
        raise FileError(f"{base}: {error}") from None
    return machine


def _within(number: FreeNumber, value: object, place: str) -> float:
    """A value of a free number, which must be one that can be built."""
    try:
        read = {"bytes": bytes_with_unit, "bytes/s": bytes_per_second}.get(number.unit)
        found = float(read(value) if read is not None and isinstance(value, str) else cast("float", value))
    except (TypeError, ValueError):
        raise FileError(f"{place} is {value!r}: write it as the range of the space is written") from None
    if not number.low <= found <= number.high or (number.whole and not found.is_integer()):
        raise FileError(f"{place} is {value}: the space has {number.low:g} to {number.high:g} {number.unit}".rstrip())
    return found


def _set_in_file(data: dict[str, Any], known: Set[str], key: str, value: object) -> bool:
    """Set a value that a key of the file itself names; whether there is such a key."""
    head, *rest = key.split(".")
    if head not in known:
        return False
    if not rest:
        data[head] = value
        return True
    inner = data.get(head, {})
    if not isinstance(inner, dict) or len(rest) > 1:
        return False
    data[head] = {**cast("dict[str, Any]", inner), rest[0]: value}
    return True


def _as_nodes(data: dict[str, Any], origin: str) -> dict[str, Any]:
    """The same file as a list of nodes."""
    model = file_model(data, origin)
    if not isinstance(model, GemminiFileModel):
        return data
    try:
        file = model.nodes_file()
    except MachineError as error:
        raise FileError(f"{origin}: {error}") from None
    nodes = [node.model_dump(exclude_unset=True, exclude_none=True) for node in file.nodes]
    return {**file.model_dump(exclude={"nodes"}, exclude_unset=True, exclude_none=True), "nodes": nodes}


def _set_in_node(data: dict[str, Any], key: str, value: object, origin: str) -> None:
    nodes = {str(node.get("memory", node.get("axis"))): node for node in data["nodes"]}
    name, dot, of_node = key.rpartition(".")
    if not dot or name not in nodes:
        close = get_close_matches(name or key, nodes, n=1)
        hint = f" (did you mean {close[0]}{'.bytes' if not dot else '.' + of_node}?)" if close else ""
        raise FileError(
            f"{origin}: there is no {key!r} to set{hint}: use a key of the file, such as clock, "
            f"or a node and its key, such as {next(iter(nodes))}.words_per_cycle; the nodes are {', '.join(nodes)}"
        )
    nodes[name][of_node] = value
