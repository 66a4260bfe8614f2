"""Schedule files: self-contained JSON, strict on load, that anyone can re-evaluate without this project."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat

from fadiff.errors import FadiffError
from fadiff.files import FileError, Strict, parse, read_text, validate, write_text
from fadiff.hardware import HardwareModel, hardware_to_json
from fadiff.schedule.ir import DEFAULT_ORDER, Group, Mapping, Schedule, ScheduleError, Trips
from fadiff.workload import Dims
from fadiff.workload.file import DimsModel, WorkloadModel, dims_to_json, workload_to_json
from fadiff.workload.layer import MAX_SIZE

FORMAT = "fadiff-schedule/1"

TripCount = Annotated[int, Field(gt=0, le=MAX_SIZE)]


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


class OrderModel(Strict):
    """Loop orders, outer to inner; a level with at most one running loop may leave its order out."""

    L3: str | None = None
    L2: str | None = None
    L1: str | None = None


class MappingModel(Strict):
    """The mapping of one MAC layer."""

    spatial: DimsModel = DimsModel()
    L3: DimsModel = DimsModel()
    L2: DimsModel = DimsModel()
    L1: DimsModel = DimsModel()
    L0: DimsModel = DimsModel()
    order: OrderModel = OrderModel()

    def value(self, layer: str) -> Mapping:
        """The checked value."""
        for key in ("spatial", "L3", "L2", "L1", "L0"):
            factors: DimsModel = getattr(self, key)
            if max(factors.value()) > MAX_SIZE:
                raise FileError(f"mappings.{layer}.{key}: a factor is larger than any loop: it is at most {MAX_SIZE}")
        orders: dict[str, str] = {}
        for level, factors in (("L1", self.L1), ("L2", self.L2), ("L3", self.L3)):
            order: str | None = getattr(self.order, level)
            if order is None and sum(trips > 1 for trips in factors.value()) > 1:
                raise FileError(f"mappings.{layer}.order.{level}: more than one loop runs at {level}: give their order")
            orders[level] = DEFAULT_ORDER if order is None else order
        try:
            return Mapping(
                spatial=self.spatial.value(),
                l0=self.L0.value(),
                l1=self.L1.value(),
                l2=self.L2.value(),
                l3=self.L3.value(),
                order1=orders["L1"],
                order2=orders["L2"],
                order3=orders["L3"],
            )
        except ScheduleError as error:
            raise FileError(f"mappings.{layer}: {error}") from None


class StatedCost(Strict):
    """The cost a schedule file states; readers recompute it and refuse the file where it differs."""

    energy_pj: NonNegativeFloat
    cycles: NonNegativeFloat
    edp_uj_cycles: NonNegativeFloat


class ScheduleModel(Strict):
    """The whole file."""

    format: Literal["fadiff-schedule/1"]
    workload: WorkloadModel
    hardware: HardwareModel
    groups: list[GroupModel]
    mappings: dict[str, MappingModel]
    cost: StatedCost | None = None
    made_by: dict[str, str | int] = Field(default={})

    def value(self) -> Schedule:
        """The checked value."""
        return Schedule(
            workload=self.workload.value(),
            hardware=self.hardware.value(),
            groups=tuple(group.value() for group in self.groups),
            mappings={name: mapping.value(name) for name, mapping in self.mappings.items()},
            made_by=self.made_by,
        )


def read_schedule(path: Path) -> tuple[Schedule, StatedCost | None]:
    """A schedule file as values, with the cost it states. Legality and cost are for the caller to check."""
    model = validate(ScheduleModel, parse(read_text(path), str(path)), str(path))
    try:
        return model.value(), model.cost
    except FadiffError as error:
        raise FileError(f"{path}: {error}") from None


def schedule_to_json(schedule: Schedule, cost: StatedCost) -> dict[str, Any]:
    """A schedule as plain JSON values, the inverse of reading one."""
    return {
        "format": FORMAT,
        "workload": workload_to_json(schedule.workload),
        "hardware": hardware_to_json(schedule.hardware),
        "groups": [_group_to_json(group) for group in schedule.groups],
        "mappings": {
            layer.name: _mapping_to_json(schedule.mappings[layer.name])
            for layer in schedule.workload.layers
            if layer.is_mac
        },
        "cost": cost.model_dump(),
        "made_by": dict(schedule.made_by),
    }


def write_schedule(path: Path, schedule: Schedule, cost: StatedCost) -> None:
    """Write a schedule file, whole or not at all: one line per layer, group and mapping."""
    data = schedule_to_json(schedule, cost)
    workload = data["workload"]
    layers = ",\n   ".join(json.dumps(layer) for layer in workload["layers"])
    groups = ",\n  ".join(json.dumps(group) for group in data["groups"])
    mappings = ",\n  ".join(f"{json.dumps(name)}: {json.dumps(mapping)}" for name, mapping in data["mappings"].items())
    write_text(
        path,
        f'{{"format": {json.dumps(FORMAT)},\n'
        f' "workload": {{"name": {json.dumps(workload["name"])}, "layers": [\n   {layers}]}},\n'
        f' "hardware": {json.dumps(data["hardware"])},\n'
        f' "groups": [\n  {groups}],\n'
        f' "mappings": {{\n  {mappings}}},\n'
        f' "cost": {json.dumps(data["cost"])},\n'
        f' "made_by": {json.dumps(data["made_by"])}}}\n',
    )


def _group_to_json(group: Group) -> dict[str, Any]:
    written: dict[str, Any] = {"layers": list(group.layers)}
    trips = {loop: count for loop, count in group.trips._asdict().items() if count > 1}
    if trips:
        written["trips"] = trips
    if group.loops != "GNPQ":
        written["loops"] = group.loops
    return written


def _mapping_to_json(mapping: Mapping) -> dict[str, Any]:
    levels: tuple[tuple[str, Dims], ...] = (
        ("spatial", mapping.spatial),
        ("L3", mapping.l3),
        ("L2", mapping.l2),
        ("L1", mapping.l1),
        ("L0", mapping.l0),
    )
    written: dict[str, Any] = {key: dims_to_json(factors) for key, factors in levels}
    written["order"] = {f"L{level}": mapping.order(level) for level in (3, 2, 1)}
    return written
