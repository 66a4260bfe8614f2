"""A schedule as input of ZigZag 3: an accelerator, and for each layer a workload and a mapping, all of them YAML.

.. code-block:: text

    accelerator.yaml             memories, innermost first; D1, D2, ... are the axes, outermost first
    layers/NAME/workload.yaml    the layer's equation, sizes and precisions
    layers/NAME/mapping.yaml     what is unrolled over which dimension, and all temporal loops, inner to outer

ZigZag gives each loop to a memory itself, for each operand on its own: the innermost that has room. So the order of
loops can be told, and where a memory's loops end cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from fadiff.errors import FadiffError
from fadiff.export.alone import layers_alone
from fadiff.export.exported import README, Exported, Remark, dump, folder_names, plain_names, readme
from fadiff.hardware import Machine, Memory
from fadiff.schedule import Mapping, Schedule
from fadiff.schedule.rules import Examined
from fadiff.workload import DIMS, Layer

DIM_NAMES = dict(zip(DIMS, ("G", "B", "K", "C", "OY", "OX", "FY", "FX"), strict=True))
OPERANDS = {"W": "I2", "I": "I1", "O": "O"}
MOST_DIMENSIONS = 4
"""Dimensions of the array that ZigZag's mappings know."""
UNBOUNDED_BITS = 2**50
"""The size of the first memory, which ZigZag wants to know."""
_EQUATION = "O[g][b][k][oy][ox]+=W[g][k][c][fy][fx]*I[g][b][c][iy][ix]"
_HOW = """
FADiff wrote this folder for ZigZag 3. A layer runs with

    from zigzag.api import get_hardware_performance_zigzag
    folder = "layers/NAME"
    get_hardware_performance_zigzag(f"{folder}/workload.yaml", "accelerator.yaml", f"{folder}/mapping.yaml")

An access is charged by the bit, as here: `bandwidth_min` is 1. By its default ZigZag charges one read for a value that
stays at the output of an innermost memory, where FADiff charges one for each multiply-accumulate; and its latency has
stalls and the loading of the first tiles in it.
"""


def to_zigzag(schedule: Schedule) -> Exported:
    """A legal schedule as ZigZag's files."""
    apart, remarks = layers_alone(schedule)
    machine = apart.machine
    if len(machine.axes) > MOST_DIMENSIONS:
        known = f"ZigZag's mappings know {MOST_DIMENSIONS} dimensions"
        raise FadiffError(f"hardware {machine.name!r} has {len(machine.axes)} axes, and {known}: join some of them")
    files = {"accelerator.yaml": dump(accelerator(machine))}
    for name, folder in folder_names(apart).items():
        files[f"{folder}/workload.yaml"] = dump([workload(machine, apart.workload[name])])
        files[f"{folder}/mapping.yaml"] = dump([mapping_of(machine, apart.workload[name], apart.mappings[name])])
    remarks = [*remarks, *_of_machine(machine), *_of_layers(apart)]
    files[README] = readme(f"{schedule.workload.name} on {machine.name}, for ZigZag", _HOW, apart, remarks)
    return Exported(files, remarks)


# The machine.


def accelerator(machine: Machine) -> dict[str, Any]:
    """The memories, innermost first, each with the dimensions that it serves: the axes further in."""
    names = dict(zip(machine.memories, plain_names(memory.name for memory in machine.memories), strict=True))
    sizes = [axis.size for axis in machine.axes] or [1]
    return {
        "name": machine.name,
        "operational_array": {
            "unit_energy": float(machine.mac_pj),
            "unit_area": 0.0,
            "dimensions": _dimensions(machine),
            "sizes": sizes,
        },
        "memories": {names[memory]: _memory(machine, memory) for memory in reversed(machine.memories)},
    }


def _dimensions(machine: Machine) -> list[str]:
    return [f"D{i + 1}" for i in range(max(1, len(machine.axes)))]


def _memory(machine: Machine, memory: Memory) -> dict[str, Any]:
    place = machine.number[memory.name]
    inside = [axis for axis in machine.structure.axes if axis > place]
    ports = _ports(machine, memory)
    widest = {way: max(p["bandwidth_max"] for p in ports if way in p["type"]) for way in ("read", "write")}
    served = _dimensions(machine)[len(machine.axes) - len(inside) :] if machine.axes else _dimensions(machine)
    return {
        "size": UNBOUNDED_BITS if memory.bytes is None else memory.bytes * 8,
        "r_cost": memory.read_pj * widest["read"] / memory.word_bits,
        "w_cost": memory.write_pj * widest["write"] / memory.word_bits,
        "area": 0.0,
        "latency": 1,
        **({"force_double_buffering": True} if memory.double_buffered else {}),
        "operands": [OPERANDS[tensor] for tensor in memory.keeps],
        "ports": ports,
        "served_dimensions": served,
    }


def _ports(machine: Machine, memory: Memory) -> list[dict[str, Any]]:
    """One port where reads and writes have a rate together, one for each where they have their own.

    Where nothing is limited a port is as wide as all lanes further in can use in a cycle.
    """
    place = machine.number[memory.name]
    ways: dict[str, list[str]] = {"read": [], "write": []}
    for tensor in memory.keeps:
        ways["read"].append(f"{OPERANDS[tensor]}, tl")
        if tensor == "O":
            ways["write"].append(f"{OPERANDS[tensor]}, fl")
        if place:
            ways["write"].append(f"{OPERANDS[tensor]}, fh")
        if place and tensor == "O":
            ways["read"].append(f"{OPERANDS[tensor]}, th")
    if memory.words_per_cycle is not None:
        bits = _bits_per_cycle(memory, memory.words_per_cycle)
        return [_port("rw_port_1", "read_write", bits, ways["read"] + ways["write"])]
    lanes = machine.peak_macs // machine.instances(place)
    enough = lanes * max(machine.bits.W, machine.bits.I, machine.bits.sums) * len(memory.keeps)
    rates = {"read": memory.read_words_per_cycle, "write": memory.write_words_per_cycle}
    return [
        _port(f"{way[0]}_port_1", way, enough if rate is None else _bits_per_cycle(memory, rate), ways[way])
        for way, rate in rates.items()
    ]


def _bits_per_cycle(memory: Memory, words: float) -> int:
    return max(1, round(words * memory.word_bits))


def _port(name: str, kind: str, bits: int, allocation: list[str]) -> dict[str, Any]:
    return {"name": name, "type": kind, "bandwidth_min": 1, "bandwidth_max": bits, "allocation": allocation}


# A layer.


def workload(machine: Machine, layer: Layer) -> dict[str, Any]:
    """The layer as a node of ZigZag's workload, all of whose operands are there from the start."""
    bits = machine.bits
    (stride_y, stride_x), (dilation_y, dilation_x) = layer.stride, layer.dilation
    return {
        "id": 0,
        "name": layer.name,
        "operator_type": "Conv",
        "equation": _EQUATION,
        "dimension_relations": [f"iy={stride_y}*oy+{dilation_y}*fy", f"ix={stride_x}*ox+{dilation_x}*fx"],
        "loop_dims": list(DIM_NAMES.values()),
        "loop_sizes": list(layer.dims),
        "operand_precision": {"W": bits.W, "I": bits.I, "O": bits.sums, "O_final": bits.O},
        "operand_source": {"W": 0, "I": 0},
    }


def mapping_of(machine: Machine, layer: Layer, mapping: Mapping) -> dict[str, Any]:
    """What is unrolled over each dimension of the array and, where it can be told, the order of all loops."""
    spatial: dict[str, list[str]] = {}
    for dimension, axis in zip(_dimensions(machine), machine.structure.axes, strict=False):
        lanes = {dim: factor for dim, factor in zip(DIMS, mapping.factors[axis], strict=True) if factor > 1}
        spatial[dimension] = [f"{DIM_NAMES[dim]}, {factor}" for dim, factor in (lanes or {"K": 1}).items()]
    told: dict[str, Any] = {"name": "default", "spatial_mapping": spatial or {"D1": ["K, 1"]}}
    if not _untold(machine, layer, mapping):
        told["temporal_ordering"] = [[DIM_NAMES[dim], factor] for dim, factor in _loops(machine, mapping)]
    return {**told, "memory_operand_links": dict(OPERANDS)}


def _loops(machine: Machine, mapping: Mapping) -> Iterator[tuple[str, int]]:
    """All temporal loops of more than one trip, inner to outer."""
    for memory, order in reversed(list(zip(machine.structure.memories, mapping.orders, strict=True))):
        for dim in reversed(order):
            if (factor := getattr(mapping.factors[memory], dim)) > 1:
                yield dim, factor


def _untold(machine: Machine, layer: Layer, mapping: Mapping) -> list[str]:
    """Dims whose loops ZigZag would not take: beside lanes they run ceil(size / lanes) times, and no more."""
    found: list[str] = []
    for d, (dim, size) in enumerate(zip(DIMS, layer.dims, strict=True)):
        left = size
        for axis in machine.structure.axes:
            left = -(-left // mapping.factors[axis][d])
        if left != prod(mapping.factors[memory][d] for memory in machine.structure.memories):
            found.append(dim)
    return found


# What to know.


def _of_machine(machine: Machine) -> Iterator[Remark]:
    for memory in machine.memories:
        for words in (memory.words_per_cycle, memory.read_words_per_cycle, memory.write_words_per_cycle):
            if words is not None and _bits_per_cycle(memory, words) != words * memory.word_bits:
                bits = f"{words * memory.word_bits:g} bits a cycle"
                yield Remark(None, f"{memory.name} moves {bits}: the files say a whole number")


def _of_layers(schedule: Schedule) -> Iterator[Remark]:
    machine, examined = schedule.machine, Examined(schedule)
    bits, home = machine.bits, machine.structure.home("O")
    for layer, mapping in examined.mapped():
        untold = _untold(machine, layer, mapping)
        if untold:
            why = f"loops over {', '.join(untold)} are cut at their end"
            yield Remark(layer.name, f"{why}: the order of loops is left out, and ZigZag looks for one")
        elif any(True for _ in _loops(machine, mapping)):
            yield Remark(layer.name, "which memory each loop belongs to is left out: ZigZag decides by what has room")
        made = [prod(factors) for factors in zip(*mapping.factors, strict=True)]
        cut = [d for d, size, found in zip(DIMS, layer.dims, made, strict=True) if found != size and d not in untold]
        if cut:
            idle = f"not all lanes over {', '.join(cut)} are in use the last time"
            yield Remark(layer.name, f"{idle}: ZigZag counts with a fraction of a lane, used every time", lost=False)
        if home is not None and bits.spilled != bits.sums and examined.unfinished(home, layer.name) > 0:
            to = f"{machine.memories[0].name} with {bits.spilled} bits"
            yield Remark(layer.name, f"unfinished sums go to {to}: they count as values of {bits.sums}")
