"""A finished schedule as rows of climbs: its loop orders, and the room that each layer has."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from analysis.mappings import mapped
from fadiff.schedule import Schedule
from fadiff.schedule.rules import violations
from fadiff.search import greedy
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.menus import start_of, started
from fadiff.search.explain.climbs import present_rows
from search.networks import EYERISS, GEMMINI, NETWORKS, SIMBA, dims, group, mac, network, sized


@pytest.mark.parametrize("machine", [GEMMINI, EYERISS, SIMBA], ids=lambda machine: machine.name)
def test_orders_that_the_search_knows_are_found_again(machine):
    """All loops of all memories run, so that every order is another one."""
    task = Task(NETWORKS["residual"], machine, dtype=np.float64)
    mapping = greedy(NETWORKS["residual"], machine).mappings["b"]
    running = tuple(dims("G2 N2 K2 C2 P2 Q2 R2 S2") for _ in mapping.factors)
    for chosen in product(*(range(0, len(orders), 3) for orders in task.space.orders)):
        orders = tuple(orders[i] for i, orders in zip(chosen, task.space.orders, strict=True))
        assert start_of(task, replace(mapping, factors=running, orders=orders)).order.tolist() == list(chosen)


def test_only_loops_that_run_say_which_order_is_near():
    task = Task(NETWORKS["residual"], GEMMINI, dtype=np.float64)
    mapping = mapped(GEMMINI, DRAM="K2 P2", registers="Q2")
    found = start_of(task, replace(mapping, orders=("SRCQNKPG", *mapping.orders[1:])))
    chosen = task.space.orders[0][found.order[0]]
    assert chosen.index("K") < chosen.index("P")


def test_rooms_are_what_the_rest_of_the_group_leaves():
    """The weights of v stay while u runs, where the scratchpad is fullest: 128 W + 128 I + 128 buffer + 32 kept."""
    machine = sized(GEMMINI, scratchpad=416, accumulator=512, rows=2, cols=2)
    u, v = mac("u", "N64 K16 C16"), mac("v", "N64 K2 C16", "u")
    mappings = {
        "u": mapped(machine, DRAM="N8 K2", cols="K2", accumulator="K4 C8", rows="C2", registers="N8"),
        "v": mapped(machine, DRAM="N8", cols="K2", accumulator="C8", rows="C2", registers="N8"),
    }
    schedule = Schedule(network(u, v), machine, (group("u v", "N8"),), mappings)
    assert violations(schedule) == []
    task = Task(schedule.workload, machine, dtype=np.float64)
    rows = present_rows(task, schedule)
    assert rows["u"].room.running[0] == 416 - 32 - 128
    assert rows["u"].room.kept[0] == 416 - 32 - 128
    assert rows["v"].room.running[0] == 416 - 128
    assert rows["v"].room.kept[0] == 32
    held = started(task, list(rows.values()), (1.0, 1.0))
    assert held.running[0].tolist() == [256, 32]
    assert held.kept[0].tolist() == [0, 32]


def test_a_larger_machine_leaves_more_room():
    schedule = replace(greedy(NETWORKS["residual"], GEMMINI), groups=(group("a b s c"),))
    larger = sized(GEMMINI, scratchpad=2048)
    small, large = (present_rows(Task(schedule.workload, m, dtype=np.float64), schedule) for m in (GEMMINI, larger))
    for name, row in small.items():
        assert large[name].room.running == (row.room.running[0] + 1024, *row.room.running[1:])
        assert large[name].condition == row.condition
