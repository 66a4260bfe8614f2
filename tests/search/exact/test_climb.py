"""Climbing: prices are the exact evaluator's, no move makes a mapping illegal, and a climb ends where none helps."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from fadiff.cost import evaluate
from fadiff.hardware import pack_machine
from fadiff.schedule import rules
from fadiff.schedule.arrays import unpack_mapping
from fadiff.schedule.capacity import needs
from fadiff.search.exact import menus
from fadiff.search.exact.assemble import to_mapping
from fadiff.search.exact.climb import Moves, moved, price
from fadiff.search.exact.conditions import Room, Task
from fadiff.search.exact.menus import Row, climbed_from, solve, start_from, start_of, started, starts_of
from fadiff.search.exact.menus import alone as best_alone
from fadiff.search.exact.starts import full_array, outermost, pinned, scattered
from fadiff.search.space import settle
from oracle import schedules
from search.exact.rows import GROUPS, conditions_in, drawn, priced, redrawn
from search.exhaustive import every_mapping
from search.networks import (
    EYERISS,
    FLAT,
    GEMMINI,
    NETWORKS,
    SIMBA,
    at_dram,
    group,
    mac,
    machine_with,
    network,
    sized,
)

WEIGHTS = (1e-4, 1e-3)


def drawn_schedules():
    """Random mappings in groups of small networks on four machines, and of random networks on random machines."""
    random = Random(0)
    for name, one in GROUPS:
        for machine in (GEMMINI, FLAT, EYERISS, SIMBA):
            yield drawn(random, name, machine, one)
    for kind in schedules.KINDS:
        for seed in range(8):
            yield redrawn(random, schedules.draw(kind, seed))


def narrowed(random: Random, schedule):
    """In some cases on a machine with one lane too few for some layer."""
    machine, mappings = schedule.machine, schedule.mappings.values()
    lanes = {node: max(int(np.prod(m.factors[node])) for m in mappings) for node in machine.structure.axes}
    used = {node: count for node, count in lanes.items() if count > 1}
    if not used or random.random() < 0.8:
        return schedule
    node = random.choice(list(used))
    return replace(schedule, machine=sized(machine, **{machine.nodes[node].name: used[node] - 1}))


class Told:
    """What the evaluator and the rules say of the layers of a schedule."""

    def __init__(self, schedule):
        examined, structure = rules.Examined(schedule), schedule.machine.structure
        held = needs(examined.nest, examined.placement, pack_machine(schedule.machine)).tiles
        evaluation = evaluate(schedule)
        self.number, self.energy_pj, self.cycles = examined.number, evaluation.layer_energy_pj, evaluation.layer_cycles
        shape = (len(structure.memories) - 1, len(self.number))
        self.running, self.kept, self.waiting = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for i, memory in enumerate(structure.memories[1:]):
            self.running[i] = sum(size for (m, _), size in held.running.items() if m == memory)
            self.kept[i] = sum(size for (m, _), size in held.kept.items() if m == memory)
            self.waiting[i] = held.waiting.get(memory, 0)
        broken = [*rules.spatial(examined), *rules.complete(examined)]
        # A softmax under X needs all sums of the consumer: the rule names the group, its last layer is at fault.
        self.broken = {v.layers[0] for v in broken} | {v.layers[-1] for v in rules.whole(examined)}

    def room(self, random: Random, name) -> Room:
        """Ample, or exactly what the layer needs, or a little less."""
        i, tight = self.number[name], random.random() < 0.5
        parts = [[n - random.choice([0] * 9 + [0.5]) if tight else 1e30 for n in part[:, i]] for part in self.parts]
        return Room(*map(tuple, parts))

    @property
    def parts(self):
        return self.running, self.kept

    def legal(self, name, room) -> bool:
        i = self.number[name]
        fits = all((part[:, i] <= there).all() for part, there in zip(self.parts, room, strict=True))
        return fits and name not in self.broken


def test_prices_are_the_exact_evaluators_and_infinite_where_a_rule_is_broken():
    random = Random(1)
    finite = infinite = 0
    for given in drawn_schedules():
        schedule = narrowed(random, given)
        task, told = Task(schedule.workload, schedule.machine, dtype=np.float64), Told(schedule)
        names = list(conditions_in(task, schedule))
        rooms = [told.room(random, name) for name in names]
        found = priced(task, schedule, rooms, WEIGHTS)
        homes = list(task.homes)
        for j, (name, room) in enumerate(zip(names, rooms, strict=True)):
            i = task.number[name]
            assert found.energy_pj[j] == pytest.approx(told.energy_pj[i], rel=1e-12)
            assert found.cycles[j] == pytest.approx(told.cycles[i], rel=1e-12)
            for part in ("running", "kept", "waiting"):
                assert getattr(found, part)[:, j].tolist() == getattr(told, part)[:, i].tolist()
            paid = (WEIGHTS[0] * told.energy_pj[i] + WEIGHTS[1] * told.cycles[i]) * task.workload.layers[i].repeat
            paid += 1e-3 * (told.running[homes, i] / np.array(task.all_room.running)[homes]).sum()
            legal = told.legal(name, room)
            assert found.price[j] == (pytest.approx(paid, rel=1e-12) if legal else np.inf)
            finite, infinite = finite + legal, infinite + (not legal)
    assert min(finite, infinite) > 100


@pytest.mark.parametrize("machine", [GEMMINI, FLAT, EYERISS, SIMBA], ids=lambda m: m.name)
def test_a_layer_alone_costs_the_same_whether_or_not_loops_could_be_shared(machine):
    schedule = drawn(Random(2), "conv_chain", machine, group("a"))
    task = Task(schedule.workload, machine, dtype=np.float64)
    rooms = [task.all_room] * 3
    both = [priced(task, schedule, rooms, WEIGHTS, alone=alone) for alone in (False, True)]
    assert all(np.array_equal(a, b) for a, b in zip(*both, strict=True))


# Climbs on a Gemmini.


class Climbed:
    """Layers in their groups, some with little room, from starts that fit and starts that do not."""

    def __init__(self, name, one, random):
        self.schedule = at_dram(NETWORKS[name], GEMMINI, one)
        self.task = Task(self.schedule.workload, GEMMINI)
        found = conditions_in(self.task, self.schedule)
        conditions = {name: condition for name, condition in found.items() if name in one.layers}
        self.names, self.rows = [], []
        for member, condition in conditions.items():
            for start in (outermost(self.task), full_array(self.task, condition), pinned(self.task, condition),
                          scattered(self.task, condition, random)):  # fmt: skip
                running = np.array(self.task.all_room.running) * random.choice([1.0, 0.5, 0.125, 0.0625], size=3)
                running[2] = 1
                kept = np.minimum(running, np.array(self.task.all_room.running) * random.choice([1.0, 0.2]))
                self.names.append(member)
                self.rows.append(Row(condition, start, Room(tuple(running), tuple(kept))))
        self.found = solve(self.task, self.rows, WEIGHTS, pairs=False)

    def tried(self, factors, order, of=None):
        """Mappings of all rows, or of some, priced in 64 bits."""
        task, of = Task(self.task.workload, GEMMINI, dtype=np.float64), of or self.rows
        rows = task.rows([row.condition for row in of], [row.room for row in of], WEIGHTS)
        tile = np.asarray(rows.fusion.tile)
        factors = settle(factors, tile if factors.ndim == 3 else tile[:, None])
        return price(GEMMINI.structure, task.space.orders, rows, factors, order, task.numbers)

    @property
    def started(self):
        factors = np.stack([row.start.factors for row in self.rows], axis=-1)
        return self.tried(factors, np.stack([row.start.order for row in self.rows], axis=-1))

    def in_schedule(self, j):
        """The schedule with the mapping that a row climbed to."""
        task, condition, found = self.task, self.rows[j].condition, self.found
        orders = [orders[int(found.order[i, j])] for i, orders in enumerate(task.space.orders)]
        mapping = unpack_mapping(found.factors[..., j], task.shared(condition), orders)
        return replace(self.schedule, mappings={**self.schedule.mappings, self.names[j]: mapping})


@pytest.fixture(scope="module")
def climbs():
    random = np.random.default_rng(0)
    return [Climbed(name, one, random) for name, one in GROUPS]


def test_a_climb_never_gets_worse(climbs):
    improved = 0
    for climb in climbs:
        before, after = climb.started.price, climb.found.price
        assert (after <= before * (1 + 1e-5)).all()
        improved += int((after < before).sum())
    assert improved > 60


def test_a_climb_ends_where_no_move_helps(climbs):
    for climb in climbs:
        moves = climb.task.moves([row.condition for row in climb.rows], pairs=False)
        tile = np.array([row.condition.tile for row in climb.rows]).T
        around = moved(climb.found.factors[:, :, None], climb.found.order[:, None], moves, tile[:, None])
        assert (climb.tried(*around).price.min(axis=0) >= climb.found.price * (1 - 1e-5)).all()


def test_what_a_climb_finds_is_legal_and_within_its_room(climbs):
    finite = 0
    for climb in climbs:
        for j, (name, row) in enumerate(zip(climb.names, climb.rows, strict=True)):
            schedule = climb.in_schedule(j)
            broken = [v for v in rules.factors(rules.Examined(schedule)) if name in v.layers]
            assert broken == []
            if np.isfinite(climb.found.price[j]):
                finite += 1
                told, i = Told(schedule), climb.task.number[name]
                assert told.legal(name, row.room)
                assert climb.found.energy_pj[j] == pytest.approx(told.energy_pj[i], rel=1e-5)
                assert climb.found.cycles[j] == pytest.approx(told.cycles[i], rel=1e-5)
    assert finite > 100


def test_what_does_not_fit_has_an_infinite_price(climbs):
    climb = climbs[0]
    nowhere = [row._replace(room=Room((0.5, 3.0, 1.0), row.room.kept)) for row in climb.rows]
    found = solve(climb.task, nowhere, WEIGHTS, pairs=False)
    assert np.isinf(found.price).all()
    assert np.isinf(found.energy_pj).all()


def test_the_rows_of_a_call_do_not_touch_each_other(climbs):
    climb = climbs[2]
    for j in (0, 5, 10):
        (alone,) = np.moveaxis(solve(climb.task, [climb.rows[j]], WEIGHTS, pairs=False).factors, -1, 0)
        assert np.array_equal(alone, climb.found.factors[..., j])


def test_a_climb_is_the_same_in_small_parts(climbs, monkeypatch):
    climb = climbs[3]
    for size in (1, 50):
        monkeypatch.setattr(menus, "MAPPINGS_PER_CALL", size)
        again = solve(climb.task, climb.rows[:6], WEIGHTS, pairs=size > 1)
        monkeypatch.undo()
        whole = solve(climb.task, climb.rows[:6], WEIGHTS, pairs=size > 1)
        assert all(np.array_equal(a, b) for a, b in zip(again, whole, strict=True))


def test_a_climb_sees_loops_where_none_is_sought():
    """Alone such a mapping is priced as it is, and it stays where moves in reach are no better."""
    schedule = drawn(Random(5), "conv_chain", SIMBA, group("a"))
    task = Task(schedule.workload, SIMBA)
    factors = np.array(schedule.mappings["a"].factors)
    assert (factors[~task.sought] > 1).any()
    rows = [Row(task.alone("a"), start_of(task, schedule.mappings["a"]), task.all_room)]
    before, after = started(task, rows, WEIGHTS), solve(task, rows, WEIGHTS)
    assert np.array_equal(before.price[0], after.price[0]) or after.price[0] < before.price[0]
    at = replace(schedule, mappings={**schedule.mappings, "a": to_mapping(task, task.alone("a"), after, 0)})
    told = Told(at)
    assert after.energy_pj[0] == pytest.approx(told.energy_pj[0], rel=1e-5)
    assert after.cycles[0] == pytest.approx(told.cycles[0], rel=1e-5)


@pytest.fixture(scope="module")
def paired_climbs(climbs):
    """Some climbs, taken on by moves in pairs: the climb, the rows that had found something, and what was found."""
    found = []
    for climb in climbs[:3]:
        fitting = np.flatnonzero(np.isfinite(climb.found.price))
        rows = [climb.rows[i]._replace(start=start_from(climb.found, i)) for i in fitting]
        found.append((climb, fitting, solve(climb.task, rows, WEIGHTS, pairs=True)))
    return found


def test_moves_in_pairs_are_never_worse_than_single_ones(paired_climbs):
    improved = 0
    for climb, fitting, found in paired_climbs:
        before = climb.found.price[fitting]
        assert (found.price <= before * (1 + 1e-6)).all()
        improved += int((found.price < before * (1 - 1e-6)).sum())
    assert improved


def test_pairs_end_where_no_two_moves_help(paired_climbs):
    climb, fitting, found = paired_climbs[0]
    rows = [climb.rows[i] for i in fitting]
    moves = climb.task.moves([row.condition for row in rows], pairs=True)
    first, second = np.triu_indices(moves.dim.shape[0])
    tile = np.array([row.condition.tile for row in rows]).T[:, None]
    once = moved(found.factors[:, :, None], found.order[:, None], Moves(*(part[first] for part in moves)), tile)
    twice = moved(*once, Moves(*(part[second] for part in moves)), tile)
    assert (climb.tried(*twice, rows).price.min(axis=0) >= found.price * (1 - 1e-5)).all()


# Small layers reach their optimum.

LAYERS = {
    "gemm": mac("a", "N8 K8 C8"),
    "gemm of 7 rows": mac("a", "N7 K6 C10"),
    "convolution": mac("a", "K4 C4 P4 Q4 R3"),
    "strided convolution": mac("a", "K4 C2 P6 Q5 R3", stride=(2, 2)),
    "depthwise": mac("a", "G6 P5 Q4 R3 S3"),
}
CHIPS = {
    "tight": sized(GEMMINI, scratchpad=96, accumulator=16),
    "tiny": sized(GEMMINI, scratchpad=40, accumulator=4),
    "lopsided": machine_with(sized(GEMMINI, scratchpad=128, accumulator=256, rows=8, cols=2), overlap="none"),
    "flat": sized(FLAT, buffer=48, spad=12, lanes=2),
}
MISSED = {("gemm of 7 rows", "tight"): 1.001, ("gemm", "flat"): 1.05}
"""Factors may change in two places at once, in three they may not."""


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_small_layer_reaches_the_optimum_of_all_its_mappings_or_is_known_to_miss_it(layer, chip):
    """Of all whole factors over the useful nodes, in all orders of the search."""
    machine, workload = CHIPS[chip], network(LAYERS[layer])
    task = Task(workload, machine)
    every = every_mapping(workload, machine, group("a"), "a", task.space.nodes, task.space.orders)
    best = int((every.energy_pj * every.cycles).argmin())
    weights = (1 / every.energy_pj[best], 1 / every.cycles[best])
    condition = task.alone("a")
    first = best_alone(task, [condition], weights, seed=0, starts=16)[condition]
    found = climbed_from(task, {condition: starts_of(first)}, weights, pairs=True)[condition]
    reached = float((weights[0] * found.energy_pj + weights[1] * found.cycles).min())
    assert every.best(weights) <= reached * (1 + 1e-5)
    assert reached <= every.best(weights) * MISSED.get((layer, chip), 1.0001)
