"""What of a schedule carries over to another batch, size, network or machine: where a search may start.

Layers are matched by name, else by shape, else by role. All of a schedule carries over to a multiple of the batch
(:mod:`.batches`); else mappings and groups are adapted (:mod:`.adapting`).
"""

from __future__ import annotations

from math import log, prod
from typing import TYPE_CHECKING, NamedTuple

from fadiff.schedule import Schedule
from fadiff.schedule.constraints import Constraints
from fadiff.search.carry.adapting import adapted
from fadiff.search.carry.batches import repeated
from fadiff.workload import Dims
from fadiff.workload.names import listed

if TYPE_CHECKING:
    from fadiff.workload import Layer, Workload


class Carried(NamedTuple):
    """Legal schedules to start from, the most faithful first, and what of the start they are."""

    schedules: tuple[Schedule, ...]
    layers: int
    """Layers that start from one of the start's."""
    notes: tuple[str, ...]
    """What is as it was, and what is not."""

    def told(self, source: str) -> str:
        """One sentence; `source` is what it calls the start."""
        total = len(self.schedules[0].workload.layers)
        notes = f": {'; '.join(self.notes)}" if self.notes else ""
        return f"{self.layers} of {total} layers start from {source}{notes}."


def carry(start: Schedule, fallback: Schedule, constraints: Constraints = Constraints()) -> Carried:
    """What of a schedule carries over to another network or machine, and to what is asked now; a `fallback` for them
    has the rest."""
    workload, matches = fallback.workload, matched(start, fallback.workload)
    again = repeated(start, workload, fallback.machine)
    broken = [] if again is None else constraints.broken(again)
    if again is not None and not broken:
        times = max(prod(layer.dims) // prod(start.workload[layer.name].dims) for layer in workload.layers)
        notes = (f"all of it, {times} times in a row",) if times > 1 else ("all of it",)
        others = (adapted(start, fallback, matches, constraints),) if times > 1 else ()
        return Carried((again, *others), len(matches), notes)
    found = adapted(start, fallback, matches, constraints)
    new = [name for name in workload.topological if name not in matches]
    other = [name for name, old in matches.items() if workload[name].dims != old.dims]
    groups = [sum(len(group.layers) > 1 for group in one.groups) for one in (found, start)]
    renamed = [f"{name} from {old.name}" for name, old in matches.items() if name != old.name]
    notes = [f"it does not keep what is asked now ({broken[0]})"] if broken else []
    notes += [f"{listed(new)} {'is' if len(new) == 1 else 'are'} new"] if new else []
    notes += [listed(renamed)] if renamed else []
    notes += [f"{listed(other)} {'has' if len(other) == 1 else 'have'} another shape"] if other else []
    notes += [f"{groups[0]} of {groups[1]} fused groups are kept"] if groups[1] else []
    return Carried((found,), len(matches), tuple(notes))


def matched(start: Schedule, workload: Workload) -> dict[str, Layer]:
    """The layer of a schedule that each layer of a network resembles, as far as there is one.

    One of the same name and kind; else one of the same shape; else, of those with the same kernel and stride and the
    same kinds of operands, the one with the nearest sizes.
    """
    found: dict[str, Layer] = {}
    by_name = {layer.name: layer for layer in start.layers}
    for layer in workload.layers:
        old = by_name.get(layer.name)
        if old is None or old.kind != layer.kind:
            alike = [one for one in start.layers if _role(one) == _role(layer)]
            old = min(alike, key=lambda one: _apart(one.dims, layer.dims), default=None)
        if old is not None:
            found[layer.name] = old
    return found


def _role(layer: Layer) -> tuple[object, ...]:
    ports = tuple(sorted({operand.port for operand in layer.inputs}))
    return layer.kind, layer.dims.R, layer.dims.S, layer.dims.G > 1, layer.stride, layer.dilation, ports


def _apart(one: Dims, other: Dims) -> float:
    return sum(abs(log(a / b)) for a, b in zip(one, other, strict=True))
