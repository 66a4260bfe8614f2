"""Reads the priced schedule files with nothing but `json`."""

import json
from pathlib import Path

from fadiff.hardware import Axis, Bits, Machine, Memory
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.workload import Dims, Input, Layer, Workload

FOLDER = Path(__file__).parents[1] / "schedules2"


def read(path: Path) -> tuple[Schedule, dict[str, float]]:
    """The schedule of a file and the cost that the file states."""
    data = json.loads(path.read_text())
    machine = _machine(data["hardware"])
    groups = tuple(
        Group(tuple(g["layers"]), Trips(**g.get("trips", {})), g.get("loops", "GNPQ")) for g in data["groups"]
    )
    mappings = {
        name: Mapping.of(machine, {k: Dims(**v) for k, v in m.items() if k != "order"}, m.get("order"))
        for name, m in data["mappings"].items()
    }
    layers = tuple(_layer(layer) for layer in data["workload"]["layers"])
    return Schedule(Workload(data["workload"]["name"], layers), machine, groups, mappings), data["cost"]


def _machine(data: dict) -> Machine:
    bits = {"spilled": data["bits"]["sums"], **data["bits"]}
    nodes = [
        Axis(node["axis"], node["size"], node["dims"])
        if "axis" in node
        else Memory(name=node["memory"], **{key: value for key, value in node.items() if key != "memory"})
        for node in data["nodes"]
    ]
    return Machine(**{**data, "bits": Bits(**bits), "nodes": tuple(nodes)})


def _layer(data: dict) -> Layer:
    dims = Dims(**data["dims"])
    inputs = tuple(Input(i["from"], i["port"], i.get("fusible", True)) for i in data["inputs"])
    pairs = {key: tuple(data[key]) for key in ("stride", "dilation", "pad", "epilogue") if key in data}
    out = (data["out"].get("P", dims.P), data["out"].get("Q", dims.Q)) if "out" in data else None
    return Layer(data["name"], data["kind"], dims, inputs, out=out, repeat=data.get("repeat", 1), **pairs)
