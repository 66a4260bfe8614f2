"""Mappings written as text: ``mapped(GEMMINI, DRAM="P3 C2", cols="K4")``."""

from fadiff.hardware import Machine
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.schedule.ir import DEFAULT_ORDER
from fadiff.workload import Dims, Layer, Workload


def mapped(machine: Machine, **nodes: str) -> Mapping:
    """Factors by node; the loops of a memory run in the order in which they are named, outer to inner."""
    factors = {node: Dims(**{part[0]: int(part[1:]) for part in text.split()}) for node, text in nodes.items()}
    names = {memory.name for memory in machine.memories}
    orders = {node: _order("".join(part[0] for part in text.split())) for node, text in nodes.items() if node in names}
    return Mapping.of(machine, factors, orders)


def _order(named: str) -> str:
    return "".join(dim for dim in DEFAULT_ORDER if dim not in named) + named


def alone(layer: Layer, machine: Machine, **nodes: str) -> Schedule:
    """One layer on its own."""
    mappings = {layer.name: mapped(machine, **nodes)}
    return Schedule(Workload("toy", (layer,)), machine, (Group((layer.name,)),), mappings)
