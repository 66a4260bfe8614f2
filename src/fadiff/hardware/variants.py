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
from fadiff.hardware.machine import MachineError
from fadiff.hardware.space_file import has_ranges


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
    """A machine, by a built-in name or from a file, with some values set.

    >>> read_variant("gemmini-large", {"scratchpad.bytes": "128 KB"}).machine.fused_in().bytes
    131072
    """
    data = deepcopy(machine_data(base))
    if has_ranges(data):
        raise FileError(f"{base}: this is a space of machines, not one machine: give numbers instead of ranges")
    known = type(file_model(data, base)).model_fields.keys() - {"nodes"}
    of_nodes = {key: value for key, value in values.items() if not _set_in_file(data, known, key, value)}
    if of_nodes:
        data = _as_nodes(data, base)
        for key, value in of_nodes.items():
            _set_in_node(data, key, value, base)
    return machine_file({**data, "name": variant_name(data["name"], values)}, variant_name(base, values))


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
