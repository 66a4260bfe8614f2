"""From menus to a schedule: which mapping each layer of a group takes, and the last percent: moves on the layers of
groups, each with exactly the room it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from fadiff.schedule import Mapping, Schedule
from fadiff.schedule.arrays import unpack_mapping
from fadiff.search.exact.conditions import Condition, Task, room_left
from fadiff.search.exact.menus import Menu, Menus, Row, join, size_of, solve, start_from, subset, weighed
from fadiff.search.exact.plans import Plan
from fadiff.search.objective import Weights

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from fadiff.search.exact.conditions import Bytes

    Prices = Sequence[Float[np.ndarray, " mappings"]]
    Choice = Int[np.ndarray, " layers"]

PRICES_OF_ROOM = np.concatenate([[0.0], np.geomspace(1e-4, 10.0, 16)])
"""Multipliers tried for the bytes that a group keeps, in units of the network's price per whole memory."""
NEAR = 1e-3
"""A choice of mappings is good enough if none can be cheaper by more than this share."""
MOST_COMBINATIONS = 2**14
"""Combinations of mappings up to which all are tried."""
COMBINATIONS_AT_ONCE = 256
"""How many of them are tried at once, the cheapest first."""
MOST_SUMS = 512
"""Sums of kept bytes that are told apart while the mappings of a group are combined."""
SLACK_BYTES = 1e-6
"""What mappings may exceed a memory by: rounding of their sums."""


@dataclass(frozen=True)
class Filled:
    """A plan with a mapping for each of its layers."""

    plan: Plan
    picked: tuple[tuple[Menu, int], ...]
    """The mappings of its layers, in their order: one of a menu each."""
    price: float

    @cached_property
    def chosen(self) -> Menu:
        """These mappings alone."""
        return join([subset(menu, [i]) for menu, i in self.picked])


def fill(task: Task, plan: Plan, menus: Menus, weights: Weights, worth: float) -> Filled | None:
    """The cheapest choice of mappings that fit together; None where there is none below `worth`.

    While layer v runs, its memories hold what all layers keep there, what v holds besides, and the memory that fuses
    the live buffers too: sum of kept + max over v of (running_v - kept_v + live_v) <= room. For each value M that the
    maximum may take, the kept bytes are a knapsack of room - M. A range of prices for a byte gives a choice and, by
    duality, a bound; where the bound says that a better choice may exist, mappings are combined layer by layer.
    """
    mine = [menus[condition] for condition in plan.conditions]
    if not all(map(size_of, mine)):
        return None
    prices = [_prices(task, menu, condition, weights) for menu, condition in zip(mine, plan.conditions, strict=True)]
    if (chosen := _cheapest_fitting(task, plan, mine, prices, worth)) is None:
        return None
    lowest = float(sum(price[i] for price, i in zip(prices, chosen, strict=True)))
    if lowest >= worth:
        return None
    return Filled(plan, tuple(zip(mine, map(int, chosen), strict=True)), lowest)


def fits(task: Task, plan: Plan, chosen: Menu) -> bool:
    """Whether the mappings of a group's layers fit together in every memory."""
    return bool((_excess(task, plan, chosen.running, chosen.kept, chosen.waiting) <= SLACK_BYTES).all())


def _excess(task: Task, plan: Plan, running: Bytes, kept: Bytes, waiting: Bytes) -> Float[np.ndarray, " memories"]:
    """By how many bytes a group overfills each memory at its fullest; negative where it does not."""
    return peaks(task, plan, running, kept, waiting).max(axis=1) - task.all_room.running


def peaks(task: Task, plan: Plan, running: Bytes, kept: Bytes, waiting: Bytes) -> Bytes:
    """Bytes in each memory below the first while each layer of a group runs; trailing axes are kept."""
    peaks = running - kept + kept.sum(axis=1, keepdims=True)
    if task.fusing is not None:
        live = np.array(plan.live_bytes).reshape(-1, *([1] * (running.ndim - 2)))
        peaks[task.fusing] = peaks[task.fusing] + live
    # While the first layer of a channel loop runs, the sums of the second wait.
    peaks[:, 0] = peaks[:, 0] + waiting[:, 1:].sum(axis=1)
    return peaks


def _may_fit(task: Task, plan: Plan, menus: Sequence[Menu]) -> bool:
    """Whether a group fits if each layer takes the least of everything that any of its mappings does."""
    least = [((m.running - m.kept).min(axis=1), m.kept.min(axis=1), m.waiting.min(axis=1)) for m in menus]
    more, kept, waiting = (np.stack(part, axis=1) for part in zip(*least, strict=True))
    return bool((_excess(task, plan, more + kept, kept, waiting) <= SLACK_BYTES).all())


def _cheapest_of_all(task: Task, plan: Plan, menus: Sequence[Menu], prices: Prices, worth: float) -> Choice | None:
    """The cheapest mappings that fit together, of all combinations below `worth`: the first that fits."""
    total = np.zeros(1)
    for price in prices:
        total = (total[:, None] + price).ravel()
    below = np.flatnonzero(total < worth)
    ranked = below[np.argsort(total[below], kind="stable")]
    for at in range(0, ranked.size, COMBINATIONS_AT_ONCE):
        some = np.unravel_index(ranked[at : at + COMBINATIONS_AT_ONCE], [price.size for price in prices])
        taken = [(m.running[:, i], m.kept[:, i], m.waiting[:, i]) for m, i in zip(menus, some, strict=True)]
        held = peaks(task, plan, *(np.stack(part, axis=1) for part in zip(*taken, strict=True)))
        fit = (held <= np.array(task.all_room.running)[:, None, None] + SLACK_BYTES).all(axis=(0, 1))
        if fit.any():
            return np.array(some)[:, fit.argmax()]
    return None


def _cheapest_fitting(task: Task, plan: Plan, menus: Sequence[Menu], prices: Prices, worth: float) -> Choice | None:
    """The cheapest mapping of each layer: of a pair or less exactly, else as far as the memory that fuses decides.

    Where they overfill another memory, the home of a tensor, all combinations are tried if they are few; of many the
    mapping that keeps most there is left out, until all fit.
    """
    if len(menus) <= 2:
        return _cheapest_of_all(task, plan, menus, prices, worth)
    left, may_fit = [price.copy() for price in prices], False
    while (chosen := _where_fused(task, plan, menus, left, worth)) is not None:
        # Without more mappings it does not become cheaper.
        if sum(float(price[i]) for price, i in zip(left, chosen, strict=True)) * (1 - NEAR) >= worth:
            return None
        taken = [(m.running[:, i], m.kept[:, i], m.waiting[:, i]) for m, i in zip(menus, chosen, strict=True)]
        running, kept, waiting = (np.stack(part, axis=1) for part in zip(*taken, strict=True))
        excess = _excess(task, plan, running, kept, waiting)
        if (excess <= SLACK_BYTES).all():
            return chosen
        if not (may_fit := may_fit or _may_fit(task, plan, menus)):
            return None
        if prod(price.size for price in prices) <= MOST_COMBINATIONS:
            return _cheapest_of_all(task, plan, menus, prices, worth)
        layer = int(kept[excess.argmax()].argmax())
        left[layer][chosen[layer]] = np.inf
    return None


def _where_fused(task: Task, plan: Plan, menus: Sequence[Menu], prices: Prices, worth: float) -> Choice | None:
    """The cheapest mapping of each layer that fit together in the memory that fuses."""
    assert task.fusing is not None
    here, capacity = task.fusing, task.all_room.running[task.fusing]
    shape = len(menus), max(p.size for p in prices)
    price, peak, kept = np.full(shape, np.inf), np.full(shape, np.inf), np.zeros(shape)
    for i, (menu, mine, live) in enumerate(zip(menus, prices, plan.live_bytes, strict=True)):
        price[i, : mine.size], kept[i, : mine.size] = mine, menu.kept[here]
        peak[i, : mine.size] = menu.running[here] - menu.kept[here] + live
    floor = max(plan.live_bytes)
    levels = np.unique(np.concatenate([[floor], peak[np.isfinite(peak)]]))
    levels = levels[(levels >= max(floor, peak.min(axis=1).max())) & (levels <= capacity)]
    if not levels.size:
        return None
    levels = levels[np.unique(np.linspace(0, levels.size - 1, 24).astype(int))]
    # Axes: level M, price of a kept byte, layer, mapping.
    allowed = np.where(peak[None] <= levels[:, None, None], price[None], np.inf)
    weighed = allowed[:, None] + PRICES_OF_ROOM[None, :, None, None] / capacity * kept[None, None]
    best = weighed.argmin(axis=-1)
    layer = np.arange(len(menus))
    total = price[layer, best].sum(axis=-1)
    fit = kept[layer, best].sum(axis=-1) + levels[:, None] <= capacity
    total = np.where(fit, total, np.inf)
    at = np.unravel_index(int(total.argmin()), total.shape)
    lowest, chosen = float(total[at]), best[at]
    rooms = capacity - levels
    bounds = weighed.min(axis=-1).sum(axis=-1) - PRICES_OF_ROOM / capacity * rooms[:, None]
    tightest, bound = bounds.argmax(axis=-1), bounds.max(axis=-1)
    for level in np.argsort(bound, kind="stable"):
        if bound[level] >= min(worth, lowest * (1 - NEAR)):
            break
        of_a_byte = float(PRICES_OF_ROOM[tightest[level]]) / capacity
        better = _cheapest(allowed[level], kept, float(rooms[level]), min(worth, lowest), of_a_byte)
        if better is not None:
            lowest, chosen = float(price[layer, better].sum()), better
    return chosen if np.isfinite(lowest) else None


def _cheapest(
    price: Float[np.ndarray, "layers mappings"],
    kept: Float[np.ndarray, "layers mappings"],
    room: float,
    below: float,
    of_a_byte: float,
) -> Choice | None:
    """The mapping of each layer, of least total price and less than `below`, whose kept bytes fit in `room`.

    With a price of a byte, sum of price + of_a_byte * (sum of kept - room) < `below`. A mapping by which a layer costs
    so much more than it must, in this sum, that the others cannot make up for it is left out; few remain. Layer by
    layer, of all sums of kept bytes those remain that no sum of fewer bytes undercuts, and that can still end below.
    """
    priced = price + of_a_byte * kept
    least = priced.min(axis=1, keepdims=True)
    more, slack = priced - least, below + of_a_byte * room - float(least.sum())
    left = more < slack
    if not left.any(axis=1).all():
        return None
    cheapest, fewest = (np.where(left, part, np.inf).min(axis=1) for part in (price, kept))
    chosen, open_ = left.argmax(axis=1), np.flatnonzero(left.sum(axis=1) > 1)
    settled = np.delete(np.arange(len(price)), open_)
    # With the fewest bytes and the least price that the open layers may add.
    held = np.full(1, kept[settled, chosen[settled]].sum() + fewest[open_].sum())
    paid = np.full(1, price[settled, chosen[settled]].sum() + cheapest[open_].sum())
    over, picks = np.full(1, more[settled, chosen[settled]].sum()), np.zeros((1, 0), dtype=np.int64)
    for layer in open_.tolist():
        options = np.flatnonzero(left[layer])
        bytes_, prices, overs = (
            (so_far[:, None] + one).ravel()
            for so_far, one in (
                (held, kept[layer, options] - fewest[layer]),
                (paid, price[layer, options] - cheapest[layer]),
                (over, more[layer, options]),
            )
        )
        alive = np.flatnonzero((bytes_ <= room) & (prices < below) & (overs < slack))
        alive = alive[np.lexsort((prices[alive], bytes_[alive]))]
        alive = alive[np.append(True, prices[alive][1:] < np.minimum.accumulate(prices[alive])[:-1])[: alive.size]]
        if not alive.size:
            return None
        if alive.size > MOST_SUMS:
            alive = alive[np.unique(np.linspace(0, alive.size - 1, MOST_SUMS).astype(int))]
        picks = np.column_stack([picks[alive // options.size], options[alive % options.size]])
        held, paid, over = bytes_[alive], prices[alive], overs[alive]
    if held[-1] > room or paid[-1] >= below:
        return None
    chosen[open_] = picks[-1]
    return chosen


def _prices(task: Task, menu: Menu, condition: Condition, weights: Weights) -> Float[np.ndarray, " mappings"]:
    return weighed(menu, weights) * task.layer(condition).repeat


def to_schedule(task: Task, groups: Sequence[Filled]) -> Schedule:
    """The groups and their mappings as a schedule."""
    mappings = {name: mapping for filled in groups for name, mapping in to_mappings(task, filled).items()}
    return Schedule(task.workload, task.machine, tuple(filled.plan.group for filled in groups), mappings)


def to_mappings(task: Task, filled: Filled) -> dict[str, Mapping]:
    """The mappings of a group's MAC layers."""
    return {
        name: to_mapping(task, condition, filled.chosen, i)
        for i, (name, condition) in enumerate(zip(filled.plan.group.layers, filled.plan.conditions, strict=True))
        if task.workload[name].is_mac
    }


def to_mapping(task: Task, condition: Condition, menu: Menu, index: int) -> Mapping:
    """A mapping of a menu as a value."""
    orders = [orders[int(menu.order[i, index])] for i, orders in enumerate(task.space.orders)]
    return unpack_mapping(np.asarray(menu.factors[..., index]), task.shared(condition), orders)


def polish(task: Task, groups: Sequence[Filled], weights: Weights, *, pairs: bool = True) -> list[Filled]:
    """Improve every layer while the others of its group stay as they are, and take what fits together.

    All layers climb at once, by moves in pairs or single ones, each in the room that the present mappings of the others
    leave. Of the improvements of a group the largest are taken first, as long as the group fits.
    """
    current = list(groups)
    seats = [(i, turn, task.layer(c)) for i, one in enumerate(groups) for turn, c in enumerate(one.plan.conditions)]
    places = [(i, turn, layer.repeat) for i, turn, layer in seats if layer.is_mac]
    if not places:
        return current
    found = solve(task, [_row(task, groups[i], turn) for i, turn, _ in places], weights, pairs=pairs)
    now = np.array([weighed(groups[i].chosen, weights)[turn] for i, turn, _ in places])
    gains = (now - weighed(found, weights)) * [repeat for _, _, repeat in places]
    for j in sorted(np.flatnonzero(gains > 0).tolist(), key=lambda j: -gains[j]):
        i, turn, _ = places[j]
        plan, picked = current[i].plan, list(current[i].picked)
        picked[turn] = found, j
        changed = Filled(plan, tuple(picked), current[i].price - float(gains[j]))
        if fits(task, plan, changed.chosen):
            current[i] = changed
    return current


def _row(task: Task, filled: Filled, turn: int) -> Row:
    """A climb from the layer's present mapping, with the room the rest of its group leaves in every memory."""
    plan, chosen = filled.plan, filled.chosen
    # The layer's own sums do not wait for it.
    waiting = chosen.waiting.copy()
    waiting[:, turn] = 0
    total = peaks(task, plan, chosen.running, chosen.kept, waiting)
    room = room_left(task.all_room, total, chosen.running, chosen.kept, turn)
    return Row(plan.conditions[turn], start_from(chosen, turn), room)
