"""The loop nest of one layer, written out: shared loops, then memory after memory, with the lanes in between.

Loops of one trip are left out: they do nothing. A walk through the nest carries for every dim its *parts*: the lanes
that work on it at this moment, each with the stretch of the dim it has been given. A loop cuts the next piece from
every stretch, an axis deals a stretch out over its lanes. Whoever gets nothing is idle until the others are done:
lanes run in lockstep.
"""

from dataclasses import dataclass
from typing import NamedTuple

from fadiff.hardware import Axis
from fadiff.schedule import Schedule
from fadiff.workload import DIMS
from oracle.tiles import tiles

SHARED = -1
"""Where shared loops stand: outside of node 0, the first memory."""


class Part(NamedTuple):
    """The stretch of one dim that one lane works on."""

    lanes: tuple[int, ...]
    """The number of the lane on each axis passed so far."""
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


Parts = dict[str, tuple[Part, ...]]


@dataclass(frozen=True)
class Loop:
    """A temporal loop with more than one trip; `step` is the stretch of the dim that one iteration gets."""

    node: int
    dim: str
    trips: int
    step: int

    @property
    def shared(self) -> bool:
        return self.node == SHARED

    def iteration(self, parts: tuple[Part, ...], number: int) -> tuple[Part, ...]:
        """What one iteration gets: nothing once all stretches are used up."""
        cut = (
            Part(p.lanes, p.start + number * self.step, min(p.stop, p.start + (number + 1) * self.step)) for p in parts
        )
        return tuple(p for p in cut if p.size > 0)


@dataclass(frozen=True)
class Lanes:
    """An axis: for every dim the lanes that unroll it, and the stretch that each gets."""

    node: int
    lanes: dict[str, int]
    steps: dict[str, int]

    def deal(self, parts: Parts) -> Parts:
        """Stretches of all dims, dealt out over the lanes in order."""
        return {d: tuple(self._dealt(d, parts[d])) for d in DIMS}

    def _dealt(self, dim: str, parts: tuple[Part, ...]):
        step = self.steps[dim]
        for part in parts:
            for lane in range(self.lanes[dim]):
                dealt = Part(
                    (*part.lanes, lane), part.start + lane * step, min(part.stop, part.start + (lane + 1) * step)
                )
                if dealt.size > 0:
                    yield dealt


@dataclass(frozen=True)
class Enter:
    """The walk enters a memory, or past the last node the multipliers: its tiles must be there now."""

    node: int


class Nest(NamedTuple):
    """One layer's nest, outermost first."""

    levels: list[Loop | Lanes | Enter]
    loops: list[Loop]
    tile: dict[str, int]
    """The layer's part of each dim in one shared iteration."""
    factors: tuple[dict[str, int], ...]
    """Factors by node; those of the first memory without the shared loops."""

    def held(self, node: int, dim: str) -> int:
        """How much of a dim one instance of a memory holds when nothing is cut: x_m."""
        extent = 1
        for factors in self.factors[node:]:
            extent *= factors[dim]
        return min(extent, self.tile[dim])


def nest(schedule: Schedule, name: str) -> Nest:
    """The nest of a MAC layer."""
    machine, group = schedule.machine, schedule.group_of[name]
    layer, mapping = schedule.workload[name], schedule.mappings[name]
    size, tile = layer.dims._asdict(), layer.dims._asdict()
    factors = tuple(f._asdict() for f in mapping.factors)
    shared: list[Loop] = []
    for letter in group.nesting:
        if (found := tiles(schedule.workload, group)[name].get(letter)) is None:
            continue
        dim = group.x_dim(name) if letter == "X" else letter
        assert dim is not None
        tile[dim] = found.computed
        trips = -(-size[dim] // found.computed)
        assert factors[0][dim] % trips == 0, f"{name}: {trips} shared trips of {dim} are no part of {factors[0][dim]}"
        factors[0][dim] //= trips
        shared.append(Loop(SHARED, dim, trips, found.computed))
    levels: list[Loop | Lanes | Enter] = [loop for loop in shared if loop.trips > 1]
    orders = iter(mapping.orders)
    for number, node in enumerate(machine.nodes):
        inside = dict.fromkeys(DIMS, 1)
        for further_in in factors[number + 1 :]:
            inside = {d: inside[d] * further_in[d] for d in DIMS}
        if isinstance(node, Axis):
            levels.append(Lanes(number, factors[number], inside))
        else:
            levels.append(Enter(number))
            loops = (Loop(number, d, factors[number][d], inside[d]) for d in next(orders))
            levels += [loop for loop in loops if loop.trips > 1]
    levels.append(Enter(len(machine.nodes)))
    return Nest(levels, [level for level in levels if isinstance(level, Loop)], tile, factors)
