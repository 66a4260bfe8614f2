"""Constraints as a file of constraints says them: how a schedule file keeps what was asked of its schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fadiff.schedule.asked import Asked, AskedOne
from fadiff.schedule.constraint_kinds import Constraint, Extent, Factor, Keep, Once, Order, Unroll
from fadiff.schedule.group_constraints import Fuse, Together
from fadiff.schedule.selection import REST, Layers


def asked_one(constraint: Constraint, cost: float | None = None) -> AskedOne:
    """A constraint with what it costs."""
    return AskedOne(str(constraint), cost, written(constraint))


def all_asked(constraints: Iterable[Constraint]) -> Asked | None:
    """Constraints that are not priced; None where there are none."""
    return Asked(told) if (told := tuple(map(asked_one, constraints))) else None


def written(constraint: Constraint) -> dict[str, Any] | None:
    """A constraint as a file says it, a layer that is kept without its schedule; None where no file can say it."""
    match constraint:
        case Factor():
            return _rule(constraint.layers, factors={constraint.node: {constraint.dim: _ends(constraint)}})
        case Extent():
            return _rule(constraint.layers, extents={constraint.node: {constraint.dim: _ends(constraint)}})
        case Unroll(axis, only, never, layers):
            lanes = {"never": never} if only is None else "".join(dim for dim in only if dim not in never)
            return _rule(layers, unroll={axis: lanes})
        case Order(memory, order, layers):
            return _rule(layers, order={memory: order})
        case Once(tensor, layers):
            return _rule(layers, once=tensor)
        case Fuse(source, target, fused):
            # A file knows pairs of names only.
            pair = [list(end.names) for end in (source, target) if not (end.kinds or end.but)]
            return {"fuse" if fused else "split": [pair]} if len(pair) == 2 else None
        case Together(layers, trips, loops):
            shared = {} if trips is None else {"trips": {loop: n for loop, n in trips._asdict().items() if n > 1}}
            return {"groups": [{"layers": list(layers)} | shared | ({"loops": loops} if loops else {})]}
        case Keep(layer, mapping):
            # All but how loops nest there that its group may come to share is as in the schedule itself.
            return {"keep": [{"layers": [layer], "order": mapping.orders[0]}]}
        case _:
            return None


def _rule(layers: Layers, **asks: object) -> dict[str, Any]:
    """What is asked of the mappings of some layers."""
    told = {"layers": layers.names, "kinds": layers.kinds, "but": layers.but}
    return {"mapping": [{key: list(names) for key, names in told.items() if names and names != (REST,)} | asks]}


def _ends(number: Factor | Extent) -> int | dict[str, int]:
    """A number, or what it is at least and at most."""
    if number.least == number.most:
        return number.least
    return {"least": number.least} | ({} if number.most is None else {"most": number.most})
