"""A bound above a legal schedule is a bug of the first order: random schedules, on machines that just hold them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, count, islice
from math import inf
from random import Random

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.schedule import Schedule, rules
from fadiff.schedule.arrays import pack_schedule
from fadiff.schedule.constraint_kinds import Once
from fadiff.schedule.constraints import Constraints, kept
from fadiff.schedule.group_constraints import Together
from fadiff.schedule.rules import Examined, violations
from fadiff.schedule.selection import Layers
from fadiff.search.restrictions import Restrictions
from fadiff.search.solver import layer_bound, place
from fadiff.search.solver.add_bound import AddBound
from fadiff.search.solver.counts import Lanes
from fadiff.search.solver.grid import Cells
from fadiff.search.solver.layer_bound import LayerBound
from fadiff.search.solver.lines import Lines
from fadiff.search.solver.modes import Cut, Modes
from fadiff.search.solver.network_bound import Prover
from fadiff.search.solver.place import Links, asked_places, places
from fadiff.search.solver.region import weighed
from fadiff.search.solver.rooms import Rooms
from fadiff.search.solver.whole import LEVELS, Wholes
from search.solver.tight import tight

KINDS = ("single", "image_lanes", "chain", "residual", "concatenation", "weight_port", "channel_loop", "unfusible")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_no_layer_of_a_random_schedule_is_below_its_bound(kind, seed, monkeypatch):
    schedule = tight(kind, 50_000 + seed)
    factors = np.asarray(pack_schedule(schedule).mapping.factors).copy()
    factors[list(schedule.machine.structure.memories)] = 1
    cost, rng = evaluate(schedule), Random(seed)
    links = Links(schedule.workload, schedule.machine)
    for i, layer in enumerate(schedule.workload.layers):
        share = rng.random()
        weights = share / cost.layer_energy_pj[i], (1 - share) / cost.layer_cycles[i]
        possible = tuple(place for _, place in places(links, layer))
        if not layer.is_mac:
            assert AddBound(layer, schedule.machine, possible).at(weights) <= 1 + 1e-9
            continue
        # Only the lanes that the mapping has: the hardest test of the bound there is.
        lanes = Lanes(factors[:, :, i], factors[:, :, i])
        monkeypatch.setattr(layer_bound, "all_lanes", lambda *_, lanes=lanes: lanes)
        assert LayerBound(layer, schedule.machine, possible).at(weights, passes=10) <= 1 + 1e-9


@pytest.mark.parametrize("ties", [place.MOST_TIES, 1])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("single", "image_lanes")])
def test_no_random_schedule_is_below_a_line_of_its_network(kind, seed, ties, monkeypatch):
    monkeypatch.setattr(place, "MOST_TIES", ties)
    schedule = tight(kind, 60_000 + seed)
    cost = evaluate(schedule)
    # Whatever the schedule costs, so that a line may come to lie above it.
    monkeypatch.setattr(Lines, "loss", lambda *_: 1.0)
    monkeypatch.setattr(Lines, "target", lambda lines, weights: 2 * weighed((cost.energy_pj, cost.cycles), weights))
    for exact in (False, True) if schedule.exact_factors else (False,):
        prover = Prover(cost, exact_factors=exact)
        for _ in islice(prover.run(float("inf")), 6):
            for weights, line in prover.lines.drawn.items():
                assert line.value <= weighed((cost.energy_pj, cost.cycles), weights) * (1 + 1e-9)


def softmax_under_a_channel_loop(seed: int) -> Schedule:
    """The first random pair from a seed on whose first layer may end in a softmax."""
    for found in (tight("channel_loop", number) for number in count(seed)):
        first = next((group.layers[0] for group in found.groups if group.trips.X > 1), None)
        layers = [
            replace(layer, epilogue=("softmax", *layer.epilogue)) if layer.name == first else layer
            for layer in found.workload.layers
        ]
        schedule = replace(found, workload=replace(found.workload, layers=tuple(layers)))
        if first is not None and not violations(schedule):
            return schedule
    raise AssertionError


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [*(kind for kind in KINDS if kind not in ("single", "image_lanes")), "softmax"])
def test_no_group_of_a_random_schedule_is_below_its_bound(kind, seed, monkeypatch):
    schedule = softmax_under_a_channel_loop(4000 + 100 * seed) if kind == "softmax" else tight(kind, 70_000 + seed)
    workload, machine, cost, share = schedule.workload, schedule.machine, evaluate(schedule), Random(seed).random()
    packed, links = pack_schedule(schedule), Links(workload, machine)
    factors, tile = np.asarray(packed.mapping.factors).copy(), np.asarray(packed.fusion.tile).astype(int)
    factors[list(machine.structure.memories)] = 1
    lanes = {layer.name: Lanes(factors[:, :, i], factors[:, :, i]) for i, layer in enumerate(workload.layers)}
    monkeypatch.setattr(layer_bound, "all_lanes", lambda layer, *_: lanes[layer.name])
    possible = [places(links, layer) for layer in workload.layers]
    repeat = np.array([layer.repeat for layer in workload.layers])
    for exact in (False, True) if schedule.exact_factors else (False,):
        modes = Modes(links, possible, exact_factors=exact)
        bounds = [
            LayerBound(layer, machine, tuple(place for _, place in mine), exact=exact)
            if layer.is_mac
            else AddBound(layer, machine, tuple(place for _, place in mine))
            for layer, mine in zip(workload.layers, possible, strict=True)
        ]
        for group in (group for group in schedule.groups if len(group.layers) > 1):
            names = tuple(sorted(group.layers, key=workload.depth.__getitem__))
            mine = [i for i, layer in enumerate(workload.layers) if layer.name in names]
            energy_pj, cycles = ((repeat * part)[mine].sum() for part in (cost.layer_energy_pj, cost.layer_cycles))
            weights, wholes = (share / energy_pj, (1 - share) / cycles), Wholes(modes, bounds)
            box = next(i for i in range(len(modes.boxes)) if modes.holds(i, group.trips))
            found = [
                seats
                for seats in wholes.seats(names, box) or ()
                if all([cell.low[0] for cell in seat.tile] == tile[:, seat.layer].tolist() for seat in seats)
            ]
            assert found
            for level in range(LEVELS):
                assert min(wholes.least(seats, weights, inf, 8, level)[0] for seats in found) <= 1 + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_no_layer_of_a_random_schedule_is_below_its_bound_under_what_it_keeps(kind):
    """All that it keeps is asked for: every factor, every order, what passes once, its groups and their trips."""
    for seed in range(3):
        schedule = tight(kind, 80_000 + seed)
        cost, links = evaluate(schedule), Links(schedule.workload, schedule.machine)
        macs = [layer.name for layer in schedule.workload.layers if layer.is_mac]
        homes = [tensor for tensor in "WO" if schedule.machine.structure.home(tensor) is not None]
        every = [*kept(schedule), *(Once(tensor, Layers((name,))) for tensor in homes for name in macs)]
        asked = Constraints(tuple(one for one in every if not Constraints((one,)).broken(schedule)))
        told = Restrictions(schedule.workload, schedule.machine, asked)
        for name in macs:
            i, layer = schedule.workload.number[name], schedule.workload[name]
            possible = asked_places(places(links, layer), told.required, told.barred)
            bound = LayerBound(layer, schedule.machine, tuple(one for _, one in possible), asked=told.layer_asked(i))
            weights = 0.5 / cost.layer_energy_pj[i], 0.5 / cost.layer_cycles[i]
            assert bound.at(weights, passes=12) <= 1 + 1e-9


def sums_stay(examined: Examined, name: str) -> bool:
    """Whether in a layer's group the sums of a channel loop's consumer wait for the next iteration."""
    home, first = examined.machine.structure.home("O"), examined.schedule.group_of[name].layers[0]
    return home is not None and any("waiting sums" in part for part in rules.held_parts(examined, first, home))


def share_of(modes: Modes, schedule: Schedule) -> np.ndarray:
    """Each layer of a schedule wholly in the mode that it has there."""
    workload, machine, examined = schedule.workload, schedule.machine, Examined(schedule)
    home, share = machine.structure.home("W"), np.zeros(len(modes.modes))
    for layer, mine in zip(workload.layers, modes.of_schedule(schedule), strict=True):
        others = [name for name in schedule.group_of[layer.name].layers if name != layer.name]
        held = {} if home is None or not others else rules.held_parts(examined, others[0], home)
        kept = f"kept weight tile of {layer.name}" in held
        place_of = {i: modes.places[modes.modes[i].layer][modes.modes[i].place][1] for i in mine}
        stay = sums_stay(examined, layer.name)
        options = [i for i, one in place_of.items() if one.sums_stay is None or one.sums_stay is stay]
        told = [i for i in options if place_of[i].keeps is kept]
        share[(told or [i for i in options if place_of[i].keeps is not kept])[0]] = 1
    return share


def some_cuts(modes: Modes, schedule: Schedule, random: np.random.Generator) -> Iterator[Cut]:
    """Around trips of a schedule, for some of the layers that have a box there."""
    names = [layer.name for layer in schedule.workload.layers]
    for group in schedule.groups:
        here = {box for name in names for box in modes.tree.leaves(name) if modes.holds(box, group.trips)}
        for box in sorted(here):
            mine = [name for name in names if box in modes.tree.leaves(name, box)]
            wide = [(loop, low, high) for loop, (low, high) in enumerate(modes.boxes[box]) if low < high]
            if wide:
                loop, low, high = wide[random.integers(len(wide))]
                few = frozenset(name for name in mine if random.random() < 0.6)
                yield Cut(box, few, loop, int(random.integers(low, high)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("single", "image_lanes")])
def test_no_random_schedule_breaks_what_holds_of_its_modes(kind):
    """Room is shared out by what is there for certain: nothing is counted twice, once as its maker's, once as its
    reader's."""
    checked = 0
    for seed in range(60):
        schedule = tight(kind, 80_000 + seed)
        workload, machine = schedule.workload, schedule.machine
        links = Links(workload, machine)
        given = {
            name: Together(group.layers, group.trips)
            for group in schedule.groups
            for name in (group.layers if len(group.layers) > 1 else ())
        }
        modes = Modes(links, [places(links, layer) for layer in workload.layers], given=given)
        random = np.random.default_rng(seed)
        # However its boxes are parted, for some layers or for all.
        for _ in range(4):
            share = share_of(modes, schedule)
            assert np.abs(modes.ties @ share).max(initial=0.0) == 0
            assert (modes.limits @ share).max(initial=0.0) <= 1e-9, seed
            modes.part(list(some_cuts(modes, schedule, random)))
        modes = Modes(links, [places(links, layer) for layer in workload.layers], given=given)
        share = share_of(modes, schedule)
        # Any layers may be told to share room.
        for number in range(len(modes.boxes)):
            there = [i for i, mode in enumerate(modes.modes) if mode.box == number]
            found = [(modes.modes[i], workload.layers[modes.modes[i].layer]) for i in there]
            rooms = Rooms(machine, [(one, m.fused, m.tile, modes.places[m.layer][m.place][1]) for m, one in found])
            for crowd in chain.from_iterable(combinations(workload.topological, some) for some in (1, 2, 3)):
                inside = [i for i, (_, one) in enumerate(found) if one.name in crowd]
                rows = rooms.rows([(frozenset(crowd), inside)])
                assert (rows @ share[there]).max(initial=0.0) <= 1e-9, (seed, crowd)
            checked += share[there].any()
    assert checked > 5


def test_no_more_sums_wait_beside_a_producer_than_there_are():
    exactly = 0
    for seed in range(60):
        schedule = tight("channel_loop", 90_000 + seed)
        machine, examined, links = schedule.machine, Examined(schedule), Links(schedule.workload, schedule.machine)
        tile, home = np.asarray(pack_schedule(schedule).fusion.tile).astype(int), machine.structure.home("O")
        for maker, _ in (group.layers for group in schedule.groups if group.trips.X > 1):
            parts = rules.held_parts(examined, maker, home)
            held = sum(size for what, size in parts.items() if "waiting sums" in what)
            number = schedule.workload.number[maker]
            cells = [Cells((size,), (size,)) for size in tile[:, number].tolist()]
            told = [place.sums.least_bytes(cells, machine.bits.sums) for place in sums_that_wait(links, maker)]
            assert told
            assert all(bytes_ <= held for bytes_ in told) or held == 0
            exactly += held in told
    assert exactly > 3


def sums_that_wait(links: Links, maker: str) -> list[place.Place]:
    """The places of a producer that shares a channel loop whose sums stay."""
    return [one for fused, one in places(links, links.workload[maker]) if len(fused) == 1 and one.sums is not None]
