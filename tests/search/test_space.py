"""The map space: numbers and their factors, and what is lost by not searching some slots and loop orders."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.search.space import divisors, prime_factors, prime_powers, useful_slots
from fadiff.workload import DIMS
from search.exhaustive import SEARCHED_ORDERS, every_mapping, every_slot
from search.networks import alone, group, mac, machine, network, primes


@given(st.integers(1, 5000))
def test_prime_factors_are_primes_that_multiply_to_the_number(number):
    assert [prime for prime, exponent in prime_factors(number) for _ in range(exponent)] == primes(number)


@given(st.integers(1, 5000))
def test_divisors_are_all_divisors_in_order(number):
    assert divisors(number) == [d for d in range(1, number + 1) if number % d == 0]


@given(st.integers(1, 5000), st.sampled_from([1, 8, 64]))
def test_prime_powers_are_the_primes_of_a_number_and_their_small_powers(number, most):
    powers = prime_powers(number, most)
    assert len(set(powers)) == len(powers)
    assert all(number % power == 0 for power in powers)
    expected = {
        p**k for p in set(primes(number)) for k in range(1, 14) if number % p**k == 0 and (k == 1 or p**k <= most)
    }
    assert set(powers) == expected


LAYERS = {
    "gemm": (mac("a", "N4 K4 C4"), "NKC"),
    "long gemm": (mac("a", "N6 K2 C8"), "NKC"),
    "wide gemm": (mac("a", "N4 K8 C4"), "NKC"),
    "convolution": (mac("a", "K2 C2 P4 Q2 R3"), "KCPQR"),
    "2x2 convolution": (mac("a", "K2 C2 P3 Q2 R2 S2"), "KCPQRS"),
    "strided convolution": (mac("a", "K4 C2 P4 R3", stride=(2, 1)), "KCPR"),
    "depthwise": (mac("a", "G4 P4 Q2 R3"), "GPQR"),
}
MACHINES = {
    "balanced": machine(rows=2, cols=2, l1_bytes=32, l2_bytes=24),
    "least L1": machine(rows=2, cols=2, l1_bytes=8, l2_bytes=24),
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
    assert everything.cycles.size > useful.cycles.size
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
