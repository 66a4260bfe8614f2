"""Schedule files: self-contained JSON, strict on load, that anyone can re-evaluate without this project.

`fadiff-schedule/2` is written; `fadiff-schedule/1`, which knew one kind of machine, is read and upgraded.
"""

import json
from collections.abc import Mapping as MappingOf
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, cast

from pydantic import ConfigDict, Field, NonNegativeFloat, PositiveFloat

from fadiff.errors import FadiffError
from fadiff.file_kinds import SCHEDULE, read_data
from fadiff.files import FileError, Strict, check_mapping, validate, write_text
from fadiff.hardware import Machine
from fadiff.hardware.gemmini import GemminiModel
from fadiff.hardware.machine_json import MachineModel, machine_to_json
from fadiff.schedule.asked import Asked, AskedOne
from fadiff.schedule.ir import DEFAULT_ORDER, Group, LowerBound, Mapping, Schedule, ScheduleError, Trips
from fadiff.workload import Dims
from fadiff.workload.file import DimsModel, WorkloadModel, dims_to_json, workload_to_json
from fadiff.workload.layer import MAX_SIZE

FORMAT = "fadiff-schedule/2"
FIRST_FORMAT = "fadiff-schedule/1"

TripCount = Annotated[int, Field(gt=0, le=MAX_SIZE)]
CostShare = Annotated[float, Field(gt=-1)]
"""cost / other cost - 1; below 0 where the other one keeps limits that this one does not."""


class TripsModel(Strict):
    """Shared trip counts; those of 1 may be left out."""

    G: TripCount = 1
    N: TripCount = 1
    P: TripCount = 1
    Q: TripCount = 1
    X: TripCount = 1


class GroupModel(Strict):
    """One fused group, or a layer on its own."""

    layers: list[str]
    trips: TripsModel = TripsModel()
    loops: str = "GNPQ"

    def value(self) -> Group:
        """The checked value."""
        trips = self.trips
        return Group(tuple(self.layers), Trips(trips.G, trips.N, trips.P, trips.Q, trips.X), self.loops)


class StatedCost(Strict):
    """The cost a schedule file states; readers recompute it and refuse the file where it differs."""

    energy_pj: NonNegativeFloat
    cycles: NonNegativeFloat
    edp_uj_cycles: NonNegativeFloat


class StatedBound(Strict):
    """What the file says that no schedule of its network on its machine undercuts."""

    energy_pj: PositiveFloat
    cycles: PositiveFloat
    edp_uj_cycles: PositiveFloat
    exact_factors: bool = False
    among: list[str] = Field(default=[])

    @classmethod
    def of(cls, bound: LowerBound) -> Self:
        """A bound as a file states it."""
        among = {"among": list(bound.among)}
        return cls.model_validate(asdict(bound) | among)

    def value(self) -> LowerBound:
        """The checked value."""
        return LowerBound(self.energy_pj, self.cycles, self.edp_uj_cycles, self.exact_factors, tuple(self.among))


class AskedOneModel(Strict):
    """A constraint under which a schedule was made, and what it costs."""

    constraint: str = Field(min_length=1)
    cost: CostShare | None = None
    asks: dict[str, Any] | None = None


class AskedModel(Strict):
    """All constraints under which a schedule was made; their sentences are taken as they are."""

    constraints: list[AskedOneModel] = Field(min_length=1)
    cost: CostShare | None = None
    objective: str = Field(default="edp", min_length=1)

    def value(self) -> Asked:
        """The checked value."""
        priced = self.cost is not None
        for i, one in enumerate(self.constraints):
            if (one.cost is not None) != priced:
                told = "has no cost, but all together have" if priced else "has a cost, but all together have none"
                raise FileError(f"asked.constraints.{i}: it {told}: give the cost of all and of each, or of none")
        each = tuple(AskedOne(one.constraint, one.cost, one.asks) for one in self.constraints)
        return Asked(each, self.cost, self.objective)


class MappingModel(Strict):
    """One mapping: factors by node, under the nodes' own names, and loop orders by memory."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, DimsModel]  # pyright: ignore[reportIncompatibleVariableOverride]
    order: dict[str, str] = Field(default={})

    def value(self, machine: Machine, place: str) -> Mapping:
        """The checked value."""
        return _mapping(machine, place, self.__pydantic_extra__, self.order)


class FirstOrderModel(Strict):
    """Loop orders of the first format."""

    L3: str | None = None
    L2: str | None = None
    L1: str | None = None


class FirstMappingModel(Strict):
    """A mapping of the first format: one array, four levels."""

    spatial: DimsModel = DimsModel()
    L3: DimsModel = DimsModel()
    L2: DimsModel = DimsModel()
    L1: DimsModel = DimsModel()
    L0: DimsModel = DimsModel()
    order: FirstOrderModel = FirstOrderModel()

    def value(self, machine: Machine, place: str) -> Mapping:
        """The same mapping by the nodes of the Gemmini template."""
        unrolled = self.spatial.model_dump()
        factors = {"DRAM": self.L3, "scratchpad": self.L2, "accumulator": self.L1, "registers": self.L0}
        factors["cols"] = DimsModel(**{dim: lanes for dim, lanes in unrolled.items() if dim in "KG"})
        factors["rows"] = DimsModel(**{dim: lanes for dim, lanes in unrolled.items() if dim not in "KG"})
        orders = {"DRAM": self.order.L3, "scratchpad": self.order.L2, "accumulator": self.order.L1}
        return _mapping(machine, place, factors, {name: order for name, order in orders.items() if order is not None})


OfMachine = TypeVar("OfMachine", MachineModel, GemminiModel)
OfMapping = TypeVar("OfMapping", MappingModel, FirstMappingModel)


class _ScheduleModel(Strict, Generic[OfMachine, OfMapping]):
    """The whole file, in either format."""

    workload: WorkloadModel
    hardware: OfMachine
    groups: list[GroupModel]
    mappings: dict[str, OfMapping]
    cost: StatedCost | None = None
    bound: StatedBound | None = None
    asked: AskedModel | None = None
    made_by: dict[str, str | int] = Field(default={})

    def value(self) -> Schedule:
        """The checked value."""
        machine = self.hardware.value()
        mappings = {name: given.value(machine, f"mappings.{name}") for name, given in self.mappings.items()}
        groups = tuple(group.value() for group in self.groups)
        bound = None if self.bound is None else self.bound.value()
        asked = None if self.asked is None else self.asked.value()
        return Schedule(self.workload.value(), machine, groups, mappings, self.made_by, bound, asked)


class ScheduleModel(_ScheduleModel[MachineModel, MappingModel]):
    """The present format."""

    format: Literal["fadiff-schedule/2"]


class FirstScheduleModel(_ScheduleModel[GemminiModel, FirstMappingModel]):
    """The first format."""

    format: Literal["fadiff-schedule/1"]


def _mapping(machine: Machine, place: str, given: MappingOf[str, DimsModel], orders: MappingOf[str, str]) -> Mapping:
    """A mapping from factors by node, and orders by memory where they matter."""
    factors = {name: dims.value() for name, dims in given.items()}
    for name, each in factors.items():
        if max(each) > MAX_SIZE:
            raise FileError(f"{place}.{name}: a factor is larger than any loop: it is at most {MAX_SIZE}")
    try:
        mapping = Mapping.of(machine, factors, orders)
    except ScheduleError as error:
        raise FileError(f"{place}: {error}") from None
    for memory in machine.memories[:-1]:
        if memory.name not in orders and sum(f > 1 for f in factors.get(memory.name, Dims())) > 1:
            raise FileError(f"{place}.order.{memory.name}: more than one loop runs there: give their order")
    return mapping


def read_schedule(path: Path) -> tuple[Schedule, StatedCost | None]:
    """A schedule file as values, with the cost it states. Legality and cost are for the caller to check."""
    data = read_data(path, SCHEDULE)
    check_mapping(data, str(path))
    if (stated := data.get("format")) not in (FORMAT, FIRST_FORMAT):
        told = "no format is stated" if stated is None else f"the format is {stated!r}"
        raise FileError(f"{path}: {told}: this version reads {FORMAT} and {FIRST_FORMAT}")
    model = validate(FirstScheduleModel if stated == FIRST_FORMAT else ScheduleModel, cast(object, data), str(path))
    try:
        return model.value(), model.cost
    except FadiffError as error:
        raise FileError(f"{path}: {error}") from None


def schedule_to_json(schedule: Schedule, cost: StatedCost) -> dict[str, Any]:
    """A schedule as plain JSON values, the inverse of reading one."""
    return {
        "format": FORMAT,
        "workload": workload_to_json(schedule.workload),
        "hardware": machine_to_json(schedule.machine),
        "groups": [_group_to_json(group) for group in schedule.groups],
        "mappings": {
            layer.name: _mapping_to_json(schedule.machine, schedule.mappings[layer.name])
            for layer in schedule.workload.layers
            if layer.is_mac
        },
        "cost": cost.model_dump(),
        **(
            {}
            if schedule.bound is None
            else {"bound": StatedBound.of(schedule.bound).model_dump(exclude_defaults=True)}
        ),
        **({} if schedule.asked is None else {"asked": _asked_to_json(schedule.asked)}),
        "made_by": dict(schedule.made_by),
    }


def write_schedule(path: Path, schedule: Schedule, cost: StatedCost) -> None:
    """Write a schedule file, whole or not at all: one line per layer, node, group and mapping."""
    data = schedule_to_json(schedule, cost)
    lists = [(data["workload"], "layers"), (data["hardware"], "nodes"), (data, "groups")]
    lists += [(data["workload"], key) for key in ("not_modelled", "notes") if key in data["workload"]]
    lists += [(data["asked"], "constraints")] if "asked" in data else []
    lines = {id(holder[key]): ",\n  ".join(map(json.dumps, holder[key])) for holder, key in lists}
    mappings = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(mapping)}" for name, mapping in data["mappings"].items())

    def told(value: Any) -> str:  # noqa: ANN401  (any JSON value)
        if id(value) in lines:
            return f"[\n  {lines[id(value)]}]"
        if isinstance(value, dict) and any(id(part) in lines for part in value.values()):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            parts = (f"{json.dumps(key)}: {told(part)}" for key, part in value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return "{" + ", ".join(parts) + "}"
        return f"{{\n  {mappings}}}" if value is data["mappings"] else json.dumps(value)

    write_text(path, "{" + ",\n ".join(f"{json.dumps(key)}: {told(value)}" for key, value in data.items()) + "}\n")


def _asked_to_json(asked: Asked) -> dict[str, Any]:
    each = {"constraints": [asdict(one) for one in asked.constraints]}
    return AskedModel.model_validate(asdict(asked) | each).model_dump(exclude_defaults=True)


def _group_to_json(group: Group) -> dict[str, Any]:
    written: dict[str, Any] = {"layers": list(group.layers)}
    trips = {loop: count for loop, count in group.trips._asdict().items() if count > 1}
    if trips:
        written["trips"] = trips
    if group.loops != "GNPQ":
        written["loops"] = group.loops
    return written


def _mapping_to_json(machine: Machine, mapping: Mapping) -> dict[str, Any]:
    """Factors above 1 by node; orders by memory, but for those a reader would take anyway."""
    factors = {node.name: dims_to_json(f) for node, f in zip(machine.nodes, mapping.factors, strict=True)}
    orders = {
        memory.name: order
        for memory, order in zip(machine.memories, mapping.orders, strict=True)
        if order != DEFAULT_ORDER or (len(factors[memory.name]) > 1 and memory is not machine.memories[-1])
    }
    return {**{name: told for name, told in factors.items() if told}, "order": orders}
