"""The map space: where factors may pay and which orders differ, and that nothing better is left out."""

import doctest
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.hardware import Axis, Bits, Machine, builtin_machines, load_machine
from fadiff.schedule import Group, Schedule, Trips, rules
from fadiff.schedule.arrays import pack_schedule, unpack_mapping
from fadiff.search import space
from fadiff.search.space import (
    divisors,
    map_space,
    prime_factors,
    prime_powers,
    rank_table,
    settle,
    trip_counts,
    useful_orders,
)
from fadiff.workload import DIMS
from search.exhaustive import all_nodes, every_mapping
from search.networks import (
    EYERISS,
    FLAT,
    GEMMINI,
    MACHINES,
    OUTPUT_STATIONARY,
    SIMBA,
    TPU,
    at_dram,
    group,
    mac,
    machine_with,
    memory,
    network,
)  # fmt: skip

# Numbers.


def primes(number: int) -> list[int]:
    """Prime factors, repeated as often as they divide."""
    found = [p for p in range(2, number + 1) if number % p == 0]
    return [] if number == 1 else [found[0], *primes(number // found[0])]


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
    exponents = range(1, 14)
    expected = {p**k for p in set(primes(number)) for k in exponents if number % p**k == 0 and (k == 1 or p**k <= most)}
    assert set(powers) == expected


@given(st.integers(1, 3000))
def test_trip_counts_are_the_fewest_trips_of_every_size_of_a_tile(size):
    fewest = {}
    for trips in range(size, 0, -1):
        fewest[-(-size // trips)] = trips
    assert trip_counts(size) == sorted(fewest.values())


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(space).failed == 0


# Factors made legal.


@st.composite
def unsettled(draw):
    """A layer alone, or with loops of its own group, and any whole factors at all nodes of some machine."""
    machine = draw(st.sampled_from(list(MACHINES.values())))
    sizes = draw(st.lists(st.integers(1, 40), min_size=8, max_size=8))
    trips = Trips(*(draw(st.sampled_from(trip_counts(sizes[DIMS.index(loop)]))) for loop in "GNPQ"))
    one = Group(("a",), trips)
    workload = network(mac("a", " ".join(f"{dim}{size}" for dim, size in zip(DIMS, sizes, strict=True))))
    numbers = draw(st.lists(st.integers(1, 9), min_size=8 * len(machine.nodes), max_size=8 * len(machine.nodes)))
    factors = np.array(numbers, dtype=np.float64).reshape(len(machine.nodes), 8)
    takes = [[dim in dims for dim in DIMS] for dims in machine.structure.dims]
    return workload, machine, one, np.where(takes, factors, 1)


@given(unsettled())
def test_any_whole_factors_are_settled_to_legal_ones(case):
    workload, machine, one, factors = case
    fusion = pack_schedule(at_dram(workload, machine, one)).fusion
    settled = settle(factors[..., None], np.asarray(fusion.tile))
    mapping = unpack_mapping(settled[..., 0], np.asarray(fusion.shared)[:, 0].astype(int), ["".join(DIMS)] * 9)
    mapping = replace(mapping, orders=mapping.orders[: len(machine.memories)])
    examined = rules.Examined(Schedule(workload, machine, (one,), {"a": mapping}))
    assert [*rules.factors(examined), *rules.aligned(examined)] == []
    assert (settled[1:, :, 0] <= factors[1:]).all()
    assert np.array_equal(settle(settled, np.asarray(fusion.tile)), settled)


# The space of a machine.


def named(machine, nodes):
    return " ".join(machine.nodes[node].name for node in nodes)


USEFUL = {
    GEMMINI: {
        "G": "DRAM scratchpad cols accumulator", "K": "DRAM scratchpad cols accumulator",
        "N": "DRAM scratchpad registers", "P": "DRAM scratchpad registers", "Q": "DRAM scratchpad registers",
        "C": "DRAM accumulator rows", "R": "DRAM accumulator", "S": "DRAM accumulator",
    },
    TPU: {
        "G": "DRAM glb k oreg wreg", "K": "DRAM glb k oreg wreg",
        "N": "DRAM glb wreg", "P": "DRAM glb wreg", "Q": "DRAM glb wreg",
        "C": "DRAM oreg c wreg", "R": "DRAM oreg wreg", "S": "DRAM oreg wreg",
    },
    EYERISS: {
        "G": "DRAM glb ispad wspad pspad", "K": "DRAM glb cols rows ispad wspad pspad",
        "N": "DRAM glb ispad wspad pspad", "P": "DRAM glb ispad wspad pspad", "Q": "DRAM glb cols ispad wspad pspad",
        "C": "DRAM glb rows ispad pspad", "R": "DRAM glb ispad pspad", "S": "DRAM glb rows ispad pspad",
    },
    SIMBA: {
        "G": "DRAM glb pes ibuf wbuf abuf lanes", "K": "DRAM glb pes ibuf wbuf abuf lanes",
        "N": "DRAM glb ibuf wbuf wreg", "P": "DRAM glb pes ibuf wbuf wreg", "Q": "DRAM glb pes ibuf wbuf wreg",
        "C": "DRAM glb pes ibuf abuf vector", "R": "DRAM glb ibuf abuf", "S": "DRAM glb ibuf abuf",
    },
    OUTPUT_STATIONARY: {
        "G": "DRAM glb y ospad wreg ireg", "K": "DRAM glb y ospad wreg ireg",
        "N": "DRAM glb ospad wreg ireg", "P": "DRAM glb ospad wreg ireg", "Q": "DRAM glb ospad wreg ireg",
        "C": "DRAM glb x ospad wreg oreg", "R": "DRAM glb ospad wreg oreg", "S": "DRAM glb ospad wreg oreg",
    },
}  # fmt: skip
"""A loop runs at a memory where what is kept next further in depends on it, so that it fills a tile there; at the last
memory where there is room, or where it reuses what is kept. E.g. no weight of a Gemmini depends on N: it loops at the
registers, over the scratchpad's inputs, and not at the accumulator between. Next are all memories that keep different
tensors and stand side by side."""


@pytest.mark.parametrize("machine", USEFUL, ids=lambda machine: machine.name)
def test_factors_are_sought_where_they_fill_a_tile_or_reuse_one(machine):
    nodes = map_space(machine).nodes
    assert {dim: named(machine, nodes[dim]) for dim in DIMS} == USEFUL[machine]


def test_a_gemmini_has_twelve_loop_orders_at_dram_and_one_elsewhere():
    dram, *others = map_space(GEMMINI).orders
    assert len(dram) == 12
    assert [len(orders) for orders in others] == [1, 1, 1]
    # Three classes of loops in all six orders, each with its window sliding along columns or along rows.
    assert {order.replace("QP", "PQ") for order in dram} == {
        "GKNPQCRS", "GKCRSNPQ", "GNPQKCRS", "GNPQCRSK", "GCRSKNPQ", "GCRSNPQK",
    }  # fmt: skip
    assert sum("QP" in order for order in dram) == 6


@pytest.mark.parametrize("name", builtin_machines())
def test_every_machine_has_a_space(name):
    machine = load_machine(name)
    found = map_space(machine)
    for dim, nodes in found.nodes.items():
        assert nodes[0] == 0
        assert list(nodes) == sorted(set(nodes))
        assert [node for node in nodes if node in machine.structure.axes] == [
            i for i, node in enumerate(machine.nodes) if isinstance(node, Axis) and dim in node.dims and node.size > 1
        ]
    assert len(found.orders) == len(machine.memories)
    assert all(sorted(order) == sorted(DIMS) for orders in found.orders for order in orders)
    assert len(found.orders[-1]) == 1, "nothing is kept further in than the last memory"


def test_of_orders_that_decide_the_same_one_remains():
    assert useful_orders("WO", "GKNPQ") == ("GKNPQCRS",)
    assert len(useful_orders("W", "".join(DIMS))) == 1
    assert len(useful_orders("WIO", "".join(DIMS))) == 12
    assert len(useful_orders("WIO", "NKC")) == 6, "no window slides where there are no rows and columns"


def test_a_rank_is_a_dims_place_in_an_order():
    orders = ("GKNPQCRS", "GCRSNQPK")
    table = rank_table(orders)
    for i, order in enumerate(orders):
        assert "".join(sorted(DIMS, key=lambda dim, i=i: table[DIMS.index(dim), i])) == order


# Nothing better is left out.

PRICES = {"energy": (1.0, 0.0), "latency": (0.0, 1.0), "both": (1.0, 10.0)}


def tightened(machine: Machine, seed: int) -> Machine:
    """The machine with memories of a few values, and rates, energies, lanes and widths of values drawn at random."""
    random = Random(seed)
    widths = [random.choice(choice) for choice in ((4, 8), (4, 8, 16), (4, 8), (8, 8, 16), (8, 16))]
    bits = {"W": widths[0], "I": widths[1], "O": widths[3]}
    nodes = []
    for i, node in enumerate(machine.nodes):
        if isinstance(node, Axis):
            nodes.append(replace(node, size=random.choice([2, 2, 3])))
            continue
        pj = random.choice([0.1, 0.5, 1, 2, 5] if i else [5, 20, 100])
        rate = random.choice([None, None, 1.0, 2.0, 8.0] if i else [1.0, 2.0, 8.0])
        least = -(-sum(bits[tensor] for tensor in node.keeps) // 8)
        size = least + random.choice([random.randint(0, 6), random.randint(2, 16), random.randint(8, 40)])
        size = size if i else None
        nodes.append(replace(node, read_pj=pj, write_pj=pj, words_per_cycle=rate, bytes=size))
    overlap = random.choice(["full", "none"])
    return replace(machine, nodes=tuple(nodes), bits=Bits(*widths), overlap=overlap)


def random_machine(seed: int) -> Machine:
    """Two to four memories that keep anything, and up to two axes that take anything, in any order."""
    random = Random(seed)
    inner = [memory(f"m{i}", "".join(random.sample("WIO", random.choice([1, 1, 2, 3]))), 1) for i in (1, 2, 3)]
    inner = inner[: random.randint(1, 3)]
    if not any("O" in m.keeps for m in inner):
        inner.append(memory("sums", "O", 1))
    axes = [Axis(f"x{i}", 2, "".join(random.sample(DIMS, random.randint(1, 4)))) for i in range(random.randint(0, 2))]
    nodes = [*inner, *axes]
    random.shuffle(nodes)
    return tightened(Machine("random", (memory("m0", "WIO"), *nodes), 0.5), seed)


def is_sufficient(workload, machine, one, name) -> int:
    """Compares the best of all mappings with the best of those sought; returns how many there are."""
    found = map_space(machine)
    every = every_mapping(workload, machine, one, name, all_nodes(machine))
    sought = every_mapping(workload, machine, one, name, found.nodes, found.orders)
    for weights in PRICES.values():
        assert sought.best(weights) == pytest.approx(every.best(weights), rel=1e-9)
    return every.cycles.size


SMALL = {
    "product": mac("a", "N3 K4 C4"),
    "convolution": mac("a", "K2 C2 P4 R3"),
    "strided": mac("a", "K3 C2 P3 R2", stride=(2, 1)),
    "depthwise": mac("a", "G3 P4 R3"),
    "image": mac("a", "K2 P3 Q3 S2"),
    "products": mac("a", "G2 N3 K2 C3"),
}
TINY = {
    "product": mac("a", "N2 K3 C2"),
    "convolution": mac("a", "K2 P2 R3"),
    "odd": mac("a", "C3 P3 S2"),
}
IM2COL = machine_with(GEMMINI, {"rows": {"dims": "CRS"}})


@pytest.mark.parametrize("machine", [GEMMINI, FLAT, TPU, MACHINES["plain"], IM2COL], ids=lambda m: m.name)
def test_no_mapping_is_better_than_those_sought_on_shallow_machines(machine):
    """Of all whole factors at all nodes and all loop orders, for energy, latency, and a price of both."""
    counts = [
        is_sufficient(network(layer), tightened(machine, 10 * i + seed), group("a"), "a")
        for i, layer in enumerate(SMALL.values())
        for seed in range(2)
    ]
    assert sum(counts) > 2000


@pytest.mark.parametrize("machine", [EYERISS, SIMBA, OUTPUT_STATIONARY], ids=lambda m: m.name)
def test_no_mapping_is_better_than_those_sought_on_deep_machines(machine):
    counts = [
        is_sufficient(network(layer), tightened(machine, 10 * i + seed), group("a"), "a")
        for i, layer in enumerate(TINY.values())
        for seed in range(2)
    ]
    assert sum(counts) > 2000


@pytest.mark.parametrize("seed", range(12))
def test_no_mapping_is_better_than_those_sought_on_random_machines(seed):
    is_sufficient(network(list(SMALL.values())[seed % 6]), random_machine(seed), group("a"), "a")


PAIR = network(mac("a", "K2 C2 P4"), mac("b", "K2 C2 P4 R3", "a"))
PRODUCTS = network(mac("a", "N4 K3 C2"), mac("b", "N4 K2 C3", "a"))
SHARING = {
    "nothing": (PAIR, group("a b")),
    "rows": (PAIR, group("a b", "P2")),
    "cut rows": (PAIR, group("a b", "P3")),
    "tokens": (PRODUCTS, group("a b", "N2")),
    "channels inside": (PRODUCTS, group("a b", "N2 X2", "NX")),
    "channels outside": (PRODUCTS, group("a b", "N2 X3", "XN")),
}


@pytest.mark.parametrize("machine", [GEMMINI, FLAT, TPU], ids=lambda machine: machine.name)
@pytest.mark.parametrize("case", SHARING)
def test_no_mapping_is_better_than_those_sought_inside_a_group(case, machine):
    workload, one = SHARING[case]
    for seed in range(2):
        for name in one.layers:
            is_sufficient(workload, tightened(machine, seed), one, name)


def test_loops_at_a_memory_are_sought_for_all_that_stand_side_by_side_after_it():
    """The best keeps all inputs on chip, and at their buffer has N outside C, which weights, next, don't need."""
    nodes = (
        memory("m0", "WIO", pj=100, words_per_cycle=1.0),
        memory("weights", "W", 4),
        memory("activations", "IO", 12),
        memory("weight", "W", 1, pj=0.1),
        memory("input", "I", 1, pj=0.1),
        memory("sums", "O", 4, pj=0.1),
    )
    machine, workload = Machine("three in a row", nodes, 0.5, Bits(8, 8, 8, 8, 16)), network(mac("a", "N2 K2 C4"))
    assert is_sufficient(workload, machine, group("a"), "a") > 100


def test_a_mapping_that_is_not_sought_has_gained_a_thousandth():
    """The one miss among hundreds of random machines: K outside R where only inputs, not of K, are kept next."""
    machine = Machine(
        "odd one",
        (
            memory("m0", "WIO", pj=100, words_per_cycle=1.0),
            memory("m2", "OWI", 13, pj=5, words_per_cycle=1.0),
            memory("m3", "W", 30, pj=2, words_per_cycle=8.0),
            memory("m4", "I", 2, pj=0.5, words_per_cycle=8.0),
            memory("m1", "IWO", 5, pj=0.1, words_per_cycle=1.0),
            Axis("x0", 2, "CQ"),
        ),
        0.5,
        Bits(8, 8, 8, 8, 16),
    )
    workload, found = network(mac("a", "K2 P3 Q3 R2")), map_space(machine)
    every = every_mapping(workload, machine, group("a"), "a", all_nodes(machine))
    sought = every_mapping(workload, machine, group("a"), "a", found.nodes, found.orders)
    ratio = (sought.energy_pj * sought.cycles).min() / (every.energy_pj * every.cycles).min()
    assert 1.001 < ratio < 1.0013
