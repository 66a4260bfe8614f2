"""What more memory or more PEs are worth to a schedule whose mapping follows, in the relaxed model.

As long as a schedule fits, its cost does not depend on capacities or on the size of the array. Here its factors are
real numbers that move a little, one dim at a time: from loops over L2 into tiles of L2, from there into tiles of L1, or
from loops into the array. Each such move has a gain and takes bytes, or PEs; what counts is the best gain for them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff.report.elasticities import SLOTS, Direction, Slopes
from fadiff.search.space import prime_factors
from fadiff.workload import DIMS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fadiff.cost import Evaluation
    from fadiff.hardware import Hardware
    from fadiff.schedule import Schedule

    FloatArray = NDArray[np.float64]


class Parts(NamedTuple):
    """d log energy and d log cycles by d log x; their sum is that of EDP."""

    energy: float = 0.0
    cycles: float = 0.0

    @property
    def edp(self) -> float:
        """d log EDP by d log x."""
        return self.energy + self.cycles

    def __neg__(self) -> Parts:
        return Parts(0.0 - self.energy, 0.0 - self.cycles)  # 0, not -0


NOISE = 1e-12
"""Shares of the network below which a gain is rounding."""
INTO_L2 = tuple(Direction(dim=d, source="L3", target="L1" if d in "CRS" else "L2") for d in DIMS)
"""Tiles of L2 grow and those of L1 stay: sums do not grow with C, R and S."""
INTO_L1 = tuple(
    Direction(dim=d, source=source, target="L0" if d in "NPQ" else "L1") for d in "GNKPQ" for source in ("L2", "L3")
)


def into_array(dims: Sequence[str]) -> tuple[Direction, ...]:
    """Moves that unroll a dim further, at the expense of a loop at any level."""
    return tuple(Direction(dim=d, source=source, target="spatial") for d in dims for source in ("L1", "L2", "L3"))


def moves(machine: Hardware) -> tuple[Direction, ...]:
    """All moves that :func:`follow` looks at."""
    return (*INTO_L2, *INTO_L1, *into_array(machine.spatial_rows), *into_array(machine.spatial_cols))


class Following(NamedTuple):
    """Elasticities by what grows; never positive, since nothing has to follow."""

    l2_bytes: Parts
    l1_bytes: Parts
    rows: Parts
    cols: Parts


def follow(evaluation: Evaluation, slopes: Slopes, first: int) -> Following:
    """What mappings make of more L2, L1, rows and columns; `slopes` hold those of :func:`moves` from `first` on."""
    schedule = evaluation.schedule
    machine = schedule.hardware
    found = _Moves(evaluation, slopes, first)
    priced = _l2_prices(schedule, found)
    rows, cols = into_array(machine.spatial_rows), into_array(machine.spatial_cols)
    return Following(
        l2_bytes=-_times(_sum(priced.values()), machine.usable_l2_bytes),
        l1_bytes=-_times(_l1_price(schedule, found, priced), machine.usable_l1_bytes),
        rows=-_unrolled(schedule, found, rows, machine.rows),
        cols=-_unrolled(schedule, found, cols, machine.cols),
    )


class _Moves:
    """Gains and needs of every move of every layer."""

    def __init__(self, evaluation: Evaluation, slopes: Slopes, first: int) -> None:
        schedule = evaluation.schedule
        self.number = {layer.name: i for i, layer in enumerate(schedule.workload.layers)}
        self._row = {direction: first + i for i, direction in enumerate(moves(schedule.hardware))}
        self._slopes = slopes
        self._energy = -slopes.energy_pj * evaluation.repeat / evaluation.energy_pj
        self._cycles = -slopes.cycles * evaluation.repeat / evaluation.cycles
        self._factors = _private_factors(schedule)

    def possible(self, move: Direction, layer: int) -> bool:
        """Whether there is a loop to shorten, and the layer's cost does not jump."""
        running = self._factors[SLOTS.index(move.source), DIMS.index(move.dim), layer] > 1
        return bool(running and self._slopes.continuous[self._row[move], layer])

    def gain(self, move: Direction, layer: int) -> Parts:
        """Shares of the network's energy and cycles that a move saves."""
        parts = (float(part[self._row[move], layer]) for part in (self._energy, self._cycles))
        return Parts(*(part if abs(part) > NOISE else 0.0 for part in parts))

    def kept(self, move: Direction, layer: int) -> float:
        """Bytes of L2 it takes for as long as the group runs."""
        return float(self._slopes.kept[self._row[move], layer])

    def passing(self, move: Direction, layer: int) -> float:
        """Bytes of L2 it takes while the layer runs."""
        return float(self._slopes.passing[self._row[move], layer])

    def l1_bytes(self, move: Direction, layer: int) -> float:
        """Bytes of L1 it takes."""
        return float(self._slopes.l1_bytes[self._row[move], layer])


def _private_factors(schedule: Schedule) -> FloatArray:
    """``[5, 8, layers]`` factors of every mapping; at L3 what the shared loops leave of them."""
    found = np.ones((len(SLOTS), len(DIMS), len(schedule.workload.layers)))
    for i, layer in enumerate(schedule.workload.layers):
        if not layer.is_mac:
            continue
        m, group = schedule.mappings[layer.name], schedule.group_of[layer.name]
        shared = group.trips._asdict()
        if (pair := schedule.channel_loop(group)) is not None:
            shared["K" if layer.name == pair[0] else "C"] = group.trips.X
        rests = [factor // shared.get(dim, 1) for dim, factor in m.l3._asdict().items()]
        found[:, :, i] = [m.spatial, m.l0, m.l1, m.l2, rests]
    return found


def _l2_prices(schedule: Schedule, found: _Moves) -> dict[str, Parts]:
    """What each group gains from one more byte of L2, by its first layer's name."""
    prices: dict[str, Parts] = {}
    for group in schedule.groups:
        kept, passing = Parts(), Parts()
        for layer in (found.number[name] for name in group.layers):
            best = Parts()
            for move in INTO_L2:
                stays, passes = found.kept(move, layer), found.passing(move, layer)
                if not found.possible(move, layer) or stays + passes <= 0:
                    continue
                price = _times(found.gain(move, layer), 1 / (stays + passes))
                if stays > 0:
                    kept = max(kept, price, key=_edp)
                else:
                    best = max(best, price, key=_edp)
            passing = _sum([passing, best])
        prices[group.layers[0]] = max(kept, passing, key=_edp)
    return prices


def _l1_price(schedule: Schedule, found: _Moves, l2_prices: dict[str, Parts]) -> Parts:
    """What all layers gain from one more byte of L1, net of the L2 that it takes."""
    total = Parts()
    for group in schedule.groups:
        l2_price = l2_prices[group.layers[0]]
        bests: list[Parts] = []
        for layer in (found.number[name] for name in group.layers):
            best = Parts()
            for move in INTO_L1:
                taken = found.l1_bytes(move, layer)
                if not found.possible(move, layer) or taken <= 0:
                    continue
                held = found.kept(move, layer) + found.passing(move, layer)
                net = _sum([found.gain(move, layer), _times(l2_price, -held)])
                if net.edp > NOISE:
                    best = max(best, _times(net, 1 / taken), key=_edp)
            bests.append(best)
        # The two layers of a channel loop hold their sums at the same time.
        total = _sum([total, max(bests, key=_edp)] if schedule.channel_loop(group) else [total, *bests])
    return total


def _unrolled(schedule: Schedule, found: _Moves, directions: Sequence[Direction], there: int) -> Parts:
    """What layers gain that fill an axis of the array and have loops left to unroll over it."""
    total = Parts()
    dims = dict.fromkeys(direction.dim for direction in directions)
    for layer in schedule.workload.layers:
        if not layer.is_mac:
            continue
        unrolled, sizes = schedule.mappings[layer.name].spatial._asdict(), layer.dims._asdict()
        used = int(np.prod([unrolled[dim] for dim in dims]))
        smallest = min((p for dim in dims for p, _ in prime_factors(sizes[dim] // unrolled[dim])), default=1)
        if used * smallest <= there:
            continue  # It could unroll further as it is, or has nothing left: more PEs would not change that.
        number = found.number[layer.name]
        gains = [found.gain(move, number) for move in directions if found.possible(move, number)]
        total = _sum([total, max([Parts(), *gains], key=_edp)])
    return total


def _edp(parts: Parts) -> float:
    return parts.edp


def _sum(many: Collection[Parts]) -> Parts:
    return Parts(sum(parts.energy for parts in many), sum(parts.cycles for parts in many))


def _times(parts: Parts, factor: float) -> Parts:
    return Parts(parts.energy * factor, parts.cycles * factor)
