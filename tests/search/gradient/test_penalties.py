from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from fadiff.cost.arrays import MappingArrays, fuse, pack_hardware, pack_layers, pack_schedule
from fadiff.cost.capacity import kept_and_passing, needs
from fadiff.cost.model import layer_costs
from fadiff.hardware import Hardware
from fadiff.schedule import Group, Mapping, Schedule, Trips
from fadiff.search.gradient import DescentOptions, Problem, pack_problem
from fadiff.search.gradient.candidates import SHARED, SHARED_DIMS, factorization_choices
from fadiff.search.gradient.penalties import (
    EdgeTrips,
    align_penalty,
    edge_trips,
    hinge,
    incompleteness,
    l1_bytes,
    mem_penalty,
    soft_l2_bytes,
    spatial_penalty,
    valid_penalty,
    whole_penalty,
)
from fadiff.search.gradient.relaxation import Params, Relaxed
from fadiff.workload import Dims, Input, Layer, Workload, load_model
from search.gradient.networks import ROOMY, pair, residual

OPTIONS = DescentOptions(restarts=1, hinge="linear")


def random_schedule(workload: Workload, hardware: Hardware, rng: np.random.Generator) -> tuple[Schedule, np.ndarray]:
    """Groups that are intervals of the topological order, and mappings that fit their shared trips.

    The factors come back as ``[6, 8, layers]`` too.
    """
    names = workload.topological
    cuts = rng.random(len(names)) < 0.5
    number = np.cumsum(cuts)
    trips = {i: (1, 1, int(rng.choice([1, 2, 4])), int(rng.choice([1, 1, 2]))) for i in set(number)}
    factors = np.ones((6, 8, len(names)), dtype=np.int64)
    for choice in factorization_choices(workload, hardware, OPTIONS):
        wanted = trips[number[choice.layer]][SHARED_DIMS.index(choice.dim)] if choice.dim in SHARED_DIMS else 1
        shared = choice.factors[:, choice.slots.index(SHARED)] if SHARED in choice.slots else 1
        fitting = choice.factors[np.broadcast_to(shared == wanted, len(choice.factors))]
        factors[list(choice.slots), choice.dim, choice.layer] = fitting[rng.integers(len(fitting))]
    mappings = {}
    for i, name in enumerate(names):
        if workload[name].is_mac:
            spatial, l0, l1, l2, l3, shared = (Dims(*map(int, row)) for row in factors[:, :, i])
            whole3 = Dims(*(a * b for a, b in zip(l3, shared, strict=True)))
            mappings[name] = Mapping(spatial, l0, l1, l2, whole3, order2="GKCRSNPQ", order3="GKCRSNPQ")
    groups = tuple(
        Group(tuple(n for n, g in zip(names, number, strict=True) if g == i), Trips(*trips[i])) for i in sorted(trips)
    )
    return Schedule(workload, hardware, groups, mappings), factors


def relaxed_of(problem: Problem, schedule: Schedule, factors: np.ndarray) -> Relaxed:
    layers, edges = problem.arrays.layers.size.shape[-1], problem.arrays.ends.source.shape[0]
    padded = np.ones((6, 8, 1, layers), dtype=np.float32)
    padded[:, :, 0, : factors.shape[-1]] = factors
    sigma = np.zeros((1, edges), dtype=np.float32)
    for i, edge in enumerate(schedule.workload.edges):
        sigma[0, i] = schedule.is_fused(edge)
    return Relaxed(jnp.asarray(padded), jnp.log(padded[4]), jnp.asarray(sigma))


@pytest.mark.parametrize("seed", range(12))
def test_on_decided_groups_the_soft_needs_are_the_exact_ones(seed: int):
    rng = np.random.default_rng(seed)
    chain = Workload("chain", tuple(
        Layer(f"c{i}", "mac", Dims(K=8, C=8 if i else 4, P=8, Q=8, R=3, S=3), (Input(f"c{i - 1}" if i else None),))
        for i in range(5)
    ))  # fmt: skip
    workload = residual() if seed % 2 else chain
    schedule, factors = random_schedule(workload, ROOMY, rng)
    packed = pack_schedule(schedule)
    costs = layer_costs(pack_layers(workload), packed.mapping, packed.fusion, pack_hardware(ROOMY))
    exact = needs(
        pack_layers(workload), packed.mapping, packed.fusion, costs.tiles, packed.placement, pack_hardware(ROOMY)
    )

    problem = pack_problem(workload, ROOMY, OPTIONS)
    arrays, relaxed = problem.arrays, relaxed_of(problem, schedule, factors)
    ones = jnp.ones((2, 1, 1))
    fusion = fuse(arrays.edges, relaxed.sigma, relaxed.trips, jnp.arange(5)[:, None, None], ones)
    temporal = jnp.concatenate([relaxed.factors[1:4], relaxed.factors[4:5] * relaxed.factors[5:]])
    rank = jnp.asarray(np.asarray(packed.mapping.rank)[:, :, None, :1])
    soft = layer_costs(arrays.layers, MappingArrays(relaxed.factors[0], temporal, rank), fusion, arrays.hardware)
    kept, passing = kept_and_passing(arrays.layers, fusion, soft.tiles)
    l2 = soft_l2_bytes(kept, passing, relaxed, fusion, arrays)
    place = problem.position
    assert np.allclose(np.asarray(l2)[0, place], exact.l2_bytes, rtol=1e-4, atol=0.1)
    assert np.allclose(np.asarray(l1_bytes(relaxed, soft.tiles, arrays))[0, place], exact.l1_bytes, rtol=1e-5)


def test_half_fused_needs_lie_between():
    problem = pack_problem(pair(), ROOMY, OPTIONS)
    arrays = problem.arrays
    ones = jnp.ones((6, 8, 1, arrays.layers.size.shape[-1]))
    kept = jnp.zeros((1, ones.shape[-1])).at[0, :2].set(jnp.asarray([100.0, 30.0]))

    def l2(sigma: float) -> float:
        relaxed = Relaxed(ones, jnp.log(ones[4]), jnp.zeros((1, arrays.ends.source.shape[0])).at[0, 0].set(sigma))
        fusion = fuse(arrays.edges, relaxed.sigma, relaxed.trips, jnp.arange(5)[:, None, None], jnp.ones((2, 1, 1)))
        return float(soft_l2_bytes(kept, 0 * kept, relaxed, fusion, arrays)[0, 1])

    assert l2(0.0) == 30
    assert l2(1.0) == pytest.approx(130 + 8 * 8 * 8, rel=1e-4)
    assert l2(0.0) < l2(0.5) < l2(1.0)


def test_capacity_is_penalized_exactly_where_it_is_exceeded():
    arrays = pack_problem(pair(), ROOMY, OPTIONS).arrays
    full2, full1 = jnp.full((1, 16), ROOMY.l2_bytes * 1.0), jnp.full((1, 16), ROOMY.l1_bytes * 1.0)
    assert float(mem_penalty(full2, full1, arrays, OPTIONS)[0]) == 0
    assert float(mem_penalty(full2.at[0, 3].mul(2), full1, arrays, OPTIONS)[0]) == pytest.approx(np.log(2), rel=1e-4)
    squared = replace(OPTIONS, hinge="squared")
    assert float(mem_penalty(full2, full1.at[0, 0].mul(2), arrays, squared)[0]) == pytest.approx(
        np.log(2) ** 2, rel=1e-4
    )


def test_pe_over_use_is_penalized_by_axis():
    arrays = pack_problem(pair(), ROOMY, OPTIONS).arrays
    ones = jnp.ones((6, 8, 1, 16))

    def penalty(k: int, g: int, c: int) -> float:
        factors = ones.at[0, 2, 0, 0].set(k).at[0, 0, 0, 0].set(g).at[0, 3, 0, 0].set(c)
        relaxed = Relaxed(factors, jnp.log(ones[4]), jnp.zeros((1, 16)))
        return float(spatial_penalty(relaxed, arrays, OPTIONS)[0])

    assert penalty(4, 1, 4) == penalty(2, 2, 4) == 0
    assert penalty(4, 2, 4) == pytest.approx(np.log(2), rel=1e-4)
    assert penalty(4, 1, 8) == pytest.approx(np.log(2), rel=1e-4)


def test_factors_below_one_are_penalized():
    ones = jnp.ones((6, 8, 1, 16))
    relaxed = Relaxed(ones, jnp.log(ones[4]), jnp.zeros((1, 16)))
    inside = Params(jnp.asarray([[0.0], [2.0]]), jnp.zeros((16, 1)))
    below = Params(jnp.asarray([[-0.5], [2.0]]), jnp.zeros((16, 1)))
    assert float(valid_penalty(relaxed, inside, OPTIONS)[0]) == 0
    assert float(valid_penalty(relaxed, below, OPTIONS)[0]) == pytest.approx(0.25)
    left = relaxed._replace(log_rest=relaxed.log_rest.at[2, 0, 0].set(-np.log(2)))
    assert float(valid_penalty(left, inside, OPTIONS)[0]) == pytest.approx(np.log(2), rel=1e-4)


def test_alignment_counts_only_where_an_edge_is_fused():
    trips = EdgeTrips(
        jnp.log(jnp.asarray([1.0, 1, 4, 1])[:, None, None]), jnp.log(jnp.asarray([1.0, 1, 2, 1])[:, None, None])
    )
    assert float(align_penalty(jnp.asarray([[0.0]]), trips)[0]) == 0
    assert float(align_penalty(jnp.asarray([[1.0]]), trips)[0]) == pytest.approx(np.log(2) ** 2)
    assert float(align_penalty(jnp.asarray([[1.0]]), EdgeTrips(trips.source, trips.source))[0]) == 0


def test_tokens_cannot_be_shared_across_a_transposed_weight():
    workload = load_model("gpt3-6.7b")
    arrays = pack_problem(workload, ROOMY, OPTIONS).arrays
    edge = [(e.source, e.target) for e in workload.edges].index(("k_proj", "qk"))
    fused = jnp.zeros((1, arrays.ends.source.shape[0])).at[0, edge].set(1.0)
    ones = jnp.ones((6, 8, 1, 16))
    shared = ones.at[SHARED, 1].set(4.0)
    for factors, broken in ((ones, False), (shared, True)):
        trips = edge_trips(Relaxed(factors, factors[4], fused), arrays)
        assert (float(whole_penalty(fused, trips, arrays)[0]) > 0) == broken


def test_only_fused_producers_must_finish_their_sums():
    arrays = pack_problem(pair(), ROOMY, OPTIONS).arrays
    spills = jnp.zeros((1, 16)).at[0, 0].set(512.0)
    for sigma, broken in ((0.0, False), (1.0, True)):
        fused = jnp.zeros((1, 16)).at[0, 0].set(sigma)
        trips = jnp.ones((5, 1, 16))
        fusion = fuse(arrays.edges, fused, trips, jnp.arange(5)[:, None, None], jnp.ones((2, 1, 1)))
        assert (float(jnp.sum(incompleteness(arrays.layers, fusion, spills))) > 0) == broken
        assert float(jnp.sum(incompleteness(arrays.layers, fusion, 0 * spills))) == 0


def test_a_hinge_has_no_pull_at_its_border():
    import jax

    assert float(jax.grad(lambda x: hinge(x, OPTIONS))(0.0)) == 0
    assert float(jax.grad(lambda x: hinge(x, OPTIONS))(0.1)) == 1
    squared = replace(OPTIONS, hinge="squared")
    assert float(jax.grad(lambda x: hinge(x, squared))(0.0)) == 0
    assert float(jax.grad(lambda x: hinge(x, squared))(0.1)) == pytest.approx(0.2)
