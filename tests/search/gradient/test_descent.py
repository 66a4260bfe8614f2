"""The descent end to end, on networks small enough to know the answer."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod

import jax
import numpy as np
import pytest

from fadiff.cost.arrays import MappingArrays, fuse, pack_edges, pack_hardware, pack_layers
from fadiff.cost.model import layer_costs
from fadiff.hardware import Hardware
from fadiff.search.gradient import DescentOptions, Proposals, State, init, pack_problem, read_out, step
from fadiff.search.gradient.descent import _descend
from fadiff.search.gradient.smooth import RANK
from fadiff.workload import Input, Workload
from search.gradient.networks import ROOMY, TIGHT, pair, single

OPTIONS = DescentOptions(restarts=32, steps=200)


def descend(workload: Workload, hardware: Hardware, options: DescentOptions, seed: int = 0) -> tuple[State, Proposals]:
    problem = pack_problem(workload, hardware, options)
    state = step(problem, options, init(problem, options, seed), options.steps)
    return state, read_out(problem, options, state)


def leaves_are_finite(state: State) -> bool:
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state.params, state.adam)))


def unfused(workload: Workload, hardware: Hardware, factors: np.ndarray) -> np.ndarray:
    """Energy times cycles ``[many]`` of a single layer in its best order, infinite where it does not fit."""
    ones = np.ones((5, 1, 1, 1))
    fusion = fuse(pack_edges(workload), np.zeros((1, 1, 0)), ones, ones, ones[:2])
    wide = factors.transpose(1, 2, 0)[:, :, None, :, None].astype(float)
    costs = layer_costs(pack_layers(workload), MappingArrays(wide[0], wide[1:], RANK), fusion, pack_hardware(hardware))
    columns = factors[:, 0, 2] * factors[:, 0, 0]
    fits = (np.asarray(costs.tiles.weight2 + costs.tiles.input2)[0, :, 0] <= hardware.l2_bytes) & (
        4 * np.asarray(costs.tiles.output1)[0, :, 0] * hardware.cols / columns <= hardware.l1_bytes
    )
    price = np.asarray(costs.energy.total * costs.cycles.total).min(axis=0)[:, 0]
    return np.where(fits, price, np.inf)


def every_mapping(workload: Workload, hardware: Hardware) -> np.ndarray:
    """All factorizations ``[many, 5, 8]`` of a layer that the array and the registers take."""
    slots = {0: (0, 2, 3, 4), 2: (0, 2, 3, 4), 3: (0, 2, 3, 4), 6: (2, 3, 4), 7: (2, 3, 4)}
    per_dim = []
    for d, size in enumerate(workload.layers[0].dims):
        divisors = [n for n in range(1, size + 1) if size % n == 0]
        mine = slots.get(d, (1, 2, 3, 4))
        ways = [way for way in product(divisors, repeat=len(mine)) if prod(way) == size]
        rows = np.ones((len(ways), 5), dtype=np.int64)
        rows[:, mine] = ways
        per_dim.append(rows[rows[:, 0] <= hardware.rows])
    grids = np.meshgrid(*(np.arange(len(rows)) for rows in per_dim), indexing="ij")
    return np.stack([rows[grid.ravel()] for rows, grid in zip(per_dim, grids, strict=True)], axis=2)


def test_the_best_mapping_of_a_small_layer_is_the_exhaustive_optimum():
    workload, tight = single(), replace(TIGHT, l1_bytes=256, l2_bytes=256)
    _, found = descend(workload, tight, replace(OPTIONS, steps=300))
    assert (found.factors.prod(axis=1)[:, :, 0] == workload.layers[0].dims).all()
    best = unfused(workload, tight, every_mapping(workload, tight)).min()
    ours = unfused(workload, tight, found.factors[..., 0]).min()
    assert ours == pytest.approx(best, rel=1e-9)


def test_the_descent_lowers_the_loss_and_everything_stays_finite():
    problem = pack_problem(pair(), ROOMY, OPTIONS)
    start = init(problem, OPTIONS, seed=3)
    before, state = read_out(problem, OPTIONS, start), start
    for _ in range(4):
        state = step(problem, OPTIONS, state, 50)
        assert leaves_are_finite(state)
    after = read_out(problem, OPTIONS, state)
    weight = OPTIONS.lambda_end
    assert np.median(after.log_edp + weight * after.penalty) < np.median(before.log_edp + weight * before.penalty) - 0.3
    assert int(state.step) == 200


def test_the_same_seed_gives_the_same_state_however_the_steps_are_cut():
    problem = pack_problem(pair(), ROOMY, OPTIONS)
    whole = step(problem, OPTIONS, init(problem, OPTIONS, 5), 30)
    cut = step(problem, OPTIONS, step(problem, OPTIONS, init(problem, OPTIONS, 5), 10), 20)
    other = step(problem, OPTIONS, init(problem, OPTIONS, 6), 30)
    for a, b in zip(jax.tree.leaves(whole.params), jax.tree.leaves(cut.params), strict=True):
        assert np.array_equal(a, b)
    assert not np.array_equal(whole.params.log_factors, other.params.log_factors)


def test_sigma_rises_where_fusing_helps_and_falls_where_nothing_fits():
    # The defaults let the decoder repair what does not fit; strong penalties must keep sigma down by themselves.
    strong = replace(OPTIONS, p_mem=10.0, p_align=1.0)
    _, helps = descend(pair(), ROOMY, strong)
    _, forbidden = descend(pair(), TIGHT, strong)
    assert np.median(helps.sigma[:, 0]) > 0.8
    fused = helps.sigma[:, 0] > 0.5
    assert (helps.trips[fused][:, :, 0] == helps.trips[fused][:, :, 1]).all(axis=1).mean() > 0.7
    assert forbidden.sigma.max() < 0.3


def test_a_known_mapping_is_where_the_first_restart_stands():
    workload, options = pair(), replace(OPTIONS, fuse=True)
    _, found = descend(workload, ROOMY, options)
    problem = pack_problem(workload, ROOMY, options)
    start = read_out(problem, options, init(problem, options, 0, starts=found.factors[:1]))
    assert np.array_equal(start.factors[0][0], found.factors[0][0])


def test_another_network_of_similar_size_compiles_nothing():
    compiled: Callable[[], int] = _descend._cache_size
    descend(pair(8), ROOMY, OPTIONS)
    before = compiled()
    descend(pair(6), replace(ROOMY, l2_bytes=1000), replace(OPTIONS, steps=5, learning_rate=0.2, p_align=0.0))
    assert compiled() == before


def test_edges_between_different_repeats_are_never_fused():
    first, second = pair().layers
    workload = Workload("repeats", (first, replace(second, repeat=3)))
    _, found = descend(workload, ROOMY, OPTIONS)
    assert (found.sigma == 0).all()


def test_an_edge_that_cannot_be_fused_has_sigma_0_and_no_gradient():
    first, second = pair().layers
    workload = Workload("apart", (first, replace(second, inputs=(Input("a", fusible=False),))))
    _, found = descend(workload, ROOMY, OPTIONS)
    assert (found.sigma == 0).all()
    problem = pack_problem(workload, ROOMY, OPTIONS)
    start = init(problem, OPTIONS, 0)
    after = step(problem, OPTIONS, start, 20)
    assert not np.array_equal(start.params.log_factors, after.params.log_factors)
    assert np.array_equal(start.params.sigma_logits, after.params.sigma_logits)


@pytest.fixture
def quick_compilation():
    """Few steps run: compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    "options",
    [
        DescentOptions(
            restarts=4, steps=20, choice="divisors", distance="linear", hinge="squared", orders="best",
            log_objective=False, gradient="exact",
        ),
        DescentOptions(restarts=4, steps=20, straight_through=False, objective="latency", fuse=False),
    ],
    ids=["as in the paper", "soft forward, latency, unfused"],
)  # fmt: skip
def test_other_forms_also_descend_to_exact_factorizations(options: DescentOptions):
    state, found = descend(pair(), ROOMY, options)
    assert leaves_are_finite(state)
    for i, layer in enumerate(pair().layers):
        assert (found.factors[..., i].prod(axis=1) == layer.dims).all()
    assert (found.factors[:, 4, 4] % found.trips[:, 2] == 0).all()
