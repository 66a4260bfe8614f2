"""Schedules of small networks as rows of the climb, and climbs' results as schedules."""

from dataclasses import replace
from random import Random

import numpy as np

from fadiff.schedule import Schedule
from fadiff.schedule.arrays import pack_schedule, schedule_tiling
from fadiff.search.exact.climb import Mapped, price
from fadiff.search.exact.conditions import Condition, Task
from fadiff.search.exact.menus import Menu, subset
from fadiff.search.exact.starts import outermost, scattered
from fadiff.search.space import settle
from search.networks import NETWORKS, at_dram, draw_mapping, group

GROUPS = [
    ("conv_chain", group("a")),
    ("conv_chain", group("a b")),
    ("conv_chain", group("a b c", "P2")),
    ("conv_chain", group("b c", "P2 Q2")),
    ("residual", group("a b")),
    ("residual", group("a b s c", "P2 Q2")),
    ("residual", group("s c", "Q4")),
    ("separable", group("dw pw", "P4")),
    ("separable", group("dw pw", "P3 Q2")),
    ("attention", group("k")),
    ("attention", group("k qk", "G2")),
    ("attention", group("qk av", "G2 N3 X2", "GXN")),
    ("attention", group("qk av", "N2 X4", "NX")),
    ("feed_forward", group("up down", "N2 X4", "XN")),
    ("feed_forward", group("up down", "N3 X3", "NX")),
    ("concatenation", group("b c", "P2")),
    ("concatenation", group("a b c", "Q2")),
]
"""Layers in groups that share all kinds of loops, some with tiles that are cut at the end."""


def conditions_in(task: Task, schedule: Schedule) -> dict[str, Condition]:
    """The condition of every MAC layer, in the workload's order."""
    found = {}
    for one in schedule.groups:
        tile = schedule_tiling(schedule, one).tile
        tiles = [{dim: int(steps[0]) for dim, steps in tile[name].items()} for name in one.layers]
        found |= dict(zip(one.layers, task.conditions(one, tiles), strict=True))
    return {layer.name: found[layer.name] for layer in task.workload.layers if layer.is_mac}


def drawn(random: Random, name, machine, one) -> Schedule:
    """Any factors and orders at all: they cover the layers, and that is all that is promised."""
    return redrawn(random, at_dram(NETWORKS[name], machine, one))


def redrawn(random: Random, schedule: Schedule) -> Schedule:
    fusion = pack_schedule(schedule).fusion
    tile, shared = np.asarray(fusion.tile).astype(int), np.asarray(fusion.shared).astype(int)
    mappings = {
        layer.name: draw_mapping(random, schedule.machine, tile[:, i].tolist(), shared[:, i].tolist())
        for i, layer in enumerate(schedule.workload.layers)
        if layer.is_mac
    }
    return replace(schedule, mappings=mappings)


def priced(task: Task, schedule: Schedule, rooms, weights, *, alone=False) -> Mapped:
    """The mappings of a schedule's MAC layers, priced as the climb prices them."""
    conditions = conditions_in(task, schedule)
    names = list(conditions)
    columns = [task.number[name] for name in names]
    factors = np.asarray(pack_schedule(schedule).mapping.factors)[..., columns]
    orders = tuple(tuple(schedule.mappings[n].orders[i] for n in names) for i in range(len(task.machine.memories)))
    order = np.tile(np.arange(len(names)), (len(orders), 1))
    rows = task.rows(list(conditions.values()), rooms, weights)
    return price(task.machine.structure, orders, rows, factors, order, task.numbers, alone=alone)


def rough_menus(task, every, random):
    """Mappings that nothing has climbed from: every loop at the first memory, and random ones, as far as they fit."""
    task64 = Task(task.workload, task.machine, dtype=np.float64)
    menus = {}
    for condition in dict.fromkeys(condition for plan in every for condition in plan.conditions):
        starts = [outermost(task), *(scattered(task, condition, random) for _ in range(5))]
        rows = task64.rows([condition] * 6, [task.all_room] * 6, (1.0, 1.0))
        factors = settle(np.stack([start.factors for start in starts], axis=-1), rows.fusion.tile)
        order = np.stack([start.order for start in starts], axis=-1)
        found = price(task.machine.structure, task.space.orders, rows, factors, order, task64.numbers)
        menus[condition] = subset(Menu(*map(np.asarray, found)), np.isfinite(found.price))
    return menus


def made_up(random, task, count, price=1.0, waits=False):
    """Mappings that cost less the more room they take, roughly; they keep tiles in the homes of W and I."""
    room = np.array(task.all_room.running)[:, None]
    used = np.floor(room * random.random((len(room), count)))
    share = np.where(np.isin(np.arange(len(room)), task.homes)[:, None], random.choice([0, 1, 0.5], size=used.shape), 0)
    waiting = np.floor(used * random.random(used.shape)) if waits else np.zeros_like(used)
    energy = price * random.random() * (1 + np.exp(-5 * (used / room).mean(axis=0)) + 0.1 * random.random(count))
    cycles = energy * random.random(count)
    factors, order = np.ones((len(task.machine.nodes), 8, count)), np.zeros((len(room) + 1, count), dtype=int)
    return Menu(factors, order, energy, energy, cycles, used, np.floor(used * share), waiting)
