"""Schedules to draw: any network, every layer on its own, all its loops at the first memory."""

from fadiff.hardware import Axis, Machine, Memory
from fadiff.schedule import Group, Mapping, Schedule
from fadiff.workload import Workload


def plain(network: Workload, machine: Machine) -> Schedule:
    """Nothing fused, nothing kept: legal on every machine."""
    first = machine.nodes[0].name
    mappings = {layer.name: Mapping.of(machine, {first: layer.dims}) for layer in network.layers if layer.is_mac}
    return Schedule(network, machine, tuple(Group((name,)) for name in network.topological), mappings)


def deep(memories: int) -> Machine:
    """A machine of many memories, every second of them below an axis of its own."""
    nodes: list[Memory | Axis] = [Memory("far away", "WIO", 64.0, 64.0, words_per_cycle=4)]
    for i in range(1, memories):
        if i % 2 == 0:
            nodes.append(Axis(f"array {i}", 2, "KCPQN"))
        keeps = ("WIO", "WI", "O", "IO", "W")[i % 5]
        nodes.append(Memory(f"memory {i}", keeps, 4.0 / i, 5.0 / i, 1 << 20, words_per_cycle=8))
    return Machine(f"{memories} memories", tuple(nodes), 0.5)
