"""What a search on one machine teaches about machines alike, which have other numbers at the same nodes.

What a mapping moves and holds does not depend on how large, fast or frugal memories are. So all mappings that a search
came by are priced on the numbers of another machine in one call, and only those that are used are climbed from again,
and those of conditions whose best mapping has no room there.
Which buffers a group needs under which trips does not depend on them either: only which of them fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fadiff.search.exact.climb import price
from fadiff.search.exact.menus import Menu, size_of, some, subset, weighed
from fadiff.search.trees import each

if TYPE_CHECKING:
    from jax import Array

    from fadiff.schedule import Schedule
    from fadiff.search.exact.conditions import Condition, Task
    from fadiff.search.exact.menus import Key, Menus
    from fadiff.search.exact.plans import Members, Plan
    from fadiff.search.objective import Weights


class Learned(NamedTuple):
    """What a search found out."""

    menus: Menus
    """The different mappings that it came by."""
    climbed: frozenset[Condition]
    """Conditions whose best mapping was climbed from."""
    thrifty: frozenset[Condition]
    """Conditions with mappings for less room, too."""
    tried: Mapping[int, frozenset[Key]]
    """By layer: mappings that were tried under all conditions."""
    plans: tuple[Plan, ...]
    """Those of its last groups."""
    schedule: Schedule
    """Its best one."""
    whole: bool
    """Whether the search ran to its end. What another one only begins with may have been left unfinished."""


@dataclass
class Lessons:
    """Given to several searches, one after the other: the first fills them, the others start from what is in them.

    Only the first one that finds groups teaches anything, so what another one finds depends on the first alone, and not
    on how many there were between. Searches on machines that are not alike the first are as if they had none.
    """

    task: Task | None = None
    """The first one's."""
    teach: Callable[[], Learned | None] = lambda: None
    """What the first one has found out so far; nothing before it has groups."""
    sets: dict[tuple[str, ...], Members] = field(default_factory=dict[tuple[str, ...], "Members"])
    """Sets of layers, and the trip counts that they could share."""
    widened: dict[tuple[str, ...], Members] = field(default_factory=dict[tuple[str, ...], "Members"])
    """The same for sets of which all trip counts are tried."""
    known: Learned | None = None
    """What the first one found out, if that was asked for."""

    @property
    def learned(self) -> Learned | None:
        """What the first search found out, once it is over."""
        if self.known is None:
            self.known, self.teach = self.teach(), lambda: None
        return self.known

    def suit(self, task: Task) -> bool:
        """Whether they are of use to a task."""
        self.task = self.task or task
        return alike(self.task, task)


def alike(one: Task, other: Task) -> bool:
    """Whether what is true of mappings and groups of one task is true of those of another."""
    return all(
        mine == yours
        for mine, yours in (
            (one.machine.kind, other.machine.kind),
            (one.space, other.space),
            (one.exact_factors, other.exact_factors),
            (one.charges, other.charges),
            (one.restrictions.constraints, other.restrictions.constraints),
            (one.workload, other.workload),
        )
    )


def outgrown(learned: Learned, task: Task, condition: Condition, weights: Weights) -> bool:
    """Whether the best mapping that is known of a condition has no room on a task's machine: a climb ends elsewhere."""
    menu = learned.menus[condition]
    best = int(np.argmin(weighed(menu, weights)))
    return bool((menu.running[:, best] > np.asarray(task.all_room.running)).any())


def recalled(learned: Learned, task: Task, conditions: Sequence[Condition], weights: Weights) -> Menus:
    """Mappings of conditions that are known, priced on a task's machine in one call: those that fit there."""
    known = [condition for condition in conditions if condition in learned.menus]
    if not known:
        return {}
    menus = [learned.menus[condition] for condition in known]
    sizes = [size_of(menu) for menu in menus]
    rows = task.rows(known, [task.all_room] * len(known), weights)
    owners = np.repeat(np.arange(len(known)), sizes)
    tried = [np.concatenate(parts, axis=-1) for parts in zip(*((m.factors, m.order) for m in menus), strict=True)]

    found = price(
        task.structure,
        task.space.orders,
        each(partial(some, owners), rows),
        cast("Array", tried[0].astype(task.dtype)),
        cast("Array", tried[1].astype(np.int32)),
        task.numbers,
        alone=task.fusing is None,
        charges=task.charges,
    )
    order = np.asarray(found.order)
    wide = Menu(*(np.asarray(values, dtype=np.float64) for values in found))._replace(order=cast("Array", order))
    ends = np.cumsum(sizes)
    fits = np.isfinite(wide.price)
    parts = ((end - size + np.flatnonzero(fits[end - size : end])) for end, size in zip(ends, sizes, strict=True))
    return {condition: subset(wide, part) for condition, part in zip(known, parts, strict=True) if part.size}
