"""A schedule as input of Timeloop, version 0.4: what ``timeloop-model`` reads without its front end or Accelergy.

.. code-block:: text

    architecture.yaml            a level for each memory, and one that keeps nothing for each axis, to fan out from
    energies.yaml                the energy reference table: pJ of a read, a write and an update of each level
    layers/NAME/problem.yaml     the dims, the strides and dilations, and which dims each tensor depends on
    layers/NAME/mapping.yaml     what each level keeps, its factors and its loop order, inner to outer

Timeloop counts values, one to a word. So capacities, rates and energies are those of a value, not of a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fadiff.export.alone import layers_alone
from fadiff.export.exported import README, Exported, Remark, dump, folder_names, plain_names, readme
from fadiff.hardware import Axis, Machine, Memory
from fadiff.schedule import Mapping as LayerMapping
from fadiff.schedule import Schedule
from fadiff.schedule.rules import Examined
from fadiff.workload import DIMS, Dims, Layer

VERSION = 0.4
TENSOR_NAMES = {"W": "Weights", "I": "Inputs", "O": "Outputs"}
MULTIPLIERS = "MACs"
"""The innermost level, which computes."""
TOP = "system"
"""What holds all levels."""
_COEFFICIENTS = ("Pstride", "Qstride", "Rdilation", "Sdilation")
_HOW = """
FADiff wrote this folder for Timeloop, in the 0.4 format that `timeloop-model` itself reads. A layer runs with

    timeloop-model architecture.yaml energies.yaml layers/NAME/problem.yaml layers/NAME/mapping.yaml

Energies are given, so Accelergy is not asked. `fadiff import-mapping` reads the folder again, and what Timeloop writes.
Timeloop counts no read of a sum that leaves a memory, and where lanes over C, R or S lie above a memory of sums it
reloads an old sum into each of them. FADiff counts the read and reloads into one lane: there counts of Outputs differ.
"""


def to_timeloop(schedule: Schedule) -> Exported:
    """A legal schedule as Timeloop's files."""
    apart, remarks = layers_alone(schedule)
    machine = apart.machine
    files = {"architecture.yaml": dump(architecture(machine)), "energies.yaml": dump(energies(machine))}
    for name, folder in folder_names(apart).items():
        files[f"{folder}/problem.yaml"] = dump(problem(apart.workload[name]))
        files[f"{folder}/mapping.yaml"] = dump(mapping_of(machine, apart.workload[name], apart.mappings[name]))
    remarks = [*remarks, *_of_machine(machine), *_of_layers(apart)]
    files[README] = readme(f"{schedule.workload.name} on {machine.name}, for Timeloop", _HOW, apart, remarks)
    return Exported(files, remarks)


# The machine.


def level_names(machine: Machine) -> dict[str, str]:
    """What Timeloop calls each node: its name in plain signs; an axis is the level that fans out over its lanes."""
    wanted = (f"inter_{node.name}_spatial" if isinstance(node, Axis) else node.name for node in machine.nodes)
    return dict(zip(machine.number, plain_names(wanted, (MULTIPLIERS, TOP)), strict=True))


def architecture(machine: Machine) -> dict[str, Any]:
    """The levels, outermost first. One that keeps nothing stands for each axis of more than one lane."""
    names, lanes = level_names(machine), 1
    levels: list[dict[str, Any]] = []
    for i, node in enumerate(machine.nodes):
        if isinstance(node, Memory):
            kind = "SRAM" if i else "DRAM"
            levels.append(_level(names[node.name], kind, lanes, _attributes(machine, node)))
            continue
        if node.size > 1:
            levels.append(_level(names[node.name], "dummy_storage", lanes, {"width": 1, "depth": 1, "datawidth": 1}))
        lanes *= node.size
    levels.append(_level(MULTIPLIERS, "intmac", lanes, {"datawidth": machine.bits.W}))
    cycle = 1e-9 if machine.clock_mhz is None else 1e-6 / machine.clock_mhz
    top = {"name": TOP, "attributes": {"global_cycle_seconds": cycle}, "local": levels}
    return {"architecture": {"version": VERSION, "subtree": [top]}}


def _level(name: str, kind: str, lanes: int, attributes: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in attributes.items() if value is not None}
    return {"name": f"{name}[1..{lanes}]", "class": kind, "attributes": {**given, "meshX": lanes, "meshY": 1}}


def _attributes(machine: Machine, memory: Memory) -> dict[str, Any]:
    bits = _width(machine, memory)
    buffers = 2 if memory.double_buffered else 1
    depth = None if memory.bytes is None else int(memory.usable_bytes) * 8 // bits * buffers
    values = memory.word_bits / bits

    def rate(words: float | None) -> float | None:
        return None if words is None else words * values

    return {
        "width": bits,
        "datawidth": bits,
        "block_size": 1,
        "depth": depth,
        "multiple_buffering": buffers,
        "shared_bandwidth": rate(memory.words_per_cycle),
        "read_bandwidth": rate(memory.read_words_per_cycle),
        "write_bandwidth": rate(memory.write_words_per_cycle),
    }


def energies(machine: Machine) -> dict[str, Any]:
    """The energy reference table: of one value, read or written, and of one multiply-accumulate."""
    names, lanes = level_names(machine), 1
    tables: list[dict[str, Any]] = []
    for node in machine.nodes:
        if isinstance(node, Axis):
            lanes *= node.size
            continue
        words = _width(machine, node) / node.word_bits
        actions = {"read": node.read_pj, "write": node.write_pj, "update": node.write_pj, "leak": 0.0}
        of_value = {action: energy_pj * words for action, energy_pj in actions.items()}
        tables.append(_table(names[node.name], lanes, of_value))
    tables.append(_table(MULTIPLIERS, lanes, {"compute": machine.mac_pj, "leak": 0.0}))
    return {"ERT": {"version": VERSION, "tables": tables}}


def _table(name: str, lanes: int, actions: Mapping[str, float]) -> dict[str, Any]:
    none: dict[str, float] = {}
    told = [{"name": action, "arguments": none, "energy": energy_pj} for action, energy_pj in actions.items()]
    return {"name": f"{TOP}.{name}[1..{lanes}]", "actions": told}


def _widths(machine: Machine, memory: Memory) -> set[int]:
    """Bits of the values that a memory holds: sums where O is innermost, finished outputs in the first memory."""
    bits, keepers = machine.bits, machine.structure.keepers("O")
    place = machine.number[memory.name]
    of_o = {bits.sums} if place == keepers[-1] else {bits.O} if place == 0 else {bits.O, bits.sums}
    return {b for tensor in memory.keeps for b in {"W": {bits.W}, "I": {bits.I}, "O": of_o}[tensor]}


def _width(machine: Machine, memory: Memory) -> int:
    """Bits of a value in a memory; those of a word where values have different widths."""
    widths = _widths(machine, memory)
    return widths.pop() if len(widths) == 1 else memory.word_bits


# A layer.


def problem(layer: Layer) -> dict[str, Any]:
    """The layer as Timeloop's problem; rows of I are Pstride p + Rdilation r, columns Qstride q + Sdilation s."""

    def plainly(dims: str) -> list[list[list[str]]]:
        return [[[dim]] for dim in dims]

    image = [[["P", "Pstride"], ["R", "Rdilation"]], [["Q", "Qstride"], ["S", "Sdilation"]]]
    spaces: list[dict[str, Any]] = [
        {"name": TENSOR_NAMES["W"], "projection": plainly("GKCRS")},
        {"name": TENSOR_NAMES["I"], "projection": [*plainly("GNC"), *image]},
        {"name": TENSOR_NAMES["O"], "projection": plainly("GNKPQ"), "read_write": True},
    ]
    coefficients = dict(zip(_COEFFICIENTS, (*layer.stride, *layer.dilation), strict=True))
    shape = {
        "name": layer.name,
        "dimensions": list(DIMS),
        "coefficients": [{"name": name, "default": 1} for name in _COEFFICIENTS],
        "data_spaces": spaces,
    }
    return {"problem": {"version": VERSION, "shape": shape, "instance": {**layer.dims._asdict(), **coefficients}}}


def mapping_of(machine: Machine, layer: Layer, mapping: LayerMapping) -> dict[str, Any]:
    """The mapping: for each memory what it keeps and its loops, for each axis of several lanes its loops."""
    names, last = level_names(machine), remainders(layer.dims, mapping)
    orders = iter(mapping.orders)
    directives: list[dict[str, Any]] = []
    for node, factors, ends in zip(machine.nodes, mapping.factors, last, strict=True):
        target = {"target": names[node.name]}
        loops = {"factors": " ".join(_factors(factors, ends))}
        if isinstance(node, Axis):
            if node.size > 1:
                directives.append({**target, "type": "datatype", "keep": [], "bypass": list(TENSOR_NAMES.values())})
                still = {"factors": " ".join(_factors(Dims(), Dims())), "permutation": "".join(DIMS)}
                directives.append({**target, "type": "temporal", **still})
                # Lanes get what they want from above: Timeloop would also let them pass it on to their neighbours.
                links = {"no_link_transfer": list(TENSOR_NAMES.values())}
                spread = {"permutation": "".join(DIMS), "split": len(DIMS), **links}
                directives.append({**target, "type": "spatial", **loops, **spread})
            continue
        keep = [name for tensor, name in TENSOR_NAMES.items() if tensor in node.keeps]
        bypass = [name for name in TENSOR_NAMES.values() if name not in keep]
        directives.append({**target, "type": "datatype", "keep": keep, "bypass": bypass})
        directives.append({**target, "type": "temporal", **loops, "permutation": next(orders)[::-1]})
    return {"mapping": directives}


def _factors(factors: Dims, ends: Dims) -> Iterator[str]:
    for dim, factor, end in zip(DIMS, factors, ends, strict=True):
        yield f"{dim}={factor}" if end == factor else f"{dim}={factor},{end}"


def remainders(size: Dims, mapping: LayerMapping) -> list[Dims]:
    """How far each loop runs the last time: by node, the last index of each dim in the mixed radix of its factors, + 1.

    Where factors multiply to the size, that is as far as always.
    """
    ends: list[Dims] = []
    rest = [s - 1 for s in size]
    for factors in reversed(mapping.factors):
        ends.append(Dims(*(r % f + 1 for r, f in zip(rest, factors, strict=True))))
        rest = [r // f for r, f in zip(rest, factors, strict=True)]
    return ends[::-1]


# What to know.


def _of_machine(machine: Machine) -> Iterator[Remark]:
    for memory in machine.memories:
        widths = sorted(_widths(machine, memory))
        if len(widths) > 1:
            told = " and ".join(map(str, widths))
            yield Remark(None, f"{memory.name} holds values of {told} bits: each counts as one of {memory.word_bits}")


def _of_layers(schedule: Schedule) -> Iterator[Remark]:
    machine, examined = schedule.machine, Examined(schedule)
    bits, home = machine.bits, machine.structure.home("O")
    stored = _width(machine, machine.memories[0])
    for layer, mapping in examined.mapped():
        if home is not None and bits.spilled != stored and examined.unfinished(home, layer.name) > 0:
            to = f"{machine.memories[0].name} with {bits.spilled} bits"
            yield Remark(layer.name, f"unfinished sums go to {to}: they count as values of {stored}")
        ends = remainders(layer.dims, mapping)
        pairs = list(zip(mapping.factors, ends, strict=True))
        if cut := [dim for d, dim in enumerate(DIMS) if any(made[d] != ran[d] for made, ran in pairs)]:
            told = f"loops over {', '.join(cut)} are cut at their end and written with remainders, as in P=4,3"
            beware = "Timeloop's Python front end does not take them, and cycles are wrong there"
            yield Remark(layer.name, f"{told}: {beware}", lost=False)
