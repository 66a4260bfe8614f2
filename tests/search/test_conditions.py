"""What a mapping depends on besides its layer, and which slots are worth searching."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.schedule import Group
from fadiff.search.conditions import Problem, bucket, prime_powers, useful_slots
from fadiff.workload import DIMS
from search.exhaustive import SEARCHED_ORDERS, every_mapping, every_slot
from search.networks import MACHINE, NETWORKS, alone, group, mac, machine, network, primes


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


@given(st.integers(1, 5000), st.sampled_from([1, 8, 64]))
def test_prime_powers_are_the_primes_of_a_number_and_their_small_powers(number, most):
    powers = prime_powers(number, most)
    assert len(set(powers)) == len(powers)
    assert all(number % power == 0 for power in powers)
    expected = {
        p**k for p in set(primes(number)) for k in range(1, 14) if number % p**k == 0 and (k == 1 or p**k <= most)
    }
    assert set(powers) == expected


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


LAYERS = {
    "gemm": (mac("a", "N4 K4 C4"), "NKC"),
    "long gemm": (mac("a", "N6 K2 C8"), "NKC"),
    "convolution": (mac("a", "K2 C2 P4 Q2 R3"), "KCPQR"),
    "2x2 convolution": (mac("a", "K2 C2 P3 Q2 R2 S2"), "KCPQRS"),
    "strided convolution": (mac("a", "K4 C2 P4 R3", stride=(2, 1)), "KCPR"),
    "depthwise": (mac("a", "G4 P4 Q2 R3"), "GPQR"),
}
MACHINES = {
    "balanced": machine(rows=2, cols=2, l1_bytes=32, l2_bytes=24),
    "little L1": machine(rows=2, cols=2, l1_bytes=16, l2_bytes=64),
    "little L2": machine(rows=2, cols=2, l1_bytes=64, l2_bytes=16),
    "im2col": machine(rows=2, cols=2, l1_bytes=64, l2_bytes=48, spatial_rows=("C", "R", "S")),
    "one row, no overlap": machine(rows=1, cols=2, l1_bytes=32, l2_bytes=32, overlap="none"),
}
PRICES = {"energy": (1.0, 0.0), "latency": (0.0, 1.0), "both": (1.0, 10.0)}


def random_orders(loops, count):
    """Loop orders of L1, L2 and L3, and those that the search uses."""
    random = np.random.default_rng(0)
    idle = "".join(dim for dim in DIMS if dim not in loops)
    orders = [idle + "".join(order) for order in permutations(loops)]
    count = min(count, len(orders) ** 3)
    return [*SEARCHED_ORDERS, *(tuple(orders[i] for i in random.integers(len(orders), size=3)) for _ in range(count))]


@pytest.mark.parametrize("chip", MACHINES)
@pytest.mark.parametrize("layer", LAYERS)
def test_slots_that_are_not_searched_hold_no_better_mapping(layer, chip):
    """Whatever the loop orders: N, P, Q at L1 and C, R, S at L2 buy nothing that other slots do not."""
    (one, loops), hardware = LAYERS[layer], MACHINES[chip]
    orders = random_orders(loops, 100)
    everything = every_mapping(network(one), hardware, alone("a"), "a", every_slot, orders)
    useful = every_mapping(network(one), hardware, alone("a"), "a", useful_slots, orders)
    assert everything.cycles.size > 2 * useful.cycles.size
    for weights in PRICES.values():
        assert useful.best(weights) == pytest.approx(everything.best(weights), rel=1e-12)


PAIR = network(mac("a", "K2 C2 P4 Q2"), mac("b", "K2 C2 P4 Q2 R3", "a"))
PRODUCTS = network(mac("a", "G2 N4 K2 C2"), mac("b", "G2 N4 K2 C2", "a"))
GROUPS = {
    "tiled pair": (PAIR, group("a b", "P2 Q2")),
    "pair that shares G and N": (PRODUCTS, group("a b", "G2 N2")),
    "channel loop": (PRODUCTS, group("a b", "N2 X2", "NX")),
}


@pytest.mark.parametrize("chip", MACHINES)
@pytest.mark.parametrize("case", GROUPS)
def test_slots_that_are_not_searched_hold_no_better_mapping_inside_a_group(case, chip):
    workload, one = GROUPS[case]
    orders = random_orders("KCPQR" if workload is PAIR else "GNKC", 50)
    for name in one.layers:
        everything = every_mapping(workload, MACHINES[chip], [one], name, every_slot, orders)
        useful = every_mapping(workload, MACHINES[chip], [one], name, useful_slots, orders)
        for weights in PRICES.values():
            assert useful.best(weights) == pytest.approx(everything.best(weights), rel=1e-12)


@pytest.mark.parametrize("chip", MACHINES)
@pytest.mark.parametrize("layer", LAYERS)
def test_loop_orders_that_are_not_searched_gain_little(layer, chip):
    """Nothing of energy. An order that mixes the loops of two tensors saved 6% of latency where L2 holds 16 bytes."""
    (one, loops), hardware = LAYERS[layer], MACHINES[chip]
    searched = every_mapping(network(one), hardware, alone("a"), "a", useful_slots)
    mixed = every_mapping(network(one), hardware, alone("a"), "a", useful_slots, random_orders(loops, 400))
    assert searched.best(PRICES["energy"]) == pytest.approx(mixed.best(PRICES["energy"]), rel=1e-12)
    assert searched.best(PRICES["both"]) <= 1.001 * mixed.best(PRICES["both"])
    assert searched.best(PRICES["latency"]) <= 1.07 * mixed.best(PRICES["latency"])
