"""Genomes: every one that is drawn is one of the encoding, and nothing is lost between their forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff.search.evolutionary.bayesian import Features
from fadiff.search.evolutionary.genome import SHARES, STRENGTHS
from fadiff.search.exact.plans import bonds
from fadiff.search.greedy import greedy
from fadiff.workload import DIMS, Input, Layer
from search.evolutionary.populations import encoding_of, random_rows, repair_of, schedules
from search.networks import EYERISS, GEMMINI, MACHINES, NETWORKS, PLAIN, SIMBA, add, mac, network

SEEDS = st.integers(0, 2**32 - 1)
ANY_NETWORK, ANY_MACHINE = st.sampled_from(sorted(NETWORKS)), st.sampled_from(sorted(MACHINES))


@given(ANY_NETWORK, ANY_MACHINE, SEEDS)
def test_factors_are_drawn_at_useful_nodes_only(name, machine, seed):
    code = encoding_of(NETWORKS[name], MACHINES[machine])
    genomes = code.genes(random_rows(code, seed, 4))
    for i, layer in enumerate(NETWORKS[name].layers):
        for d, dim in enumerate(DIMS):
            useless = set(range(1, len(MACHINES[machine].nodes))) - set(code.task.space.nodes[dim])
            factors = genomes.factors[:, i, :, d]
            assert (factors[:, [node - 1 for node in useless]] == 1).all()
            # Seven rows are drawn as seven, eleven as twelve: what the last tile has too many of is cut.
            assert (factors.prod(axis=1) <= (layer.dims[d] + 1 if layer.is_mac else 1)).all()
    assert ((genomes.order >= 0) & (genomes.order < code.orders)).all()
    assert ((genomes.wish >= 0) & (genomes.wish <= SHARES)).all()
    assert ((genomes.strength >= 0) & (genomes.strength < STRENGTHS)).all()


def test_every_node_order_and_strength_is_equally_likely():
    code = encoding_of(network(mac("a", "N2 K2 C2"), mac("b", "N2 K2 C2", "a")), GEMMINI)
    drawn = code.genes(random_rows(code, 0, 8000))
    for dim in "NKC":
        nodes = code.task.space.nodes[dim]
        placed = drawn.factors[:, 1, :, DIMS.index(dim)] == 2
        share = [1 - placed.any(axis=1).mean(), *placed[:, [node - 1 for node in nodes[1:]]].mean(axis=0)]
        assert share == pytest.approx([1 / len(nodes)] * len(nodes), abs=0.03)
    orders = code.orders[0]
    assert np.bincount(drawn.order[:, 0, 0], minlength=orders) == pytest.approx(8000 / orders, rel=0.2)
    assert np.bincount(drawn.strength[:, 0], minlength=STRENGTHS) == pytest.approx(1000, rel=0.2)


def test_edges_that_may_never_be_fused_have_no_strength():
    barred = network(
        mac("a", "N4 K4 C2"),
        Layer("b", "mac", mac("b", "N4 K4 C4").dims, (Input("a", fusible=False),)),
        mac("c", "N4 K4 C4", "b", repeat=3),
        mac("d", "N4 K4 C4", "c", repeat=3),
    )
    codes = [encoding_of(barred, machine) for machine in (GEMMINI, PLAIN)]
    strength, plain = (code.genes(random_rows(code, 0, 64)).strength for code in codes)
    assert (strength[:, :2] == 0).all()
    assert (strength[:, 2] > 0).any()
    assert not plain.any(), "nothing is fused on this machine"


@given(ANY_NETWORK, SEEDS)
def test_what_is_written_to_genes_is_written_to_their_rows(name, seed):
    code = encoding_of(NETWORKS[name], SIMBA)
    rows = random_rows(code, seed, 3)
    assert rows.shape == (3, code.owner.size)
    before = rows.copy()
    for genes in code.genes(rows):
        genes += 1
    assert (rows == before + 1).all(), "every gene is of one kind"


def test_a_gene_belongs_to_its_layer_and_an_edge_to_its_consumer():
    workload = NETWORKS["residual"]
    code = encoding_of(workload, GEMMINI)
    for i, layer in enumerate(workload.layers):
        mine = code.genes(np.where(code.owner == i, 1, 0)[None])
        for genes in mine[:3]:
            assert genes[0, i].all()
            assert not np.delete(genes[0], i, axis=0).any()
        assert [edge.target == layer.name for edge in workload.edges] == (mine.strength[0] == 1).tolist()


@pytest.mark.parametrize("machine", MACHINES)
def test_the_greedy_schedule_is_a_genome(machine):
    for workload in NETWORKS.values():
        schedule = greedy(workload, MACHINES[machine])
        repair = repair_of(workload, MACHINES[machine])
        genome = repair.encoding.of_schedule(schedule)
        population = repair(genome)
        assert (population.rows == genome).all()
        (again,) = schedules(repair, population)
        assert (again.groups, again.mappings) == (schedule.groups, schedule.mappings)


def test_a_cut_point_holds_as_strongly_as_the_strongest_edge_across_it():
    workload = NETWORKS["residual"]
    # a -> b, b -> s, a -> s, s -> c: the shortcut crosses the first two cut points.
    edges = {(edge.source, edge.target): i for i, edge in enumerate(workload.edges)}
    strength = np.zeros((1, 4), dtype=np.int64)
    for edge, value in {("a", "b"): 1, ("b", "s"): 7, ("a", "s"): 4, ("s", "c"): 3}.items():
        strength[0, edges[edge]] = value
    assert bonds(workload, strength).tolist() == [[4, 7, 3]]


# Points of the unit cube


@given(ANY_NETWORK, ANY_MACHINE, SEEDS)
def test_genomes_are_points_of_the_unit_cube(name, machine, seed):
    code = encoding_of(NETWORKS[name], MACHINES[machine])
    features = Features(code)
    rows = features.tied(random_rows(code, seed, 6))
    points = features(rows)
    assert ((points >= 0) & (points <= 1)).all()
    code.genes(rows).wish[:] = 0
    assert len({point.tobytes() for point in features(rows)}) == len({row.tobytes() for row in rows})


def test_layers_of_the_same_shape_share_their_numbers():
    same = [mac("a", "K4 C4 P4"), mac("b", "K4 C4 P4"), mac("c", "K4 C8 P4", "a", "b")]
    one = Features(encoding_of(network(*same[:1], mac("c", "K4 C4 P4 R3")), EYERISS))
    two = Features(encoding_of(network(*same[:2], mac("c", "K4 C4 P4 R3")), EYERISS))
    drawn = [random_rows(features.encoding, 0, 1) for features in (one, two)]
    assert one(drawn[0]).shape == two(drawn[1]).shape
    before, tied = (two.encoding.genes(rows).factors for rows in (drawn[1], two.tied(drawn[1])))
    assert (tied[:, 0] == tied[:, 1]).all()
    assert (tied[:, 2] == before[:, 2]).all()


def test_a_network_of_sums_alone_has_wishes_but_no_mappings():
    code = encoding_of(network(add("a", "K4 P4", None, None), add("b", "K4 P4", "a", None)), GEMMINI)
    genomes = code.genes(random_rows(code, 0, 8))
    assert (genomes.factors == 1).all()
    assert not genomes.order.any()
    assert genomes.wish.any()
