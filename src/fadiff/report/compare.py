"""Two schedules of one network, differences first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fadiff.errors import FadiffError
from fadiff.hardware import hardware_to_json
from fadiff.report.breakdown import Breakdown, LayerCost, breakdown, l3_words

if TYPE_CHECKING:
    from fadiff.cost import Evaluation
    from fadiff.schedule import Group, Schedule

Value = float | int | str | bool


@dataclass(frozen=True)
class Change:
    """One number before and after."""

    name: str
    """energy_pj, cycles, edp_uj_cycles, l3_words, utilization, groups, fused_edges; or a path in the hardware file."""
    before: Value
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
    l3_words_before: int
    l3_words_after: int
    edp_share: float
    """What the layer adds to the change of EDP, as a share of it: dE/E + dT/T, with E and T the means of both networks.
    Summed over layers this is log(EDP after / EDP before) but for third powers."""
    what: tuple[str, ...]
    """What differs: "group", "shared loops", "unrolling", "tiles", "loop order"; empty where only the machine does."""


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
    hardware: tuple[Change, ...]
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
    costs = breakdown(before), breakdown(after)
    fused = [{(edge.source, edge.target) for edge in schedule.fused_edges} for schedule in (first, second)]
    edges = dict.fromkeys((edge.source, edge.target) for edge in first.workload.edges)
    lost = tuple(edge for edge in edges if edge in fused[0] - fused[1])
    gained = tuple(edge for edge in edges if edge in fused[1] - fused[0])
    hardware = tuple(_hardware_changes(first, second))
    return Comparison(
        workload=first.workload.name,
        before=_called(first),
        after=_called(second),
        summary=_summary(before, after, len(gained), len(lost), same_machine=not hardware),
        hardware=hardware,
        totals=_totals(before, after),
        groups=tuple(_group_changes(first, second)),
        edges_fused_only_before=lost,
        edges_fused_only_after=gained,
        layers=_layer_changes(before, after, *costs),
    )


def _different_networks(first: Schedule, second: Schedule) -> str:
    named = [f"{s.workload.name!r} with {len(s.workload.layers)} layers" for s in (first, second)]
    pairs = zip(first.workload.layers, second.workload.layers, strict=False)
    differing = next((a.name for a, b in pairs if a != b), None)
    where = f"; {differing!r} is the first layer to differ" if differing else ""
    return f"the schedules are of different networks, {named[0]} and {named[1]}{where}: compare two of the same network"


def _called(schedule: Schedule) -> str:
    made_by = ", ".join(f"{key} {value}" for key, value in schedule.made_by.items() if key in ("method", "seed"))
    return schedule.hardware.name + (f" ({made_by})" if made_by else "")


def _summary(before: Evaluation, after: Evaluation, gained: int, lost: int, *, same_machine: bool) -> str:
    told = ", ".join(
        f"{name} {_percent(new / old - 1)}"
        for name, old, new in (
            ("EDP", before.edp_uj_cycles, after.edp_uj_cycles),
            ("energy", before.energy_pj, after.energy_pj),
            ("latency", before.cycles, after.cycles),
            ("DRAM traffic", before.l3_words, after.l3_words),
        )
        if old
    )
    edges = f"{_count(gained, 'more edge')} fused" if gained else ""
    edges += (" and " if gained and lost else "") + (f"{lost} no longer" if lost else "")
    machines = "" if same_machine else f"on {after.schedule.hardware.name} instead of {before.schedule.hardware.name}: "
    return f"{machines}{told}; {edges or 'the same edges fused'}"


def _percent(change: float) -> str:
    return "unchanged" if change == 0 else f"{change:+.2%}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _totals(before: Evaluation, after: Evaluation) -> tuple[Change, ...]:
    numbers: list[tuple[str, float, float]] = [
        ("edp_uj_cycles", before.edp_uj_cycles, after.edp_uj_cycles),
        ("energy_pj", before.energy_pj, after.energy_pj),
        ("cycles", before.cycles, after.cycles),
        ("l3_words", before.l3_words, after.l3_words),
        ("utilization", before.utilization, after.utilization),
        ("groups", len(before.schedule.groups), len(after.schedule.groups)),
        ("fused_edges", len(before.schedule.fused_edges), len(after.schedule.fused_edges)),
    ]
    return tuple(_change(name, old, new) for name, old, new in numbers)


def _change(name: str, old: Value, new: Value) -> Change:
    if isinstance(old, bool | str) or isinstance(new, bool | str) or not old:
        return Change(name, old, new, None)
    return Change(name, old, new, new / old)


def _hardware_changes(first: Schedule, second: Schedule) -> list[Change]:
    old, new = (dict(_leaves(hardware_to_json(schedule.hardware))) for schedule in (first, second))
    return [_change(key, old[key], new[key]) for key in old if old[key] != new[key]]


def _leaves(data: dict[str, Any], prefix: str = "") -> list[tuple[str, Value]]:
    """The numbers and words of a hardware file by their path; lists as words."""
    found: list[tuple[str, Value]] = []
    for key, value in data.items():
        if isinstance(value, dict):
            found += _leaves(value, f"{prefix}{key}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            found.append((prefix + key, ", ".join(value) if isinstance(value, list) else value))  # pyright: ignore[reportUnknownArgumentType]
    return found


def _group_changes(first: Schedule, second: Schedule) -> list[GroupChange]:
    old, new = ({group.layers: _loops(group) for group in s.groups if len(group.layers) > 1} for s in (first, second))
    return [
        GroupChange(layers, old.get(layers), new.get(layers))
        for layers in dict.fromkeys([*old, *new])
        if old.get(layers) != new.get(layers)
    ]


def _loops(group: Group) -> dict[str, int]:
    """Shared trip counts above 1, outer to inner."""
    trips = group.trips._asdict()
    return {loop: trips[loop] for loop in group.nesting if trips[loop] > 1}


def _layer_changes(
    before: Evaluation, after: Evaluation, old_costs: Breakdown, new_costs: Breakdown
) -> tuple[LayerChange, ...]:
    energy, cycles = (before.energy_pj + after.energy_pj) / 2, (before.cycles + after.cycles) / 2
    changes: list[LayerChange] = []
    for old, new in zip(old_costs.layers, new_costs.layers, strict=True):
        change = LayerChange(
            layer=old.name,
            energy_before_pj=old.energy_pj * old.repeat,
            energy_after_pj=new.energy_pj * new.repeat,
            cycles_before=old.cycles * old.repeat,
            cycles_after=new.cycles * new.repeat,
            l3_words_before=l3_words(old) * old.repeat,
            l3_words_after=l3_words(new) * new.repeat,
            edp_share=_share(old, new, energy, cycles),
            what=_what(before.schedule, after.schedule, old.name),
        )
        if change.what or (old.energy_pj, old.cycles, old.words) != (new.energy_pj, new.cycles, new.words):
            changes.append(change)
    return tuple(sorted(changes, key=lambda change: -abs(change.edp_share)))


def _share(old: LayerCost, new: LayerCost, energy: float, cycles: float) -> float:
    more_energy = (new.energy_pj - old.energy_pj) * old.repeat / energy if energy else 0.0
    return more_energy + ((new.cycles - old.cycles) * old.repeat / cycles if cycles else 0.0)


def _what(first: Schedule, second: Schedule, name: str) -> tuple[str, ...]:
    """What differs between two schedules of one layer."""
    found: list[str] = []
    groups = first.group_of[name], second.group_of[name]
    if groups[0].layers != groups[1].layers:
        found.append("group")
    elif _loops(groups[0]) != _loops(groups[1]) or [*_loops(groups[0])] != [*_loops(groups[1])]:
        found.append("shared loops")
    if not first.workload[name].is_mac:
        return tuple(found)
    old, new = first.mappings[name], second.mappings[name]
    if old.spatial != new.spatial:
        found.append("unrolling")
    if (old.l0, old.l1, old.l2, old.l3) != (new.l0, new.l1, new.l2, new.l3):
        found.append("tiles")
    if _orders(first, name) != _orders(second, name):
        found.append("loop order")
    return tuple(found)


def _orders(schedule: Schedule, name: str) -> tuple[str, ...]:
    """The running loops of each level, outer to inner: others stand nowhere."""
    mapping = schedule.mappings[name]
    return tuple(
        "".join(dim for dim in mapping.order(level) if mapping.factors(level)._asdict()[dim] > 1) for level in (3, 2, 1)
    )
