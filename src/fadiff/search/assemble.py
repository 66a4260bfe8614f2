"""From options to a schedule: which mapping each layer of a group takes, and which groups the network is cut into."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.schedule import Mapping, Schedule
from fadiff.search.conditions import Condition, Problem
from fadiff.search.groups import Plan
from fadiff.search.options import Options
from fadiff.search.space import ORDER1, ORDER2, SLIDING_ORDERS3
from fadiff.workload import Dims

if TYPE_CHECKING:
    from numpy.typing import NDArray

PRICES_OF_L2 = np.concatenate([[0.0], np.geomspace(1e-4, 10.0, 16)])
"""Multipliers tried for the bytes that a group keeps, in units of the network's price per whole L2."""
NEAR = 1e-3
"""A choice of options is good enough if none can be cheaper by more than this share."""
MOST_SUMS = 512
"""Sums of kept bytes that are told apart while the options of a group are combined."""


class Choice(NamedTuple):
    """One mapping of one layer, with what the search believes of it."""

    factors: NDArray[np.float32]
    order: int
    energy_pj: float
    cycles: float
    kept: float
    passing: float
    l1_bytes: float


def as_options(chosen: Choice) -> Options:
    """A choice as the only option."""
    return Options(
        chosen.factors[:, :, None],
        np.array([chosen.order]),
        np.array([chosen.energy_pj]),
        np.array([chosen.cycles]),
        np.array([chosen.kept]),
        np.array([chosen.passing]),
        np.array([chosen.l1_bytes]),
    )


class Seat(NamedTuple):
    """A plan with the condition of each of its layers."""

    plan: Plan
    conditions: tuple[Condition, ...]


class Filled(NamedTuple):
    """A group with a choice for each of its layers."""

    seat: Seat
    choices: tuple[Choice, ...]
    price: float


def choice(options: Options, index: int) -> Choice:
    """One of several options."""
    return Choice(
        options.factors[:, :, index],
        int(options.order[index]),
        float(options.energy_pj[index]),
        float(options.cycles[index]),
        float(options.kept[index]),
        float(options.passing[index]),
        float(options.l1_bytes[index]),
    )


def seat(problem: Problem, plan: Plan) -> Seat:
    """A plan with its conditions, found once and used in every cut."""
    return Seat(plan, problem.conditions(plan.group))


def fill(
    problem: Problem, seat: Seat, options: MappingOf[Condition, Options], weights: tuple[float, float], worth: float
) -> Filled | None:
    """The cheapest choice of options that fits in L2 together; None where there is none below `worth`.

    While layer v runs, L2 holds what all layers keep, what v holds in passing, and the live buffers:
    sum of kept + max over v of (passing_v + live_v) <= L2. For each value M that the maximum may take, the kept bytes
    are a knapsack of L2 - M. A range of prices for a byte gives a choice and, by duality, a bound; where the bound
    says that a better choice may exist, options are combined layer by layer.
    """
    plan, conditions = seat
    mine = [options[condition] for condition in conditions]
    if not all(o.kept.size for o in mine):
        return None
    prices = [_prices(problem, o, c, weights) for o, c in zip(mine, conditions, strict=True)]
    capacity = problem.hardware.usable_l2_bytes
    width = max(p.size for p in prices)
    price = np.stack([_pad(p, width, np.inf) for p in prices])
    kept = np.stack([_pad(o.kept, width, 0) for o in mine])
    peak = np.stack([_pad(o.passing + live, width, np.inf) for o, live in zip(mine, plan.live_bytes, strict=True)])
    floor = max(plan.live_bytes)
    levels = np.unique(np.concatenate([[floor], peak[np.isfinite(peak)]]))
    levels = levels[(levels >= max(floor, peak.min(axis=1).max())) & (levels <= capacity)]
    if not levels.size:
        return None
    levels = levels[np.unique(np.linspace(0, levels.size - 1, 24).astype(int))]
    # Axes: level M, price of a kept byte, layer, option.
    allowed = np.where(peak[None] <= levels[:, None, None], price[None], np.inf)
    weighed = allowed[:, None] + PRICES_OF_L2[None, :, None, None] / capacity * kept[None, None]
    best = weighed.argmin(axis=-1)
    layer = np.arange(len(mine))
    total = price[layer, best].sum(axis=-1)
    fits = kept[layer, best].sum(axis=-1) + levels[:, None] <= capacity
    total = np.where(fits, total, np.inf)
    at = np.unravel_index(int(total.argmin()), total.shape)
    lowest, chosen = float(total[at]), best[at]
    rooms = capacity - levels
    bound = (weighed.min(axis=-1).sum(axis=-1) - PRICES_OF_L2 / capacity * rooms[:, None]).max(axis=-1)
    for level in np.argsort(bound, kind="stable"):
        if bound[level] >= min(worth, lowest * (1 - NEAR)):
            break
        better = _cheapest(allowed[level], kept, float(rooms[level]), min(worth, lowest))
        if better is not None:
            lowest, chosen = float(price[layer, better].sum()), better
    if lowest >= worth:
        return None
    choices = tuple(choice(o, int(i)) for o, i in zip(mine, chosen, strict=True))
    return Filled(seat, choices, lowest)


def _cheapest(
    price: NDArray[np.float64], kept: NDArray[np.float64], room: float, below: float
) -> NDArray[np.int64] | None:
    """The option of each layer, of least total price and less than `below`, whose kept bytes fit in `room`.

    `price` and `kept` are ``[layers, options]``. Layer by layer, of all sums of kept bytes those remain that no sum of
    fewer bytes undercuts, and that can still end below `below`.
    """
    rest_price = np.append(np.cumsum(price.min(axis=1)[::-1])[::-1], 0.0)
    least_kept = np.where(np.isfinite(price), kept, np.inf).min(axis=1)
    rest_kept = np.append(np.cumsum(least_kept[::-1])[::-1], 0.0)
    held, paid = np.zeros(1), np.zeros(1)
    picks = np.zeros((1, 0), dtype=np.int64)
    width = price.shape[1]
    for layer in range(len(price)):
        bytes_, prices = (held[:, None] + kept[layer]).ravel(), (paid[:, None] + price[layer]).ravel()
        alive = np.flatnonzero((bytes_ + rest_kept[layer + 1] <= room) & (prices + rest_price[layer + 1] < below))
        if not alive.size:
            return None
        alive = alive[np.lexsort((prices[alive], bytes_[alive]))]
        alive = alive[np.append(True, prices[alive][1:] < np.minimum.accumulate(prices[alive])[:-1])]
        alive = alive[np.unique(np.linspace(0, alive.size - 1, MOST_SUMS).astype(int))]
        picks = np.column_stack([picks[alive // width], alive % width])
        held, paid = bytes_[alive], prices[alive]
    return picks[-1]


def _pad(values: NDArray[np.float64], width: int, fill_value: float) -> NDArray[np.float64]:
    return np.pad(values, (0, width - values.size), constant_values=fill_value)


def _prices(
    problem: Problem, options: Options, condition: Condition, weights: tuple[float, float]
) -> NDArray[np.float64]:
    return (weights[0] * options.energy_pj + weights[1] * options.cycles) * problem.repeat(condition)


def cut(
    problem: Problem,
    seats: Sequence[Seat],
    options: MappingOf[Condition, Options],
    weights: tuple[float, float],
) -> list[Filled]:
    """Cut the network into groups of least total price, by dynamic programming over cut points.

    `seats` must hold one plan of every single layer. best[j] = min over plans that end at j of best[i] + price.
    Plans are tried in the order of a lower bound, the sum of their layers' cheapest options.
    """
    cheapest = {c: _prices(problem, o, c, weights).min(initial=np.inf) for c, o in options.items()}
    place = problem.workload.depth
    count = len(problem.workload.layers)
    ending: list[list[tuple[float, Seat]]] = [[] for _ in range(count + 1)]
    for one in seats:
        bound = sum(cheapest[c] for c in one.conditions)
        ending[place[one.plan.group.layers[-1]] + 1].append((bound, one))
    best: list[tuple[float, Filled | None]] = [(0.0, None), *((np.inf, None) for _ in range(count))]
    for stop in range(1, count + 1):
        bounds = [(best[stop - len(s.conditions)][0] + bound, i) for i, (bound, s) in enumerate(ending[stop])]
        for bound, i in sorted(bounds):
            if bound >= best[stop][0]:
                break
            one = ending[stop][i][1]
            before = best[stop - len(one.conditions)][0]
            filled = fill(problem, one, options, weights, worth=best[stop][0] - before)
            if filled is not None:
                best[stop] = (before + filled.price, filled)
    groups: list[Filled] = []
    stop = count
    while stop:
        filled = best[stop][1]
        assert filled is not None, "every layer has a plan of its own"
        groups.append(filled)
        stop -= len(filled.choices)
    return groups[::-1]


def to_schedule(problem: Problem, groups: Sequence[Filled]) -> Schedule:
    """The groups and their choices as a schedule."""
    mappings = {name: mapping for filled in groups for name, mapping in to_mappings(problem, filled).items()}
    groups_in_order = tuple(filled.seat.plan.group for filled in groups)
    return Schedule(problem.workload, problem.hardware, groups_in_order, mappings)


def to_mappings(problem: Problem, filled: Filled) -> dict[str, Mapping]:
    """The mappings of a group's MAC layers."""
    (plan, conditions), choices, _ = filled
    return {
        name: _mapping(problem, condition, chosen)
        for name, condition, chosen in zip(plan.group.layers, conditions, choices, strict=True)
        if problem.workload[name].is_mac
    }


def _mapping(problem: Problem, condition: Condition, chosen: Choice) -> Mapping:
    factors = [[round(float(f)) for f in slot] for slot in chosen.factors]
    sizes, private = problem.workload.layers[condition.layer].dims, problem.private_sizes(condition)
    l3 = [f * (size // rest) for f, size, rest in zip(factors[4], sizes, private, strict=True)]
    spatial, l0, l1, l2 = (Dims(*slot) for slot in factors[:4])
    return Mapping(spatial, l0, l1, l2, Dims(*l3), ORDER1, ORDER2, SLIDING_ORDERS3[chosen.order])
