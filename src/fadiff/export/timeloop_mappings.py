"""Mappings of Timeloop, read onto a machine of ours: files that were exported, and what Timeloop writes.

A mapping names its levels. They are nodes of the machine, by their own names or as an export calls them; a spatial
entry names the axis, the level above the fan-out, or ``inter_NAME_spatial``, what the front end puts above NAME.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field

from fadiff.errors import FadiffError
from fadiff.export.exported import LAYERS, folder_names
from fadiff.export.timeloop import TENSOR_NAMES, level_names, remainders
from fadiff.file_kinds import MAPPING, read_data
from fadiff.files import FileError, Strict, validate
from fadiff.hardware import Axis, Machine, Memory
from fadiff.schedule import Group, Schedule
from fadiff.schedule import Mapping as LayerMapping
from fadiff.workload import DIMS, Dims, Layer, Workload
from fadiff.workload.names import listed

FILES = ("mapping.yaml", "*map.yaml")
"""Files of a layer's folder that hold its mapping: an exported one, and what Timeloop calls its own."""
_FACTOR = re.compile(r"\s*,?\s*([A-Za-z]+)\s*=?\s*(\d+)(?:,(\d+))?")


class Directive(Strict):
    """One entry of a mapping."""

    target: str
    type: Literal["temporal", "spatial", "datatype", "dataspace", "bypass"]
    factors: str | list[str] = ""
    permutation: str | list[str] = ""
    split: int | None = None
    keep: list[str] = Field(default=[])
    bypass: list[str] = Field(default=[])
    no_link_transfer: list[str] = Field(default=[])
    """Tensors that lanes do not pass on to each other: here they never do."""


class MappingFile(BaseModel):
    """A file with a mapping; what else is in it is for others."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)
    mapping: list[Directive]


class Loop(NamedTuple):
    """A loop of a mapping: its trips, and how many it makes when every loop outside is in its last one."""

    trips: int = 1
    last: int = 1


def read_mappings(place: Path | str, workload: Workload, machine: Machine) -> Schedule:
    """A schedule of single layers from Timeloop's mappings: a folder that was exported, one with a folder for each
    layer, or the file of a network's only layer. Whether it is legal is for the caller to check.
    """
    place = Path(place)
    macs = [layer for layer in workload.layers if layer.is_mac]
    if place.is_dir():
        files = _files_in(place, workload)
    elif len(macs) == 1:
        files = {macs[0].name: place}
    else:
        told = listed([layer.name for layer in macs])
        raise FileError(f"{place}: a file maps one layer, {workload.name} has {len(macs)} ({told}): name a folder")
    mappings = {name: _read(file, workload[name], machine) for name, file in files.items()}
    groups = tuple(Group((layer.name,)) for layer in workload.layers)
    return Schedule(workload, machine, groups, mappings, {"method": "import-mapping", "from": "timeloop"})


def _files_in(folder: Path, workload: Workload) -> dict[str, Path]:
    """The file of each MAC layer."""
    exported = (folder / LAYERS).is_dir()
    found: dict[str, Path] = {}
    for name, path in folder_names(workload).items():
        place = folder / (path if exported else path.removeprefix(f"{LAYERS}/"))
        files = sorted({file for pattern in FILES for file in place.glob(pattern)})
        if not files:
            raise FileError(f"{place}: there is no mapping of {name!r} ({' or '.join(FILES)}): put one there")
        if len(files) > 1:
            raise FileError(f"{place}: {files[0].name} and {files[1].name} both map {name!r}: keep one of them")
        found[name] = files[0]
    return found


def _read(file: Path, layer: Layer, machine: Machine) -> LayerMapping:
    data = cast("object", read_data(file, MAPPING))
    if isinstance(data, dict) and "mapping" not in data:
        raise FileError(f"{file}: there is no key mapping: is this a mapping of Timeloop?")
    model = validate(
        MappingFile, cast("object", data), str(file), lambda key: "nothing of the kind is known here: remove it"
    )
    try:
        return mapping_from(model.mapping, layer, machine)
    except FadiffError as error:
        raise FileError(f"{file}: {error}") from None


def mapping_from(directives: Sequence[Directive], layer: Layer, machine: Machine) -> LayerMapping:
    """A layer's mapping from the entries of Timeloop's."""
    levels, dims = _Levels(machine), _dims(directives, layer)
    factors = {node.name: dict.fromkeys(DIMS, Loop()) for node in machine.nodes}
    orders: dict[str, str] = {}
    for i, directive in enumerate(directives):
        where = f"{directive.type} of {directive.target}"
        if any((d.type, d.target) == (directive.type, directive.target) for d in directives[:i]):
            raise FadiffError(f"{where}: it is given twice: keep one")
        if directive.type in ("datatype", "dataspace", "bypass"):
            _check_keeps(levels, directive, where)
            continue
        given = _loops(directive, dims, layer, where)
        order = _permutation(directive, dims, where)
        if directive.type == "temporal":
            memory = levels.memory(directive.target)
            if memory is None:
                if any(loop.trips > 1 for loop in given.values()):
                    raise FadiffError(f"{where}: no memory is there, so no loop can run: move its factors")
                continue
            factors[memory.name].update(given)
            rest = [dim for dim in DIMS if dim not in order]
            orders[memory.name] = "".join([*order, *rest])[::-1]
        else:
            for axis, lanes in _spread(levels.axes(directive.target), order, directive.split, given, where):
                factors[axis.name].update(lanes)
    return _whole(machine, layer, factors, orders)


def _whole(
    machine: Machine,
    layer: Layer,
    factors: Mapping[str, Mapping[str, Loop]],
    orders: Mapping[str, str],
) -> LayerMapping:
    """The mapping, once its factors and remainders make the layer's sizes."""
    given = [factors[node.name] for node in machine.nodes]
    for dim, size in layer.dims._asdict().items():
        last = 0
        for of_node in given:
            last = last * of_node[dim].trips + of_node[dim].last - 1
        if last + 1 != size:
            raise FadiffError(f"the factors of {dim} make {last + 1}, but {layer.name!r} has {size}: correct them")
    trips = {node: Dims(**{dim: loop.trips for dim, loop in loops.items()}) for node, loops in factors.items()}
    mapping = LayerMapping.of(machine, trips, orders)
    # A loop that is cut every time it runs is a shorter one.
    runs = remainders(layer.dims, mapping)
    outermost = dict.fromkeys(DIMS, True)
    shortened: list[Dims] = []
    for of_node, until in zip(mapping.factors, runs, strict=True):
        shortened.append(Dims(*(u if outermost[d] else f for d, f, u in zip(DIMS, of_node, until, strict=True))))
        outermost = {d: outermost[d] and f == 1 for d, f in zip(DIMS, shortened[-1], strict=True)}
    return LayerMapping(tuple(shortened), mapping.orders)


@dataclass(frozen=True)
class _Levels:
    """The machine's nodes by what a mapping may call them."""

    machine: Machine

    def memory(self, target: str) -> Memory | None:
        """The memory of a name; None for a level that only fans out."""
        node, fans_out = self._node(target)
        return node if isinstance(node, Memory) and not fans_out else None

    def axes(self, target: str) -> list[Axis]:
        """The axes that a level fans out over, outermost first: itself, those above what it fans out to, or below."""
        node, fans_out = self._node(target)
        if isinstance(node, Axis):
            return [node]
        here, nodes = self.machine.number[node.name], self.machine.nodes
        next_ones = reversed(nodes[:here]) if fans_out else nodes[here + 1 :]
        found = [one for one in takewhile(lambda one: isinstance(one, Axis), next_ones) if isinstance(one, Axis)]
        return found[::-1] if fans_out else found

    def _node(self, target: str) -> tuple[Memory | Axis, bool]:
        """A node, and whether the name is that of a level above it."""
        by_level = {level: self.machine.nodes[i] for i, level in enumerate(level_names(self.machine).values())}
        by_name = {node.name: node for node in self.machine.nodes}
        fan_out = re.fullmatch(r"inter_(.+)_spatial", target)
        for names in (by_level, by_name):
            if target in names:
                return names[target], False
            if fan_out and fan_out[1] in names:
                return names[fan_out[1]], True
        told = ", ".join(by_name)
        raise FadiffError(f"target {target!r} is no node of {self.machine.name}: its nodes are {told}")


def _texts(given: str | list[str]) -> str:
    return given if isinstance(given, str) else " ".join(given)


def _dims(directives: Sequence[Directive], layer: Layer) -> dict[str, str]:
    """Our dim for each letter of a mapping: M is K; where G is not spoken of, the channel of a depthwise layer is G."""
    spoken = "".join(_texts(d.factors) + _texts(d.permutation) for d in directives)
    depthwise = layer.dims.G > 1 and layer.dims.K == 1 and "G" not in spoken
    return {dim: dim for dim in DIMS} | ({"K": "G", "M": "G"} if depthwise else {"M": "K"})


def _dim(letter: str, dims: Mapping[str, str], where: str) -> str:
    if letter not in dims:
        raise FadiffError(f"{where}: dim {letter!r} is unknown: use {', '.join(DIMS)}, or M for K")
    return dims[letter]


def _loops(directive: Directive, dims: Mapping[str, str], layer: Layer, where: str) -> dict[str, Loop]:
    """Factors by dim, each with how far its loop runs the last time."""
    text, found = _texts(directive.factors).split("#")[0].strip(), dict[str, Loop]()
    place = 0
    while place < len(text):
        match = _FACTOR.match(text, place)
        if match is None:
            raise FadiffError(
                f"{where}: factors {text[place:].strip()!r} are not of the form P=4 or P=4,3: correct them"
            )
        place = match.end()
        dim = _dim(match[1], dims, where)
        if dim in found:
            raise FadiffError(f"{where}: {dim} has two factors: keep one")
        # Timeloop reads 0 as the whole dim.
        trips = int(match[2]) or getattr(layer.dims, dim)
        last = int(match[3] or trips)
        if not 1 <= last <= trips:
            raise FadiffError(f"{where}: {dim} runs to {last} of {trips} the last time: give 1 to {trips}")
        found[dim] = Loop(trips, last)
    return found


def _permutation(directive: Directive, dims: Mapping[str, str], where: str) -> list[str]:
    """Dims from inner to outer, as far as they are given."""
    names = re.findall(r"[A-Za-z]", _texts(directive.permutation))
    order = [_dim(name, dims, where) for name in names]
    if len(set(order)) < len(order):
        raise FadiffError(f"{where}: permutation {''.join(names)!r} names a dim twice: name each once")
    return order


def _spread(
    axes: Sequence[Axis], order: Sequence[str], split: int | None, given: Mapping[str, Loop], where: str
) -> Iterator[tuple[Axis, dict[str, Loop]]]:
    """Factors by axis: of two, the first takes the dims before the split (Timeloop's X), the second those after."""
    running = {dim: loop for dim, loop in given.items() if loop.trips > 1}
    if not running:
        return
    if not axes or len(axes) > 2:
        raise FadiffError(f"{where}: {len(axes)} axes lie there: name the axis that its factors are of")
    x = len(order) if split is None or len(axes) == 1 else split
    placed = {dim: i for i, dim in enumerate(order)}
    parts: tuple[dict[str, Loop], ...] = ({}, {})
    for dim, loop in running.items():
        parts[placed.get(dim, len(order)) >= x if len(axes) > 1 else 0][dim] = loop
    yield from zip(axes, parts, strict=False)


def _check_keeps(levels: _Levels, directive: Directive, where: str) -> None:
    """A level keeps what the machine's memory keeps: else the counts would be those of another machine."""
    memory = levels.memory(directive.target)
    keeps = "" if memory is None else memory.keeps
    for names, wanted in ((directive.keep, True), (directive.bypass, False)):
        for name in names:
            tensor = next((t for t, long in TENSOR_NAMES.items() if name in (t, long)), None)
            if tensor is None:
                known = ", ".join(TENSOR_NAMES.values())
                raise FadiffError(f"{where}: tensor {name!r} is unknown: use {known}")
            if (tensor in keeps) is not wanted:
                does = "does not keep" if wanted else "keeps"
                says = "keeps" if wanted else "bypasses"
                raise FadiffError(
                    f"{where}: it {says} {name}, but {directive.target} of {levels.machine.name} {does} them: "
                    "write a hardware file whose memories keep the same"
                )
