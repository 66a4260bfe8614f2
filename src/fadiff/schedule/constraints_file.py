"""Constraint files: YAML or JSON, checked, with errors that name the place."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, model_validator

from fadiff.errors import FadiffError
from fadiff.file_kinds import CONSTRAINTS, read_data
from fadiff.files import FileError, Strict, validate
from fadiff.schedule.constraint_kinds import Constraint, Extent, Factor, Once, Order, Unroll
from fadiff.schedule.constraints import Constraints, kept, kept_mappings
from fadiff.schedule.file import TripCount, TripsModel, read_schedule
from fadiff.schedule.group_constraints import Fuse, Together
from fadiff.schedule.ir import Schedule, Trips
from fadiff.schedule.selection import Layers


def _listed(value: object) -> object:
    """One name where a list of them may stand."""
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
Pair = Annotated[list[Names], Field(min_length=2, max_length=2)]


class EndsModel(Strict):
    """A number, or what it is at least and at most."""

    least: TripCount = 1
    most: TripCount | None = None

    @model_validator(mode="before")
    @classmethod
    def _fixed(cls, value: object) -> object:
        if isinstance(value, int) and not isinstance(value, bool):
            return {"least": value, "most": value}
        if not isinstance(value, dict):
            raise ValueError("write a whole number, or {least: 2}, {most: 8} or both")
        return cast("dict[object, object]", value)


class UnrollModel(Strict):
    """Dims that an axis unrolls only, or never."""

    only: str | None = None
    never: str = ""

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        if isinstance(value, str):
            return {"only": value}
        keys = cast("dict[object, object]", value) if isinstance(value, dict) else {}
        if not keys or {"only", "never"} <= {*keys}:
            raise ValueError('write dims that alone are unrolled, such as KC or "" for none, or {never: RS}')
        return keys


class MappingRule(Strict):
    """What is asked of the mappings of some layers."""

    layers: Names = Field(default=["*"])
    kinds: Names = Field(default=[])
    but: Names = Field(default=[])
    factors: dict[str, dict[str, EndsModel]] = Field(default={})
    extents: dict[str, dict[str, EndsModel]] = Field(default={})
    order: dict[str, str] = Field(default={})
    unroll: dict[str, UnrollModel] = Field(default={})
    once: Annotated[list[Literal["W", "O"]], BeforeValidator(_listed)] = Field(default=[])

    @model_validator(mode="after")
    def _asking(self) -> MappingRule:
        if not (any(self.factors.values()) or any(self.extents.values()) or self.order or self.unroll or self.once):
            raise ValueError("this asks for nothing: give it factors, extents, order, unroll or once")
        return self

    def values(self) -> Iterator[Constraint]:
        """The constraints, each on its own."""
        layers = Layers(tuple(self.layers), tuple(self.kinds), tuple(self.but))
        for node, ends in self.factors.items():
            yield from (Factor(node, dim, one.least, one.most, layers) for dim, one in ends.items())
        for memory, ends in self.extents.items():
            yield from (Extent(memory, dim, one.least, one.most, layers) for dim, one in ends.items())
        for axis, dims in self.unroll.items():
            yield Unroll(axis, dims.only, dims.never, layers)
        for memory, order in self.order.items():
            yield Order(memory, order, layers)
        for tensor in self.once:
            yield Once(tensor, layers)


class OutputsModel(Strict):
    """Layers whose outputs stay on chip, or leave it."""

    on_chip: Names = Field(default=[])
    off_chip: Names = Field(default=[])


class GivenGroup(Strict):
    """A group of exactly these layers."""

    layers: list[str] = Field(min_length=1)
    trips: TripsModel | None = None
    loops: str | None = None

    def value(self) -> Together:
        """The checked value."""
        trips = None if self.trips is None else Trips(**self.trips.model_dump())
        return Together(tuple(self.layers), trips, self.loops)


class KeepModel(Strict):
    """Layers as they are in a schedule: of a file, or of that in whose own file this stands, where it may say how their
    loops at the first memory nested in the one that they were taken from."""

    schedule: str | None = None
    layers: Names = Field(default=["*"])
    order: str | None = None


class ConstraintsModel(Strict):
    """The whole file."""

    mapping: list[MappingRule] = Field(default=[])
    fuse: list[Pair] = Field(default=[])
    split: list[Pair] = Field(default=[])
    outputs: OutputsModel = OutputsModel()
    groups: list[GivenGroup] = Field(default=[])
    keep: list[KeepModel] = Field(default=[])

    def values(self, folder: Path, own: Schedule | None = None) -> Iterator[Constraint]:
        """The constraints, each on its own; schedules to keep are sought from a folder on, but for the `own` one."""
        for i, rule in enumerate(self.mapping):
            yield from _at(f"mapping.{i}", rule.values())
        for key, pairs, fused in (("fuse", self.fuse, True), ("split", self.split, False)):
            for i, (source, target) in enumerate(pairs):
                ends = Layers(tuple(source)), Layers(tuple(target))
                yield from _at(f"{key}.{i}", iter([Fuse(*ends, fused)]))
        for names, fused in ((self.outputs.on_chip, True), (self.outputs.off_chip, False)):
            yield from (Fuse(Layers((name,)), fused=fused) for name in names)
        for i, group in enumerate(self.groups):
            yield from _at(f"groups.{i}", (one.value() for one in [group]))
        for one in self.keep:
            if one.schedule is not None and one.order is None:
                yield from kept(read_schedule(folder / one.schedule)[0], one.layers)
            elif own is not None:
                yield from (keep.nested(one.order) for keep in kept_mappings(own, one.layers))
            else:
                raise FileError("keep: name the schedule that has these layers, and no order")


def load_constraints(source: Path | str | MappingOf[str, Any]) -> Constraints:
    """Constraints from a file, or from values as a file has them.

    >>> asked = load_constraints({"fuse": [["conv1", "conv2"]], "mapping": [{"unroll": {"cols": "K"}}]})
    >>> [str(one) for one in asked.given]
    ['all layers: cols unrolls only K', 'conv1 -> conv2 is fused']
    """
    if isinstance(source, str | Path):
        origin, data = str(source), cast(object, read_data(Path(source), CONSTRAINTS))
        folder = Path(source).parent
    else:
        origin, data, folder = "constraints", source, Path()
    model = validate(ConstraintsModel, data, origin)
    try:
        return Constraints(tuple(model.values(folder)))
    except FadiffError as error:
        raise FileError(f"{origin}: {error}") from None


def asked_of(schedule: Schedule, origin: str) -> Constraints | None:
    """The constraints under which a schedule was made, as its file has them; None where it does not have all."""
    each = () if schedule.asked is None else schedule.asked.constraints
    found: list[Constraint] = []
    for i, one in enumerate(each):
        if one.asks is None:
            return None
        place = f"{origin}: asked.constraints.{i}.asks"
        try:
            found += validate(ConstraintsModel, one.asks, place).values(Path(origin).parent, schedule)
        except FadiffError as error:
            raise FileError(str(error) if str(error).startswith(place) else f"{place}: {error}") from None
    return Constraints(tuple(found))


def _at(place: str, values: Iterator[Constraint]) -> Iterator[Constraint]:
    """Constraints with their place in the file told where one does not make sense."""
    try:
        yield from values
    except FadiffError as error:
        raise FileError(f"{place}: {error}") from None
