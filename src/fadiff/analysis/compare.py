"""Two schedules of one network, differences first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fadiff.analysis.breakdown import breakdown, first_memory_bytes, shared_trips
from fadiff.analysis.units import change_text, plural
from fadiff.errors import FadiffError
from fadiff.hardware import Memory, machine_to_json
from fadiff.hardware.machine import VECTOR

if TYPE_CHECKING:
    from fadiff.cost.evaluate import Evaluation
    from fadiff.schedule import Schedule

Value = float | int | str | bool | None


@dataclass(frozen=True)
class Change:
    """One number before and after."""

    name: str
    """energy_pj, cycles, edp_uj_cycles, first_memory_bytes, utilization, groups, fused_edges; or what of the machine
    it is: a key, or a node and its key."""
    before: Value
    """None: the machine has no such thing."""
    after: Value
    ratio: float | None
    """after / before; None where there is none."""


@dataclass(frozen=True)
class LayerChange:
    """One layer in both schedules, all repeats."""

    layer: str
    energy_before_pj: float
    energy_after_pj: float
    cycles_before: float
    cycles_after: float
    bytes_before: float
    """What the first memory reads and writes."""
    bytes_after: float
    edp_share: float
    """What the layer adds to the change of EDP, as a share of it: dE/E + dT/T, with E and T the means of both networks.
    Summed over layers this is log(EDP after / EDP before) but for third powers."""
    what: tuple[str, ...]
    """What differs: "group", "shared loops", "unrolling", "tiles", "loop order", or "mapping" where the machines have
    other nodes; empty where only numbers of the machine differ."""


@dataclass(frozen=True)
class GroupChange:
    """Layers that form a group of several in one schedule and, with these shared loops, not in the other."""

    layers: tuple[str, ...]
    trips_before: dict[str, int] | None
    """None: they are no group there."""
    trips_after: dict[str, int] | None


@dataclass(frozen=True)
class Comparison:
    """How a second schedule differs from a first."""

    workload: str
    before: str
    """Machine and maker of the first schedule, as people call it."""
    after: str
    summary: str
    """The whole comparison in one sentence."""
    machine: tuple[Change, ...]
    """Empty where both run on the same machine."""
    totals: tuple[Change, ...]
    groups: tuple[GroupChange, ...]
    edges_fused_only_before: tuple[tuple[str, str], ...]
    edges_fused_only_after: tuple[tuple[str, str], ...]
    layers: tuple[LayerChange, ...]
    """Every layer that differs in cost or mapping, the one with the largest `edp_share` first, whatever its sign."""


def compare_schedules(before: Evaluation, after: Evaluation) -> Comparison:
    """The differences; a FadiffError where the schedules are of different networks."""
    first, second = before.schedule, after.schedule
    if first.workload.layers != second.workload.layers:
        raise FadiffError(_different_networks(first, second))
    fused = [{(edge.source, edge.target) for edge in schedule.fused_edges} for schedule in (first, second)]
    edges = dict.fromkeys((edge.source, edge.target) for edge in first.workload.edges)
    lost = tuple(edge for edge in edges if edge in fused[0] - fused[1])
    gained = tuple(edge for edge in edges if edge in fused[1] - fused[0])
    machine = tuple(_machine_changes(first, second))
    return Comparison(
        workload=first.workload.name,
        before=_called(first),
        after=_called(second),
        summary=_summary(before, after, len(gained), len(lost), same_machine=not machine),
        machine=machine,
        totals=_totals(before, after),
        groups=tuple(_group_changes(first, second)),
        edges_fused_only_before=lost,
        edges_fused_only_after=gained,
        layers=_layer_changes(before, after),
    )


def _different_networks(first: Schedule, second: Schedule) -> str:
    named = [f"{s.workload.name!r} with {len(s.workload.layers)} layers" for s in (first, second)]
    pairs = zip(first.workload.layers, second.workload.layers, strict=False)
    differing = next((a.name for a, b in pairs if a != b), None)
    where = f"; {differing!r} is the first layer to differ" if differing else ""
    return f"the schedules are of different networks, {named[0]} and {named[1]}{where}: compare two of the same network"


def _called(schedule: Schedule) -> str:
    made_by = ", ".join(f"{key} {value}" for key, value in schedule.made_by.items() if key in ("method", "seed"))
    return schedule.machine.name + (f" ({made_by})" if made_by else "")


def _summary(before: Evaluation, after: Evaluation, gained: int, lost: int, *, same_machine: bool) -> str:
    told = ", ".join(
        f"{name} {change_text(new / old - 1)}"
        for name, old, new in (
            ("EDP", before.edp_uj_cycles, after.edp_uj_cycles),
            ("energy", before.energy_pj, after.energy_pj),
            ("latency", before.cycles, after.cycles),
            (
                f"{after.schedule.machine.nodes[0].name} traffic",
                *(_traffic(evaluation) for evaluation in (before, after)),
            ),
        )
        if old
    )
    edges = f"{plural(gained, 'more edge')} fused" if gained else ""
    edges += (" and " if gained and lost else "") + (f"{lost} no longer" if lost else "")
    machines = "" if same_machine else f"on {after.schedule.machine.name} instead of {before.schedule.machine.name}: "
    return f"{machines}{told}; {edges or 'the same edges fused'}"


def _traffic(evaluation: Evaluation) -> float:
    return float(first_memory_bytes(evaluation) @ evaluation.repeat)


def _totals(before: Evaluation, after: Evaluation) -> tuple[Change, ...]:
    numbers: list[tuple[str, float, float]] = [
        ("edp_uj_cycles", before.edp_uj_cycles, after.edp_uj_cycles),
        ("energy_pj", before.energy_pj, after.energy_pj),
        ("cycles", before.cycles, after.cycles),
        ("first_memory_bytes", _traffic(before), _traffic(after)),
        ("utilization", before.utilization, after.utilization),
        ("groups", len(before.schedule.groups), len(after.schedule.groups)),
        ("fused_edges", len(before.schedule.fused_edges), len(after.schedule.fused_edges)),
    ]
    return tuple(_change(name, old, new) for name, old, new in numbers)


def _change(name: str, old: Value, new: Value) -> Change:
    numbers = [value for value in (old, new) if isinstance(value, int | float) and not isinstance(value, bool)]
    return Change(name, old, new, numbers[1] / numbers[0] if len(numbers) > 1 and numbers[0] else None)


def _machine_changes(first: Schedule, second: Schedule) -> list[Change]:
    old, new = (_leaves(machine_to_json(schedule.machine)) for schedule in (first, second))
    return [
        _change(name, old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def _leaves(machine: dict[str, Any]) -> dict[str, Value]:
    """The numbers and words of a machine; those of a node under its name."""
    parts = {f"{group}.{key}": value for group in ("bits", VECTOR) for key, value in machine.pop(group, {}).items()}
    for node in machine.pop("nodes"):
        kind, name = next(iter(node.items()))
        parts[name] = kind
        parts |= {f"{name}.{key}": value for key, value in node.items() if key != kind}
    return {**machine, **parts}


def _group_changes(first: Schedule, second: Schedule) -> list[GroupChange]:
    old, new = ({g.layers: shared_trips(g) for g in s.groups if len(g.layers) > 1} for s in (first, second))
    return [
        GroupChange(layers, old.get(layers), new.get(layers))
        for layers in dict.fromkeys([*old, *new])
        if old.get(layers) != new.get(layers)
    ]


def _layer_changes(before: Evaluation, after: Evaluation) -> tuple[LayerChange, ...]:
    energy, cycles = (before.energy_pj + after.energy_pj) / 2, (before.cycles + after.cycles) / 2
    moved = [first_memory_bytes(evaluation) * evaluation.repeat for evaluation in (before, after)]
    changes: list[LayerChange] = []
    for i, (old, new) in enumerate(zip(breakdown(before).layers, breakdown(after).layers, strict=True)):
        what = _what(before.schedule, after.schedule, old.name)
        if what or (old.energy_pj, old.cycles, moved[0][i]) != (new.energy_pj, new.cycles, moved[1][i]):
            more_energy, more_cycles = (
                (new.energy_pj - old.energy_pj) * old.repeat,
                (new.cycles - old.cycles) * old.repeat,
            )
            changes.append(
                LayerChange(
                    layer=old.name,
                    energy_before_pj=old.energy_pj * old.repeat,
                    energy_after_pj=new.energy_pj * new.repeat,
                    cycles_before=old.cycles * old.repeat,
                    cycles_after=new.cycles * new.repeat,
                    bytes_before=float(moved[0][i]),
                    bytes_after=float(moved[1][i]),
                    edp_share=(more_energy / energy if energy else 0.0) + (more_cycles / cycles if cycles else 0.0),
                    what=what,
                )
            )
    return tuple(sorted(changes, key=lambda change: -abs(change.edp_share)))


def _what(first: Schedule, second: Schedule, name: str) -> tuple[str, ...]:
    """What differs between two schedules of one layer."""
    groups = first.group_of[name], second.group_of[name]
    shared = [list(shared_trips(group).items()) for group in groups]
    found: list[str] = []
    if groups[0].layers != groups[1].layers:
        found.append("group")
    elif shared[0] != shared[1]:
        found.append("shared loops")
    if not first.workload[name].is_mac:
        return tuple(found)
    nodes = first.machine.nodes
    if [(type(node), node.name) for node in nodes] != [(type(node), node.name) for node in second.machine.nodes]:
        return (*found, "mapping")
    old, new = first.mappings[name].factors, second.mappings[name].factors
    differing = {isinstance(node, Memory) for node, a, b in zip(nodes, old, new, strict=True) if a != b}
    found += [word for memory, word in ((False, "unrolling"), (True, "tiles")) if memory in differing]
    if _orders(first, name) != _orders(second, name):
        found.append("loop order")
    return tuple(found)


def _orders(schedule: Schedule, name: str) -> list[str]:
    """The running loops of each memory, outer to inner: others stand nowhere."""
    mapping = schedule.mappings[name]
    return [
        "".join(dim for dim in order if mapping.factors[node]._asdict()[dim] > 1)
        for node, order in zip(schedule.machine.structure.memories, mapping.orders, strict=True)
    ]
