"""Genomes: every one that is drawn is one of the encoding, and nothing is lost between their forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.search.conditions import Problem
from fadiff.search.cube import Cube
from fadiff.search.genome import STRENGTHS, Encoding, join, take
from fadiff.search.greedy import greedy
from fadiff.search.space import SLIDING_ORDERS3, useful_slots
from fadiff.workload import DIMS, Input, Layer, Workload
from search.networks import MACHINE, NETWORKS, mac, network
from search.populations import everything_equal, random_genomes

SHARED = 5
SEEDS = st.integers(0, 2**32 - 1)


@given(st.sampled_from(sorted(NETWORKS)), SEEDS)
def test_factors_multiply_to_the_sizes_and_stand_in_useful_slots(name, seed):
    workload = NETWORKS[name]
    genomes = random_genomes(Encoding(workload, MACHINE), seed, 4)
    for i, layer in enumerate(workload.layers):
        for d, dim in enumerate(DIMS):
            factors = genomes.factors[:, :, d, i]
            if layer.is_mac:
                assert (factors.prod(axis=1) == layer.dims[d]).all()
                unused = set(range(5)) - set(useful_slots(dim, MACHINE))
            else:
                assert (factors.prod(axis=1) == (layer.dims[d] if dim in "NPQ" else 1)).all()
                unused = {0, 1, 2, 3}
            assert (factors[:, sorted(unused)] == 1).all()


def test_only_what_a_group_could_share_is_shared():
    code = Encoding(NETWORKS["feed_forward"], MACHINE)
    shareable = {(DIMS[d], i) for d, i in zip(*np.nonzero(code.slots[SHARED]), strict=True)}
    tiled = {(dim, i) for dim in "GNPQ" for i in (0, 1)}
    assert shareable == tiled | {("K", 0), ("C", 1)}, "the channel loop is a part of the first one's K, the second's C"
    assert code.x_producer.tolist() == [True, False]
    alone = Encoding(network(mac("a", "N4 K4 C2"), mac("b", "N4 K4 C2")), MACHINE)
    assert not alone.slots[SHARED].any()


def test_every_slot_order_and_strength_is_equally_likely():
    code = Encoding(network(mac("a", "N2 K2 C2"), mac("b", "N2 K2 C2", "a")), MACHINE)
    drawn = random_genomes(code, 0, 8000)
    for d, dim in enumerate(DIMS):
        slots = np.flatnonzero(code.slots[:, d, 1])
        if dim in "NKC":
            share = (drawn.factors[:, slots, d, 1] == 2).mean(axis=0)
            assert share == pytest.approx(np.full(slots.size, 1 / slots.size), abs=0.03)
    assert np.bincount(drawn.order[:, 0], minlength=len(SLIDING_ORDERS3)) == pytest.approx(8000 / 12, rel=0.2)
    assert np.bincount(drawn.strength[:, 0], minlength=STRENGTHS) == pytest.approx(1000, rel=0.2)


def test_edges_that_may_never_be_fused_have_no_strength():
    barred = Workload(
        "barred",
        (
            mac("a", "N4 K4 C2"),
            Layer("b", "mac", mac("b", "N4 K4 C4").dims, (Input("a", fusible=False),)),
            mac("c", "N4 K4 C4", "b", repeat=3),
            mac("d", "N4 K4 C4", "c", repeat=3),
        ),
    )
    drawn = random_genomes(Encoding(barred, MACHINE), 0, 64)
    assert (drawn.strength[:, :2] == 0).all()
    assert (drawn.strength[:, 2] > 0).any()


@given(st.sampled_from(sorted(NETWORKS)), SEEDS)
def test_rows_and_genomes_say_the_same(name, seed):
    code = Encoding(NETWORKS[name], MACHINE)
    genomes = random_genomes(code, seed, 3)
    rows = code.flat(genomes)
    assert rows.shape == (3, code.owner.size)
    assert everything_equal(code.shaped(rows), genomes)
    assert everything_equal(join([take(genomes, [2]), take(genomes, slice(0, 2))]), take(genomes, [2, 0, 1]))


def test_a_gene_belongs_to_its_layer_and_an_edge_to_its_consumer():
    workload = NETWORKS["residual"]
    code = Encoding(workload, MACHINE)
    for i, layer in enumerate(workload.layers):
        mine = code.shaped(np.where(code.owner == i, 1, 0)[None])
        others = [j for j in range(len(workload.layers)) if j != i]
        assert mine.factors[..., i].all()
        assert not mine.factors[..., others].any()
        assert (mine.order[0] == mine.x_outside[0]).all()
        assert [edge.target == layer.name for edge in workload.edges] == (mine.strength[0] == 1).tolist()


@given(st.sampled_from(sorted(NETWORKS)), SEEDS)
def test_every_point_of_the_cube_is_a_genome_and_back(name, seed):
    workload = NETWORKS[name]
    code = Encoding(workload, MACHINE)
    cube = Cube(code, Problem(workload, MACHINE).twin)
    points = np.random.default_rng(seed).random((4, cube.dims))
    points[0], points[1] = 0, 1
    genomes = cube.genomes(points)
    assert (genomes.factors.prod(axis=1) == code.size).all()
    assert (genomes.factors[:, ~code.slots] == 1).all()
    assert everything_equal(cube.genomes(cube.points(genomes)), genomes)


def test_each_number_of_a_point_picks_its_choices_with_equal_shares():
    code = Encoding(network(mac("a", "K12")), MACHINE)
    cube = Cube(code, [0])
    assert cube.dims == 3 + 4, "extents in L2, L1 and the array; four numbers for the order of the L3 loops"
    points = np.full((6000, cube.dims), 0.5)
    points[:, 0] = np.linspace(0, 1, 6000)
    held = cube.genomes(points).factors[:, :4, DIMS.index("K"), 0].prod(axis=1)
    assert sorted(set(held.tolist())) == [1, 2, 3, 4, 6, 12]
    assert np.unique(held, return_counts=True)[1] == pytest.approx(1000, abs=2)
    points[:, 4:7] = np.random.default_rng(0).random((6000, 3))
    points[:, 3], points[:, 6] = points[:, 6], points[:, 0]
    assert set(cube.genomes(points).order[:, 0].tolist()) == set(range(len(SLIDING_ORDERS3)))


def test_the_greedy_schedule_is_a_point_of_the_cube():
    for workload in NETWORKS.values():
        code = Encoding(workload, MACHINE)
        cube = Cube(code, Problem(workload, MACHINE).twin)
        genome = code.of_schedule(greedy(workload, MACHINE))
        assert everything_equal(cube.genomes(cube.points(genome)), genome)


def test_equal_layers_share_their_numbers():
    workload = network(mac("a", "K4 C4"), mac("b", "K4 C4", "a"), mac("c", "K4 C4", "b"), mac("d", "K8 C4", "c"))
    code = Encoding(workload, MACHINE)
    cube = Cube(code, Problem(workload, MACHINE).twin)
    genomes = cube.genomes(np.random.default_rng(0).random((50, cube.dims)))
    mapping = genomes.factors[:, :4]
    assert (mapping[..., 0] == mapping[..., 1]).all()
    assert (genomes.order[:, 0] == genomes.order[:, 2]).all()
    assert (mapping[..., 0] != mapping[..., 3]).any()
