"""What a mapping depends on besides its layer, and the moves that a climb tries."""

import numpy as np
import pytest

from fadiff.schedule import Group
from fadiff.search.conditions import Problem, bucket
from fadiff.workload import DIMS
from search.networks import MACHINE, NETWORKS, group, mac, network


def condition(workload, name, one, hardware=MACHINE):
    found = Problem(workload, hardware).conditions(one)
    return dict(zip(one.layers, found, strict=True))[name]


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


def test_a_condition_tells_what_stays_on_chip():
    block = NETWORKS["residual"]
    inside = condition(block, "a", group("a b s c"))
    assert (inside.copied, inside.drained, inside.grouped, inside.must_complete) == (True, False, True, True)
    half = condition(block, "a", group("a b"))
    assert (half.copied, half.drained) == (True, True)
    sink = condition(block, "b", group("a b"))
    assert (sink.copied, sink.drained, sink.fused_channels, sink.must_complete) == (False, True, 4, False)
    assert condition(block, "s", group("a b s")).fused_addends == 2
    assert condition(block, "s", group("b s")).fused_addends == 1
    assert condition(NETWORKS["attention"], "qk", group("k qk")).fused_weight
    assert condition(NETWORKS["concatenation"], "c", group("b c")).fused_channels == 4


def test_a_channel_loop_gives_its_layers_roles():
    heads = NETWORKS["attention"]
    one = group("qk av", "G2 X2", "GX")
    assert condition(heads, "qk", one).x_role == "K"
    assert condition(heads, "av", one).x_role == "C"
    assert condition(heads, "av", one).must_complete, "an online softmax needs its sums in L1"
    assert not condition(NETWORKS["feed_forward"], "down", group("up down", "X2", "X")).must_complete
    assert condition(heads, "qk", group("qk av", "G2")).x_role == ""


def test_private_sizes_are_what_shared_loops_leave():
    def left(name, member, one):
        problem = Problem(NETWORKS[name], MACHINE)
        sizes = problem.private_sizes(condition(NETWORKS[name], member, one))
        return {dim: size for dim, size in zip(DIMS, sizes, strict=True) if size > 1}

    assert left("conv_chain", "a", group("a")) == {"K": 4, "C": 2, "P": 8, "Q": 4, "R": 3, "S": 3}
    assert left("conv_chain", "a", group("a b", "P2 Q2")) == {"K": 4, "C": 2, "P": 4, "Q": 2, "R": 3, "S": 3}
    assert left("attention", "qk", group("qk av", "G2 N3 X2", "GNX")) == {"N": 2, "K": 2, "C": 4}
    assert left("attention", "av", group("qk av", "G2 N3 X2", "GNX")) == {"N": 2, "K": 4, "C": 2}


def test_moves_shift_every_factor_between_all_useful_slots():
    problem = Problem(network(mac("a", "K6 P4")), MACHINE)
    moves = np.stack(problem.moves(problem.conditions(Group(("a",)))))[:, :, 0]
    real = {tuple(map(int, move)) for move in moves.T if move[3] > 1}
    k, p = DIMS.index("K"), DIMS.index("P")
    expected = {(k, a, b, f) for f in (2, 3) for a in (0, 2, 3, 4) for b in (0, 2, 3, 4) if a != b}
    expected |= {(p, a, b, f) for f in (2, 4) for a in (1, 3, 4) for b in (1, 3, 4) if a != b}
    assert real == expected


def test_a_bucket_is_the_smallest_size_that_holds_a_count():
    assert [bucket(count, (8, 32)) for count in (1, 8, 9, 32, 33)] == [8, 8, 32, 32, 33]
