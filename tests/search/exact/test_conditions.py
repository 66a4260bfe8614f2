"""What a mapping depends on besides its layer, and the moves that a climb tries."""

import numpy as np
import pytest

from fadiff.schedule import Group
from fadiff.schedule.arrays import pack_schedule
from fadiff.search.exact.conditions import Task
from fadiff.search.exact.plans import Members
from fadiff.workload import DIMS
from search.exact.rows import GROUPS, conditions_in
from search.networks import (
    EYERISS,
    FLAT,
    GEMMINI,
    MACHINES,
    NETWORKS,
    PLAIN,
    SIMBA,
    at_dram,
    group,
    mac,
    machine_with,
    network,
)  # fmt: skip


def condition(workload, name, one, machine=GEMMINI):
    return conditions_in(Task(workload, machine), at_dram(workload, machine, one))[name]


def test_twins_in_the_same_place_share_a_condition():
    workload = network(
        mac("a", "K4 C4 P4 Q4"), mac("b", "K4 C4 P4 Q4", "a", epilogue=("relu",)), mac("c", "K4 C4 P4 Q4", "b")
    )
    singles = [condition(workload, name, Group((name,))) for name in "abc"]
    assert len(set(singles)) == 1
    first, second = group("a b", "P2"), group("b c", "P2")
    assert condition(workload, "a", first) == condition(workload, "b", second)
    assert condition(workload, "b", first) != condition(workload, "b", second)
    assert condition(workload, "a", first) != condition(workload, "a", group("a b", "P4"))


@pytest.mark.parametrize(
    "other",
    [
        mac("b", "K4 C4 P4 Q4", stride=(2, 2)),
        mac("b", "K4 C4 P4 Q4", repeat=2),
        mac("b", "K4 C4 P4 Q4", epilogue=("max_pool",), out=(2, 2)),
        mac("b", "K2 C4 P4 Q8"),
    ],
    ids=["stride", "repeat", "pooling", "sizes"],
)
def test_layers_that_differ_in_what_they_cost_are_no_twins(other):
    workload = network(mac("a", "K4 C4 P4 Q4"), other)
    assert condition(workload, "a", Group(("a",))) != condition(workload, "b", Group(("b",)))


def test_layers_that_differ_only_in_padding_share_mappings_but_no_plans():
    """What a layer costs under some tiles does not depend on where its padding is; how far its producer leads does."""

    def chain(pad):
        return mac(f"a{pad}", "K4 C2 P8 Q4"), mac(f"b{pad}", "K4 C4 P8 Q4 R3", f"a{pad}", pad=(pad, 0))

    workload = network(*chain(1), *chain(2))
    task = Task(workload, GEMMINI)
    assert task.alone("b1") == task.alone("b2")
    first, second = Members(task, ("a1", "b1")), Members(task, ("a2", "b2"))
    assert first.pattern != second.pattern
    assert first.tiling.ahead["a1"][0].lead == 1
    assert second.tiling.ahead["a2"][0].lead == 0


def test_a_condition_tells_what_stays_on_chip():
    block = NETWORKS["residual"]
    inside = condition(block, "a", group("a b s c"))
    assert (inside.copied, inside.drained, inside.grouped) == (True, False, True)
    half = condition(block, "a", group("a b"))
    assert (half.copied, half.drained) == (True, True)
    sink = condition(block, "b", group("a b"))
    assert (sink.copied, sink.drained, sink.fused_channels) == (False, True, 4)
    task = Task(block, GEMMINI)
    assert task.conditions(group("a b s"), ({}, {}, {}))[2].fused_addends == 2
    assert task.conditions(group("b s"), ({}, {}))[1].fused_addends == 1
    assert condition(NETWORKS["attention"], "qk", group("k qk")).fused_weight
    assert condition(NETWORKS["concatenation"], "c", group("b c")).fused_channels == 4
    alone = condition(block, "a", group("a"))
    assert (alone.copied, alone.drained, alone.grouped) == (False, True, False)


def test_a_softmax_under_the_channel_loop_needs_all_sums_of_the_second_layer():
    heads = NETWORKS["attention"]
    one = group("qk av", "G2 X2", "GX")
    assert condition(heads, "av", one).must_hold
    assert not condition(heads, "qk", one).must_hold
    assert not condition(heads, "av", group("qk av", "G2")).must_hold
    assert not condition(NETWORKS["feed_forward"], "down", group("up down", "X2", "X")).must_hold


def test_tiles_are_what_shared_loops_leave():
    def left(name, member, one):
        tile = condition(NETWORKS[name], member, one).tile
        return {dim: size for dim, size in zip(DIMS, tile, strict=True) if size > 1}

    assert left("conv_chain", "a", group("a")) == {"K": 4, "C": 2, "P": 8, "Q": 4, "R": 3, "S": 3}
    assert left("conv_chain", "a", group("a b", "P2 Q2")) == {"K": 4, "C": 2, "P": 4, "Q": 2, "R": 3, "S": 3}
    assert left("attention", "qk", group("qk av", "G2 N3 X2", "GNX")) == {"N": 2, "K": 2, "C": 4}
    assert left("attention", "av", group("qk av", "G2 N3 X2", "GNX")) == {"N": 2, "K": 4, "C": 2}
    assert left("feed_forward", "up", group("up down", "N3 X3", "NX")) == {"N": 3, "K": 3, "C": 4}, "cut ends"


@pytest.mark.parametrize("machine", [GEMMINI, FLAT, EYERISS, SIMBA], ids=lambda machine: machine.name)
def test_rows_say_of_fusion_what_the_schedule_says(machine):
    for name, one in GROUPS:
        task = Task(NETWORKS[name], machine, dtype=np.float64)
        schedule = at_dram(NETWORKS[name], machine, one)
        conditions = conditions_in(task, schedule)
        rows = task.rows(list(conditions.values()), [task.all_room] * len(conditions), (1.0, 1.0))
        expected = pack_schedule(schedule).fusion
        columns = [task.number[member] for member in conditions]
        for part, mine, told in zip(expected._fields, rows.fusion, expected, strict=True):
            mine, told = np.asarray(mine), np.asarray(told)[..., columns]
            if part == "shared_rank":  # the nesting of loops that do not run says nothing
                mine, told = (np.where(np.asarray(rows.fusion.shared) > 1, ranks, 0) for ranks in (mine, told))
            assert np.array_equal(mine, told), (name, one, part)
        layers = [task.workload.layers[i] for i in columns]
        assert np.asarray(rows.layers.size).T.tolist() == [list(layer.dims) for layer in layers]
        assert np.asarray(rows.layers.repeat).tolist() == [layer.repeat for layer in layers]


def test_memories_are_counted_below_the_first():
    task = Task(NETWORKS["residual"], SIMBA)
    assert task.fusing == 0
    assert task.homes == (0, 2), "inputs live in the global buffer, weights in the weight buffers"
    assert Task(NETWORKS["residual"], PLAIN).fusing is None
    assert task.all_room.running == tuple(memory.usable_bytes for memory in SIMBA.memories[1:])


def test_only_half_of_a_double_buffered_memory_is_room():
    task = Task(NETWORKS["residual"], machine_with(GEMMINI, {"scratchpad": {"double_buffered": True}}))
    assert task.all_room.running == (512, 64, 1)


# Moves.


def test_moves_shift_factors_between_all_useful_nodes():
    task = Task(network(mac("a", "K6 P4")), GEMMINI)
    table = np.stack(task.moves([task.alone("a")], pairs=False))[:, :, 0]
    shifts = {tuple(map(int, move[:4])) for move in table.T if move[1] >= 0}
    k, p = DIMS.index("K"), DIMS.index("P")
    expected = {(k, a, b, f) for f in (2, 3) for a in (0, 1, 2, 3) for b in (0, 1, 2, 3) if a != b}
    expected |= {(p, a, b, f) for f in (2, 4) for a in (0, 1, 5) for b in (0, 1, 5) if a != b}
    assert shifts == expected


def test_factors_grow_and_shrink_by_one_so_that_ends_may_be_cut():
    task = Task(network(mac("a", "N7")), GEMMINI)
    table = np.stack(task.moves([task.alone("a")], pairs=False))[:, :, 0]
    n = DIMS.index("N")
    for node in (1, 5):
        for more in (1, -1):
            assert ([n, -1, node, 1, more, -1, 0] == table.T).all(axis=1).any()


def test_one_move_goes_to_every_loop_order_and_one_changes_nothing():
    for pairs in (False, True):
        task = Task(network(mac("a", "K6 P4")), GEMMINI)
        table = np.stack(task.moves([task.alone("a")], pairs=pairs))[:, :, 0]
        orders = {(int(memory), int(order)) for memory, order in table[5:].T if memory >= 0}
        assert orders == {(0, order) for order in range(12)}
        assert (table.T == [0, -1, -1, 1, 0, -1, 0]).all(axis=1).any()


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_sums_have_no_moves(machine):
    task = Task(NETWORKS["residual"], machine)
    (s,) = task.conditions(Group(("s",)), ({},))
    moves = np.stack(task.moves([s], pairs=False))[:, :, 0]
    assert (moves.T == [0, -1, -1, 1, 0, -1, 0]).all()
